//! A client: introduces itself, declares what there is, then publishes, consumes or drains.

use super::bridge::Bridged;
use super::lodger::Lodger;
use super::model::Key;
use super::routes::{self, BRIDGE, FANOUT, LATER, MARKED, SUBJECTS};
use super::scenario::{
    ConsumerPlan, DELAYS_MS, EXPIRATIONS_MS, MARK_NAMES, MARK_VALUES, PublisherPlan, SUBJECT_WORDS, Scenario,
    Through, queue_name,
};
use super::wire::{self, CHANNEL, method};
use crate::chance::Draws;
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, channel, confirm, connection, queue, tx};
use amq_protocol::types::{AMQPValue, FieldTable};

/// Bytes of a message that a consumer puts on.
const FORWARDED_BYTES: usize = 16;

/// So long it waits after it was told that there is nothing.
const EMPTY_US: u64 = 2_000;

/// A client.
pub(super) struct Client {
    pub(super) role: Role,
    stage: Stage,
    /// Answers to declarations that have not come.
    declaring: usize,
    draws: Draws,
    out: Vec<AMQPFrame>,
    /// A message on its way in: its delivery.
    coming: Option<u64>,
    /// What is to be done with deliveries, by when.
    thinking: Vec<(u64, u64)>,
    /// Answers of the transaction at hand, and whether its end is waited for.
    answered: Vec<u64>,
    ending: bool,
    /// The queue it consumes from.
    queue: String,
    /// When it asks for the next message, if it asks.
    asks_us: Option<u64>,
    deliveries: u32,
    /// Messages that the last queue-declare answers counted, all queues together.
    pub(super) left: u64,
}

/// The reply code of a broker that ends (§1.8.3.13).
const CONNECTION_FORCED: u16 = 320;

/// What it does.
pub(super) enum Role {
    Publisher {
        plan: PublisherPlan,
        number: u32,
        next: u32,
        confirmed: u32,
        sent: u32,
        at_us: u64,
        waits: bool,
    },
    Consumer {
        plan: ConsumerPlan,
        /// As a publisher, and the next message that it puts on.
        number: u32,
        next: u32,
    },
    Lodger(Lodger),
    /// It speaks MQTT.
    Bridged(Bridged),
    Drainer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Opening,
    Declaring,
    Ready,
}

/// What it wants after it was handed something.
#[derive(Default)]
pub(super) struct Wish {
    /// Bytes to send.
    pub(super) bytes: Vec<u8>,
    /// To be woken then.
    pub(super) wake_us: Option<u64>,
    /// To break its connection off.
    pub(super) leaves: bool,
}

impl Client {
    pub(super) fn new(role: Role, draws: Draws) -> Client {
        Client {
            role,
            stage: Stage::Header,
            declaring: 0,
            draws,
            out: Vec::new(),
            coming: None,
            thinking: Vec::new(),
            answered: Vec::new(),
            ending: false,
            queue: String::new(),
            asks_us: None,
            deliveries: 0,
            left: 0,
        }
    }

    /// Its connection is there.
    pub(super) fn connected(&mut self) -> Wish {
        self.stage = Stage::Header;
        (self.declaring, self.coming, self.deliveries) = (0, None, 0);
        self.thinking.clear();
        self.answered.clear();
        self.ending = false;
        self.asks_us = None;
        self.out.clear();
        match &mut self.role {
            Role::Publisher { sent, confirmed, waits, .. } => (*sent, *confirmed, *waits) = (0, 0, false),
            Role::Lodger(lodger) => lodger.connected(),
            Role::Bridged(bridged) => {
                bridged.connected();
                return self.go_on(0);
            }
            Role::Consumer { .. } | Role::Drainer => {}
        }
        Wish { bytes: b"AMQP\x00\x00\x09\x01".to_vec(), ..Wish::default() }
    }

    /// Whether it has published all that it is to.
    pub(super) fn is_done(&self) -> bool {
        match &self.role {
            Role::Publisher { plan, next, sent, confirmed, .. } => *next >= plan.count && sent == confirmed,
            Role::Lodger(lodger) => lodger.is_done(),
            Role::Bridged(bridged) => bridged.is_done(),
            Role::Consumer { .. } | Role::Drainer => false,
        }
    }

    /// Whether it has declared all that there is.
    pub(super) fn has_declared(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether what it does has to be done before a run ends.
    pub(super) fn is_busy(&self) -> bool {
        let does = match &self.role {
            Role::Publisher { .. } | Role::Lodger(_) => true,
            Role::Bridged(bridged) => bridged.publishes(),
            Role::Consumer { .. } | Role::Drainer => false,
        };
        does && !self.is_done()
    }

    /// Bytes came for a client that speaks MQTT; an error: they should not have.
    pub(super) fn receive_mqtt(&mut self, bytes: &[u8], now_us: u64) -> Option<Result<Wish, String>> {
        let Role::Bridged(bridged) = &mut self.role else { return None };
        let received = bridged.receive(bytes, now_us);
        Some(received.map(|()| self.go_on(now_us)))
    }

    /// A frame came; an error: it should not have.
    pub(super) fn receive(
        &mut self,
        frame: AMQPFrame,
        scenario: &Scenario,
        now_us: u64,
    ) -> Result<Wish, String> {
        if let Role::Lodger(lodger) = &mut self.role
            && !matches!(frame, AMQPFrame::Method(0, _) | AMQPFrame::Heartbeat)
        {
            lodger.receive(frame, &mut self.draws, now_us)?;
            return Ok(self.go_on(now_us));
        }
        match frame {
            AMQPFrame::Method(_, AMQPClass::Connection(method)) => self.of_connection(method)?,
            AMQPFrame::Method(_, AMQPClass::Channel(channel::AMQPMethod::OpenOk(_))) => {
                self.declare(scenario)
            }
            AMQPFrame::Method(_, AMQPClass::Channel(other)) => return self.channel_closed(&other),
            AMQPFrame::Method(_, AMQPClass::Exchange(_)) => self.declared(scenario, now_us),
            AMQPFrame::Method(_, AMQPClass::Queue(method)) => {
                if let queue::AMQPMethod::DeclareOk(ok) = method {
                    self.left += u64::from(ok.message_count);
                }
                self.declared(scenario, now_us);
            }
            AMQPFrame::Method(_, AMQPClass::Basic(method)) => self.of_basic(method, now_us),
            AMQPFrame::Method(_, AMQPClass::Tx(tx::AMQPMethod::CommitOk(_))) => self.ended(false),
            AMQPFrame::Method(_, AMQPClass::Tx(tx::AMQPMethod::RollbackOk(_))) => self.ended(true),
            AMQPFrame::Method(..) | AMQPFrame::Heartbeat => {}
            AMQPFrame::Header(_, header) if header.body_size > 0 => {}
            AMQPFrame::Header(..) | AMQPFrame::Body(..) => self.delivered(now_us),
            other => return Err(format!("{other:?}")),
        }
        Ok(self.go_on(now_us))
    }

    /// Its transaction is over.
    fn ended(&mut self, rolled_back: bool) {
        if let Role::Publisher { confirmed, sent, waits, .. } = &mut self.role {
            (*confirmed, *waits) = (*sent, false);
        }
        self.ending = false;
        let again = std::mem::take(&mut self.answered).into_iter();
        if rolled_back {
            // They are as they were: it has to answer them once more.
            self.thinking.splice(0..0, again.map(|tag| (0, tag)));
        }
    }

    /// A transaction that a queue at its bound refuses takes its channel with it.
    fn channel_closed(&self, method: &channel::AMQPMethod) -> Result<Wish, String> {
        let transactional = matches!(&self.role, Role::Publisher { plan, .. } if plan.transaction > 0);
        match method {
            channel::AMQPMethod::Close(close) if close.reply_code == 406 && transactional => {
                Ok(Wish { leaves: true, ..Wish::default() })
            }
            other => Err(format!("{other:?}")),
        }
    }

    fn of_connection(&mut self, method: connection::AMQPMethod) -> Result<(), String> {
        use connection::AMQPMethod as M;
        let answer = |m| AMQPFrame::Method(0, AMQPClass::Connection(m));
        match method {
            M::Start(_) => self.out.push(answer(M::StartOk(connection::StartOk {
                client_properties: FieldTable::default(),
                mechanism: "PLAIN".into(),
                response: "\0guest\0guest".into(),
                locale: "en_US".into(),
            }))),
            M::Tune(tune) => {
                let (channel_max, frame_max) = (tune.channel_max, tune.frame_max);
                self.out.push(answer(M::TuneOk(connection::TuneOk { channel_max, frame_max, heartbeat: 0 })));
                self.out.push(answer(M::Open(connection::Open { virtual_host: "/".into() })));
            }
            M::OpenOk(_) => {
                self.stage = Stage::Opening;
                let open = channel::AMQPMethod::Open(channel::Open {});
                self.out.push(AMQPFrame::Method(CHANNEL, AMQPClass::Channel(open)));
            }
            M::Blocked(_) | M::Unblocked(_) => {}
            // The broker ends; the end of the connection follows.
            M::Close(close) if close.reply_code == CONNECTION_FORCED => {}
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    fn declare(&mut self, scenario: &Scenario) {
        self.stage = Stage::Declaring;
        self.left = 0;
        let declarations = routes::declarations(scenario);
        self.declaring = declarations.len();
        self.out.extend(declarations);
    }

    fn declared(&mut self, scenario: &Scenario, now_us: u64) {
        self.declaring = self.declaring.saturating_sub(1);
        if self.declaring > 0 || self.stage != Stage::Declaring {
            return;
        }
        self.stage = Stage::Ready;
        match &mut self.role {
            Role::Publisher { plan, at_us, .. } => {
                *at_us = now_us;
                self.out.push(match plan.transaction {
                    0 => method(AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select {
                        nowait: false,
                    }))),
                    _ => method(AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {}))),
                });
            }
            Role::Consumer { plan, .. } => {
                if plan.transaction > 0 {
                    self.out.push(method(AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {}))));
                }
                let (prefetch_count, global) = (plan.prefetch, plan.global);
                let qos = basic::Qos { prefetch_count, global };
                self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Qos(qos))));
                let name = &scenario.queues[plan.queue].name;
                self.queue.clone_from(name);
                match plan.asks {
                    true => self.asks_us = Some(now_us),
                    false => self.out.push(consume(name, name, plan.no_ack, plan.priority)),
                }
            }
            Role::Lodger(_) | Role::Bridged(_) => {}
            Role::Drainer => {
                let qos = basic::Qos { prefetch_count: 10, global: false };
                self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Qos(qos))));
                for plan in &scenario.queues {
                    self.out.push(consume(&plan.name, &plan.name, false, 100));
                }
            }
        }
    }

    fn of_basic(&mut self, method: basic::AMQPMethod, now_us: u64) {
        use basic::AMQPMethod as M;
        match method {
            M::Deliver(deliver) => self.coming = Some(deliver.delivery_tag),
            M::GetOk(ok) => {
                self.coming = Some(ok.delivery_tag);
                self.asks_us = Some(now_us);
            }
            M::GetEmpty(_) => self.asks_us = Some(now_us + EMPTY_US),
            M::Ack(basic::Ack { delivery_tag, .. }) | M::Nack(basic::Nack { delivery_tag, .. }) => {
                if let Role::Publisher { confirmed, .. } = &mut self.role {
                    *confirmed = (*confirmed).max(delivery_tag as u32);
                }
            }
            _ => {}
        }
    }

    /// A message is whole, or a piece of it is there.
    fn delivered(&mut self, now_us: u64) {
        let Some(tag) = self.coming.take() else { return };
        self.deliveries += 1;
        let think_us = match &self.role {
            Role::Consumer { plan, .. } if plan.no_ack => return,
            Role::Consumer { plan, .. } => plan.think_us,
            _ => 0,
        };
        self.thinking.push((now_us + think_us, tag));
    }

    /// What it does by itself.
    pub(super) fn go_on(&mut self, now_us: u64) -> Wish {
        if let Role::Lodger(lodger) = &mut self.role {
            lodger.go_on(now_us);
            let (frames, wake_us, leaves) = lodger.wishes();
            self.out.extend(frames);
            return Wish { bytes: wire::encode(&std::mem::take(&mut self.out)), wake_us, leaves };
        }
        if let Role::Bridged(bridged) = &mut self.role {
            let (bytes, wake_us) = bridged.go_on(&mut self.draws, now_us);
            return Wish { bytes, wake_us, leaves: false };
        }
        if self.stage == Stage::Ready {
            self.publish(now_us);
            self.answer(now_us);
            self.ask(now_us);
        }
        let wake_us = match &self.role {
            Role::Publisher { plan, next, at_us, .. } if *next < plan.count && self.stage == Stage::Ready => {
                (*at_us > now_us).then_some(*at_us)
            }
            // What is due and not done waits for the broker.
            _ => self.thinking.iter().map(|(at, _)| *at).chain(self.asks_us).filter(|at| *at > now_us).min(),
        };
        let leaves = matches!(&self.role, Role::Consumer { plan, .. }
            if plan.leaves_after.is_some_and(|most| self.deliveries >= most));
        Wish { bytes: wire::encode(&std::mem::take(&mut self.out)), wake_us, leaves }
    }

    fn publish(&mut self, now_us: u64) {
        let Role::Publisher { plan, number, next, confirmed, sent, at_us, waits } = &mut self.role else {
            return;
        };
        let window = if plan.transaction > 0 { plan.transaction } else { plan.window };
        while *next < plan.count && *sent - *confirmed < window && *at_us <= now_us && !*waits {
            let key = Key { publisher: *number, number: *next };
            let letter = Letter::drawn(plan, &mut self.draws);
            let body = key.body(plan.size);
            let Letter { exchange, key, mandatory, properties } = letter;
            self.out.extend(wire::publish(exchange, &key, mandatory, properties, &body, plan.piece));
            (*next, *sent) = (*next + 1, *sent + 1);
            *at_us += plan.gap_us;
            if plan.transaction > 0 && (*sent - *confirmed == plan.transaction || *next == plan.count) {
                let rollback = self.draws.percent(plan.rollback_percent);
                self.out.push(end_of_transaction(rollback));
                *waits = true;
            }
        }
    }

    /// Asks for a message, as long as it has not too many.
    fn ask(&mut self, now_us: u64) {
        let Role::Consumer { plan, .. } = &self.role else { return };
        let most = usize::from(plan.prefetch);
        if self.asks_us.is_some_and(|at| at <= now_us) && (most == 0 || self.thinking.len() < most) {
            self.asks_us = None;
            let get = basic::Get { queue: self.queue.as_str().into(), no_ack: plan.no_ack };
            self.out.push(method(AMQPClass::Basic(basic::AMQPMethod::Get(get))));
        }
    }

    /// Settles what it has thought about.
    fn answer(&mut self, now_us: u64) {
        if self.ending {
            return;
        }
        // A transaction has no more answers than it says: what it takes of a small log has a bound.
        let room = match &self.role {
            Role::Consumer { plan, .. } if plan.transaction > 0 => {
                plan.transaction as usize - self.answered.len()
            }
            _ => usize::MAX,
        };
        let due = self.thinking.partition_point(|(at, _)| *at <= now_us).min(room);
        let mut due: Vec<(u64, u64)> = self.thinking.drain(..due).collect();
        let Role::Consumer { plan, number, next } = &mut self.role else {
            let acks = due.iter().map(|(_, tag)| ack(*tag, false));
            return self.out.extend(acks);
        };
        // What was delivered before these has been answered.
        let multiple = due.len() > 1 && self.draws.percent(plan.multiple_percent);
        let first = if multiple { due.len() - 1 } else { 0 };
        if plan.backwards && !multiple {
            due.reverse();
        }
        for (_, delivery_tag) in &due[first..] {
            let delivery_tag = *delivery_tag;
            let choice = self.draws.below(100) as u32;
            let requeue = choice < plan.requeue_percent;
            let reject = !requeue && choice < plan.requeue_percent + plan.reject_percent;
            if let Some(queue) = plan.forwards.filter(|_| !requeue && !reject) {
                for _ in 0..if multiple { due.len() } else { 1 } {
                    self.out.extend(put_on(queue, Key { publisher: *number, number: *next }));
                    *next += 1;
                }
            }
            self.out.push(match requeue || reject {
                true => method(AMQPClass::Basic(basic::AMQPMethod::Nack(basic::Nack {
                    delivery_tag,
                    multiple,
                    requeue,
                }))),
                false => ack(delivery_tag, multiple),
            });
        }
        if plan.transaction == 0 {
            return;
        }
        self.answered.extend(due.iter().map(|(_, tag)| *tag));
        let most = if plan.prefetch > 0 { plan.prefetch.into() } else { u32::MAX };
        if self.answered.len() as u32 >= plan.transaction.min(most) {
            self.ending = true;
            self.out.push(end_of_transaction(self.draws.percent(plan.rollback_percent)));
        }
    }
}

/// A message for another queue, in the place of one that was settled.
fn put_on(queue: usize, key: Key) -> Vec<AMQPFrame> {
    let properties = BasicProperties::default().with_delivery_mode(2);
    wire::publish("", &queue_name(queue), false, properties, &key.body(FORWARDED_BYTES), FORWARDED_BYTES)
}

/// What a publisher writes around a body.
struct Letter {
    exchange: &'static str,
    key: String,
    mandatory: bool,
    properties: BasicProperties,
}

impl Letter {
    fn drawn(plan: &PublisherPlan, draws: &mut Draws) -> Letter {
        let mode = if draws.percent(plan.persistent_percent) { 2 } else { 1 };
        let mut properties = BasicProperties::default().with_delivery_mode(mode);
        if draws.percent(plan.expires_percent) {
            properties = properties.with_expiration(draws.pick(&EXPIRATIONS_MS).to_string().into());
        }
        if draws.percent(plan.nowhere_percent) {
            return Letter { exchange: "", key: "nowhere".to_owned(), mandatory: true, properties };
        }
        let mut headers = FieldTable::default();
        let (exchange, key) = match (plan.through, plan.queue) {
            (Through::Queue, Some(queue)) => ("", queue_name(queue)),
            (Through::Queue, None) => (FANOUT, String::new()),
            (Through::Subjects | Through::Bridge, _) => {
                let words = draws.between(1, 3);
                let key: Vec<&str> = (0..words).map(|_| *draws.pick(&SUBJECT_WORDS)).collect();
                (if plan.through == Through::Bridge { BRIDGE } else { SUBJECTS }, key.join("."))
            }
            (Through::Marked, _) => {
                for name in MARK_NAMES {
                    headers.insert(name.into(), AMQPValue::LongInt(draws.below(MARK_VALUES) as i32));
                }
                (MARKED, String::new())
            }
            (Through::Later, _) => {
                let delay = *draws.pick(&DELAYS_MS);
                headers.insert("x-delay".into(), AMQPValue::LongInt(delay));
                (LATER, String::new())
            }
        };
        // What may lead nowhere comes back then, if it is mandatory.
        let mandatory = matches!(plan.through, Through::Subjects | Through::Marked) && draws.percent(50);
        Letter { exchange, key, mandatory, properties: properties.with_headers(headers) }
    }
}

fn end_of_transaction(rollback: bool) -> AMQPFrame {
    method(AMQPClass::Tx(match rollback {
        true => tx::AMQPMethod::Rollback(tx::Rollback {}),
        false => tx::AMQPMethod::Commit(tx::Commit {}),
    }))
}

fn ack(delivery_tag: u64, multiple: bool) -> AMQPFrame {
    method(AMQPClass::Basic(basic::AMQPMethod::Ack(basic::Ack { delivery_tag, multiple })))
}

fn consume(queue: &str, tag: &str, no_ack: bool, priority: i32) -> AMQPFrame {
    let mut arguments = FieldTable::default();
    arguments.insert("x-priority".into(), AMQPValue::LongInt(priority));
    method(AMQPClass::Basic(basic::AMQPMethod::Consume(basic::Consume {
        queue: queue.into(),
        consumer_tag: tag.into(),
        no_local: false,
        no_ack,
        exclusive: false,
        nowait: false,
        arguments,
    })))
}
