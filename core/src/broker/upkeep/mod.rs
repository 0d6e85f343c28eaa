//! Upkeep of the log, in bounded steps between other work: checkpoints, compaction, freeing segments. Each step adds a
//! little to the log and waits until that is on disk; so it goes at the disk's pace, and never fills the memory.

mod checkpoint;
mod compaction;

use super::{Broker, Work};
use crate::durable::place::Place;
use crate::durable::record::{Begin, Checkpoint};
use crate::durable::usage::Usage;
use crate::ids::{Lsn, SegmentNumber};
use crate::time::Monotonic;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use checkpoint::Checkpointing;
use compaction::Compacting;

/// Bytes that one step adds to the log, about.
const STEP_BYTES: u64 = 64 * 1024;

/// Entities that one step looks at.
const STEP_SPOTS: usize = 1024;

/// Where upkeep stands.
#[derive(Default)]
pub(crate) struct Upkeep {
    checkpoint: Checkpointing,
    compaction: Compacting,
    /// What the last step added has to be on disk before the next one.
    waits_for: Lsn,
    /// The last complete checkpoint that recovery will find.
    last: Option<Last>,
    /// Bytes written to the log when it was complete: what it wrote itself brings no other about.
    written_by_then: u64,
    /// Bytes of the segments when the last one was complete.
    used_after_last: u64,
    /// What it cost was no less than what it brought: for a while nothing is done for space alone.
    rest: Option<Rest>,
    /// Rests without success in between.
    rests: u32,
    /// Segments that go as soon as nothing reads them any more.
    freed: Vec<SegmentNumber>,
    /// `Work::Upkeep` is in the list.
    listed: bool,
    /// Recovery is over.
    enabled: bool,
}

/// Until so much is written, so little needed or it is so late, nothing is done for space alone.
struct Rest {
    written: u64,
    needed: u64,
    until: Monotonic,
}

/// Milliseconds of the first rest; each that follows without success is twice as long.
const REST_MS: u64 = 1000;

/// Rests that get longer.
const RESTS_MAX: u32 = 12;

/// The last complete checkpoint.
struct Last {
    begin: Begin,
    /// Where its images and listings lie.
    usage: Usage,
}

impl Upkeep {
    /// A checkpoint was recovered from; its images and listings lie there.
    pub(crate) fn recovered(&mut self, checkpoint: &Checkpoint, places: impl Iterator<Item = Place>) {
        let mut usage = Usage::default();
        places.for_each(|place| usage.add(place));
        self.last = Some(Last { begin: checkpoint.begin, usage });
    }

    /// The listing of this number is on disk.
    pub(super) fn listing_written(&mut self, number: usize, place: Place) {
        self.checkpoint.listing_written(number, place);
    }

    /// Something of the segment cannot be read, so it stays.
    pub(super) fn cannot_move(&mut self, segment: SegmentNumber) {
        self.compaction.unmovable.insert(segment);
    }

    /// Bytes that the images of the last checkpoint need of the segment.
    fn image_bytes(&self, segment: SegmentNumber) -> u64 {
        self.last.as_ref().map_or(0, |last| last.usage.of(segment))
    }
}

/// What a step came to.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    /// Something was added to the log, this last.
    Added(Lsn),
    /// There is more to do at once.
    More,
    /// It waits, for a read or for the log.
    Waits,
    /// There is nothing to do.
    Idle,
}

impl Broker {
    /// Goes on with upkeep, as far as it can without waiting for the disk.
    pub(super) fn go_on_with_upkeep(&mut self) {
        self.upkeep.listed = false;
        if !self.upkeep.enabled || self.upkeep.waits_for > self.log.durable() {
            return; // goes on when that is on disk
        }
        self.free_segments();
        self.begin_upkeep();
        let steps = [self.checkpoint_step(), self.compaction_step()];
        for step in &steps {
            if let Step::Added(lsn) = step {
                self.upkeep.waits_for = self.upkeep.waits_for.max(*lsn);
                self.log.want(*lsn);
            }
        }
        let waits = steps.iter().any(|step| matches!(step, Step::Added(_)));
        if !waits && steps.contains(&Step::More) {
            self.list_upkeep();
        }
    }

    /// When a rest is over.
    pub(super) fn rest_ends(&self) -> Option<Monotonic> {
        self.upkeep.rest.as_ref().map(|rest| rest.until)
    }

    pub(super) fn end_rest(&mut self) {
        if self.rest_ends().is_some_and(|until| until <= self.now.monotonic) {
            self.upkeep.rest = None;
            self.list_upkeep();
        }
    }

    /// A checkpoint is complete: was it worth its space? It was if it freed segments and nothing had been moved for that: as
    /// many may have been written in the meantime.
    fn rest_if_in_vain(&mut self, freed_without_moving: bool) {
        let used = self.log.used_bytes();
        let before = core::mem::replace(&mut self.upkeep.used_after_last, used);
        if used < before || freed_without_moving {
            (self.upkeep.rest, self.upkeep.rests) = (None, 0);
            return;
        }
        let segment_bytes = self.log.segment_bytes();
        self.upkeep.rest = Some(Rest {
            written: self.log.written.bytes + segment_bytes,
            needed: self.needed_bytes().saturating_sub(segment_bytes),
            until: self.now.monotonic.plus_ms(REST_MS << self.upkeep.rests),
        });
        self.upkeep.rests = (self.upkeep.rests + 1).min(RESTS_MAX);
    }

    /// Recovery is over: upkeep begins.
    pub(crate) fn enable_upkeep(&mut self) {
        self.upkeep.enabled = true;
        self.list_upkeep();
    }

    fn list_upkeep(&mut self) {
        if !core::mem::replace(&mut self.upkeep.listed, true) {
            self.work.push_back(Work::Upkeep);
        }
    }

    /// Begins a checkpoint or a compaction, if one is due.
    fn begin_upkeep(&mut self) {
        let (written, needed) = (self.log.written.bytes, self.needed_bytes());
        if self.upkeep.rest.as_ref().is_some_and(|rest| written >= rest.written || needed <= rest.needed) {
            (self.upkeep.rest, self.upkeep.rests) = (None, 0);
        }
        if !self.upkeep.checkpoint.is_idle() {
            return;
        }
        let next = self.next_to_empty();
        if self.is_checkpoint_due(next.is_some()) {
            self.begin_checkpoint();
        } else if let Some(segment) = next.filter(|_| self.upkeep.compaction.is_idle()) {
            self.begin_compaction(segment);
        }
    }

    /// Space is not worth a checkpoint of its own as long as `more` segments are to be emptied before it.
    fn is_checkpoint_due(&self, more: bool) -> bool {
        let since = self.log.written.bytes - self.upkeep.written_by_then;
        let every = match self.settings.limits.checkpoint_bytes {
            0 => self.log.segment_bytes(),
            bytes => bytes,
        };
        if self.log.is_full() {
            // Only what brings space back is worth its own, and that as soon as there is some to be had: later there may be none
            // to write it with.
            return self.would_free_a_segment();
        }
        since >= every || (!more && self.is_crowded_without(0) && self.would_free_a_segment())
    }

    /// The segment whose messages are to be moved before a checkpoint frees what was emptied.
    fn next_to_empty(&self) -> Option<SegmentNumber> {
        let emptied = self.upkeep.compaction.emptied_count();
        let most = if self.log.is_full() { 1 } else { EMPTIED_MAX };
        let goes = emptied as u64 * self.log.segment_bytes();
        if emptied < most && self.is_crowded_without(goes) { self.emptiest() } else { None }
    }

    /// Whether the files take more than they may for what is needed of them, when so many bytes of them are gone.
    fn is_crowded_without(&self, bytes: u64) -> bool {
        if self.upkeep.rest.is_some() {
            return false;
        }
        let live = self.needed_bytes();
        // On a full disk every byte counts.
        let percent = if self.log.is_full() { 110 } else { self.settings.limits.disk_percent };
        let bound = (live / 100).saturating_mul(percent) + SEGMENTS_KEPT * self.log.segment_bytes();
        self.log.file_bytes().saturating_sub(bytes) > bound
    }

    /// Bytes of the log that are needed: messages and images.
    fn needed_bytes(&self) -> u64 {
        self.state.messages.usage().total() + self.upkeep.last.as_ref().map_or(0, |last| last.usage.total())
    }

    /// Whether a checkpoint would leave a segment without anything that is needed.
    fn would_free_a_segment(&self) -> bool {
        let moved = |segment| self.upkeep.compaction.moves_images_of(segment);
        let needed = |segment| {
            self.state.messages.usage().of(segment) > 0
                || (self.upkeep.image_bytes(segment) > 0 && !moved(segment) && !self.goes_when_full(segment))
        };
        let going = &self.upkeep.freed;
        let mut before = self.log.segments().filter(|segment| *segment < self.log.segment());
        before.any(|segment| !needed(segment) && !going.contains(&segment))
    }

    /// Whether a checkpoint on a full disk moves the images of the segment: there is little of them, and nothing else.
    fn goes_when_full(&self, segment: SegmentNumber) -> bool {
        self.log.is_full()
            && segment < self.log.segment()
            && self.state.messages.usage().of(segment) == 0
            && self.upkeep.image_bytes(segment) <= self.log.segment_bytes() / FEW_IMAGES
    }

    /// Frees what the last checkpoint freed, once recovery will find that checkpoint.
    fn free_segments(&mut self) {
        if self.upkeep.freed.is_empty() {
            return;
        }
        let fetches = &self.fetches;
        let (free, busy): (Vec<_>, Vec<_>) =
            self.upkeep.freed.iter().partition(|segment| !fetches.reads(**segment));
        self.upkeep.freed = busy;
        self.log.free(&free, &mut self.outbox);
    }

    /// Segments found by recovery that the checkpoint does not need.
    pub(crate) fn free_unneeded(&mut self, segments: BTreeSet<SegmentNumber>) {
        self.upkeep.freed.extend(segments);
        self.free_segments();
    }
}

/// Images that take no more than this part of a segment are few.
const FEW_IMAGES: u64 = 16;

/// Segments that are emptied before a checkpoint frees them, at the most.
const EMPTIED_MAX: usize = 4;

/// Segments that a store may have beside what is needed, less the one whose freeing is under way.
const SEGMENTS_KEPT: u64 = 3;
