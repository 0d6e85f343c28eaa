//! The first eight bytes of a connection (§4.2.2).
//!
//! ```text
//! | A M Q P | 0 | 0 9 1 |
//! ```

/// The header of AMQP 0-9-1: what a client begins with, and what is answered to any other beginning.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolHeader {
    /// So far it is as it must be, and not whole.
    Partial,
    /// AMQP 0-9-1; frames follow behind `PROTOCOL_HEADER.len()` bytes.
    Accepted,
    /// Something else: send `PROTOCOL_HEADER` and close (§4.2.2).
    Refused,
}

impl ProtocolHeader {
    /// Looks at the first bytes of a connection. Something else is known by its first byte that differs.
    pub fn check(bytes: &[u8]) -> ProtocolHeader {
        let seen = &bytes[..bytes.len().min(PROTOCOL_HEADER.len())];
        if !PROTOCOL_HEADER.starts_with(seen) {
            ProtocolHeader::Refused
        } else if seen.len() < PROTOCOL_HEADER.len() {
            ProtocolHeader::Partial
        } else {
            ProtocolHeader::Accepted
        }
    }
}
