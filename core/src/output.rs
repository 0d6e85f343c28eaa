//! What the core wants: orders, in the imperative. The driver carries them out and reports back.

use crate::access::Credentials;
use crate::event::Event;
use crate::ids::{ConnectionId, OpId, QueryId, SegmentNumber};
use crate::statistics::Statistics;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

/// An order to the driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send these bytes, after all earlier ones of this connection. At most one a connection a drain.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// To be sent one after the other.
        chunks: Vec<Bytes>,
    },
    /// Close the connection: send what was ordered before (for a few seconds at the most), then close. The
    /// core has forgotten the connection and ignores what still comes from it.
    Close {
        /// The connection.
        connection: ConnectionId,
        /// Why, for the log.
        reason: CloseReason,
    },
    /// Read no more from this connection for now.
    PauseReading {
        /// The connection.
        connection: ConnectionId,
    },
    /// Read again.
    ResumeReading {
        /// The connection.
        connection: ConnectionId,
    },
    /// Find out whether the client is who it says, and answer with `Verified`: one order a connection at a time. The
    /// connection may be gone before.
    Verify {
        /// The connection.
        connection: ConnectionId,
        /// What it says.
        credentials: Credentials,
    },
    /// Do this to the store. Every order is answered by one `DiskDone`. Orders that depend on one another are
    /// not given before the first is answered; a driver may carry out others in any order.
    Disk {
        /// The number to answer with.
        op: OpId,
        /// What to do.
        request: DiskRequest,
    },
    /// Something happened that a person or a checker may want to know.
    Report(Event),
    /// The answer to a question.
    Answer {
        /// The question's number.
        query: QueryId,
        /// What was asked for.
        answer: Answer,
    },
    /// The broker has stopped and does nothing any more: the last output.
    Halt {
        /// Why.
        fault: Halt,
    },
}

/// An operation on the store, as low as a system call. Segments are files of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Name the segments present, with their lengths.
    List,
    /// Make an empty segment that must not exist yet.
    Create {
        /// Its number.
        segment: SegmentNumber,
    },
    /// Allocate the segment to this length, so that later writes inside it need no space; all of it reads as
    /// zeros. The length and the allocation are durable afterwards, the directory entry is not.
    Reserve {
        /// The segment.
        segment: SegmentNumber,
        /// Bytes.
        length: u64,
    },
    /// Write inside the reserved length; with `sync`, all writes to the segment so far are durable afterwards.
    Write {
        /// The segment.
        segment: SegmentNumber,
        /// Where the first chunk goes: a multiple of 4096.
        offset: u64,
        /// Written one after the other; together a multiple of 4096 bytes.
        chunks: Vec<Bytes>,
        /// Whether to sync after the write.
        sync: bool,
    },
    /// Make all writes to the segment so far durable. What is read afterwards comes from the device: after a
    /// write that failed, a system's cache may show what never got there.
    Sync {
        /// The segment.
        segment: SegmentNumber,
    },
    /// Make the directory's entries durable.
    SyncDirectory,
    /// Read.
    Read {
        /// The segment.
        segment: SegmentNumber,
        /// From this byte on.
        offset: u64,
        /// At the most so many bytes.
        length: u64,
    },
    /// Remove the segment.
    Remove {
        /// The segment.
        segment: SegmentNumber,
    },
    /// Give the segment another number, which must not be in use. What is in it stays.
    Rename {
        /// The segment.
        from: SegmentNumber,
        /// Its number from now on.
        to: SegmentNumber,
    },
    /// Tell how many bytes can still be allocated.
    FreeSpace,
}

/// An answer to the operator.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To `Question::Statistics`.
    Statistics(Box<Statistics>),
}

/// Why the core closes a connection. Displays as one line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// What it means for whoever reads the log.
    pub kind: CloseKind,
    /// The clause of the specification that decided, or empty.
    pub clause: &'static str,
    /// What happened, in plain words.
    pub text: Cow<'static, str>,
    /// The client's identifier, once known.
    pub client: Option<String>,
}

/// How a close is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// In order: the client said goodbye, or the broker ends.
    Normal,
    /// The peer broke a rule of its protocol.
    ProtocolError,
    /// The peer went over a limit of this broker.
    Limit,
    /// The peer fell silent or went away.
    Lost,
    /// Another connection took the session over.
    TakenOver,
    /// The client could not prove who it is.
    Unauthorized,
    /// The broker cannot serve now (disk full, too many connections).
    Unavailable,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(client) = &self.client {
            write!(f, "client {client:?}: ")?;
        }
        // A name that a peer chose may be in it: it is one line all the same.
        for character in self.text.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        if !self.clause.is_empty() {
            write!(f, " {}", self.clause)?;
        }
        Ok(())
    }
}

/// Why the broker stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// As the operator asked; everything is on disk.
    ShutDown,
    /// The store failed. Nothing that was not durable before has been acknowledged.
    Storage {
        /// What was being done.
        doing: Cow<'static, str>,
        /// The operating system's words.
        error: String,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::ShutDown => f.write_str("shut down as asked; everything is on disk"),
            Halt::Storage { doing, error } => write!(
                f,
                "the disk failed while {doing}: {error}. The broker stops, because after a failed write or sync \
                 nobody can say what is on the disk; nothing was acknowledged that is not. Mend the disk and \
                 start again: what was acknowledged is recovered"
            ),
        }
    }
}
