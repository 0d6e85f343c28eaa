//! A stretch of a queue: up to `CHUNK` positions one behind the other, eight bytes each.
//!
//! ```text
//! 63 … 61  stage      60 … 56  delivery (its byte)      55 … 0  message id
//! ```

use super::entry::{Delivery, Entry, Stage};
use crate::durable::page::Page;
use crate::ids::{MessageId, QueuePosition};
use alloc::vec::Vec;

/// Positions of a chunk.
pub const CHUNK: u64 = 512;

const DELIVERY_SHIFT: u32 = 56;
const STAGE_SHIFT: u32 = 61;
const MESSAGE_MASK: u64 = (1 << DELIVERY_SHIFT) - 1;
const DELIVERY_MASK: u64 = (1 << (STAGE_SHIFT - DELIVERY_SHIFT)) - 1;

/// Part of a queue.
pub struct Chunk {
    /// Its first position that was ever pushed here.
    first: QueuePosition,
    packed: Vec<u64>,
    /// So many at the beginning are settled.
    settled_to: usize,
    live: usize,
    /// Its image in the log.
    pub page: Page,
}

impl Chunk {
    /// A chunk whose first entry will have this position.
    pub fn new(first: QueuePosition) -> Chunk {
        Chunk { first, packed: Vec::new(), settled_to: 0, live: 0, page: Page::default() }
    }

    /// Which stretch of its queue it is.
    pub fn number(&self) -> u64 {
        self.first.0 / CHUNK
    }

    /// Its first position.
    pub fn first(&self) -> QueuePosition {
        self.first
    }

    /// The position behind its last one.
    pub fn end(&self) -> QueuePosition {
        self.first.plus(self.packed.len() as u64)
    }

    /// Whether no position of its stretch is left for another entry.
    pub fn is_full(&self) -> bool {
        self.end().0.is_multiple_of(CHUNK) && !self.packed.is_empty()
    }

    /// Entries that are not settled.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Adds the entry, which must have the position `end`.
    pub fn push(&mut self, message: MessageId, delivery: Delivery, stage: Stage) {
        assert!(message.0 <= MESSAGE_MASK, "message ids have at most 56 bits");
        let delivery = u64::from(delivery.to_byte()) << DELIVERY_SHIFT;
        self.packed.push(message.0 | delivery | ((stage as u64) << STAGE_SHIFT));
        self.live += usize::from(stage != Stage::Settled);
        self.pass_settled();
        if self.is_full() {
            self.packed.shrink_to_fit();
        }
    }

    /// Adds settled entries up to `position`, where nothing else is known of what stood there.
    pub fn fill_to(&mut self, position: QueuePosition) {
        let delivery = Delivery::from_byte(0).expect("QoS 0");
        while self.end() < position {
            self.push(MessageId(0), delivery, Stage::Settled);
        }
    }

    /// The entry at `position`, settled or not.
    pub fn entry(&self, position: QueuePosition) -> Option<Entry> {
        let index = usize::try_from(position.0.checked_sub(self.first.0)?).ok()?;
        self.packed.get(index).map(|packed| self.unpack(index, *packed))
    }

    /// The first entry at `from` or behind it that is not settled.
    pub fn first_from(&self, from: QueuePosition) -> Option<Entry> {
        let index = (from.0.saturating_sub(self.first.0) as usize).max(self.settled_to);
        let rest = self.packed.get(index..)?;
        let at = rest.iter().position(|packed| stage_of(*packed) != Stage::Settled)?;
        Some(self.unpack(index + at, rest[at]))
    }

    /// The entries that are not settled.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        let entries = self.packed.iter().enumerate().skip(self.settled_to);
        entries.map(|(index, packed)| self.unpack(index, *packed)).filter(|e| e.stage != Stage::Settled)
    }

    /// Moves an entry to a later stage.
    pub fn advance(&mut self, position: QueuePosition, stage: Stage) {
        let index = (position.0 - self.first.0) as usize;
        let packed = &mut self.packed[index];
        let before = stage_of(*packed);
        assert!(before < stage, "an entry goes from stage to stage");
        *packed = (*packed & !(u64::MAX << STAGE_SHIFT)) | ((stage as u64) << STAGE_SHIFT);
        self.live -= usize::from(stage == Stage::Settled);
        self.pass_settled();
    }

    fn pass_settled(&mut self) {
        let settled =
            |at: usize| self.packed.get(at).is_some_and(|packed| stage_of(*packed) == Stage::Settled);
        let mut to = self.settled_to;
        while settled(to) {
            to += 1;
        }
        self.settled_to = to;
    }

    fn unpack(&self, index: usize, packed: u64) -> Entry {
        let byte = ((packed >> DELIVERY_SHIFT) & DELIVERY_MASK) as u8;
        Entry {
            position: self.first.plus(index as u64),
            message: MessageId(packed & MESSAGE_MASK),
            delivery: Delivery::from_byte(byte).expect("only valid bytes are packed"),
            stage: stage_of(packed),
        }
    }
}

fn stage_of(packed: u64) -> Stage {
    match packed >> STAGE_SHIFT {
        0 => Stage::Queued,
        1 => Stage::Releasing,
        _ => Stage::Settled,
    }
}
