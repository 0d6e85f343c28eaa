//! QoS 0: a message goes to whoever is there, at once, or, where they are many, a turn's worth at a time.

use super::Broker;
use super::publishing::Publishing;
use crate::event::{DropReason, Event};
use crate::ids::SessionId;
use crate::marks::reached;
use crate::message::{Message, MessageParts};
use crate::mqtt::packet::publish::Delivery as OnWire;
use crate::mqtt::presenting::{Manner, Outgoing};
use alloc::vec::Vec;
use bytes::Bytes;

/// Who gets a message with QoS 0.
#[derive(Clone, Copy)]
pub(crate) struct Hearer {
    /// The session.
    pub session: SessionId,
    /// RETAIN.
    pub retain: bool,
    /// What it is told of its subscriptions.
    pub told: Told,
    /// It published the message itself: subscriptions with No Local do not count.
    pub own: bool,
}

/// The identifiers that a message with QoS 0 carries; 0 stands for none.
#[derive(Clone, Copy)]
pub(crate) enum Told {
    /// That of the one subscription that brings it.
    One(u32),
    /// Those of all that match when it is sent. They may be gone by then: this is one that matched when it was published.
    Matching(u32),
}

/// A QoS 0 message on its way to many.
pub(crate) struct FanOut {
    message: Message,
    hearers: Vec<Hearer>,
    next: usize,
}

/// Fan-outs under way at the most, those of wills aside: a publisher is not read while there are so many.
pub(crate) const FAN_OUTS_MAX: usize = 16;

impl Broker {
    /// Sends with QoS 0; beyond a turn's worth, later, and later ones behind it.
    pub(super) fn send_at_most_once(&mut self, publishing: &Publishing<'_>, hearers: Vec<Hearer>) {
        let Some(topic) = publishing.topic.filter(|_| !hearers.is_empty()) else { return };
        let MessageParts { properties, body, .. } = publishing.parts;
        if self.fan_outs.is_empty() && hearers.len() <= self.settings.limits.turn_work {
            let Publishing { origin, expires_at, .. } = *publishing;
            let published_at = self.now.wall;
            let message = Outgoing { topic, origin, properties, body, published_at, expires_at };
            let mut shared: Option<Bytes> = None;
            for hearer in &hearers {
                self.deliver_at_most_once(hearer, &message, || {
                    shared.get_or_insert_with(|| Bytes::copy_from_slice(body)).clone()
                });
            }
            return;
        }
        let message = publishing.message(self.now.wall);
        self.fan_outs.push_back(FanOut { message, hearers, next: 0 });
    }

    /// Goes on with the first fan-out, to so many subscribers at the most.
    pub(super) fn go_on_fanning_out(&mut self, most: usize) {
        let Some(mut fan_out) = self.fan_outs.pop_front() else { return };
        let end = fan_out.hearers.len().min(fan_out.next + most);
        let message = fan_out.message.clone();
        let topic = message.topic();
        let outgoing = Outgoing::of(&message, &topic);
        for hearer in &fan_out.hearers[fan_out.next..end] {
            self.deliver_at_most_once(hearer, &outgoing, || message.body_shared());
        }
        fan_out.next = end;
        if end < fan_out.hearers.len() {
            reached!("fan-out goes on");
            self.fan_outs.push_front(fan_out);
        }
    }

    /// Sends one message with QoS 0, if the session is connected and reads fast enough.
    pub(crate) fn deliver_at_most_once(
        &mut self,
        hearer: &Hearer,
        message: &Outgoing<'_>,
        shared: impl FnOnce() -> Bytes,
    ) {
        self.pieces += 1;
        let Hearer { session, retain, told, own } = *hearer;
        let Some(attachment) = self.attachments.get(&session) else { return };
        let (id, queue) = (attachment.connection, attachment.queue);
        let mut identifiers = Vec::new();
        if self.connections[&id].terms().is_some() {
            if let Told::Matching(_) = told {
                identifiers = self.identifiers_of(session, message.topic, own);
            }
            let (Told::One(known) | Told::Matching(known)) = told;
            if identifiers.is_empty() && known > 0 {
                identifiers.push(known);
            }
        }
        let connection = self.connections.get_mut(&id).expect("an attachment has a connection");
        if !connection.client.as_ref().is_some_and(|client| client.accepted) {
            return; // before its CONNACK there is nobody to deliver to
        }
        let bytes = message.topic.len() + message.properties.len() + message.body.len() + 16;
        let unsent = connection.send.unsent();
        if unsent > 0 && unsent + bytes > self.settings.limits.unsent_bytes {
            reached!("QoS 0 dropped");
            self.counters.dropped_slow_reader += 1;
            return self.message_event(|| Event::Dropped {
                message: None,
                queue,
                reason: DropReason::SlowReader,
            });
        }
        let manner = Manner { delivery: OnWire::AtMostOnce, dup: false, retain, identifiers: &identifiers };
        if !connection.put_publish(message, &manner, self.now.wall, shared) {
            self.counters.dropped_too_large += 1;
            let reason = DropReason::TooLarge;
            return self.message_event(|| Event::Dropped { message: None, queue, reason });
        }
        self.counters.delivered += 1;
        self.list(id);
    }
}
