//! A client with a queue that does not last: exclusive, which goes with its connection, or auto-delete, which goes with its
//! last consumer. It looks itself whether the queue is there when it must be, and gone when it must be.
//!
//! ```text
//! look: gone? ──► declare ──► consume ──► publish, receive ──► look: there? ──► leave, or cancel and look: gone? ──┐
//!       ▲                                                                                                        │
//!       └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use super::scenario::LodgerPlan;
use super::wire::{self, CHANNEL, method};
use crate::chance::Draws;
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, channel, confirm, queue};
use amq_protocol::types::FieldTable;

/// The queue of those who share one.
const SHARED: &str = "shared";

/// Bytes of a body frame.
const PIECE: usize = 100;

/// The client.
pub(super) struct Lodger {
    plan: LodgerPlan,
    queue: String,
    step: Step,
    visits: u32,
    /// The queue may be there although nobody consumes from it: declared and not used yet, or since before a restart.
    may_be_there: bool,
    /// The broker was restarted since it connected.
    restarted: bool,
    /// Nothing was in it when it was declared.
    fresh: bool,
    /// Confirmed, and received, in this visit.
    confirmed: u32,
    received: u32,
    /// A message on its way in.
    coming: Option<u64>,
    wake_us: Option<u64>,
    out: Vec<AMQPFrame>,
    leaves: bool,
    /// It begins no other visit.
    ends: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// It is not connected, or its channel is not open.
    Outside,
    /// Whether the queue is gone.
    LooksFirst,
    Declares,
    Consumes,
    Publishes,
    /// It looks around for a while.
    Stays,
    /// Whether the queue is there.
    Looks,
    Cancels,
    /// Whether the queue has gone with its consumer, or is still there.
    LooksLast,
    /// Its channel opens again.
    Reopens {
        /// To declare the queue; else the visit is over.
        declares: bool,
    },
    Rests,
}

impl Lodger {
    pub(super) fn new(plan: LodgerPlan, number: usize) -> Lodger {
        Lodger {
            queue: if plan.shares { SHARED.to_owned() } else { format!("lodging-{number}") },
            plan,
            step: Step::Outside,
            visits: 0,
            may_be_there: false,
            restarted: false,
            fresh: false,
            confirmed: 0,
            received: 0,
            coming: None,
            wake_us: None,
            out: Vec::new(),
            leaves: false,
            ends: false,
        }
    }

    /// It has a new connection.
    pub(super) fn connected(&mut self) {
        self.step = Step::Outside;
        // A queue that survives waits for its next consumer.
        self.may_be_there |= std::mem::take(&mut self.restarted) && self.plan.durable && !self.plan.exclusive;
        (self.coming, self.wake_us, self.leaves) = (None, None, false);
        self.out.clear();
    }

    /// The broker's process has ended.
    pub(super) fn broker_ended(&mut self) {
        self.restarted = true;
    }

    /// The visit at hand is the last.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Whether it does nothing any more.
    pub(super) fn is_done(&self) -> bool {
        (self.ends || self.visits >= self.plan.visits) && matches!(self.step, Step::Outside | Step::Rests)
    }

    /// What it wants to send, when it wants to be woken, and whether it breaks its connection off.
    pub(super) fn wishes(&mut self) -> (Vec<AMQPFrame>, Option<u64>, bool) {
        (std::mem::take(&mut self.out), self.wake_us, std::mem::take(&mut self.leaves))
    }

    /// A frame on its channel; an error: it should not have come.
    pub(super) fn receive(&mut self, frame: AMQPFrame, draws: &mut Draws, now_us: u64) -> Result<(), String> {
        use channel::AMQPMethod as C;
        match frame {
            AMQPFrame::Method(_, AMQPClass::Channel(C::OpenOk(_))) => self.opened(now_us),
            AMQPFrame::Method(_, AMQPClass::Channel(C::Close(close))) => return self.closed(&close),
            AMQPFrame::Method(_, AMQPClass::Queue(queue::AMQPMethod::DeclareOk(ok))) => {
                return self.there(&ok, now_us, draws);
            }
            AMQPFrame::Method(_, AMQPClass::Basic(method)) => return self.of_basic(method, now_us),
            AMQPFrame::Body(_, body) => return self.delivered(&body, now_us),
            AMQPFrame::Header(..)
            | AMQPFrame::Method(_, AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(_))) => {}
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    fn opened(&mut self, now_us: u64) {
        match self.step {
            Step::Reopens { declares: true } => self.declare(),
            Step::Reopens { declares: false } => self.rest(now_us),
            _ => self.visit(now_us),
        }
    }

    /// Begins a visit.
    fn visit(&mut self, now_us: u64) {
        if self.ends || self.visits >= self.plan.visits {
            return self.rest(now_us);
        }
        (self.confirmed, self.received) = (0, 0);
        match self.plan.shares {
            true => self.declare(),
            false => self.look(Step::LooksFirst),
        }
    }

    fn rest(&mut self, now_us: u64) {
        self.step = Step::Rests;
        self.wake_us = Some(now_us + self.plan.think_us + 1);
    }

    /// It is woken.
    pub(super) fn go_on(&mut self, now_us: u64) {
        if self.wake_us.is_none_or(|at| at > now_us) {
            return;
        }
        self.wake_us = None;
        match self.step {
            Step::Stays => self.look(Step::Looks),
            Step::Rests if !self.is_done() => self.visit(now_us),
            _ => {}
        }
    }

    fn look(&mut self, step: Step) {
        self.step = step;
        self.out.push(self.declaration(true));
    }

    fn declare(&mut self) {
        self.step = Step::Declares;
        self.fresh = !self.plan.shares && !self.may_be_there;
        self.may_be_there = !self.plan.exclusive;
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
        self.out.push(method(AMQPClass::Confirm(select)));
        self.out.push(self.declaration(false));
    }

    fn declaration(&self, passive: bool) -> AMQPFrame {
        method(AMQPClass::Queue(queue::AMQPMethod::Declare(queue::Declare {
            queue: self.queue.as_str().into(),
            passive,
            durable: self.plan.durable,
            exclusive: self.plan.exclusive,
            auto_delete: !self.plan.exclusive,
            nowait: false,
            arguments: FieldTable::default(),
        })))
    }

    /// The queue is there.
    fn there(&mut self, ok: &queue::DeclareOk, now_us: u64, draws: &mut Draws) -> Result<(), String> {
        match self.step {
            Step::LooksFirst if !self.may_be_there => {
                return Err(format!("the queue {} is there, and should have gone", self.queue));
            }
            Step::LooksFirst => self.declare(),
            Step::Declares => {
                if self.fresh && (ok.message_count, ok.consumer_count) != (0, 0) {
                    return Err(format!("it was just declared, and is not empty: {ok:?}"));
                }
                self.step = Step::Consumes;
                self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Consume(basic::Consume {
                    queue: self.queue.as_str().into(),
                    consumer_tag: "lodger".into(),
                    no_local: false,
                    no_ack: false,
                    exclusive: false,
                    nowait: false,
                    arguments: FieldTable::default(),
                }))));
            }
            Step::Looks => self.leave(draws),
            Step::LooksLast if self.plan.exclusive => {
                (self.step, self.leaves) = (Step::Outside, true);
                self.visits += 1;
            }
            Step::LooksLast => {
                return Err(format!("the queue {} has no consumer, and has not gone", self.queue));
            }
            other => return Err(format!("{ok:?} when it {other:?}, at {now_us}")),
        }
        Ok(())
    }

    /// The visit is over: without a word, or by a last look.
    fn leave(&mut self, draws: &mut Draws) {
        if draws.percent(self.plan.leaves_percent) {
            (self.step, self.leaves) = (Step::Outside, true);
            self.visits += 1;
            return;
        }
        self.step = Step::Cancels;
        let cancel = basic::Cancel { consumer_tag: "lodger".into(), nowait: false };
        self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Cancel(cancel))));
    }

    /// Its channel is closed: the queue is not there.
    fn closed(&mut self, close: &channel::Close) -> Result<(), String> {
        let shares = self.plan.shares;
        let declares = match self.step {
            Step::LooksFirst if close.reply_code == 404 => true,
            // Another one was the last to leave in between.
            Step::Consumes if close.reply_code == 404 && shares => true,
            Step::LooksLast if close.reply_code == 404 && !self.plan.exclusive => {
                self.visits += 1;
                false
            }
            step => return Err(format!("{close:?}, when it {step:?} the queue {}", self.queue)),
        };
        self.may_be_there = false;
        self.step = Step::Reopens { declares };
        for class in
            [channel::AMQPMethod::CloseOk(channel::CloseOk {}), channel::AMQPMethod::Open(channel::Open {})]
        {
            self.out.push(AMQPFrame::Method(CHANNEL, AMQPClass::Channel(class)));
        }
        Ok(())
    }

    fn of_basic(&mut self, method: basic::AMQPMethod, now_us: u64) -> Result<(), String> {
        use basic::AMQPMethod as B;
        match method {
            B::ConsumeOk(_) => {
                self.may_be_there = false;
                self.publish(now_us);
            }
            B::Deliver(deliver) => self.coming = Some(deliver.delivery_tag),
            B::Ack(ack) => {
                self.confirmed = self.confirmed.max(ack.delivery_tag as u32);
                self.stay_if_all(now_us);
            }
            B::CancelOk(_) if self.plan.shares => {
                self.visits += 1;
                self.rest(now_us);
            }
            B::CancelOk(_) => self.look(Step::LooksLast),
            other => return Err(format!("{other:?}, while it consumes from the queue {}", self.queue)),
        }
        Ok(())
    }

    fn publish(&mut self, now_us: u64) {
        self.step = Step::Publishes;
        for number in 0..self.plan.count {
            let properties = BasicProperties::default().with_delivery_mode(2);
            let body = format!("{}.{number}", self.visits);
            self.out.extend(wire::publish("", &self.queue, true, properties, body.as_bytes(), PIECE));
        }
        self.stay_if_all(now_us);
    }

    /// A message is whole: the next that it has published, if the queue is its own.
    fn delivered(&mut self, body: &[u8], now_us: u64) -> Result<(), String> {
        let Some(delivery_tag) = self.coming.take() else { return Ok(()) };
        let ack = basic::Ack { delivery_tag, multiple: false };
        self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Ack(ack))));
        let expected = format!("{}.{}", self.visits, self.received);
        if self.fresh && body != expected.as_bytes() {
            let body = String::from_utf8_lossy(body);
            return Err(format!("the queue {} gives out {body} and not {expected}", self.queue));
        }
        self.received += 1;
        self.stay_if_all(now_us);
        Ok(())
    }

    fn stay_if_all(&mut self, now_us: u64) {
        let all = self.plan.count;
        let received = !self.fresh || self.received >= all;
        if self.step == Step::Publishes && self.confirmed >= all && received {
            self.step = Step::Stays;
            self.wake_us = Some(now_us + self.plan.think_us + 1);
        }
    }
}
