//! What happens when: simulated time goes from one event to the next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The future of a run, ordered by time and, within one moment, by when it was decided.
pub(crate) struct Schedule<E> {
    entries: BinaryHeap<Entry<E>>,
    ordinal: u64,
    now_us: u64,
}

struct Entry<E> {
    at_us: u64,
    ordinal: u64,
    event: E,
}

impl<E> Schedule<E> {
    pub(crate) fn new() -> Schedule<E> {
        Schedule { entries: BinaryHeap::new(), ordinal: 0, now_us: 0 }
    }

    /// Adds an event; one for the past happens now.
    pub(crate) fn add(&mut self, at_us: u64, event: E) {
        self.ordinal += 1;
        self.entries.push(Entry { at_us: at_us.max(self.now_us), ordinal: self.ordinal, event });
    }

    /// Goes on to the next event.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let entry = self.entries.pop()?;
        self.now_us = entry.at_us;
        Some(entry.event)
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.now_us
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.ordinal).cmp(&(self.at_us, self.ordinal))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}
