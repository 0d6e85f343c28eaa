//! The next segment, made ahead so that no publisher waits for it. Its header is written with its first batch.
//!
//! ```text
//! Idle ─► FreeSpace ─► Create ─► Reserve ─► SyncDirectory ─► Ready
//!            │ too little  │ full    │ full
//!            ▼             ▼         ▼
//!           Full ◄──────── Full ◄── Remove          Full ─► FreeSpace again a second later
//! ```
//!
//! While there is no next segment because the disk is full, publishers are held: what is left of the current
//! segment is the reserve for acknowledgements.

use crate::ids::{OpId, SegmentNumber};
use crate::input::{DiskError, DiskErrorKind, DiskReply};
use crate::limits::Settings;
use crate::outbox::Outbox;
use crate::output::DiskRequest;
use crate::time::Monotonic;
use alloc::format;
use alloc::string::String;

/// Milliseconds until a full disk is looked at again.
const RETRY_MS: u64 = 1000;

/// How far the next segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Idle,
    FreeSpace(OpId),
    Create(OpId),
    Reserve(OpId),
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
    /// Publishers have been told to wait.
    full: bool,
}

/// What came of an operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It was not one of this machine's.
    Foreign(Result<DiskReply, DiskError>),
    /// It goes on.
    Going,
    /// The disk is full, for this reason.
    Full(String),
    /// The segment is ready, and the disk was full before.
    RoomAgain,
    /// The disk failed while doing this.
    Failed(&'static str, DiskError),
}

impl Preparation {
    /// Nothing prepared; the next segment will have this number and every segment this many bytes.
    pub fn new(segment: SegmentNumber, segment_bytes: u64) -> Preparation {
        Preparation { segment, step: Step::Idle, segment_bytes, full: false }
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Whether the next segment can be taken.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// When a full disk is looked at again.
    pub fn deadline(&self) -> Option<Monotonic> {
        match self.step {
            Step::Full { retry } => Some(retry),
            _ => None,
        }
    }

    /// Begins, or begins again on a full disk.
    pub fn start(&mut self, now: Monotonic, outbox: &mut Outbox) {
        let due = match self.step {
            Step::Idle => true,
            Step::Full { retry } => retry <= now,
            _ => false,
        };
        if due {
            self.step = Step::FreeSpace(outbox.disk(DiskRequest::FreeSpace));
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
            (Step::FreeSpace(own), Ok(DiskReply::FreeSpace(free))) if own == op => {
                let needed = self.segment_bytes.saturating_add(settings.limits.free_bytes);
                if free < needed {
                    let why = format!("{free} bytes are free, the next segment needs {needed}");
                    return self.wait_for_room(now, why);
                }
                self.step = Step::Create(outbox.disk(DiskRequest::Create { segment }));
                Prepared::Going
            }
            (Step::Create(own), Ok(_)) if own == op => {
                let request = DiskRequest::Reserve { segment, length: self.segment_bytes };
                self.step = Step::Reserve(outbox.disk(request));
                Prepared::Going
            }
            (Step::Create(own), Err(error)) if own == op && error.kind == DiskErrorKind::Full => {
                self.wait_for_room(now, error.message)
            }
            (Step::Reserve(own), Ok(_)) if own == op => {
                self.step = Step::Directory(outbox.disk(DiskRequest::SyncDirectory));
                Prepared::Going
            }
            (Step::Reserve(own), Err(error)) if own == op && error.kind == DiskErrorKind::Full => {
                // What could be reserved is given back, for whatever needs it to make room.
                self.step = Step::Remove(outbox.disk(DiskRequest::Remove { segment }));
                self.full = true;
                Prepared::Full(error.message)
            }
            (Step::Directory(own), Ok(_)) if own == op => {
                self.step = Step::Ready;
                if core::mem::take(&mut self.full) { Prepared::RoomAgain } else { Prepared::Going }
            }
            (Step::Remove(own), Ok(_)) if own == op => {
                // A number that was removed is not used again: its entry may come back in a power cut.
                self.segment = segment.next();
                self.step = Step::Full { retry: now.plus_ms(RETRY_MS) };
                Prepared::Going
            }
            (step, Err(error)) if step.op() == Some(op) => Prepared::Failed(step.doing(), error),
            (_, result) => Prepared::Foreign(result),
        }
    }

    fn wait_for_room(&mut self, now: Monotonic, why: String) -> Prepared {
        self.step = Step::Full { retry: now.plus_ms(RETRY_MS) };
        if core::mem::replace(&mut self.full, true) { Prepared::Going } else { Prepared::Full(why) }
    }
}

impl Step {
    fn op(self) -> Option<OpId> {
        match self {
            Step::FreeSpace(op)
            | Step::Create(op)
            | Step::Reserve(op)
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
            Step::Directory(_) => "syncing the data directory",
            Step::Remove(_) => "removing an unused log segment",
            Step::Idle | Step::Full { .. } | Step::Ready => "waiting",
        }
    }
}
