//! SUBSCRIBE (§3.8).

use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use super::{PacketId, ProtocolLevel, QoS};
use crate::mqtt::topic::TopicFilter;
use alloc::vec::Vec;

/// A SUBSCRIBE packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Its packet identifier.
    pub packet_id: PacketId,
    /// The number that deliveries for these subscriptions carry; 0 for none.
    pub identifier: u32,
    /// At least one filter with what is asked for, in their order [MQTT-3.8.4-4]. In MQTT 5 one that is not valid is
    /// refused by itself.
    pub filters: Vec<(Result<TopicFilter<'a>, Violation>, Options)>,
}

/// How a client wants the messages of a subscription (§3.8.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The highest QoS.
    pub qos: QoS,
    /// Not those that it published itself.
    pub no_local: bool,
    /// RETAIN is sent as it was published.
    pub retain_as_published: bool,
    /// When it wants what is retained.
    pub retained: RetainHandling,
}

/// When a subscription wants what its topics retain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainHandling {
    /// Whenever it is made (0).
    Always,
    /// When it is new (1).
    IfNew,
    /// Never (2).
    Never,
}

impl Options {
    /// What MQTT 3 asks for.
    pub fn of_qos(qos: QoS) -> Options {
        Options { qos, no_local: false, retain_as_published: false, retained: RetainHandling::Always }
    }

    fn from_byte(byte: u8, level: ProtocolLevel) -> Result<Options, Violation> {
        if level != ProtocolLevel::V5 {
            return QoS::from_bits(byte).map(Options::of_qos).ok_or(Violation::SubscribeQoS); // [MQTT-3-8.3-4]
        }
        if byte & 0xc0 != 0 {
            return Err(Violation::SubscriptionOptions); // [MQTT-3.8.3-5]
        }
        let retained = match byte >> 4 {
            0 => RetainHandling::Always,
            1 => RetainHandling::IfNew,
            2 => RetainHandling::Never,
            _ => return Err(Violation::RetainHandling),
        };
        let qos = QoS::from_bits(byte & 0x03).ok_or(Violation::SubscribeQoS)?;
        Ok(Options { qos, no_local: byte & 0x04 != 0, retain_as_published: byte & 0x08 != 0, retained })
    }
}

impl<'a> Subscribe<'a> {
    pub(super) fn decode(body: &'a [u8], level: ProtocolLevel) -> Result<Subscribe<'a>, Violation> {
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id()?;
        let mut identifier = 0;
        if level == ProtocolLevel::V5 {
            property::read(&mut reader, Allowed::SUBSCRIBE, |property| {
                if let Property::SubscriptionIdentifier(number) = property {
                    identifier = number;
                }
            })?;
        }
        let mut filters = Vec::new();
        while !reader.is_empty() {
            let filter = TopicFilter::asked_for(reader.string()?); // [MQTT-3.8.3-1]
            let options = Options::from_byte(reader.byte()?, level)?;
            if level != ProtocolLevel::V5 {
                filter?;
            }
            if options.no_local && filter.is_ok_and(|filter| filter.share().is_some()) {
                return Err(Violation::SharedNoLocal); // [MQTT-3.8.3-4]
            }
            filters.push((filter, options));
        }
        if filters.is_empty() {
            return Err(Violation::SubscribeEmpty); // [MQTT-3.8.3-3]
        }
        Ok(Subscribe { packet_id, identifier, filters })
    }
}
