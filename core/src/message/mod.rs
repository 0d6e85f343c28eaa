//! Messages: what a publisher sent, whatever its protocol, kept once however many queues refer to it.

mod cache;
pub mod store;
pub mod table;

use crate::amqp::bridge;
use crate::time::WallTime;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use bytes::Bytes;

/// The protocol whose words a message's properties are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Origin {
    /// MQTT without properties.
    Mqtt3 = 1,
    /// AMQP 0-9-1: the name of the exchange with its length before it, then the property flags and list (§4.2.6.1).
    Amqp = 2,
    /// MQTT 5: the properties that are forwarded, as they came (§3.3.2.3).
    Mqtt5 = 3,
}

impl Origin {
    /// Of an MQTT message with these properties.
    pub(crate) fn of_mqtt(properties: &[u8]) -> Origin {
        if properties.is_empty() { Origin::Mqtt3 } else { Origin::Mqtt5 }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Origin> {
        [Origin::Mqtt3, Origin::Amqp, Origin::Mqtt5].into_iter().find(|origin| *origin as u8 == byte)
    }
}

/// A message. Address, properties and body lie one behind the other in one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose words the properties are in.
    pub origin: Origin,
    /// The publisher's QoS (0 to 2); of an AMQP message 1 if it is persistent, else 0.
    pub level: u8,
    /// When it was published.
    pub published_at: WallTime,
    /// When it expires; 0 means never.
    pub expires_at: WallTime,
    data: Bytes,
    address_bytes: u32,
    properties_bytes: u32,
}

impl Message {
    /// A message that copies its parts.
    pub fn new(origin: Origin, level: u8, published_at: WallTime, parts: MessageParts<'_>) -> Message {
        let MessageParts { address, properties, body } = parts;
        let length = |part: &[u8]| u32::try_from(part.len()).expect("packets are shorter than 2^28 bytes");
        let mut data = Vec::with_capacity(address.len() + properties.len() + body.len());
        data.extend_from_slice(address);
        data.extend_from_slice(properties);
        data.extend_from_slice(body);
        Message {
            origin,
            level,
            published_at,
            expires_at: WallTime(0),
            data: data.into(),
            address_bytes: length(address),
            properties_bytes: length(properties),
        }
    }

    /// Bytes of all its parts.
    pub fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Topic name or routing key.
    pub fn address(&self) -> &[u8] {
        &self.data[..self.address_bytes as usize]
    }

    /// The topic name that MQTT subscribers see; empty if there is none.
    pub fn topic(&self) -> Cow<'_, str> {
        match self.origin {
            Origin::Mqtt3 | Origin::Mqtt5 => {
                Cow::Borrowed(core::str::from_utf8(self.address()).expect("topic names are UTF-8"))
            }
            Origin::Amqp => bridge::topic_of(self.address()).map_or(Cow::Borrowed(""), Cow::Owned),
        }
    }

    /// Properties in the words of its origin.
    pub fn properties(&self) -> &[u8] {
        &self.data[self.address_bytes as usize..self.body_from()]
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.data[self.body_from()..]
    }

    /// The body, sharing the message's memory.
    pub fn body_shared(&self) -> Bytes {
        self.data.slice(self.body_from()..)
    }

    fn body_from(&self) -> usize {
        self.address_bytes as usize + self.properties_bytes as usize
    }
}

/// What a message is made of.
#[derive(Clone, Copy, Debug)]
pub struct MessageParts<'a> {
    /// Topic name or routing key.
    pub address: &'a [u8],
    /// Properties in the words of the origin.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}
