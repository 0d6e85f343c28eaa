//! The broker's end of simulated connections: what `io-real` listens on and reads and writes.
//!
//! Writes are cut at seeded places, calls now and then have to be made again, accepting fails now and then; and
//! every byte that leaves is shown to the ledger first.

use super::stage::Stage;
use crate::chance::Draws;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};
use vowmq::shell::Listen;

type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// The operating system's number for "too many open files".
const TOO_MANY_FILES: i32 = 24;

/// A simulated listener.
pub(super) struct Acceptor {
    listener: Rc<TcpListener>,
    accepting: Option<Pin<Box<dyn Future<Output = Accepted>>>>,
    /// The call before has failed on purpose.
    failed: bool,
    draws: Draws,
    stage: Rc<Stage>,
}

impl Acceptor {
    pub(super) fn new(stage: Rc<Stage>, listener: TcpListener) -> Acceptor {
        let draws = stage.draws("acceptor", stage.epoch());
        Acceptor { listener: Rc::new(listener), accepting: None, failed: false, draws, stage }
    }

    /// Whether accepting fails now, and how.
    fn failure(&mut self) -> Option<io::Error> {
        let fails = !self.failed && self.draws.percent(self.stage.scenario.network.accept_error_percent);
        self.failed = fails;
        if !fails {
            return None;
        }
        self.stage.ledger.borrow_mut().count("accepting failed");
        let of_one = self.draws.percent(50);
        Some(match of_one {
            true => io::ErrorKind::ConnectionAborted.into(),
            false => io::Error::from_raw_os_error(TOO_MANY_FILES),
        })
    }
}

impl Listen for Acceptor {
    type Stream = Wire;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Wire, SocketAddr)>> {
        if self.accepting.is_none() {
            if let Some(error) = self.failure() {
                return Poll::Ready(Err(error));
            }
            let listener = Rc::clone(&self.listener);
            self.accepting = Some(Box::pin(async move { listener.accept().await }));
        }
        let Some(accepting) = &mut self.accepting else { return Poll::Pending };
        let accepted = ready!(accepting.as_mut().poll(cx));
        self.accepting = None;
        let (stream, peer) = accepted?;
        Poll::Ready(Ok((Wire::new(Rc::clone(&self.stage), stream, peer), peer)))
    }
}

/// The broker's end of a connection.
pub(super) struct Wire {
    stream: TcpStream,
    peer: SocketAddr,
    draws: Draws,
    stage: Rc<Stage>,
}

impl Wire {
    fn new(stage: Rc<Stage>, stream: TcpStream, peer: SocketAddr) -> Wire {
        let number = stage.ledger.borrow_mut().wire_opened(peer);
        let draws = stage.draws("wire", number);
        Wire { stream, peer, draws, stage }
    }

    /// A machine without power does nothing; others now and then not at once.
    fn would_block(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.stage.is_powered() {
            return true;
        }
        let blocks = self.draws.percent(self.stage.scenario.network.would_block_percent);
        if blocks {
            cx.waker().wake_by_ref();
        }
        blocks
    }

    /// How many bytes one call takes at the most.
    fn cut(&mut self) -> usize {
        let most = self.stage.scenario.network.segment_bytes as u64;
        if self.draws.percent(60) { most as usize } else { self.draws.between(1, most) as usize }
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.stage.leaves(self.peer, &bytes[..count]);
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.would_block(cx) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.stage.ledger.borrow_mut().broker_read(self.peer, read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.would_block(cx) {
            return Poll::Pending;
        }
        let count = self.cut().min(bytes.len());
        self.write(cx, &bytes[..count])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.would_block(cx) {
            return Poll::Pending;
        }
        let mut room = self.cut();
        let mut bytes = Vec::with_capacity(room);
        for slice in slices {
            let taken = room.min(slice.len());
            bytes.extend_from_slice(&slice[..taken]);
            room -= taken;
        }
        self.write(cx, &bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.would_block(cx) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stage.ledger.borrow_mut().wire_closed(self.peer);
    }
}
