//! Delivers a session's queue to its client, as far as windows, horizon and disk allow.
//!
//! The packet identifier is `1 + position mod 65535`, so it needs no record and is the same after a crash. It is
//! free again when everything 65,535 positions further down is settled *on disk*:
//!
//! 1. Position 0 (id 1) is settled, not synced. 2. Position 65,535 (id 1) is sent. 3. Crash: the settlement is
//!    lost, position 0 comes back under id 1, and the subscriber takes it for the other message.

use crate::broker::fetching::Reader;
use crate::broker::{Broker, Work};
use crate::connection::Reply;
use crate::durable::gate::Waiter;
use crate::durable::record::Record;
use crate::event::{DropReason, Event};
use crate::ids::{Lsn, QueuePosition, SessionId};
use crate::marks::reached;
use crate::mqtt::packet::publish::Delivery;
use crate::mqtt::packet::{AckKind, PacketId, QoS};
use crate::mqtt::presenting::{Manner, Outgoing};
use crate::queue::{Entry, Stage};
use alloc::vec::Vec;

/// Packet identifiers: 1 to 65,535.
const PACKET_IDS: u64 = 65_535;

/// The identifier under which a position is sent.
pub fn packet_id(position: QueuePosition) -> PacketId {
    let number = u16::try_from(1 + position.0 % PACKET_IDS).expect("at most 65535");
    PacketId::new(number).expect("at least 1")
}

/// What comes next for a session.
enum Next {
    /// Send this; it was sent before or not.
    Publish(Entry, bool),
    /// Tell the client again to release this.
    Release(Entry),
    /// The same, before what stands in front of it.
    ReleaseAhead(Entry),
    /// The horizon has to move beyond this position first.
    MoveHorizon(QueuePosition),
    /// This message has to be read first.
    Read(Entry),
    /// This message cannot be read.
    PassBy(QueuePosition),
    /// This message is of no use any more.
    Expire(QueuePosition),
    /// This has to be durable first.
    Wait(Lsn),
    /// It is a group's: its members have the connections.
    OfGroup,
    /// Nothing now; an acknowledgement, room to send or a message goes on.
    Nothing,
}

impl Broker {
    /// Delivers what can be delivered now, or a turn's worth of it.
    pub(crate) fn pump(&mut self, session: SessionId) {
        for _ in 0..self.settings.limits.turn_work {
            match self.next_delivery(session) {
                Next::Publish(entry, redelivered) => self.deliver(session, &entry, redelivered),
                Next::Release(entry) => {
                    self.pass_by(session, entry.position);
                    self.release_again(session, &entry);
                }
                Next::ReleaseAhead(entry) => {
                    let attachment = self.attachments.get_mut(&session).expect("it was just there");
                    attachment.released_to = entry.position.plus(1);
                    self.release_again(session, &entry);
                }
                Next::MoveHorizon(position) => self.move_horizon(session, position),
                Next::Read(entry) => return self.deliveries_read(session, &entry),
                Next::PassBy(position) => self.pass_by(session, position),
                Next::Expire(position) => {
                    let queue = self.attachments[&session].queue;
                    self.expire_entry(queue, position);
                }
                Next::Wait(lsn) => return self.deliveries_wait(session, lsn),
                Next::OfGroup => return self.serve_group(session),
                Next::Nothing => return self.wake_groups_of(session),
            }
        }
        self.work.push_back(Work::Pump(session));
    }

    fn next_delivery(&mut self, session: SessionId) -> Next {
        let Some(attachment) = self.attachments.get(&session) else {
            return if self.is_group(session) { Next::OfGroup } else { Next::Nothing };
        };
        let connection = &self.connections[&attachment.connection];
        // No delivery before its CONNACK has left.
        if !connection.client.as_ref().is_some_and(|client| client.accepted) {
            return Next::Nothing;
        }
        if connection.send.unsent() >= self.settings.limits.unsent_bytes {
            reached!("reader slow");
            return Next::Nothing;
        }
        if attachment.in_flight >= connection.window(&self.settings.limits) {
            reached!("window full");
            return self.next_release(session);
        }
        let durable = self.log.durable();
        if attachment.hold > durable {
            return Next::Wait(attachment.hold);
        }
        let queue = self.state.queue_mut(attachment.queue).expect("an attached session has a queue");
        queue.forget_pushes(durable);
        let Some(entry) = queue.first_from(attachment.cursor) else {
            // What is gone without having been sent does not wait any more: a group counts on that.
            let next = queue.next();
            self.attachments.get_mut(&session).expect("it was just there").cursor = next;
            return Next::Nothing;
        };
        let recorded = queue.recorded_by(&entry);
        let redelivered = entry.position < queue.sent_to();
        if entry.position.0 >= PACKET_IDS && entry.position.0 - queue.durable_front(durable).0 >= PACKET_IDS {
            let mark = queue.next_front_mark();
            return if mark > durable { Next::Wait(mark) } else { Next::Nothing };
        }
        match entry.stage {
            Stage::Releasing if recorded > durable => {
                reached!("release waits");
                Next::Wait(recorded)
            }
            Stage::Releasing if entry.position < attachment.released_to => Next::PassBy(entry.position),
            Stage::Releasing => Next::Release(entry),
            Stage::Queued if !queue.horizon.allows(entry.position, durable) => {
                if queue.horizon.recorded() <= entry.position {
                    Next::MoveHorizon(entry.position)
                } else {
                    reached!("delivery waits for the horizon");
                    Next::Wait(queue.horizon.lsn())
                }
            }
            Stage::Queued if queue.last_drop() > durable => {
                reached!("delivery waits for a drop");
                Next::Wait(queue.last_drop())
            }
            Stage::Queued if entry.delivery.qos == QoS::ExactlyOnce && recorded > durable => {
                reached!("delivery waits for its record");
                Next::Wait(recorded)
            }
            Stage::Queued if self.state.messages.message(entry.message).is_none() => {
                if self.fetches.is_unreadable(entry.message) {
                    Next::PassBy(entry.position)
                } else {
                    Next::Read(entry)
                }
            }
            Stage::Queued if !redelivered && self.has_expired(&entry) => Next::Expire(entry.position),
            Stage::Queued => Next::Publish(entry, redelivered),
            Stage::Settled => unreachable!("first_from passes settled entries by"),
        }
    }

    /// The window is full. What the client is to release takes no room in it, and does not wait for what stands in front
    /// of it. [MQTT-3.3.4-10] of MQTT 5
    fn next_release(&mut self, session: SessionId) -> Next {
        let attachment = self.attachments.get_mut(&session).expect("its window is full");
        let queue = self.state.queue(attachment.queue).expect("an attached session has a queue");
        let from = attachment.cursor.max(attachment.released_to);
        if from >= queue.sent_to() {
            return Next::Nothing; // nothing stands there that was sent before
        }
        let mut sent = queue.iter_from(from).take_while(|entry| entry.position < queue.sent_to());
        let Some(entry) = sent.find(|entry| entry.stage == Stage::Releasing) else {
            attachment.released_to = queue.sent_to();
            return Next::Nothing;
        };
        reached!("released ahead of a full window");
        let recorded = queue.recorded_by(&entry);
        if recorded > self.log.durable() { Next::Wait(recorded) } else { Next::ReleaseAhead(entry) }
    }

    fn has_expired(&self, entry: &Entry) -> bool {
        let message = self.state.messages.message(entry.message).filter(|_| entry.delivery.expires);
        message.is_some_and(|message| Outgoing::of(message, "").has_expired(self.now.wall))
    }

    /// What was just published to the session is part of a transaction.
    pub(crate) fn hold_deliveries(&mut self, session: SessionId) {
        if let Some(attachment) = self.attachments.get_mut(&session) {
            attachment.hold = self.log.last();
            self.work.push_back(Work::Pump(session));
        } else if self.is_group(session) {
            self.hold_group(session);
        }
    }

    fn deliver(&mut self, session: SessionId, entry: &Entry, redelivered: bool) {
        let attachment = self.attachments.get_mut(&session).expect("a delivery has an attachment");
        attachment.cursor = entry.position.plus(1);
        attachment.in_flight += 1;
        self.pieces += 1;
        if redelivered {
            reached!("redelivered");
        }
        let (id, queue_id) = (attachment.connection, attachment.queue);
        let message = self.state.messages.message(entry.message).expect("it was just there");
        let topic = message.topic();
        let identifiers = match self.connections[&id].terms() {
            Some(_) => self.identifiers_of_entry(session, queue_id, entry.position),
            None => Vec::new(),
        };
        let packet_id = packet_id(entry.position);
        let delivery = match entry.delivery.qos {
            QoS::AtLeastOnce => Delivery::AtLeastOnce(packet_id),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(packet_id),
            QoS::AtMostOnce => unreachable!("QoS 0 is not queued"),
        };
        let connection = self.connections.get_mut(&id).expect("an attachment has a connection");
        let retain = entry.delivery.retain;
        let manner = Manner { delivery, dup: redelivered, retain, identifiers: &identifiers };
        let outgoing = Outgoing::of(message, &topic);
        if !connection.put_publish(&outgoing, &manner, self.now.wall, || message.body_shared()) {
            return self.drop_too_large(session, entry);
        }
        self.list(id);
        self.counters.delivered += 1;
        let queue = self.state.queue_mut(queue_id).expect("an attached session has a queue");
        queue.mark_sent_to(entry.position.plus(1));
        // Recorded ahead, so that the next block does not have to wait.
        let block = self.settings.limits.horizon_block;
        if queue.horizon.recorded() < entry.position.plus(1 + block / 2) {
            let position = entry.position.plus(1 + block);
            self.commit(Record::HorizonMoved { queue: queue_id, position });
        }
        let (message, position) = (entry.message, entry.position);
        self.message_event(|| Event::Delivered {
            message,
            queue: queue_id,
            position,
            connection: id,
            redelivered,
        });
    }

    /// The client takes no packet that is so large: as if it had been delivered. [MQTT-3.1.2-25]
    fn drop_too_large(&mut self, session: SessionId, entry: &Entry) {
        let attachment = self.attachments.get_mut(&session).expect("a delivery has an attachment");
        attachment.in_flight -= 1;
        let (queue, position) = (attachment.queue, entry.position);
        self.settle_entry(queue, position);
        self.counters.dropped_too_large += 1;
        let (message, reason) = (Some(entry.message), DropReason::TooLarge);
        self.message_event(|| Event::Dropped { message, queue, reason });
    }

    fn release_again(&mut self, session: SessionId, entry: &Entry) {
        let attachment = self.attachments.get_mut(&session).expect("a delivery has an attachment");
        attachment.in_flight += 1;
        let id = attachment.connection;
        let queue = self.state.queue(attachment.queue).expect("an attached session has a queue");
        let recorded = queue.recorded_by(entry);
        self.reply(id, recorded, Reply::Short(AckKind::PubRel.encode(packet_id(entry.position))));
    }

    fn move_horizon(&mut self, session: SessionId, position: QueuePosition) {
        let queue = self.attachments[&session].queue;
        let position = position.plus(self.settings.limits.horizon_block);
        self.commit(Record::HorizonMoved { queue, position });
    }

    /// Goes on when the message has been read.
    fn deliveries_read(&mut self, session: SessionId, entry: &Entry) {
        if !self.fetches.is_waiting(Reader::Deliveries(session), entry.message) {
            reached!("delivery waits for a read");
            self.fetch_for_queue(session, entry.position);
        }
    }

    fn pass_by(&mut self, session: SessionId, position: QueuePosition) {
        let attachment = self.attachments.get_mut(&session).expect("a delivery has an attachment");
        attachment.cursor = position.plus(1);
    }

    fn deliveries_wait(&mut self, session: SessionId, lsn: Lsn) {
        self.log.want(lsn);
        let attachment = self.attachments.get_mut(&session).expect("who waits is attached");
        let before = core::mem::replace(&mut attachment.waits_for, lsn);
        if before == lsn {
            return;
        }
        let waiter = Waiter::Deliveries(session);
        if before > Lsn::NONE {
            self.gate.forget(before, waiter);
        }
        self.gate.wait(lsn, waiter);
    }
}
