//! Compaction: what is still needed of mostly empty segments is written again, so that the segments can go.
//!
//! ```text
//! Idle ─► Moving: a stretch of the message table ─► read what lies in the segment ─► write it again ─► … ─► Idle
//! ```
//!
//! A message's old place is given up when the new one is on disk, and the segment goes with the next checkpoint, which
//! also makes the images again that lie in it.

use super::{STEP_BYTES, Step};
use crate::broker::Broker;
use crate::broker::fetching::Reader;
use crate::durable::place::Place;
use crate::durable::record::Record;
use crate::ids::{MessageId, SegmentNumber};
use crate::marks::reached;
use crate::message::Message;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Stretches of the message table that one step looks at.
const STEP_CHUNKS: usize = 32;

/// Compaction, and what it has done.
#[derive(Default)]
pub(super) struct Compacting {
    moving: Option<Moving>,
    /// Segments without messages: the next checkpoint moves their images.
    emptied: BTreeSet<SegmentNumber>,
    /// Segments of which something cannot be read.
    pub(super) unmovable: BTreeSet<SegmentNumber>,
}

/// A segment whose messages move.
struct Moving {
    segment: SegmentNumber,
    /// The next stretch of the message table; none when all are seen.
    from: Option<u64>,
    found: VecDeque<(MessageId, Place)>,
    /// Messages that are being read.
    reading: Vec<MessageId>,
}

impl Compacting {
    pub(super) fn is_idle(&self) -> bool {
        self.moving.is_none()
    }

    /// Segments that the next checkpoint frees.
    pub(super) fn emptied_count(&self) -> usize {
        self.emptied.len()
    }

    /// Whether the next checkpoint moves the images of the segment.
    pub(super) fn moves_images_of(&self, segment: SegmentNumber) -> bool {
        self.emptied.contains(&segment)
    }

    /// Those segments.
    pub(super) fn leaving(&self) -> BTreeSet<SegmentNumber> {
        self.emptied.clone()
    }

    /// A checkpoint has moved the images of `leaving`; it freed these segments.
    pub(super) fn emptied(&mut self, leaving: &BTreeSet<SegmentNumber>, freed: &[SegmentNumber]) {
        self.emptied.retain(|segment| !leaving.contains(segment));
        self.unmovable.retain(|segment| !freed.contains(segment));
    }
}

impl Broker {
    /// The segment of which least is needed, if there is enough to be won.
    pub(super) fn emptiest(&self) -> Option<SegmentNumber> {
        let last = self.upkeep.last.as_ref()?;
        if !self.log.has_next_segment() {
            return None; // what is left of the current segment is for others
        }
        let (begin, compaction) = (last.begin.segment, &self.upkeep.compaction);
        let needed = |segment| self.state.messages.usage().of(segment) + self.upkeep.image_bytes(segment);
        let candidates = self.log.segments().filter(|segment| {
            *segment < begin
                && !self.upkeep.freed.contains(segment)
                && !compaction.unmovable.contains(segment)
                && !compaction.emptied.contains(segment)
                && needed(*segment) < self.log.segment_bytes() / 10 * 9
        });
        candidates.min_by_key(|segment| needed(*segment))
    }

    pub(super) fn begin_compaction(&mut self, segment: SegmentNumber) {
        reached!("compaction begun");
        let found = VecDeque::new();
        let moving = Moving { segment, from: Some(0), found, reading: Vec::new() };
        self.upkeep.compaction.moving = Some(moving);
    }

    pub(super) fn compaction_step(&mut self) -> Step {
        let Some(mut moving) = self.upkeep.compaction.moving.take() else { return Step::Idle };
        moving.reading.retain(|message| self.fetches.is_waiting(Reader::Compaction, *message));
        let step = if !moving.reading.is_empty() {
            Step::Waits
        } else if !moving.found.is_empty() {
            self.move_some(&mut moving)
        } else if moving.from.is_some() {
            self.find_some(&mut moving);
            Step::More
        } else {
            reached!("compaction done");
            self.counters.compactions += 1;
            self.upkeep.compaction.emptied.insert(moving.segment);
            return Step::More;
        };
        self.upkeep.compaction.moving = Some(moving);
        step
    }

    fn find_some(&self, moving: &mut Moving) {
        for _ in 0..STEP_CHUNKS.min(self.settings.limits.turn_work) {
            let Some(from) = moving.from else { break };
            let (messages, next) = self.state.messages.next_on_disk(from);
            moving.found.extend(messages.into_iter().filter(|(_, place)| place.segment == moving.segment));
            moving.from = next;
        }
    }

    fn move_some(&mut self, moving: &mut Moving) -> Step {
        let before = self.log.last();
        let mut bytes = 0;
        let mut absent = Vec::new();
        while bytes < STEP_BYTES
            && let Some((message, place)) = moving.found.pop_front()
        {
            bytes += u64::from(place.length);
            match self.state.messages.message(message).cloned() {
                Some(content) => self.relocate(message, content),
                None => absent.push((message, place)),
            }
        }
        let still = |&(message, place): &(MessageId, Place)| {
            self.state.messages.find(message).is_some_and(|known| known.place == Some(place))
        };
        absent.retain(still);
        moving.reading = absent.iter().map(|(message, _)| *message).collect();
        self.fetch_all(Reader::Compaction, absent);
        if self.log.last() > before { Step::Added(self.log.last()) } else { Step::More }
    }

    /// Writes a message again, if it is still needed.
    pub(in crate::broker) fn relocate(&mut self, message: MessageId, content: Message) {
        if self.state.messages.find(message).is_some_and(|known| known.place.is_some()) {
            reached!("message moved");
            let lsn = self.commit(Record::Relocated { message, content });
            self.upkeep.waits_for = self.upkeep.waits_for.max(lsn);
            self.log.want(lsn);
        }
    }
}
