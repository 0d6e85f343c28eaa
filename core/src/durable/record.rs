//! Records: durable facts, one each. What they look like on disk is in `codec`.
//!
//! The live path makes the same records for clean sessions and applies them in the same way; only those of which
//! something must survive go to the log (`Record::is_durable`).

use super::place::Place;
use super::state::{Owed, State};
use super::topology::{ExchangeImage, QueueImage, Topology};
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, RecoveryCount, SegmentNumber, SessionId};
use crate::message::Message;
use crate::message::table::Known;
use crate::mqtt::packet::{PacketId, QoS};
use crate::queue::{Delivery, Entry, Note};
use crate::routing::retained::Progress;
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Whose session or will: a client identifier within a virtual host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientKey {
    /// The virtual host.
    pub vhost: Arc<str>,
    /// The client's identifier.
    pub client: Arc<str>,
}

/// What the names of groups begin with. No client's identifier has it in it. [MQTT-1.5.4-2]
const GROUP: char = '\0';

impl ClientKey {
    /// Whose the session of a group is that shares a subscription; `filter` is the whole `$share/name/filter`.
    pub fn of_group(vhost: &str, filter: &str) -> ClientKey {
        let mut client = String::with_capacity(filter.len() + 1);
        client.push(GROUP);
        client.push_str(filter);
        ClientKey { vhost: vhost.into(), client: client.into() }
    }

    /// Of a group, the whole `$share/name/filter`.
    pub fn group(&self) -> Option<&str> {
        self.client.strip_prefix(GROUP)
    }

    /// For people: the client's identifier, or the group's filter.
    pub fn name(&self) -> &str {
        self.group().unwrap_or(&self.client)
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A session was made, its client connected.
    SessionOpened {
        /// Its number.
        session: SessionId,
        /// Its queue.
        queue: QueueId,
        /// Its client.
        key: ClientKey,
        /// Whether it outlives its connection.
        durable: bool,
        /// When.
        at: WallTime,
        /// Positions below it may be delivered.
        horizon: QueuePosition,
    },
    /// A session's client came back.
    SessionAttached {
        /// The session.
        session: SessionId,
        /// Positions below it may be delivered.
        horizon: QueuePosition,
    },
    /// A session's client went; its expiry runs from `at`.
    SessionDetached {
        /// The session.
        session: SessionId,
        /// When.
        at: WallTime,
        /// Positions from here on were never delivered.
        horizon: QueuePosition,
    },
    /// A session ended, with all it had.
    SessionRemoved {
        /// The session.
        session: SessionId,
        /// When.
        at: WallTime,
    },
    /// How long a session outlives its connection has changed.
    SessionExpirySet {
        /// The session.
        session: SessionId,
        /// How long.
        expiry: SessionExpiry,
    },
    /// A session subscribed. It is owed the retained messages that match and are older than `before`.
    Subscribed {
        /// The session.
        session: SessionId,
        /// What was granted.
        filters: Vec<Granted>,
        /// The id that the next message gets.
        before: MessageId,
    },
    /// A session unsubscribed.
    Unsubscribed {
        /// The session.
        session: SessionId,
        /// The filters.
        filters: Vec<Box<str>>,
    },
    /// Some of the retained messages that a session is owed were put into its queue.
    RetainedQueued {
        /// The session.
        session: SessionId,
        /// What was put there.
        entries: Vec<(QueuePosition, MessageId, Delivery)>,
        /// How far the first filter that is owed any has been seen.
        progress: Progress,
        /// The identifier of its subscription; 0 for none.
        identifier: u32,
    },
    /// A message was published.
    Published(Publication),
    /// A message went from one queue to another: of a shared subscription's group to a member, or back.
    Moved {
        /// The entry that it was; none: it stays there as well, lent.
        from: Option<(QueueId, QueuePosition)>,
        /// The message.
        message: MessageId,
        /// The entry that it becomes.
        to: Recipient,
    },
    /// A publisher's QoS 2 packet identifier was taken, for a message that nothing durable is owed.
    PacketIdReceived {
        /// The publisher's session.
        session: SessionId,
        /// The identifier.
        packet_id: PacketId,
    },
    /// A publisher released a QoS 2 packet identifier.
    PacketIdReleased {
        /// The publisher's session.
        session: SessionId,
        /// The identifier.
        packet_id: PacketId,
    },
    /// A subscriber has taken a QoS 2 message over (PUBREC).
    Releasing {
        /// The queue.
        queue: QueueId,
        /// The entry.
        position: QueuePosition,
    },
    /// A consumer acknowledged an entry to the end.
    Settled {
        /// The queue.
        queue: QueueId,
        /// The entry.
        position: QueuePosition,
    },
    /// An entry was delivered and came back, in a queue that counts how often.
    Returned {
        /// The queue.
        queue: QueueId,
        /// The entry.
        position: QueuePosition,
        /// How often by now.
        returns: u32,
    },
    /// A queue may deliver up to here.
    HorizonMoved {
        /// The queue.
        queue: QueueId,
        /// Positions below it may be delivered.
        position: QueuePosition,
    },
    /// A client left a will.
    WillSet {
        /// The client.
        key: ClientKey,
        /// The will.
        will: Will,
    },
    /// A client's will is void.
    WillRemoved {
        /// The client.
        key: ClientKey,
    },
    /// What a topic retained has expired.
    RetainedExpired {
        /// The virtual host.
        vhost: Arc<str>,
        /// The topic.
        topic: Box<str>,
        /// What it retained.
        message: MessageId,
    },
    /// A message was written again, so that the segment it lay in can go.
    Relocated {
        /// The message.
        message: MessageId,
        /// What it is.
        content: Message,
    },
    /// What is declared has changed.
    Topology(Topology),
    /// All entries of a stretch of a queue are done with.
    RangeSettled {
        /// The queue.
        queue: QueueId,
        /// The first position.
        from: QueuePosition,
        /// The position behind the last.
        to: QueuePosition,
    },
    /// What an entity is, for a checkpoint.
    Image(Image),
    /// Where images of a checkpoint lie.
    Listing(Vec<Place>),
    /// A checkpoint is complete.
    Checkpoint(Checkpoint),
}

/// The end of a checkpoint: with it, and the log from its beginning on, nothing older is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where replay begins.
    pub begin: Begin,
    /// Where the listings of its images lie.
    pub listings: Vec<Place>,
    /// So many of the images listed first are those of sessions themselves.
    pub sessions: u64,
    /// The segments before the beginning of which something is needed: images and messages.
    pub needed: Vec<SegmentNumber>,
    /// The number that the next session gets.
    pub next_session: SessionId,
    /// The number that the next queue gets.
    pub next_queue: QueueId,
    /// The number that the next message gets.
    pub next_message: MessageId,
}

/// A place between two batches: what a batch there continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The segment.
    pub segment: SegmentNumber,
    /// The offset of the next batch.
    pub offset: u64,
    /// The first record from there on.
    pub first: Lsn,
    /// The checksum of the batch before.
    pub previous: u32,
    /// The recovery that its writer had behind it.
    pub recovery_count: RecoveryCount,
}

/// What one entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A session, without its subscriptions and its queue's entries.
    Session {
        /// Its number.
        session: SessionId,
        /// Its queue.
        queue: QueueId,
        /// Its client.
        key: ClientKey,
        /// How long it outlives its connection.
        expiry: SessionExpiry,
        /// Since when its client is away; none while it is connected.
        away_since: Option<WallTime>,
        /// Positions below it may be delivered.
        horizon: QueuePosition,
        /// The position that the next entry gets.
        next: QueuePosition,
        /// The record that last changed it.
        changed: Lsn,
        /// QoS 2 packet identifiers taken and not released.
        received: Vec<PacketId>,
    },
    /// Some of a session's subscriptions, and of what they are owed.
    Subscriptions {
        /// The session.
        session: SessionId,
        /// Which piece of them.
        part: u32,
        /// The record before the first piece: they say what was so then.
        as_of: Lsn,
        /// Filters with what was granted.
        filters: Vec<(Box<str>, Subscription)>,
        /// What is owed, in its order.
        owed: Vec<Owed>,
    },
    /// A stretch of a queue.
    Queue {
        /// The queue.
        queue: QueueId,
        /// Its first position.
        first: QueuePosition,
        /// The position behind its last.
        end: QueuePosition,
        /// The entries that are not settled.
        entries: Vec<Entry>,
        /// What is known of some of them beside.
        notes: Vec<(QueuePosition, Note)>,
    },
    /// Where the messages of a stretch of ids lie.
    Messages {
        /// Which stretch.
        chunk: u64,
        /// Those on disk; references are not counted.
        messages: Vec<(MessageId, Known)>,
        /// When those that expire do.
        expiries: Vec<(MessageId, WallTime)>,
    },
    /// What some topics retain.
    Retained {
        /// The virtual host.
        vhost: Arc<str>,
        /// Which page.
        page: u64,
        /// Topics, what they retain, by which record.
        topics: Vec<(Arc<str>, MessageId, Lsn)>,
    },
    /// A will.
    Will {
        /// The client.
        key: ClientKey,
        /// The will.
        will: Will,
    },
    /// An exchange.
    Exchange(ExchangeImage),
    /// A declared queue.
    DeclaredQueue(QueueImage),
}

/// A message with all that its publishing does: one atomic fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Its id.
    pub message: MessageId,
    /// Its virtual host.
    pub vhost: Arc<str>,
    /// The message.
    pub content: Message,
    /// Whom it goes to.
    pub recipients: Vec<Recipient>,
    /// What had to go from queues at their bound.
    pub dropped: Vec<(QueueId, QueuePosition)>,
    /// What it does to its topic.
    pub retain: Retain,
    /// The publisher's session and QoS 2 packet identifier, which it takes.
    pub received: Option<(SessionId, PacketId)>,
    /// The client whose will it was, which is void by this.
    pub will_of: Option<Arc<str>>,
    /// Of recipients that subscribed with identifiers, in their order: those of the subscriptions that match.
    pub identifiers: Vec<(QueueId, Vec<u32>)>,
}

/// A queue that a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The queue.
    pub queue: QueueId,
    /// Its place there.
    pub position: QueuePosition,
    /// How it is delivered.
    pub delivery: Delivery,
    /// Whether the queue survives; others are not written.
    pub durable: bool,
    /// The session of the group, if it gets it as a member of a shared subscription.
    pub group: Option<SessionId>,
}

/// What a message does to its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Retain {
    /// Nothing.
    Not = 0,
    /// It is retained in place of what was.
    Set = 1,
    /// What was retained is taken away.
    Clear = 2,
}

/// A will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// What is published.
    pub content: Message,
    /// Whether it is retained.
    pub retain: bool,
    /// Whether it survives a crash of the broker.
    pub durable: bool,
    /// Seconds between the end of the connection and its publishing.
    pub delay_s: u32,
    /// Seconds after its publishing when it expires.
    pub expiry_s: Option<u32>,
}

/// How long a durable session outlives its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionExpiry {
    /// As the setting has it: a session of MQTT 3.
    AsSet,
    /// So many seconds.
    After(u32),
    /// For ever.
    Never,
}

impl SessionExpiry {
    /// From Session Expiry Interval (MQTT 5 §3.1.2.11.2).
    pub fn of_interval(seconds: u32) -> SessionExpiry {
        if seconds == u32::MAX { SessionExpiry::Never } else { SessionExpiry::After(seconds) }
    }
}

/// What a subscription was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The highest QoS.
    pub qos: QoS,
    /// Not what the session published itself.
    pub no_local: bool,
    /// RETAIN is sent as it was published.
    pub retain_as_published: bool,
    /// The number that deliveries carry; 0 for none.
    pub identifier: u32,
}

impl Subscription {
    /// One of MQTT 3.
    pub fn of_qos(qos: QoS) -> Subscription {
        Subscription { qos, no_local: false, retain_as_published: false, identifier: 0 }
    }

    /// Its identifier, if it has one.
    pub fn identifiers(&self) -> &[u32] {
        if self.identifier > 0 { core::slice::from_ref(&self.identifier) } else { &[] }
    }
}

/// A subscription that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The topic filter.
    pub filter: Box<str>,
    /// What.
    pub subscription: Subscription,
    /// Whether it is owed the retained messages that match.
    pub owes: bool,
}

impl Record {
    /// Whether anything of it must survive.
    pub fn is_durable(&self, state: &State) -> bool {
        match self {
            Record::SessionOpened { durable, .. } => *durable,
            Record::SessionAttached { session, .. }
            | Record::SessionDetached { session, .. }
            | Record::SessionRemoved { session, .. }
            | Record::SessionExpirySet { session, .. }
            | Record::Subscribed { session, .. }
            | Record::Unsubscribed { session, .. }
            | Record::RetainedQueued { session, .. }
            | Record::PacketIdReceived { session, .. }
            | Record::PacketIdReleased { session, .. } => state.is_durable_session(*session),
            Record::Published(publication) => publication.is_durable(state),
            Record::Moved { from, to, .. } => {
                to.durable || from.is_some_and(|(queue, position)| state.is_durable_entry(queue, position))
            }
            Record::Settled { queue, position } | Record::Returned { queue, position, .. } => {
                state.is_durable_entry(*queue, *position)
            }
            Record::Releasing { queue, .. }
            | Record::RangeSettled { queue, .. }
            | Record::HorizonMoved { queue, .. } => state.is_durable_queue(*queue),
            Record::Topology(topology) => state.is_durable_topology(topology),
            Record::WillSet { will, .. } => will.durable,
            Record::WillRemoved { key } => state.wills.get(key).is_some_and(|will| will.durable),
            Record::RetainedExpired { .. }
            | Record::Relocated { .. }
            | Record::Image(_)
            | Record::Listing(_)
            | Record::Checkpoint(_) => true,
        }
    }
}

impl Publication {
    /// The recipients, each with the identifiers of its subscriptions.
    pub fn recipients_with_identifiers(&self) -> impl Iterator<Item = (&Recipient, &[u32])> {
        let mut identifiers = self.identifiers.iter().peekable();
        self.recipients.iter().map(move |recipient| {
            let its = identifiers.next_if(|(queue, _)| *queue == recipient.queue);
            (recipient, its.map_or(&[][..], |(_, its)| its))
        })
    }

    /// The identifiers that are recorded: of recipients that survive.
    pub fn recorded_identifiers(&self) -> impl Iterator<Item = (QueueId, &[u32])> {
        let recorded = |(to, its): &(&Recipient, &[u32])| to.durable && !its.is_empty();
        self.recipients_with_identifiers().filter(recorded).map(|(to, its)| (to.queue, its))
    }

    fn is_durable(&self, state: &State) -> bool {
        self.retain != Retain::Not
            || self.recipients.iter().any(|recipient| recipient.durable)
            || self.received.is_some_and(|(session, _)| state.is_durable_session(session))
            || self.dropped.iter().any(|&(queue, position)| state.is_durable_entry(queue, position))
            || self.will_of.as_ref().is_some_and(|client| {
                let key = ClientKey { vhost: self.vhost.clone(), client: client.clone() };
                state.wills.get(&key).is_some_and(|will| will.durable)
            })
    }
}
