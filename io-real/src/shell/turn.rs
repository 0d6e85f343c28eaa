//! The turn: brings the core what has come from disk, clock and operator, and passes its orders on.
//!
//! The order matters. The core gathers records while inputs come and writes them as one batch when its flush
//! deadline, which is due at once, is handled. So a turn first hands over every input that is ready, then the
//! deadlines that are due, and drains the orders of each before the next.

use super::Shared;
use crate::access::{Logins, Users};
use crate::disk::Disk;
use crate::report::{self, Report};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};
use vowmq_core::ids::{ConnectionId, QueryId};
use vowmq_core::input::{Input, Question};
use vowmq_core::limits::Settings;
use vowmq_core::output::{Answer, CloseReason, Halt, Output};
use vowmq_core::statistics::Statistics;

/// Deadlines handled in one turn; what is still due then waits behind the connections that are ready.
const DEADLINES_MAX: usize = 16;

/// A timer that is handled so late was held up: the process was paused, or the machine slept.
const HELD_UP_MIN: Duration = Duration::from_millis(500);

/// How long what clients sent meanwhile is read then, before anybody is called silent.
const CATCHING_UP: Duration = Duration::from_millis(50);

/// How often the counters are looked at.
const STATISTICS_EVERY: Duration = Duration::from_secs(60);

/// What the operator wants of a running broker.
#[derive(Debug)]
pub enum Command {
    /// Other settings and users from now on.
    Reload(Box<Settings>, Users),
    /// An end in order.
    ShutDown,
}

/// The turn task.
pub(super) struct Turn<D> {
    shared: Rc<Shared>,
    disk: D,
    logins: Logins,
    commands: UnboundedReceiver<Command>,
    listeners: Vec<JoinHandle<()>>,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to, as long as a deadline of the core waits for it.
    armed_for: Option<Instant>,
    /// Until then no deadline is handled.
    catching_up: Option<Instant>,
    statistics_timer: Pin<Box<Sleep>>,
    last_query: QueryId,
    reported: Statistics,
    report: Report,
}

impl<D: Disk> Turn<D> {
    pub(super) fn new(
        shared: Rc<Shared>,
        disk: D,
        logins: Logins,
        commands: UnboundedReceiver<Command>,
        listeners: Vec<JoinHandle<()>>,
    ) -> Turn<D> {
        let now = Instant::now();
        Turn {
            shared,
            disk,
            logins,
            commands,
            listeners,
            timer: Box::pin(sleep_until(now)),
            armed_for: None,
            catching_up: None,
            statistics_timer: Box::pin(sleep_until(now + STATISTICS_EVERY)),
            last_query: QueryId(0),
            reported: Statistics::default(),
            report: Report::default(),
        }
    }

    /// Turns until the core halts.
    pub(super) async fn run(mut self) -> Halt {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Halt> {
        self.register(cx);
        self.shared.turn_due.set(false);
        self.bring_disk(cx);
        self.bring_logins(cx);
        self.bring_commands(cx);
        self.bring_questions(cx);
        let is_late = self.catches_up();
        for _ in 0..DEADLINES_MAX {
            let was_due = !is_late && self.bring_deadline();
            // What the core writes is on its way to the disk while it goes on.
            if let Some(halt) = self.drain() {
                self.stop_listening();
                return Poll::Ready(halt);
            }
            if !was_due {
                break;
            }
        }
        self.arm(cx);
        Poll::Pending
    }

    fn register(&self, cx: &Context<'_>) {
        let mut waker = self.shared.turn_waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn bring_disk(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready((op, result)) = self.disk.poll_done(cx) {
            self.handle(Input::DiskDone { op, result });
        }
    }

    fn bring_logins(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready((connection, verdict)) = self.logins.poll_done(cx) {
            self.handle(Input::Verified { connection, verdict });
        }
    }

    fn bring_commands(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(command)) = self.commands.poll_recv(cx) {
            match command {
                Command::Reload(settings, users) => {
                    self.logins.set_users(users);
                    self.handle(Input::Reload(settings));
                }
                Command::ShutDown => {
                    self.stop_listening();
                    self.handle(Input::ShutdownRequested);
                }
            }
        }
    }

    fn bring_questions(&mut self, cx: &mut Context<'_>) {
        while self.statistics_timer.as_mut().poll(cx).is_ready() {
            self.last_query.0 += 1;
            self.handle(Input::Query { query: self.last_query, question: Question::Statistics });
            self.statistics_timer.as_mut().reset(Instant::now() + STATISTICS_EVERY);
        }
    }

    /// Whether deadlines have to wait, since the process was held up and its clients may have been heard by nobody.
    fn catches_up(&mut self) -> bool {
        let now = Instant::now();
        if self.armed_for.take().is_some_and(|at| now > at + HELD_UP_MIN) && self.catching_up.is_none() {
            self.catching_up = Some(now + CATCHING_UP);
        }
        self.catching_up = self.catching_up.filter(|until| now < *until);
        self.catching_up.is_some()
    }

    /// False: none is due.
    fn bring_deadline(&self) -> bool {
        let mut core = self.shared.core.borrow_mut();
        let now = self.shared.clock.now();
        let due = core.next_deadline().is_some_and(|deadline| deadline.at <= now.monotonic);
        if due {
            core.handle(now, Input::DeadlineReached);
        }
        due
    }

    /// Passes every order on. The fault, if the core has halted.
    fn drain(&mut self) -> Option<Halt> {
        let shared = Rc::clone(&self.shared);
        let mut core = shared.core.borrow_mut();
        while let Some(output) = core.poll_output() {
            match output {
                Output::Send { connection, chunks } => self.with_slot(connection, |slot| slot.send(chunks)),
                Output::Close { connection, reason } => self.close(connection, &reason),
                Output::PauseReading { connection } => self.with_slot(connection, |slot| slot.pause(true)),
                Output::ResumeReading { connection } => self.with_slot(connection, |slot| slot.pause(false)),
                Output::Verify { connection, credentials } => self.logins.begin(connection, credentials),
                Output::Disk { op, request } => self.disk.begin(op, request),
                Output::Report(event) => self.report.event(shared.clock.now(), &event),
                Output::Answer { query: _, answer: Answer::Statistics(now) } => {
                    report::statistics_if_notable(&self.reported, &now);
                    self.reported = *now;
                }
                Output::Halt { fault } => {
                    report::statistics(&core.statistics());
                    return Some(fault);
                }
            }
        }
        None
    }

    /// A connection that is gone already takes no orders.
    fn with_slot(&self, connection: ConnectionId, order: impl FnOnce(&super::Slot)) {
        if let Some(slot) = self.shared.slots.borrow().get(&connection) {
            order(slot);
        }
    }

    fn close(&mut self, connection: ConnectionId, reason: &CloseReason) {
        self.logins.forget(connection);
        let Some(slot) = self.shared.slots.borrow().get(&connection).map(Rc::clone) else { return };
        self.report.close(self.shared.clock.now(), connection, slot.peer, reason);
        slot.close();
    }

    fn stop_listening(&mut self) {
        for listener in self.listeners.drain(..) {
            listener.abort();
        }
    }

    /// Makes sure that the task runs when the core's next deadline comes. A timer that is set too early is left:
    /// deadlines mostly move away (each packet moves a keep-alive), and waking in vain once is cheaper than
    /// setting the timer every turn.
    fn arm(&mut self, cx: &mut Context<'_>) {
        let Some(deadline) = self.shared.core.borrow().next_deadline() else { return };
        if let Some(until) = self.catching_up {
            self.timer.as_mut().reset(until);
        } else if deadline.at <= self.shared.clock.now().monotonic {
            self.shared.ask_turn();
            return;
        } else {
            let at = self.shared.clock.instant(deadline.at);
            if self.timer.is_elapsed() || at < self.timer.deadline() {
                self.timer.as_mut().reset(at);
            }
        }
        self.armed_for = Some(self.timer.deadline());
        if self.timer.as_mut().poll(cx).is_ready() {
            self.shared.ask_turn();
        }
    }

    /// As `Shared::tell`, in the turn that follows.
    fn handle(&self, input: Input) {
        self.shared.core.borrow_mut().handle(self.shared.clock.now(), input);
    }
}
