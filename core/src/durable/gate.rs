//! The gate: who waits for which record to be durable. Nothing caused by a record leaves before its LSN is.

use crate::ids::{ConnectionId, Lsn, QueueId, SessionId};
use alloc::collections::BTreeSet;

/// Somebody who waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Waiter {
    /// The head of a connection's lane of replies.
    Replies(ConnectionId),
    /// The next delivery of a session.
    Deliveries(SessionId),
    /// The next delivery of a declared queue.
    Queue(QueueId),
}

/// All who wait, in the order of what they wait for.
#[derive(Default)]
pub struct Gate {
    waiting: BTreeSet<(Lsn, Waiter)>,
}

impl Gate {
    /// `waiter` waits for `lsn`.
    pub fn wait(&mut self, lsn: Lsn, waiter: Waiter) {
        self.waiting.insert((lsn, waiter));
    }

    /// `waiter` waits for `lsn` no more.
    pub fn forget(&mut self, lsn: Lsn, waiter: Waiter) {
        self.waiting.remove(&(lsn, waiter));
    }

    /// Somebody whose record is durable; called until there is none.
    pub fn pass(&mut self, durable: Lsn) -> Option<Waiter> {
        let &(lsn, waiter) = self.waiting.first()?;
        (lsn <= durable).then(|| {
            self.waiting.pop_first();
            waiter
        })
    }
}
