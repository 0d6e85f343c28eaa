//! The log's writer: records gather into batches; one batch at a time is written and synced.
//!
//! Group commit without a timer: while a batch is in flight, new records gather; when it ends they go as the next
//! one. `append` only gathers; `due` writes, so that all inputs of one turn share a batch. Records that somebody
//! waits for (`want`) are due at once, others after a while or when there are many.
//!
//! Crash story of a new segment: 1. created, reserved, its directory entry synced (`preparation`). 2. Its header
//! and first batch go in one write with one sync. 3. Only then is anything in it acknowledged. A crash between 1.
//! and 3. leaves zeros or a torn beginning, which recovery passes by: nothing there was acknowledged.

use super::batch::{self, BATCH_HEADER, BatchHeader};
use super::codec;
pub use super::opening::Opening;
use super::place::Place;
pub use super::place::Placed;
use super::preparation::{Preparation, Prepared};
use super::record::{Begin, Record};
use super::segment::{self, SegmentHeader};
use super::{SECTOR, whole_sectors};
use crate::ids::{Lsn, OpId, RecoveryCount, SegmentNumber, StoreId};
use crate::input::{DiskError, DiskReply};
use crate::limits::{Settings, SyncPolicy};
use crate::marks::reached;
use crate::outbox::Outbox;
use crate::output::DiskRequest;
use crate::time::{Monotonic, Now, Why};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// A batch is closed at this size, so that no acknowledgement waits for more than it must.
const BATCH_BYTES: usize = 1024 * 1024;

/// Milliseconds after which an idle log writes a witness: a batch without records that says what is synced.
const WITNESS_MS: u64 = 500;

/// The log.
pub struct Log {
    store: StoreId,
    recovery_count: RecoveryCount,
    segment: SegmentNumber,
    /// Where the next batch goes.
    offset: u64,
    previous: u32,
    last: Lsn,
    durable: Lsn,
    synced: Lsn,
    wanted: Lsn,
    /// What is appended goes into the batch at hand, however large that becomes.
    grouping: bool,
    gathering: VecDeque<Gathering>,
    /// Bytes of the batch that was written last.
    last_length: usize,
    in_flight: Option<InFlight>,
    preparation: Preparation,
    /// Segments that are there, with their lengths; without spares and the one that is prepared.
    files: BTreeMap<SegmentNumber, u64>,
    /// Removals under way.
    removals: BTreeSet<OpId>,
    /// Where the next checkpoint begins, or that it begins with the next batch.
    begin: BeginMark,
    /// The batch that completes the last checkpoint, which is durable: what is written from now on names it.
    checkpoint: Option<(SegmentNumber, u64)>,
    /// What a durable batch names.
    named: Option<(SegmentNumber, u64)>,
    /// A batch that completes a checkpoint and is written, and its last record.
    completing: Option<((SegmentNumber, u64), Lsn)>,
    placed: Vec<(Placed, Place)>,
    lazy_at: Option<Monotonic>,
    sync_at: Option<Monotonic>,
    witness_at: Option<Monotonic>,
    /// The last batch does not need a witness: it has one, or is one.
    witnessed: bool,
    /// What was written since start.
    pub written: Written,
}

/// Counters of the log.
#[derive(Clone, Copy, Default, Debug)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Batches.
    pub batches: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Records on their way into a batch. `bytes` begins with room for the header.
struct Gathering {
    bytes: Vec<u8>,
    first: Lsn,
    records: u32,
    spans: Vec<(Placed, codec::Span)>,
    /// It has the record that completes a checkpoint.
    completes: bool,
}

struct InFlight {
    op: OpId,
    /// Durable when it ends.
    durable: Lsn,
    /// Synced when it ends.
    synced: Lsn,
    doing: &'static str,
    /// The batch that is written, if one is.
    batch: Option<Writing>,
}

/// A batch that is being written.
struct Writing {
    at: Begin,
    placed: Vec<(Placed, Place)>,
    completes: bool,
    /// The checkpoint that its header names, if it is synced.
    names: Option<(SegmentNumber, u64)>,
}

/// Where a checkpoint begins: with the first batch that was not on disk when it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BeginMark {
    None,
    NextBatch,
    At(Begin),
}

/// What an operation's end means for the broker.
#[derive(Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Nothing.
    Nothing,
    /// More is durable.
    Durable,
    /// The disk is full, for this reason.
    Full(String),
    /// The disk has room again.
    RoomAgain,
    /// The disk failed while doing this.
    Failed(&'static str, DiskError),
}

impl Log {
    /// The log, opened.
    pub fn new(opening: Opening, segment_bytes: u64) -> Log {
        Log {
            store: opening.store,
            recovery_count: opening.recovery_count,
            segment: opening.segment,
            offset: SECTOR,
            previous: opening.previous,
            last: opening.last,
            durable: opening.last,
            synced: opening.last,
            wanted: Lsn::NONE,
            grouping: false,
            gathering: VecDeque::new(),
            last_length: 0,
            in_flight: None,
            preparation: Preparation::new(opening.segment.next(), segment_bytes),
            files: opening.files,
            removals: BTreeSet::new(),
            begin: BeginMark::None,
            checkpoint: opening.checkpoint,
            named: opening.checkpoint,
            completing: None,
            placed: Vec::new(),
            lazy_at: None,
            sync_at: None,
            witness_at: None,
            witnessed: true,
            written: Written::default(),
        }
    }

    /// The last record that is durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// The last record.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// The segment that is written.
    pub fn segment(&self) -> SegmentNumber {
        self.segment
    }

    /// Whether space on the disk is short: what can wait is held.
    pub fn is_full(&self) -> bool {
        self.preparation.is_low()
    }

    /// Whether another segment is ready behind the one that is written.
    pub fn has_next_segment(&self) -> bool {
        self.preparation.is_ready()
    }

    /// Whether less than a quarter of the last segment that the disk has room for is left.
    pub fn is_nearly_out_of_reserve(&self) -> bool {
        self.preparation.is_full() && self.offset > self.preparation.segment_bytes() / 4 * 3
    }

    /// The segments that are there, in order; without spares and the one that is prepared.
    pub fn segments(&self) -> impl Iterator<Item = SegmentNumber> {
        self.files.keys().copied()
    }

    /// Bytes of all files of the store.
    pub fn file_bytes(&self) -> u64 {
        let others = self.preparation.file_count() as u64 * self.preparation.segment_bytes();
        self.used_bytes() + others
    }

    /// Bytes of the segments that hold something.
    pub fn used_bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.preparation.segment_bytes()
    }

    /// The checkpoint that is named by a durable batch: recovery will find it.
    pub fn named_checkpoint(&self) -> Option<(SegmentNumber, u64)> {
        self.named
    }

    /// Whether a complete checkpoint is on its way to be found by recovery.
    pub fn is_naming(&self) -> bool {
        self.completing.is_some() || self.checkpoint != self.named
    }

    /// A checkpoint begins now: with the first batch that is not on disk yet.
    pub fn begin_checkpoint(&mut self) {
        let in_flight = self.in_flight.as_ref().and_then(|flight| flight.batch.as_ref());
        self.begin = in_flight.map_or(BeginMark::NextBatch, |batch| BeginMark::At(batch.at));
    }

    /// Where it begins; none before anything has been written since.
    pub fn checkpoint_begin(&self) -> Option<Begin> {
        match self.begin {
            BeginMark::At(begin) => Some(begin),
            BeginMark::None | BeginMark::NextBatch => None,
        }
    }

    /// Where things lie that are on disk since this was last called.
    pub fn take_placed(&mut self) -> Vec<(Placed, Place)> {
        core::mem::take(&mut self.placed)
    }

    /// Nothing needs these segments any more: they are used again, or removed.
    pub fn free(&mut self, segments: &[SegmentNumber], outbox: &mut Outbox) {
        for &segment in segments {
            let length = self.files.remove(&segment);
            if length == Some(self.preparation.segment_bytes()) && self.preparation.wants_spare() {
                self.preparation.add_spare(segment);
            } else {
                reached!("segment removed");
                self.removals.insert(outbox.disk(DiskRequest::Remove { segment }));
            }
        }
    }

    /// Whether records wait for a segment that the disk has no room for.
    pub fn is_stuck(&self) -> bool {
        let waits = self.gathering.front().is_some_and(|gathering| self.waits_for_segment(gathering));
        self.in_flight.is_none() && waits && self.preparation.is_full()
    }

    /// Whether nothing is written before a disk operation ends.
    pub fn is_waiting_for_disk(&self) -> bool {
        self.in_flight.is_some()
            || self.gathering.front().is_some_and(|gathering| self.waits_for_segment(gathering))
    }

    /// Bytes of records that are not written yet.
    pub fn unwritten_bytes(&self) -> usize {
        self.gathering.iter().map(|gathering| gathering.bytes.len()).sum()
    }

    /// Bytes of one record at the most.
    pub fn record_bytes_max(&self) -> u64 {
        self.preparation.segment_bytes() - SECTOR - BATCH_HEADER as u64
    }

    /// Begins to make the next segment.
    pub fn start(&mut self, now: Now, outbox: &mut Outbox) {
        self.preparation.start(now.monotonic, outbox);
    }

    /// What is appended from here to `close_group` goes into one batch, which survives as a whole or not at all. It takes
    /// `bytes` at the most, and these no more than half of `record_bytes_max`.
    pub fn open_group(&mut self, bytes: u64) {
        let most = self.record_bytes_max() / 2;
        if self.gathering.back().is_some_and(|gathering| gathering.bytes.len() as u64 + bytes > most) {
            self.gathering.push_back(Gathering::new(self.last.next(), 0));
        }
        self.grouping = true;
    }

    /// The group is complete.
    pub fn close_group(&mut self) {
        self.grouping = false;
    }

    /// Adds a record to the log; its number.
    pub fn append(&mut self, now: Now, record: &Record, placed: Option<Placed>, settings: &Settings) -> Lsn {
        let limit = BATCH_BYTES.min((self.preparation.segment_bytes() / 2) as usize);
        let lsn = self.last.next();
        let is_full = |gathering: &Gathering| gathering.bytes.len() >= limit && !self.grouping;
        if self.gathering.back().is_none_or(is_full) {
            self.gathering.push_back(Gathering::new(lsn, self.last_length));
        }
        let gathering = self.gathering.back_mut().expect("one was added if there was none");
        let before = gathering.bytes.len();
        let mut span = codec::encode(record, &mut gathering.bytes);
        if gathering.bytes.len() > limit && gathering.records > 0 && !self.grouping {
            // It goes into a batch of its own, so that no batch outgrows a segment.
            reached!("batch full");
            let own = gathering.bytes.split_off(before);
            let mut next = Gathering::new(lsn, own.len());
            next.bytes.extend_from_slice(&own);
            self.gathering.push_back(next);
            if let Some(span) = &mut span {
                span.offset = span.offset - before + BATCH_HEADER;
            }
        }
        if self.in_flight.is_some() {
            reached!("batch gathers behind a write");
        }
        let gathering = self.gathering.back_mut().expect("the record is in the last one");
        gathering.records += 1;
        if let (Some(placed), Some(span)) = (placed, span) {
            gathering.spans.push((placed, span));
        }
        gathering.completes |= matches!(record, Record::Checkpoint(_));
        self.last = lsn;
        self.written.records += 1;
        if self.lazy_at.is_none() {
            self.lazy_at = Some(now.monotonic.plus_ms(settings.limits.lazy_sync_ms));
        }
        if self.gathering.len() > 1 || self.unwritten_bytes() >= settings.limits.lazy_sync_bytes {
            self.lazy_at = Some(now.monotonic);
        }
        lsn
    }

    /// Somebody waits for `lsn`.
    pub fn want(&mut self, lsn: Lsn) {
        self.wanted = self.wanted.max(lsn);
    }

    /// When `due` wants to be called.
    pub fn deadline(&self) -> Option<(Monotonic, Why)> {
        let space = self.preparation.deadline().map(|at| (at, Why::Space));
        if self.in_flight.is_some() {
            return space;
        }
        let write = self.gathering.front().and_then(|gathering| {
            let at = if self.wanted >= gathering.first { Some(Monotonic(0)) } else { self.lazy_at };
            at.filter(|_| !self.waits_for_segment(gathering)).map(|at| (at, Why::Flush))
        });
        let sync = self.sync_at.map(|at| (at, Why::Flush));
        let witness = self.witness_at.filter(|_| self.gathering.is_empty()).map(|at| (at, Why::Witness));
        [space, write, sync, witness].into_iter().flatten().min()
    }

    /// Whether it goes into a segment that is not there yet.
    fn waits_for_segment(&self, gathering: &Gathering) -> bool {
        !self.fits(gathering) && !self.preparation.is_ready()
    }

    fn fits(&self, gathering: &Gathering) -> bool {
        let padded = whole_sectors(gathering.bytes.len() as u64);
        self.offset + padded <= self.preparation.segment_bytes()
    }

    /// Writes what is due; whether that was anything.
    pub fn due(&mut self, now: Now, settings: &Settings, outbox: &mut Outbox) -> bool {
        self.preparation.start(now.monotonic, outbox);
        if self.in_flight.is_some() {
            return false;
        }
        let wanted = self.gathering.front().is_some_and(|gathering| self.wanted >= gathering.first);
        let passed = |at: Option<Monotonic>| at.is_some_and(|at| at <= now.monotonic);
        if !self.gathering.is_empty() && (wanted || passed(self.lazy_at)) {
            if !wanted {
                reached!("lazy write");
            }
            self.write(now, settings, outbox);
        } else if passed(self.sync_at) {
            self.sync(outbox);
        } else if passed(self.witness_at) && self.gathering.is_empty() {
            reached!("witness");
            self.gathering.push_back(Gathering::new(self.last.next(), 0));
            self.write(now, settings, outbox);
        }
        self.in_flight.is_some()
    }

    fn write(&mut self, now: Now, settings: &Settings, outbox: &mut Outbox) {
        let Some(gathering) = self.gathering.pop_front() else { return };
        let mut header = None;
        if !self.fits(&gathering) {
            if self.synced < self.durable {
                // Not under "always": a later segment must not survive an earlier one.
                self.gathering.push_front(gathering);
                return self.sync(outbox);
            }
            let Some(segment) = self.preparation.take(now.monotonic, outbox) else {
                reached!("segment not ready");
                self.gathering.push_front(gathering);
                return;
            };
            reached!("segment rolled");
            self.segment = segment;
            self.files.insert(segment, self.preparation.segment_bytes());
            self.offset = 0;
            header = Some(Bytes::from(segment::encode(&self.segment_header(now, gathering.first))));
        }
        let offset = self.offset;
        let batch_at = offset + header.as_ref().map_or(0, |header| header.len() as u64);
        let last = Lsn(gathering.first.0 + u64::from(gathering.records) - 1);
        let (segment, previous, recovery_count) = (self.segment, self.previous, self.recovery_count);
        let at = Begin { segment, offset: batch_at, first: gathering.first, previous, recovery_count };
        if self.begin == BeginMark::NextBatch {
            self.begin = BeginMark::At(at);
        }
        let sync = self.is_sync_due(now, settings.sync, gathering.completes);
        let mut writing = Writing {
            at,
            placed: Vec::new(),
            completes: gathering.completes,
            names: if sync { self.checkpoint } else { None },
        };
        self.witnessed = gathering.records == 0;
        let batch = self.seal(now, gathering, batch_at, &mut writing.placed);
        self.offset = batch_at + batch.len() as u64;
        self.last_length = batch.len().min(BATCH_BYTES);
        self.written.batches += 1;
        self.written.bytes += self.offset - offset;
        let chunks = header.into_iter().chain([batch]).collect();
        let op = outbox.disk(DiskRequest::Write { segment, offset, chunks, sync });
        let synced = if sync { last } else { self.synced };
        self.written.syncs += u64::from(sync);
        let doing = "writing the log";
        self.in_flight = Some(InFlight { op, durable: last, synced, doing, batch: Some(writing) });
        self.witness_at = None;
        self.lazy_at = if self.gathering.is_empty() { None } else { Some(now.monotonic) };
    }

    fn seal(
        &mut self,
        now: Now,
        gathering: Gathering,
        batch_at: u64,
        placed: &mut Vec<(Placed, Place)>,
    ) -> Bytes {
        placed.extend(gathering.spans.into_iter().map(|(what, span)| {
            let codec::Span { offset, length, checksum } = span;
            let offset = batch_at + offset as u64;
            (what, Place { segment: self.segment, offset, length, checksum })
        }));
        let mut bytes = gathering.bytes;
        let header = BatchHeader {
            store: self.store,
            segment: self.segment,
            first: gathering.first,
            records: gathering.records,
            previous: self.previous,
            recovery_count: self.recovery_count,
            synced: self.synced,
            checkpoint: self.checkpoint,
            at: now.wall,
        };
        self.previous = batch::seal(&mut bytes, &header);
        Bytes::from(bytes)
    }

    fn segment_header(&self, now: Now, first: Lsn) -> SegmentHeader {
        SegmentHeader {
            store: self.store,
            segment: self.segment,
            first,
            previous: self.previous,
            recovery_count: self.recovery_count,
            synced: self.synced,
            at: now.wall,
            reserved: self.preparation.segment_bytes(),
            checkpoint: self.checkpoint,
        }
    }

    /// Whether this write is synced; if not, when there is to be a sync. What frees segments is synced whatever the
    /// policy: without it a power cut would take everything, not what was acknowledged lately.
    fn is_sync_due(&mut self, now: Now, policy: SyncPolicy, completes: bool) -> bool {
        if completes || self.is_naming() {
            return true;
        }
        match policy {
            SyncPolicy::Always => true,
            SyncPolicy::Never => false,
            SyncPolicy::EveryMs(interval) => {
                let at = *self.sync_at.get_or_insert(now.monotonic.plus_ms(interval));
                let due = at <= now.monotonic;
                if due {
                    self.sync_at = None;
                }
                due
            }
        }
    }

    fn sync(&mut self, outbox: &mut Outbox) {
        self.sync_at = None;
        self.written.syncs += 1;
        let op = outbox.disk(DiskRequest::Sync { segment: self.segment });
        self.in_flight = Some(InFlight {
            op,
            durable: self.durable,
            synced: self.durable,
            doing: "syncing the log",
            batch: None,
        });
    }

    /// A disk operation ended.
    pub fn disk_done(
        &mut self,
        now: Now,
        op: OpId,
        result: Result<DiskReply, DiskError>,
        settings: &Settings,
        outbox: &mut Outbox,
    ) -> LogEvent {
        if self.removals.remove(&op) {
            self.preparation.look_soon(now.monotonic);
            return match result {
                Ok(_) => LogEvent::Nothing,
                Err(error) => LogEvent::Failed("removing a log segment", error),
            };
        }
        if let Some(flight) = self.in_flight.take_if(|flight| flight.op == op) {
            return match result {
                Ok(_) => self.landed(now, flight),
                Err(error) => LogEvent::Failed(flight.doing, error),
            };
        }
        match self.preparation.disk_done(now.monotonic, op, result, settings, outbox) {
            Prepared::Going | Prepared::Foreign(_) => LogEvent::Nothing,
            Prepared::Full(why) => LogEvent::Full(why),
            Prepared::RoomAgain => LogEvent::RoomAgain,
            Prepared::Failed(doing, error) => LogEvent::Failed(doing, error),
        }
    }

    fn landed(&mut self, now: Now, flight: InFlight) -> LogEvent {
        self.synced = self.synced.max(flight.synced);
        if let Some(batch) = flight.batch {
            self.placed.extend(batch.placed);
            if batch.completes {
                self.completing = Some(((batch.at.segment, batch.at.offset), flight.durable));
            }
            if batch.names.is_some() {
                self.named = batch.names;
            }
        }
        if let Some((at, lsn)) = self.completing
            && lsn <= self.synced
        {
            self.checkpoint = Some(at);
            self.completing = None;
        }
        if self.checkpoint != self.named {
            self.witness_at = Some(now.monotonic);
        } else if !self.witnessed && self.synced == self.last {
            self.witness_at = Some(now.monotonic.plus_ms(WITNESS_MS));
        }
        let more = flight.durable > self.durable;
        self.durable = self.durable.max(flight.durable);
        if more { LogEvent::Durable } else { LogEvent::Nothing }
    }
}

impl Gathering {
    /// None yet; there will be `expected` bytes or so.
    fn new(first: Lsn, expected: usize) -> Gathering {
        let mut bytes = Vec::with_capacity(expected.max(SECTOR as usize));
        bytes.resize(BATCH_HEADER, 0);
        Gathering { bytes, first, records: 0, spans: Vec::new(), completes: false }
    }
}
