//! PUBLISH (§3.3).
//!
//! ```text
//! | 3 | dup 8, QoS 6, retain 1 | remaining length | topic name | [packet id, QoS 1 and 2] | payload |
//! ```

use super::frame::{put_binary, put_remaining_length};
use super::reader::Reader;
use super::violation::Violation;
use super::{PacketId, QoS};
use crate::mqtt::topic::TopicName;
use bytes::BufMut;

/// A PUBLISH packet, in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// May have been sent before (§3.3.1.1).
    pub dup: bool,
    /// Whether it is, or is to be, retained (§3.3.1.3).
    pub retain: bool,
    /// Where to.
    pub topic: TopicName<'a>,
    /// How, with the packet identifier where there is one.
    pub delivery: Delivery,
    /// The body: any bytes, none included.
    pub payload: &'a [u8],
}

/// QoS, and the packet identifier that goes with it. [MQTT-2.3.1-5]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce(PacketId),
    /// QoS 2.
    ExactlyOnce(PacketId),
}

impl Delivery {
    /// The QoS alone.
    pub fn qos(self) -> QoS {
        match self {
            Delivery::AtMostOnce => QoS::AtMostOnce,
            Delivery::AtLeastOnce(_) => QoS::AtLeastOnce,
            Delivery::ExactlyOnce(_) => QoS::ExactlyOnce,
        }
    }

    /// The packet identifier alone.
    pub fn packet_id(self) -> Option<PacketId> {
        match self {
            Delivery::AtMostOnce => None,
            Delivery::AtLeastOnce(id) | Delivery::ExactlyOnce(id) => Some(id),
        }
    }
}

impl<'a> Publish<'a> {
    pub(super) fn decode(flags: u8, body: &'a [u8]) -> Result<Publish<'a>, Violation> {
        let dup = flags & 0x08 != 0;
        let qos = QoS::from_bits((flags >> 1) & 0x03).ok_or(Violation::QoSBothBits)?; // [MQTT-3.3.1-4]
        let mut reader = Reader::new(body);
        let topic = TopicName::new(reader.string()?)?; // [MQTT-3.3.2-1], [MQTT-3.3.2-2]
        let delivery = match qos {
            QoS::AtMostOnce if dup => return Err(Violation::DupWithQoS0), // [MQTT-3.3.1-2]
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(reader.packet_id()?),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(reader.packet_id()?),
        };
        Ok(Publish { dup, retain: flags & 0x01 != 0, topic, delivery, payload: reader.rest() })
    }
}

/// Appends all of a PUBLISH packet but its payload of `payload_bytes` bytes, which must follow.
pub fn put_header(
    out: &mut impl BufMut,
    topic: &[u8],
    delivery: Delivery,
    dup: bool,
    retain: bool,
    payload_bytes: usize,
) {
    let dup = dup && delivery.qos() != QoS::AtMostOnce; // [MQTT-3.3.1-2]
    out.put_u8(0x30 | (u8::from(dup) << 3) | ((delivery.qos() as u8) << 1) | u8::from(retain));
    let id_bytes = if delivery.packet_id().is_some() { 2 } else { 0 };
    put_remaining_length(out, 2 + topic.len() + id_bytes + payload_bytes);
    put_binary(out, topic);
    if let Some(id) = delivery.packet_id() {
        out.put_u16(id.get());
    }
}
