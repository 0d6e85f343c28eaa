//! AMQP 0-9-1, as RabbitMQ's clients speak it.
//!
//! ```text
//! bytes ─► connection (handshake, frames) ─► channel ─► declaring   exchanges, queues, bindings
//!                                                    ─► publishing  content, routing, confirms ─► broker/publishing
//!                                                    ─► consuming   consumers, Get, prefetch
//!                                                    ─► settling    acknowledgements, requeueing
//!                                                    ─► transaction
//! queues ─► serving: from a queue to its consumers ─► dead_letter, expiring: what leaves it otherwise
//!                                                  ─► delaying: what is routed only when it is due
//! ```

pub mod arguments;
pub mod bridge;
pub(crate) mod channel;
pub(crate) mod connection;
mod consuming;
mod dead_letter;
mod declaring;
mod delaying;
mod deliveries;
mod dispatch;
mod expiring;
pub(crate) mod fault;
mod login;
mod presenting;
mod publishing;
mod queue_ending;
mod routing;
pub(crate) mod serving;
mod settling;
mod transaction;
mod translating;
pub mod wire;

use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::time::{Monotonic, WallTime};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serving::Serving;

/// A consumer. Never used twice in one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ConsumerId(pub u64);

/// Somebody who consumes from a queue.
pub(crate) struct Consumer {
    pub connection: ConnectionId,
    pub channel: u16,
    /// Its name on its channel.
    pub tag: Box<[u8]>,
    pub queue: QueueId,
    /// A message is settled when it is sent.
    pub no_ack: bool,
    /// Unsettled messages at the most; 0: no limit.
    pub prefetch: u16,
    /// Unsettled messages.
    pub unsettled: u32,
    /// Its Consume-Ok has left: deliveries may go.
    pub accepted: bool,
}

/// What of AMQP is not part of the durable state.
pub(crate) struct Amqp {
    /// How far queues are served.
    pub serving: HashMap<QueueId, Serving, FixedState>,
    pub consumers: HashMap<ConsumerId, Consumer, FixedState>,
    /// Queues whose first message expires, by when.
    pub expiries: BTreeSet<(WallTime, QueueId)>,
    /// Queues that go when nobody uses them, by when.
    pub idle: BTreeSet<(Monotonic, QueueId)>,
    /// Who gets direct replies, by the address that stands in Reply-To.
    pub reply_addresses: HashMap<Box<[u8]>, (ConnectionId, u16), FixedState>,
    /// Connections that were told that publishers are held.
    pub blocked: BTreeSet<ConnectionId>,
    /// Queues with dead letters for which there is no room.
    pub held_dead_letters: BTreeSet<QueueId>,
    /// The record that last took an exchange or a queue away: who is told that one is not there waits for it.
    pub last_deletion: Lsn,
    next_consumer: u64,
    next_name: u64,
}

impl Amqp {
    pub fn new(hash_key: u64) -> Amqp {
        Amqp {
            serving: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            consumers: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            expiries: BTreeSet::new(),
            idle: BTreeSet::new(),
            reply_addresses: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            blocked: BTreeSet::new(),
            held_dead_letters: BTreeSet::new(),
            last_deletion: Lsn::NONE,
            next_consumer: 1,
            next_name: 1,
        }
    }

    /// The number of a new consumer.
    pub fn next_consumer(&mut self) -> ConsumerId {
        self.next_consumer += 1;
        ConsumerId(self.next_consumer - 1)
    }

    /// A number for a name of the server's making.
    pub fn next_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name - 1
    }
}
