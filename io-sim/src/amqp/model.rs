//! What is true of messages and queues, as it can be seen at the broker's end of the connections: what it has received,
//! what it has ordered to be sent.
//!
//! A copy of a message in a queue is ready, held by a consumer, settled, or given away. A crash makes everything that was
//! held ready again, and everything ready whose end was not on the disk for certain.

use super::scenario::{DEAD_QUEUE, QueuePlan, Scenario};
use crate::outcome::{Checker, Violation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use vowmq_core::event::Event;
use vowmq_core::ids::{MessageId, QueueId};

/// A message: its publisher and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) publisher: u32,
    pub(super) number: u32,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}.{}", self.publisher, self.number)
    }
}

impl Key {
    /// A body of so many bytes that says which message it is.
    pub(super) fn body(self, size: usize) -> Vec<u8> {
        let mut body = format!("{self} ").into_bytes();
        let fill = body.len()..size;
        body.extend(fill.map(|at| at as u8));
        body
    }

    /// The message of a body, if it is one of ours, whole.
    pub(super) fn of(body: &[u8]) -> Option<Key> {
        let name = body.split(|byte| *byte == b' ').next()?;
        let (publisher, number) = std::str::from_utf8(name).ok()?.strip_prefix('m')?.split_once('.')?;
        let key = Key { publisher: publisher.parse().ok()?, number: number.parse().ok()? };
        (key.body(body.len()) == body).then_some(key)
    }
}

/// A message.
struct Message {
    persistent: bool,
    /// Where it goes.
    queues: Vec<usize>,
    fate: Fate,
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
    committing: Vec<(u64, Vec<Key>)>,
    /// By delivery: queue, message.
    deliveries: BTreeMap<u64, (usize, Key)>,
    returned: BTreeSet<Key>,
    /// Unsettled deliveries of each queue's consumer.
    unsettled: BTreeMap<usize, u64>,
    pub(super) prefetch: (u16, bool),
}

/// The truth.
pub(super) struct Model<'a> {
    scenario: &'a Scenario,
    messages: BTreeMap<Key, Message>,
    copies: Vec<BTreeMap<Key, Copy>>,
    /// Of each queue and publisher: the last message that was sent for the first time.
    first_sent: BTreeMap<(usize, u32), u32>,
    links: BTreeMap<u64, Link>,
    /// Sent in the drain at hand: queue, message, sent for the first time, by which connection, at which event.
    drained: Vec<(usize, Key, bool, u64, u64)>,
    /// Deliveries that were told as events and have not passed the door: lane and message and the event, by connection.
    told: BTreeMap<u64, VecDeque<(QueueId, MessageId, u64)>>,
    /// Events so far: what is sent leaves later than it was decided.
    events: u64,
    /// What those are that have.
    known: BTreeMap<(QueueId, MessageId), (usize, Key)>,
    transactions: BTreeMap<u64, Vec<Key>>,
    next_transaction: u64,
    crashes: u64,
    now_us: u64,
    violation: Option<Violation>,
    pub(super) deliveries: u64,
}

impl<'a> Model<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Model<'a> {
        Model {
            scenario,
            messages: BTreeMap::new(),
            copies: scenario.queues.iter().map(|_| BTreeMap::new()).collect(),
            first_sent: BTreeMap::new(),
            links: BTreeMap::new(),
            drained: Vec::new(),
            told: BTreeMap::new(),
            events: 0,
            known: BTreeMap::new(),
            transactions: BTreeMap::new(),
            next_transaction: 0,
            crashes: 0,
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
    pub(super) fn published(&mut self, link: u64, key: Key, queues: Vec<usize>, persistent: bool) {
        let its = self.link(link);
        let fate = if its.transactional { Fate::Open } else { Fate::Published };
        match its.transactional {
            true => its.open.push(key),
            false => its.published.push(key),
        }
        for queue in &queues {
            let survives = persistent && self.scenario.queues[*queue].durable;
            self.copies[*queue].insert(key, Copy { may_be_lost: !survives, ..Copy::default() });
        }
        self.messages.insert(key, Message { persistent, queues, fate });
    }

    /// The broker was asked to commit, or to roll back.
    pub(super) fn transaction_ends(&mut self, link: u64, commits: bool) {
        let number = self.next_transaction;
        self.next_transaction += 1;
        let its = self.link(link);
        let keys = std::mem::take(&mut its.open);
        if commits {
            its.committing.push((number, keys.clone()));
            self.transactions.insert(number, keys.clone());
        }
        for key in keys {
            self.set_fate(key, if commits { Fate::Committing(number) } else { Fate::Refused });
        }
    }

    /// A channel is closed instead of committing: nothing of the transaction took effect.
    pub(super) fn channel_closed(&mut self, link: u64) {
        for (number, keys) in std::mem::take(&mut self.link(link).committing) {
            self.transactions.remove(&number);
            keys.into_iter().for_each(|key| self.set_fate(key, Fate::Refused));
        }
    }

    /// Commit-Ok.
    pub(super) fn committed(&mut self, link: u64) {
        let its = self.link(link);
        if its.committing.is_empty() {
            return self.fail(Checker::Protocol, "broker", "it says committed, and nobody asked".to_owned());
        }
        let (number, keys) = its.committing.remove(0);
        self.transactions.remove(&number);
        keys.into_iter().for_each(|key| self.set_fate(key, Fate::Confirmed));
    }

    fn set_fate(&mut self, key: Key, fate: Fate) {
        if let Some(message) = self.messages.get_mut(&key) {
            message.fate = fate;
        }
    }

    /// A mandatory message came back.
    pub(super) fn returned(&mut self, link: u64, key: Key) {
        if self.messages.get(&key).is_none_or(|message| !message.queues.is_empty()) {
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
            let nowhere = self.messages.get(&key).is_some_and(|message| message.queues.is_empty());
            if nowhere && !self.link(link).returned.contains(&key) {
                self.fail(Checker::Order, key, "it is confirmed before it has come back".to_owned());
            }
        }
    }

    /// A message is sent to a consumer.
    pub(super) fn sent(
        &mut self,
        link: u64,
        tag: u64,
        queue: usize,
        key: Key,
        redelivered: bool,
        no_ack: bool,
    ) {
        self.deliveries += 1;
        let is_dead_queue = queue + 1 == self.scenario.queues.len();
        let known = self.messages.get(&key).map(|message| (message.fate, message.queues.contains(&queue)));
        let Some((fate, routed)) = known.filter(|(_, routed)| *routed || is_dead_queue) else {
            let text = format!("queue {queue} gives it out, and nobody published it there");
            return self.fail(Checker::Invented, key, text);
        };
        if matches!(fate, Fate::Open | Fate::Refused) && routed {
            return self.fail(Checker::Invented, key, format!("it is given out, and was {fate:?}"));
        }
        if is_dead_queue && !self.may_be_dead(key) {
            return self.fail(
                Checker::Invented,
                key,
                "it is a dead letter, and nobody gave it away".to_owned(),
            );
        }
        let mut decided = self.events;
        if let Some((lane, message, event)) = self.told.get_mut(&link).and_then(VecDeque::pop_front) {
            self.known.insert((lane, message), (queue, key));
            decided = event;
        }
        let crashes = self.crashes;
        let copy = self.copies[queue].entry(key).or_default();
        let (held, came_back, first) = (copy.holder, copy.for_good, !copy.sent);
        (copy.sent, copy.ever, copy.limbo, copy.asked) = (true, true, false, None);
        match no_ack {
            true => (copy.settled, copy.acknowledged) = (true, true),
            false => copy.holder = Some(link),
        }
        // Several queues may have given it away.
        if is_dead_queue && self.messages[&key].queues.len() > 1 {
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
        if first && redelivered && crashes == 0 {
            return self.fail(
                Checker::Redelivery,
                key,
                "it was never sent, and is called redelivered".to_owned(),
            );
        }
        self.drained.push((queue, key, first, link, decided));
        if !no_ack {
            let its = self.link(link);
            its.deliveries.insert(tag, (queue, key));
            *its.unsettled.entry(queue).or_default() += 1;
            self.check_prefetch(link, queue);
        }
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
        let queues = self.scenario.queues.iter().zip(&self.copies);
        queues.into_iter().any(|(plan, copies)| {
            copies.get(&key).is_some_and(|copy| plan.dead_letters && (copy.rejected || plan.may_drop()))
        })
    }

    /// All that one turn ordered to be sent is known.
    pub(super) fn drained(&mut self) {
        let mut drained = std::mem::take(&mut self.drained);
        // Within one turn those to different connections leave in any order.
        drained.sort_unstable();
        for (queue, key, first, link, decided) in drained {
            let plan = &self.scenario.queues[queue];
            if plan.priorities > 0 || !first || queue + 1 == self.scenario.queues.len() {
                continue;
            }
            let last = self.first_sent.insert((queue, key.publisher), key.number);
            if let Some(last) = last.filter(|last| *last > key.number) {
                let text = format!("queue {queue} gave out number {last} of its publisher before it");
                self.fail(Checker::Order, key, text);
            }
            // A connection that has ended since has given everything back after that.
            if !plan.may_drop() && self.links.contains_key(&link) {
                self.check_nothing_stands_before(queue, key, decided);
            }
        }
    }

    /// What came back stands in its old place: nothing that was never sent is chosen before it from then on.
    fn check_nothing_stands_before(&mut self, queue: usize, key: Key, decided: u64) {
        let from = Key { number: 0, ..key };
        let ready = |copy: &Copy| {
            let over = copy.settled || copy.rejected || copy.limbo || copy.may_be_lost;
            // What was given away may wait for its body before it leaves.
            let leaves = copy.asked.is_some();
            copy.sent && copy.holder.is_none() && copy.ready_since <= decided && !over && !leaves
        };
        let before =
            self.copies[queue].range(from..key).find(|(_, copy)| ready(copy)).map(|(before, _)| *before);
        if let Some(before) = before {
            self.fail(
                Checker::Order,
                key,
                format!("{before} came back to its place before it, and is passed by"),
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
            let Some((queue, key)) = self.link(link).deliveries.remove(&tag) else { continue };
            self.link(link).unsettled.entry(queue).and_modify(|count| *count -= 1);
            self.copies[queue].entry(key).or_default().asked = Some(how);
        }
    }

    /// The broker tells what it does.
    pub(super) fn told(&mut self, event: &Event) {
        self.events += 1;
        let now = self.events;
        let (message, queue, how) = match event {
            Event::Delivered { message, queue, connection, .. } => {
                return self.told.entry(connection.0).or_default().push_back((*queue, *message, now));
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
        let once = queue + 1 < self.scenario.queues.len() || self.messages[&key].queues.len() < 2;
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
        for copy in all.filter(|copy| copy.holder == Some(link)) {
            (copy.holder, copy.ready_since) = (None, self.events);
        }
        self.told.remove(&link);
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
        let links: Vec<u64> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.ended(link));
        for (plan, copies) in self.scenario.queues.iter().zip(&mut self.copies) {
            for (key, copy) in copies {
                let message = self.messages.get(key);
                let sure =
                    message.is_some_and(|message| message.fate == Fate::Confirmed && message.persistent);
                copy.may_be_lost |= !(sure && plan.durable);
                copy.limbo |= copy.settled && !copy.for_good;
                copy.settled = copy.for_good;
                copy.asked = None;
                // A dead letter that was not on the disk comes into being once more.
                copy.sent &= plan.name != DEAD_QUEUE;
            }
        }
        self.known.clear();
        // Numbers start anew where messages that were sent may be gone, and where one that was dropped may be back.
        let goes_on = |plan: &QueuePlan| plan.durable && !plan.may_drop();
        self.first_sent.retain(|(queue, _), _| goes_on(&self.scenario.queues[*queue]));
    }

    /// The queues are drained: everything confirmed was somewhere.
    pub(super) fn audit(&mut self) {
        let mut lost = None;
        let last = self.scenario.queues.len() - 1;
        for (key, message) in &self.messages {
            let confirmed = message.fate == Fate::Confirmed;
            for queue in message.queues.iter().filter(|_| confirmed) {
                let (plan, copy) = (&self.scenario.queues[*queue], &self.copies[*queue][key]);
                let kept = !copy.may_be_lost || self.crashes == 0;
                if !kept || plan.may_drop() {
                    continue;
                }
                let is_dead =
                    |copy: &Copy| copy.rejected && plan.dead_letters && !copy.acknowledged && !copy.limbo;
                let arrived = || self.copies[last].get(key).is_some_and(|copy| copy.ever);
                let arrives = self.scenario.queues[last].durable || self.crashes == 0;
                if !(copy.settled || copy.rejected || copy.limbo) || (is_dead(copy) && arrives && !arrived())
                {
                    lost = lost.or(Some((*key, *queue)));
                }
            }
        }
        if let Some((key, queue)) = lost {
            let copy = &self.copies[queue][&key];
            let text = format!(
                "it was confirmed, and did not leave queue {queue} in a way that is known, or is no dead letter where it \
                 should be (sent {}, settled {}, given away {}, acknowledged {}, asked {:?}, held by {:?})",
                copy.sent, copy.settled, copy.rejected, copy.acknowledged, copy.asked, copy.holder
            );
            self.fail(Checker::Loss, key, text);
        }
        self.audit_transactions();
    }

    /// A transaction whose commit was not answered took effect as a whole, or not at all.
    fn audit_transactions(&mut self) {
        let mut torn = None;
        for keys in self.transactions.values() {
            let mut sure = keys.iter().filter_map(|key| {
                let message = self.messages.get(key).filter(|message| message.persistent)?;
                let [queue] = message.queues[..] else { return None };
                let plan = &self.scenario.queues[queue];
                (plan.durable && !plan.may_drop()).then(|| (*key, self.copies[queue][key].sent))
            });
            let Some((key, sent)) = sure.next() else { continue };
            if let Some((other, _)) = sure.find(|(_, other)| *other != sent) {
                torn = torn.or(Some((key, other)));
            }
        }
        if let Some((key, other)) = torn {
            let text = format!("of one transaction one of it and {other} took effect, the other did not");
            self.fail(Checker::Loss, key, text);
        }
    }
}

/// What a consumer does with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Acknowledged,
    Rejected,
    Returned,
}
