//! CONNECT (§3.1).
//!
//! ```text
//! | protocol name | level | flags | keep alive | client id | [will topic | will message] | [user name] | [password] |
//! flags: user name 80, password 40, will retain 20, will QoS 18, will 04, clean session 02, reserved 01
//! ```

use super::reader::Reader;
use super::violation::Violation;
use super::{ProtocolLevel, QoS};
use crate::mqtt::topic::TopicName;

/// A CONNECT packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version, or the level that this broker does not speak.
    pub level: Result<ProtocolLevel, u8>,
    /// Whether the session begins anew and ends with the connection (§3.1.2.4).
    pub clean_session: bool,
    /// Seconds; 0 turns the keep-alive off (§3.1.2.10).
    pub keep_alive_s: u16,
    /// May be empty.
    pub client_id: &'a str,
    /// The will, if any.
    pub will: Option<Will<'a>>,
    /// The user name, if any.
    pub user_name: Option<&'a str>,
    /// The password, if any.
    pub password: Option<&'a [u8]>,
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
}

impl<'a> Connect<'a> {
    pub(super) fn decode(body: &'a [u8]) -> Result<Connect<'a>, Violation> {
        let mut reader = Reader::new(body);
        let name = reader.string()?;
        let number = reader.byte()?;
        let level = match (name, number) {
            ("MQIsdp", 3) => Ok(ProtocolLevel::V3_1),
            ("MQTT", 4) => Ok(ProtocolLevel::V3_1_1),
            ("MQTT" | "MQIsdp", other) => Err(other),
            _ => return Err(Violation::ProtocolName), // [MQTT-3.1.2-1]
        };
        if level.is_err() {
            // The rest may have another shape: it is answered, not read. [MQTT-3.1.2-2]
            return Ok(Connect::unknown_level(number));
        }
        let flags = reader.byte()?;
        check_flags(flags)?;
        let keep_alive_s = reader.u16()?;
        let client_id = reader.string()?; // [MQTT-3.1.3-1..4]
        let will = if flags & 0x04 != 0 { Some(decode_will(&mut reader, flags)?) } else { None };
        let user_name = if flags & 0x80 != 0 { Some(reader.string()?) } else { None };
        let password = if flags & 0x40 != 0 { Some(reader.binary()?) } else { None };
        reader.end()?;
        let clean_session = flags & 0x02 != 0;
        Ok(Connect { level, clean_session, keep_alive_s, client_id, will, user_name, password })
    }

    fn unknown_level(number: u8) -> Connect<'a> {
        Connect {
            level: Err(number),
            clean_session: true,
            keep_alive_s: 0,
            client_id: "",
            will: None,
            user_name: None,
            password: None,
        }
    }
}

fn check_flags(flags: u8) -> Result<(), Violation> {
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
    if flags & 0x40 != 0 && flags & 0x80 == 0 {
        return Err(Violation::PasswordWithoutUserName); // [MQTT-3.1.2-22]
    }
    Ok(())
}

fn decode_will<'a>(reader: &mut Reader<'a>, flags: u8) -> Result<Will<'a>, Violation> {
    let topic = TopicName::new(reader.string()?)?; // [MQTT-3.1.3-10]
    let payload = reader.binary()?;
    let qos = QoS::from_bits((flags >> 3) & 0x03).ok_or(Violation::WillQoSBothBits)?;
    Ok(Will { topic, payload, qos, retain: flags & 0x20 != 0 })
}
