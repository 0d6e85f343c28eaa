//! A disk for looking at a stopped store: reads at once, on the caller's thread, and refuses the rest.

use super::directory::{Access, Directory};
use super::{Disk, Outcome};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::task::{Context, Poll};
use vowmq_core::ids::OpId;
use vowmq_core::output::DiskRequest;

/// A store that is only read.
#[derive(Debug)]
pub struct LookOnly {
    directory: Directory,
    done: VecDeque<(OpId, Outcome)>,
}

impl LookOnly {
    /// The store in the directory at `path`, which must exist.
    pub fn new(path: impl Into<PathBuf>) -> LookOnly {
        LookOnly { directory: Directory::new(path, Access::ReadOnly), done: VecDeque::new() }
    }
}

impl Disk for LookOnly {
    fn begin(&mut self, op: OpId, request: DiskRequest) {
        let outcome = self.directory.execute(&request);
        self.done.push_back((op, outcome));
    }

    /// Ready whenever something was begun, so nobody ever has to be woken.
    fn poll_done(&mut self, _cx: &mut Context<'_>) -> Poll<(OpId, Outcome)> {
        self.done.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
