//! What the clients know, and so what the broker owes: the reference that every run is checked against.
//!
//! The model sees only what a client sees (what it sent, what it received, when), never the broker's mind. A
//! fact counts from the moment its acknowledgement is received; before, both outcomes are right.

mod audit;
mod delivery;
mod drops;
mod expiring;
mod expiry;
mod group;
mod options;
mod presence;
mod publishing;
mod retained;
mod subscription;
mod topic;
mod will;

pub(crate) use delivery::Delivery;
pub(crate) use topic::matches;
pub(crate) use will::Ending;

use crate::clock::WallHistory;
use crate::outcome::{Checker, Violation};
use crate::payload::MessageKey;
use crate::scenario::{Action, Asked, ClientProgram, Mqtt5, Scenario};
use delivery::Record;
use expiry::{Expiry, Stay};
use group::Group;
use options::Brings;
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
    groups: Vec<Group>,
    /// When a session may have ended last.
    session_ended: u64,
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
    /// How long sessions stay of clients that are away, by the settings.
    expiry: Expiry,
    /// The broker has taken note of the time ever since then.
    awake_since: u64,
    /// The wall clock has jumped, and the broker has not looked at it yet.
    asleep: bool,
    /// When the process at hand, or the last one, began to serve.
    serving_since: u64,
    wall: WallHistory,
    /// The least that the wall clock has shown since the broker did what nobody has heard of yet, and when that began.
    unheard_since_ms: Option<i64>,
    unheard_since: Option<u64>,
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
    /// Seconds after which it is of no use, from when the broker takes it.
    expiry_s: Option<u32>,
    /// When it was first sent.
    sent: u64,
    /// How often it was sent.
    sends: u32,
    acked: u64,
    /// When it cannot take effect any more.
    ended: u64,
    on_disk: bool,
    /// The broker said that it does not take it.
    refused: bool,
    /// The durable queues it was put into, a bit a client.
    queued: u64,
    /// The backlogs of durable groups that it was put into, a bit a group.
    queued_in_groups: u64,
    /// Those that it left because of their bound.
    dropped: u64,
    /// The connection attempt whose will it is.
    will_of: Option<usize>,
}

/// What the broker owes one client.
struct ClientModel {
    /// What it asks for, if its version is MQTT 5.
    asks: Option<Mqtt5>,
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
    /// The attempt that was told last that there was no session before.
    began: usize,
    presence: Presence,
    /// How long its session stays when it is away, if it is of MQTT 5.
    stays: Stay,
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
    /// Whether it brings retained messages.
    brings_retained: Brings,
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
        let new = |program| ClientModel::new(program, topics.filter_count(), publishers);
        let clients: Vec<ClientModel> = scenario.clients.iter().map(new).collect();
        Model {
            now: 0,
            messages: (0..publishers).map(|_| Vec::new()).collect(),
            clients,
            groups: (0..topics.filter_count())
                .filter(|filter| topics.is_shared(*filter))
                .map(Group::new)
                .collect(),
            session_ended: 0,
            ids: scenario.clients.iter().map(|client| client.id.clone()).collect(),
            retained: vec![Vec::new(); topics.topic_count()],
            topics,
            crashes: Vec::new(),
            bounded: scenario.has_bounded_queues(),
            slow_disk: scenario.has_slow_disk(),
            full_disk: scenario.has_full_disk(),
            inflight_max: 0,
            expiry: Expiry::by_settings(scenario),
            awake_since: 0,
            asleep: false,
            serving_since: NEVER,
            wall: WallHistory::new(scenario.clock.wall_ppm),
            unheard_since_ms: None,
            unheard_since: None,
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

    /// So many messages are on their way to the client that it has not answered to the end.
    pub(crate) fn in_flight(&mut self, client: usize, count: usize) {
        let takes = self.clients[client].asks.as_ref().map_or(usize::MAX, |asks| asks.receive_maximum.into());
        let limit = self.inflight_max.min(takes); // [MQTT-3.3.4-9] of MQTT 5
        if count > limit {
            let text = format!("client {client} has {count} messages in flight; the limit is {limit}");
            self.fail(Checker::Window, format!("client {client}"), text);
        }
    }

    /// From now on these limits are in force. What is on its way to clients is so by the limits before.
    pub(crate) fn settings_change(&mut self, limits: &Limits) {
        self.inflight_max = self.inflight_max.max(limits.inflight);
        self.expiry.in_force = limits.session_expiry_ms > 0;
    }

    /// The broker's process ended without having been asked to.
    pub(crate) fn crashed(&mut self) {
        self.crashes.push(self.now);
    }

    /// A SUBSCRIBE was written, or an UNSUBSCRIBE, which names no QoS; the ticket to name it by.
    pub(crate) fn request_sent(&mut self, client: usize, filter: &str, qos: Option<u8>) -> u64 {
        self.tickets += 1;
        let (now, ticket, filter) = (self.now, self.tickets, self.topics.filter(filter));
        let brings_retained = self.brings_retained(client, filter);
        self.clients[client].subscriptions[filter].sent(now, ticket, qos);
        let client = &mut self.clients[client];
        let shared = self.topics.is_shared(filter);
        if qos.is_some() && !shared {
            let answered = NEVER;
            client.subscribes.push(SubscribeAttempt { filter, ticket, sent: now, answered, brings_retained });
        }
        if qos.is_none_or(|qos| qos == 0) && !shared {
            // What was not queued yet is not owed any more, or may be lost with the connection.
            client.retained_owed.retain(|topic, _| !self.topics.matching(filter, *topic));
        }
        self.review_groups(false);
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
        let (sent, brings) = (attempt.sent, attempt.brings_retained);
        if brings != Brings::Certainly
            || self.clients[client].subscriptions[filter].certain_since(now).is_none_or(|qos| qos == 0)
        {
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

    /// A CONNECT was written after which the session that was there may be gone: nothing is owed to it any more.
    fn session_may_end(&mut self, client: usize) {
        let client = &mut self.clients[client];
        client.owed.clear();
        client.retained_owed.clear();
        client.subscriptions.iter_mut().for_each(Subscription::doubt);
        client.maybe_absent = true;
        self.review_groups(true);
    }

    /// A CONNACK came: whether it tells the truth about the session.
    pub(crate) fn connected(&mut self, client: usize, asked: Asked, present: bool) {
        let state = &mut self.clients[client];
        let true_to_it = if asked == Asked::Clean {
            !present
        } else {
            let absence = state.maybe_absent || state.presence.absence_explained;
            (present && state.maybe_present) || (!present && absence)
        };
        if !present {
            self.member_begins_afresh(client);
            self.clients[client].start_afresh();
        }
        let state = &mut self.clients[client];
        state.session_durable = !asked.ends();
        (state.maybe_present, state.maybe_absent) = (!asked.ends(), asked.ends());
        self.review_groups(!present);
        if !true_to_it {
            let text = format!("client {client} is told session present = {present}, which is not so");
            self.fail(Checker::SessionPresent, format!("client {client}"), text);
        }
    }

    /// The connection is over, as the client sees it, and its session perhaps ends with it. `handshake` tells that CONNACK
    /// had not come.
    pub(crate) fn connection_over(&mut self, client: usize, ends: bool, handshake: bool) {
        let state = &mut self.clients[client];
        state.settling.clear();
        if ends {
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
        if ends {
            self.review_groups(true);
        }
    }

    /// The least QoS that some subscription of the client that brings the message has had for certain since then.
    fn certainly_granted(&self, client: usize, key: MessageKey, since: u64) -> Option<u8> {
        if self.may_have_expired(client) || !self.certainly_fits(client, key) {
            return None;
        }
        let topic = self.message(key).topic;
        let subscriptions = self.clients[client].subscriptions.iter().enumerate();
        let matching = subscriptions.filter(|(filter, _)| {
            self.topics.matching(*filter, topic)
                && !self.topics.is_shared(*filter)
                && !self.is_deaf(client, *filter, key)
        });
        matching.filter_map(|(_, subscription)| subscription.certain_since(since)).max()
    }

    fn message(&self, key: MessageKey) -> &Message {
        &self.messages[key.publisher as usize][key.sequence as usize]
    }

    fn message_mut(&mut self, key: MessageKey) -> &mut Message {
        &mut self.messages[key.publisher as usize][key.sequence as usize]
    }
}

impl ClientModel {
    fn new(program: &ClientProgram, filters: usize, publishers: usize) -> ClientModel {
        ClientModel {
            asks: program.mqtt5.clone(),
            session_durable: false,
            maybe_present: false,
            maybe_absent: true,
            incarnation: 0,
            subscriptions: vec![Subscription::default(); filters],
            subscribes: Vec::new(),
            attempts: Vec::new(),
            began: 0,
            presence: Presence::default(),
            stays: Stay::asked(program.mqtt5.as_ref().map(|asks| asks.session_expiry_s)),
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
