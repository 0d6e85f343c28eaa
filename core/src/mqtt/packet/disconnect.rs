//! DISCONNECT (§3.14): of a client, and in MQTT 5 of the broker.

use super::frame::{put_remaining_length, whole_bytes};
use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::reason::ReasonCode;
use super::violation::Violation;
use super::{Packet, ProtocolLevel};
use alloc::vec::Vec;
use bytes::BufMut;

/// A client's DISCONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnect {
    /// The client wants its will to be published (0x04, or that something went wrong).
    pub keeps_will: bool,
    /// Seconds that the session stays from now on, if that changes.
    pub session_expiry_s: Option<u32>,
}

/// Reasons that a client may give (table 3-10).
const REASONS: [u8; 14] =
    [0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99];

pub(super) fn decode(body: &[u8], level: ProtocolLevel) -> Result<Packet<'_>, Violation> {
    let mut disconnect = Disconnect::default();
    let mut reader = Reader::new(body);
    if level == ProtocolLevel::V5 && !reader.is_empty() {
        let reason = reader.byte()?;
        if !REASONS.contains(&reason) {
            return Err(Violation::ReasonCodeUnknown);
        }
        disconnect.keeps_will = reason != 0;
        if !reader.is_empty() {
            property::read(&mut reader, Allowed::DISCONNECT, |property| {
                if let Property::SessionExpiry(seconds) = property {
                    disconnect.session_expiry_s = Some(seconds);
                }
            })?;
        }
    }
    reader.end()?;
    Ok(Packet::Disconnect(disconnect))
}

/// The broker's DISCONNECT to a client of MQTT 5, in at most `most` bytes: the words are left out where they do not
/// fit [MQTT-3.14.2-3].
pub fn encode(reason: ReasonCode, words: &str, most: usize) -> Vec<u8> {
    let mut properties = Vec::new();
    property::put_reason(&mut properties, words);
    let length = 1 + property::variable_bytes(properties.len()) + properties.len();
    if whole_bytes(length) > most {
        return Vec::from([0xe0, 1, reason as u8]);
    }
    let mut out = Vec::with_capacity(length + 5);
    out.put_u8(0xe0);
    put_remaining_length(&mut out, length);
    out.put_u8(reason as u8);
    put_remaining_length(&mut out, properties.len());
    out.put_slice(&properties);
    out
}
