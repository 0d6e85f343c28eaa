//! The task of one connection: writes what the core has ordered, reads what the peer sent.
//!
//! ```text
//!          ┌─ read failed ── one turn ─► Closed{Broken} ──────────────────────────────► end
//!   Open ──┼─ peer's FIN ─── one turn ─► Closed{EndOfStream} ─► Flushing ─► Lingering ─► end
//!          └─ Close ordered ──────────────────────────────────► Flushing ─► Lingering ─► Closed{Ordered} ─► end
//! ```
//!
//! *Flushing* sends what was ordered before the close. *Lingering* has sent FIN and reads on until the peer's FIN:
//! closing a socket with unread bytes makes the system send a reset, and a reset destroys what the peer has not
//! read yet, such as the CONNACK that says why. Both together end after one second in which nothing moves, in
//! either direction, and after thirty in any case.

use super::Shared;
use super::slot::Slot;
use bytes::{BufMut, Bytes, BytesMut};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input};

/// Bytes that one connection reads before the others have their turn.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Reads up to this length are copied out of the scratch buffer, so that a small message that stays in a queue
/// holds its own bytes and not the whole buffer.
const COPIED_BYTES_MAX: usize = 8 * 1024;

/// Writes of one poll: more is left to the next round.
const WRITES_MAX: usize = 16;

/// The longest time from the order to close to the end.
const CLOSE_MAX: Duration = Duration::from_secs(30);

/// The longest time of a close in which nothing moves.
const CLOSE_STALL_MAX: Duration = Duration::from_secs(1);

/// A connection's task.
pub(super) struct Connection<S> {
    shared: Rc<Shared>,
    slot: Rc<Slot>,
    id: ConnectionId,
    stream: S,
    /// Writing has failed.
    unwritable: bool,
    /// Reading has come to an end that the core has not been told of.
    ended: Option<CloseCause>,
    /// None while the connection is open.
    closing: Option<Box<Closing>>,
}

struct Closing {
    stage: Stage,
    /// At the latest.
    until: Instant,
    stalled: Pin<Box<Sleep>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flushing,
    ShuttingDown,
    Lingering,
}

/// What a read or write brought.
enum Step {
    /// Something moved; there may be more.
    Moved,
    /// Nothing to do now; the task is woken when there is.
    Idle,
    /// The peer sent FIN.
    End,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(shared: Rc<Shared>, id: ConnectionId, stream: S, peer: SocketAddr) -> Connection<S> {
        let slot = Rc::new(Slot::new(peer));
        shared.slots.borrow_mut().insert(id, Rc::clone(&slot));
        shared.connection_opened();
        Connection { shared, slot, id, stream, unwritable: false, ended: None, closing: None }
    }

    fn poll_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.slot.register(cx.waker());
        if self.closing.is_none() {
            let cause = ready!(self.poll_open(cx));
            self.shared.slots.borrow_mut().remove(&self.id);
            match cause {
                CloseCause::Broken => {
                    self.tell_closed(cause);
                    return Poll::Ready(());
                }
                CloseCause::EndOfStream => self.tell_closed(cause),
                CloseCause::Ordered => {}
            }
            self.begin_closing();
        }
        ready!(self.poll_closing(cx));
        if self.slot.is_closing() {
            self.tell_closed(CloseCause::Ordered);
        }
        Poll::Ready(())
    }

    /// Writes, then reads. Ready when that has come to an end.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<CloseCause> {
        self.write(cx);
        if self.slot.is_closing() {
            return Poll::Ready(CloseCause::Ordered);
        }
        if let Some(cause) = self.ended {
            return Poll::Ready(cause);
        }
        if self.slot.is_paused() {
            return if self.unwritable { Poll::Ready(CloseCause::Broken) } else { Poll::Pending };
        }
        match self.read(cx) {
            Ok(Step::Moved) => {
                // Behind all others that are ready.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Step::Idle) => Poll::Pending,
            Ok(Step::End) => {
                tracing::debug!("connection {} from {}: end of stream", self.id, self.slot.peer);
                let broken = self.unwritable;
                self.end(if broken { CloseCause::Broken } else { CloseCause::EndOfStream }, cx)
            }
            Err(error) => {
                tracing::debug!("connection {} from {} broke: {error}", self.id, self.slot.peer);
                self.end(CloseCause::Broken, cx)
            }
        }
    }

    /// Puts the report of the end behind the turn that what was read has asked for: what the core orders there,
    /// a last answer or a close with its reason, still finds the connection.
    fn end(&mut self, cause: CloseCause, cx: &Context<'_>) -> Poll<CloseCause> {
        self.ended = Some(cause);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes and reports it. A peer that went away without reading its answers makes the write fail while what
    /// it sent before is still to be read: so the connection ends where the reading does.
    fn write(&mut self, cx: &mut Context<'_>) {
        if !self.unwritable {
            match self.write_ordered(cx) {
                Ok(0) => {}
                Ok(bytes) => self.shared.tell(Input::Sent { connection: self.id, bytes }),
                Err(error) => {
                    tracing::debug!("connection {} from {}: {error}", self.id, self.slot.peer);
                    self.unwritable = true;
                }
            }
        }
        if self.unwritable {
            self.slot.outgoing.borrow_mut().clear();
        }
    }

    /// Writes what is ordered, as far as the socket takes it; how much that was.
    fn write_ordered(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        let mut outgoing = self.slot.outgoing.borrow_mut();
        let mut total = 0;
        for _ in 0..WRITES_MAX {
            match outgoing.poll_write(&mut self.stream, cx)? {
                Poll::Ready(0) | Poll::Pending => return Ok(total),
                Poll::Ready(count) => total += count,
            }
        }
        cx.waker().wake_by_ref();
        Ok(total)
    }

    /// Hands over what has arrived, up to `READ_BYTES_MAX`.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<Step> {
        let mut budget = READ_BYTES_MAX;
        while budget > 0 {
            let bytes = {
                let mut scratch = self.shared.scratch.borrow_mut();
                match poll_read_some(&mut self.stream, &mut scratch, budget, cx)? {
                    Poll::Pending => return Ok(Step::Idle),
                    Poll::Ready(0) => return Ok(Step::End),
                    Poll::Ready(_) => take_out(&mut scratch),
                }
            };
            budget = budget.saturating_sub(bytes.len());
            self.shared.tell(Input::Received { connection: self.id, bytes });
        }
        Ok(Step::Moved)
    }

    fn begin_closing(&mut self) {
        let now = Instant::now();
        self.closing = Some(Box::new(Closing {
            stage: Stage::Flushing,
            until: now + CLOSE_MAX,
            stalled: Box::pin(sleep_until(now + CLOSE_STALL_MAX)),
        }));
    }

    fn tell_closed(&self, cause: CloseCause) {
        self.shared.tell(Input::Closed { connection: self.id, cause });
    }

    /// Ready when the socket may be dropped.
    fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut closing) = self.closing.take() else { return Poll::Ready(()) };
        loop {
            match self.close_step(closing.stage, cx) {
                Ok(Step::Moved) => {
                    let stall = (Instant::now() + CLOSE_STALL_MAX).min(closing.until);
                    closing.stalled.as_mut().reset(stall);
                    match closing.stage {
                        Stage::Flushing if self.slot.outgoing.borrow().is_empty() => {
                            closing.stage = Stage::ShuttingDown;
                        }
                        Stage::Flushing => {}
                        Stage::ShuttingDown => closing.stage = Stage::Lingering,
                        // There may be more; the others have their turn first.
                        Stage::Lingering => {
                            cx.waker().wake_by_ref();
                            break;
                        }
                    }
                }
                Ok(Step::Idle) => break,
                // What was ordered is sent, or nobody is there to take it.
                Ok(Step::End) | Err(_) => return Poll::Ready(()),
            }
        }
        if closing.stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.closing = Some(closing);
        Poll::Pending
    }

    fn close_step(&mut self, stage: Stage, cx: &mut Context<'_>) -> io::Result<Step> {
        match stage {
            Stage::Flushing => {
                let empty = self.slot.outgoing.borrow().is_empty();
                let written = self.write_ordered(cx)?;
                Ok(if empty || written > 0 { Step::Moved } else { Step::Idle })
            }
            Stage::ShuttingDown => Ok(match Pin::new(&mut self.stream).poll_shutdown(cx)? {
                Poll::Ready(()) => Step::Moved,
                Poll::Pending => Step::Idle,
            }),
            Stage::Lingering => self.discard(cx),
        }
    }

    /// Reads what still comes, for nobody.
    fn discard(&mut self, cx: &mut Context<'_>) -> io::Result<Step> {
        let mut scratch = self.shared.scratch.borrow_mut();
        match poll_read_some(&mut self.stream, &mut scratch, READ_BYTES_MAX, cx)? {
            Poll::Pending => Ok(Step::Idle),
            Poll::Ready(0) => Ok(Step::End),
            Poll::Ready(_) => {
                scratch.clear();
                Ok(Step::Moved)
            }
        }
    }
}

/// By hand: an `async fn` that takes the connection would keep room for it twice.
impl<S: AsyncRead + AsyncWrite + Unpin> Future for Connection<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_on(cx)
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.shared.connection_ended();
    }
}

/// Reads once into the shared buffer, `limit` bytes at most.
fn poll_read_some<S: AsyncRead + Unpin>(
    stream: &mut S,
    scratch: &mut BytesMut,
    limit: usize,
    cx: &mut Context<'_>,
) -> io::Result<Poll<usize>> {
    scratch.reserve(READ_BYTES_MAX);
    let mut bounded = scratch.limit(limit);
    match pin!(stream.read_buf(&mut bounded)).poll(cx) {
        Poll::Ready(result) => result.map(Poll::Ready),
        Poll::Pending => Ok(Poll::Pending),
    }
}

/// What was read, leaving the buffer empty.
fn take_out(scratch: &mut BytesMut) -> Bytes {
    if scratch.len() > COPIED_BYTES_MAX {
        return scratch.split().freeze();
    }
    let bytes = Bytes::copy_from_slice(scratch);
    scratch.clear();
    bytes
}
