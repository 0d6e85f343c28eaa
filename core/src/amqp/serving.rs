//! From a queue to its consumers: who gets the next message, and when (§1.8.3, §3.1.8).
//!
//! ```text
//!  lane (one a priority)     settled │ on its way to a consumer or returned │ never given out
//!                                                                    cursor ┘
//! ```
//!
//! A message that comes back stands in its old place, before everything that was never given out.

use super::wire::method::basic;
use super::wire::{ChannelNumber, DeliveryTag, FrameMax, PutMethod, ShortStr, content, delivery};
use super::{ConsumerId, bridge, presenting};
use crate::amqp::channel::Unsettled;
use crate::broker::fetching::Reader;
use crate::broker::{Broker, Work};
use crate::connection::Reply;
use crate::durable::gate::Waiter;
use crate::durable::record::Record;
use crate::durable::state::DeclaredQueue;
use crate::durable::state::topology::lanes;
use crate::event::Event;
use crate::ids::{ConnectionId, Lsn, MessageId, QueueId, QueuePosition};
use crate::marks::reached;
use crate::message::Message;
use crate::queue::Entry;
use crate::send_queue::SendQueue;
use crate::time::{Monotonic, WallTime};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::BytesMut;

/// How far a queue is served.
#[derive(Default)]
pub(crate) struct Serving {
    /// The highest priority first, and those of one priority in turn.
    pub consumers: Vec<(i64, ConsumerId)>,
    /// One of them has the queue for itself.
    pub exclusive_consumer: bool,
    /// By lane, the lowest first; those that are missing are at their beginning.
    pub lanes: Vec<Lane>,
    /// Messages that were given out and are not settled, and their body bytes.
    pub given_out: u64,
    pub given_out_bytes: u64,
    /// Who asked for a message by Basic.Get.
    pub gets: VecDeque<Get>,
    /// What the next delivery waits for.
    pub waits_for: Option<Lsn>,
    /// Nothing is delivered before this is durable.
    pub hold: Lsn,
    /// When its first message expires.
    pub expiry: Option<WallTime>,
    /// When it goes if nobody uses it.
    pub idle: Option<Monotonic>,
    /// Of an exchange that delays: when what waits is due.
    pub due: BTreeSet<(WallTime, QueuePosition)>,
    /// What is to leave and could not yet.
    pub leaving: VecDeque<(QueueId, QueuePosition, super::dead_letter::Reason)>,
    /// `Work::Serve` is in the list.
    listed: bool,
}

/// How far a lane is served.
#[derive(Default)]
pub(crate) struct Lane {
    /// Nothing from here on was given out in this run.
    pub cursor: QueuePosition,
    /// What came back.
    pub returned: BTreeSet<QueuePosition>,
    /// What stands before may have been delivered before the broker was started.
    pub old: QueuePosition,
}

/// Somebody who asked for a message.
#[derive(Clone, Copy)]
pub(crate) struct Get {
    pub connection: ConnectionId,
    pub channel: u16,
    pub no_ack: bool,
}

/// The next message of a queue.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub lane: QueueId,
    pub entry: Entry,
    pub redelivered: bool,
    /// Its queue tells how often it came back, were it never.
    pub counted: bool,
}

/// Who takes it.
pub(super) enum Taker {
    Get(Get),
    Consumer(ConsumerId),
}

/// Whether it can be delivered now.
enum Pass {
    Now,
    Read,
    Never,
    MoveHorizon,
    Wait(Lsn),
}

impl Serving {
    pub fn has_consumers(&self) -> bool {
        !self.consumers.is_empty()
    }

    pub fn lane_mut(&mut self, number: usize) -> &mut Lane {
        if self.lanes.len() <= number {
            self.lanes.resize_with(number + 1, Lane::default);
        }
        &mut self.lanes[number]
    }
}

impl Broker {
    /// How far the queue is served.
    pub(super) fn serving_mut(&mut self, queue: QueueId) -> &mut Serving {
        self.amqp.serving.entry(queue).or_default()
    }

    pub(super) fn add_to_serving(&mut self, queue: QueueId, consumer: ConsumerId, priority: i64) {
        let single = self.state.declared(queue).is_some_and(|d| d.arguments.single_active_consumer);
        let serving = self.serving_mut(queue);
        let at = serving.consumers.partition_point(|(other, _)| *other >= priority);
        // Who is active alone stays so, whoever comes.
        let at = if single { at.max(serving.consumers.len().min(1)) } else { at };
        serving.consumers.insert(at, (priority, consumer));
        self.touch_queue(queue);
    }

    /// False: there is no such queue any more.
    pub(super) fn remove_from_serving(&mut self, queue: QueueId, consumer: ConsumerId) -> bool {
        let Some(serving) = self.amqp.serving.get_mut(&queue) else { return false };
        serving.consumers.retain(|(_, other)| *other != consumer);
        serving.exclusive_consumer &= serving.has_consumers();
        self.touch_queue(queue);
        true
    }

    /// Serves queues that have more, or whose consumers take more: when all that has come in is handled, so that many
    /// messages and acknowledgements are served at a stretch. A queue with a bound is served now, since what goes straight
    /// to a consumer takes no place in it; beyond a turn's worth of queues later as well.
    pub(crate) fn serve_queues(&mut self, queues: &[QueueId]) {
        let now = self.settings.limits.turn_work;
        for (index, &queue) in queues.iter().enumerate() {
            let Some(declared) = self.state.declared(queue) else { continue };
            if declared.arguments.is_bounded() && index < now {
                self.serve_queue(queue);
            } else {
                self.list_serving(queue);
            }
        }
    }

    /// Serves all queues that the channel consumes from.
    pub(super) fn serve_channel(&mut self, id: ConnectionId, number: u16) {
        let Some(channel) = self.channel(id, number) else { return };
        let consumers = channel.consumers.values().filter_map(|consumer| self.amqp.consumers.get(consumer));
        let mut queues: Vec<QueueId> = consumers.map(|consumer| consumer.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        self.serve_queues(&queues);
    }

    /// Serves all queues that the connection consumes from.
    pub(crate) fn serve_connection(&mut self, id: ConnectionId) {
        let numbers: Vec<u16> =
            self.find_peer(id).into_iter().flat_map(|peer| peer.channels.keys().copied()).collect();
        numbers.into_iter().for_each(|number| self.serve_channel(id, number));
    }

    pub(super) fn list_serving(&mut self, queue: QueueId) {
        if !core::mem::replace(&mut self.serving_mut(queue).listed, true) {
            self.work.push_back(Work::Serve(queue));
        }
    }

    /// Somebody looks at the queue: what was published to it before goes to its consumers first.
    pub(super) fn serve_if_listed(&mut self, queue: QueueId) {
        if self.amqp.serving.get(&queue).is_some_and(|serving| serving.listed) {
            self.serve_queue(queue);
        }
    }

    /// Its turn has come.
    pub(crate) fn serve_listed(&mut self, queue: QueueId) {
        if let Some(serving) = self.amqp.serving.get_mut(&queue) {
            serving.listed = false;
        }
        self.serve_queue(queue);
    }

    /// Delivers what can be delivered now, or a turn's worth of it.
    pub(crate) fn serve_queue(&mut self, queue: QueueId) {
        if self.transacting {
            return self.list_serving(queue);
        }
        if self.is_delay_queue(queue) {
            return self.serve_delays(queue);
        }
        self.leave_at_last(queue);
        for _ in 0..self.settings.limits.turn_work {
            let Some(ready) = self.next_ready(queue) else {
                self.answer_empty(queue);
                return self.set_expiry(queue, None);
            };
            match self.leaves_otherwise(queue, &ready) {
                super::expiring::Leaving::Left => continue,
                super::expiring::Leaving::Waits => return,
                super::expiring::Leaving::Stays => {}
            }
            let Some(taker) = self.next_taker(queue) else { return self.set_expiry(queue, Some(&ready)) };
            match self.may_pass(queue, &ready) {
                Pass::Now => self.give_out(queue, &ready, &taker),
                Pass::Read => {
                    reached!("queue waits for a read");
                    return self.read_for_queue(queue, ready.lane, &ready.entry);
                }
                Pass::Never => self.take_ready(queue, &ready),
                Pass::MoveHorizon => {
                    let position = ready.entry.position.plus(self.settings.limits.horizon_block);
                    self.commit(Record::HorizonMoved { queue: ready.lane, position });
                }
                Pass::Wait(lsn) => {
                    reached!("queue waits for the disk");
                    return self.serving_waits(queue, lsn);
                }
            }
        }
        self.list_serving(queue);
    }

    /// The next message: the highest lane first, in a lane what came back first.
    pub(super) fn next_ready(&mut self, queue: QueueId) -> Option<Ready> {
        let declared = self.state.declared(queue)?;
        let counted = declared.arguments.quorum;
        let serving = self.amqp.serving.entry(queue).or_default();
        for lane_id in lanes(queue, &declared.spec) {
            let lane = serving.lane_mut((lane_id.0 - queue.0) as usize);
            let entries = self.state.queue(lane_id).expect("a declared queue has its lanes");
            while let Some(&position) = lane.returned.first() {
                if let Some(entry) = entries.find(position) {
                    return Some(Ready { lane: lane_id, entry, redelivered: true, counted });
                }
                lane.returned.pop_first();
            }
            if let Some(entry) = entries.first_from(lane.cursor) {
                let redelivered = entry.position < lane.old;
                return Some(Ready { lane: lane_id, entry, redelivered, counted });
            }
        }
        None
    }

    /// It is given out, or passed by.
    pub(super) fn take_ready(&mut self, queue: QueueId, ready: &Ready) {
        let lane = self.serving_mut(queue).lane_mut((ready.lane.0 - queue.0) as usize);
        if !lane.returned.remove(&ready.entry.position) {
            lane.cursor = ready.entry.position.plus(1);
        }
    }

    pub(super) fn next_taker(&self, queue: QueueId) -> Option<Taker> {
        let serving = self.amqp.serving.get(&queue)?;
        if let Some(get) = serving.gets.front() {
            return Some(Taker::Get(*get));
        }
        let most = if self.serves_in_turn(queue, serving) { serving.consumers.len() } else { 1 };
        let mut can = serving.consumers.iter().take(most);
        can.find(|(_, id)| self.has_credit(*id)).map(|(_, id)| Taker::Consumer(*id))
    }

    /// Whether several consumers take turns.
    fn serves_in_turn(&self, queue: QueueId, serving: &Serving) -> bool {
        let single = |declared: &DeclaredQueue| declared.arguments.single_active_consumer;
        serving.consumers.len() > 1 && !self.state.declared(queue).is_some_and(single)
    }

    fn has_credit(&self, id: ConsumerId) -> bool {
        let Some(consumer) = self.amqp.consumers.get(&id) else { return false };
        let Some(connection) = self.connections.get(&consumer.connection) else { return false };
        let channel = connection.amqp.as_ref().and_then(|peer| peer.channels.get(&consumer.channel));
        let Some(channel) = channel else { return false };
        let has_room = |bound: u16, taken: u32| bound == 0 || taken < u32::from(bound);
        consumer.accepted
            && !channel.stopped
            && (consumer.no_ack
                || (has_room(consumer.prefetch, consumer.unsettled)
                    && has_room(channel.prefetch_all, channel.unsettled)))
            && connection.send.unsent() < self.settings.limits.unsent_bytes
    }

    fn may_pass(&mut self, queue: QueueId, ready: &Ready) -> Pass {
        let durable = self.log.durable();
        let hold = self.amqp.serving.get(&queue).map_or(Lsn::NONE, |serving| serving.hold);
        if hold > durable {
            return Pass::Wait(hold);
        }
        let entry = &ready.entry;
        let lane = self.state.queue_mut(ready.lane).expect("a declared queue has its lanes");
        lane.forget_pushes(durable);
        if !entry.delivery.transient {
            if !lane.horizon.allows(entry.position, durable) {
                if lane.horizon.recorded() <= entry.position {
                    return Pass::MoveHorizon;
                }
                return Pass::Wait(lane.horizon.lsn());
            }
            if lane.last_drop() > durable {
                return Pass::Wait(lane.last_drop());
            }
        }
        match self.state.messages.message(entry.message) {
            Some(_) => Pass::Now,
            None if self.fetches.is_unreadable(entry.message) => Pass::Never,
            None => Pass::Read,
        }
    }

    /// The message is on its way to whoever takes it.
    fn give_out(&mut self, queue: QueueId, ready: &Ready, taker: &Taker) {
        self.pieces += 1;
        self.take_ready(queue, ready);
        let Ready { lane, entry, redelivered, counted } = *ready;
        let (message, position) = (entry.message, entry.position);
        let returns = self.mark_sent(lane, &entry);
        let count = (returns > 0 || counted).then_some(returns);
        let body_bytes = self.state.messages.bytes_of_body(message);
        let unsettled = Unsettled { queue, lane, position, body_bytes, consumer: None };
        let (connection, no_ack) = match taker {
            Taker::Get(get) => {
                reached!("message got");
                self.serving_mut(queue).gets.pop_front();
                self.get_is_answered(queue, get);
                self.give_to_get(get, unsettled, message, redelivered, count);
                (get.connection, get.no_ack)
            }
            Taker::Consumer(id) => {
                let unsettled = Unsettled { consumer: Some(*id), ..unsettled };
                self.give_to_consumer(*id, unsettled, message, redelivered, count)
            }
        };
        self.counters.delivered += 1;
        self.message_event(|| Event::Delivered { message, queue: lane, position, connection, redelivered });
        if no_ack {
            self.commit(Record::Settled { queue: lane, position });
            self.message_event(|| Event::Acknowledged { message, queue: lane, position });
        } else {
            let serving = self.serving_mut(queue);
            serving.given_out += 1;
            serving.given_out_bytes += body_bytes;
        }
        if let Taker::Consumer(id) = taker {
            self.rotate(queue, *id);
        }
    }

    /// Notes that the entry is sent; how often it was before and came back, where its queue counts that.
    fn mark_sent(&mut self, lane_id: QueueId, entry: &Entry) -> u32 {
        let block = self.settings.limits.horizon_block;
        let lane = self.state.queue_mut(lane_id).expect("a declared queue has its lanes");
        let returns = lane.returns_of(entry.position);
        lane.mark_sent_to(entry.position.plus(1));
        // Recorded ahead, so that the next block does not have to wait.
        if !entry.delivery.transient && lane.horizon.recorded() < entry.position.plus(1 + block / 2) {
            let position = entry.position.plus(1 + block);
            self.commit(Record::HorizonMoved { queue: lane_id, position });
        }
        returns
    }

    /// The one that was served goes behind the others of its priority.
    fn rotate(&mut self, queue: QueueId, id: ConsumerId) {
        let serving = self.amqp.serving.get(&queue);
        if !serving.is_some_and(|serving| self.serves_in_turn(queue, serving)) {
            return;
        }
        let serving = self.serving_mut(queue);
        let Some(at) = serving.consumers.iter().position(|(_, other)| *other == id) else { return };
        let priority = serving.consumers[at].0;
        let end = serving.consumers.partition_point(|(other, _)| *other >= priority);
        serving.consumers[at..end].rotate_left(1);
    }

    /// Basic.Deliver. To which connection, and whether it is settled by that.
    fn give_to_consumer(
        &mut self,
        id: ConsumerId,
        unsettled: Unsettled,
        message: MessageId,
        redelivered: bool,
        count: Option<u32>,
    ) -> (ConnectionId, bool) {
        let message = self.state.messages.message(message).expect("it was just there");
        let consumer = self.amqp.consumers.get_mut(&id).expect("it has credit");
        let no_ack = consumer.no_ack;
        consumer.unsettled += u32::from(!no_ack);
        let (connection_id, number) = (consumer.connection, consumer.channel);
        let connection = self.connections.get_mut(&connection_id).expect("it has credit");
        let peer = connection.amqp.as_mut().expect("it has credit");
        let frame_max = peer.frame_max;
        let channel = peer.channels.get_mut(&number).expect("it has credit");
        channel.last_tag += 1;
        let tag = channel.last_tag;
        if !no_ack {
            channel.unsettled += 1;
            channel.deliveries.push(tag, unsettled);
        }
        let (exchange, key) = bridge::address(message);
        let deliver = basic::Deliver {
            consumer_tag: ShortStr::new(&consumer.tag).unwrap_or_default(),
            delivery_tag: DeliveryTag(tag),
            redelivered,
            exchange: ShortStr::new(exchange).unwrap_or_default(),
            routing_key: ShortStr::new(&key).unwrap_or_default(),
        };
        let properties = presenting::properties(message, count, frame_max, self.now.wall);
        let body = message.body();
        let number = ChannelNumber(number);
        let copied = SendQueue::copies(body.len());
        let expected = 128 + properties.as_bytes().len() + if copied { body.len() } else { 0 };
        connection.send.write(expected, |out| {
            delivery::put_delivery(out, number, &deliver, &properties, body.len() as u64);
            if copied {
                content::put_body(out, number, body, frame_max);
            }
        });
        if !copied {
            put_shared_body(&mut connection.send, number, message, frame_max);
        }
        connection.list(connection_id, &mut self.to_send);
        (connection_id, no_ack)
    }

    /// Basic.Get-Ok.
    fn give_to_get(
        &mut self,
        get: &Get,
        unsettled: Unsettled,
        message: MessageId,
        redelivered: bool,
        count: Option<u32>,
    ) {
        let left = self.state.message_count(unsettled.queue).saturating_sub(1);
        let given_out = self.serving_mut(unsettled.queue).given_out;
        let left = left.saturating_sub(given_out);
        let Some(channel) = self.channel_mut(get.connection, get.channel) else { return };
        channel.last_tag += 1;
        let tag = channel.last_tag;
        if !get.no_ack {
            channel.deliveries.push(tag, unsettled);
        }
        let (frame_max, now) = (self.peer(get.connection).frame_max, self.now.wall);
        let message = self.state.messages.message(message).expect("it was just there");
        let (exchange, key) = bridge::address(message);
        let ok = basic::GetOk {
            delivery_tag: DeliveryTag(tag),
            redelivered,
            exchange: ShortStr::new(exchange).unwrap_or_default(),
            routing_key: ShortStr::new(&key).unwrap_or_default(),
            message_count: u32::try_from(left).unwrap_or(u32::MAX),
        };
        let properties = presenting::properties(message, count, frame_max, now);
        let bytes = super::publishing::with_content(get.channel, &ok, &properties, message.body(), frame_max);
        self.reply(get.connection, Lsn::NONE, Reply::Long(bytes));
    }

    /// There is nothing: who asked is told so.
    fn answer_empty(&mut self, queue: QueueId) {
        while let Some(get) = self.amqp.serving.get_mut(&queue).and_then(|serving| serving.gets.pop_front()) {
            reached!("nothing to get");
            self.get_is_answered(queue, &get);
            self.answer(get.connection, get.channel, Lsn::NONE, &basic::GetEmpty {});
        }
    }

    /// The queue goes on when the message has been read.
    pub(super) fn read_for_queue(&mut self, queue: QueueId, lane: QueueId, entry: &Entry) {
        if !self.fetches.is_waiting(Reader::Queue(queue), entry.message) {
            self.fetch_entries(Reader::Queue(queue), lane, entry.position);
        }
    }

    fn serving_waits(&mut self, queue: QueueId, lsn: Lsn) {
        self.log.want(lsn);
        let serving = self.serving_mut(queue);
        if serving.waits_for == Some(lsn) {
            return;
        }
        let waiter = Waiter::Queue(queue);
        if let Some(before) = serving.waits_for.replace(lsn) {
            self.gate.forget(before, waiter);
        }
        self.gate.wait(lsn, waiter);
    }
}

/// A large body in frames, shared where a frame has much of it.
fn put_shared_body(send: &mut SendQueue, channel: ChannelNumber, message: &Message, frame_max: FrameMax) {
    let body = message.body();
    for piece in content::body_pieces(body.len(), frame_max) {
        send.put(&content::body_frame_header(channel, piece.len()));
        send.body(&body[piece.clone()], || message.body_shared().slice(piece));
        send.put(&[super::wire::frame::FRAME_END]);
    }
}

/// A confirm, `multiple` over all before it.
pub(crate) fn put_confirm(out: &mut BytesMut, channel: u16, tag: u64, multiple: bool, nack: bool) {
    let (channel, delivery_tag) = (ChannelNumber(channel), DeliveryTag(tag));
    match nack {
        false => basic::Ack { delivery_tag, multiple }.put(out, channel),
        true => basic::Nack { delivery_tag, multiple, requeue: false }.put(out, channel),
    }
}
