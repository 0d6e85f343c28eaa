//! The simulated disk as `io-real` orders from it: operations take their time by tokio's clock.
//!
//! The disk itself outlives the process; dropping this ends the process's use of it, whatever was under way.

use super::stage::Stage;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use vowmq::disk::{Disk, Outcome};
use vowmq_core::ids::OpId;
use vowmq_core::output::DiskRequest;

/// One process's access to the disk.
pub(super) struct Storage {
    stage: Rc<Stage>,
    /// What is under way, by its end.
    pending: BTreeSet<(Instant, OpId)>,
    timer: Pin<Box<Sleep>>,
    /// Who waits for outcomes.
    waker: Option<Waker>,
}

impl Storage {
    pub(super) fn new(stage: Rc<Stage>) -> Storage {
        let timer = Box::pin(sleep_until(Instant::now()));
        Storage { stage, pending: BTreeSet::new(), timer, waker: None }
    }

    /// Sees to it that the waiting task is woken at the end of the next operation.
    fn arm(&mut self) {
        let (Some((due, _)), Some(waker)) = (self.pending.first(), &self.waker) else { return };
        self.timer.as_mut().reset(*due);
        if self.timer.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
        }
    }
}

impl Disk for Storage {
    fn begin(&mut self, op: OpId, request: DiskRequest) {
        let takes = Duration::from_micros(self.stage.order_disk(op, request));
        self.pending.insert((Instant::now() + takes, op));
        self.arm();
    }

    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(OpId, Outcome)> {
        self.waker = Some(cx.waker().clone());
        if !self.stage.is_powered() {
            return Poll::Pending;
        }
        let due = self.pending.first().filter(|(due, _)| *due <= Instant::now()).copied();
        if let Some(first) = due {
            self.pending.remove(&first);
            return Poll::Ready((first.1, self.stage.disk_done(first.1)));
        }
        self.arm();
        Poll::Pending
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.stage.process_leaves_disk();
    }
}
