//! The chain of batches, and what stands behind its end.

use super::File;
use super::refusal::Refusal;
use crate::durable::SECTOR;
use crate::durable::batch::{BATCH_HEADER, Batch};
use crate::durable::codec;
use crate::durable::place::Place;
use crate::durable::record::{Begin, Record};
use crate::durable::segment::SegmentHeader;
use crate::durable::state::State;
use crate::ids::{Lsn, RecoveryCount, SegmentNumber, StoreId};
use crate::marks::reached;
use alloc::format;
use alloc::string::String;

/// What the next batch must continue.
pub struct Chain {
    /// The store.
    pub store: StoreId,
    /// The LSN of the next record.
    pub expected: Lsn,
    /// The checksum of the last batch.
    pub previous: u32,
    recovery_count: RecoveryCount,
    /// Where the batch stands that completes the checkpoint from which replay began.
    completed_at: Option<(SegmentNumber, u64)>,
}

/// Where replay stands.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// The file, by index.
    pub file: usize,
    /// The next batch.
    pub offset: u64,
}

impl Follow {
    /// At a file's first batch.
    pub fn new(file: usize) -> Follow {
        Follow { file, offset: SECTOR }
    }
}

impl Chain {
    /// The beginning of a store.
    pub fn new(store: StoreId) -> Chain {
        let recovery_count = RecoveryCount(0);
        Chain { store, expected: Lsn(1), previous: 0, recovery_count, completed_at: None }
    }

    /// Goes on where a checkpoint begins, which is completed there.
    pub fn begin_at(&mut self, begin: &Begin, completed_at: (SegmentNumber, u64)) {
        self.expected = begin.first;
        self.previous = begin.previous;
        self.recovery_count = begin.recovery_count;
        self.completed_at = Some(completed_at);
    }

    /// The file in which the chain goes on: the first one behind `current` whose header continues it.
    pub fn next_file(&mut self, files: &[File], current: Option<usize>) -> Option<usize> {
        let from = current.map_or(0, |index| index + 1);
        let index = (from..files.len()).find(|&index| {
            files[index].header.is_some_and(|header| {
                header.store == self.store
                    && header.first == self.expected
                    && header.previous == self.previous
                    && header.recovery_count >= self.recovery_count
            })
        })?;
        self.recovery_count = files[index].header.map_or(self.recovery_count, |header| header.recovery_count);
        Some(index)
    }

    /// Whether the batch is the next one.
    pub fn continues(&self, segment: SegmentNumber, batch: &Batch<'_>) -> bool {
        let header = &batch.header;
        header.store == self.store
            && header.segment == segment
            && header.first == self.expected
            && header.previous == self.previous
            && header.recovery_count == self.recovery_count
    }

    /// Applies the batch's records.
    pub fn apply(
        &mut self,
        segment: SegmentNumber,
        offset: u64,
        batch: &Batch<'_>,
        state: &mut State,
    ) -> Result<(), Refusal> {
        let mut at = BATCH_HEADER;
        let mut lsn = self.expected;
        for _ in 0..batch.header.records {
            let (record, span, next) = codec::decode(batch.bytes, at)
                .map_err(|error| Refusal::Unreadable { segment, offset, lsn, error })?;
            if !state.admits(&record) {
                return Err(Refusal::Contradiction { segment, offset, lsn });
            }
            let place = span.map(|span| Place {
                segment,
                offset: offset + span.offset as u64,
                length: span.length,
                checksum: span.checksum,
            });
            let completes =
                matches!(record, Record::Checkpoint(_)) && self.completed_at == Some((segment, offset));
            state.apply(record, lsn, place);
            state.bury(usize::MAX);
            if completes && state.is_restoring() {
                reached!("checkpoint replayed");
                if !state.finish_restoring() {
                    return Err(Refusal::Contradiction { segment, offset, lsn });
                }
            }
            at = next;
            lsn = lsn.next();
        }
        self.expected = lsn;
        self.previous = batch.checksum;
        Ok(())
    }
}

/// The look at everything behind the chain's end.
pub struct Scan {
    /// The file, by index.
    pub file: usize,
    /// The next sector.
    pub offset: u64,
    /// Nothing but zeros in this file so far.
    pub blank: bool,
    /// Where the chain ended; none if it never began.
    end: Option<Follow>,
    /// A batch of its own, whole or not, stands behind the end of the chain in its file.
    torn: bool,
    /// Something other than zeros does.
    used: bool,
    /// What stands there is left of an earlier use of the file.
    left_over: bool,
    /// A header or a batch of the file at hand says that it was written under its number.
    own: bool,
    /// The highest LSN that anything says was synced, and what says so.
    synced: Option<(Lsn, String)>,
    /// The first record known to stand behind the gap.
    resumes: Option<Lsn>,
}

impl Scan {
    /// There is no chain: everything is looked at.
    pub fn everything() -> Scan {
        Scan::new(0, 0, true, None)
    }

    /// The chain ended here.
    pub fn behind(end: Follow) -> Scan {
        let Follow { file, offset } = end;
        // The file that the chain ends in is used, whatever follows.
        Scan::new(file, offset, false, Some(end))
    }

    fn new(file: usize, offset: u64, blank: bool, end: Option<Follow>) -> Scan {
        let (torn, used, left_over, own) = (false, false, false, false);
        Scan { file, offset, blank, end, torn, used, left_over, own, synced: None, resumes: None }
    }

    /// Whether the file at hand was written under its number.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// On to the next file.
    pub fn next_file(&mut self) {
        self.file += 1;
        self.offset = 0;
        self.blank = true;
        self.own = false;
    }

    /// A header was found.
    pub fn header(&mut self, header: &SegmentHeader, chain: &Chain) {
        self.blank = false;
        self.own = true;
        if header.store == chain.store {
            self.witness(header.synced, || format!("the header of segment {}", header.segment));
            self.resume(header.first, chain);
        }
    }

    /// A whole batch was found.
    pub fn batch(&mut self, segment: SegmentNumber, batch: &Batch<'_>, chain: &Chain) {
        let own = batch.header.segment == segment;
        if own {
            reached!("ghost");
        }
        self.own |= own;
        if self.is_where_the_chain_ends() {
            self.torn |= own;
            self.left_over |= !own;
        }
        let offset = self.offset;
        self.offset += batch.padded();
        self.blank = false;
        // A batch in another segment than it was written to (a stale or misdirected write) still tells the truth
        // about what was synced. Where nothing names the store, every batch counts.
        if batch.header.store == chain.store || self.end.is_none() {
            let synced = batch.header.synced;
            self.witness(synced, || format!("the batch in segment {segment} at offset {offset}"));
            self.resume(batch.header.first, chain);
        }
    }

    /// Anything else was found: its first sector is passed by.
    pub fn other(&mut self, bytes: &[u8]) {
        let sector = &bytes[..bytes.len().min(SECTOR as usize)];
        if sector.iter().any(|&byte| byte != 0) {
            self.used |= self.is_where_the_chain_ends();
            self.blank = false;
        }
        self.offset += SECTOR;
    }

    /// Whether the file at hand is the one in which the chain ends.
    pub fn is_where_the_chain_ends(&self) -> bool {
        self.end.is_some_and(|end| end.file == self.file)
    }

    fn witness(&mut self, synced: Lsn, what: impl FnOnce() -> String) {
        if self.synced.as_ref().is_none_or(|(highest, _)| synced > *highest) {
            self.synced = Some((synced, what()));
        }
    }

    fn resume(&mut self, first: Lsn, chain: &Chain) {
        if first > chain.expected && self.resumes.is_none_or(|resumes| first < resumes) {
            self.resumes = Some(first);
        }
    }

    /// The damage, if anything says that the expected record was on disk.
    pub fn damage(&self, chain: &Chain, files: &[File]) -> Option<Refusal> {
        let (synced, witness) = self.synced.as_ref().filter(|(synced, _)| *synced >= chain.expected)?;
        let (segment, offset) = match self.end {
            Some(end) => (files[end.file].segment, end.offset),
            None => (files.first().map_or(SegmentNumber(1), |file| file.segment), 0),
        };
        let last = self.resumes.map_or(*synced, |first| Lsn(first.0 - 1).min(*synced));
        Some(Refusal::Damaged { segment, offset, first: chain.expected, last, witness: witness.clone() })
    }

    /// Where an unfinished write begins.
    pub fn torn_at(&self, files: &[File]) -> Option<(SegmentNumber, u64)> {
        let end = self.end.filter(|_| self.torn || (self.used && !self.left_over))?;
        Some((files[end.file].segment, end.offset))
    }
}
