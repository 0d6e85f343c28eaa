//! AUTH (MQTT 5 §3.15).

use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use super::{Packet, ProtocolLevel};

/// An AUTH packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Re-authentication begins with it (0x19).
    pub again: bool,
    /// The method.
    pub method: Option<&'a str>,
    /// What the method says.
    pub data: Option<&'a [u8]>,
}

pub(super) fn decode(body: &[u8], level: ProtocolLevel) -> Result<Packet<'_>, Violation> {
    if level != ProtocolLevel::V5 {
        return Err(Violation::ReservedPacketType);
    }
    let mut reader = Reader::new(body);
    let mut auth = Auth { again: false, method: None, data: None };
    if !reader.is_empty() {
        auth.again = match reader.byte()? {
            0x19 => true,
            0x00 | 0x18 => false,
            _ => return Err(Violation::ReasonCodeUnknown), // [MQTT-3.15.2-1]
        };
        if !reader.is_empty() {
            property::read(&mut reader, Allowed::AUTH, |property| match property {
                Property::AuthenticationMethod(method) => auth.method = Some(method),
                Property::AuthenticationData(data) => auth.data = Some(data),
                _ => {}
            })?;
        }
    }
    reader.end()?;
    Ok(Packet::Auth(auth))
}
