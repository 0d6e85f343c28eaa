//! A checkpoint: images of what has changed, a listing of all images, the record that completes it.
//!
//! ```text
//! Idle ─► Images ─► Listing ─► Completing ─► Naming ─► Idle, segments freed
//! ```
//!
//! State changes all the while. What makes the outcome right is this: the checkpoint begins with the first batch that
//! was not on disk at its beginning; every entity that had changed before then is imaged after it; recovery takes the
//! images and applies every record from the beginning on, and to do so again to an image that has a record already
//! changes nothing. Segments go only when a durable batch names the complete checkpoint.

use super::{Last, STEP_BYTES, STEP_SPOTS, Step};
use crate::broker::Broker;
use crate::durable::codec;
use crate::durable::log::Placed;
use crate::durable::place::Place;
use crate::durable::record::{Checkpoint, Image, Record};
use crate::durable::state::image::{Cursor, ImageKey, Spot};
use crate::durable::usage::Usage;
use crate::event::Event;
use crate::ids::{Lsn, SegmentNumber};
use crate::marks::reached;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Places of one listing.
const LISTING: usize = 1000;

/// Entities looked at between two looks at what that came to.
const SPOTS_AT_ONCE: usize = 8;

/// A checkpoint that is being made.
#[derive(Default)]
pub(super) struct Checkpointing {
    phase: Phase,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Images {
        cursor: Cursor,
        /// Images in these segments are made again, so that the segments can go.
        leaving: BTreeSet<SegmentNumber>,
    },
    Listing {
        cursor: Cursor,
        listing: Listing,
        leaving: BTreeSet<SegmentNumber>,
    },
    /// The record that completes it is on its way, and then a batch that names it.
    Completing {
        last: Last,
        freed: Vec<SegmentNumber>,
        leaving: BTreeSet<SegmentNumber>,
    },
}

/// Where all images lie.
#[derive(Default)]
struct Listing {
    usage: Usage,
    /// So many images of sessions themselves come first.
    sessions: u64,
    gathering: Vec<Place>,
    /// Listings in the log; their places, once they are on disk.
    written: Vec<Option<Place>>,
}

impl Checkpointing {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    pub(super) fn listing_written(&mut self, number: usize, place: Place) {
        if let Phase::Listing { listing, .. } = &mut self.phase {
            listing.written[number] = Some(place);
            listing.usage.add(place);
        }
    }
}

impl Broker {
    pub(super) fn begin_checkpoint(&mut self) {
        reached!("checkpoint begun");
        self.log.begin_checkpoint();
        let mut leaving = self.upkeep.compaction.leaving();
        leaving.extend(self.log.segments().filter(|segment| self.goes_when_full(*segment)));
        self.upkeep.checkpoint.phase = Phase::Images { cursor: Cursor::START, leaving };
    }

    pub(super) fn checkpoint_step(&mut self) -> Step {
        match core::mem::take(&mut self.upkeep.checkpoint.phase) {
            Phase::Idle => Step::Idle,
            Phase::Images { cursor, leaving } => self.make_images(cursor, leaving),
            Phase::Listing { cursor, listing, leaving } => self.list_images(cursor, listing, leaving),
            Phase::Completing { last, freed, leaving } => {
                if self.log.is_naming() {
                    self.upkeep.checkpoint.phase = Phase::Completing { last, freed, leaving };
                    return Step::Waits;
                }
                self.complete(last, freed, leaving);
                Step::More
            }
        }
    }

    fn make_images(&mut self, mut cursor: Cursor, leaving: BTreeSet<SegmentNumber>) -> Step {
        let before = self.log.last();
        let most = self.spots_of_a_step();
        let (mut bytes, mut seen) = (0, 0);
        while bytes < STEP_BYTES && seen < most && cursor != Cursor::End {
            let (spots, next) = self.state.next_spots(cursor, SPOTS_AT_ONCE);
            cursor = next;
            seen += SPOTS_AT_ONCE;
            for spot in spots {
                let moves = |place: Place| leaving.contains(&place.segment);
                let images = self.state.images(&spot, &moves, self.log.last());
                for (part, image) in images.into_iter().enumerate() {
                    bytes += self.append_image(image, ImageKey { spot: spot.clone(), part });
                }
            }
        }
        self.upkeep.checkpoint.phase = if cursor == Cursor::End {
            reached!("images made");
            let (cursor, listing) = (Cursor::START, Listing::default());
            Phase::Listing { cursor, listing, leaving }
        } else {
            reached!("images in pieces");
            Phase::Images { cursor, leaving }
        };
        let last = self.log.last();
        if last > before { Step::Added(last) } else { Step::More }
    }

    fn spots_of_a_step(&self) -> usize {
        self.settings.limits.turn_work.clamp(SPOTS_AT_ONCE, STEP_SPOTS)
    }

    /// Bytes added to the log, about.
    fn append_image(&mut self, image: Image, key: ImageKey) -> u64 {
        let before = self.log.unwritten_bytes();
        self.log.append(self.now, &Record::Image(image), Some(Placed::Image(key)), &self.settings);
        self.log.unwritten_bytes().saturating_sub(before) as u64
    }

    /// Every image of this checkpoint is on disk.
    fn list_images(
        &mut self,
        cursor: Cursor,
        mut listing: Listing,
        leaving: BTreeSet<SegmentNumber>,
    ) -> Step {
        if cursor == Cursor::End && listing.gathering.is_empty() {
            if listing.written.is_empty() && self.log.checkpoint_begin().is_none() {
                // There is nothing to image, and nothing was written since it was begun: it begins with this.
                let lsn = self.append_listing(&mut listing, Vec::new());
                self.upkeep.checkpoint.phase = Phase::Listing { cursor, listing, leaving };
                return Step::Added(lsn);
            }
            return self.append_completion(listing, leaving);
        }
        let (spots, cursor) = self.state.next_spots(cursor, self.spots_of_a_step());
        let full = LISTING.min(4 * self.settings.limits.turn_work);
        for spot in &spots {
            let before = listing.gathering.len();
            self.state.image_places(spot, &mut listing.gathering);
            let new = &listing.gathering[before..];
            new.iter().for_each(|place| listing.usage.add(*place));
            let owns = matches!(spot, Spot::Session(_) | Spot::Exchange(..) | Spot::DeclaredQueue(_));
            listing.sessions += if owns { new.len() as u64 } else { 0 };
        }
        let mut last = None;
        let end = cursor == Cursor::End;
        while listing.gathering.len() >= full || (end && !listing.gathering.is_empty()) {
            let rest = listing.gathering.split_off(listing.gathering.len().min(full));
            let places = core::mem::replace(&mut listing.gathering, rest);
            last = Some(self.append_listing(&mut listing, places));
        }
        self.upkeep.checkpoint.phase = Phase::Listing { cursor, listing, leaving };
        last.map_or(Step::More, Step::Added)
    }

    fn append_listing(&mut self, listing: &mut Listing, places: Vec<Place>) -> Lsn {
        let placed = Placed::Listing(listing.written.len());
        listing.written.push(None);
        self.log.append(self.now, &Record::Listing(places), Some(placed), &self.settings)
    }

    /// The listings are on disk, and so is every record that a freed segment depends on: they all stand before the
    /// one that is appended here.
    fn append_completion(&mut self, listing: Listing, leaving: BTreeSet<SegmentNumber>) -> Step {
        let Some(begin) = self.log.checkpoint_begin() else {
            // Nothing was written since it was begun, so there is nothing to complete.
            return Step::Idle;
        };
        let bodies = self.state.messages.usage();
        let is_needed = |segment: &SegmentNumber| bodies.of(*segment) > 0 || listing.usage.of(*segment) > 0;
        let going = &self.upkeep.freed;
        let before =
            self.log.segments().filter(|segment| *segment < begin.segment && !going.contains(segment));
        let (needed, freed): (Vec<_>, Vec<_>) = before.partition(is_needed);
        let (next_session, next_queue) = self.state.next_session();
        let checkpoint = Checkpoint {
            begin,
            listings: listing.written.iter().flatten().copied().collect(),
            sessions: listing.sessions,
            needed,
            next_session,
            next_queue,
            next_message: self.state.next_message(),
        };
        let lsn = self.log.append(self.now, &Record::Checkpoint(checkpoint), None, &self.settings);
        let last = Last { begin, usage: listing.usage };
        self.upkeep.checkpoint.phase = Phase::Completing { last, freed, leaving };
        Step::Added(lsn)
    }

    fn complete(&mut self, last: Last, freed: Vec<SegmentNumber>, leaving: BTreeSet<SegmentNumber>) {
        reached!("checkpoint complete");
        if !freed.is_empty() {
            reached!("segments freed");
        }
        self.counters.checkpoints += 1;
        self.upkeep.written_by_then = self.log.written.bytes;
        let segment = last.begin.segment;
        self.upkeep.last = Some(last);
        self.upkeep.compaction.emptied(&leaving, &freed);
        self.upkeep.freed.extend(&freed);
        self.free_segments();
        self.rest_if_in_vain(leaving.is_empty() && !freed.is_empty());
        self.event(|| Event::CheckpointComplete { segment, freed: freed.len() as u64 });
    }
}

/// Bytes that a listing takes at the most: it has to fit into a segment.
const _: () = assert!(LISTING * 20 + codec::RECORD_HEADER < 32 * 1024);
