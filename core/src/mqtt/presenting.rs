//! A message as an MQTT subscriber sees it: PUBLISH in the client's version, with the properties that it takes.

use super::packet::publish::{self, Delivery, ToSubscriber};
use crate::amqp::bridge;
use crate::connection::Connection;
use crate::marks::reached;
use crate::message::{Message, Origin};
use crate::time::WallTime;
use alloc::borrow::Cow;
use bytes::Bytes;

/// A message on its way to a subscriber.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// Whose words the properties are in.
    pub origin: Origin,
    /// The properties.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// When it was published.
    pub published_at: WallTime,
    /// When it expires; 0 means never.
    pub expires_at: WallTime,
}

/// How it goes to one subscriber.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'a> {
    /// QoS and packet identifier.
    pub delivery: Delivery,
    /// It may have been sent before.
    pub dup: bool,
    /// RETAIN.
    pub retain: bool,
    /// The identifiers of the subscriptions that it matches.
    pub identifiers: &'a [u32],
}

impl<'a> Outgoing<'a> {
    /// A message that is kept; `topic` is its topic.
    pub fn of(message: &'a Message, topic: &'a str) -> Outgoing<'a> {
        let (properties, body) = (message.properties(), message.body());
        let Message { origin, published_at, expires_at, .. } = *message;
        Outgoing { topic, origin, properties, body, published_at, expires_at }
    }

    /// Whether its time is over. [MQTT-3.3.2-5]
    pub fn has_expired(&self, now: WallTime) -> bool {
        self.expires_at > WallTime(0) && self.expires_at < now
    }

    fn forwarded(&self) -> Cow<'a, [u8]> {
        match self.origin {
            Origin::Mqtt3 => Cow::Borrowed(&[]),
            Origin::Mqtt5 => Cow::Borrowed(self.properties),
            Origin::Amqp => Cow::Owned(bridge::mqtt_properties(self.properties)),
        }
    }
}

impl Connection {
    /// Adds a PUBLISH to the bytes to be sent. False: its client takes none that is so large. [MQTT-3.1.2-24]
    pub(crate) fn put_publish(
        &mut self,
        message: &Outgoing<'_>,
        manner: &Manner<'_>,
        now: WallTime,
        shared: impl FnOnce() -> Bytes,
    ) -> bool {
        let Manner { delivery, dup, retain, identifiers } = *manner;
        let (topic, body) = (message.topic.as_bytes(), message.body);
        let Some(terms) = self.client.as_mut().and_then(|client| client.terms.as_mut()) else {
            self.send.write(topic.len() + body.len() + 16, |out| {
                publish::put_header(out, topic, delivery, dup, retain, body.len());
            });
            self.send.body(body, shared);
            return true;
        };
        let forwarded = message.forwarded();
        let expires = message.expires_at > WallTime(0);
        // A clock that was set back gives nobody more time than the publisher did [MQTT-3.3.2-6].
        let now = now.max(message.published_at);
        let expiry_s = expires.then(|| message.expires_at.ms_after(now).div_ceil(1000) as u32);
        let mut says = ToSubscriber { forwarded: &forwarded, expiry_s, identifiers, topic_alias: None };
        if says.packet_bytes(topic, delivery, body.len()) > terms.maximum_packet_bytes {
            return false;
        }
        // With three bytes more the first one with an alias may be too large.
        let room = says.packet_bytes(topic, delivery, body.len()) + 8 <= terms.maximum_packet_bytes;
        let alias = if room { terms.alias_of(message.topic) } else { None };
        says.topic_alias = alias.map(|(alias, _)| alias);
        let name = match alias {
            Some((_, true)) => {
                reached!("topic alias given");
                &[]
            }
            Some((_, false)) | None => topic,
        };
        self.send.write(topic.len() + forwarded.len() + body.len() + 32, |out| {
            publish::put_header_v5(out, name, delivery, dup, retain, &says, body.len());
        });
        self.send.body(body, shared);
        true
    }
}
