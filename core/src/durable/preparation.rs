//! The next segment, made ahead so that no publisher waits for it. Its header is written with its first batch.
//!
//! ```text
//!            ┌──────────── a spare ────────────► Rename ──┐
//! Idle ─► FreeSpace ─► Create ─► Reserve ───────────────► SyncDirectory ─► Ready
//!            │ too little          │ full
//!            ▼                     ▼
//!           Full ◄────────────── Remove          Full ─► FreeSpace again a second later
//! ```
//!
//! There are two bounds. Below the first publishers are held, and segments are still made: for acknowledgements, for
//! checkpoints and for the compaction that brings space back. Below the second no segment can be made; what is left of
//! the current one is for acknowledgements alone.

use crate::ids::{OpId, SegmentNumber};
use crate::input::{DiskError, DiskErrorKind, DiskReply};
use crate::limits::Settings;
use crate::marks::reached;
use crate::outbox::Outbox;
use crate::output::DiskRequest;
use crate::time::Monotonic;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Milliseconds until a full disk is looked at again.
const RETRY_MS: u64 = 1000;

/// Segments kept for use again.
const SPARES_MAX: usize = 1;

/// How far the next segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Idle,
    FreeSpace(OpId),
    Create(OpId),
    Reserve(OpId),
    Rename(OpId),
    Directory(OpId),
    Remove(OpId),
    Full { retry: Monotonic },
    Ready,
}

/// Makes the next segment.
pub struct Preparation {
    /// The segment that is being made, or was.
    segment: SegmentNumber,
    step: Step,
    /// Bytes of a segment.
    segment_bytes: u64,
    /// Segments that nothing needs any more, of the right length.
    spares: Vec<SegmentNumber>,
    /// Publishers have been told to wait.
    low: bool,
    /// When the space is looked at again although a segment is ready.
    look_at: Option<Monotonic>,
    /// The look that is under way then.
    looking: Option<OpId>,
}

/// What came of an operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It was not one of this machine's.
    Foreign(Result<DiskReply, DiskError>),
    /// It goes on.
    Going,
    /// Space is short, for this reason.
    Full(String),
    /// There is space again.
    RoomAgain,
    /// The disk failed while doing this.
    Failed(&'static str, DiskError),
}

impl Preparation {
    /// Nothing prepared; the next segment will have this number and every segment this many bytes.
    pub fn new(segment: SegmentNumber, segment_bytes: u64) -> Preparation {
        Preparation {
            segment,
            step: Step::Idle,
            segment_bytes,
            spares: Vec::new(),
            low: false,
            look_at: None,
            looking: None,
        }
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Whether the next segment can be taken.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }

    /// Whether space is short: publishers are held.
    pub fn is_low(&self) -> bool {
        self.low
    }

    /// Whether there is no space for another segment.
    pub fn is_full(&self) -> bool {
        matches!(self.step, Step::Full { .. } | Step::Remove(_)) && self.spares.is_empty()
    }

    /// Whether another segment would be kept for use again.
    pub fn wants_spare(&self) -> bool {
        self.spares.len() < SPARES_MAX
    }

    /// A segment of the right length that nothing needs any more.
    pub fn add_spare(&mut self, segment: SegmentNumber) {
        self.spares.push(segment);
    }

    /// Files that are there beside the segments of the log: spares, and the one that is made.
    pub fn file_count(&self) -> usize {
        self.spares.len() + 1
    }

    /// Something was removed: there may be space again.
    pub fn look_soon(&mut self, now: Monotonic) {
        if self.low {
            self.look_at = self.look_at.map(|_| now);
        }
    }

    /// When the space is looked at again.
    pub fn deadline(&self) -> Option<Monotonic> {
        let retry = match self.step {
            Step::Full { .. } if !self.spares.is_empty() => Some(Monotonic(0)),
            Step::Full { retry } => Some(retry),
            _ => None,
        };
        [retry, self.look_at].into_iter().flatten().min()
    }

    /// Begins, or begins again on a full disk.
    pub fn start(&mut self, now: Monotonic, outbox: &mut Outbox) {
        let due = match self.step {
            Step::Idle => true,
            Step::Full { retry } => retry <= now || !self.spares.is_empty(),
            _ => false,
        };
        if due {
            match self.spares.pop() {
                Some(from) => {
                    reached!("segment used again");
                    let to = self.segment;
                    self.step = Step::Rename(outbox.disk(DiskRequest::Rename { from, to }));
                }
                None => self.step = Step::FreeSpace(outbox.disk(DiskRequest::FreeSpace)),
            }
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.looking = Some(outbox.disk(DiskRequest::FreeSpace));
        }
    }

    /// The segment, if it is ready; the one after it is begun.
    pub fn take(&mut self, now: Monotonic, outbox: &mut Outbox) -> Option<SegmentNumber> {
        if self.step != Step::Ready {
            return None;
        }
        let taken = self.segment;
        self.segment = taken.next();
        self.step = Step::Idle;
        self.start(now, outbox);
        Some(taken)
    }

    /// An operation ended.
    pub fn disk_done(
        &mut self,
        now: Monotonic,
        op: OpId,
        result: Result<DiskReply, DiskError>,
        settings: &Settings,
        outbox: &mut Outbox,
    ) -> Prepared {
        let segment = self.segment;
        match (self.step, result) {
            (_, Ok(DiskReply::FreeSpace(free))) if self.looking == Some(op) => {
                self.looking = None;
                self.note_space(now, free, settings)
            }
            (Step::FreeSpace(own), Ok(DiskReply::FreeSpace(free))) if own == op => {
                if free < self.segment_bytes.saturating_add(settings.limits.free_bytes) {
                    let needed = self.segment_bytes + settings.limits.free_bytes;
                    let why = format!("{free} bytes are free, the next segment needs {needed}");
                    return self.wait_for_room(now, why);
                }
                self.step = Step::Create(outbox.disk(DiskRequest::Create { segment }));
                self.note_space(now, free - self.segment_bytes, settings)
            }
            (Step::Create(own), Ok(_)) if own == op => {
                let request = DiskRequest::Reserve { segment, length: self.segment_bytes };
                self.step = Step::Reserve(outbox.disk(request));
                Prepared::Going
            }
            (Step::Create(own), Err(error)) if own == op && error.kind == DiskErrorKind::Full => {
                self.wait_for_room(now, error.message)
            }
            (Step::Reserve(own) | Step::Rename(own), Ok(_)) if own == op => {
                self.step = Step::Directory(outbox.disk(DiskRequest::SyncDirectory));
                Prepared::Going
            }
            (Step::Reserve(own), Err(error)) if own == op && error.kind == DiskErrorKind::Full => {
                // What could be reserved is given back, for whatever needs it to make room.
                self.step = Step::Remove(outbox.disk(DiskRequest::Remove { segment }));
                self.look_at = None;
                if core::mem::replace(&mut self.low, true) {
                    Prepared::Going
                } else {
                    Prepared::Full(error.message)
                }
            }
            (Step::Directory(own), Ok(_)) if own == op => {
                self.step = Step::Ready;
                if self.low && self.look_at.is_none() && self.looking.is_none() {
                    self.look_at = Some(now);
                }
                Prepared::Going
            }
            (Step::Remove(own), Ok(_)) if own == op => {
                // A number that was removed is not used again: its entry may come back in a power cut.
                self.segment = segment.next();
                self.step = Step::Full { retry: now.plus_ms(RETRY_MS) };
                Prepared::Going
            }
            (step, Err(error)) if step.op() == Some(op) => Prepared::Failed(step.doing(), error),
            (_, Err(error)) if self.looking == Some(op) => {
                Prepared::Failed("asking for the free space", error)
            }
            (_, result) => Prepared::Foreign(result),
        }
    }

    /// So much is free beside the segment that is made.
    fn note_space(&mut self, now: Monotonic, free: u64, settings: &Settings) -> Prepared {
        let reserve = settings.limits.reserve_segments.saturating_mul(self.segment_bytes);
        let needed = reserve.saturating_add(settings.limits.free_bytes);
        let low = free.saturating_add(self.segment_bytes * self.spares.len() as u64) < needed;
        self.look_at = low.then(|| now.plus_ms(RETRY_MS));
        match (core::mem::replace(&mut self.low, low), low) {
            (false, true) => Prepared::Full(format!(
                "{free} bytes are free, and {needed} are kept for acknowledgements, checkpoints and compaction"
            )),
            (true, false) => Prepared::RoomAgain,
            (false, false) | (true, true) => Prepared::Going,
        }
    }

    fn wait_for_room(&mut self, now: Monotonic, why: String) -> Prepared {
        self.step = Step::Full { retry: now.plus_ms(RETRY_MS) };
        self.look_at = None;
        if core::mem::replace(&mut self.low, true) { Prepared::Going } else { Prepared::Full(why) }
    }
}

impl Step {
    fn op(self) -> Option<OpId> {
        match self {
            Step::FreeSpace(op)
            | Step::Create(op)
            | Step::Reserve(op)
            | Step::Rename(op)
            | Step::Directory(op)
            | Step::Remove(op) => Some(op),
            Step::Idle | Step::Full { .. } | Step::Ready => None,
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Step::FreeSpace(_) => "asking for the free space",
            Step::Create(_) => "creating the next log segment",
            Step::Reserve(_) => "reserving the next log segment",
            Step::Rename(_) => "giving a segment another number",
            Step::Directory(_) => "syncing the data directory",
            Step::Remove(_) => "removing an unused log segment",
            Step::Idle | Step::Full { .. } | Step::Ready => "waiting",
        }
    }
}
