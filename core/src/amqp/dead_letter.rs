//! What leaves a queue without having been acknowledged: dropped, or dead-lettered to another exchange, as RabbitMQ does it.
//! Removal and enqueueing are one record: after a crash the message is in exactly one place.

use super::publishing::{Content, name_of};
use super::wire::{Properties, Property, ShortStr, Table, Value};
use super::{bridge, connection, presenting};
use crate::broker::Broker;
use crate::broker::fetching::Reader;
use crate::broker::publishing::Published;
use crate::durable::record::Record;
use crate::event::{DropReason, Event};
use crate::ids::QueueId;
use crate::marks::reached;
use crate::message::{Message, Origin};
use crate::queue::Entry;
use crate::time::WallTime;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

/// Why a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Rejected,
    Expired,
    MaxLength,
    DeliveryLimit,
}

impl Reason {
    /// As `x-death` says it.
    fn name(self) -> &'static str {
        match self {
            Reason::Rejected => "rejected",
            Reason::Expired => "expired",
            Reason::MaxLength => "maxlen",
            Reason::DeliveryLimit => "delivery_limit",
        }
    }

    fn drop_reason(self) -> DropReason {
        match self {
            Reason::Rejected => DropReason::Rejected,
            Reason::Expired => DropReason::Expired,
            Reason::MaxLength => DropReason::QueueFull,
            Reason::DeliveryLimit => DropReason::DeliveryLimit,
        }
    }
}

/// Where a queue's dead letters go.
struct Target {
    vhost: usize,
    /// The queue that gives them up.
    queue: Arc<str>,
    exchange: Arc<str>,
    key: Option<Box<[u8]>>,
}

impl Broker {
    fn target(&self, queue: QueueId) -> Option<Target> {
        let declared = self.state.declared(queue)?;
        let exchange = declared.arguments.dead_letter_exchange.clone()?;
        let key = declared.arguments.dead_letter_key.clone();
        Some(Target { vhost: declared.vhost, queue: Arc::clone(&declared.name), exchange, key })
    }

    /// The entry leaves its queue: now, or as soon as its message has been read.
    pub(super) fn dead_letter(&mut self, queue: QueueId, lane: QueueId, entry: &Entry, reason: Reason) {
        let Some(target) = self.target(queue) else { return self.drop_entry(lane, entry, reason) };
        let Some(message) = self.state.messages.message(entry.message).cloned() else {
            if self.fetches.is_unreadable(entry.message) {
                return self.drop_entry(lane, entry, reason);
            }
            reached!("dead letter waits for a read");
            self.serving_mut(queue).leaving.push_back((lane, entry.position, reason));
            self.fetch_entries(Reader::Queue(queue), lane, entry.position);
            return;
        };
        let content = dead(&message, &target, reason, self.now.wall);
        let Some(routed) = self.route_dead(&target, &content) else {
            return self.drop_entry(lane, entry, reason);
        };
        let replaces = [(lane, entry.position)];
        match self.publish_to_takers(target.vhost, &content, routed, &replaces) {
            Published::Stored { .. } => {
                reached!("message dead-lettered");
                self.counters.dead_lettered += 1;
                let (message, position) = (entry.message, entry.position);
                self.message_event(|| Event::DeadLettered { message, queue: lane, position });
            }
            Published::Held => {
                self.serving_mut(queue).leaving.push_back((lane, entry.position, reason));
                self.amqp.held_dead_letters.insert(queue);
            }
            Published::Refused(_) => self.drop_entry(lane, entry, reason),
        }
    }

    /// What could not leave before leaves now, if it can.
    pub(super) fn leave_at_last(&mut self, queue: QueueId) {
        let Some(serving) = self.amqp.serving.get_mut(&queue) else { return };
        for (lane, position, reason) in core::mem::take(&mut serving.leaving) {
            if let Some(entry) = self.state.queue(lane).and_then(|lane| lane.find(position)) {
                self.dead_letter(queue, lane, &entry, reason);
            }
        }
    }

    /// Where a dead letter goes; none: nowhere. A queue that it has come through already without being rejected gets it
    /// no more: that would go on for ever.
    fn route_dead(&self, target: &Target, content: &Content) -> Option<super::routing::Routed> {
        let key = content.publish().routing_key;
        let routed = self.route_amqp(target.vhost, &target.exchange, key.as_bytes(), &content.properties);
        let mut routed = routed?;
        let deaths = content.properties.header("x-death");
        let deaths = deaths.as_ref().and_then(Value::as_array).unwrap_or(&[]);
        routed.queues.retain(|queue| {
            let name = self.state.declared(*queue).map_or("", |declared| &declared.name);
            !is_cycle(name, deaths)
        });
        (!routed.queues.is_empty() || !routed.topics.is_empty()).then_some(routed)
    }

    fn drop_entry(&mut self, lane: QueueId, entry: &Entry, reason: Reason) {
        let (message, position) = (entry.message, entry.position);
        match reason {
            Reason::Expired => self.counters.expired += 1,
            Reason::MaxLength => self.counters.dropped_queue_full += 1,
            Reason::Rejected => self.counters.rejected += 1,
            Reason::DeliveryLimit => self.counters.dropped_delivery_limit += 1,
        }
        self.commit(Record::Settled { queue: lane, position });
        let reason = reason.drop_reason();
        self.message_event(|| Event::Dropped { message: Some(message), queue: lane, reason });
    }

    /// A message that a queue refused, and dead-letters.
    pub(super) fn dead_letter_unqueued(&mut self, vhost: usize, queue: QueueId, content: &Content) {
        let Some(target) = self.target(queue) else { return };
        let publish = content.publish();
        let (exchange, key) = (name_of(publish.exchange), publish.routing_key.as_bytes());
        let time = self.now.wall.0 / 1000;
        let death = Death { target: &target, reason: Reason::MaxLength, time, exchange, key };
        let content = death.content(&content.properties.as_cow(), content.body.clone());
        let key = content.publish().routing_key;
        let routed = self.route_amqp(vhost, &target.exchange, key.as_bytes(), &content.properties);
        if let Some(routed) = routed
            && self.publish_to_takers(vhost, &content, routed, &[]) != Published::Held
        {
            self.counters.dead_lettered += 1;
        }
    }
}

/// The message as its dead letter.
fn dead(message: &Message, target: &Target, reason: Reason, now: WallTime) -> Content {
    let (exchange, key) = bridge::address(message);
    let exchange = core::str::from_utf8(exchange).unwrap_or("");
    let death = Death { target, reason, time: now.0 / 1000, exchange, key: &key };
    let mut properties = bridge::properties(message);
    if message.origin != Origin::Amqp {
        // What it had to live.
        properties = presenting::with_expiration(properties, message, message.published_at);
    }
    death.content(&properties, message.body_shared())
}

/// What `x-death` says.
struct Death<'a> {
    target: &'a Target,
    reason: Reason,
    /// Seconds since 1970.
    time: u64,
    exchange: &'a str,
    key: &'a [u8],
}

impl Death<'_> {
    fn content(&self, properties: &Properties<Cow<'_, [u8]>>, body: Bytes) -> Content {
        let mut headers = properties.headers().unwrap_or_default();
        self.add_to(&mut headers, properties);
        // Without a key of its own it goes to all the keys that it was published with.
        if self.target.key.is_some() {
            headers.remove(ShortStr::literal("CC"));
            headers.remove(ShortStr::literal("BCC"));
        }
        // Whatever the reason, it would die again where it is to be looked at.
        let builder = properties.edit().set_headers(headers).remove(Property::Expiration);
        let key = self.target.key.as_deref().unwrap_or(self.key);
        let exchange = ShortStr::new(self.target.exchange.as_bytes()).unwrap_or_default();
        let key = ShortStr::new(key).unwrap_or_default();
        let most = connection::FRAME_MAX.get() as usize;
        Content::sent_on(exchange, key, presenting::within(builder.build().into(), most).into_owned(), body)
    }

    /// One entry a queue and reason, the newest first; the first death is remembered for ever.
    fn add_to(&self, headers: &mut Table, properties: &Properties<Cow<'_, [u8]>>) {
        let name = |text: &'static str| ShortStr::literal(text);
        let before = headers.get("x-death").and_then(Value::as_array).unwrap_or(&[]);
        let is_same = |death: &Value| {
            says(death, "queue", &self.target.queue) && says(death, "reason", self.reason.name())
        };
        let same = before.iter().find(|value| is_same(value)).and_then(Value::as_table).cloned();
        let mut deaths: Vec<Value> = before.iter().filter(|value| !is_same(value)).cloned().collect();
        let entry = match same {
            Some(mut same) => {
                let count = same.get("count").and_then(Value::as_integer).unwrap_or(0);
                same.set(name("count"), Value::I64(count.saturating_add(1)));
                same
            }
            None => self.entry(headers, properties),
        };
        deaths.insert(0, Value::Table(entry));
        headers.set(name("x-death"), Value::Array(deaths));
        if headers.get("x-first-death-reason").is_none() {
            headers.set(name("x-first-death-reason"), Value::text(self.reason.name()));
            headers.set(name("x-first-death-queue"), Value::text(&self.target.queue));
            headers.set(name("x-first-death-exchange"), Value::text(self.exchange));
        }
    }

    fn entry(&self, headers: &Table, properties: &Properties<Cow<'_, [u8]>>) -> Table {
        let name = |text: &'static str| ShortStr::literal(text);
        let mut keys = Vec::from([Value::LongString(self.key.into())]);
        keys.extend(headers.get("CC").and_then(Value::as_array).unwrap_or(&[]).iter().cloned());
        let mut entry = Table::new();
        entry.set(name("count"), Value::I64(1));
        entry.set(name("reason"), Value::text(self.reason.name()));
        entry.set(name("queue"), Value::text(&self.target.queue));
        entry.set(name("time"), Value::Timestamp(self.time));
        entry.set(name("exchange"), Value::text(self.exchange));
        entry.set(name("routing-keys"), Value::Array(keys));
        if let Some(expiration) = properties.expiration() {
            entry.set(name("original-expiration"), Value::LongString(expiration.as_bytes().into()));
        }
        entry
    }
}

/// Whether the message was in that queue before and nobody has rejected it since.
fn is_cycle(queue: &str, deaths: &[Value]) -> bool {
    let Some(at) = deaths.iter().position(|death| says(death, "queue", queue)) else { return false };
    deaths[..=at].iter().all(|death| !says(death, "reason", "rejected"))
}

/// Whether that is what an entry of `x-death` says in the field.
fn says(death: &Value, field: &str, text: &str) -> bool {
    death.as_table().and_then(|table| table.get(field)).and_then(Value::as_str) == Some(text)
}
