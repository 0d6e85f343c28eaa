//! A simulated client: it keeps the rules of its version of MQTT, comes back after every break, and tells the model
//! what it sends and receives. Its codec is not ours.
//!
//! ```text
//! Off ──▶ Handshake ──CONNACK──▶ Up
//!  ▲          │ time-out, broken  │ broken, vanished, goodbye
//!  └──────────┴───────────────────┘
//! ```

mod agreement;
mod incoming;
mod session;

use crate::chance::Draws;
use crate::codec::{Connect, Disconnect, LastWill, Packet, Terms, Version};
use crate::happening::Timer;
use crate::model::Model;
use crate::outcome::{Checker, Counts};
use crate::scenario::{Action, Asked, ClientProgram};
use crate::trace::Trace;
use agreement::Agreement;
use bytes::{Bytes, BytesMut};
use session::{Session, Todo};
use vowmq_core::ids::ConnectionId;

/// How long a client waits for CONNACK.
const HANDSHAKE_US: u64 = 5_000_000;
/// How often a hasty client opens another connection at once.
const HASTE_MAX: u32 = 12;
/// Until so long after a CONNACK it is patient: what the broker recorded then is on the disk by and by.
const PATIENCE_US: u64 = 60_000;

/// What a client wants of the network.
#[derive(Debug)]
pub(crate) enum Order {
    /// Opens a connection, its `attempt`-th.
    Open { attempt: usize },
    /// Writes to it.
    Write(ConnectionId, Bytes),
    /// Ends its direction in order.
    Finish(ConnectionId),
    /// Breaks it.
    Reset(ConnectionId),
    /// Is gone without a word.
    Vanish(ConnectionId),
    /// Reads nothing until then.
    StopReading { until_us: u64 },
    /// Wants to be called.
    Timer { at_us: u64, timer: Timer, generation: u64 },
}

/// What a client may touch beside itself.
pub(crate) struct Context<'a> {
    pub(crate) now: u64,
    pub(crate) model: &'a mut Model,
    pub(crate) trace: &'a mut Trace,
    pub(crate) counts: &'a mut Counts,
    pub(crate) orders: &'a mut Vec<Order>,
}

/// A client.
pub(crate) struct Client {
    index: usize,
    program: ClientProgram,
    /// It gives its name and password.
    logs_in: bool,
    draws: Draws,
    link: Link,
    /// What holds on its connection.
    agreement: Agreement,
    /// The broker has said goodbye on its connection.
    dismissed: bool,
    /// Whether it wants a connection.
    online: bool,
    /// Whether it said goodbye and waits to be told.
    left: bool,
    /// Its next session begins afresh.
    afresh: bool,
    /// What it asks for in the place of its usual session expiry, until a CONNACK comes.
    asks_once_s: Option<u32>,
    /// Connections tried.
    attempts: usize,
    session: Session,
    buffer: BytesMut,
    outbox: BytesMut,
    answers_due: bool,
    /// It has sent what makes it open another connection at once.
    in_haste: bool,
    /// How often it may yet do so, and not before this time.
    haste_left: u32,
    patient_until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    Off,
    Opening,
    Handshake { connection: ConnectionId, asked: Asked },
    Up { connection: ConnectionId, asked: Asked },
}

/// The password of the client with this identifier, and of the user of this name.
pub(crate) fn password(id: &str) -> String {
    format!("the password of {id}")
}

/// How a client sees its connection end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// What it had sent is lost, or has been received.
    Broken,
    /// What it had sent may still be on its way.
    Vanished,
}

impl Client {
    pub(crate) fn new(index: usize, program: ClientProgram, logs_in: bool, draws: Draws) -> Client {
        let session = Session::new(program.window);
        Client {
            index,
            program,
            logs_in,
            draws,
            link: Link::Off,
            agreement: Agreement::none(),
            dismissed: false,
            online: false,
            left: false,
            afresh: false,
            asks_once_s: None,
            attempts: 0,
            session,
            buffer: BytesMut::new(),
            outbox: BytesMut::new(),
            answers_due: false,
            in_haste: false,
            haste_left: HASTE_MAX,
            patient_until: 0,
        }
    }

    /// Whether it has tried more than one connection so far.
    pub(crate) fn has_tried_again(&self) -> bool {
        self.attempts > 1
    }

    /// Comes to an operation of its program.
    pub(crate) fn operate(&mut self, around: &mut Context<'_>, index: usize) {
        let action = self.program.operations[index].action.clone();
        around.trace.line("client", &[self.index as u64, index as u64], || {
            format!("{} comes to {action:?}", self.program.id)
        });
        let number = Some(self.index as u64);
        around
            .trace
            .record(|to| to.note("client", number, format!("is to {}", crate::words::action(&action))));
        if !self.left {
            self.online = true;
        }
        match action {
            Action::Connect { clean, session_expiry_s } => {
                self.asks_once_s = session_expiry_s.filter(|_| self.program.version() == Version::V5);
                self.ask_to_connect(around, clean)
            }
            Action::Publish { topic, qos, retain, size, count, expiry_s } => {
                for _ in 0..count {
                    self.plan_publish(around, &topic, (qos, retain), size, expiry_s);
                }
            }
            Action::Subscribe { filter, qos, mut more } => {
                more.insert(0, (filter, qos));
                let filters = distinct(more, |(filter, _)| filter);
                // An identifier is one of a whole SUBSCRIBE.
                let alone = self.program.mqtt5.as_ref().is_some_and(|asks| asks.identifiers);
                let at_once = if alone { 1 } else { filters.len() };
                for filters in filters.chunks(at_once) {
                    self.session.plan(Todo::Subscribe { filters: filters.to_vec() });
                }
            }
            Action::Unsubscribe { filter, mut more } => {
                more.insert(0, filter);
                self.session.plan(Todo::Unsubscribe { filters: distinct(more, |filter| filter) });
            }
            Action::Disconnect { session_expiry_s, keeps_will } => {
                self.say_goodbye(around, session_expiry_s, keeps_will)
            }
            Action::Drop => self.break_off(around),
            Action::Silence => self.vanish(around, 3_000_000),
            Action::TakeOver => self.take_over(around),
            Action::StopReading { for_us } => {
                around.orders.push(Order::StopReading { until_us: around.now + for_us })
            }
            // [MQTT-4.4.0-1] of MQTT 5: only on another connection.
            Action::Resend if self.program.version() == Version::V5 => {}
            Action::Resend => self.resend(around),
        }
        self.pump(around);
    }

    /// The faults are over: it connects and stays, and answers soon enough for any backlog to come to an end.
    pub(crate) fn heal(&mut self, around: &mut Context<'_>) {
        self.program.answer_us = self.program.answer_us.min(1_000);
        self.left = false;
        self.online = true;
        self.haste_left = 0;
        if self.link == Link::Off {
            self.open(around);
        }
    }

    /// The connection it asked for has a number now.
    pub(crate) fn opened(&mut self, around: &mut Context<'_>, connection: ConnectionId) {
        let stays_s = self.stays_s();
        let asked = match stays_s {
            _ if self.program.clean || self.afresh => Asked::Clean,
            Some(0) => Asked::Last,
            _ => Asked::Kept,
        };
        self.link = Link::Handshake { connection, asked };
        let will = self.program.will.as_ref().map(|will| {
            let length = crate::payload::HEADER_BYTES as u32;
            let key = around.model.new_message(self.index, &will.topic, will.qos, will.retain, length);
            (key, will)
        });
        let kept = !asked.ends() && self.program.mqtt5.is_some();
        let delay_s = will.map_or(0, |(_, will)| if kept { will.delay_s } else { 0 });
        around.model.connect_sent(self.index, will.map(|(key, _)| (key, delay_s)), asked, stays_s);
        let will = will.map(|(key, will)| LastWill {
            topic: will.topic.clone(),
            payload: crate::payload::build(key, 0),
            qos: will.qos,
            retain: will.retain,
            delay_s: (will.delay_s > 0 && self.program.mqtt5.is_some()).then_some(will.delay_s),
        });
        let asks = self.program.mqtt5.as_ref();
        let terms = asks.map_or(Terms::default(), |asks| Terms {
            session_expiry_s: stays_s.filter(|_| asked != Asked::Clean),
            receive_maximum: Some(asks.receive_maximum),
            topic_alias_maximum: Some(asks.topic_alias_maximum),
            maximum_packet_bytes: Some(asks.maximum_packet_bytes).filter(|bytes| *bytes > 0),
        });
        let connect = Connect {
            version: self.program.version(),
            client_id: self.program.id.clone(),
            keep_alive_s: self.program.keep_alive_s,
            clean: asked == Asked::Clean,
            will,
            password: self.logs_in.then(|| password(&self.program.id)),
            terms,
        };
        self.write(around, &Packet::Connect(connect));
        self.timer(around, HANDSHAKE_US, Timer::Handshake);
        self.flush(around);
    }

    /// A timer of the current generation ran out.
    pub(crate) fn timer_ran_out(&mut self, around: &mut Context<'_>, timer: Timer, generation: u64) {
        if generation != self.attempts as u64 {
            return;
        }
        match (timer, self.link) {
            (Timer::Reconnect, Link::Off) => self.open(around),
            (Timer::Handshake, Link::Handshake { .. }) => self.break_off(around),
            (Timer::Ping, Link::Up { .. }) => {
                self.write(around, &Packet::PingReq);
                self.timer(around, u64::from(self.program.keep_alive_s) * 500_000, Timer::Ping);
            }
            (Timer::Answers, Link::Up { .. }) => self.answer(around),
            (Timer::Reconnect | Timer::Handshake | Timer::Ping | Timer::Answers, _) => {}
        }
        self.pump(around);
    }

    /// The other end is gone.
    pub(crate) fn connection_broke(&mut self, around: &mut Context<'_>, connection: ConnectionId) {
        if self.connection() == Some(connection) {
            around
                .trace
                .note("client", &[self.index as u64], || format!("{} loses its connection", self.program.id));
            self.connection_over(around, Loss::Broken);
            self.come_back_later(around, self.program.reconnect_us);
        }
    }

    /// The network cut it off while the broker notices nothing.
    pub(crate) fn cut_off(&mut self, around: &mut Context<'_>) {
        self.vanish(around, 500_000);
    }

    /// Its connection, if it has one.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        match self.link {
            Link::Off | Link::Opening => None,
            Link::Handshake { connection, .. } | Link::Up { connection, .. } => Some(connection),
        }
    }

    /// What it asked of its session on this connection; none if it is not its connection.
    pub(crate) fn asked_on(&self, id: ConnectionId) -> Option<Asked> {
        match self.link {
            Link::Handshake { connection, asked } | Link::Up { connection, asked } => {
                (connection == id).then_some(asked)
            }
            Link::Off | Link::Opening => None,
        }
    }

    /// The filters of its SUBSCRIBE or UNSUBSCRIBE with this id; none if a later request touches one of them.
    pub(crate) fn asked(&self, packet_id: u16) -> Option<Vec<&str>> {
        self.session.asked(packet_id)
    }

    /// Whether it has sent PUBREL for this id and waits for PUBCOMP.
    pub(crate) fn has_released(&self, packet_id: u16) -> bool {
        self.session.outgoing.iter().any(|outgoing| outgoing.packet_id == packet_id && outgoing.released)
    }

    /// The message that an answer with this id is for.
    pub(crate) fn awaits(&self, packet_id: u16) -> Option<crate::payload::MessageKey> {
        self.session.awaits(packet_id)
    }

    /// Whether it has acknowledged a message with this id to the end, in its session at hand.
    pub(crate) fn has_settled(&self, packet_id: u16) -> bool {
        self.session.settled.contains(&packet_id)
    }

    /// Whether it is connected and waits for nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.link, Link::Up { .. }) && self.session.is_quiet()
    }

    /// What it waits for, in words.
    pub(crate) fn waits_for(&self) -> String {
        format!("{} ({:?}) waits for {}", self.program.id, self.link, self.session.waits_for())
    }

    fn ask_to_connect(&mut self, around: &mut Context<'_>, clean: bool) {
        self.left = false;
        self.online = true;
        self.afresh |= clean;
        if clean || self.asks_once_s.is_some() {
            self.take_over(around);
        }
        if self.link == Link::Off {
            self.open(around);
        }
    }

    /// Seconds that it asks its session to stay, if it speaks MQTT 5.
    fn stays_s(&self) -> Option<u32> {
        self.program.mqtt5.as_ref().map(|asks| self.asks_once_s.unwrap_or(asks.session_expiry_s))
    }

    fn plan_publish(
        &mut self,
        around: &mut Context<'_>,
        topic: &str,
        (qos, retain): (u8, bool),
        size: u32,
        expiry_s: Option<u32>,
    ) {
        if qos == 0 && !matches!(self.link, Link::Up { .. }) {
            return;
        }
        let size = if size == 0 { 0 } else { size.max(crate::payload::HEADER_BYTES as u32) };
        let expiry_s = expiry_s.filter(|_| self.program.version() == Version::V5);
        let key = around.model.new_message(self.index, topic, qos, retain, size);
        if let Some(seconds) = expiry_s {
            around.model.expires(key, seconds);
        }
        self.session.plan(Todo::Publish { key, topic: topic.to_owned(), qos, retain, size, expiry_s });
    }

    fn say_goodbye(&mut self, around: &mut Context<'_>, session_expiry_s: Option<u32>, keeps_will: bool) {
        self.online = false;
        self.left = true;
        match self.link {
            Link::Up { connection, asked } => {
                self.pump(around);
                let of_mqtt_5 = self.program.version() == Version::V5;
                // [MQTT-3.14.2-2]: a session that ends with its connection cannot be made to stay.
                let session_expiry_s = session_expiry_s.filter(|_| of_mqtt_5 && !asked.ends());
                let code = if of_mqtt_5 && keeps_will { 0x04 } else { 0 };
                self.write(around, &Packet::Disconnect(Disconnect { code, session_expiry_s }));
                if code == 0 {
                    around.model.goodbye_sent(self.index, self.attempts - 1);
                }
                if let Some(seconds) = session_expiry_s {
                    around.model.stay_changed(self.index, seconds);
                }
                self.flush(around);
                around.orders.push(Order::Finish(connection));
                self.connection_over(around, Loss::Vanished);
            }
            Link::Handshake { .. } => self.break_off(around),
            Link::Off | Link::Opening => {}
        }
    }

    fn break_off(&mut self, around: &mut Context<'_>) {
        if let Some(connection) = self.connection() {
            self.flush(around);
            around.orders.push(Order::Reset(connection));
            self.connection_over(around, Loss::Broken);
            self.come_back_later(around, self.program.reconnect_us);
        }
    }

    /// A CONNECT on its way must not arrive after a later one: before CONNACK it breaks the connection instead.
    fn vanish(&mut self, around: &mut Context<'_>, back_within_us: u64) {
        match self.link {
            Link::Up { connection, .. } => {
                self.flush(around);
                around.orders.push(Order::Vanish(connection));
                self.connection_over(around, Loss::Vanished);
                self.come_back_later(around, back_within_us);
            }
            Link::Handshake { .. } => self.break_off(around),
            Link::Off | Link::Opening => {}
        }
    }

    fn take_over(&mut self, around: &mut Context<'_>) {
        match self.link {
            Link::Up { connection, .. } => {
                self.flush(around);
                around.orders.push(Order::Vanish(connection));
                self.connection_over(around, Loss::Vanished);
                self.open(around);
            }
            Link::Handshake { .. } => self.break_off(around),
            Link::Off | Link::Opening => {}
        }
    }

    fn open(&mut self, around: &mut Context<'_>) {
        if self.online {
            self.link = Link::Opening;
            around.orders.push(Order::Open { attempt: self.attempts });
            self.attempts += 1;
        }
    }

    fn connection_over(&mut self, around: &mut Context<'_>, loss: Loss) {
        let (ends, handshake) = match self.link {
            Link::Off | Link::Opening => return,
            Link::Handshake { asked, .. } => (asked.ends(), true),
            Link::Up { asked, .. } => (asked.ends(), false),
        };
        self.link = Link::Off;
        self.agreement = Agreement::none();
        self.dismissed = false;
        self.buffer.clear();
        self.outbox.clear();
        self.answers_due = false;
        self.in_haste = false;
        around.model.connection_over(self.index, ends, handshake);
        around.model.attempt_over(self.index, self.attempts - 1);
        self.session.connection_over();
        if ends && !handshake {
            self.session.start_afresh(around.model, loss == Loss::Broken);
        }
    }

    fn come_back_later(&mut self, around: &mut Context<'_>, within_us: u64) {
        let wait = self.draws.between(5_000, within_us);
        self.timer(around, wait, Timer::Reconnect);
    }

    /// Sends what can be sent now.
    fn pump(&mut self, around: &mut Context<'_>) {
        match self.link {
            Link::Off if self.online && self.attempts == 0 => self.open(around),
            Link::Up { .. } => {
                self.go_on_resuming(around);
                while let Some(todo) = self.session.next_todo(self.agreement.broker_takes) {
                    self.carry_out(around, todo);
                }
                self.flush(around);
                if std::mem::take(&mut self.in_haste) {
                    self.take_over(around);
                }
            }
            Link::Off | Link::Opening | Link::Handshake { .. } => {}
        }
    }

    fn timer(&self, around: &mut Context<'_>, after_us: u64, timer: Timer) {
        let (at_us, generation) = (around.now + after_us, self.attempts as u64);
        around.orders.push(Order::Timer { at_us, timer, generation });
    }

    fn write(&mut self, around: &mut Context<'_>, packet: &Packet) {
        self.session.writes += 1;
        around.counts.packets += 1;
        around.trace.line("sends", &[self.index as u64], || format!("{}: {packet}", self.program.id));
        crate::codec::write(self.program.version(), packet, &mut self.outbox);
        self.grow_hasty(around.now, packet);
    }

    /// May make it open another connection after this packet.
    fn grow_hasty(&mut self, now: u64, packet: &Packet) {
        let of_qos_2 = match packet {
            Packet::Publish(publish) => publish.qos == 2,
            Packet::PubRec(_) | Packet::PubRel(_) | Packet::PubComp(_) => true,
            _ => false,
        };
        let percent = self.program.hasty_percent;
        let may = percent > 0 && self.haste_left > 0 && now >= self.patient_until;
        if of_qos_2 && may && self.draws.percent(percent) {
            self.haste_left -= 1;
            self.in_haste = true;
        }
    }

    fn flush(&mut self, around: &mut Context<'_>) {
        if let Some(connection) = self.connection().filter(|_| !self.outbox.is_empty()) {
            around.orders.push(Order::Write(connection, self.outbox.split().freeze()));
        }
    }

    fn fail(&self, around: &mut Context<'_>, checker: Checker, text: &str) {
        around.model.fail(checker, self.program.id.clone(), format!("client {:?}: {text}", self.program.id));
    }
}

/// Each filter once: what a broker makes of a packet that names one twice is tested elsewhere.
fn distinct<T>(filters: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for filter in filters {
        if !distinct.iter().any(|other| name(other) == name(&filter)) {
            distinct.push(filter);
        }
    }
    distinct
}
