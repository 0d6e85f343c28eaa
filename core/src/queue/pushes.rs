//! Which record put an entry into its queue, as long as that record may not be durable.
//!
//! A few marks stand for many pushes: "up to this position, by this record at the latest". When there are too many,
//! every second one goes, so an answer may name a later record than the true one, never an earlier.

use crate::ids::{Lsn, QueuePosition};
use alloc::collections::VecDeque;

/// Marks at the most.
const MARKS_MAX: usize = 128;

/// Marks, in the order of their positions and of their records.
#[derive(Default)]
pub struct Pushes {
    marks: VecDeque<(QueuePosition, Lsn)>,
}

impl Pushes {
    /// `lsn` put an entry at `position`, which is behind all others.
    pub fn note(&mut self, position: QueuePosition, lsn: Lsn) {
        if let Some((last, by)) = self.marks.back_mut()
            && *by == lsn
        {
            *last = position;
            return;
        }
        if self.marks.len() == MARKS_MAX {
            let mut keep = false;
            self.marks.retain(|_| {
                keep = !keep;
                !keep
            });
        }
        self.marks.push_back((position, lsn));
    }

    /// The record to wait for before the entry at `position` is sure to be on disk.
    pub fn by(&self, position: QueuePosition) -> Lsn {
        let at = self.marks.partition_point(|(last, _)| *last < position);
        self.marks.get(at).map_or(Lsn::NONE, |(_, lsn)| *lsn)
    }

    /// What is durable needs no mark.
    pub fn forget(&mut self, durable: Lsn) {
        // The last one stays: what is before it is answered with it, which is durable as well.
        while self.marks.len() > 1 && self.marks[0].1 <= durable && self.marks[1].1 <= durable {
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_never_earlier_than_the_record() {
        // Broken: a QoS 2 message leaves before the record of its enqueueing is on disk.
        let mut pushes = Pushes::default();
        (0..1000).for_each(|p| pushes.note(QueuePosition(p), Lsn(10 + p)));
        assert!(pushes.marks.len() <= MARKS_MAX);
        (0..1000).for_each(|p| assert!(pushes.by(QueuePosition(p)) >= Lsn(10 + p)));
        assert_eq!(pushes.by(QueuePosition(999)), Lsn(1009));
        pushes.forget(Lsn(900));
        (0..800).for_each(|p| assert!(pushes.by(QueuePosition(p)) <= Lsn(900)));
        (891..1000).for_each(|p| assert!(pushes.by(QueuePosition(p)) >= Lsn(10 + p)));
    }
}
