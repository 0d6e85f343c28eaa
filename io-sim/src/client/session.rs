//! What a client keeps: messages it has sent and not seen through, ids it has received and not released, what
//! it still wants to do.

use super::{Client, Context};
use crate::codec::{Answer as Ack, Packet, Publish, Subscribe, Unsubscribe, Version};
use crate::model::Model;
use crate::payload::{self, MessageKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The session as the client has it. It outlives connections, unless the session is clean.
pub(super) struct Session {
    window: usize,
    todo: VecDeque<Todo>,
    /// In the order of first sending.
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Requests without their answer, in order.
    pub(super) requests: VecDeque<Request>,
    /// Subscriptions it wants to have, by filter.
    pub(super) wanted: BTreeMap<String, u8>,
    /// QoS 2 ids received and not released.
    pub(super) incoming: BTreeMap<u16, Option<Came>>,
    /// On this connection: ids of messages that came and were not answered to the end.
    pub(super) open_ids: BTreeMap<u16, Option<Came>>,
    /// On this connection: answers that come once more, because something was sent twice.
    pub(super) repeated: BTreeMap<u16, u32>,
    pub(super) answers: VecDeque<Answer>,
    /// Ids of messages that it has acknowledged to the end, in the session of the last CONNACK: the records may tell of them
    /// after the session's connection is over.
    pub(super) settled: BTreeSet<u16>,
    /// Packets written so far.
    pub(super) writes: u64,
}

/// A message as it came: live, or because it was retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) key: MessageKey,
    pub(super) retained: bool,
}

/// What it wants to send.
#[derive(Clone, Debug)]
pub(super) enum Todo {
    Publish { key: MessageKey, topic: String, qos: u8, retain: bool, size: u32, expiry_s: Option<u32> },
    Subscribe { filters: Vec<(String, u8)> },
    Unsubscribe { filters: Vec<String> },
}

impl Todo {
    /// The filters of a request.
    fn filters(&self) -> Vec<&str> {
        match self {
            Todo::Subscribe { filters } => filters.iter().map(|(filter, _)| &**filter).collect(),
            Todo::Unsubscribe { filters } => filters.iter().map(|filter| &**filter).collect(),
            Todo::Publish { .. } => Vec::new(),
        }
    }
}

/// A SUBSCRIBE or UNSUBSCRIBE without its answer.
pub(super) struct Request {
    pub(super) packet_id: u16,
    /// The model's names for it, one a filter.
    pub(super) tickets: Vec<u64>,
    pub(super) todo: Todo,
}

/// A message on its way to the broker.
pub(super) struct Outgoing {
    pub(super) packet_id: u16,
    pub(super) key: MessageKey,
    pub(super) released: bool,
    pub(super) publish: Publish,
    /// The write that sent it last, and whether it was the first.
    pub(super) write: u64,
    pub(super) first: bool,
    /// It was sent on the connection at hand, where the broker holds it against what it takes at once.
    pub(super) here: bool,
}

/// An answer that is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// PUBACK.
    Ack(u16, Option<Came>),
    /// PUBREC.
    Received(u16),
    /// PUBCOMP.
    Complete(u16, Option<Came>),
}

impl Session {
    pub(super) fn new(window: usize) -> Session {
        Session {
            window,
            todo: VecDeque::new(),
            outgoing: VecDeque::new(),
            requests: VecDeque::new(),
            wanted: BTreeMap::new(),
            incoming: BTreeMap::new(),
            open_ids: BTreeMap::new(),
            repeated: BTreeMap::new(),
            answers: VecDeque::new(),
            settled: BTreeSet::new(),
            writes: 0,
        }
    }

    pub(super) fn plan(&mut self, todo: Todo) {
        self.todo.push_back(todo);
    }

    /// The next thing to do that the window, and a broker that takes so many messages at once, allow.
    pub(super) fn next_todo(&mut self, broker_takes: usize) -> Option<Todo> {
        let held = matches!(self.todo.front()?, Todo::Publish { qos: 1 | 2, .. })
            && self.outgoing.len() >= self.window.min(broker_takes);
        if held { None } else { self.todo.pop_front() }
    }

    /// The first message that was not sent again on this connection, if the broker takes another.
    fn next_to_resume(&self, broker_takes: usize) -> Option<usize> {
        let here = self.outgoing.iter().filter(|outgoing| outgoing.here).count();
        let next = self.outgoing.iter().position(|outgoing| !outgoing.here && !outgoing.released);
        next.filter(|_| here < broker_takes)
    }

    pub(super) fn connection_over(&mut self) {
        self.open_ids.clear();
        self.repeated.clear();
        self.answers.clear();
        self.outgoing.iter_mut().for_each(|outgoing| outgoing.here = false);
    }

    /// The session is gone: so is what belonged to it. Subscriptions it wants, it asks for again.
    /// `nothing_on_its_way` tells that abandoned messages cannot take effect any more.
    pub(super) fn start_afresh(&mut self, model: &mut Model, nothing_on_its_way: bool) {
        for outgoing in self.outgoing.drain(..) {
            if nothing_on_its_way && !outgoing.released {
                model.publish_abandoned(outgoing.key);
            }
        }
        for request in self.requests.drain(..) {
            if let Todo::Unsubscribe { filters } = request.todo {
                self.wanted.retain(|wanted, _| !filters.contains(wanted));
            }
        }
        self.incoming.clear();
        for wanted in std::mem::take(&mut self.wanted).into_iter().rev() {
            self.todo.push_front(Todo::Subscribe { filters: vec![wanted] });
        }
    }

    pub(super) fn awaits(&self, packet_id: u16) -> Option<MessageKey> {
        self.outgoing.iter().find(|outgoing| outgoing.packet_id == packet_id).map(|outgoing| outgoing.key)
    }

    /// See `Client::asked`.
    pub(super) fn asked(&self, packet_id: u16) -> Option<Vec<&str>> {
        let at = self.requests.iter().position(|request| request.packet_id == packet_id)?;
        let filters = self.requests[at].todo.filters();
        let later = self.requests.iter().skip(at + 1).flat_map(|later| later.todo.filters());
        let mut again = later.filter(|filter| filters.contains(filter));
        again.next().is_none().then_some(filters)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.todo.is_empty()
            && self.outgoing.is_empty()
            && self.requests.is_empty()
            && self.answers.is_empty()
            && self.incoming.is_empty()
    }

    pub(super) fn waits_for(&self) -> String {
        let outgoing: Vec<String> =
            self.outgoing.iter().take(3).map(|message| message.key.to_string()).collect();
        format!(
            "answers to {} messages ({}), {} requests, PUBREL for {} packet ids; {} things are yet to be sent",
            self.outgoing.len(),
            outgoing.join(" "),
            self.requests.len(),
            self.incoming.len(),
            self.todo.len()
        )
    }

    /// The lowest id that nothing uses: ids are used again as soon as they may be.
    fn free_id(&self) -> u16 {
        let used: BTreeSet<u16> = self
            .outgoing
            .iter()
            .map(|outgoing| outgoing.packet_id)
            .chain(self.requests.iter().map(|request| request.packet_id))
            .chain(self.repeated.keys().copied())
            .collect();
        (1..).find(|id| !used.contains(id)).expect("the window is far smaller than the ids")
    }
}

impl Client {
    /// Sends something for the first time.
    pub(super) fn carry_out(&mut self, around: &mut Context<'_>, todo: Todo) {
        match todo {
            Todo::Publish { key, topic, qos: level, retain, size, expiry_s } => {
                let payload = if size == 0 { bytes::Bytes::new() } else { payload::build(key, size) };
                let packet_id = if level == 0 { 0 } else { self.session.free_id() };
                let publish = Publish {
                    topic,
                    payload,
                    qos: level,
                    packet_id,
                    dup: false,
                    retain,
                    alias: None,
                    expiry_s,
                    identifiers: Vec::new(),
                };
                around.model.publish_sent(key, false);
                self.write_publish(around, publish.clone());
                if level == 0 {
                    return;
                }
                let write = self.session.writes;
                let (released, first, here) = (false, true, true);
                let outgoing = Outgoing { packet_id, key, released, publish, write, first, here };
                self.session.outgoing.push_back(outgoing);
                if level == 2 && self.repeats() {
                    self.send_again(around, self.session.outgoing.len() - 1, true);
                }
            }
            Todo::Subscribe { filters } => {
                self.session.wanted.extend(filters.iter().cloned());
                self.request(around, Todo::Subscribe { filters });
            }
            Todo::Unsubscribe { filters } => {
                self.session.wanted.retain(|wanted, _| !filters.contains(wanted));
                self.request(around, Todo::Unsubscribe { filters });
            }
        }
    }

    /// The session is there: everything unanswered is sent again, in order.
    pub(super) fn resume(&mut self, around: &mut Context<'_>) {
        // Nobody has to say again what was received, but some do, before the broker asks.
        let received: Vec<u16> = self.session.incoming.keys().copied().collect();
        for id in received {
            if self.repeats() {
                self.write(around, &Packet::PubRec(Ack::new(id)));
            }
        }
        for index in 0..self.session.outgoing.len() {
            let next = self.session.next_to_resume(self.agreement.broker_takes);
            if self.session.outgoing[index].released || next == Some(index) {
                self.send_again(around, index, false);
            }
        }
        for request in std::mem::take(&mut self.session.requests) {
            self.request(around, request.todo);
        }
    }

    /// Sends again what was not sent on this connection, as far as the broker takes it ([MQTT-3.3.4-7] of MQTT 5).
    pub(super) fn go_on_resuming(&mut self, around: &mut Context<'_>) {
        while let Some(index) = self.session.next_to_resume(self.agreement.broker_takes) {
            self.send_again(around, index, false);
        }
    }

    /// Sends again on the same connection what has no answer yet, as MQTT 3.1 clients do.
    pub(super) fn resend(&mut self, around: &mut Context<'_>) {
        if !matches!(self.link, super::Link::Up { .. }) {
            return;
        }
        for index in 0..self.session.outgoing.len() {
            let outgoing = &self.session.outgoing[index];
            if outgoing.released {
                continue;
            }
            if outgoing.publish.qos == 1 {
                *self.session.repeated.entry(outgoing.packet_id).or_default() += 1;
            }
            self.send_again(around, index, true);
        }
    }

    fn send_again(&mut self, around: &mut Context<'_>, index: usize, same_connection: bool) {
        let outgoing = &mut self.session.outgoing[index];
        outgoing.first = false;
        outgoing.publish.dup = true;
        if outgoing.released {
            let packet_id = outgoing.packet_id;
            return self.release(around, packet_id);
        }
        outgoing.here = true;
        around.model.publish_sent(outgoing.key, same_connection);
        let publish = outgoing.publish.clone();
        self.write_publish(around, publish);
    }

    fn write_publish(&mut self, around: &mut Context<'_>, mut publish: Publish) {
        self.agreement.shorten(&mut publish);
        self.write(around, &Packet::Publish(publish));
    }

    /// PUBREL, now and then twice.
    pub(super) fn release(&mut self, around: &mut Context<'_>, packet_id: u16) {
        self.write(around, &Packet::PubRel(Ack::new(packet_id)));
        if self.repeats() {
            *self.session.repeated.entry(packet_id).or_default() += 1;
            self.write(around, &Packet::PubRel(Ack::new(packet_id)));
        }
    }

    /// Whether it sends this packet twice, which MQTT 5 does not allow ([MQTT-4.4.0-1]).
    fn repeats(&mut self) -> bool {
        self.program.version() == Version::V3
            && self.program.repeat_percent > 0
            && self.draws.percent(self.program.repeat_percent)
    }

    fn request(&mut self, around: &mut Context<'_>, request: Todo) {
        let packet_id = self.session.free_id();
        let model = &mut *around.model;
        let (packet, tickets) = match &request {
            Todo::Subscribe { filters } => {
                let asks = self.program.mqtt5.as_ref();
                let options = |(filter, _): &(String, u8)| asks.map(|asks| asks.options(filter));
                let identified = asks.filter(|asks| asks.identifiers).and(filters.first());
                let subscribe = Subscribe {
                    packet_id,
                    filters: filters.clone(),
                    options: filters.iter().filter_map(options).collect(),
                    identifier: identified.map(|(filter, _)| model.identifier(self.index, filter)),
                };
                let sent =
                    |(filter, level): &(String, u8)| model.request_sent(self.index, filter, Some(*level));
                (Packet::Subscribe(subscribe), filters.iter().map(sent).collect())
            }
            Todo::Unsubscribe { filters } => {
                let unsubscribe = Unsubscribe { packet_id, filters: filters.clone() };
                let sent = |filter: &String| model.request_sent(self.index, filter, None);
                (Packet::Unsubscribe(unsubscribe), filters.iter().map(sent).collect())
            }
            Todo::Publish { .. } => unreachable!("a message is no request"),
        };
        self.session.requests.push_back(Request { packet_id, tickets, todo: request });
        self.write(around, &packet);
    }
}
