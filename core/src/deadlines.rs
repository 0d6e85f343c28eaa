//! Timers of connections, ordered by time.

use crate::ids::ConnectionId;
use crate::time::{Monotonic, Why};
use alloc::collections::BTreeSet;

/// All timers: one a connection, whose reason depends on how far the connection is.
#[derive(Default)]
pub struct Deadlines {
    set: BTreeSet<(Monotonic, ConnectionId, Why)>,
}

impl Deadlines {
    /// Sets a connection's timer.
    pub fn set(&mut self, at: Monotonic, connection: ConnectionId, why: Why) {
        self.set.insert((at, connection, why));
    }

    /// Takes a connection's timer back.
    pub fn clear(&mut self, at: Monotonic, connection: ConnectionId, why: Why) {
        self.set.remove(&(at, connection, why));
    }

    /// The earliest.
    pub fn first(&self) -> Option<(Monotonic, Why)> {
        self.set.first().map(|&(at, _, why)| (at, why))
    }

    /// Takes one that has come.
    pub fn pop_due(&mut self, now: Monotonic) -> Option<(ConnectionId, Why)> {
        let &(at, connection, why) = self.set.first()?;
        (at <= now).then(|| {
            self.set.pop_first();
            (connection, why)
        })
    }
}
