//! What the clients know, and so what the broker owes: the reference that every run is checked against.
//!
//! The model sees only what a client sees (what it sent, what it received, when), never the broker's mind. A
//! fact counts from the moment its acknowledgement is received; before, both outcomes are right.

mod audit;
mod delivery;
mod drops;
mod presence;
mod retained;
mod subscription;
mod topic;
mod will;

pub(crate) use delivery::Delivery;
pub(crate) use will::Ending;

use crate::clock::WallClock;
use crate::outcome::{Checker, Violation};
use crate::payload::MessageKey;
use crate::scenario::{Action, Scenario};
use delivery::Record;
use presence::Presence;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use subscription::Subscription;
use topic::Topics;
use vowmq_core::limits::Limits;
use will::Attempt;

/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// The reference.
pub(crate) struct Model {
    now: u64,
    topics: Topics,
    /// By publisher, then by sequence.
    messages: Vec<Vec<Message>>,
    clients: Vec<ClientModel>,
    /// The clients' identifiers.
    ids: Vec<String>,
    /// By topic: every retained message that was ever tried.
    retained: Vec<Vec<MessageKey>>,
    /// When the broker's process ended without having been asked to.
    crashes: Vec<u64>,
    /// Queues have bounds of their own, so that messages may be dropped, counted.
    bounded: bool,
    /// A goodbye may take any time to become durable.
    slow_disk: bool,
    full_disk: bool,
    inflight_max: usize,
    /// Milliseconds after which the session of a client that is away may go, by the shortest setting; 0 means never.
    expiry_ms: i64,
    /// Whether some settings of the scenario have none.
    expiry_may_be_off: bool,
    /// Whether the settings in force say so.
    expiry_in_force: bool,
    wall: WallClock,
    /// The least that the wall clock has shown since the broker did what nobody has heard of yet.
    unheard_since_ms: Option<i64>,
    /// Requests so far.
    tickets: u64,
    /// Messages that were acknowledged before a subscriber had them.
    debts: u64,
    /// Drops at bounds that follow from what is on the disk and what was acknowledged, and those that were counted.
    drops_known: u64,
    drops_counted: u64,
    drops_unknown: bool,
    /// A process ended before it served, and its counters with it.
    drops_unseen: bool,
    /// The checkers that count; all if none is named.
    checkers: Vec<Checker>,
    violation: Option<Violation>,
}

/// A message, or a will.
pub(crate) struct Message {
    topic: usize,
    qos: u8,
    retain: bool,
    length: u32,
    /// When it was first sent.
    sent: u64,
    /// How often it was sent.
    sends: u32,
    acked: u64,
    /// When it cannot take effect any more.
    ended: u64,
    on_disk: bool,
    /// The durable queues it was put into, a bit a client.
    queued: u64,
    /// Those that it left because of their bound.
    dropped: u64,
    /// The connection attempt whose will it is.
    will_of: Option<usize>,
}

/// What the broker owes one client.
struct ClientModel {
    /// Whether the session at hand outlives its connection.
    session_durable: bool,
    /// Whether a session may be there, or may not.
    maybe_present: bool,
    maybe_absent: bool,
    /// Counts the sessions it has had.
    incarnation: u32,
    /// By filter.
    subscriptions: Vec<Subscription>,
    subscribes: Vec<SubscribeAttempt>,
    attempts: Vec<Attempt>,
    presence: Presence,
    /// By publisher, then by sequence.
    records: Vec<Vec<Record>>,
    /// By publisher, topic, QoS published and delivered: the last message that came for the first time.
    newest: BTreeMap<(u32, usize, u8, u8), u32>,
    owed: BTreeSet<MessageKey>,
    /// When it received a message last.
    received_at: u64,
    /// By topic.
    retained_owed: BTreeMap<usize, u64>,
    /// By topic: when a retained message last came. It may come before the SUBACK.
    retained_seen: BTreeMap<usize, u64>,
    /// Messages whose last answer was written, with the number of that write, while nothing proves that the
    /// broker has it on disk.
    settling: VecDeque<(u64, u64, MessageKey)>,
}

/// A SUBSCRIBE, for what it may have brought.
struct SubscribeAttempt {
    filter: usize,
    ticket: u64,
    sent: u64,
    answered: u64,
}

impl Model {
    pub(crate) fn new(scenario: &Scenario) -> Model {
        let mut topics = Topics::default();
        for client in &scenario.clients {
            for operation in &client.operations {
                match &operation.action {
                    Action::Publish { topic, .. } => {
                        topics.topic(topic);
                    }
                    Action::Subscribe { filter, more, .. } => {
                        topics.filter(filter);
                        for (filter, _) in more {
                            topics.filter(filter);
                        }
                    }
                    Action::Unsubscribe { filter, more } => {
                        topics.filter(filter);
                        for filter in more {
                            topics.filter(filter);
                        }
                    }
                    _ => {}
                }
            }
            if let Some(will) = &client.will {
                topics.topic(&will.topic);
            }
        }
        let publishers = scenario.clients.len();
        let clients = scenario.clients.iter().map(|_| ClientModel::new(topics.filter_count(), publishers));
        Model {
            now: 0,
            messages: (0..publishers).map(|_| Vec::new()).collect(),
            clients: clients.collect(),
            ids: scenario.clients.iter().map(|client| client.id.clone()).collect(),
            retained: vec![Vec::new(); topics.topic_count()],
            topics,
            crashes: Vec::new(),
            bounded: scenario.has_bounded_queues(),
            slow_disk: scenario.has_slow_disk(),
            full_disk: scenario.has_full_disk(),
            inflight_max: 0,
            expiry_ms: shortest_expiry_ms(scenario),
            expiry_may_be_off: scenario.all_settings().any(|settings| settings.limits.session_expiry_ms == 0),
            expiry_in_force: false,
            wall: WallClock::new(scenario.clock.wall_ppm),
            unheard_since_ms: None,
            tickets: 0,
            debts: 0,
            drops_known: 0,
            drops_counted: 0,
            drops_unknown: false,
            drops_unseen: false,
            checkers: scenario.checkers.clone(),
            violation: None,
        }
    }

    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// How often something acknowledged was owed to a subscriber.
    pub(crate) fn debts(&self) -> u64 {
        self.debts
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Notes a broken promise, if its checker counts; the first one stays.
    pub(crate) fn fail(&mut self, checker: Checker, subject: impl Into<String>, text: impl Into<String>) {
        if !self.checkers.is_empty() && !self.checkers.contains(&checker) {
            return;
        }
        let at_us = self.now;
        let broken = || Violation { checker, subject: subject.into(), text: text.into(), at_us };
        self.violation.get_or_insert_with(broken);
    }

    /// A message that its publisher is going to send.
    pub(crate) fn new_message(
        &mut self,
        publisher: usize,
        topic: &str,
        qos: u8,
        retain: bool,
        length: u32,
    ) -> MessageKey {
        let topic = self.topics.topic(topic);
        let messages = &mut self.messages[publisher];
        messages.push(Message {
            topic,
            qos,
            retain,
            length,
            sent: NEVER,
            sends: 0,
            acked: NEVER,
            ended: NEVER,
            on_disk: false,
            queued: 0,
            dropped: 0,
            will_of: None,
        });
        MessageKey { publisher: publisher as u32, sequence: messages.len() as u32 - 1 }
    }

    /// A PUBLISH was written. `again` tells that it was written on this connection before.
    pub(crate) fn publish_sent(&mut self, key: MessageKey, again: bool) {
        let now = self.now;
        let message = self.message_mut(key);
        message.sends += 1;
        if again && message.qos == 1 {
            // Its copies may take effect one after the other, the last one long after the first answer.
            message.ended = NEVER - 1;
        }
        if message.sent == NEVER {
            message.sent = now;
            if message.retain {
                self.retained_tried(key);
            }
        }
    }

    /// The PUBACK or PUBREC came.
    pub(crate) fn publish_acked(&mut self, key: MessageKey) {
        let now = self.now;
        let message = self.message_mut(key);
        message.acked = now;
        if message.ended == NEVER {
            message.ended = now;
        }
        let (topic, sent, qos, length) = (message.topic, message.sent, message.qos, message.length);
        if length == 0 || qos == 0 {
            return;
        }
        for client in 0..self.clients.len() {
            let granted = self.certainly_granted(client, topic, sent);
            if granted.is_none_or(|qos| qos == 0) || (self.bounded && !self.is_still_queued(client, key)) {
                continue;
            }
            if self.record(client, key).live == 0 {
                self.clients[client].owed.insert(key);
                self.debts += 1;
            }
        }
    }

    /// The disk is not to be believed from now on, so nobody can tell what was dropped at bounds.
    pub(crate) fn disk_lies(&mut self) {
        if self.bounded {
            self.drops_unknown = true;
            self.clients.iter_mut().for_each(|client| client.owed.clear());
        }
    }

    /// Whether the disk has put the message into the client's queue and not taken it out at its bound.
    fn is_still_queued(&self, client: usize, key: MessageKey) -> bool {
        let message = self.message(key);
        !self.drops_unknown && message.queued & !message.dropped & 1 << client != 0
    }

    /// The publisher will not send it again, and nothing of it is on its way.
    pub(crate) fn publish_abandoned(&mut self, key: MessageKey) {
        let now = self.now;
        let message = self.message_mut(key);
        if message.ended == NEVER {
            message.ended = now;
        }
    }

    /// Whether the answer to this message waits for the disk.
    pub(crate) fn waits_for_disk(&self, key: MessageKey) -> bool {
        let message = self.message(key);
        let routed = |client: &usize| {
            self.clients[*client].session_durable
                && self.certainly_granted(*client, message.topic, message.sent).is_some_and(|qos| qos > 0)
        };
        message.retain || (message.qos > 0 && (0..self.clients.len()).any(|client| routed(&client)))
    }

    /// Whether its answer proves that everything its publisher wrote before is on the disk.
    pub(crate) fn proves_disk(&self, key: MessageKey) -> bool {
        self.message(key).length > 0
            && self.message(key).sends == 1
            && !self.bounded
            && self.waits_for_disk(key)
    }

    /// So many messages are on their way to the client that it has not answered to the end.
    pub(crate) fn in_flight(&mut self, client: usize, count: usize) {
        if count > self.inflight_max {
            let text =
                format!("client {client} has {count} messages in flight; the limit is {}", self.inflight_max);
            self.fail(Checker::Window, format!("client {client}"), text);
        }
    }

    /// The answer to this message leaves the broker; `retained` tells what a topic retains on the disk.
    pub(crate) fn answer_leaves(&mut self, key: MessageKey, retained: impl Fn(&str) -> Option<MessageKey>) {
        let message = self.message(key);
        let missing = if message.length == 0 {
            // Nothing that was acknowledged before this was sent may still be there.
            let there = retained(self.topics.name(message.topic)).filter(|_| message.retain);
            there
                .filter(|there| self.message(*there).ended < message.sent)
                .map(|there| format!("{there} is still retained there"))
        } else if !message.on_disk && self.waits_for_disk(key) && (message.retain || !self.bounded) {
            Some(
                "the message is not there, though a durable session or the retained store needs it"
                    .to_owned(),
            )
        } else {
            self.missing_in_queue(key)
        };
        if let Some(missing) = missing {
            let text = format!("the answer to {key} leaves, and by the records on the disk {missing}");
            self.fail(Checker::AckBeforeDisk, key.to_string(), text);
        }
    }

    /// A durable session that must have the message in its queue and has not, in words.
    fn missing_in_queue(&mut self, key: MessageKey) -> Option<String> {
        if self.bounded {
            self.note_passed_by(key);
            return None;
        }
        let client = self.not_queued(key)?;
        Some(format!("it is not in the queue of client {client}, which has an acknowledged subscription"))
    }

    /// A client with a durable session that must have the message in its queue and has not, for all that is known.
    fn not_queued(&self, key: MessageKey) -> Option<usize> {
        let message = self.message(key);
        if message.qos == 0 {
            return None;
        }
        let owed = |client: &usize| {
            self.clients[*client].session_durable
                && (message.queued | message.dropped) & 1 << client == 0
                && self.certainly_granted(*client, message.topic, message.sent).is_some_and(|qos| qos > 0)
        };
        (0..self.clients.len()).find(owed)
    }

    /// The message was seen on the disk, in the queues of these clients.
    pub(crate) fn stored(&mut self, key: MessageKey, clients: &[Box<str>]) {
        let queued = clients.iter().filter_map(|id| self.ids.iter().position(|known| **known == **id));
        let queued = queued.fold(0, |queued, client| queued | 1 << client);
        let found =
            self.messages.get_mut(key.publisher as usize).and_then(|all| all.get_mut(key.sequence as usize));
        if let Some(message) = found {
            message.on_disk = true;
            message.queued |= queued;
        }
    }

    /// Whether sessions of clients that are away expire, and have done so under all settings.
    pub(crate) fn sessions_expire(&self) -> bool {
        self.expiry_in_force && !self.expiry_may_be_off
    }

    /// From now on these limits are in force. What is on its way to clients is so by the limits before.
    pub(crate) fn settings_change(&mut self, limits: &Limits) {
        self.inflight_max = self.inflight_max.max(limits.inflight);
        self.expiry_in_force = limits.session_expiry_ms > 0;
    }

    /// The broker's process ended without having been asked to.
    pub(crate) fn crashed(&mut self) {
        self.crashes.push(self.now);
    }

    /// A SUBSCRIBE was written, or an UNSUBSCRIBE, which names no QoS; the ticket to name it by.
    pub(crate) fn request_sent(&mut self, client: usize, filter: &str, qos: Option<u8>) -> u64 {
        self.tickets += 1;
        let (now, ticket, filter) = (self.now, self.tickets, self.topics.filter(filter));
        self.clients[client].subscriptions[filter].sent(now, ticket, qos);
        let client = &mut self.clients[client];
        if qos.is_some() {
            client.subscribes.push(SubscribeAttempt { filter, ticket, sent: now, answered: NEVER });
        }
        if qos.is_none_or(|qos| qos == 0) {
            // What was not queued yet is not owed any more, or may be lost with the connection.
            client.retained_owed.retain(|topic, _| !self.topics.matching(filter, *topic));
        }
        ticket
    }

    /// Its acknowledgement came; a SUBACK grants a QoS.
    pub(crate) fn request_acked(&mut self, client: usize, filter: &str, ticket: u64, granted: Option<u8>) {
        let (now, filter) = (self.now, self.topics.filter(filter));
        self.clients[client].subscriptions[filter].acked(now, ticket, granted);
        let Some(granted) = granted else { return };
        let mut attempts = self.clients[client].subscribes.iter_mut();
        let Some(attempt) = attempts.find(|attempt| attempt.ticket == ticket) else { return };
        attempt.answered = now;
        let sent = attempt.sent;
        if self.clients[client].subscriptions[filter].certain_since(now).is_none_or(|qos| qos == 0) {
            return; // it is changed again, perhaps
        }
        self.owe_retained(client, filter, granted, sent);
    }

    /// It was refused, which only a full disk allows.
    pub(crate) fn request_refused(&mut self, client: usize, filter: &str, ticket: u64) {
        let (now, filter) = (self.now, self.topics.filter(filter));
        self.clients[client].subscriptions[filter].refused(now, ticket);
    }

    /// Whether queues have bounds of their own at some time.
    pub(crate) fn has_bounded_queues(&self) -> bool {
        self.bounded
    }

    /// Whether the broker may refuse for lack of space.
    pub(crate) fn allows_refusals(&self) -> bool {
        self.full_disk
    }

    /// A CONNECT was written that starts afresh: whatever the session was owed is not owed any more.
    pub(crate) fn clean_connect_sent(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.owed.clear();
        client.retained_owed.clear();
        client.subscriptions.iter_mut().for_each(Subscription::doubt);
        client.maybe_absent = true;
    }

    /// A CONNACK came: whether it tells the truth about the session.
    pub(crate) fn connected(&mut self, client: usize, clean: bool, present: bool) {
        let state = &mut self.clients[client];
        let true_to_it = if clean {
            !present
        } else {
            let absence = state.maybe_absent || state.presence.absence_explained;
            (present && state.maybe_present) || (!present && absence)
        };
        if !present {
            state.start_afresh();
        }
        state.session_durable = !clean;
        (state.maybe_present, state.maybe_absent) = (!clean, clean);
        if !true_to_it {
            let text = format!("client {client} is told session present = {present}, which is not so");
            self.fail(Checker::SessionPresent, format!("client {client}"), text);
        }
    }

    /// The connection is over, as the client sees it. `handshake` tells that CONNACK had not come.
    pub(crate) fn connection_over(&mut self, client: usize, clean: bool, handshake: bool) {
        let state = &mut self.clients[client];
        state.settling.clear();
        if clean {
            state.owed.clear();
            state.retained_owed.clear();
            state.subscriptions.iter_mut().for_each(Subscription::doubt);
            if !handshake {
                // Whatever session comes next is another one, even if its CONNACK is lost.
                state.incarnation += 1;
                state.newest.clear();
            }
        } else if handshake {
            state.maybe_present = true;
        }
    }

    /// The least QoS that some matching subscription of the client has had for certain since then.
    fn certainly_granted(&self, client: usize, topic: usize, since: u64) -> Option<u8> {
        if self.may_have_expired(client) {
            return None;
        }
        let subscriptions = self.clients[client].subscriptions.iter().enumerate();
        let matching = subscriptions.filter(|(filter, _)| self.topics.matching(*filter, topic));
        matching.filter_map(|(_, subscription)| subscription.certain_since(since)).max()
    }

    fn message(&self, key: MessageKey) -> &Message {
        &self.messages[key.publisher as usize][key.sequence as usize]
    }

    fn message_mut(&mut self, key: MessageKey) -> &mut Message {
        &mut self.messages[key.publisher as usize][key.sequence as usize]
    }
}

/// The shortest time that any settings of the scenario leave a client that is away; 0 if none does.
fn shortest_expiry_ms(scenario: &Scenario) -> i64 {
    let expiries = scenario.all_settings().map(|settings| settings.limits.session_expiry_ms);
    expiries.filter(|expiry_ms| *expiry_ms > 0).min().map_or(0, |expiry_ms| expiry_ms as i64)
}

impl ClientModel {
    fn new(filters: usize, publishers: usize) -> ClientModel {
        ClientModel {
            session_durable: false,
            maybe_present: false,
            maybe_absent: true,
            incarnation: 0,
            subscriptions: vec![Subscription::default(); filters],
            subscribes: Vec::new(),
            attempts: Vec::new(),
            presence: Presence::default(),
            records: (0..publishers).map(|_| Vec::new()).collect(),
            newest: BTreeMap::new(),
            owed: BTreeSet::new(),
            received_at: 0,
            retained_owed: BTreeMap::new(),
            retained_seen: BTreeMap::new(),
            settling: VecDeque::new(),
        }
    }

    /// A new session: nothing of an earlier one counts.
    fn start_afresh(&mut self) {
        self.incarnation += 1;
        self.presence.in_doubt = false;
        self.subscriptions.fill(Subscription::default());
        self.subscribes.clear();
        self.newest.clear();
        self.owed.clear();
        self.retained_owed.clear();
    }
}
