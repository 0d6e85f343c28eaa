//! Exchanges that delay (`x-delayed-message`): what has a header `x-delay` waits that many milliseconds before it is routed.
//!
//! It waits in a queue of the exchange's own, which no client sees and which survives as the exchange does; whatever way it came
//! there: published to the exchange, by a binding to it, or as a dead letter. It is due so many milliseconds after it was
//! published. Then one record takes it out of there and puts it where it is routed then.

use super::bridge;
use super::publishing::Content;
use super::wire::{Properties, ShortStr, Value};
use crate::broker::Broker;
use crate::broker::publishing::Published;
use crate::durable::record::Record;
use crate::durable::topology::{QueueSpec, Topology};
use crate::event::{DropReason, Event};
use crate::ids::{QueueId, QueuePosition};
use crate::marks::reached;
use crate::message::Message;
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::ops::Deref;

/// What the names of the queues begin with that no client sees.
const PREFIX: &str = "amq.delayed.";

/// The header that says how long to wait, in milliseconds.
const HEADER: &str = "x-delay";

/// The longest delay, as in RabbitMQ: 2³² - 1 milliseconds.
const DELAY_MAX_MS: i64 = 0xffff_ffff;

/// Whether the queue of that name belongs to an exchange that delays.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// What the header says: an integer, or, as in RabbitMQ's plugin, digits, or a number whose fraction does not count.
fn as_milliseconds(value: &Value) -> Option<i64> {
    let float = || value.as_float().map(|float| float as i64);
    value.as_integer().or_else(float).or_else(|| value.as_str()?.parse().ok())
}

/// How long the message wants to wait; none: not at all.
pub(super) fn delay_ms(properties: &Properties<impl Deref<Target = [u8]>>) -> Option<u64> {
    let delay = as_milliseconds(&properties.header(HEADER)?)?;
    u64::try_from(delay.min(DELAY_MAX_MS)).ok().filter(|delay| *delay > 0)
}

impl Broker {
    /// An exchange is declared that delays: it gets its queue. What an earlier one of its name left behind goes.
    pub(super) fn add_delay_queue(&mut self, vhost: usize, exchange: &str, durable: bool) {
        self.remove_delay_queue(vhost, exchange);
        let name = queue_name(exchange);
        let queue = self.state.next_queue();
        let (exclusive, auto_delete, lanes) = (false, false, 1);
        let spec = QueueSpec { durable, exclusive, auto_delete, lanes, arguments: Box::default() };
        let vhost = self.state.vhosts[vhost].name.clone();
        let declared = Topology::QueueDeclared { vhost, name: name.as_str().into(), queue, spec };
        self.commit(Record::Topology(declared));
    }

    /// Its exchange goes, and what waits with it.
    pub(super) fn remove_delay_queue(&mut self, vhost: usize, exchange: &str) {
        if let Some(queue) = self.delay_queue(vhost, exchange) {
            self.delete_declared(queue);
        }
    }

    /// The queue in which messages wait that an exchange delays.
    pub(super) fn delay_queue(&self, vhost: usize, exchange: &str) -> Option<QueueId> {
        self.state.vhosts[vhost].queues.get(queue_name(exchange).as_str()).copied()
    }

    /// Whether the queue belongs to an exchange that delays.
    pub(super) fn is_delay_queue(&self, queue: QueueId) -> bool {
        self.state.declared(queue).is_some_and(|declared| is_hidden(&declared.name))
    }

    /// Notes when new messages are due, and routes those that are.
    pub(super) fn serve_delays(&mut self, queue: QueueId) {
        for _ in 0..self.settings.limits.turn_work {
            let serving = self.serving_mut(queue);
            let cursor = serving.lane_mut(0).cursor;
            let Some(entry) = self.state.queue(queue).and_then(|lane| lane.first_from(cursor)) else {
                return self.route_due(queue);
            };
            let due = self.state.messages.message(entry.message).map(due_at);
            if due.is_none() && !self.fetches.is_unreadable(entry.message) {
                reached!("delay waits for a read");
                return self.read_for_queue(queue, queue, &entry);
            }
            let serving = self.serving_mut(queue);
            serving.lane_mut(0).cursor = entry.position.plus(1);
            serving.due.extend(due.map(|due| (due, entry.position)));
        }
        self.list_serving(queue);
    }

    fn route_due(&mut self, queue: QueueId) {
        for _ in 0..self.settings.limits.turn_work {
            let Some((due, position)) = self.serving_mut(queue).due.first().copied() else {
                return self.look_again_at(queue, None);
            };
            if due > self.now.wall {
                return self.look_again_at(queue, Some(due));
            }
            if !self.route_delayed(queue, position) {
                return;
            }
            self.serving_mut(queue).due.remove(&(due, position));
        }
        self.list_serving(queue);
    }

    /// The message is due. False: it has to wait, for a read or for room.
    fn route_delayed(&mut self, queue: QueueId, position: QueuePosition) -> bool {
        let Some(entry) = self.state.queue(queue).and_then(|lane| lane.find(position)) else { return true };
        let Some(message) = self.state.messages.message(entry.message).cloned() else {
            if self.fetches.is_unreadable(entry.message) {
                return true;
            }
            self.read_for_queue(queue, queue, &entry);
            return false;
        };
        let Some(declared) = self.state.declared(queue) else { return true };
        let (vhost, name) = (declared.vhost, declared.name.clone());
        let content = undelayed(&message);
        let exchange = name.strip_prefix(PREFIX).unwrap_or("");
        let routed = self.route_amqp(vhost, exchange, message.address(), &content.properties);
        let routed = routed.filter(|routed| !routed.queues.is_empty() || !routed.topics.is_empty());
        if let Some(routed) = routed {
            match self.publish_to_takers(vhost, &content, routed, &[(queue, position)]) {
                Published::Stored { .. } => {
                    reached!("delayed message routed");
                    return true;
                }
                Published::Held => {
                    self.amqp.held_dead_letters.insert(queue);
                    return false;
                }
                Published::Refused(_) => {}
            }
        }
        self.counters.unroutable += 1;
        self.commit(Record::Settled { queue, position });
        let (message, reason) = (Some(entry.message), DropReason::NoRoute);
        self.message_event(|| Event::Dropped { message, queue, reason });
        true
    }
}

fn queue_name(exchange: &str) -> String {
    format!("{PREFIX}{exchange}")
}

/// When the message is due.
fn due_at(message: &Message) -> WallTime {
    message.published_at.plus_ms(delay_ms(&bridge::properties(message)).unwrap_or(0))
}

/// The message as it goes on: as in RabbitMQ its delay is negative from then on, so that no other exchange delays it.
fn undelayed(message: &Message) -> Content {
    let properties = bridge::properties(message);
    let mut headers = properties.headers().unwrap_or_default();
    let delay = headers.get(HEADER).and_then(as_milliseconds).unwrap_or(0);
    headers.set(ShortStr::literal(HEADER), Value::I64(delay.saturating_neg()));
    let properties = properties.edit().set_headers(headers).build();
    let exchange = ShortStr::new(bridge::exchange_of(message.properties())).unwrap_or_default();
    let key = ShortStr::new(message.address()).unwrap_or_default();
    Content::sent_on(exchange, key, properties, message.body_shared())
}
