//! Bytes ordered to be sent to one connection and not yet taken by its socket. The core bounds them
//! (`Limits::unsent_bytes`). Empty, it holds no memory.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Chunks given to the socket by one call.
const SLICES_MAX: usize = 64;

/// What is to be sent, in order. No chunk is empty.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    chunks: VecDeque<Bytes>,
}

impl Outgoing {
    pub(super) fn push(&mut self, mut chunks: Vec<Bytes>) {
        chunks.retain(|chunk| !chunk.is_empty());
        if self.chunks.is_empty() {
            self.chunks = VecDeque::from(chunks);
        } else {
            self.chunks.extend(chunks);
        }
    }

    /// Gives the socket as much as it takes in one call; how much that was. Ready with 0 only when there is
    /// nothing to send.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.chunks.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let count = if let [only] = self.chunks.make_contiguous() {
            ready!(Pin::new(stream).poll_write(cx, only))?
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut used = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
                used += 1;
            }
            ready!(Pin::new(stream).poll_write_vectored(cx, &slices[..used]))?
        };
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.taken(count);
        Poll::Ready(Ok(count))
    }

    fn taken(&mut self, mut count: usize) {
        while count > 0 {
            let front = self.chunks.front_mut().expect("a socket takes no more than it was given");
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.chunks.pop_front();
        }
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
    }

    pub(super) fn clear(&mut self) {
        self.chunks = VecDeque::new();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn bytes_leave_in_order_whatever_the_socket_takes() {
        // If it failed, a slow reader would see bytes lost, doubled or out of order.
        for taken_at_once in [1, 3, 7, 1000] {
            let (mut near, mut far) = tokio::io::duplex(taken_at_once);
            let mut outgoing = Outgoing::default();
            let first: Vec<Bytes> =
                (0..200_u8).map(|byte| Bytes::from(vec![byte; byte as usize % 5])).collect();
            let second = vec![Bytes::from_static(b"after"), Bytes::new(), Bytes::from_static(b"wards")];
            let expected = [first.concat(), second.concat()].concat();
            outgoing.push(first);
            outgoing.push(second);
            let total = expected.len();
            let reader = tokio::spawn(async move {
                let mut received = vec![0; total];
                far.read_exact(&mut received).await.expect("reads");
                received
            });
            let mut sent = 0;
            while !outgoing.is_empty() {
                sent += poll_fn(|cx| outgoing.poll_write(&mut near, cx)).await.expect("writes");
            }
            assert_eq!(sent, total);
            assert_eq!(reader.await.expect("ends"), expected);
            assert_eq!(outgoing.chunks.capacity(), 0, "an idle connection holds no buffer");
        }
    }
}
