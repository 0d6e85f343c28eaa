//! Basic.Publish: content put together, where it goes, what its publisher is told (§1.8.3.7, §4.2.6).

use super::arguments::{QueueOverflow, TIME_MAX_MS};
use super::channel::Incoming;
use super::fault::Fault;
use super::routing::Routed;
use super::wire::method::{MethodId, basic};
use super::wire::{
    ChannelNumber, Frame, FrameMax, Properties, PutMethod, ReplyCode, ShortStr, Value, content, frame,
};
use super::{bridge, connection, presenting};
use crate::broker::Broker;
use crate::broker::publishing::{Published, Publishing};
use crate::connection::Reply;
use crate::event::{DropReason, Event};
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::marks::reached;
use crate::message::{MessageParts, Origin};
use crate::mqtt::packet::QoS;
use crate::routing::exchange::Exchange;
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::ops::Deref;

/// The address that a client writes into Reply-To, and consumes from, for direct replies.
pub(super) const DIRECT_REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// A message that was put together.
pub(crate) struct Content {
    /// The payload of the frame with Basic.Publish.
    pub method: Bytes,
    pub properties: Properties,
    pub body: Bytes,
}

impl Content {
    /// A message that the broker sends on.
    pub fn sent_on(
        exchange: ShortStr<'_>,
        routing_key: ShortStr<'_>,
        properties: Properties,
        body: Bytes,
    ) -> Content {
        let publish = basic::Publish { exchange, routing_key, mandatory: false, immediate: false };
        let frame = Bytes::from(connection::encoded(1, &publish));
        let method = frame.slice(frame::FRAME_HEADER_BYTES..frame.len() - 1);
        Content { method, properties, body }
    }

    /// How it was published.
    pub(super) fn publish(&self) -> basic::Publish<'_> {
        basic::Publish::decode(&self.method[4..]).expect("it was decoded before")
    }

    /// Bytes of it that are kept while it waits.
    pub(super) fn bytes(&self) -> usize {
        self.method.len() + self.properties.as_bytes().len() + self.body.len()
    }
}

impl Broker {
    /// Basic.Publish, whose content follows; `method` is the payload of its frame.
    pub(super) fn begin_publish(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: Bytes,
    ) -> Result<(), Fault> {
        if let Some(channel) = self.channel_mut(id, number) {
            channel.incoming = Some(Incoming::of(method));
        }
        Ok(())
    }

    /// A frame of content. A fault of it is about the Basic.Publish that it belongs to, if there is one.
    pub(super) fn content(&mut self, id: ConnectionId, frame: Frame) -> Result<(), (Fault, MethodId)> {
        let number = frame.channel.0;
        let most = self.settings.limits.packet_bytes;
        let Some(channel) = self.channel_mut(id, number) else {
            let fault = Fault::new(ReplyCode::ChannelError, "content on a channel that is not open");
            return Err((fault, MethodId::NONE));
        };
        let Some(incoming) = &mut channel.incoming else {
            let fault = Fault::new(ReplyCode::UnexpectedFrame, "content that follows no basic.publish");
            return Err((fault, MethodId::NONE));
        };
        let about = |fault| (fault, basic::Publish::ID);
        if !incoming.add(frame, most).map_err(about)? {
            return Ok(());
        }
        let incoming = channel.incoming.take().expect("it was just there");
        self.counters.received += 1;
        self.publish_content(id, number, incoming.into_content()).map_err(about)
    }

    fn publish_content(&mut self, id: ConnectionId, number: u16, content: Content) -> Result<(), Fault> {
        self.check(id, &content)?;
        let content = self.with_reply_address(id, number, content)?;
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        if let Some(transaction) = &mut channel.transaction {
            transaction.publish(content);
            return Ok(());
        }
        if self.publish_checked(id, number, &content)? {
            return Ok(());
        }
        // There is no room: it waits, and all that comes behind it.
        self.counters.parked += 1;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.parked_bytes += content.bytes();
        let Some(peer) = &mut connection.amqp else { return Ok(()) };
        peer.parked_channels.insert(number);
        if let Some(channel) = peer.channels.get_mut(&number) {
            channel.held = Some(content);
        }
        self.parked.insert(id);
        self.tell_blocked(id);
        Ok(())
    }

    /// A publish that had to wait is tried again. False: it still has to.
    pub(super) fn publish_again(&mut self, id: ConnectionId, number: u16) -> bool {
        let held = self.channel_mut(id, number).and_then(|channel| channel.held.take());
        if let Some(content) = held {
            match self.publish_checked(id, number, &content) {
                Ok(true) => {}
                Ok(false) => {
                    if let Some(channel) = self.channel_mut(id, number) {
                        channel.held = Some(content);
                    }
                    return false;
                }
                Err(fault) => self.fault(id, number, fault, basic::Publish::ID),
            }
        }
        if let Some(peer) = self.peer_mut(id) {
            peer.parked_channels.remove(&number);
        }
        true
    }

    /// The exchange that a message is published to, which must be there; none is the default one.
    pub(super) fn exchange_for(&self, vhost: usize, content: &Content) -> Result<Option<&Exchange>, Fault> {
        let name = name_of(content.publish().exchange);
        if name.is_empty() {
            return Ok(None);
        }
        let found = self.state.exchange(vhost, name);
        found.map(Some).ok_or_else(|| Fault::no("exchange", name))
    }

    /// What can be said of a message without knowing where it goes.
    fn check(&self, id: ConnectionId, content: &Content) -> Result<(), Fault> {
        let peer = self.peer(id);
        if content.publish().immediate {
            return Err(Fault::new(ReplyCode::NotImplemented, "immediate=true"));
        }
        if self.exchange_for(peer.vhost, content)?.is_some_and(|exchange| exchange.spec.internal) {
            let name = name_of(content.publish().exchange);
            let text = format!("cannot publish to internal exchange '{name}' in vhost '/'");
            return Err(Fault::refused(text));
        }
        if let Some(user) = content.properties.user_id()
            && user.as_bytes() != peer.user.as_bytes()
        {
            let text = format!("user_id property set to '{user}' but authenticated user was '{}'", peer.user);
            return Err(Fault::precondition(text));
        }
        if let Some(expiration) = content.properties.expiration()
            && milliseconds(expiration).is_none()
        {
            let text = format!(
                "invalid expiration '{expiration}': it must be milliseconds in digits, {TIME_MAX_MS} (ten years) at the most"
            );
            return Err(Fault::precondition(text));
        }
        for name in ["CC", "BCC"] {
            let copies = content.properties.header(name);
            let texts = |copies: &[Value]| copies.iter().all(|copy| copy.as_long_string().is_some());
            if copies.is_some_and(|copies| !copies.as_array().is_some_and(texts)) {
                return Err(Fault::precondition(format!("the header {name} must be an array of texts")));
            }
        }
        Ok(())
    }

    /// Publishes a message. False: there is no room for it now.
    pub(super) fn publish_checked(
        &mut self,
        id: ConnectionId,
        number: u16,
        content: &Content,
    ) -> Result<bool, Fault> {
        let publish = content.publish();
        let exchange = name_of(publish.exchange);
        let key = publish.routing_key.as_bytes();
        if exchange.is_empty() && key.starts_with(DIRECT_REPLY_TO) {
            self.reply_directly(id, number, content);
            return Ok(true);
        }
        let vhost = self.peer(id).vhost;
        let Some(routed) = self.route_amqp(vhost, exchange, key, &content.properties) else {
            return Err(Fault::no("exchange", exchange));
        };
        let returned = publish.mandatory && self.leads_nowhere(vhost, &routed, &content.properties);
        let published = self.publish_routed(Some(id), vhost, content, &routed, &[]);
        // Told once, however often it was held, and before its confirm.
        if returned && published != Published::Held {
            self.return_message(id, number, content);
        }
        match published {
            Published::Held => return Ok(false),
            Published::Stored { lsn, .. } => self.confirm(id, number, lsn, false),
            Published::Refused(_) => {
                reached!("publish refused");
                self.dead_letter_refused(vhost, content, &routed);
                self.confirm(id, number, Lsn::NONE, true);
            }
        }
        Ok(true)
    }

    /// Whether nobody gets the message: no queue, no subscriber of a topic, nobody who subscribes to it later.
    fn leads_nowhere(&self, vhost: usize, routed: &Routed, properties: &Properties) -> bool {
        let Some(topic) = routed.topics.first().and_then(|key| bridge::topic_of(key)) else {
            return routed.queues.is_empty();
        };
        let mut found = Vec::new();
        self.state.vhosts[vhost].subscriptions.find(&topic, None, &mut found);
        routed.queues.is_empty() && found.is_empty() && !bridge::asks_to_retain(properties)
    }

    /// Publishes a message to where it was routed.
    pub(super) fn publish_routed(
        &mut self,
        connection: Option<ConnectionId>,
        vhost: usize,
        content: &Content,
        routed: &Routed,
        replaces: &[(QueueId, crate::ids::QueuePosition)],
    ) -> Published {
        let publish = content.publish();
        let mut properties = core::mem::take(&mut self.stored_properties);
        put_stored_properties(&mut properties, publish.exchange, &content.properties);
        let key = publish.routing_key.as_bytes();
        let persistent = content.properties.delivery_mode() == Some(2);
        let expiration = content.properties.expiration().and_then(milliseconds);
        let expires_at = expiration.map(|ms| self.now.wall.plus_ms(ms));
        let topic = routed.topics.first().and_then(|key| bridge::topic_of(key));
        if topic.is_some() {
            reached!("AMQP to a topic");
        }
        if !routed.topics.is_empty() && topic.is_none() {
            self.counters.unmappable += 1;
        }
        let published = self.publish(Publishing {
            expires_at: expires_at.unwrap_or(WallTime(0)),
            topic: topic.as_deref(),
            retain: topic.is_some() && bridge::asks_to_retain(&content.properties),
            queues: &routed.queues,
            priority: content.properties.priority().unwrap_or(0),
            qos: if persistent { QoS::AtLeastOnce } else { QoS::AtMostOnce },
            replaces,
            connection,
            ..Publishing::new(
                vhost,
                Origin::Amqp,
                MessageParts { address: key, properties: &properties, body: &content.body },
            )
        });
        self.stored_properties = properties;
        published
    }

    /// Publishes a message that nobody is told about any more, in place of entries: a queue that does not take it keeps
    /// it from no other.
    pub(super) fn publish_to_takers(
        &mut self,
        vhost: usize,
        content: &Content,
        routed: Routed,
        replaces: &[(QueueId, crate::ids::QueuePosition)],
    ) -> Published {
        let bytes = content.body.len() as u64;
        let takes = |queue: &QueueId| {
            let declared = self.state.declared(*queue);
            declared.is_none_or(|d| self.make_room(*queue, d, bytes, &mut Vec::new()).is_ok())
        };
        let (queues, refusing): (Vec<QueueId>, Vec<QueueId>) = routed.queues.into_iter().partition(takes);
        if queues.is_empty() && routed.topics.is_empty() {
            return Published::Refused("no queue takes it");
        }
        let routed = Routed { queues, ..routed };
        let published = self.publish_routed(None, vhost, content, &routed, replaces);
        if let Published::Stored { .. } = published {
            for queue in refusing {
                reached!("full queue passed by");
                self.counters.dropped_queue_full += 1;
                let reason = DropReason::QueueFull;
                self.message_event(|| Event::Dropped { message: None, queue, reason });
            }
        }
        published
    }

    /// In confirm mode: the publisher is told, in the order of its publishes.
    fn confirm(&mut self, id: ConnectionId, number: u16, wait: Lsn, nack: bool) {
        let Some(channel) = self.channel_mut(id, number) else { return };
        let Some(published) = &mut channel.confirms else { return };
        *published += 1;
        let tag = *published;
        self.reply(id, wait, Reply::Confirm { channel: number, tag, nack });
    }

    /// Basic.Return, before the message's confirm.
    fn return_message(&mut self, id: ConnectionId, number: u16, content: &Content) {
        reached!("mandatory returned");
        let publish = content.publish();
        let method = basic::Return {
            reply_code: ReplyCode::NoRoute.number(),
            reply_text: ReplyCode::NoRoute.name_text(),
            exchange: publish.exchange,
            routing_key: publish.routing_key,
        };
        let frame_max = self.peer(id).frame_max;
        let bytes = with_content(number, &method, &content.properties, &content.body, frame_max);
        self.reply(id, Lsn::NONE, Reply::Long(bytes));
    }

    /// Reply-To with the address for direct replies becomes that of the channel's consumer of them.
    fn with_reply_address(
        &mut self,
        id: ConnectionId,
        number: u16,
        content: Content,
    ) -> Result<Content, Fault> {
        if content.properties.reply_to().is_none_or(|to| to.as_bytes() != DIRECT_REPLY_TO) {
            return Ok(content);
        }
        let replies = self.channel(id, number).and_then(|channel| channel.replies.as_ref());
        let Some((_, address)) = replies else {
            return Err(Fault::precondition("fast reply consumer does not exist"));
        };
        let address = ShortStr::new(address).unwrap_or_default();
        let properties = content.properties.edit().set_reply_to(address).build();
        Ok(Content { properties, ..content })
    }

    /// Straight to the consumer of direct replies, if it is still there.
    fn reply_directly(&mut self, id: ConnectionId, number: u16, content: &Content) {
        let publish = content.publish();
        let key = publish.routing_key.as_bytes();
        let found = self.amqp.reply_addresses.get(key).copied();
        let to = found.filter(|(to, channel)| {
            self.channel(*to, *channel).and_then(|channel| channel.replies.as_ref()).is_some()
        });
        match to {
            Some((to, channel)) => self.deliver_directly(to, channel, content),
            None if publish.mandatory => self.return_message(id, number, content),
            None => {}
        }
        self.confirm(id, number, Lsn::NONE, false);
    }

    fn deliver_directly(&mut self, to: ConnectionId, number: u16, content: &Content) {
        let publish = content.publish();
        let frame_max = self.peer(to).frame_max;
        let Some(channel) = self.channel_mut(to, number) else { return };
        channel.last_tag += 1;
        let delivery_tag = super::wire::DeliveryTag(channel.last_tag);
        let Some((tag, _)) = &channel.replies else { return };
        let method = basic::Deliver {
            consumer_tag: ShortStr::new(tag).unwrap_or_default(),
            delivery_tag,
            redelivered: false,
            exchange: publish.exchange,
            routing_key: publish.routing_key,
        };
        let properties = presenting::within(content.properties.as_cow(), frame_max.get() as usize);
        let bytes = with_content(number, &method, &properties, &content.body, frame_max);
        self.counters.delivered += 1;
        self.send(to, &bytes);
    }

    /// What a queue refused that dead-letters what it refuses.
    fn dead_letter_refused(&mut self, vhost: usize, content: &Content, routed: &Routed) {
        let wants = |queue: &&QueueId| {
            let declared = self.state.declared(**queue);
            declared.is_some_and(|d| d.arguments.overflow == QueueOverflow::RejectPublishDeadLetter)
        };
        let queues: Vec<QueueId> = routed.queues.iter().filter(wants).copied().collect();
        for queue in queues {
            self.dead_letter_unqueued(vhost, queue, content);
        }
    }
}

/// The name of an exchange or queue; names that are not UTF-8 belong to nothing.
pub(super) fn name_of(name: ShortStr<'_>) -> &str {
    name.as_str().unwrap_or("\u{fffd}")
}

/// Milliseconds in decimal digits, ten years at the most, as in RabbitMQ.
pub(super) fn milliseconds(text: ShortStr<'_>) -> Option<u64> {
    let digits = text.as_str().filter(|text| !text.starts_with('+'))?;
    digits.parse().ok().filter(|ms| *ms <= TIME_MAX_MS)
}

/// What is kept of exchange and properties, in place of what is in `out`.
fn put_stored_properties(out: &mut Vec<u8>, exchange: ShortStr<'_>, properties: &Properties) {
    out.clear();
    out.push(exchange.length());
    out.extend_from_slice(exchange.as_bytes());
    out.extend_from_slice(properties.as_bytes());
}

/// A method with content, all frames.
pub(super) fn with_content<B: Deref<Target = [u8]>>(
    channel: u16,
    method: &impl PutMethod,
    properties: &Properties<B>,
    body: &[u8],
    frame_max: FrameMax,
) -> Box<[u8]> {
    let channel = ChannelNumber(channel);
    let mut out = BytesMut::with_capacity(256 + properties.as_bytes().len() + body.len());
    method.put(&mut out, channel);
    content::put_content_header(&mut out, channel, body.len() as u64, properties);
    content::put_body(&mut out, channel, body, frame_max);
    out.as_ref().into()
}
