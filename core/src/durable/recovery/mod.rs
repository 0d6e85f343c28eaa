//! Recovery: from the files of a store to a broker, or to a refusal.
//!
//! ```text
//! List ─► Headers ─► Sync ─► Headers ─► Locate ─► Restore ─► Replay ─► Scan ─► Open ─► Settle
//! ```
//!
//! *Sync* makes what a crashed broker had written durable before it is believed: otherwise recovery would build on
//! what is only in the page cache, acknowledge more, and a power cut would take the foundation away. It concerns the
//! files that no later header calls synced, as a rule the last one or two; their headers are then read again.
//! *Locate* finds the last checkpoint, *Restore* takes its images: replay begins where it began.
//! *Replay* follows the chain: expected LSN and predecessor checksum, batch after batch, segment after segment.
//! *Scan* looks at everything behind the place where the chain ends: if any batch or header of this store says that
//! the expected LSN was synced, acknowledged data is damaged and recovery refuses; otherwise the end is a tail.
//! *Open* goes on in a new segment above every file present; nothing is ever written behind a tear. It is the segment
//! that was prepared, one that is not needed any more, or a new one.
//! *Settle* records what a crash means to clients: they are away from now on, their wills are published.
//!
//! A crash at any point of this leaves the same store, perhaps with one more segment that nothing was acknowledged
//! in: the next recovery comes to the same outcome.

mod chain;
mod opening;
mod reader;
mod refusal;
mod restoring;

use crate::broker::Broker;
use crate::durable::batch;
use crate::durable::log::{Log, Opening};
use crate::durable::segment::{self, SegmentHeader};
use crate::durable::state::State;
use crate::durable::{SECTOR, segment::FirstSector};
use crate::ids::{Lsn, OpId, RecoveryCount, Seed, SegmentNumber, StoreId};
use crate::input::{DiskError, DiskReply, Input};
use crate::limits::Settings;
use crate::marks::reached;
use crate::outbox::Outbox;
use crate::output::{DiskRequest, Output};
use crate::time::Now;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use chain::{Chain, Follow, Scan};
use reader::{Reader, Wanted};
pub use refusal::Refusal;
use restoring::{Locate, Restoring};

/// What a recovery is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve afterwards: a new segment is opened, wills of whoever was connected are recorded.
    Serve,
    /// To look: nothing is written.
    Look,
}

/// What recovery brought.
pub struct Recovered {
    /// The broker. With `Purpose::Look` only good for looking at.
    pub broker: Broker,
    /// What was found.
    pub report: RecoveryReport,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The store.
    pub store: StoreId,
    /// Recoveries so far, this one included.
    pub recovery_count: RecoveryCount,
    /// Segment files found.
    pub segments: u64,
    /// Records read.
    pub records: u64,
    /// The record that replay began with.
    pub replayed_from: Lsn,
    /// The last of them.
    pub last_lsn: Lsn,
    /// Durable sessions.
    pub sessions: u64,
    /// Queues that hold something.
    pub queues: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Retained messages.
    pub retained: u64,
    /// Wills of clients that were connected.
    pub wills: u64,
    /// The segment that replay began in, if there is a checkpoint.
    pub checkpoint: Option<SegmentNumber>,
    /// Where an unfinished write was cut off, if one was found.
    pub torn_tail: Option<(SegmentNumber, u64)>,
}

/// Recovery as a state machine: driven like `Broker`, until `finish` returns something.
pub struct Recovery {
    settings: Settings,
    seed: Seed,
    purpose: Purpose,
    outbox: Outbox,
    step: Step,
    reader: Reader,
    files: Vec<File>,
    chain: Chain,
    state: Option<State>,
    restored: Option<Restoring>,
    report: RecoveryReport,
}

/// A segment file.
#[derive(Clone, Copy, Debug)]
struct File {
    segment: SegmentNumber,
    length: u64,
    header: Option<SegmentHeader>,
    /// Scanned, and nothing but zeros.
    blank: bool,
    /// Scanned, and never written to under its number.
    unwritten: bool,
}

enum Step {
    List,
    /// Syncing this file.
    Sync(usize),
    /// Reading the header of this file, before or after the sync.
    Headers(usize, Pass),
    Locate(Locate),
    Restore(Restoring),
    Replay(Follow),
    Scan(Scan),
    Open(Opening, Open),
    Settle(Box<Broker>),
    Done(Box<Result<Recovered, Refusal>>),
    Finished,
}

/// Headers are read before the sync, to know what needs it, and after it, to be believed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    BeforeSync,
    AfterSync,
}

/// Opening the new segment: the operation that is under way. There is one at a time.
enum Open {
    Create,
    Rename,
    /// The directory entry of the segment's new name.
    Named,
    Reserve,
    /// There is no space for the segment, for this reason: what was reserved of it goes.
    GivenBack(String),
    Header,
    Directory,
    /// Unused segments that go, and the one that is going.
    Remove(VecDeque<SegmentNumber>),
    RemovalDirectory,
}

impl Recovery {
    /// Begins: the first orders are there to be polled. `settings` must have passed `Settings::check`.
    pub fn new(_now: Now, settings: Settings, seed: Seed, purpose: Purpose) -> Recovery {
        let mut outbox = Outbox::default();
        outbox.disk(DiskRequest::List);
        Recovery {
            settings,
            seed,
            purpose,
            outbox,
            step: Step::List,
            reader: Reader::default(),
            files: Vec::new(),
            chain: Chain::new(seed.store_id()),
            state: Some(State::new(seed.hash_key())),
            restored: None,
            report: RecoveryReport::default(),
        }
    }

    /// A disk operation ended.
    pub fn handle(&mut self, now: Now, op: OpId, result: Result<DiskReply, DiskError>) {
        let step = core::mem::replace(&mut self.step, Step::Finished);
        let outcome = match step {
            Step::List => self.listed(result),
            Step::Sync(index) => match result {
                Ok(_) => Ok(self.sync_file(index + 1)),
                Err(error) => Err(Refusal::DiskFailed { doing: "syncing the log", error: error.message }),
            },
            Step::Headers(..) | Step::Locate(_) | Step::Restore(_) | Step::Replay(_) | Step::Scan(_) => {
                match self.reader.arrived(result) {
                    Ok(()) => Ok(step),
                    Err(refusal) => Err(refusal),
                }
            }
            Step::Open(opening, open) => self.opened(now, opening, open, result),
            Step::Settle(mut broker) => {
                broker.handle(now, Input::DiskDone { op, result });
                Ok(Step::Settle(broker))
            }
            Step::Done(_) | Step::Finished => Ok(step),
        };
        self.step = outcome.unwrap_or_else(|refusal| Step::Done(Box::new(Err(refusal))));
        self.go_on(now);
    }

    /// The next order to the driver: disk operations, and reports of what it met.
    pub fn poll_output(&mut self) -> Option<Output> {
        match &mut self.step {
            Step::Settle(broker) => self.outbox.pop().or_else(|| broker.poll_output()),
            _ => self.outbox.pop(),
        }
    }

    /// Once, when all is done: the broker, or the refusal.
    pub fn finish(&mut self) -> Option<Result<Recovered, Refusal>> {
        match core::mem::replace(&mut self.step, Step::Finished) {
            Step::Done(outcome) => Some(*outcome),
            step => {
                self.step = step;
                None
            }
        }
    }

    /// Goes on as far as it can without the disk.
    fn go_on(&mut self, now: Now) {
        loop {
            let step = core::mem::replace(&mut self.step, Step::Finished);
            let outcome = match step {
                Step::Headers(index, pass) => self.read_header(index, pass),
                Step::Locate(locate) => self.locate(locate),
                Step::Restore(restoring) => self.restore(restoring),
                Step::Replay(follow) => self.replay(follow),
                Step::Scan(scan) => self.scan(now, scan),
                Step::Settle(broker) => {
                    self.step = self.settle(now, broker);
                    return;
                }
                Step::List | Step::Sync(_) | Step::Open(..) | Step::Done(_) | Step::Finished => {
                    self.step = step;
                    return;
                }
            };
            match outcome {
                Ok(Wanted::Go(step)) => self.step = step,
                Ok(Wanted::Wait(step)) => {
                    self.step = step;
                    return;
                }
                Err(refusal) => self.step = Step::Done(Box::new(Err(refusal))),
            }
        }
    }

    fn listed(&mut self, result: Result<DiskReply, DiskError>) -> Result<Step, Refusal> {
        let mut listing = match result {
            Ok(DiskReply::Listing(listing)) => listing,
            Ok(_) => Vec::new(),
            Err(error) => {
                return Err(Refusal::DiskFailed {
                    doing: "listing the data directory",
                    error: error.message,
                });
            }
        };
        listing.sort_unstable();
        self.files = listing
            .into_iter()
            .map(|(segment, length)| File { segment, length, header: None, blank: false, unwritten: false })
            .collect();
        self.report.segments = self.files.len() as u64;
        Ok(Step::Headers(0, Pass::BeforeSync))
    }

    /// Makes the files from this one on durable, one after the other; then their headers are read again.
    fn sync_file(&mut self, index: usize) -> Step {
        match self.files.get(index) {
            Some(file) => {
                self.outbox.disk(DiskRequest::Sync { segment: file.segment });
                Step::Sync(index)
            }
            None => {
                self.reader = Reader::default();
                Step::Headers(self.first_unproven(), Pass::AfterSync)
            }
        }
    }

    /// The first file that no later header calls synced to its end.
    fn first_unproven(&self) -> usize {
        let headers = || self.files.iter().filter_map(|file| file.header);
        let synced = headers().map(|header| header.synced).max().unwrap_or(Lsn::NONE);
        let proven = |file: &File| file.header.is_some_and(|header| header.first <= synced.next());
        self.files.iter().rposition(proven).unwrap_or(0)
    }

    fn read_header(&mut self, index: usize, pass: Pass) -> Result<Wanted<Step>, Refusal> {
        let Some(file) = self.files.get_mut(index) else { return self.headers_read(pass).map(Wanted::Go) };
        let length = SECTOR.min(file.length);
        let Some(sector) = self.reader.want(file.segment, 0, length, SECTOR, &mut self.outbox) else {
            return Ok(Wanted::Wait(Step::Headers(index, pass)));
        };
        file.header = match segment::parse(&sector) {
            FirstSector::NewerFormat(format) => {
                return Err(Refusal::NewerFormat { segment: file.segment, format, newest: segment::FORMAT });
            }
            // A header in the wrong file is none.
            FirstSector::Header(header) if header.segment == file.segment => Some(header),
            FirstSector::Header(_) | FirstSector::Nothing => None,
        };
        match file.header {
            // All of it was there, on disk, before its header was written.
            Some(header) if file.length < header.reserved => Err(Refusal::Shortened {
                segment: file.segment,
                length: file.length,
                reserved: header.reserved,
            }),
            _ => Ok(Wanted::Go(Step::Headers(index + 1, pass))),
        }
    }

    /// Who only looks believes nothing, and syncs nothing.
    fn headers_read(&mut self, pass: Pass) -> Result<Step, Refusal> {
        match (pass, self.purpose) {
            (Pass::BeforeSync, Purpose::Serve) => Ok(self.sync_file(self.first_unproven())),
            (Pass::BeforeSync, Purpose::Look) | (Pass::AfterSync, _) => self.begin_replay(),
        }
    }

    /// All headers are read: where does the chain begin?
    fn begin_replay(&mut self) -> Result<Step, Refusal> {
        let headers = || self.files.iter().filter_map(|file| file.header);
        if let Some(first) = headers().next() {
            self.chain.store = first.store;
            if let Some(other) = headers().find(|header| header.store != first.store) {
                let (segment, found) = (other.segment, other.store);
                return Err(Refusal::OtherStore { segment, found, expected: first.store });
            }
        }
        let newest = headers().map(|header| header.recovery_count).max();
        self.report.recovery_count = RecoveryCount(newest.map_or(1, |count| count.0 + 1));
        let newest = self.files.iter().enumerate().rev().find_map(|(index, f)| Some((index, f.header?)));
        Ok(match newest {
            Some((index, header)) => Step::Locate(Locate::new(index, &header)),
            None => Step::Scan(Scan::everything()),
        })
    }

    fn locate(&mut self, mut locate: Locate) -> Result<Wanted<Step>, Refusal> {
        Ok(match locate.go_on(&self.files, &mut self.reader, &mut self.outbox) {
            Wanted::Wait(()) => Wanted::Wait(Step::Locate(locate)),
            Wanted::Go(Some(at)) => Wanted::Go(Step::Restore(Restoring::new(at))),
            // There is none yet: the chain begins with the store.
            Wanted::Go(None) => Wanted::Go(match self.chain.next_file(&self.files, None) {
                Some(index) => Step::Replay(Follow::new(index)),
                None => Step::Scan(Scan::everything()),
            }),
        })
    }

    fn restore(&mut self, mut restoring: Restoring) -> Result<Wanted<Step>, Refusal> {
        let state = self.state.as_mut().expect("the state is here until the broker takes it");
        match restoring.go_on(&self.files, &mut self.reader, &mut self.outbox, state)? {
            Wanted::Wait(()) => Ok(Wanted::Wait(Step::Restore(restoring))),
            Wanted::Go(()) => {
                let begin = restoring.checkpoint.as_ref().expect("its images are taken").begin;
                let file = self.files.iter().position(|file| file.segment == begin.segment);
                let file = file.ok_or(Refusal::SegmentMissing { segment: begin.segment })?;
                self.chain.begin_at(&begin, restoring.at);
                self.report.checkpoint = Some(begin.segment);
                self.report.replayed_from = begin.first;
                self.restored = Some(restoring);
                Ok(Wanted::Go(Step::Replay(Follow { file, offset: begin.offset })))
            }
        }
    }

    fn replay(&mut self, mut follow: Follow) -> Result<Wanted<Step>, Refusal> {
        let file = self.files[follow.file];
        let batch = match self.reader.batch(file.segment, follow.offset, file.length, &mut self.outbox) {
            Wanted::Wait(()) => return Ok(Wanted::Wait(Step::Replay(follow))),
            Wanted::Go(bytes) => bytes,
        };
        let Some(batch) = batch::parse(&batch).filter(|batch| self.chain.continues(file.segment, batch))
        else {
            // The chain goes on in another segment, or it ends here.
            return Ok(Wanted::Go(match self.chain.next_file(&self.files, Some(follow.file)) {
                Some(index) => {
                    if follow.offset == SECTOR {
                        reached!("empty segment passed");
                    }
                    Step::Replay(Follow::new(index))
                }
                None => Step::Scan(Scan::behind(follow)),
            }));
        };
        let state = self.state.as_mut().expect("the state is here until the broker takes it");
        self.report.records += u64::from(batch.header.records);
        self.chain.apply(file.segment, follow.offset, &batch, state)?;
        follow.offset += batch.padded();
        Ok(Wanted::Go(Step::Replay(follow)))
    }

    fn scan(&mut self, now: Now, mut scan: Scan) -> Result<Wanted<Step>, Refusal> {
        let Some(file) = self.files.get_mut(scan.file) else {
            return self.scanned(now, scan).map(Wanted::Go);
        };
        if let Some(header) = file.header.filter(|_| scan.offset == 0) {
            scan.header(&header, &self.chain);
        }
        if scan.offset >= file.length {
            file.blank = scan.blank;
            file.unwritten = !scan.is_own() && !scan.is_where_the_chain_ends();
            scan.next_file();
            return Ok(Wanted::Go(Step::Scan(scan)));
        }
        let bytes = match self.reader.batch(file.segment, scan.offset, file.length, &mut self.outbox) {
            Wanted::Wait(()) => return Ok(Wanted::Wait(Step::Scan(scan))),
            Wanted::Go(bytes) => bytes,
        };
        match batch::parse(&bytes) {
            Some(batch) => scan.batch(file.segment, &batch, &self.chain),
            None => scan.other(&bytes),
        }
        Ok(Wanted::Go(Step::Scan(scan)))
    }

    /// Everything behind the end is looked at: tail or damage?
    fn scanned(&mut self, now: Now, scan: Scan) -> Result<Step, Refusal> {
        if let Some(damage) = scan.damage(&self.chain, &self.files) {
            reached!("damage refused");
            return Err(damage);
        }
        if self.state.as_ref().is_some_and(State::is_restoring) {
            let (segment, offset) = self.restored.as_ref().map_or_else(Default::default, |r| r.at);
            return Err(Refusal::CheckpointDamaged { segment, offset });
        }
        self.report.torn_tail = scan.torn_at(&self.files);
        if self.report.torn_tail.is_some() {
            reached!("torn tail");
        }
        self.report.store = self.chain.store;
        self.report.last_lsn = Lsn(self.chain.expected.0 - 1);
        let prepared = self.prepared_segment();
        let above = self.files.last().map_or(SegmentNumber(1), |file| file.segment.next());
        let segment = prepared.unwrap_or(above);
        let mut files: alloc::collections::BTreeMap<_, _> =
            self.files.iter().filter(|file| !file.blank).map(|file| (file.segment, file.length)).collect();
        let bytes = self.settings.segment_bytes;
        let used_again = self.unneeded().find(|segment| files.get(segment) == Some(&bytes));
        files.insert(segment, bytes);
        let opening = Opening {
            store: self.chain.store,
            recovery_count: self.report.recovery_count,
            segment,
            previous: self.chain.previous,
            last: self.report.last_lsn,
            checkpoint: self.restored.as_ref().map(|restored| restored.at),
            files,
        };
        Ok(match (self.purpose, used_again) {
            (Purpose::Look, _) => self.looked(now, opening),
            (Purpose::Serve, _) if prepared.is_some() => self.write_header(now, opening),
            (Purpose::Serve, Some(from)) => self.use_again(from, opening),
            (Purpose::Serve, None) => {
                self.outbox.disk(DiskRequest::Create { segment });
                Step::Open(opening, Open::Create)
            }
        })
    }

    fn begin_settling(&mut self, now: Now, opening: Opening) -> Step {
        let unneeded: BTreeSet<SegmentNumber> = self.unneeded().collect();
        let mut broker = self.make_broker(now, opening);
        self.describe(&broker);
        if let Some(Restoring { checkpoint: Some(checkpoint), images, .. }) = &self.restored {
            broker.upkeep.recovered(checkpoint, images.iter().chain(&checkpoint.listings).copied());
        }
        broker.free_unneeded(unneeded);
        broker.settle_after_crash(now);
        Step::Settle(Box::new(broker))
    }

    fn settle(&mut self, now: Now, mut broker: Box<Broker>) -> Step {
        loop {
            // Work that was put off may add records, which are wanted as well.
            broker.log.want(broker.log.last());
            broker.handle(now, Input::DeadlineReached);
            if broker.is_durable() || broker.has_stopped() {
                broker.enable_upkeep();
                return Step::Done(Box::new(Ok(Recovered { broker: *broker, report: self.report.clone() })));
            }
            if broker.log.is_stuck() {
                let error = "the disk is full; free some space".into();
                let doing = "recording that clients are gone, and their wills,";
                return Step::Done(Box::new(Err(Refusal::DiskFailed { doing, error })));
            }
            if broker.log.is_waiting_for_disk() {
                return Step::Settle(broker);
            }
        }
    }

    fn make_broker(&mut self, now: Now, opening: Opening) -> Broker {
        let log = Log::new(opening, self.settings.segment_bytes);
        let state = self.state.take().expect("the broker is made once");
        let outbox = core::mem::take(&mut self.outbox);
        Broker::recovered(now, self.settings, self.seed, state, log, outbox)
    }

    fn describe(&mut self, broker: &Broker) {
        let statistics = broker.statistics();
        self.report.sessions = statistics.sessions;
        self.report.queues = broker.queues_in_use();
        self.report.messages = statistics.messages;
        self.report.body_bytes = statistics.body_bytes;
        self.report.retained = statistics.retained;
        self.report.wills = broker.will_count();
    }
}
