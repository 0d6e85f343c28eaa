//! The properties of a message: of PUBLISH and of a will (MQTT 5 §3.3.2.3, §3.1.3.2).

use super::property::{self, Allowed, Property};
use super::reader::Reader;
use super::violation::Violation;
use crate::mqtt::topic::TopicName;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// What a message carries beside topic and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageProperties<'a> {
    /// Seconds after which it is of no use.
    pub expiry_s: Option<u32>,
    /// The number that stands for its topic.
    pub topic_alias: Option<u16>,
    /// Of a will: seconds before it is published.
    pub delay_s: u32,
    bytes: &'a [u8],
    /// Whether some of `bytes` are for the broker alone.
    mixed: bool,
}

impl<'a> MessageProperties<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        allowed: Allowed,
    ) -> Result<MessageProperties<'a>, Violation> {
        let mut found = MessageProperties::default();
        let mut fault = None;
        found.bytes = property::read(reader, allowed, |property| match property {
            Property::MessageExpiry(seconds) => found.expiry_s = Some(seconds),
            Property::TopicAlias(0) => fault = Some(Violation::TopicAlias), // [MQTT-3.3.2-8]
            Property::TopicAlias(alias) => found.topic_alias = Some(alias),
            Property::WillDelay(seconds) => (found.delay_s, found.mixed) = (seconds, true),
            Property::SubscriptionIdentifier(_) => fault = Some(Violation::IdentifierFromClient),
            Property::ResponseTopic(topic) if TopicName::new(topic).is_err() => {
                fault = Some(Violation::ResponseTopic); // [MQTT-3.3.2-14]
            }
            _ => {}
        })?;
        found.mixed |= found.expiry_s.is_some() || found.topic_alias.is_some();
        fault.map_or(Ok(found), Err)
    }

    /// What goes on to subscribers as it came, in its order. [MQTT-3.3.2-4], [MQTT-3.3.2-15..18], [MQTT-3.3.2-20]
    pub fn forwarded(&self) -> Cow<'a, [u8]> {
        if !self.mixed {
            return Cow::Borrowed(self.bytes);
        }
        let mut kept = Vec::with_capacity(self.bytes.len());
        each(self.bytes, |property| {
            if !matches!(
                property,
                Property::MessageExpiry(_) | Property::TopicAlias(_) | Property::WillDelay(_)
            ) {
                property::put(&mut kept, &property);
            }
        });
        Cow::Owned(kept)
    }
}

/// Hands out the properties that were forwarded, one by one.
pub fn each<'a>(bytes: &'a [u8], take: impl FnMut(Property<'a>)) {
    let mut reader = Reader::new(bytes);
    let all = Allowed::WILL.and(Allowed::PUBLISH);
    // They were read before; of a foreign store's message that cannot be read, no more is taken.
    let _ = property::read_all(&mut reader, all, take);
}
