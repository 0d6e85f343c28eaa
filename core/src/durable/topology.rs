//! What AMQP clients declare, as records: exchanges, queues, bindings.

use crate::ids::{QueueId, QueuePosition};
use crate::routing::exchange::{Binding, Destination, ExchangeSpec};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a queue was declared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Whether it survives the broker.
    pub durable: bool,
    /// Whether it belongs to one connection and goes with it; such a queue does not survive the broker.
    pub exclusive: bool,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// So many lanes, one a priority: queues of their own with numbers one behind the other.
    pub lanes: u16,
    /// The arguments it was declared with, an AMQP field table as it came.
    pub arguments: Box<[u8]>,
}

impl QueueSpec {
    /// Whether the queue outlives the broker.
    pub fn survives(&self) -> bool {
        self.durable && !self.exclusive
    }
}

/// A change of what is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// An exchange was declared.
    ExchangeDeclared {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// What it is.
        spec: ExchangeSpec,
    },
    /// An exchange was deleted, with all bindings from and to it.
    ExchangeDeleted {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A queue was declared.
    QueueDeclared {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its number: that of its first lane, the one of the lowest priority.
        queue: QueueId,
        /// What it is.
        spec: QueueSpec,
    },
    /// A queue was deleted, with its messages and bindings.
    QueueDeleted {
        /// The queue.
        queue: QueueId,
    },
    /// Something was bound to an exchange.
    Bound {
        /// The virtual host.
        vhost: Arc<str>,
        /// Where it leads.
        to: Destination,
        /// Where it comes from, and when it matches.
        binding: Binding,
    },
    /// A binding went.
    Unbound {
        /// The virtual host.
        vhost: Arc<str>,
        /// Where it led.
        to: Destination,
        /// Where it came from.
        binding: Binding,
    },
}

/// An exchange in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeImage {
    /// Its virtual host.
    pub vhost: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub spec: ExchangeSpec,
    /// What it is bound to, the durable ones.
    pub bindings: Vec<Binding>,
}

/// A queue in a checkpoint, without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueImage {
    /// Its virtual host.
    pub vhost: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its number.
    pub queue: QueueId,
    /// What it is.
    pub spec: QueueSpec,
    /// What it is bound to, the durable ones.
    pub bindings: Vec<Binding>,
    /// Of each lane: positions below it may be delivered, and the position that the next entry gets.
    pub lanes: Vec<(QueuePosition, QueuePosition)>,
}
