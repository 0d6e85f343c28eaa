//! The serving broker's disk: one thread writes and syncs batches, one reads, one makes and removes segments.
//!
//! ```text
//!   turn task ── begin ──► writer    Write, Sync                        ─┐
//!       ▲      ├─────────► reader    Read                               ─┤
//!       │      └─────────► preparer  Create, Reserve, Rename, Remove …  ─┤
//!       └───────────────── poll_done ◄───────────────────────────────────┘
//! ```
//!
//! Neither an acknowledgement nor a subscriber that catches up waits for a segment that is filled with zeros or given
//! back, and no acknowledgement waits for a read. A thread of its own for reads costs nothing while nobody reads;
//! to interrupt the filling for them would cost a queue of our own. Reads go through the system's cache, which reads
//! ahead of a queue that is drained; the core orders them in pieces of half a MiB, or one message.

use super::directory::Directory;
use super::{Disk, Outcome};
use std::io;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vowmq_core::ids::OpId;
use vowmq_core::input::{DiskError, DiskErrorKind};
use vowmq_core::output::DiskRequest;

type Order = (OpId, DiskRequest);

/// The three threads. Dropping it waits until they have done what was begun. What is under way is bounded by the
/// core, which orders one batch at a time and few others.
#[derive(Debug)]
pub struct DiskThreads {
    writer: Worker,
    reader: Worker,
    preparer: Worker,
    tell: UnboundedSender<(OpId, Outcome)>,
    done: UnboundedReceiver<(OpId, Outcome)>,
}

#[derive(Debug)]
struct Worker {
    /// None only while the thread is being ended.
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl DiskThreads {
    /// Starts the threads on the directory.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(directory: Directory) -> io::Result<DiskThreads> {
        let directory = Arc::new(directory);
        let (tell, done) = unbounded_channel();
        let writer = Worker::start("disk-writer", Arc::clone(&directory), tell.clone())?;
        let reader = Worker::start("disk-reader", Arc::clone(&directory), tell.clone())?;
        let preparer = Worker::start("disk-preparer", directory, tell.clone())?;
        Ok(DiskThreads { writer, reader, preparer, tell, done })
    }
}

impl Disk for DiskThreads {
    fn begin(&mut self, op: OpId, request: DiskRequest) {
        let worker = match &request {
            DiskRequest::Write { .. } | DiskRequest::Sync { .. } => &self.writer,
            DiskRequest::Read { .. } => &self.reader,
            DiskRequest::List
            | DiskRequest::Create { .. }
            | DiskRequest::Reserve { .. }
            | DiskRequest::SyncDirectory
            | DiskRequest::Remove { .. }
            | DiskRequest::Rename { .. }
            | DiskRequest::FreeSpace => &self.preparer,
        };
        let sent = worker.orders.as_ref().is_some_and(|orders| orders.send((op, request)).is_ok());
        if !sent {
            let message = "the disk thread has ended".to_owned();
            let _ = self.tell.send((op, Err(DiskError { kind: DiskErrorKind::Failed, message })));
        }
    }

    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(OpId, Outcome)> {
        self.done.poll_recv(cx).map(|done| done.expect("a sender is held beside the receiver"))
    }
}

impl Worker {
    fn start(
        name: &str,
        directory: Arc<Directory>,
        tell: UnboundedSender<(OpId, Outcome)>,
    ) -> io::Result<Worker> {
        let (orders, incoming) = mpsc::channel::<Order>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for (op, request) in incoming {
                let outcome = directory.execute(&request);
                if tell.send((op, outcome)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Worker { orders: Some(orders), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by its own hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory::Access;
    use super::*;
    use bytes::Bytes;
    use std::future::poll_fn;
    use vowmq_core::ids::SegmentNumber;
    use vowmq_core::input::DiskReply;

    async fn run(disk: &mut DiskThreads, op: u64, request: DiskRequest) -> Outcome {
        disk.begin(OpId(op), request);
        let (done, outcome) = poll_fn(|cx| disk.poll_done(cx)).await;
        assert_eq!(done, OpId(op));
        outcome
    }

    #[tokio::test]
    async fn orders_for_all_threads_are_answered() {
        // If it failed, the core would wait for ever for a segment or a sync.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let mut disk = DiskThreads::start(Directory::new(place.path(), Access::ReadWrite)).expect("starts");
        let segment = SegmentNumber(1);
        run(&mut disk, 1, DiskRequest::Create { segment }).await.expect("creates");
        run(&mut disk, 2, DiskRequest::Reserve { segment, length: 8192 }).await.expect("reserves");
        let chunks = vec![Bytes::from(vec![7; 4096])];
        run(&mut disk, 3, DiskRequest::Write { segment, offset: 4096, chunks, sync: true })
            .await
            .expect("writes");
        let read = run(&mut disk, 4, DiskRequest::Read { segment, offset: 4096, length: 2 }).await;
        assert_eq!(read, Ok(DiskReply::Bytes(Bytes::from_static(&[7, 7]))));
        run(&mut disk, 5, DiskRequest::Sync { segment: SegmentNumber(9) })
            .await
            .expect_err("no such segment");
    }

    #[tokio::test]
    async fn a_read_does_not_wait_for_a_segment_that_is_made() {
        // If it failed, a subscriber that catches up would stand still each time the log needs another segment.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let mut disk = DiskThreads::start(Directory::new(place.path(), Access::ReadWrite)).expect("starts");
        let [small, large] = [1, 2].map(SegmentNumber);
        for (op, segment) in [(1, small), (2, large)] {
            run(&mut disk, op, DiskRequest::Create { segment }).await.expect("creates");
        }
        run(&mut disk, 3, DiskRequest::Reserve { segment: small, length: 8192 }).await.expect("reserves");
        disk.begin(OpId(4), DiskRequest::Reserve { segment: large, length: 64 * 1024 * 1024 });
        run(&mut disk, 5, DiskRequest::Read { segment: small, offset: 0, length: 1 }).await.expect("reads");
        let (op, outcome) = poll_fn(|cx| disk.poll_done(cx)).await;
        assert_eq!(op, OpId(4));
        outcome.expect("reserves");
    }
}
