//! CONNACK (§3.2).

use super::frame::{put_remaining_length, whole_bytes};
use super::property;
use super::reason::ReasonCode;
use alloc::vec::Vec;
use bytes::BufMut;

/// The answer of MQTT 3 to CONNECT (table 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ConnectReturnCode {
    /// Connection accepted.
    Accepted = 0,
    /// The server does not support this level of the protocol.
    UnacceptableProtocolVersion = 1,
    /// The client identifier is correct UTF-8 but not allowed.
    IdentifierRejected = 2,
    /// The service is unavailable.
    ServerUnavailable = 3,
    /// User name or password are wrong.
    BadUserNameOrPassword = 4,
    /// The client may not connect.
    NotAuthorized = 5,
}

impl ConnectReturnCode {
    /// What MQTT 3 has for a reason of MQTT 5, if it has anything.
    pub fn of(reason: ReasonCode) -> Option<ConnectReturnCode> {
        match reason {
            ReasonCode::Success => Some(ConnectReturnCode::Accepted),
            ReasonCode::UnsupportedProtocolVersion => Some(ConnectReturnCode::UnacceptableProtocolVersion),
            ReasonCode::ClientIdentifierNotValid => Some(ConnectReturnCode::IdentifierRejected),
            ReasonCode::ServerUnavailable | ReasonCode::ServerBusy | ReasonCode::QuotaExceeded => {
                Some(ConnectReturnCode::ServerUnavailable)
            }
            ReasonCode::BadUserNameOrPassword => Some(ConnectReturnCode::BadUserNameOrPassword),
            ReasonCode::NotAuthorized => Some(ConnectReturnCode::NotAuthorized),
            _ => None,
        }
    }
}

/// The packet of MQTT 3. Session present is 0 unless accepted [MQTT-3.2.2-4].
pub fn encode(code: ConnectReturnCode, session_present: bool) -> [u8; 4] {
    let present = session_present && code == ConnectReturnCode::Accepted;
    [0x20, 2, u8::from(present), code as u8]
}

/// What the broker tells an accepted client of MQTT 5 (§3.2.2.3). What is left out is as the specification has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms<'a> {
    /// Unacknowledged QoS 1 and 2 messages that the broker takes at once.
    pub receive_maximum: u16,
    /// Bytes of the largest packet that it takes.
    pub maximum_packet_bytes: Option<u32>,
    /// The highest topic alias that it takes.
    pub topic_alias_maximum: u16,
    /// The identifier that it gave the client. [MQTT-3.2.2-16]
    pub assigned_client_id: Option<&'a str>,
    /// The keep-alive that holds instead of the client's, in seconds.
    pub server_keep_alive_s: Option<u16>,
    /// Where answers should go.
    pub response_information: Option<&'a str>,
    /// The authentication method of the client, and its last data; no data where that is empty. [MQTT-4.12.0-5]
    pub authentication: Option<(&'a str, &'a [u8])>,
}

/// The properties of a packet of MQTT 5 that accepts.
pub fn properties(terms: &Terms<'_>) -> Vec<u8> {
    let mut properties = Vec::new();
    if terms.receive_maximum != u16::MAX {
        property::put(&mut properties, &property::Property::ReceiveMaximum(terms.receive_maximum));
    }
    if let Some(bytes) = terms.maximum_packet_bytes {
        property::put(&mut properties, &property::Property::MaximumPacketSize(bytes));
    }
    if terms.topic_alias_maximum > 0 {
        property::put(&mut properties, &property::Property::TopicAliasMaximum(terms.topic_alias_maximum));
    }
    if let Some(id) = terms.assigned_client_id {
        property::put_assigned_client_id(&mut properties, id);
    }
    if let Some(seconds) = terms.server_keep_alive_s {
        property::put_server_keep_alive(&mut properties, seconds);
    }
    if let Some(text) = terms.response_information {
        property::put_response_information(&mut properties, text);
    }
    if let Some((method, data)) = terms.authentication {
        property::put_authentication(&mut properties, method, data);
    }
    properties
}

/// Bytes of a packet of MQTT 5 with these properties.
pub fn bytes_with(properties: &[u8]) -> usize {
    whole_bytes(body_bytes(properties))
}

/// The packet of MQTT 5 that accepts.
pub fn encode_accepted(session_present: bool, properties: &[u8]) -> Vec<u8> {
    encode_v5(session_present, ReasonCode::Success, properties)
}

/// The packet of MQTT 5 that refuses [MQTT-3.2.2-6], in at most `most` bytes: the words are left out where they do not
/// fit [MQTT-3.2.2-19]. None: not even the code fits.
pub fn encode_refused(reason: ReasonCode, words: &str, most: usize) -> Option<Vec<u8>> {
    let mut properties = Vec::new();
    property::put_reason(&mut properties, words);
    if bytes_with(&properties) > most {
        properties.clear();
    }
    (bytes_with(&properties) <= most).then(|| encode_v5(false, reason, &properties))
}

/// Acknowledge flags, reason code, properties with their length.
fn body_bytes(properties: &[u8]) -> usize {
    2 + property::variable_bytes(properties.len()) + properties.len()
}

fn encode_v5(session_present: bool, reason: ReasonCode, properties: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(properties.len() + 10);
    out.put_u8(0x20);
    put_remaining_length(&mut out, body_bytes(properties));
    out.put_slice(&[u8::from(session_present), reason as u8]);
    put_remaining_length(&mut out, properties.len());
    out.put_slice(properties);
    out
}
