//! What a subscriber receives is right: asked for, as published, in order, not too often, not after it was
//! settled, and a redelivery says so.

use super::{Message, Model};
use crate::outcome::Checker;
use crate::payload::{self, MessageKey};

/// A PUBLISH that a client received.
pub(crate) struct Delivery<'a> {
    pub(crate) client: usize,
    pub(crate) attempt: usize,
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) packet_id: u16,
    /// Not a QoS 2 packet whose id the client has and has not released.
    pub(crate) fresh: bool,
    pub(crate) identifiers: &'a [u32],
}

/// What a client knows of a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Record {
    /// Times it was handed to the application, retained copies aside.
    pub(super) live: u32,
    /// Of these, with each QoS.
    by_qos: [u32; 3],
    incarnation: u32,
    /// The connection attempt that brought it last.
    attempt: usize,
    /// Times on that one.
    on_attempt: u32,
    packet_id: u16,
    qos: u8,
    /// Its settlement is on the broker's disk.
    settled: bool,
}

impl Model {
    /// A client received a message. Tells which, if it is one that can be told.
    pub(crate) fn delivered(&mut self, delivery: &Delivery<'_>) -> Option<MessageKey> {
        self.clients[delivery.client].received_at = self.now;
        let Some(topic) = self.topics.number(delivery.topic) else {
            self.invented(delivery, "to a topic nobody publishes to");
            return None;
        };
        if delivery.payload.is_empty() {
            self.emptiness_delivered(delivery, topic);
            return None;
        }
        let known = payload::recognise(delivery.payload).filter(|key| {
            let messages = self.messages.get(key.publisher as usize);
            messages
                .and_then(|all| all.get(key.sequence as usize))
                .is_some_and(|message| message.sent <= self.now)
        });
        let Some(key) = known else {
            self.invented(delivery, "with a payload nobody sent");
            return None;
        };
        if self.message(key).topic != topic {
            self.invented(delivery, "with the payload of another topic");
            return Some(key);
        }
        self.check_granted(delivery, key);
        self.check_identifiers(delivery, key);
        self.check_retain_kept(delivery, key);
        if self.message(key).refused {
            let text = format!("client {} receives {key}, which the broker had refused", delivery.client);
            self.fail(Checker::Invented, format!("client {} {key}", delivery.client), text);
        }
        if self.message(key).will_of.is_some() {
            self.will_delivered(key);
        }
        if let Some(group) = self.group_of(delivery.client, topic) {
            if delivery.fresh {
                self.shared_delivered(group, delivery, key);
            }
        } else if delivery.retain && !self.keeps_retain(delivery.client) {
            self.retained_delivered(delivery, topic, key);
        } else if delivery.fresh {
            self.live_delivered(delivery, key);
        }
        Some(key)
    }

    /// The client has written its last answer to a message, as its `write`-th write of this connection.
    pub(crate) fn settled(&mut self, client: usize, key: MessageKey, write: u64) {
        let now = self.now;
        self.clients[client].settling.push_back((write, now, key));
    }

    /// What a client settled before this write of its connection is on the broker's disk.
    pub(crate) fn settlements_proven(&mut self, client: usize, write: u64) {
        self.prove(client, |(settled, _, _)| *settled < write);
    }

    /// What any client settled before this time is on the broker's disk.
    pub(crate) fn settlements_proven_until(&mut self, until: u64) {
        for client in 0..self.clients.len() {
            self.prove(client, |(_, settled_at, _)| *settled_at < until);
        }
    }

    fn prove(&mut self, client: usize, proven: impl Fn(&(u64, u64, MessageKey)) -> bool) {
        while let Some(entry) = self.clients[client].settling.front().filter(|entry| proven(entry)) {
            let key = entry.2;
            self.clients[client].settling.pop_front();
            self.record_mut(client, key).settled = true;
            self.shared_settled(client, key);
        }
    }

    pub(super) fn record(&self, client: usize, key: MessageKey) -> Record {
        let state = &self.clients[client];
        let records = &state.records[key.publisher as usize];
        let record = records.get(key.sequence as usize).copied();
        record.filter(|record| record.incarnation == state.incarnation).unwrap_or_default()
    }

    fn record_mut(&mut self, client: usize, key: MessageKey) -> &mut Record {
        let state = &mut self.clients[client];
        let records = &mut state.records[key.publisher as usize];
        if records.len() <= key.sequence as usize {
            records.resize(key.sequence as usize + 1, Record::default());
        }
        let record = &mut records[key.sequence as usize];
        if record.incarnation != state.incarnation {
            *record = Record { incarnation: state.incarnation, ..Record::default() };
        }
        record
    }

    fn invented(&mut self, delivery: &Delivery<'_>, what: &str) {
        let text =
            format!("client {} receives a message {what}: topic {:?}", delivery.client, delivery.topic);
        self.fail(Checker::Invented, format!("client {}", delivery.client), text);
    }

    /// The QoS is the lesser of what was published and what some subscription of the time was granted.
    fn check_granted(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let message = self.message(key);
        let state = &self.clients[delivery.client];
        let subscriptions = state.subscriptions.iter().enumerate();
        // What a topic retains comes to its own publisher, too.
        let live = !delivery.retain || self.keeps_retain(delivery.client);
        let matching = subscriptions.filter(|(filter, _)| {
            let deaf = live && self.is_deaf(delivery.client, *filter, key);
            self.topics.matching(*filter, message.topic) && !deaf
        });
        let possible =
            matching.fold(0, |mask, (_, subscription)| mask | subscription.possible_since(message.sent));
        let published = message.qos;
        let group = self.group_of(delivery.client, message.topic);
        let most = group.map_or(4, |group| self.granted_to_group(group, message.sent));
        let explained = (0..3).any(|granted: u8| {
            let levels = (0..3).filter(|level: &u8| most & 1 << level != 0);
            let mut brought = levels.map(|level| granted.min(published).min(level));
            possible & 1 << granted != 0 && brought.any(|qos| qos == delivery.qos)
        });
        if !explained {
            let text = format!(
                "client {} receives {key} (published with QoS {published}) with QoS {}, which no subscription it \
                 may have had since then explains",
                delivery.client, delivery.qos
            );
            self.fail(Checker::Invented, format!("client {} {key}", delivery.client), text);
        }
    }

    fn live_delivered(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let before = self.record(delivery.client, key);
        if before.settled {
            self.check_settled(delivery, key);
        }
        let again = before.live > 0 && before.attempt == delivery.attempt;
        let on_attempt = if again { before.on_attempt + 1 } else { 1 };
        if before.live == 0 {
            self.check_order(delivery, key);
        } else {
            self.check_redelivery(delivery, key, &before);
        }
        let live = before.live + 1;
        let mut by_qos = before.by_qos;
        by_qos[usize::from(delivery.qos)] += 1;
        self.check_copies(delivery, key, by_qos[usize::from(delivery.qos)], on_attempt);
        let record = self.record_mut(delivery.client, key);
        record.live = live;
        record.by_qos = by_qos;
        record.attempt = delivery.attempt;
        record.on_attempt = on_attempt;
        record.packet_id = delivery.packet_id;
        record.qos = delivery.qos;
        let (now, topic, retained) = (self.now, self.message(key).topic, self.message(key).retain);
        let state = &mut self.clients[delivery.client];
        state.owed.remove(&key);
        if retained {
            // It took the place of what the topic retained, perhaps before that was sent.
            state.retained_seen.insert(topic, now);
            state.retained_owed.remove(&topic);
        }
    }

    /// How often a message may come: QoS 2 once; QoS 0 as often as it was sent; QoS 1 so often on one
    /// connection, and again on every other.
    fn check_copies(&mut self, delivery: &Delivery<'_>, key: MessageKey, copies: u32, on_attempt: u32) {
        let message = self.message(key);
        let sends = message.sends.max(1);
        let (count, allowed) = match (message.qos, delivery.qos) {
            (2, 2) => (copies, 1),
            (_, 1) => (on_attempt, sends),
            (_, _) => (copies, sends),
        };
        // A will is published once more when the broker crashed before that was on the disk.
        let repeated = self.crashes.iter().filter(|crash| **crash >= message.sent).count() as u32;
        let may_repeat = message.will_of.is_some() && delivery.qos < 2;
        let allowed = if may_repeat { allowed + repeated } else { allowed };
        if count > allowed {
            let text = format!(
                "client {} receives {key} with QoS {} for the {count}. time, and may receive it so {allowed} times at the \
                 most: its publisher sent it {sends} times with QoS {}",
                delivery.client, delivery.qos, message.qos
            );
            self.fail(Checker::Duplicate, format!("client {} {key}", delivery.client), text);
        }
    }

    /// First deliveries come in the order of publishing, per publisher, topic and QoS ([MQTT-4.6.0-6]).
    fn check_order(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let message = self.message(key);
        if message.will_of.is_some() {
            return;
        }
        let &Message { topic, sends, sent, qos: published, expiry_s, .. } = message;
        let flow = (key.publisher, topic, published, delivery.qos);
        let newest = self.clients[delivery.client].newest.get(&flow).copied();
        let Some(newest) = newest.filter(|newest| *newest > key.sequence) else {
            self.clients[delivery.client].newest.insert(flow, key.sequence);
            return;
        };
        // Sent twice, its first copy may have come while nobody was subscribed, been dropped at a bound, or expired.
        let granted = self.certainly_granted(delivery.client, key, sent);
        let subscribed = delivery.qos > 0 && !self.bounded && granted.is_some_and(|qos| qos > 0);
        // Expired before it was sent, it was passed by; a crash may have forgotten that, and nobody knows what was sent before.
        let forgotten = delivery.dup && self.crashes.iter().any(|crash| *crash >= sent);
        if forgotten && self.message_may_have_expired(key) {
            return;
        }
        if sends == 1 || subscribed && (published == 2 || expiry_s.is_none()) {
            let later = MessageKey { sequence: newest, ..key };
            let text = format!("client {} receives {key} for the first time after {later}", delivery.client);
            self.fail(Checker::Order, format!("client {} {key}", delivery.client), text);
        }
    }

    /// What comes again on another connection carries DUP and the same packet id ([MQTT-3.3.1-1], [MQTT-4.4.0-1]).
    fn check_redelivery(&mut self, delivery: &Delivery<'_>, key: MessageKey, before: &Record) {
        let message = self.message(key);
        let one_copy = message.sends == 1 || (message.qos == 2 && delivery.qos == 2);
        let comparable =
            one_copy && delivery.qos > 0 && before.qos == delivery.qos && message.will_of.is_none();
        if !comparable || before.attempt == delivery.attempt {
            return;
        }
        if !delivery.dup || before.packet_id != delivery.packet_id {
            let text = format!(
                "client {} receives {key} again with DUP = {} and packet id {}; it came before with packet id {}",
                delivery.client, delivery.dup, delivery.packet_id, before.packet_id
            );
            self.fail(Checker::Redelivery, format!("client {} {key}", delivery.client), text);
        }
    }

    fn check_settled(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let Message { sends, qos, .. } = self.message(key);
        if *sends <= 1 || *qos == 2 {
            let text = format!(
                "client {} receives {key} again, though it had answered it and a later answer of the broker proves \
                 that this was on the disk",
                delivery.client
            );
            self.fail(Checker::CameBack, format!("client {} {key}", delivery.client), text);
        }
    }

    /// An empty payload cannot say who it is: somebody must have sent one to this topic.
    fn emptiness_delivered(&mut self, delivery: &Delivery<'_>, topic: usize) {
        if delivery.retain && !self.keeps_retain(delivery.client) {
            self.fail(
                Checker::Retained,
                delivery.topic,
                format!(
                    "client {} receives a retained message without payload ([MQTT-3.3.1-11])",
                    delivery.client
                ),
            );
        }
        let sent = |message: &Message| message.topic == topic && message.length == 0 && message.sends > 0;
        if !self.messages.iter().flatten().any(sent) {
            self.invented(delivery, "without payload, as nobody sent");
        }
    }
}
