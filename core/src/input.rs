//! What the core is told: facts, in the past tense. A whole run is its list of `(Now, Input)`.

use crate::access::Verdict;
use crate::ids::{ConnectionId, ListenerId, OpId, QueryId, SegmentNumber};
use crate::limits::Settings;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

/// A fact that the driver reports.
#[derive(Clone, Debug)]
pub enum Input {
    /// A connection was accepted.
    Opened {
        /// Its number, never used before.
        connection: ConnectionId,
        /// The listener that accepted it.
        listener: ListenerId,
        /// What is spoken there.
        protocol: Protocol,
        /// Who is at the other end.
        peer: Peer,
    },
    /// Bytes arrived. They need not be whole packets. The core keeps what it could not use yet. A driver
    /// that was told to pause may still deliver what it had already read.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// At least one byte.
        bytes: Bytes,
    },
    /// Bytes of earlier `Send`s were taken by the peer's socket.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// How many since the last report.
        bytes: usize,
    },
    /// The connection is gone. All that was received before has been reported before. Also reported after a
    /// `Close` order; the core ignores it then.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// How it ended.
        cause: CloseCause,
    },
    /// Whether a client is who it says, as `Output::Verify` asked. Ignored when the connection is gone.
    Verified {
        /// The connection.
        connection: ConnectionId,
        /// The answer.
        verdict: Verdict,
    },
    /// A disk operation ended.
    DiskDone {
        /// The operation, as ordered.
        op: OpId,
        /// Its outcome.
        result: Result<DiskReply, DiskError>,
    },
    /// The deadline that `next_deadline` named has come. Harmless when early.
    DeadlineReached,
    /// The operator changed the settings.
    Reload(Box<Settings>),
    /// The operator asks.
    Query {
        /// Answered with the same number.
        query: QueryId,
        /// What is asked.
        question: Question,
    },
    /// The operator wants the broker to end: answers are flushed, connections closed, then `Halt`.
    ShutdownRequested,
}

/// What a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// MQTT 3.1 and 3.1.1.
    Mqtt,
    /// AMQP 0-9-1.
    Amqp,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// The peer ended its direction in order (FIN).
    EndOfStream,
    /// The connection broke (reset, time-out, TLS failure).
    Broken,
    /// The driver closed it because the core said so.
    Ordered,
}

/// What a disk operation brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskReply {
    /// Done, with nothing to tell.
    Done,
    /// `List`: the segments present with their lengths in bytes, in any order.
    Listing(Vec<(SegmentNumber, u64)>),
    /// `Read`: the bytes; fewer than asked for only where the file ends.
    Bytes(Bytes),
    /// `FreeSpace`: bytes that can still be allocated.
    FreeSpace(u64),
}

/// Why a disk operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// What the core decides by.
    pub kind: DiskErrorKind,
    /// The operating system's words, with the file's name, for the log.
    pub message: String,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// No space left, or a quota.
    Full,
    /// The file to create is there already.
    AlreadyExists,
    /// The file is not there.
    NotFound,
    /// Anything else: an error of the device or the system.
    Failed,
}

/// What an operator may ask of a running broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The counters since start, and the sizes of what is held now.
    Statistics,
}
