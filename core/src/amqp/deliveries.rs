//! What the client of a channel was given and has not settled, by delivery tag.
//!
//! Tags only grow, and mostly the oldest is settled first: so deliveries stand in a row, in the order of their tags. One that
//! is settled out of turn leaves a gap; the gaps are closed when there are more of them than deliveries.

use super::channel::Unsettled;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// So many gaps are left alone.
const GAPS_MIN: usize = 16;

/// Memory for so many deliveries is kept, however few there are.
const KEPT_CAPACITY: usize = 1024;

/// Deliveries that are not settled.
#[derive(Default)]
pub(crate) struct Deliveries {
    /// Those that are settled are none. The first is not.
    row: VecDeque<(u64, Option<Unsettled>)>,
    held: usize,
}

impl Deliveries {
    /// Adds one, whose tag is above all others.
    pub fn push(&mut self, tag: u64, unsettled: Unsettled) {
        self.row.push_back((tag, Some(unsettled)));
        self.held += 1;
    }

    /// Puts some back that were taken out.
    pub fn put_back(&mut self, taken: impl Iterator<Item = (u64, Unsettled)>) {
        self.close_gaps();
        self.row.extend(taken.map(|(tag, unsettled)| (tag, Some(unsettled))));
        self.held = self.row.len();
        self.row.make_contiguous().sort_unstable_by_key(|(tag, _)| *tag);
    }

    /// Takes one out.
    pub fn take(&mut self, tag: u64) -> Option<Unsettled> {
        let at = self.index(tag)?;
        let taken = self.row[at].1.take()?;
        self.held -= 1;
        self.tidy();
        Some(taken)
    }

    /// Takes all out up to one of them, in their order.
    pub fn take_to(&mut self, tag: u64) -> Option<Vec<(u64, Unsettled)>> {
        let at = self.index(tag).filter(|at| self.row[*at].1.is_some())?;
        let taken = self.row.drain(..=at).filter_map(|(tag, unsettled)| Some((tag, unsettled?)));
        let taken: Vec<_> = taken.collect();
        self.held -= taken.len();
        self.tidy();
        Some(taken)
    }

    /// All of them, in their order.
    pub fn into_all(self) -> impl Iterator<Item = (u64, Unsettled)> {
        self.row.into_iter().filter_map(|(tag, unsettled)| Some((tag, unsettled?)))
    }

    fn index(&self, tag: u64) -> Option<usize> {
        // Where every delivery is to be settled, the distance from the first is the place.
        let guess = usize::try_from(tag.checked_sub(self.row.front()?.0)?).ok()?;
        match self.row.get(guess) {
            Some((its, _)) if *its == tag => Some(guess),
            Some(_) | None => self.row.binary_search_by_key(&tag, |(tag, _)| *tag).ok(),
        }
    }

    fn tidy(&mut self) {
        while self.row.front().is_some_and(|(_, unsettled)| unsettled.is_none()) {
            self.row.pop_front();
        }
        if self.row.len() > GAPS_MIN + 2 * self.held {
            self.close_gaps();
        }
        if self.row.capacity() > KEPT_CAPACITY + 8 * self.row.len() {
            self.row.shrink_to(2 * self.row.len());
        }
    }

    fn close_gaps(&mut self) {
        self.row.retain(|(_, unsettled)| unsettled.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{QueueId, QueuePosition};
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn unsettled(position: u64) -> Unsettled {
        let (queue, position) = (QueueId(1), QueuePosition(position));
        Unsettled { queue, lane: queue, position, body_bytes: 0, consumer: None }
    }

    fn places(taken: Vec<(u64, Unsettled)>) -> Vec<(u64, u64)> {
        taken.into_iter().map(|(tag, unsettled)| (tag, unsettled.position.0)).collect()
    }

    proptest! {
        // Broken: an acknowledgement settles another delivery than its own, or one that was settled before.
        #[test]
        fn behaves_like_an_ordered_map(steps in prop::collection::vec((0u8..8, 1u64..300), 1..600)) {
            let mut deliveries = Deliveries::default();
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            let mut last = 0;
            for (step, number) in steps {
                match step {
                    0..=3 => {
                        last += 1 + number % 3 / 2;
                        deliveries.push(last, unsettled(number));
                        model.insert(last, number);
                    }
                    4 | 5 => {
                        let taken = deliveries.take(number).map(|unsettled| unsettled.position.0);
                        prop_assert_eq!(taken, model.remove(&number));
                    }
                    6 => {
                        let taken = deliveries.take_to(number).map(places);
                        let known = model.contains_key(&number);
                        let later = if known { model.split_off(&(number + 1)) } else { BTreeMap::new() };
                        let expected = known.then(|| core::mem::replace(&mut model, later).into_iter().collect());
                        prop_assert_eq!(taken, expected);
                    }
                    _ => {
                        let taken = deliveries.take_to(number).unwrap_or_default();
                        deliveries.put_back(taken.into_iter());
                    }
                }
                prop_assert_eq!(deliveries.held, model.len());
                prop_assert!(deliveries.row.len() <= GAPS_MIN + 2 * deliveries.held);
            }
            prop_assert_eq!(places(deliveries.into_all().collect()), Vec::from_iter(model));
        }
    }
}
