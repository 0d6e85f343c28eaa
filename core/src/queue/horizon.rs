//! The delivery horizon: how far a queue may deliver, recorded ahead in blocks, so that recovery knows what may
//! have been sent without a record for each delivery.
//!
//! 1. The queue records "up to 1024". 2. It delivers positions 0 to 9 without a record. 3. Crash. Recovery takes
//!    0 to 1023 for perhaps delivered (DUP, neither expired nor dropped) and 1024 onwards for never sent.
//!    Had 2. come before the record of 1. was durable, recovery would call a delivered message new.

use crate::ids::{Lsn, QueuePosition};

/// A queue's delivery horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    recorded: QueuePosition,
    lsn: Lsn,
    confirmed: QueuePosition,
}

impl Horizon {
    /// Recorded and durable.
    pub fn at(position: QueuePosition) -> Horizon {
        Horizon { recorded: position, lsn: Lsn::NONE, confirmed: position }
    }

    /// For queues that do not survive.
    pub fn unbounded() -> Horizon {
        Horizon::at(QueuePosition(u64::MAX))
    }

    /// The record says this much.
    pub fn recorded(&self) -> QueuePosition {
        self.recorded
    }

    /// The record that says so.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Whether `position` may be delivered now.
    pub fn allows(&mut self, position: QueuePosition, durable: Lsn) -> bool {
        if self.lsn <= durable {
            self.confirmed = self.recorded;
        }
        position < self.confirmed
    }

    pub(crate) fn record(&mut self, position: QueuePosition, lsn: Lsn) {
        // A horizon that comes back (nothing was sent above it) holds at once.
        self.confirmed = self.confirmed.min(position);
        self.recorded = position;
        self.lsn = lsn;
    }
}
