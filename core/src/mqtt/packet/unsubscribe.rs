//! UNSUBSCRIBE (§3.10).

use super::PacketId;
use super::reader::Reader;
use super::violation::Violation;
use crate::mqtt::topic::TopicFilter;
use alloc::vec::Vec;

/// An UNSUBSCRIBE packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Its identifier.
    pub packet_id: PacketId,
    /// At least one filter.
    pub filters: Vec<TopicFilter<'a>>,
}

impl<'a> Unsubscribe<'a> {
    pub(super) fn decode(body: &'a [u8]) -> Result<Unsubscribe<'a>, Violation> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut filters = Vec::new();
        while !reader.is_empty() {
            filters.push(TopicFilter::new(reader.string()?)?); // [MQTT-3.10.3-1]
        }
        if filters.is_empty() {
            return Err(Violation::UnsubscribeEmpty); // [MQTT-3.10.3-2]
        }
        Ok(Unsubscribe { packet_id, filters })
    }
}
