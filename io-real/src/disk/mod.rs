//! The store's disk: one directory of segment files, and whoever carries out the core's orders on it.
//!
//! ```text
//! DIR/lock                       held by the one process that uses the directory; holds its pid
//! DIR/00000000000000000001.log   segment 1
//! DIR/00000000000000000002.log   segment 2
//! ```
//!
//! Everything above a system call (what a segment holds, when to make one, how to recover) is the core's.

pub mod backup;
pub mod directory;
pub mod lock;
pub mod look;
mod segment_file;
pub mod threads;
pub mod unfinished;

use std::task::{Context, Poll};
use vowmq_core::ids::OpId;
use vowmq_core::input::{DiskError, DiskReply};
use vowmq_core::output::DiskRequest;

/// How a disk operation ended.
pub type Outcome = Result<DiskReply, DiskError>;

/// Carries out what the core orders of its store.
pub trait Disk {
    /// Begins an operation. Its outcome comes out of `poll_done`, once.
    fn begin(&mut self, op: OpId, request: DiskRequest);

    /// The next outcome, in any order; otherwise wakes the task when there is one.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(OpId, Outcome)>;
}
