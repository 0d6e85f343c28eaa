//! UNSUBSCRIBE (§3.10).

use super::property::{self, Allowed};
use super::reader::Reader;
use super::violation::Violation;
use super::{PacketId, ProtocolLevel};
use crate::mqtt::topic::TopicFilter;
use alloc::vec::Vec;

/// An UNSUBSCRIBE packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Its packet identifier.
    pub packet_id: PacketId,
    /// At least one filter. In MQTT 5 one that is not valid is refused by itself.
    pub filters: Vec<Result<TopicFilter<'a>, Violation>>,
}

impl<'a> Unsubscribe<'a> {
    pub(super) fn decode(body: &'a [u8], level: ProtocolLevel) -> Result<Unsubscribe<'a>, Violation> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        if level == ProtocolLevel::V5 {
            property::read(&mut reader, Allowed::UNSUBSCRIBE, |_| ())?;
        }
        let mut filters = Vec::new();
        while !reader.is_empty() {
            let filter = TopicFilter::asked_for(reader.string()?); // [MQTT-3.10.3-1]
            if level != ProtocolLevel::V5 {
                filter?;
            }
            filters.push(filter);
        }
        if filters.is_empty() {
            return Err(Violation::UnsubscribeEmpty); // [MQTT-3.10.3-2]
        }
        Ok(Unsubscribe { packet_id, filters })
    }
}
