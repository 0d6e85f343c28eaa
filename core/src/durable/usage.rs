//! How many bytes of each segment are still needed.

use super::place::Place;
use crate::ids::SegmentNumber;
use alloc::collections::BTreeMap;

/// Bytes that are needed, by segment. Segments without any are left out.
#[derive(Default, Debug)]
pub struct Usage {
    bytes: BTreeMap<SegmentNumber, u64>,
    total: u64,
}

impl Usage {
    /// What lies there is needed.
    pub fn add(&mut self, place: Place) {
        *self.bytes.entry(place.segment).or_insert(0) += u64::from(place.length);
        self.total += u64::from(place.length);
    }

    /// What lies there is needed no more.
    pub fn remove(&mut self, place: Place) {
        let bytes = self.bytes.get_mut(&place.segment).expect("what is removed was added");
        *bytes -= u64::from(place.length);
        self.total -= u64::from(place.length);
        if *bytes == 0 {
            self.bytes.remove(&place.segment);
        }
    }

    /// Bytes needed of the segment.
    pub fn of(&self, segment: SegmentNumber) -> u64 {
        self.bytes.get(&segment).copied().unwrap_or(0)
    }

    /// Bytes needed of all segments.
    pub fn total(&self) -> u64 {
        self.total
    }
}
