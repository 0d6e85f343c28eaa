//! The real driver of the core: one thread on which the core and all sockets live.
//!
//! ```text
//!   listener task ──Opened──►┌──────┐◄──DiskDone── disk
//!   a task a connection      │ core │──Disk──────►
//!                            │      │◄──Verified── logins
//!                            │      │──Verify─────►
//!      ──Received, Sent─────►│      │◄──DeadlineReached── timer
//!      ──Closed─────────────►└──────┘
//!        ▲                      │ poll_output, once a turn
//!        └──── slot ◄───────────┘ Send, Close, PauseReading, ResumeReading
//! ```
//!
//! Connection tasks hand what they read straight to the core and ask for a turn. The turn task was woken after
//! them, so it runs when all sockets that were ready have been read: it lets the core write one batch for all of
//! them, and passes the core's orders on. So the cost of a turn, of a wake and of a system call is shared by all
//! messages of a round.
//!
//! Everything is on one thread: `Rc`, `Cell` and `RefCell`. Nobody holds a borrow while another task runs.

mod connection;
mod listener;
mod outgoing;
mod slot;
mod turn;

pub use listener::{Listen, TcpAcceptor};
pub use turn::Command;

use crate::access::Logins;
use crate::clock::Clock;
use crate::disk::Disk;
use bytes::BytesMut;
use slot::Slot;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{self, JoinHandle};
use tokio::time::timeout;
use turn::Turn;
use vowmq_core::Broker;
use vowmq_core::ids::{ConnectionId, ListenerId};
use vowmq_core::input::{Input, Protocol};
use vowmq_core::output::Halt;

/// How long an ordered end waits for the last bytes to connections and for their peers' goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// The core with its sockets. All of it must run inside one `tokio::task::LocalSet`.
pub struct Shell {
    shared: Rc<Shared>,
    listeners: Vec<JoinHandle<()>>,
}

/// What the tasks of one shell share.
struct Shared {
    core: RefCell<Broker>,
    clock: Clock,
    /// Connections that the core knows. Never iterated.
    slots: RefCell<HashMap<ConnectionId, Rc<Slot>>>,
    /// Where all connections read into: an idle one has no buffer.
    scratch: RefCell<BytesMut>,
    /// A turn was asked for and has not run yet.
    turn_due: Cell<bool>,
    turn_waker: RefCell<Option<Waker>>,
    last_connection: Cell<u64>,
    /// Connection tasks that have not ended, each with its socket.
    open: Cell<usize>,
    /// Sockets of connections at the most: the store must never lack a descriptor for them.
    sockets_max: Cell<usize>,
    all_closed: Notify,
}

impl Shell {
    /// A shell around a recovered broker.
    pub fn new(broker: Broker, clock: Clock) -> Shell {
        let shared = Shared {
            core: RefCell::new(broker),
            clock,
            slots: RefCell::new(HashMap::new()),
            scratch: RefCell::new(BytesMut::new()),
            turn_due: Cell::new(false),
            turn_waker: RefCell::new(None),
            last_connection: Cell::new(0),
            open: Cell::new(0),
            sockets_max: Cell::new(usize::MAX),
            all_closed: Notify::new(),
        };
        Shell { shared: Rc::new(shared), listeners: Vec::new() }
    }

    /// Holds so many sockets of connections at the most; who comes then waits to be accepted until one has gone.
    pub fn set_sockets_max(&mut self, sockets: usize) {
        self.shared.sockets_max.set(sockets);
    }

    /// Starts to accept connections whose clients speak this protocol. The listeners are numbered in the order of these
    /// calls.
    pub fn listen<L: Listen>(&mut self, listener: L, protocol: Protocol) {
        let id = ListenerId(self.listeners.len() as u16);
        let accepting = listener::accept(Rc::clone(&self.shared), listener, id, protocol);
        self.listeners.push(task::spawn_local(accepting));
    }

    /// Serves until the core halts. After an ordered end, connections are given a moment to take their last
    /// bytes; after a fault of the store nothing more is sent.
    pub async fn run<D: Disk + 'static>(
        self,
        disk: D,
        logins: Logins,
        commands: UnboundedReceiver<Command>,
    ) -> Halt {
        let Shell { shared, listeners } = self;
        let turn = Turn::new(Rc::clone(&shared), disk, logins, commands, listeners);
        let ended = task::spawn_local(turn.run()).await;
        let halt = match ended {
            Ok(halt) => halt,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        match &halt {
            Halt::ShutDown => {
                let _ = timeout(GOODBYE, shared.wait_all_closed()).await;
            }
            Halt::Storage { .. } => {}
        }
        halt
    }
}

impl Shared {
    /// Tells the core, and asks for a turn.
    fn tell(&self, input: Input) {
        self.core.borrow_mut().handle(self.clock.now(), input);
        self.ask_turn();
    }

    /// Asks for a turn after all tasks that are ready now. Asking again before it runs costs nothing.
    fn ask_turn(&self) {
        if !self.turn_due.replace(true)
            && let Some(waker) = &*self.turn_waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    fn next_connection(&self) -> ConnectionId {
        self.last_connection.set(self.last_connection.get() + 1);
        ConnectionId(self.last_connection.get())
    }

    fn connection_opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    fn connection_ended(&self) {
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            self.all_closed.notify_waiters();
        }
    }

    async fn wait_all_closed(&self) {
        while self.open.get() > 0 {
            self.all_closed.notified().await;
        }
    }
}
