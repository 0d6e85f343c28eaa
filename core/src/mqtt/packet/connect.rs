//! CONNECT (§3.1).
//!
//! ```text
//! | protocol name | level | flags | keep alive | (properties) | client id | [(properties) | will topic | will message] | [user name] | [password] |
//! flags: user name 80, password 40, will retain 20, will QoS 18, will 04, clean session 02, reserved 01
//! properties: MQTT 5 only
//! ```

use super::message_properties::MessageProperties;
use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use super::{ProtocolLevel, QoS};
use crate::mqtt::topic::TopicName;

/// A CONNECT packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version, or the level that this broker does not speak.
    pub level: Result<ProtocolLevel, u8>,
    /// Whether the session begins anew; in MQTT 3 it also ends with the connection then (§3.1.2.4).
    pub clean_session: bool,
    /// Seconds; 0 turns the keep-alive off (§3.1.2.10).
    pub keep_alive_s: u16,
    /// What else the client asks for.
    pub terms: Terms<'a>,
    /// May be empty.
    pub client_id: &'a str,
    /// The will, if any.
    pub will: Option<Will<'a>>,
    /// The user name, if any.
    pub user_name: Option<&'a str>,
    /// The password, if any.
    pub password: Option<&'a [u8]>,
}

/// What a client of MQTT 5 asks for (§3.1.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// Seconds that the session outlives its connection; `u32::MAX`: for ever.
    pub session_expiry_s: u32,
    /// Unacknowledged QoS 1 and 2 messages that the client takes at once.
    pub receive_maximum: u16,
    /// Bytes of the largest packet that it takes.
    pub maximum_packet_bytes: u32,
    /// The highest topic alias that it takes.
    pub topic_alias_maximum: u16,
    /// Whether it asks where answers should go.
    pub wants_response_information: bool,
    /// Whether it wants reasons in words.
    pub wants_problem_information: bool,
    /// How it wants to prove who it is.
    pub authentication_method: Option<&'a str>,
    /// What it proves it with.
    pub authentication_data: Option<&'a [u8]>,
}

impl Default for Terms<'_> {
    /// Those of who does not ask for anything.
    fn default() -> Self {
        Terms {
            session_expiry_s: 0,
            receive_maximum: u16::MAX,
            maximum_packet_bytes: u32::MAX,
            topic_alias_maximum: 0,
            wants_response_information: false,
            wants_problem_information: true,
            authentication_method: None,
            authentication_data: None,
        }
    }
}

/// The message to be published when the client goes without saying goodbye (§3.1.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Where to.
    pub topic: TopicName<'a>,
    /// The body.
    pub payload: &'a [u8],
    /// The QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Its properties.
    pub properties: MessageProperties<'a>,
}

impl<'a> Connect<'a> {
    pub(super) fn decode(body: &'a [u8]) -> Result<Connect<'a>, Violation> {
        let mut reader = Reader::new(body);
        let name = reader.string()?;
        let number = reader.byte()?;
        let level = match (name, number) {
            ("MQIsdp", 3) => Ok(ProtocolLevel::V3_1),
            ("MQTT", 4) => Ok(ProtocolLevel::V3_1_1),
            ("MQTT", 5) => Ok(ProtocolLevel::V5),
            ("MQTT" | "MQIsdp", other) => Err(other),
            _ => return Err(Violation::ProtocolName), // [MQTT-3.1.2-1]
        };
        let Ok(version) = level else {
            // The rest may have another shape: it is answered, not read. [MQTT-3.1.2-2]
            return Ok(Connect::unknown_level(number));
        };
        let flags = reader.byte()?;
        check_flags(flags, version)?;
        let keep_alive_s = reader.u16()?;
        let terms = match version {
            ProtocolLevel::V5 => read_terms(&mut reader)?,
            ProtocolLevel::V3_1 | ProtocolLevel::V3_1_1 => Terms::default(),
        };
        let client_id = reader.string()?; // [MQTT-3.1.3-1..4]
        let will = if flags & 0x04 != 0 { Some(decode_will(&mut reader, flags, version)?) } else { None };
        let user_name = if flags & 0x80 != 0 { Some(reader.string()?) } else { None };
        let password = if flags & 0x40 != 0 { Some(reader.binary()?) } else { None };
        reader.end()?;
        let clean_session = flags & 0x02 != 0;
        Ok(Connect { level, clean_session, keep_alive_s, terms, client_id, will, user_name, password })
    }

    fn unknown_level(number: u8) -> Connect<'a> {
        Connect {
            level: Err(number),
            clean_session: true,
            keep_alive_s: 0,
            terms: Terms::default(),
            client_id: "",
            will: None,
            user_name: None,
            password: None,
        }
    }
}

fn read_terms<'a>(reader: &mut Reader<'a>) -> Result<Terms<'a>, Violation> {
    let mut terms = Terms::default();
    property::read(reader, Allowed::CONNECT, |property| match property {
        Property::SessionExpiry(seconds) => terms.session_expiry_s = seconds,
        Property::ReceiveMaximum(number) => terms.receive_maximum = number,
        Property::MaximumPacketSize(bytes) => terms.maximum_packet_bytes = bytes,
        Property::TopicAliasMaximum(number) => terms.topic_alias_maximum = number,
        Property::RequestResponseInformation(flag) => terms.wants_response_information = flag,
        Property::RequestProblemInformation(flag) => terms.wants_problem_information = flag,
        Property::AuthenticationMethod(method) => terms.authentication_method = Some(method),
        Property::AuthenticationData(data) => terms.authentication_data = Some(data),
        _ => {}
    })?;
    if terms.authentication_data.is_some() && terms.authentication_method.is_none() {
        return Err(Violation::AuthenticationDataAlone);
    }
    Ok(terms)
}

/// Whether the body of a CONNECT says that it is one of MQTT 5, whatever is wrong with the rest.
pub fn claims_mqtt_5(body: &[u8]) -> bool {
    body.starts_with(b"\x00\x04MQTT\x05")
}

fn check_flags(flags: u8, version: ProtocolLevel) -> Result<(), Violation> {
    let will = flags & 0x04 != 0;
    let will_qos = (flags >> 3) & 0x03;
    if flags & 0x01 != 0 {
        return Err(Violation::ConnectReservedFlag); // [MQTT-3.1.2-3]
    }
    if !will && will_qos != 0 {
        return Err(Violation::WillQoSWithoutWill); // [MQTT-3.1.2-11], [MQTT-3.1.2-13]
    }
    if will_qos == 3 {
        return Err(Violation::WillQoSBothBits); // [MQTT-3.1.2-14]
    }
    if !will && flags & 0x20 != 0 {
        return Err(Violation::WillRetainWithoutWill); // [MQTT-3.1.2-15]
    }
    if flags & 0x40 != 0 && flags & 0x80 == 0 && version != ProtocolLevel::V5 {
        return Err(Violation::PasswordWithoutUserName); // [MQTT-3.1.2-22]; MQTT 5 allows it (§3.1.2.9)
    }
    Ok(())
}

fn decode_will<'a>(
    reader: &mut Reader<'a>,
    flags: u8,
    version: ProtocolLevel,
) -> Result<Will<'a>, Violation> {
    let properties = match version {
        ProtocolLevel::V5 => MessageProperties::read(reader, Allowed::WILL)?,
        ProtocolLevel::V3_1 | ProtocolLevel::V3_1_1 => MessageProperties::default(),
    };
    let topic = TopicName::new(reader.string()?)?; // [MQTT-3.1.3-10]
    let payload = reader.binary()?;
    let qos = QoS::from_bits((flags >> 3) & 0x03).ok_or(Violation::WillQoSBothBits)?;
    Ok(Will { topic, payload, qos, retain: flags & 0x20 != 0, properties })
}
