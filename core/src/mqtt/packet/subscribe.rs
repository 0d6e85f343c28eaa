//! SUBSCRIBE (§3.8).

use super::reader::Reader;
use super::violation::Violation;
use super::{PacketId, QoS};
use crate::mqtt::topic::TopicFilter;
use alloc::vec::Vec;

/// A SUBSCRIBE packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Its identifier.
    pub packet_id: PacketId,
    /// At least one filter with the QoS asked for, in their order [MQTT-3.8.4-4].
    pub filters: Vec<(TopicFilter<'a>, QoS)>,
}

impl<'a> Subscribe<'a> {
    pub(super) fn decode(body: &'a [u8]) -> Result<Subscribe<'a>, Violation> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut filters = Vec::new();
        while !reader.is_empty() {
            let filter = TopicFilter::new(reader.string()?)?; // [MQTT-3.8.3-1]
            let qos = QoS::from_bits(reader.byte()?).ok_or(Violation::SubscribeQoS)?; // [MQTT-3-8.3-4]
            filters.push((filter, qos));
        }
        if filters.is_empty() {
            return Err(Violation::SubscribeEmpty); // [MQTT-3.8.3-3]
        }
        Ok(Subscribe { packet_id, filters })
    }
}
