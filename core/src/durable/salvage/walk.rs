//! The walk through every file of a store: which batches are whole, and which of them count.
//!
//! A batch counts where no later recovery has begun at or before its first record: what stands behind a tear was given
//! up by the recovery that followed. What is left in a file of its earlier use has another segment's number.

use super::Device;
use super::loss::Loss;
use super::pieces::Pieces;
use crate::durable::batch::{self, BATCH_HEADER, Batch};
use crate::durable::codec;
use crate::durable::record::{Checkpoint, ClientKey, Image, Record, Subscription};
use crate::durable::segment::{self, FirstSector, SegmentHeader};
use crate::durable::{SECTOR, whole_sectors};
use crate::ids::{Lsn, QueueId, RecoveryCount, SegmentNumber, SessionId, StoreId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Types of records that are read on the walk: sessions, subscriptions, their images, checkpoints.
const READ_TYPES: [u8; 7] = [1, 5, 6, 17, 18, 24, 35];

/// A whole batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub first: Lsn,
    pub records: u32,
    pub recovery_count: RecoveryCount,
    pub segment: SegmentNumber,
    pub offset: u64,
    pub length: u64,
}

/// All that was found.
#[derive(Default)]
pub(super) struct Walk {
    pub store: Option<StoreId>,
    /// The segments that are there, with their lengths.
    pub files: BTreeMap<SegmentNumber, u64>,
    /// The batches that count, in the order of their records.
    pub batches: Vec<Found>,
    /// Checkpoints that are complete, with the record that completes each: the oldest first.
    pub checkpoints: Vec<(Lsn, Checkpoint)>,
    /// Whose sessions and queues anything says that they are.
    pub sessions: BTreeMap<SessionId, (QueueId, ClientKey)>,
    /// What sessions had subscribed to when anything last said so.
    pub subscriptions: BTreeMap<SessionId, BTreeMap<Box<str>, Subscription>>,
    /// The highest record that anything says was on disk.
    pub synced: Lsn,
    pub losses: Vec<Loss>,
    /// Where each recovery began, as far as it is known.
    begun: BTreeMap<RecoveryCount, Lsn>,
}

impl Walk {
    /// Walks through the files.
    pub fn through(device: Device<'_>, files: BTreeMap<SegmentNumber, u64>) -> Walk {
        let mut walk = Walk { files, ..Walk::default() };
        let mut pieces = Pieces::default();
        let files: Vec<_> = walk.files.iter().map(|(segment, length)| (*segment, *length)).collect();
        // The store is that of the first file that names one.
        for &(segment, length) in &files {
            walk.file(device, &mut pieces, segment, length);
        }
        walk.leave_out_what_was_given_up();
        walk
    }

    fn file(&mut self, device: Device<'_>, pieces: &mut Pieces, segment: SegmentNumber, length: u64) {
        let sector = self.bytes(device, pieces, (segment, 0), length.min(SECTOR));
        let header = match segment::parse(&sector) {
            FirstSector::NewerFormat(format) => {
                return self.losses.push(Loss::NewerFormat { segment, format });
            }
            FirstSector::Header(header) => Some(header).filter(|header| header.segment == segment),
            FirstSector::Nothing => None,
        };
        if let Some(header) = header {
            self.header(&header);
        }
        let before = self.batches.len();
        let mut offset = SECTOR;
        while offset < length {
            let left = length - offset;
            let sector = self.bytes(device, pieces, (segment, offset), left.min(SECTOR));
            let claimed = batch::claimed_length(&sector).map_or(0, |length| whole_sectors(length as u64));
            let bytes = match claimed {
                0 => sector,
                claimed if claimed > left => sector,
                claimed => self.bytes(device, pieces, (segment, offset), claimed),
            };
            offset += match batch::parse(&bytes) {
                Some(batch) => {
                    self.batch(segment, offset, &batch);
                    batch.padded()
                }
                None => SECTOR,
            };
        }
        if header.is_none() && self.batches.len() > before {
            self.losses.push(Loss::Header { segment });
        }
    }

    /// What the device gives; where it fails, that is told once a file.
    fn bytes(
        &mut self,
        device: Device<'_>,
        pieces: &mut Pieces,
        (segment, offset): (SegmentNumber, u64),
        length: u64,
    ) -> bytes::Bytes {
        let (bytes, failed) = pieces.read_what_can_be(device, segment, offset, length);
        let told = |loss: &Loss| matches!(loss, Loss::ReadFailed { segment: of, .. } if *of == segment);
        if let Some(error) = failed.filter(|_| !self.losses.iter().any(told)) {
            self.losses.push(Loss::ReadFailed { segment, offset, error: error.message });
        }
        bytes
    }

    fn header(&mut self, header: &SegmentHeader) {
        if *self.store.get_or_insert(header.store) == header.store {
            self.synced = self.synced.max(header.synced);
            self.begins(header.recovery_count, header.first);
        }
    }

    fn batch(&mut self, segment: SegmentNumber, offset: u64, batch: &Batch<'_>) {
        let header = batch.header;
        if *self.store.get_or_insert(header.store) != header.store {
            return;
        }
        self.synced = self.synced.max(header.synced);
        if header.segment != segment {
            return;
        }
        let (first, records, recovery_count) = (header.first, header.records, header.recovery_count);
        self.begins(recovery_count, first);
        self.batches.push(Found { first, records, recovery_count, segment, offset, length: batch.padded() });
        let mut at = BATCH_HEADER;
        let mut lsn = first;
        while let Some((kind, end)) = codec::peek(batch.bytes, at) {
            if READ_TYPES.contains(&kind)
                && let Ok((record, ..)) = codec::decode(batch.bytes, at)
            {
                self.note(lsn, record);
            }
            (at, lsn) = (end, lsn.next());
        }
    }

    fn note(&mut self, lsn: Lsn, record: Record) {
        match record {
            Record::SessionOpened { session, queue, key, .. }
            | Record::Image(Image::Session { session, queue, key, .. }) => {
                self.sessions.insert(session, (queue, key));
            }
            Record::Subscribed { session, filters, .. } => {
                let known = self.subscriptions.entry(session).or_default();
                known.extend(filters.into_iter().map(|granted| (granted.filter, granted.subscription)));
            }
            Record::Image(Image::Subscriptions { session, filters, .. }) => {
                self.subscriptions.entry(session).or_default().extend(filters);
            }
            Record::Unsubscribed { session, filters } => {
                let known = self.subscriptions.entry(session).or_default();
                known.retain(|filter, _| !filters.contains(filter));
            }
            Record::Checkpoint(checkpoint) => self.checkpoints.push((lsn, checkpoint)),
            _ => {}
        }
    }

    fn begins(&mut self, recovery_count: RecoveryCount, first: Lsn) {
        let begun = self.begun.entry(recovery_count).or_insert(first);
        *begun = first.min(*begun);
    }

    fn leave_out_what_was_given_up(&mut self) {
        let mut begun = core::mem::take(&mut self.begun);
        // From the last recovery backwards: the first record of any later one.
        let mut lowest = Lsn(u64::MAX);
        for first in begun.values_mut().rev() {
            let of_this = *first;
            *first = lowest;
            lowest = lowest.min(of_this);
        }
        let given_up = |lsn: Lsn, count: RecoveryCount| begun.get(&count).is_some_and(|end| lsn >= *end);
        self.batches.retain(|batch| !given_up(batch.first, batch.recovery_count));
        self.batches.sort_unstable_by_key(|batch| (batch.first, batch.records));
        let batches = &self.batches;
        self.checkpoints.retain(|(lsn, _)| {
            let at = batches.partition_point(|batch| batch.first <= *lsn);
            at.checked_sub(1).is_some_and(|at| batches[at].end() > *lsn)
        });
        self.checkpoints.sort_by_key(|(lsn, _)| *lsn);
        self.checkpoints.dedup_by_key(|(lsn, _)| *lsn);
    }

    /// The batches that have records from `first` on, and the gaps before them: the first and the last record that is
    /// missing, and where the batch before ends.
    pub fn gaps(&self, first: Lsn) -> Vec<(Lsn, Lsn, (SegmentNumber, u64))> {
        let mut gaps = Vec::new();
        let mut expected = first;
        let mut behind = (SegmentNumber(1), SECTOR);
        for batch in self.batches.iter().filter(|batch| batch.end() >= first) {
            if batch.first > expected {
                gaps.push((expected, Lsn(batch.first.0 - 1), behind));
            }
            expected = expected.max(batch.end());
            behind = (batch.segment, batch.offset + batch.length);
        }
        if self.synced >= expected {
            gaps.push((expected, self.synced, behind));
        }
        gaps
    }
}

impl Found {
    /// The record behind its last.
    pub fn end(&self) -> Lsn {
        Lsn(self.first.0 + u64::from(self.records))
    }
}
