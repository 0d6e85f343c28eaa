//! CONNACK (§3.2).

/// The answer to CONNECT (table 3.1).
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
}

/// The packet. Session present is 0 unless accepted [MQTT-3.2.2-4].
pub fn encode(code: ConnectReturnCode, session_present: bool) -> [u8; 4] {
    let present = session_present && code == ConnectReturnCode::Accepted;
    [0x20, 2, u8::from(present), code as u8]
}
