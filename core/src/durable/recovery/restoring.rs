//! Restoring a checkpoint: find the last one, take its images, and know where replay begins.
//!
//! ```text
//! Locate: the newest segment's header and batches name it ─► its batch ─► its listings ─► the images they list
//! ```

use super::File;
use super::reader::{Reader, Wanted};
use super::refusal::Refusal;
use crate::durable::SECTOR;
use crate::durable::batch::{self, BATCH_HEADER};
use crate::durable::codec;
use crate::durable::place::Place;
use crate::durable::record::{Checkpoint, Record};
use crate::durable::segment::SegmentHeader;
use crate::durable::state::State;
use crate::ids::{SegmentNumber, StoreId};
use crate::marks::reached;
use crate::outbox::Outbox;
use alloc::vec::Vec;

/// Bytes read at once.
const PIECE: u64 = 1024 * 1024;

/// A look through the newest segment: whatever batch of it is whole tells the truth about the checkpoint that it names,
/// which was durable before the batch was written.
pub struct Locate {
    file: usize,
    offset: u64,
    store: StoreId,
    named: Option<(SegmentNumber, u64)>,
}

impl Locate {
    /// Begins behind the header of this file.
    pub fn new(file: usize, header: &SegmentHeader) -> Locate {
        Locate { file, offset: SECTOR, store: header.store, named: header.checkpoint }
    }

    /// Goes on; `Go`: where the last checkpoint is completed, if there is one.
    pub fn go_on(
        &mut self,
        files: &[File],
        reader: &mut Reader,
        outbox: &mut Outbox,
    ) -> Wanted<Option<(SegmentNumber, u64)>, ()> {
        let file = &files[self.file];
        while self.offset < file.length {
            let bytes = match reader.batch(file.segment, self.offset, file.length, outbox) {
                Wanted::Wait(()) => return Wanted::Wait(()),
                Wanted::Go(bytes) => bytes,
            };
            let own = batch::parse(&bytes)
                .filter(|batch| batch.header.segment == file.segment && batch.header.store == self.store);
            self.offset += own.map_or(SECTOR, |batch| batch.padded());
            self.named = own.and_then(|batch| batch.header.checkpoint).or(self.named);
        }
        Wanted::Go(self.named)
    }
}

/// A checkpoint that is restored.
pub struct Restoring {
    /// Where the batch stands that completes it.
    pub at: (SegmentNumber, u64),
    /// What it says; none before its batch is read.
    pub checkpoint: Option<Checkpoint>,
    /// Where its images lie, in the order they are taken.
    pub images: Vec<Place>,
    /// Listings read, then images taken.
    next: usize,
    listed: bool,
}

impl Restoring {
    /// The checkpoint that is completed there.
    pub fn new(at: (SegmentNumber, u64)) -> Restoring {
        Restoring { at, checkpoint: None, images: Vec::new(), next: 0, listed: false }
    }

    /// Goes on; `Go`: all images are taken.
    pub fn go_on(
        &mut self,
        files: &[File],
        reader: &mut Reader,
        outbox: &mut Outbox,
        state: &mut State,
    ) -> Result<Wanted<(), ()>, Refusal> {
        if self.checkpoint.is_none() {
            let Wanted::Go(checkpoint) = self.read_completion(files, reader, outbox)? else {
                return Ok(Wanted::Wait(()));
            };
            // A file that has no more than a header was emptied: nothing of what is needed is in it.
            let is_there = |needed: &SegmentNumber| {
                files.iter().any(|file| file.segment == *needed && file.length > SECTOR)
            };
            if let Some(missing) = checkpoint.needed.iter().find(|needed| !is_there(needed)) {
                return Err(Refusal::SegmentMissing { segment: *missing });
            }
            reached!("recovered from a checkpoint");
            state.begin_restoring(&checkpoint);
            self.checkpoint = Some(checkpoint);
        }
        let checkpoint = self.checkpoint.as_ref().expect("it was just read");
        while !self.listed {
            let Some(place) = checkpoint.listings.get(self.next).copied() else {
                let sessions = (checkpoint.sessions as usize).min(self.images.len());
                let (first, rest) = self.images.split_at_mut(sessions);
                // Those of a kind are taken as they lie, so that the disk is read forwards.
                first.sort_unstable_by_key(|place| (place.segment, place.offset));
                rest.sort_unstable_by_key(|place| (place.segment, place.offset));
                (self.listed, self.next) = (true, 0);
                break;
            };
            let Wanted::Go(record) = read_at(place, files, reader, outbox)? else {
                return Ok(Wanted::Wait(()));
            };
            let Record::Listing(places) = record else { return Err(damaged(place)) };
            self.images.extend(places);
            self.next += 1;
        }
        while let Some(place) = self.images.get(self.next).copied() {
            let Wanted::Go(record) = read_at(place, files, reader, outbox)? else {
                return Ok(Wanted::Wait(()));
            };
            let Record::Image(image) = record else { return Err(damaged(place)) };
            if !state.restore(image, place) {
                let (segment, offset, lsn) = (place.segment, place.offset, checkpoint.begin.first);
                return Err(Refusal::Contradiction { segment, offset, lsn });
            }
            self.next += 1;
        }
        state.images_restored();
        Ok(Wanted::Go(()))
    }

    fn read_completion(
        &self,
        files: &[File],
        reader: &mut Reader,
        outbox: &mut Outbox,
    ) -> Result<Wanted<Checkpoint, ()>, Refusal> {
        let (segment, offset) = self.at;
        let file = files.iter().find(|file| file.segment == segment);
        let file = file.ok_or(Refusal::SegmentMissing { segment })?;
        let bytes = match reader.batch(segment, offset, file.length, outbox) {
            Wanted::Wait(()) => return Ok(Wanted::Wait(())),
            Wanted::Go(bytes) => bytes,
        };
        let damaged = Refusal::CheckpointDamaged { segment, offset };
        let batch = batch::parse(&bytes).filter(|batch| batch.header.segment == segment);
        let Some(batch) = batch else { return Err(damaged) };
        let mut at = BATCH_HEADER;
        for _ in 0..batch.header.records {
            let (record, _, next) = codec::decode(batch.bytes, at).map_err(|error| Refusal::Unreadable {
                segment,
                offset,
                lsn: batch.header.first,
                error,
            })?;
            if let Record::Checkpoint(checkpoint) = record {
                return Ok(Wanted::Go(checkpoint));
            }
            at = next;
        }
        Err(damaged)
    }
}

/// The record that lies there.
fn read_at(
    place: Place,
    files: &[File],
    reader: &mut Reader,
    outbox: &mut Outbox,
) -> Result<Wanted<Record, ()>, Refusal> {
    let Place { segment, offset, length, checksum } = place;
    let file = files.iter().find(|file| file.segment == segment);
    let left = file.map_or(0, |file| file.length.saturating_sub(offset));
    if u64::from(length) > left {
        return Err(damaged(place));
    }
    match reader.want(segment, offset, length.into(), left.min(PIECE), outbox) {
        None => Ok(Wanted::Wait(())),
        Some(bytes) => codec::read_record(&bytes, checksum).map(Wanted::Go).ok_or(damaged(place)),
    }
}

fn damaged(place: Place) -> Refusal {
    Refusal::CheckpointDamaged { segment: place.segment, offset: place.offset }
}
