//! What leaves a queue because of time or bounds: messages that expire, messages beyond the queue's bounds, queues that
//! nobody uses.

use super::arguments::QueueOverflow;
use super::dead_letter::Reason;
use super::serving::Ready;
use crate::broker::Broker;
use crate::durable::state::DeclaredQueue;
use crate::durable::state::topology::lanes;
use crate::ids::{MessageId, QueueId, QueuePosition};
use crate::marks::reached;
use crate::time::WallTime;
use alloc::vec::Vec;

/// What becomes of the next message before it is delivered.
pub(super) enum Leaving {
    /// It has left.
    Left,
    /// It has to be read before that can be said.
    Waits,
    /// It is to be delivered.
    Stays,
}

impl Broker {
    /// The next message leaves, if it has expired or stands beyond the queue's bounds.
    pub(super) fn leaves_otherwise(&mut self, queue: QueueId, ready: &Ready) -> Leaving {
        let Some(declared) = self.state.declared(queue) else { return Leaving::Stays };
        let reason = if self.is_beyond_bounds(queue, declared, ready) {
            Reason::MaxLength
        } else if declared.arguments.message_ttl_ms.is_some() || ready.entry.delivery.expires {
            match self.expires_at(queue, ready) {
                None => return self.read_for_expiry(queue, ready),
                Some(at) if at <= self.now.wall && !self.is_taken_at_once(queue, ready) => Reason::Expired,
                Some(_) => return Leaving::Stays,
            }
        } else {
            return Leaving::Stays;
        };
        match reason {
            Reason::MaxLength => reached!("beyond the queue's bound"),
            _ => reached!("message expired"),
        }
        self.take_ready(queue, ready);
        self.dead_letter(queue, ready.lane, &ready.entry, reason);
        Leaving::Left
    }

    /// What has no time at all goes to who can take it as it comes, and expires otherwise: also when it comes back.
    fn is_taken_at_once(&self, queue: QueueId, ready: &Ready) -> bool {
        let message = self.state.messages.message(ready.entry.message);
        let no_time = message.map(|message| message.published_at) == self.expires_at(queue, ready);
        no_time && !ready.redelivered && self.next_taker(queue).is_some()
    }

    fn read_for_expiry(&mut self, queue: QueueId, ready: &Ready) -> Leaving {
        if self.fetches.is_unreadable(ready.entry.message) {
            return Leaving::Stays;
        }
        reached!("expiry waits for a read");
        self.read_for_queue(queue, ready.lane, &ready.entry);
        Leaving::Waits
    }

    /// When the message expires; none: it is not in memory.
    fn expires_at(&self, queue: QueueId, ready: &Ready) -> Option<WallTime> {
        let message = self.state.messages.message(ready.entry.message)?;
        let ttl = self.state.declared(queue).and_then(|declared| declared.arguments.message_ttl_ms);
        let by_queue = ttl.map(|ttl| message.published_at.plus_ms(ttl));
        let by_itself = ready.entry.delivery.expires.then_some(message.expires_at);
        by_queue.into_iter().chain(by_itself).min()
    }

    /// Looks again when the first message expires.
    pub(super) fn set_expiry(&mut self, queue: QueueId, ready: Option<&Ready>) {
        self.look_again_at(queue, ready.and_then(|ready| self.expires_at(queue, ready)));
    }

    /// The queue is served at that time, whatever else happens.
    pub(super) fn look_again_at(&mut self, queue: QueueId, at: Option<WallTime>) {
        let Some(serving) = self.amqp.serving.get_mut(&queue) else { return };
        let before = core::mem::replace(&mut serving.expiry, at);
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.amqp.expiries.remove(&(before, queue));
        }
        if let Some(at) = at {
            self.amqp.expiries.insert((at, queue));
        }
    }

    /// Queues whose first message has expired, and queues that nobody has used for long.
    pub(crate) fn expire_in_queues(&mut self) {
        for _ in 0..self.settings.limits.turn_work {
            let Some(&(at, queue)) = self.amqp.expiries.first().filter(|(at, _)| *at <= self.now.wall) else {
                break;
            };
            self.amqp.expiries.remove(&(at, queue));
            self.serving_mut(queue).expiry = None;
            self.serve_queue(queue);
        }
        for _ in 0..self.settings.limits.turn_work {
            let Some(&(at, queue)) = self.amqp.idle.first().filter(|(at, _)| *at <= self.now.monotonic)
            else {
                break;
            };
            self.amqp.idle.remove(&(at, queue));
            self.serving_mut(queue).idle = None;
            self.delete_declared(queue);
        }
    }

    /// The queue is used: it goes a while after that (`x-expires`), unless somebody consumes.
    pub(crate) fn touch_queue(&mut self, queue: QueueId) {
        let expires = self.state.declared(queue).and_then(|declared| declared.arguments.expires_ms);
        let now = self.now.monotonic;
        let serving = self.serving_mut(queue);
        let at = expires.filter(|_| !serving.has_consumers()).map(|ms| now.plus_ms(ms));
        if let Some(before) = core::mem::replace(&mut serving.idle, at) {
            self.amqp.idle.remove(&(before, queue));
        }
        if let Some(at) = at {
            self.amqp.idle.insert((at, queue));
        }
    }

    fn ready_of(&self, queue: QueueId) -> (u64, u64) {
        let serving = self.amqp.serving.get(&queue);
        let (out, out_bytes) = serving.map_or((0, 0), |serving| (serving.given_out, serving.given_out_bytes));
        let (all, all_bytes) = (self.state.message_count(queue), self.state.message_bytes(queue));
        (all.saturating_sub(out), all_bytes.saturating_sub(out_bytes))
    }

    fn is_beyond_bounds(&self, queue: QueueId, declared: &DeclaredQueue, first: &Ready) -> bool {
        // Who refuses at the bound keeps what comes back beyond it: it was confirmed.
        if !declared.arguments.is_bounded() || declared.arguments.overflow != QueueOverflow::DropHead {
            return false;
        }
        let (max_length, max_bytes) = (declared.arguments.max_length, declared.arguments.max_length_bytes);
        let (ready, bytes) = self.ready_of(queue);
        if ready == 1 && !first.redelivered && self.next_taker(queue).is_some() {
            return false;
        }
        max_length.is_some_and(|most| ready > most) || max_bytes.is_some_and(|most| bytes > most)
    }

    /// Whether the queue refuses so many messages more, with so many body bytes.
    pub(super) fn would_refuse(&self, queue: QueueId, count: u64, bytes: u64) -> bool {
        let Some(declared) = self.state.declared(queue) else { return false };
        let arguments = &declared.arguments;
        if arguments.overflow == QueueOverflow::DropHead {
            return false;
        }
        let (ready, held) = self.ready_of(queue);
        arguments.max_length.is_some_and(|most| ready + count > most)
            || arguments.max_length_bytes.is_some_and(|most| held + bytes > most)
    }

    /// Whether the queue takes one more message of so many bytes, when `dropped` has gone; false: it passes it by.
    ///
    /// # Errors
    /// It refuses it.
    pub(crate) fn make_room(
        &self,
        id: QueueId,
        declared: &DeclaredQueue,
        bytes: u64,
        dropped: &mut Vec<(QueueId, QueuePosition, MessageId)>,
    ) -> Result<bool, &'static str> {
        let arguments = &declared.arguments;
        if !arguments.is_bounded() {
            return Ok(true);
        }
        let (mut ready, mut held) = self.ready_of(id);
        // What goes straight to a consumer takes no place.
        if ready == 0 && self.next_taker(id).is_some() {
            return Ok(true);
        }
        let is_over = |ready: u64, held: u64| {
            arguments.max_length.is_some_and(|most| ready >= most)
                || arguments.max_length_bytes.is_some_and(|most| held + bytes > most)
        };
        if !is_over(ready, held) {
            return Ok(true);
        }
        if arguments.overflow != QueueOverflow::DropHead {
            return Err("a queue that it goes to is at its bound (x-max-length, x-max-length-bytes)");
        }
        if arguments.dead_letter_exchange.is_some() {
            return Ok(true); // what is too much is dead-lettered afterwards
        }
        let serving = self.amqp.serving.get(&id);
        // As in RabbitMQ the head goes, which is the oldest of the highest priority.
        for lane_id in lanes(id, &declared.spec) {
            let lane = serving.and_then(|serving| serving.lanes.get((lane_id.0 - id.0) as usize));
            let returned = lane.into_iter().flat_map(|lane| lane.returned.iter().copied());
            let from = lane.map_or(QueuePosition(0), |lane| lane.cursor);
            let entries = self.state.queue(lane_id).expect("a declared queue has its lanes");
            let returned = returned.filter_map(|position| entries.find(position));
            for entry in returned.chain(entries.iter_from(from)) {
                if !is_over(ready, held) {
                    return Ok(true);
                }
                reached!("head dropped");
                ready -= 1;
                held = held.saturating_sub(self.state.messages.bytes_of_body(entry.message));
                dropped.push((lane_id, entry.position, entry.message));
            }
        }
        Ok(!is_over(ready, held))
    }
}
