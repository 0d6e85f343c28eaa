//! Whose a queue is, for people.

use super::record::ClientKey;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

/// Whose a queue is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The session of a client, or of a shared subscription's group.
    Session(ClientKey),
    /// It was declared by an AMQP client.
    Declared {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Box<str>,
    },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Session(key) if key.group().is_some() => write!(f, "group {:?}", key.name()),
            Owner::Session(key) => write!(f, "client {:?}", key.name()),
            Owner::Declared { vhost: _, name } => write!(f, "queue {name:?}"),
        }
    }
}
