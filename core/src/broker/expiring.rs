//! What ends by the wall clock: sessions whose client stays away, delayed wills, messages for MQTT subscribers.
//!
//! A message that may have been sent never expires (see the delivery horizon): only what is certain to be new to its
//! subscriber goes.

use super::Broker;
use super::publishing::Publishing;
use crate::durable::record::{ClientKey, Record, Retain, SessionExpiry};
use crate::event::{DropReason, Event};
use crate::ids::{MessageId, QueueId, QueuePosition, SessionId};
use crate::marks::reached;
use crate::queue::Stage;
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;

/// Entries from which on those that are gone are forgotten.
const FORGET_FROM: usize = 4096;

/// Messages for MQTT subscribers that expire, by when.
#[derive(Default)]
pub(crate) struct Expiries {
    queued: BTreeSet<(WallTime, QueueId, QueuePosition)>,
    retained: BTreeSet<(WallTime, usize, Box<str>, MessageId)>,
    forget_queued_from: usize,
    forget_retained_from: usize,
}

impl Expiries {
    fn first(&self) -> Option<WallTime> {
        let queued = self.queued.first().map(|(at, ..)| *at);
        let retained = self.retained.first().map(|(at, ..)| *at);
        queued.into_iter().chain(retained).min()
    }
}

impl Broker {
    /// When the next of these is due.
    pub(super) fn next_by_wall_clock(&self) -> Option<WallTime> {
        let away = self.away.first().map(|(at, _)| *at);
        let will = self.wills_due.first().map(|(at, _)| *at);
        // What expires at a moment is of use up to it.
        let message = self.expiries.first().map(|at| at.plus_ms(1));
        away.into_iter().chain(will).chain(message).min()
    }

    /// Does what is due, a turn's worth of it.
    pub(super) fn end_by_wall_clock(&mut self) {
        for _ in 0..self.settings.limits.turn_work {
            if self.wills_due.first().is_some_and(|(at, _)| *at <= self.now.wall) {
                let (_, key) = self.wills_due.pop_first().expect("it was just there");
                self.publish_will(&key);
            } else if let Some(&(at, session)) = self.away.first()
                && at <= self.now.wall
            {
                self.expire_session(session);
            } else if let Some(&(at, queue, position)) = self.expiries.queued.first()
                && at < self.now.wall
            {
                self.expiries.queued.pop_first();
                self.expire_entry(queue, position);
            } else if self.expiries.retained.first().is_some_and(|(at, ..)| *at < self.now.wall) {
                let (_, vhost, topic, message) =
                    self.expiries.retained.pop_first().expect("it was just there");
                self.expire_retained(vhost, &topic, message);
            } else {
                return;
            }
        }
    }

    /// When the session expires, if its client is away and it ever does.
    fn session_expires_at(&self, id: SessionId) -> Option<WallTime> {
        let session = self.state.session(id)?;
        let since = session.away_since?;
        let ms = match session.expiry {
            SessionExpiry::AsSet => Some(self.settings.limits.session_expiry_ms).filter(|ms| *ms > 0)?,
            SessionExpiry::After(seconds) => u64::from(seconds) * 1000,
            SessionExpiry::Never => return None,
        };
        Some(since.plus_ms(ms))
    }

    /// The session's client is away from now on.
    pub(crate) fn note_away(&mut self, id: SessionId) {
        if let Some(at) = self.session_expires_at(id) {
            self.away.insert((at, id));
        }
    }

    /// The session's client is back, or the session goes; to be told before that is recorded.
    pub(crate) fn forget_away(&mut self, id: SessionId) {
        if let Some(at) = self.session_expires_at(id) {
            self.away.remove(&(at, id));
        }
    }

    /// The setting may have changed.
    pub(super) fn note_who_is_away(&mut self) {
        self.away = BTreeSet::new();
        let sessions: alloc::vec::Vec<SessionId> = self.state.clients.values().copied().collect();
        sessions.into_iter().for_each(|id| self.note_away(id));
    }

    fn expire_session(&mut self, id: SessionId) {
        let session = self.state.session(id).expect("who is away has a session");
        let client = String::from(&*session.key.client);
        reached!("session expired");
        self.counters.sessions_expired += 1;
        let messages = self.remove_session(id);
        self.event(|| Event::SessionExpired { client, messages });
    }

    /// The will of a client that is gone: published now, or when its delay is over [MQTT-3.1.3-9]; the session's end
    /// comes first where that is earlier.
    pub(crate) fn will_falls_due(&mut self, key: &ClientKey) {
        let Some(will) = self.state.wills.get(key) else { return };
        let delay_ms = u64::from(will.delay_s) * 1000;
        let session = self.state.session_of(key).and_then(|id| self.state.session(id));
        let since = session.filter(|session| session.outlives_its_connection());
        match since.and_then(|session| session.away_since) {
            Some(since) if delay_ms > 0 => {
                reached!("will waits");
                self.wills_due.insert((since.plus_ms(delay_ms), key.clone()));
            }
            _ => self.publish_will(key),
        }
    }

    /// The client is back in its session: its will is not published when its delay is over.
    pub(crate) fn end_delay(&mut self, key: &ClientKey) {
        let before = self.wills_due.len();
        self.forget_delay(key);
        if self.wills_due.len() < before {
            reached!("delayed will void");
        }
    }

    /// The client's will is not published when its delay is over.
    pub(crate) fn forget_delay(&mut self, key: &ClientKey) {
        if !self.wills_due.is_empty() {
            self.wills_due.retain(|(_, its)| its != key);
        }
    }

    /// Notes when what was just published expires.
    pub(super) fn note_expiries(
        &mut self,
        publishing: &Publishing<'_>,
        sessions: &[SessionId],
        retain: Retain,
    ) {
        let at = publishing.expires_at;
        if at == WallTime(0) {
            return;
        }
        for session in sessions {
            let Some(session) = self.state.session(*session) else { continue };
            let Some(queue) = self.state.queue(session.queue) else { continue };
            let position = QueuePosition(queue.next().0 - 1);
            if position >= queue.sent_to() {
                self.expiries.queued.insert((at, session.queue, position));
            }
        }
        if retain == Retain::Set
            && let Some(topic) = publishing.topic
            && let Some(retained) = self.state.vhosts[publishing.vhost].retained.find(topic)
        {
            self.expiries.retained.insert((at, publishing.vhost, topic.into(), retained.message));
        }
        self.forget_what_is_gone();
    }

    /// After a start: notes when what waits to be sent, or is retained, expires.
    pub(super) fn note_expiries_again(&mut self) {
        let table = &self.state.messages.table;
        if table.nothing_expires() {
            return;
        }
        for session in self.state.clients.values() {
            let Some(session) = self.state.session(*session) else { continue };
            let Some(queue) = self.state.queue(session.queue) else { continue };
            for entry in queue.iter_from(queue.sent_to()).filter(|entry| entry.delivery.expires) {
                let at = table.expires_at(entry.message);
                self.expiries.queued.extend(at.map(|at| (at, session.queue, entry.position)));
            }
        }
        for (number, vhost) in self.state.vhosts.iter().enumerate() {
            for (topic, retained) in vhost.retained.iter() {
                let at = table.expires_at(retained.message);
                self.expiries.retained.extend(at.map(|at| (at, number, topic.into(), retained.message)));
            }
        }
    }

    fn forget_what_is_gone(&mut self) {
        let Expiries { queued, retained, forget_queued_from, forget_retained_from } = &mut self.expiries;
        if queued.len() >= FORGET_FROM.max(*forget_queued_from) {
            queued.retain(|&(_, queue, position)| {
                let queue = self.state.queue(queue);
                queue.is_some_and(|queue| position >= queue.sent_to() && queue.find(position).is_some())
            });
            *forget_queued_from = 2 * queued.len();
        }
        if retained.len() >= FORGET_FROM.max(*forget_retained_from) {
            retained.retain(|(_, vhost, topic, message)| {
                let found = self.state.vhosts[*vhost].retained.find(topic);
                found.is_some_and(|found| found.message == *message)
            });
            *forget_retained_from = 2 * retained.len();
        }
    }

    /// A message that was not sent expires, wherever it stands in its queue. [MQTT-3.3.2-5]
    pub(crate) fn expire_entry(&mut self, queue: QueueId, position: QueuePosition) {
        let Some(found) = self.state.queue(queue).filter(|queue| position >= queue.sent_to()) else { return };
        let Some(entry) = found.find(position).filter(|entry| entry.stage == Stage::Queued) else { return };
        reached!("expired in a session's queue");
        self.settle_entry(queue, position);
        self.counters.expired += 1;
        let (message, reason) = (Some(entry.message), DropReason::Expired);
        self.message_event(|| Event::Dropped { message, queue, reason });
    }

    /// A topic retains nothing any more once that has expired.
    pub(crate) fn expire_retained(&mut self, vhost: usize, topic: &str, message: MessageId) {
        let found = self.state.vhosts[vhost].retained.find(topic);
        if found.is_none_or(|found| found.message != message) {
            return;
        }
        reached!("retained message expired");
        let vhost = self.state.vhosts[vhost].name.clone();
        self.commit(Record::RetainedExpired { vhost, topic: topic.into(), message });
        self.counters.expired += 1;
    }
}
