//! What is to be sent to one connection. Small pieces are copied together, large ones are shared.

use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};

/// Pieces from this size on are not copied.
const SHARED_FROM: usize = 2048;

/// Memory that a new piece begins with: at most so much, and no more than the last one took.
const FIRST_CAPACITY: usize = 64 * 1024;

/// Bytes for one connection, in their order.
#[derive(Default)]
pub struct SendQueue {
    chunks: Vec<Bytes>,
    tail: BytesMut,
    pending: usize,
    /// Handed to the driver and not reported as sent.
    ordered: usize,
    last_length: usize,
}

impl SendQueue {
    /// Bytes that the peer has not taken yet.
    pub fn unsent(&self) -> usize {
        self.pending + self.ordered
    }

    /// Whether there is something to hand to the driver.
    pub fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// Adds `bytes`, copied.
    pub fn put(&mut self, bytes: &[u8]) {
        self.write(bytes.len(), |tail| tail.put_slice(bytes));
    }

    /// Adds what `write` writes, `expected` bytes or so.
    pub fn write(&mut self, expected: usize, write: impl FnOnce(&mut BytesMut)) {
        if self.tail.capacity() == 0 {
            self.tail.reserve(expected.max(self.last_length.min(FIRST_CAPACITY)));
        }
        let before = self.tail.len();
        write(&mut self.tail);
        self.pending += self.tail.len() - before;
    }

    /// Whether so many bytes are copied rather than shared.
    pub fn copies(bytes: usize) -> bool {
        bytes < SHARED_FROM
    }

    /// Adds a body: copied if it is small, shared otherwise.
    pub fn body(&mut self, body: &[u8], shared: impl FnOnce() -> Bytes) {
        if SendQueue::copies(body.len()) {
            return self.put(body);
        }
        if !self.tail.is_empty() {
            self.chunks.push(self.tail.split().freeze());
        }
        self.pending += body.len();
        self.chunks.push(shared());
    }

    /// Hands all over to the driver.
    pub fn take(&mut self) -> Vec<Bytes> {
        if !self.tail.is_empty() {
            self.last_length = self.tail.len();
            self.chunks.push(core::mem::take(&mut self.tail).freeze());
        }
        self.ordered += self.pending;
        self.pending = 0;
        core::mem::take(&mut self.chunks)
    }

    /// The peer took so many bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.ordered = self.ordered.saturating_sub(bytes);
    }
}
