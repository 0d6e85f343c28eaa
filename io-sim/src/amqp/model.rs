//! What is true of messages and queues, as it can be seen at the broker's end of the connections: what it has received,
//! what it has ordered to be sent.
//!
//! A copy of a message in a queue is ready, held by a consumer, settled, or given away. A crash makes everything that was
//! held ready again, and everything ready whose end was not on the disk for certain.

mod audit;
mod key;
mod transaction;

use super::scenario::{DEAD_QUEUE, QueuePlan, Scenario, plain};
use crate::outcome::{Checker, Violation};
pub(super) use key::Key;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use transaction::Transaction;
use vowmq_core::event::Event;
use vowmq_core::ids::{MessageId, QueueId};

/// What is published.
pub(super) struct Publication {
    /// Where it goes.
    pub(super) queues: Vec<usize>,
    pub(super) persistent: bool,
    /// It comes back if it goes nowhere.
    pub(super) mandatory: bool,
    /// Its expiration.
    pub(super) expires_ms: Option<u64>,
    /// Its exchange delays it so long.
    pub(super) delay_ms: Option<u64>,
}

/// A message.
struct Message {
    publication: Publication,
    fate: Fate,
    /// The broker did not publish it before this time, and did by that time.
    not_before_us: u64,
    by_us: Option<u64>,
}

/// A message on its way to a client.
pub(super) struct Delivery {
    pub(super) link: u64,
    pub(super) tag: u64,
    pub(super) queue: usize,
    pub(super) key: Key,
    pub(super) redelivered: bool,
    /// It counts as acknowledged.
    pub(super) no_ack: bool,
    /// It takes a place of its consumer's prefetch.
    pub(super) bounded: bool,
}

/// What its publisher knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The broker has it.
    Published,
    /// Part of a transaction that is not committed.
    Open,
    /// Part of this transaction, which was asked to be committed.
    Committing(u64),
    /// The publisher may rely on it.
    Confirmed,
    /// It was refused, or rolled back.
    Refused,
}

/// A message in a queue.
#[derive(Default)]
struct Copy {
    /// The connection that has it.
    holder: Option<u64>,
    /// The connection that it is on its way to, behind what has to leave before it.
    coming: Option<u64>,
    /// What its consumer wants to be done with it.
    asked: Option<How>,
    /// It was sent to some consumer, and may not have been settled.
    sent: bool,
    /// It was sent at some time.
    ever: bool,
    /// Its consumer has settled it, or given it away: it is not in the queue any more.
    settled: bool,
    /// A consumer has acknowledged it at some time.
    acknowledged: bool,
    /// Its consumer gave it away.
    rejected: bool,
    /// Nothing brings it back: its end is on the disk.
    for_good: bool,
    /// It was settled when the broker crashed, and that may have been lost.
    limbo: bool,
    /// A crash may have taken it.
    may_be_lost: bool,
    /// It may not have come there at all: its receiver was not there, or need not get it.
    excused: bool,
    /// The event after which it was ready again.
    ready_since: u64,
}

/// A connection, as the broker sees it.
#[derive(Default)]
pub(super) struct Link {
    /// Published in confirm mode, in their order; the first not confirmed.
    published: Vec<Key>,
    confirmed: u64,
    pub(super) transactional: bool,
    open: Vec<Key>,
    /// Answers that are not committed, by delivery.
    answers: Vec<(u64, (usize, Key, bool), How)>,
    committing: Vec<u64>,
    /// By delivery: queue, message, whether it takes a place of the prefetch.
    deliveries: BTreeMap<u64, (usize, Key, bool)>,
    returned: BTreeSet<Key>,
    /// Unsettled deliveries of each queue's consumer.
    unsettled: BTreeMap<usize, u64>,
    pub(super) prefetch: (u16, bool),
}

/// A delivery that was told as an event.
struct Told {
    lane: QueueId,
    message: MessageId,
    /// Which event that was, and when.
    event: u64,
    at_us: u64,
}

/// The truth.
pub(super) struct Model<'a> {
    scenario: &'a Scenario,
    /// All queues; behind the last the session of the listener.
    plans: Vec<QueuePlan>,
    /// The listener is subscribed.
    listens: bool,
    messages: BTreeMap<Key, Message>,
    copies: Vec<BTreeMap<Key, Copy>>,
    /// Of each queue and publisher: the last message that was sent for the first time, and when that was decided.
    first_sent: BTreeMap<(usize, u32), (u32, u64)>,
    links: BTreeMap<u64, Link>,
    /// Sent in the drain at hand: queue, message, sent for the first time, by which connection, at which event.
    drained: Vec<(usize, Key, bool, u64, u64)>,
    /// Deliveries that were told as events and have not passed the door: lane and message and the event, by connection.
    told: BTreeMap<u64, VecDeque<Told>>,
    /// Connections of clients that judge the broker themselves.
    aside: BTreeSet<u64>,
    /// Those of connections that ended before they passed: they count as sent, and nobody saw them.
    unseen: BTreeSet<(QueueId, MessageId)>,
    /// Events so far: what is sent leaves later than it was decided.
    events: u64,
    /// What those are that have.
    known: BTreeMap<(QueueId, MessageId), (usize, Key)>,
    /// Transactions whose commit was asked for and not answered.
    transactions: BTreeMap<u64, Transaction>,
    next_transaction: u64,
    crashes: u64,
    /// The broker was asked to end: it may dismiss everybody.
    pub(super) stopping: bool,
    now_us: u64,
    violation: Option<Violation>,
    pub(super) deliveries: u64,
}

impl<'a> Model<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Model<'a> {
        let session = QueuePlan { name: "the listener's session".to_owned(), ..plain(true) };
        let plans: Vec<QueuePlan> = scenario.queues.iter().cloned().chain([session]).collect();
        Model {
            scenario,
            messages: BTreeMap::new(),
            copies: plans.iter().map(|_| BTreeMap::new()).collect(),
            plans,
            listens: false,
            first_sent: BTreeMap::new(),
            links: BTreeMap::new(),
            drained: Vec::new(),
            told: BTreeMap::new(),
            aside: BTreeSet::new(),
            unseen: BTreeSet::new(),
            events: 0,
            known: BTreeMap::new(),
            transactions: BTreeMap::new(),
            next_transaction: 0,
            crashes: 0,
            stopping: false,
            now_us: 0,
            violation: None,
            deliveries: 0,
        }
    }

    pub(super) fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// The first promise that was broken.
    pub(super) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(super) fn fail(&mut self, checker: Checker, subject: impl fmt::Display, text: String) {
        let at_us = self.now_us;
        self.violation.get_or_insert(Violation { checker, subject: subject.to_string(), text, at_us });
    }

    pub(super) fn link(&mut self, link: u64) -> &mut Link {
        self.links.entry(link).or_default()
    }

    /// The broker has received a message.
    pub(super) fn published(&mut self, link: u64, key: Key, publication: Publication) {
        let its = self.link(link);
        let fate = if its.transactional { Fate::Open } else { Fate::Published };
        match its.transactional {
            true => its.open.push(key),
            false => its.published.push(key),
        }
        for queue in &publication.queues {
            let survives = publication.persistent && self.plans[*queue].durable;
            let excused = *queue == self.scenario.queues.len() && !(publication.persistent && self.listens);
            self.copies[*queue].insert(key, Copy { may_be_lost: !survives, excused, ..Copy::default() });
        }
        let (not_before_us, by_us) = (self.now_us, None);
        self.messages.insert(key, Message { publication, fate, not_before_us, by_us });
    }

    /// The client of this connection judges the broker itself.
    pub(super) fn set_aside(&mut self, link: u64) {
        self.aside.insert(link);
    }

    /// The listener's subscription is on the disk.
    pub(super) fn listens(&mut self) {
        self.listens = true;
    }

    fn set_fate(&mut self, key: Key, fate: Fate) {
        if let Some(message) = self.messages.get_mut(&key) {
            message.fate = fate;
            if fate == Fate::Confirmed {
                message.by_us.get_or_insert(self.now_us);
            }
        }
    }

    /// A mandatory message came back.
    pub(super) fn returned(&mut self, link: u64, key: Key) {
        if self.messages.get(&key).is_none_or(|message| !message.publication.queues.is_empty()) {
            self.fail(Checker::Invented, key, "it came back, though it has a queue to go to".to_owned());
        }
        self.link(link).returned.insert(key);
    }

    /// Confirms of all messages up to `tag`, or of it alone.
    pub(super) fn confirmed(&mut self, link: u64, tag: u64, multiple: bool, refused: bool) {
        let its = self.link(link);
        let first = if multiple { its.confirmed + 1 } else { tag };
        if tag > its.published.len() as u64 || tag <= its.confirmed || first != its.confirmed + 1 {
            let text = format!(
                "{tag} is confirmed (multiple: {multiple}) where {} were published and {} confirmed",
                its.published.len(),
                its.confirmed
            );
            return self.fail(Checker::Protocol, "broker", text);
        }
        its.confirmed = tag;
        let keys: Vec<Key> = its.published[first as usize - 1..tag as usize].to_vec();
        for key in keys {
            self.set_fate(key, if refused { Fate::Refused } else { Fate::Confirmed });
            let returns = |publication: &Publication| publication.mandatory && publication.queues.is_empty();
            let returns = self.messages.get(&key).is_some_and(|message| returns(&message.publication));
            if returns && !self.link(link).returned.contains(&key) {
                self.fail(Checker::Order, key, "it is confirmed before it has come back".to_owned());
            }
        }
    }

    /// A message is sent to a client.
    pub(super) fn sent(&mut self, delivery: Delivery) {
        self.deliveries += 1;
        let Delivery { link, tag, queue, key, redelivered, no_ack, bounded } = delivery;
        let is_dead_queue = queue + 1 == self.scenario.queues.len();
        let Some(routed) = self.check_origin(key, queue) else { return };
        let (mut decided, mut decided_us) = (self.events, self.now_us);
        // Of what goes to subscribers with QoS 0 nothing is told.
        let is_told = !(no_ack && queue == self.scenario.queues.len());
        let told = self.told.get_mut(&link).filter(|_| is_told).and_then(VecDeque::pop_front);
        let mut unseen = false;
        if let Some(told) = told {
            unseen = self.unseen.remove(&(told.lane, told.message));
            self.known.insert((told.lane, told.message), (queue, key));
            (decided, decided_us) = (told.event, told.at_us);
        }
        if routed {
            self.check_time(key, queue, redelivered, decided_us);
        }
        for transaction in self.transactions.values_mut() {
            if transaction.acknowledged.contains(&(queue, key)) {
                transaction.back.insert((queue, key));
            }
        }
        let crashes = self.crashes;
        let copy = self.copies[queue].entry(key).or_default();
        let (held, came_back, first) = (copy.holder, copy.for_good, !copy.sent);
        (copy.sent, copy.ever, copy.limbo) = (true, true, false);
        (copy.asked, copy.coming) = (None, None);
        match no_ack {
            true => (copy.settled, copy.acknowledged) = (true, true),
            false => copy.holder = Some(link),
        }
        // Several queues may have given it away.
        if is_dead_queue && self.messages[&key].publication.queues.len() > 1 {
            return;
        }
        if let Some(other) = held {
            return self.fail(Checker::Duplicate, key, format!("connection {other} holds it as well"));
        }
        if came_back {
            return self.fail(Checker::CameBack, key, format!("queue {queue} has settled it for good"));
        }
        if !first && !redelivered {
            return self.fail(Checker::Redelivery, key, "it was sent before, and is called new".to_owned());
        }
        if first && redelivered && crashes == 0 && !unseen {
            return self.fail(
                Checker::Redelivery,
                key,
                "it was never sent, and is called redelivered".to_owned(),
            );
        }
        // What was decided and never left keeps its place in the order of the first time.
        self.drained.push((queue, key, first && !unseen, link, decided));
        if !no_ack {
            let its = self.link(link);
            its.deliveries.insert(tag, (queue, key, bounded));
            *its.unsettled.entry(queue).or_default() += u64::from(bounded);
            self.check_prefetch(link, queue);
        }
    }

    /// Nothing is given out before its delay is over, or after it has expired. Clocks of brokers count milliseconds.
    fn check_time(&mut self, key: Key, queue: usize, redelivered: bool, decided_us: u64) {
        let message = &self.messages[&key];
        let Publication { expires_ms, delay_ms, .. } = message.publication;
        let decided_ms = decided_us / 1000;
        if let Some(delay_ms) = delay_ms {
            let from_ms = message.not_before_us / 1000 + delay_ms;
            if decided_ms < from_ms {
                let text = format!("it is given out at {decided_ms} ms, and not due before {from_ms} ms");
                return self.fail(Checker::Expiry, key, text);
            }
            return;
        }
        let ttl_ms = self.plans[queue].ttl_ms.map(u64::from);
        let Some(lives_ms) = expires_ms.into_iter().chain(ttl_ms).min() else { return };
        // What has no time at all goes to who takes it as it comes, once.
        let Some(by_us) = message.by_us.filter(|_| lives_ms > 0 || redelivered) else { return };
        let until_ms = by_us / 1000 + lives_ms;
        if decided_ms >= until_ms {
            let text =
                format!("it is given out at {decided_ms} ms, and expired at {until_ms} ms at the latest");
            self.fail(Checker::Expiry, key, text);
        }
    }

    /// Whether it was published to that queue, or is a dead letter there; none: neither, which is told.
    fn check_origin(&mut self, key: Key, queue: usize) -> Option<bool> {
        let is_dead_queue = queue + 1 == self.scenario.queues.len();
        let message = self.messages.get(&key);
        let fate = message.map(|message| message.fate);
        let routed = message.is_some_and(|message| message.publication.queues.contains(&queue));
        let wrong = match fate {
            None => "nobody published it".to_owned(),
            Some(_) if !routed && !is_dead_queue => {
                format!("queue {queue} gives it out, and nobody published it there")
            }
            Some(fate @ (Fate::Open | Fate::Refused)) if routed => {
                format!("it is given out, and was {fate:?}")
            }
            Some(_) if is_dead_queue && !self.may_be_dead(key) => {
                "it is a dead letter, and nobody gave it away".to_owned()
            }
            Some(_) => return Some(routed),
        };
        self.fail(Checker::Invented, key, wrong);
        None
    }

    fn check_prefetch(&mut self, link: u64, queue: usize) {
        let its = self.link(link);
        let (bound, global) = its.prefetch;
        let taken = match global {
            true => its.unsettled.values().sum(),
            false => its.unsettled[&queue],
        };
        if bound > 0 && taken > u64::from(bound) {
            self.fail(
                Checker::Window,
                format!("connection {link}"),
                format!("{taken} of {bound} are unsettled"),
            );
        }
    }

    fn may_be_dead(&self, key: Key) -> bool {
        let queues = self.plans.iter().zip(&self.copies);
        queues.into_iter().any(|(plan, copies)| {
            let expires = self.messages[&key].publication.expires_ms.is_some();
            let may_leave = |copy: &Copy| copy.rejected || plan.may_drop() || expires;
            plan.dead_letters && copies.get(&key).is_some_and(may_leave)
        })
    }

    /// All that one turn ordered to be sent is known.
    pub(super) fn drained(&mut self) {
        let mut drained = std::mem::take(&mut self.drained);
        // Within one turn those to different connections leave in any order.
        drained.sort_unstable();
        for (queue, key, first, link, decided) in drained {
            let (may_drop, priorities) = (self.plans[queue].may_drop(), self.plans[queue].priorities);
            let Publication { expires_ms, delay_ms, persistent, .. } = self.messages[&key].publication;
            let of_subscriber = queue == self.scenario.queues.len() && !persistent;
            let own_clock = expires_ms.is_some() || delay_ms.is_some() || of_subscriber;
            if priorities > 0 || !first || own_clock || queue + 1 == self.scenario.queues.len() {
                continue;
            }
            let last = self.first_sent.insert((queue, key.publisher), (key.number, decided));
            // What is behind a reply that is held leaves later than it was decided.
            let last = last.filter(|(last, its)| *last > key.number && *its < decided);
            if let Some((last, _)) = last {
                let text = format!("queue {queue} gave out number {last} of its publisher before it");
                self.fail(Checker::Order, key, text);
            }
            // A connection that has ended since has given everything back after that.
            if !may_drop && self.links.contains_key(&link) {
                self.check_nothing_stands_before(queue, key, decided);
            }
        }
    }

    /// What came back stands in its old place: nothing that was never sent is chosen before it from then on.
    fn check_nothing_stands_before(&mut self, queue: usize, key: Key, decided: u64) {
        // After a crash nobody knows what is on its way behind a reply that is held.
        let unknown = |told: &Told| !self.known.contains_key(&(told.lane, told.message));
        if self.told.values().flatten().any(|told| told.event < decided && unknown(told)) {
            return;
        }
        let from = Key { number: 0, ..key };
        let stays = |key: &Key| self.messages[key].publication.expires_ms.is_none();
        let ready = |copy: &Copy| {
            let over = copy.settled || copy.rejected || copy.limbo || (copy.may_be_lost && self.crashes > 0);
            // What was given away may wait for its body before it leaves.
            let leaves = copy.asked.is_some() || copy.coming.is_some();
            copy.sent && copy.holder.is_none() && copy.ready_since <= decided && !over && !leaves
        };
        let mut before = self.copies[queue].range(from..key);
        let before = before.find(|(key, copy)| ready(copy) && stays(key)).map(|(before, _)| *before);
        if let Some(before) = before {
            let name = &self.scenario.queues[queue].name;
            self.fail(
                Checker::Order,
                key,
                format!("{name} gives it out for the first time, and passes by {before}, which came back and stands before it"),
            );
        }
    }

    /// A consumer wants to settle deliveries, or to give them back, or away.
    pub(super) fn asked(&mut self, link: u64, tag: u64, multiple: bool, how: How) {
        let its = self.link(link);
        let tags: Vec<u64> = match multiple {
            true => its.deliveries.range(..=tag).map(|(tag, _)| *tag).collect(),
            false => vec![tag],
        };
        for tag in tags {
            let its = self.link(link);
            let Some(delivery) = its.deliveries.remove(&tag) else { continue };
            match its.transactional {
                true => its.answers.push((tag, delivery, how)),
                false => self.takes_effect(link, delivery.0, delivery.1, delivery.2, how),
            }
        }
    }

    /// What a consumer wants to be done with a delivery may happen from now on.
    fn takes_effect(&mut self, link: u64, queue: usize, key: Key, bounded: bool, how: How) {
        self.link(link).unsettled.entry(queue).and_modify(|count| *count -= u64::from(bounded));
        self.copies[queue].entry(key).or_default().asked = Some(how);
    }

    /// The broker tells what it does.
    pub(super) fn told(&mut self, event: &Event) {
        self.events += 1;
        let now = self.events;
        let (message, queue, how) = match event {
            Event::Delivered { connection, .. } if self.aside.contains(&connection.0) => return,
            Event::Delivered { message, queue, connection, .. } => {
                let (lane, message, at_us) = (*queue, *message, self.now_us);
                let told = Told { lane, message, event: now, at_us };
                let known = self.known.get(&(lane, message)).copied();
                if let Some(copy) = known.and_then(|(queue, key)| self.copies[queue].get_mut(&key)) {
                    copy.coming = Some(connection.0);
                }
                return self.told.entry(connection.0).or_default().push_back(told);
            }
            Event::Acknowledged { message, queue, .. } => (message, queue, How::Acknowledged),
            Event::Requeued { message, queue, .. } => (message, queue, How::Returned),
            Event::DeadLettered { message, queue, .. }
            | Event::Dropped { message: Some(message), queue, .. } => (message, queue, How::Rejected),
            _ => return,
        };
        let Some((queue, key)) = self.known.get(&(*queue, *message)).copied() else { return };
        let Some(copy) = self.copies[queue].get_mut(&key) else { return };
        let (asked, held) = (copy.asked.take(), copy.holder.take());
        match how {
            How::Returned => copy.ready_since = now,
            How::Acknowledged => (copy.settled, copy.acknowledged) = (true, true),
            How::Rejected => (copy.settled, copy.rejected) = (true, true),
        }
        // Several queues may have given it away: it is a dead letter more than once.
        let once = queue + 1 < self.scenario.queues.len() || self.messages[&key].publication.queues.len() < 2;
        if once && how == How::Acknowledged && held.is_some() && asked != Some(How::Acknowledged) {
            let text = "it counts as acknowledged, and its consumer has not done that".to_owned();
            self.fail(Checker::Invented, key, text);
        }
    }

    /// A connection is over at the broker: what it held is ready again.
    pub(super) fn ended(&mut self, link: u64) {
        let Some(its) = self.links.remove(&link) else { return };
        self.events += 1;
        let all = self.copies.iter_mut().flat_map(BTreeMap::values_mut);
        let its_own = |copy: &&mut Copy| copy.holder == Some(link) || copy.coming == Some(link);
        for copy in all.filter(its_own) {
            (copy.holder, copy.coming, copy.ready_since) = (None, None, self.events);
        }
        let told = self.told.remove(&link).into_iter().flatten();
        self.unseen.extend(told.map(|told| (told.lane, told.message)));
        let now_us = self.now_us;
        let committing = its.committing.iter().filter_map(|number| self.transactions.get(number));
        let committing = committing.flat_map(|transaction| &transaction.published);
        for key in its.published.iter().chain(committing) {
            self.messages.entry(*key).and_modify(|message| _ = message.by_us.get_or_insert(now_us));
        }
        its.open.into_iter().for_each(|key| self.set_fate(key, Fate::Refused));
    }

    /// Everything that the broker has recorded is on the disk.
    pub(super) fn durable(&mut self) {
        let all = self.copies.iter_mut().flat_map(BTreeMap::values_mut);
        all.filter(|copy| copy.settled).for_each(|copy| copy.for_good = true);
    }

    /// The broker is gone.
    pub(super) fn crashed(&mut self) {
        self.crashes += 1;
        self.stopping = false;
        let links: Vec<u64> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.ended(link));
        for (plan, copies) in self.plans.iter().zip(&mut self.copies) {
            for (key, copy) in copies {
                let message = self.messages.get(key);
                let sure = message
                    .is_some_and(|message| message.fate == Fate::Confirmed && message.publication.persistent);
                copy.may_be_lost |= !(sure && plan.durable);
                copy.limbo |= copy.settled && !copy.for_good;
                copy.settled = copy.for_good;
                copy.asked = None;
                // A dead letter that was not on the disk comes into being once more, and so does what was delayed.
                let delayed = message.is_some_and(|message| message.publication.delay_ms.is_some());
                copy.sent &= plan.name != DEAD_QUEUE && !delayed;
            }
        }
        self.known.clear();
        // Numbers start anew where messages that were sent may be gone, and where one that was dropped may be back.
        let goes_on = |plan: &QueuePlan| plan.durable && !plan.may_drop();
        self.first_sent.retain(|(queue, _), _| goes_on(&self.plans[*queue]));
    }
}

/// What a consumer does with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Acknowledged,
    Rejected,
    Returned,
}
