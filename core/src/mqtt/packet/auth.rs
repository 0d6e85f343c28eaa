//! AUTH (MQTT 5 §3.15).

use super::frame::put_remaining_length;
use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use super::{Packet, ProtocolLevel};
use alloc::vec::Vec;
use bytes::BufMut;

/// An AUTH packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// What it is for.
    pub reason: AuthReason,
    /// The method.
    pub method: Option<&'a str>,
    /// What the method says.
    pub data: Option<&'a [u8]>,
}

/// What an AUTH packet is for (table 3-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthReason {
    /// The exchange is over, and well. Only servers send it.
    Success = 0x00,
    /// Another step of an exchange.
    Continue = 0x18,
    /// A client that is connected begins another exchange.
    Again = 0x19,
}

pub(super) fn decode(body: &[u8], level: ProtocolLevel) -> Result<Packet<'_>, Violation> {
    if level != ProtocolLevel::V5 {
        return Err(Violation::ReservedPacketType);
    }
    let mut reader = Reader::new(body);
    let mut auth = Auth { reason: AuthReason::Success, method: None, data: None };
    if !reader.is_empty() {
        auth.reason = match reader.byte()? {
            0x00 => AuthReason::Success,
            0x18 => AuthReason::Continue,
            0x19 => AuthReason::Again,
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

/// The packet of a server.
pub fn encode(reason: AuthReason, method: &str, data: &[u8]) -> Vec<u8> {
    let mut properties = Vec::new();
    property::put_authentication(&mut properties, method, data);
    let mut out = Vec::with_capacity(properties.len() + 12);
    out.put_u8(0xf0);
    put_remaining_length(&mut out, 1 + property::variable_bytes(properties.len()) + properties.len());
    out.put_u8(reason as u8);
    put_remaining_length(&mut out, properties.len());
    out.put_slice(&properties);
    out
}
