//! Where the turn task leaves orders for a connection's task.

use super::outgoing::Outgoing;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::task::Waker;

/// One connection, as its task and the turn task see it.
pub(super) struct Slot {
    pub(super) peer: SocketAddr,
    pub(super) outgoing: RefCell<Outgoing>,
    paused: Cell<bool>,
    closing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    pub(super) fn new(peer: SocketAddr) -> Slot {
        Slot {
            peer,
            outgoing: RefCell::new(Outgoing::default()),
            paused: Cell::new(false),
            closing: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Orders bytes to be sent after those ordered before.
    pub(super) fn send(&self, chunks: Vec<Bytes>) {
        self.outgoing.borrow_mut().push(chunks);
        self.wake();
    }

    /// Orders reading to stop or to go on.
    pub(super) fn pause(&self, paused: bool) {
        self.paused.set(paused);
        if !paused {
            self.wake();
        }
    }

    /// Orders the connection to close once the bytes ordered before are sent.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Whom to wake when there is an order.
    pub(super) fn register(&self, waker: &Waker) {
        let mut registered = self.waker.borrow_mut();
        match &mut *registered {
            Some(same) if same.will_wake(waker) => {}
            Some(other) => other.clone_from(waker),
            None => *registered = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}
