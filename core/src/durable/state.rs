//! The state that records build: sessions, queues, messages, subscriptions, retained topics, wills. Clean sessions
//! live in the same tables; their records are applied and not written.
//!
//! `apply` is the only code that changes it, live and in recovery. It asserts what the live path guarantees and a
//! checksummed log must repeat; recovery checks records against the state first (`admits`).

use super::place::Place;
use super::record::{ClientKey, Publication, Record, Retain, Will};
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::message::store::MessageStore;
use crate::mqtt::packet::{PacketId, QoS};
use crate::mqtt::topic::TopicFilter;
use crate::queue::{Delivery, Entry, Queue, Stage};
use crate::routing::retained::{Progress, Retained, RetainedTopics};
use crate::routing::subscriptions::{Subscriber, Subscriptions};
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// All that records say.
pub struct State {
    /// Who has which session.
    pub clients: BTreeMap<ClientKey, SessionId>,
    /// Virtual hosts, in the order of their first use.
    pub vhosts: Vec<VirtualHost>,
    /// The messages that queues and retained topics refer to.
    pub messages: MessageStore,
    /// Wills of clients that are connected, or were when the broker crashed.
    pub wills: BTreeMap<ClientKey, Will>,
    /// Queues that went with their sessions and still hold references.
    pub doomed: VecDeque<Queue>,
    sessions: HashMap<SessionId, Session, FixedState>,
    queues: HashMap<QueueId, QueueOfSession, FixedState>,
    next_session: SessionId,
    next_queue: QueueId,
    next_message: MessageId,
    durable_sessions: usize,
    /// Entries of all queues, those that go away included.
    entries: u64,
    hash_key: u64,
}

/// A virtual host's routing.
pub struct VirtualHost {
    /// Its name.
    pub name: Box<str>,
    /// Who subscribed to what.
    pub subscriptions: Subscriptions,
    /// What topics retain.
    pub retained: RetainedTopics,
}

/// A session.
pub struct Session {
    /// Whose it is.
    pub key: ClientKey,
    /// Whether it outlives its connection.
    pub durable: bool,
    /// Its queue.
    pub queue: QueueId,
    /// Its virtual host, as an index of `State::vhosts`.
    pub vhost: usize,
    /// Filters with the QoS granted.
    pub subscriptions: BTreeMap<Box<str>, QoS>,
    /// QoS 2 packet identifiers taken and not released, with the records that took them.
    pub received: BTreeMap<PacketId, Lsn>,
    /// Since when its client is away; none while it is connected.
    pub away_since: Option<WallTime>,
    /// The retained messages that subscriptions are still owed.
    pub owed: VecDeque<Owed>,
    /// The record that last changed it.
    pub changed: Lsn,
    /// The record that last released a packet identifier.
    pub released: Lsn,
}

/// What a new subscription is owed of the retained messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The subscription.
    pub filter: Box<str>,
    /// The QoS granted.
    pub qos: QoS,
    /// Only messages older than this: what was published since was delivered as it came.
    pub before: MessageId,
    /// How far it got.
    pub after: Option<Box<str>>,
}

/// What one entry of a queue takes, with the queue's room to grow.
const ENTRY_BYTES: u64 = 64;

struct QueueOfSession {
    queue: Queue,
    durable: bool,
}

impl State {
    /// No state.
    pub fn new(hash_key: u64) -> State {
        State {
            clients: BTreeMap::new(),
            vhosts: Vec::new(),
            messages: MessageStore::new(hash_key),
            wills: BTreeMap::new(),
            doomed: VecDeque::new(),
            sessions: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            queues: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            next_session: SessionId(1),
            next_queue: QueueId(1),
            next_message: MessageId(1),
            durable_sessions: 0,
            entries: 0,
            hash_key,
        }
    }

    /// Sessions, clean ones included.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Durable sessions.
    pub fn durable_session_count(&self) -> usize {
        self.durable_sessions
    }

    /// Bytes that all messages and their places in queues take in memory, about.
    pub fn held_bytes(&self) -> u64 {
        self.messages.held_bytes() + self.entries * ENTRY_BYTES
    }

    /// The session of a client.
    pub fn session_of(&self, key: &ClientKey) -> Option<SessionId> {
        self.clients.get(key).copied()
    }

    /// A session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// A queue.
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id).map(|home| &home.queue)
    }

    /// For what of a queue is not durable: what was sent, what is confirmed.
    pub fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(&id).map(|home| &mut home.queue)
    }

    /// Whether the session outlives its connection.
    pub fn is_durable_session(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.durable)
    }

    /// Whether the queue survives.
    pub fn is_durable_queue(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(|home| home.durable)
    }

    /// The numbers that the next session and its queue get.
    pub fn next_session(&self) -> (SessionId, QueueId) {
        (self.next_session, self.next_queue)
    }

    /// The id that the next message gets.
    pub fn next_message(&self) -> MessageId {
        self.next_message
    }

    /// The virtual host of that name, as an index.
    pub fn vhost(&mut self, name: &str) -> usize {
        match self.vhosts.iter().position(|vhost| &*vhost.name == name) {
            Some(index) => index,
            None => {
                let subscriptions = Subscriptions::new(self.hash_key);
                self.vhosts.push(VirtualHost {
                    name: name.into(),
                    subscriptions,
                    retained: RetainedTopics::default(),
                });
                self.vhosts.len() - 1
            }
        }
    }

    /// Whether the record can be applied: what it names exists and its positions follow. A record that was
    /// written always can; this keeps a log made by a faulty or foreign program from being half believed.
    pub fn admits(&self, record: &Record) -> bool {
        let session = |id: &SessionId| self.sessions.contains_key(id);
        let queue = |id: &QueueId| self.queues.contains_key(id);
        match record {
            Record::SessionOpened { session: id, queue: its, key, .. } => {
                !session(id) && !queue(its) && !self.clients.contains_key(key)
            }
            Record::SessionAttached { session: id, .. }
            | Record::SessionDetached { session: id, .. }
            | Record::SessionRemoved { session: id, .. }
            | Record::PacketIdReceived { session: id, .. }
            | Record::PacketIdReleased { session: id, .. } => session(id),
            Record::Subscribed { session: id, filters, .. } => {
                session(id) && filters.iter().all(|(filter, _)| TopicFilter::new(filter).is_ok())
            }
            Record::Unsubscribed { session: id, filters } => {
                session(id) && filters.iter().all(|filter| TopicFilter::new(filter).is_ok())
            }
            Record::RetainedQueued { session: id, entries, .. } => {
                self.sessions.get(id).is_some_and(|session| {
                    !session.owed.is_empty()
                        && self.follows(session.queue, entries.iter().map(|entry| entry.0))
                        && entries.iter().all(|entry| self.messages.find(entry.1).is_some())
                })
            }
            Record::Published(publication) => {
                self.messages.find(publication.message).is_none()
                    && publication.recipients.iter().all(|r| self.follows(r.queue, [r.position].into_iter()))
                    && publication.dropped.iter().all(|(id, _)| queue(id))
                    && publication.received.is_none_or(|(id, _)| session(&id))
            }
            Record::Releasing { queue: id, .. }
            | Record::Settled { queue: id, .. }
            | Record::HorizonMoved { queue: id, .. } => queue(id),
            Record::WillSet { .. } | Record::WillRemoved { .. } => true,
        }
    }

    fn follows(&self, queue: QueueId, positions: impl Iterator<Item = QueuePosition>) -> bool {
        self.queue(queue).is_some_and(|queue| positions.zip(queue.next().0..).all(|(p, next)| p.0 == next))
    }

    /// Changes the state as the record says. `lsn` is its number, `Lsn::NONE` for one that is not written;
    /// `place` is where the body of its message lies, as far as it is written.
    pub fn apply(&mut self, record: Record, lsn: Lsn, place: Option<Place>) {
        match record {
            Record::SessionOpened { session, queue, key, durable, at: _, horizon } => {
                self.open(session, queue, key, durable, horizon, lsn);
            }
            Record::SessionAttached { session, horizon } => {
                let (session, queue) = self.session_and_queue(session);
                session.away_since = None;
                session.changed = lsn;
                queue.horizon.record(horizon, lsn);
            }
            Record::SessionDetached { session, at, horizon } => {
                let (session, queue) = self.session_and_queue(session);
                session.away_since = Some(at);
                session.changed = lsn;
                queue.horizon.record(horizon, lsn);
            }
            Record::SessionRemoved { session, at: _ } => self.remove(session),
            Record::Subscribed { session, filters, before } => self.subscribe(session, filters, before, lsn),
            Record::Unsubscribed { session, filters } => self.unsubscribe(session, &filters, lsn),
            Record::RetainedQueued { session, entries, progress } => {
                self.queue_retained(session, &entries, progress, lsn);
            }
            Record::Published(publication) => self.publish(publication, lsn, place),
            Record::PacketIdReceived { session, packet_id } => {
                self.session_mut(session).received.insert(packet_id, lsn);
            }
            Record::PacketIdReleased { session, packet_id } => {
                let session = self.session_mut(session);
                session.received.remove(&packet_id);
                session.released = lsn;
            }
            Record::Releasing { queue, position } => self.release(queue, position, lsn),
            Record::Settled { queue, position } => self.settle(queue, position, lsn),
            Record::HorizonMoved { queue, position } => self.home(queue).queue.horizon.record(position, lsn),
            Record::WillSet { key, will } => drop(self.wills.insert(key, will)),
            Record::WillRemoved { key } => drop(self.wills.remove(&key)),
        }
    }

    fn open(
        &mut self,
        id: SessionId,
        queue_id: QueueId,
        key: ClientKey,
        durable: bool,
        horizon: QueuePosition,
        lsn: Lsn,
    ) {
        let mut queue = Queue::new(durable);
        if durable {
            queue.horizon.record(horizon, lsn);
        }
        let vhost = self.vhost(&key.vhost);
        let before = self.clients.insert(key.clone(), id);
        assert!(before.is_none(), "a client has one session");
        self.queues.insert(queue_id, QueueOfSession { queue, durable });
        let session = Session {
            key,
            durable,
            queue: queue_id,
            vhost,
            subscriptions: BTreeMap::new(),
            received: BTreeMap::new(),
            away_since: None,
            owed: VecDeque::new(),
            changed: lsn,
            released: Lsn::NONE,
        };
        self.sessions.insert(id, session);
        self.durable_sessions += usize::from(durable);
        self.next_session = self.next_session.max(SessionId(id.0 + 1));
        self.next_queue = self.next_queue.max(QueueId(queue_id.0 + 1));
    }

    fn remove(&mut self, id: SessionId) {
        let session = self.sessions.remove(&id).expect("only sessions that exist are removed");
        self.clients.remove(&session.key);
        self.durable_sessions -= usize::from(session.durable);
        for filter in session.subscriptions.keys() {
            let filter = TopicFilter::new(filter).expect("it was valid when it was subscribed");
            self.vhosts[session.vhost].subscriptions.remove(filter, id);
        }
        let home = self.queues.remove(&session.queue).expect("a session owns a queue");
        if !home.queue.is_empty() {
            self.doomed.push_back(home.queue);
        }
    }

    fn subscribe(&mut self, id: SessionId, filters: Vec<(Box<str>, QoS)>, before: MessageId, lsn: Lsn) {
        let session = self.sessions.get_mut(&id).expect("only sessions that exist subscribe");
        session.changed = lsn;
        for (filter, qos) in filters {
            let valid = TopicFilter::new(&filter).expect("only valid filters are recorded");
            self.vhosts[session.vhost].subscriptions.insert(valid, Subscriber { session: id, qos });
            session.owed.retain(|owed| owed.filter != filter);
            session.owed.push_back(Owed { filter: filter.clone(), qos, before, after: None });
            session.subscriptions.insert(filter, qos);
        }
    }

    fn unsubscribe(&mut self, id: SessionId, filters: &[Box<str>], lsn: Lsn) {
        let session = self.sessions.get_mut(&id).expect("only sessions that exist unsubscribe");
        session.changed = lsn;
        for filter in filters {
            let valid = TopicFilter::new(filter).expect("only valid filters are recorded");
            session.subscriptions.remove(filter);
            session.owed.retain(|owed| owed.filter != *filter);
            self.vhosts[session.vhost].subscriptions.remove(valid, id);
        }
    }

    fn queue_retained(
        &mut self,
        id: SessionId,
        entries: &[(QueuePosition, MessageId, Delivery)],
        progress: Progress,
        lsn: Lsn,
    ) {
        let session = self.sessions.get_mut(&id).expect("only sessions that exist are owed");
        let home = self.queues.get_mut(&session.queue).expect("a session owns a queue");
        for &(position, message, delivery) in entries {
            let stored = self.messages.find(message).expect("a retained message is held");
            let bytes = stored.message.body().len() as u64;
            home.queue.push(Entry { position, message, lsn, delivery, stage: Stage::Queued }, bytes);
            self.messages.retain(message);
        }
        self.entries += entries.len() as u64;
        match progress {
            Progress::Done => drop(session.owed.pop_front()),
            Progress::After(topic) => {
                session.owed.front_mut().expect("what progresses is owed").after = Some(topic);
            }
        }
    }

    fn publish(&mut self, publication: Publication, lsn: Lsn, place: Option<Place>) {
        let Publication { message, vhost, content, recipients, dropped, retain, received, will_of } =
            publication;
        self.next_message = self.next_message.max(MessageId(message.0 + 1));
        for (queue, position) in dropped {
            self.settle(queue, position, lsn);
            self.home(queue).queue.mark_drop(lsn);
        }
        let bytes = content.body().len() as u64;
        for recipient in &recipients {
            let home = self.home(recipient.queue);
            let (position, delivery) = (recipient.position, recipient.delivery);
            home.queue.push(Entry { position, message, lsn, delivery, stage: Stage::Queued }, bytes);
        }
        self.entries += recipients.len() as u64;
        let references = recipients.len() as u32 + u32::from(retain == Retain::Set);
        if retain != Retain::Not {
            let vhost = self.vhost(&vhost);
            let topic = core::str::from_utf8(content.address()).expect("topic names are UTF-8");
            let retained = &mut self.vhosts[vhost].retained;
            let before = match retain {
                Retain::Set => retained.set(topic, Retained { message, changed: lsn }),
                Retain::Clear | Retain::Not => retained.clear(topic, lsn),
            };
            if let Some(before) = before {
                self.messages.release(before.message);
            }
        }
        self.messages.insert(message, content, place, references);
        if let Some((session, packet_id)) = received {
            self.session_mut(session).received.insert(packet_id, lsn);
        }
        if let Some(client) = will_of {
            self.wills.remove(&ClientKey { vhost, client });
        }
    }

    fn release(&mut self, queue: QueueId, position: QueuePosition, lsn: Lsn) {
        let home = self.queues.get_mut(&queue).expect("only queues that exist release");
        let Some(entry) = home.queue.find(position) else { return };
        let bytes = self.messages.find(entry.message).map_or(0, |stored| stored.message.body().len() as u64);
        if let Some(message) = home.queue.release(position, bytes, lsn) {
            self.messages.release(message);
        }
    }

    fn settle(&mut self, queue: QueueId, position: QueuePosition, lsn: Lsn) {
        let home = self.queues.get_mut(&queue).expect("only queues that exist settle");
        let messages = &mut self.messages;
        let bytes = |id| messages.find(id).map_or(0, |stored| stored.message.body().len() as u64);
        let Some(entry) = home.queue.settle(position, bytes, lsn) else { return };
        self.entries -= 1;
        if entry.stage == Stage::Queued {
            messages.release(entry.message);
        }
    }

    /// Frees up to `count` entries of queues that went away; how many.
    pub fn bury(&mut self, count: usize) -> usize {
        let mut buried = 0;
        while buried < count
            && let Some(queue) = self.doomed.front_mut()
        {
            match queue.dismantle() {
                Some(entry) => {
                    buried += 1;
                    self.entries -= 1;
                    if entry.stage == Stage::Queued {
                        self.messages.release(entry.message);
                    }
                }
                None => drop(self.doomed.pop_front()),
            }
        }
        buried
    }

    /// The body of this message was written here.
    pub fn written(&mut self, message: MessageId, place: Place) {
        self.messages.written(message, place);
    }

    fn home(&mut self, id: QueueId) -> &mut QueueOfSession {
        self.queues.get_mut(&id).expect("only queues that exist are changed")
    }

    fn session_mut(&mut self, id: SessionId) -> &mut Session {
        self.sessions.get_mut(&id).expect("only sessions that exist are changed")
    }

    fn session_and_queue(&mut self, id: SessionId) -> (&mut Session, &mut Queue) {
        let session = self.sessions.get_mut(&id).expect("only sessions that exist are changed");
        let home = self.queues.get_mut(&session.queue).expect("a session owns a queue");
        (session, &mut home.queue)
    }
}
