//! The end of a connection, and what it means for its session and will; the end of sessions.

use super::{Broker, Work};
use crate::durable::gate::Waiter;
use crate::durable::record::Record;
use crate::event::{DropReason, Event};
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::marks::reached;
use crate::output::{CloseKind, CloseReason, Output};

/// How a connection ends.
pub(crate) enum Ending {
    /// The broker closes it.
    Ordered(CloseReason),
    /// The broker closes it because another connection goes on with its session.
    HandedOver(CloseReason),
    /// The peer is gone.
    Gone(&'static str),
}

impl Broker {
    /// Ends a connection. Its will is published, unless it was voided before. [MQTT-3.1.2-8]
    pub(crate) fn end(&mut self, id: ConnectionId, ending: Ending) {
        self.clear_timer(id);
        let reason = match &ending {
            Ending::Ordered(reason) | Ending::HandedOver(reason) => reason.clone(),
            Ending::Gone(text) => self.reason(id, CloseKind::Lost, "", (*text).into()),
        };
        self.drop_channels(id);
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.counters.dropped_held += connection.parked_at_most_once as u64;
        if connection.send.has_pending() {
            self.outbox.push(Output::Send { connection: id, chunks: connection.send.take() });
        }
        self.outbox.push(Output::Close { connection: id, reason });
        if let Some((wait, _)) = connection.replies.front() {
            self.gate.forget(*wait, Waiter::Replies(id));
        }
        self.parked.remove(&id);
        if let Some(session) = connection.session() {
            self.end_attachment(session, matches!(ending, Ending::HandedOver(_)));
        }
    }

    fn end_attachment(&mut self, id: SessionId, goes_on: bool) {
        let attachment = self.attachments.remove(&id).expect("a client is attached");
        if attachment.waits_for > Lsn::NONE {
            self.gate.forget(attachment.waits_for, Waiter::Deliveries(id));
        }
        let session = self.state.session(id).expect("a client has a session");
        let (key, owed) = (session.key.clone(), !session.owed.is_empty());
        if !goes_on && !session.outlives_its_connection() {
            self.remove_session(id); // [MQTT-3.1.2-6], [MQTT-3.1.2-23] of MQTT 5
            return;
        }
        if !goes_on {
            self.give_back(id);
        }
        // Of a client that is back already no delay comes to its end.
        if self.state.wills.get(&key).is_some_and(|will| will.delay_s == 0) {
            self.publish_will(&key);
        }
        if goes_on {
            return;
        }
        let queue = self.state.queue(attachment.queue).expect("a session owns a queue");
        let (at, horizon) = (self.now.wall, queue.sent_to());
        self.commit(Record::SessionDetached { session: id, at, horizon });
        self.note_away(id);
        self.will_falls_due(&key);
        if owed {
            self.work.push_back(Work::Owed(id));
        }
    }

    /// Ends a session that is not attached; the messages that went with it.
    pub(crate) fn remove_session(&mut self, id: SessionId) -> u64 {
        let session = self.state.session(id).expect("only sessions that exist are removed");
        let (key, queue_id, durable) = (session.key.clone(), session.queue, session.durable);
        let (vhost, shares) = (session.vhost, session.shares());
        self.give_back(id);
        self.forget_loans(id);
        self.forget_away(id);
        // A will whose delay goes beyond the session's end. [MQTT-3.1.3-9]
        self.forget_delay(&key);
        self.publish_will(&key);
        let queue = self.state.queue(queue_id).expect("a session owns a queue");
        let messages = queue.len() as u64;
        if durable {
            self.counters.dropped_session_end += messages;
        }
        if self.settings.message_events {
            let lost: alloc::vec::Vec<_> = queue.iter().map(|entry| entry.message).collect();
            for message in lost {
                let reason = DropReason::SessionEnded;
                self.message_event(|| Event::Dropped { message: Some(message), queue: queue_id, reason });
            }
        }
        let lsn = self.commit(Record::SessionRemoved { session: id, at: self.now.wall });
        self.note_departure(&key, lsn);
        self.bury_later();
        shares.iter().for_each(|filter| self.left_group(vhost, filter));
        messages
    }

    /// What went away is freed in pieces.
    pub(crate) fn bury_later(&mut self) {
        if !self.state.doomed.is_empty() && !core::mem::replace(&mut self.burying, true) {
            self.work.push_back(Work::Bury);
        }
    }

    /// What a crash means to clients: who was connected is away from now on, its will is published.
    pub(crate) fn settle_after_crash(&mut self, now: crate::time::Now) {
        self.now = now;
        self.log.start(now, &mut self.outbox);
        let sessions: alloc::vec::Vec<SessionId> = self.state.clients.values().copied().collect();
        for id in sessions {
            let session = self.state.session(id).expect("clients have sessions");
            if session.key.group().is_some() {
                continue; // it has no connection that it could lose
            }
            let (queue_id, away_since, owed) = (session.queue, session.away_since, !session.owed.is_empty());
            let queue = self.state.queue_mut(queue_id).expect("a session owns a queue");
            // All that may have been delivered counts as delivered.
            let horizon = queue.horizon.recorded().min(queue.next());
            queue.mark_sent_to(horizon);
            if away_since.is_none() {
                self.commit(Record::SessionDetached { session: id, at: now.wall, horizon });
            }
            self.note_away(id);
            if owed {
                self.work.push_back(Work::Owed(id));
            }
        }
        self.mend_groups();
        self.note_expiries_again();
        self.begin_serving_queues();
        let wills: alloc::vec::Vec<_> = self.state.wills.keys().cloned().collect();
        for key in wills {
            reached!("will after a crash");
            self.will_falls_due(&key);
        }
        self.log.want(self.log.last());
    }
}
