//! PUBLISH (§3.3).
//!
//! ```text
//! | 3 | dup 8, QoS 6, retain 1 | remaining length | topic name | [packet id, QoS 1 and 2] | (properties: MQTT 5) | payload |
//! ```

use super::frame::{put_binary, put_remaining_length};
use super::message_properties::MessageProperties;
use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use super::{PacketId, ProtocolLevel, QoS};
use crate::mqtt::topic::TopicName;
use alloc::vec::Vec;
use bytes::BufMut;

/// A PUBLISH packet, in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// May have been sent before (§3.3.1.1).
    pub dup: bool,
    /// Whether it is, or is to be, retained (§3.3.1.3).
    pub retain: bool,
    /// Where to; none: where its topic alias leads.
    pub topic: Option<TopicName<'a>>,
    /// How, with the packet identifier where there is one.
    pub delivery: Delivery,
    /// What else it carries.
    pub properties: MessageProperties<'a>,
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
    pub(super) fn decode(flags: u8, body: &'a [u8], level: ProtocolLevel) -> Result<Publish<'a>, Violation> {
        let dup = flags & 0x08 != 0;
        let qos = QoS::from_bits((flags >> 1) & 0x03).ok_or(Violation::QoSBothBits)?; // [MQTT-3.3.1-4]
        let mut reader = Reader::new(body);
        let name = reader.string()?;
        let delivery = match qos {
            QoS::AtMostOnce if dup => return Err(Violation::DupWithQoS0), // [MQTT-3.3.1-2]
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(reader.packet_id()?),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(reader.packet_id()?),
        };
        let properties = match level {
            ProtocolLevel::V5 => MessageProperties::read(&mut reader, Allowed::PUBLISH)?,
            ProtocolLevel::V3_1 | ProtocolLevel::V3_1_1 => MessageProperties::default(),
        };
        let topic = match properties.topic_alias {
            Some(_) if name.is_empty() => None,
            _ => Some(TopicName::new(name)?), // [MQTT-3.3.2-1], [MQTT-3.3.2-2]
        };
        Ok(Publish { dup, retain: flags & 0x01 != 0, topic, delivery, properties, payload: reader.rest() })
    }
}

impl Publish<'_> {
    /// The topic name; empty where an alias stands for it.
    pub fn name(&self) -> &str {
        self.topic.map_or("", TopicName::as_str)
    }

    /// The packet of MQTT 5, with its topic and without an alias.
    pub fn encode(&self) -> Vec<u8> {
        let forwarded = self.properties.forwarded();
        let expiry_s = self.properties.expiry_s;
        let says = ToSubscriber { forwarded: &forwarded, expiry_s, ..ToSubscriber::default() };
        let topic = self.name().as_bytes();
        let mut out = Vec::with_capacity(says.packet_bytes(topic, self.delivery, self.payload.len()));
        put_header_v5(&mut out, topic, self.delivery, self.dup, self.retain, &says, self.payload.len());
        out.put_slice(self.payload);
        out
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

/// What a PUBLISH of MQTT 5 to a subscriber says beside what was published.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToSubscriber<'a> {
    /// The properties that are forwarded.
    pub forwarded: &'a [u8],
    /// Seconds that are left of its expiry. [MQTT-3.3.2-6]
    pub expiry_s: Option<u32>,
    /// The numbers of the subscriptions that it matches. [MQTT-3.3.4-3]
    pub identifiers: &'a [u32],
    /// The alias of its topic.
    pub topic_alias: Option<u16>,
}

impl ToSubscriber<'_> {
    fn bytes(&self) -> usize {
        let identifiers = self.identifiers.iter().map(|id| 1 + property::variable_bytes(*id as usize));
        self.forwarded.len()
            + self.expiry_s.map_or(0, |_| 5)
            + self.topic_alias.map_or(0, |_| 3)
            + identifiers.sum::<usize>()
    }

    fn put(&self, out: &mut impl BufMut) {
        if let Some(seconds) = self.expiry_s {
            property::put(out, &Property::MessageExpiry(seconds));
        }
        if let Some(alias) = self.topic_alias {
            property::put(out, &Property::TopicAlias(alias));
        }
        for id in self.identifiers {
            property::put(out, &Property::SubscriptionIdentifier(*id));
        }
        out.put_slice(self.forwarded);
    }

    /// Bytes of the whole packet.
    pub fn packet_bytes(&self, topic: &[u8], delivery: Delivery, payload_bytes: usize) -> usize {
        let length = self.remaining_length(topic, delivery, payload_bytes);
        1 + property::variable_bytes(length) + length
    }

    fn remaining_length(&self, topic: &[u8], delivery: Delivery, payload_bytes: usize) -> usize {
        let id_bytes = if delivery.packet_id().is_some() { 2 } else { 0 };
        let bytes = self.bytes();
        2 + topic.len() + id_bytes + property::variable_bytes(bytes) + bytes + payload_bytes
    }
}

/// Appends all of a PUBLISH packet of MQTT 5 but its payload of `payload_bytes` bytes, which must follow.
pub fn put_header_v5(
    out: &mut impl BufMut,
    topic: &[u8],
    delivery: Delivery,
    dup: bool,
    retain: bool,
    says: &ToSubscriber<'_>,
    payload_bytes: usize,
) {
    let dup = dup && delivery.qos() != QoS::AtMostOnce; // [MQTT-3.3.1-2]
    out.put_u8(0x30 | (u8::from(dup) << 3) | ((delivery.qos() as u8) << 1) | u8::from(retain));
    put_remaining_length(out, says.remaining_length(topic, delivery, payload_bytes));
    put_binary(out, topic);
    if let Some(id) = delivery.packet_id() {
        out.put_u16(id.get());
    }
    put_remaining_length(out, says.bytes());
    says.put(out);
}
