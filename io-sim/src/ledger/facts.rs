//! What records say, folded: as little as the checks need, and by code of its own.

use super::News;
use super::image::Pieces;
use crate::payload::{self, MessageKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use vowmq_core::durable::record::{
    ClientKey, Granted, Publication, Recipient, Record, Retain, SessionExpiry,
};
use vowmq_core::durable::state::Owed;
use vowmq_core::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use vowmq_core::queue::Delivery;
use vowmq_core::routing::retained::Progress;

/// Packet ids go round after so many.
const PACKET_IDS: u64 = 65_535;

/// The state that the synced records build.
#[derive(Default)]
pub(crate) struct Facts {
    sessions: BTreeMap<SessionId, SessionFacts>,
    of_client: BTreeMap<Box<str>, SessionId>,
    of_queue: BTreeMap<QueueId, SessionId>,
    /// By topic.
    retained: BTreeMap<Box<str>, (MessageId, Option<MessageKey>)>,
    /// Messages that were retained once: they may be on their way to somebody when they are not any more.
    retained_once: BTreeMap<MessageId, MessageKey>,
    /// By client.
    wills: BTreeMap<Arc<str>, Option<MessageKey>>,
    /// The images of a session's subscriptions that came last, as long as more of them may follow.
    pub(super) pieces: Option<Pieces>,
}

/// A durable session.
pub(crate) struct SessionFacts {
    pub(super) client: Box<str>,
    /// It is the session of a group, whose client is the group's filter.
    is_group: bool,
    queue: QueueId,
    /// Its client is there, as far as the records know.
    pub(crate) attached: bool,
    /// How long it stays, if that was said.
    pub(crate) expiry: Option<SessionExpiry>,
    /// By filter, with the QoS granted.
    pub(crate) subscriptions: BTreeMap<Box<str>, u8>,
    /// The retained messages that they are still owed.
    pub(super) owed: VecDeque<Owed>,
    /// QoS 2 packet ids of its client that are taken.
    pub(crate) received: BTreeSet<u16>,
    /// Positions below it may be delivered.
    pub(super) horizon: u64,
    /// The position that the next entry gets.
    pub(super) next: u64,
    pub(super) entries: BTreeMap<u64, EntryFacts>,
}

/// A message in a queue.
#[derive(Clone, Copy)]
pub(crate) struct EntryFacts {
    pub(super) message: MessageId,
    key: Option<MessageKey>,
    /// The client's PUBREC is on the disk.
    pub(crate) releasing: bool,
}

impl Facts {
    /// The session of a client.
    pub(crate) fn session(&self, client: &str) -> Option<&SessionFacts> {
        self.of_client.get(client).and_then(|id| self.sessions.get(id))
    }

    pub(super) fn session_of(&self, session: SessionId) -> Option<&SessionFacts> {
        self.sessions.get(&session)
    }

    pub(super) fn session_of_queue(&self, queue: QueueId) -> Option<&SessionFacts> {
        self.of_queue.get(&queue).and_then(|session| self.sessions.get(session))
    }

    /// The message that a topic retains.
    pub(super) fn retains(&self, topic: &str) -> Option<MessageId> {
        self.retained.get(topic).map(|(message, _)| *message)
    }

    /// What a topic retains.
    pub(crate) fn retained(&self, topic: &str) -> Option<MessageKey> {
        self.retained.get(topic).and_then(|(_, key)| *key)
    }

    /// The will of a client, if it has one: whose message it is.
    pub(crate) fn will(&self, client: &str) -> Option<Option<MessageKey>> {
        self.wills.get(client).copied()
    }

    pub(super) fn apply(&mut self, record: Record, lsn: Lsn, news: &mut News) {
        if let Err(text) = self.end_pieces(&record) {
            news.wrong_image.get_or_insert(text);
        }
        match record {
            Record::SessionOpened { session, queue, key, horizon, .. } => {
                news.presence.push((Box::from(&*key.client), false));
                self.open(session, queue, key, horizon);
            }
            Record::SessionAttached { session, horizon } => self.come_or_go(session, horizon, false, news),
            Record::SessionDetached { session, horizon, .. } => self.come_or_go(session, horizon, true, news),
            Record::SessionRemoved { session, .. } => self.remove(session, news),
            Record::Subscribed { session, filters, before } => self.subscribe(session, filters, before),
            Record::Unsubscribed { session, filters } => self.with(session, |facts| {
                facts.owed.retain(|owed| !filters.contains(&owed.filter));
                facts.subscriptions.retain(|filter, _| !filters.contains(filter));
            }),
            Record::RetainedQueued { session, entries, progress, .. } => {
                self.queue_retained(session, entries, progress);
            }
            Record::Published(publication) => self.publish(&publication, news),
            Record::Moved { from, message, to } => self.move_entry(from, message, to),
            Record::PacketIdReceived { session, packet_id } => {
                self.with(session, |facts| facts.received.extend([packet_id.get()]));
            }
            Record::PacketIdReleased { session, packet_id } => {
                self.with(session, |facts| facts.received.retain(|id| *id != packet_id.get()));
            }
            Record::Releasing { queue, position } => self.with_queue(queue, |facts| {
                facts.entries.entry(position.0).and_modify(|entry| entry.releasing = true);
            }),
            Record::Settled { queue, position } => {
                self.with_queue(queue, |facts| {
                    if let Some(entry) = facts.entries.remove(&position.0) {
                        let id = (1 + position.0 % PACKET_IDS) as u16;
                        news.settled.push((facts.client.clone(), id, entry.key));
                    }
                });
            }
            Record::HorizonMoved { queue, position } => {
                self.with_queue(queue, |facts| facts.horizon = position.0);
            }
            Record::WillSet { key, will } => {
                self.wills.insert(key.client, payload::recognise(will.content.body()));
            }
            Record::WillRemoved { key } => drop(self.wills.remove(&key.client)),
            Record::Image(image) => {
                if let Err(text) = self.agrees_with(&image) {
                    news.wrong_image.get_or_insert(text);
                }
                self.gather(image, lsn);
            }
            Record::RetainedExpired { topic, message, .. } => {
                self.retained.retain(|its, (retained, _)| *its != topic || *retained != message)
            }
            Record::SessionExpirySet { session, expiry } => {
                self.with(session, |facts| facts.expiry = Some(expiry));
            }
            // Declared queues are held against what their clients see.
            Record::Topology(_) | Record::RangeSettled { .. } | Record::Returned { .. } => {}
            Record::Relocated { .. } | Record::Listing(_) | Record::Checkpoint(_) => {}
        }
    }

    fn remove(&mut self, session: SessionId, news: &mut News) {
        if let Some(facts) = self.sessions.remove(&session) {
            news.presence.push((facts.client.clone(), false));
            self.of_client.remove(&facts.client);
            self.of_queue.remove(&facts.queue);
        }
    }

    fn come_or_go(&mut self, session: SessionId, horizon: QueuePosition, away: bool, news: &mut News) {
        self.with(session, |facts| {
            (facts.attached, facts.horizon) = (!away, horizon.0);
            news.presence.push((facts.client.clone(), away));
        });
    }

    fn subscribe(&mut self, session: SessionId, filters: Vec<Granted>, before: MessageId) {
        self.with(session, |facts| {
            for Granted { filter, subscription, owes } in filters {
                let qos = subscription.qos;
                if owes {
                    facts.owed.retain(|owed| owed.filter != filter);
                    facts.owed.push_back(Owed { filter: filter.clone(), qos, before, after: None });
                }
                facts.subscriptions.insert(filter, qos as u8);
            }
        });
    }

    fn move_entry(&mut self, from: Option<(QueueId, QueuePosition)>, message: MessageId, to: Recipient) {
        let mut key = None;
        if let Some((queue, position)) = from {
            self.with_queue(queue, |facts| {
                key = facts.entries.remove(&position.0).and_then(|entry| entry.key);
            });
        }
        self.with_queue(to.queue, |facts| facts.push(to.position, message, key));
    }

    fn queue_retained(
        &mut self,
        session: SessionId,
        entries: Vec<(QueuePosition, MessageId, Delivery)>,
        progress: Progress,
    ) {
        self.with(session, |facts| match (progress, facts.owed.front_mut()) {
            (Progress::Done, _) => drop(facts.owed.pop_front()),
            (Progress::After(topic), Some(owed)) => owed.after = Some(topic),
            (Progress::After(_), None) => {}
        });
        for (position, message, _) in entries {
            let key = self.retained_once.get(&message).copied();
            self.with(session, |facts| facts.push(position, message, key));
        }
    }

    fn open(&mut self, session: SessionId, queue: QueueId, key: ClientKey, horizon: QueuePosition) {
        let is_group = key.group().is_some();
        let client: Box<str> = (&*key.client).into();
        self.of_client.insert(client.clone(), session);
        self.of_queue.insert(queue, session);
        let facts = SessionFacts {
            client,
            is_group,
            queue,
            attached: true,
            expiry: None,
            subscriptions: BTreeMap::new(),
            owed: VecDeque::new(),
            received: BTreeSet::new(),
            horizon: horizon.0,
            next: 0,
            entries: BTreeMap::new(),
        };
        self.sessions.insert(session, facts);
    }

    fn publish(&mut self, publication: &Publication, news: &mut News) {
        let key = payload::recognise(publication.content.body());
        for &(queue, position) in &publication.dropped {
            self.with_queue(queue, |facts| {
                if let Some(dropped) = facts.entries.remove(&position.0).and_then(|entry| entry.key) {
                    news.dropped.push((dropped, facts.client.clone()));
                }
            });
        }
        let mut clients = Vec::new();
        let may_be_back = may_be_back(publication);
        for recipient in &publication.recipients {
            self.with_queue(recipient.queue, |facts| {
                facts.push(recipient.position, publication.message, key);
                clients.push(facts.client.clone());
                let length = facts.entries.len();
                let counts = !(facts.is_group && may_be_back);
                if counts && news.longest.as_ref().is_none_or(|(longest, _)| length > *longest) {
                    news.longest = Some((length, facts.client.clone()));
                }
            });
        }
        let topic = String::from_utf8_lossy(publication.content.address());
        match publication.retain {
            Retain::Set => {
                self.retained.insert(topic.into(), (publication.message, key));
                self.retained_once.extend(key.map(|key| (publication.message, key)));
            }
            Retain::Clear => drop(self.retained.remove(&*topic)),
            Retain::Not => {}
        }
        if let Some((session, packet_id)) = publication.received {
            self.with(session, |facts| facts.received.extend([packet_id.get()]));
        }
        if let Some(client) = &publication.will_of {
            self.wills.remove(client);
        }
        if let Some(key) = key {
            news.stored.push((key, clients));
        }
    }

    fn with(&mut self, session: SessionId, change: impl FnOnce(&mut SessionFacts)) {
        self.sessions.get_mut(&session).map(change);
    }

    fn with_queue(&mut self, queue: QueueId, change: impl FnOnce(&mut SessionFacts)) {
        if let Some(session) = self.of_queue.get(&queue).copied() {
            self.with(session, change);
        }
    }
}

/// Whether a group may have it back with this: from a member that took it when nothing of the group was durable. What comes
/// back is not refused by a full queue, and looks like a message that comes for the first time.
fn may_be_back(publication: &Publication) -> bool {
    publication.recipients.len() == 1
        && publication.dropped.is_empty()
        && publication.received.is_none()
        && publication.retain == Retain::Not
        && publication.will_of.is_none()
}

impl SessionFacts {
    /// The entry that is delivered under this packet id.
    pub(crate) fn entry(&self, packet_id: u16) -> Option<EntryFacts> {
        let turn = self.next / PACKET_IDS * PACKET_IDS;
        let place = u64::from(packet_id) - 1;
        let this_turn = self.entries.get(&(turn + place));
        this_turn.or_else(|| self.entries.get(&(turn.checked_sub(PACKET_IDS)? + place))).copied()
    }

    /// Whether the horizon allows a delivery under this packet id: of an entry, or of one that is yet to be synced. Of an
    /// id whose entry is settled it says nothing; the client judges that.
    pub(crate) fn allows(&self, packet_id: u16) -> bool {
        let place = u64::from(packet_id) - 1;
        let turn = self.next / PACKET_IDS * PACKET_IDS;
        if turn + place < self.next && !self.entries.contains_key(&(turn + place)) {
            return true;
        }
        let known = [Some(turn), turn.checked_sub(PACKET_IDS)].into_iter().flatten();
        let known = known.map(|turn| turn + place).find(|position| self.entries.contains_key(position));
        let coming = self.next + (place + PACKET_IDS - self.next % PACKET_IDS) % PACKET_IDS;
        known.unwrap_or(coming) < self.horizon
    }

    /// Whether it is as a session is that has just begun.
    pub(crate) fn is_new(&self) -> bool {
        self.subscriptions.is_empty() && self.entries.is_empty() && self.received.is_empty()
    }

    fn push(&mut self, position: QueuePosition, message: MessageId, key: Option<MessageKey>) {
        self.entries.insert(position.0, EntryFacts { message, key, releasing: false });
        self.next = self.next.max(position.0 + 1);
    }
}
