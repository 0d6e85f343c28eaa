//! The state that records build: sessions, queues, messages, subscriptions, retained topics, wills. Clean sessions
//! live in the same tables; their records are applied and not written.
//!
//! `apply` is the only code that changes it, live and in recovery. It asserts what the live path guarantees and a
//! checksummed log must repeat; recovery checks records against the state first (`admits`).
//!
//! `image` makes and takes the images of checkpoints. While a checkpoint is replayed (`begin_restoring` to
//! `finish_restoring`), images may be newer than the records that are applied, so `apply` passes by what is not there
//! and does nothing twice.

mod apply;
pub mod image;
pub(crate) mod salvage;
pub mod topology;

use super::page::Page;
use super::place::Place;
use super::record::{ClientKey, Record, SessionExpiry, Subscription, Will};
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::message::store::MessageStore;
use crate::mqtt::packet::{PacketId, QoS};
use crate::mqtt::topic::TopicFilter;
use crate::queue::{Queue, Stage};
use crate::routing::exchange::Exchange;
use crate::routing::retained::RetainedTopics;
use crate::routing::subscriptions::Subscriptions;
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
pub use topology::DeclaredQueue;

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
    will_pages: BTreeMap<ClientKey, Page>,
    /// Queues that went with their sessions and still hold references.
    pub doomed: VecDeque<Queue>,
    /// Boxed, as the queues are, because a map has room for up to twice as many as it holds.
    sessions: HashMap<SessionId, Box<Session>, FixedState>,
    queues: HashMap<QueueId, Box<QueueOfSession>, FixedState>,
    declared: HashMap<QueueId, DeclaredQueue, FixedState>,
    next_session: SessionId,
    next_queue: QueueId,
    next_message: MessageId,
    durable_sessions: usize,
    /// Entries of all queues, those that go away included.
    entries: u64,
    hash_key: u64,
    /// A checkpoint is replayed.
    restoring: bool,
}

/// A virtual host's routing.
pub struct VirtualHost {
    /// Its name.
    pub name: Arc<str>,
    /// Who subscribed to what.
    pub subscriptions: Subscriptions,
    /// What topics retain.
    pub retained: RetainedTopics,
    /// Exchanges by name, the default one aside.
    pub exchanges: BTreeMap<Arc<str>, Exchange>,
    /// Declared queues by name.
    pub queues: BTreeMap<Arc<str>, QueueId>,
    /// Who shares which subscription, by its whole `$share/name/filter`: the sessions in ascending order.
    pub groups: BTreeMap<Box<str>, Vec<SessionId>>,
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
    /// How long it outlives its connection, if it does.
    pub expiry: SessionExpiry,
    /// Filters with what was granted.
    pub subscriptions: BTreeMap<Box<str>, Subscription>,
    /// Those of them that have an identifier.
    pub identified: usize,
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
    /// The image of all this but subscriptions and what they are owed.
    page: Page,
    /// The images of those, which are made together: their places, once they are on disk.
    subscription_pages: Vec<Option<Place>>,
    subscriptions_changed: bool,
    /// The record that says so.
    subscriptions_image: Lsn,
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

/// What one entry of a queue takes.
const ENTRY_BYTES: u64 = 8;

struct QueueOfSession {
    queue: Queue,
    durable: bool,
    /// Its next position or horizon has changed since its session's image was made.
    changed: bool,
}

impl State {
    /// No state.
    pub fn new(hash_key: u64) -> State {
        State {
            clients: BTreeMap::new(),
            vhosts: Vec::new(),
            messages: MessageStore::new(hash_key),
            wills: BTreeMap::new(),
            will_pages: BTreeMap::new(),
            doomed: VecDeque::new(),
            sessions: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            queues: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            declared: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            next_session: SessionId(1),
            next_queue: QueueId(1),
            next_message: MessageId(1),
            durable_sessions: 0,
            entries: 0,
            hash_key,
            restoring: false,
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
        self.sessions.get(&id).map(|session| &**session)
    }

    /// A queue.
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id).map(|home| &home.queue)
    }

    /// For what of a queue is not durable: what was sent, what is confirmed.
    pub fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(&id).map(|home| &mut home.queue)
    }

    /// Whether a checkpoint is replayed.
    pub fn is_restoring(&self) -> bool {
        self.restoring
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

    /// The key with the name of its virtual host in common with all others; and which host that is.
    fn share_name(&mut self, key: ClientKey) -> (usize, ClientKey) {
        let vhost = self.vhost(&key.vhost);
        (vhost, ClientKey { vhost: Arc::clone(&self.vhosts[vhost].name), ..key })
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
                    exchanges: State::predeclared(self.hash_key),
                    queues: BTreeMap::new(),
                    groups: BTreeMap::new(),
                });
                self.vhosts.len() - 1
            }
        }
    }

    /// Whether the record can be applied: what it names exists and its positions follow. A record that was
    /// written always can; this keeps a log made by a faulty or foreign program from being half believed.
    pub fn admits(&self, record: &Record) -> bool {
        let session = |id: &SessionId| self.restoring || self.sessions.contains_key(id);
        let queue = |id: &QueueId| self.restoring || self.queues.contains_key(id);
        match record {
            Record::Relocated { .. } | Record::Image(_) | Record::Listing(_) | Record::Checkpoint(_) => true,
            Record::Topology(topology) => self.admits_topology(topology),
            Record::SessionOpened { .. }
            | Record::RetainedQueued { .. }
            | Record::Published(_)
            | Record::Moved { .. }
                if self.restoring =>
            {
                self.continues_again(record)
            }
            Record::SessionOpened { session: id, queue: its, key, .. } => {
                !session(id) && !queue(its) && !self.clients.contains_key(key)
            }
            Record::SessionAttached { session: id, .. }
            | Record::SessionDetached { session: id, .. }
            | Record::SessionRemoved { session: id, .. }
            | Record::SessionExpirySet { session: id, .. }
            | Record::PacketIdReceived { session: id, .. }
            | Record::PacketIdReleased { session: id, .. } => session(id),
            Record::Subscribed { session: id, filters, .. } => {
                session(id) && filters.iter().all(|granted| TopicFilter::new(&granted.filter).is_ok())
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
            Record::Moved { from, message, to } => {
                from.is_none_or(|(id, _)| queue(&id))
                    && self.messages.find(*message).is_some()
                    && self.follows(to.queue, [to.position].into_iter())
            }
            Record::Releasing { queue: id, .. }
            | Record::Settled { queue: id, .. }
            | Record::Returned { queue: id, .. }
            | Record::RangeSettled { queue: id, .. }
            | Record::HorizonMoved { queue: id, .. } => queue(id),
            Record::WillSet { .. } | Record::WillRemoved { .. } | Record::RetainedExpired { .. } => true,
        }
    }

    /// Whether what the record puts into queues goes on where they end, or is there already.
    fn continues_again(&self, record: &Record) -> bool {
        let fits = |id: QueueId, position| self.queue(id).is_none_or(|queue| queue.can_push(position));
        match record {
            Record::Published(publication) => {
                publication.recipients.iter().all(|r| fits(r.queue, r.position))
            }
            Record::Moved { to, .. } => fits(to.queue, to.position),
            _ => true,
        }
    }

    fn follows(&self, queue: QueueId, positions: impl Iterator<Item = QueuePosition>) -> bool {
        self.queue(queue).is_some_and(|queue| {
            positions.zip(queue.next().0..).all(|(p, next)| p.0 == next || (queue.is_sparse() && p.0 > next))
        })
    }

    /// The message was written there, and that is on disk.
    pub fn written(&mut self, message: MessageId, place: Place) {
        self.messages.written(message, place);
    }

    /// Frees up to `count` entries of queues that went away; how many.
    pub fn bury(&mut self, count: usize) -> usize {
        let mut buried = 0;
        while buried < count
            && let Some(queue) = self.doomed.front_mut()
        {
            match queue.dismantle() {
                Some(chunk) => {
                    buried += chunk.live();
                    self.entries -= chunk.live() as u64;
                    for entry in chunk.iter().filter(|entry| entry.stage == Stage::Queued) {
                        self.messages.release(entry.message);
                    }
                }
                None => drop(self.doomed.pop_front()),
            }
        }
        buried
    }
}
