//! Publishing: from a message to everybody it goes to, in one record.

use super::fanning_out::{Hearer, Told};
use super::{Broker, Work};
use crate::durable::record::{ClientKey, Publication, Recipient, Record, Retain};
use crate::event::{DropReason, Event};
use crate::ids::{ConnectionId, Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::limits::{Overflow, RECORD_OVERHEAD_BYTES};
use crate::marks::reached;
use crate::message::{Message, MessageParts, Origin};
use crate::mqtt::packet::{PacketId, QoS};
use crate::queue::Delivery;
use crate::routing::subscriptions::Subscriber;
use crate::session::sharing::Member;
use crate::time::WallTime;
use alloc::vec::Vec;
use bytes::Bytes;

/// A message to be published, and what else its publishing does.
#[derive(Clone, Copy)]
pub(crate) struct Publishing<'a> {
    /// The virtual host, as an index.
    pub vhost: usize,
    /// The protocol of its publisher.
    pub origin: Origin,
    /// What it is.
    pub parts: MessageParts<'a>,
    /// When it expires; 0 means never.
    pub expires_at: WallTime,
    /// The topic whose subscribers get it; none: no topic's.
    pub topic: Option<&'a str>,
    /// The declared queues that it goes to, beside those that its topic leads to.
    pub queues: &'a [QueueId],
    /// Its priority in those.
    pub priority: u8,
    /// The publisher's QoS: 1 for a persistent message of AMQP, 0 for another.
    pub qos: QoS,
    /// Whether it is to be retained.
    pub retain: bool,
    /// The publisher's session and packet identifier, for QoS 2.
    pub received: Option<(SessionId, PacketId)>,
    /// Whose will it is.
    pub will_of: Option<&'a ClientKey>,
    /// Entries of queues whose place it takes: they are settled by the same record.
    pub replaces: &'a [(QueueId, QueuePosition)],
    /// Where it came from.
    pub connection: Option<ConnectionId>,
}

impl<'a> Publishing<'a> {
    /// A message for a topic, not retained.
    pub fn of_mqtt(
        vhost: usize,
        topic: &'a str,
        properties: &'a [u8],
        body: &'a [u8],
        qos: QoS,
    ) -> Publishing<'a> {
        let parts = MessageParts { address: topic.as_bytes(), properties, body };
        Publishing { topic: Some(topic), qos, ..Publishing::new(vhost, Origin::of_mqtt(properties), parts) }
    }

    /// A message that goes nowhere yet.
    pub fn new(vhost: usize, origin: Origin, parts: MessageParts<'a>) -> Publishing<'a> {
        Publishing {
            vhost,
            origin,
            parts,
            expires_at: WallTime(0),
            topic: None,
            queues: &[],
            priority: 0,
            qos: QoS::AtMostOnce,
            retain: false,
            received: None,
            will_of: None,
            replaces: &[],
            connection: None,
        }
    }

    /// Whether somebody is told when it is refused, and can publish it again. Where nobody is, as with a will, a bound keeps
    /// it from nobody else.
    fn is_told(&self) -> bool {
        self.will_of.is_none()
    }

    /// Whether it expires.
    fn expires(&self) -> bool {
        self.expires_at > WallTime(0)
    }

    pub(super) fn message(&self, now: WallTime) -> Message {
        let mut message = Message::new(self.origin, self.qos as u8, now, self.parts);
        message.expires_at = self.expires_at;
        message
    }
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Published {
    /// Done.
    Stored {
        /// The record that an acknowledgement waits for.
        lsn: Lsn,
        /// Somebody gets the message, or will.
        heard: bool,
    },
    /// Nothing was done: there is no room now.
    Held,
    /// Nothing was done: a bound was reached.
    Refused(&'static str),
}

/// Whom a message goes to.
#[derive(Default)]
struct Route {
    recipients: Vec<Recipient>,
    /// The sessions of `recipients`, one by one.
    sessions: Vec<SessionId>,
    /// The declared queues that its topic leads to.
    queues: Vec<QueueId>,
    /// Subscribers that get it with QoS 0.
    at_most_once: Vec<Hearer>,
    /// What has to go from queues at their bound.
    dropped: Vec<(QueueId, QueuePosition, MessageId)>,
    /// Queues at their bound that cannot take it at all.
    passed_by: Vec<QueueId>,
    /// Of recipients that subscribed with identifiers, in their order: those of the subscriptions that match.
    identifiers: Vec<(QueueId, Vec<u32>)>,
}

/// Bytes of one recipient in a record, at the most.
const RECIPIENT_BYTES: u64 = 21;

/// Bytes of what says how many identifiers a recipient has, and of each of them, at the most.
const IDENTIFIERS_BYTES: u64 = 20;
const IDENTIFIER_BYTES: u64 = 5;

impl Route {
    /// Bytes that recipients and identifiers take in a record, at the most.
    fn recorded_bytes(&self) -> u64 {
        let identifiers = self.identifiers.iter();
        let identifiers = identifiers.map(|(_, its)| IDENTIFIERS_BYTES + IDENTIFIER_BYTES * its.len() as u64);
        RECIPIENT_BYTES * self.recipients.len() as u64 + identifiers.sum::<u64>()
    }
}

impl Broker {
    /// Publishes a message.
    pub(crate) fn publish(&mut self, publishing: Publishing<'_>) -> Published {
        let route = match self.route(&publishing) {
            Ok(route) => route,
            Err(rule) => return self.refused(rule),
        };
        let Publishing { vhost, topic, parts, retain, .. } = publishing;
        let retained = &self.state.vhosts[vhost].retained;
        let topic = topic.unwrap_or("");
        let retain = match retain {
            false => Retain::Not,
            true if !parts.body.is_empty() => Retain::Set,
            // Nothing to take away: nothing to record.
            true if retained.find(topic).is_none() => Retain::Not,
            true => Retain::Clear, // [MQTT-3.3.1-10], [MQTT-3.3.1-11]
        };
        let too_many = retain == Retain::Set
            && retained.find(topic).is_none()
            && retained.len() >= self.settings.limits.retained;
        let retain = match too_many {
            true if publishing.is_told() => return self.refused("limits.retained are retained already"),
            true => {
                self.counters.refused += 1;
                Retain::Not
            }
            false => retain,
        };
        let kept = !route.recipients.is_empty() || retain != Retain::Not;
        let plain = !kept
            && publishing.replaces.is_empty()
            && publishing.received.is_none()
            && publishing.will_of.is_none();
        if !plain && self.must_wait(&publishing, &route, retain) {
            return Published::Held;
        }
        let bytes = [parts.address, parts.properties, parts.body].map(|part| part.len() as u64);
        let bytes = bytes.iter().sum::<u64>() + RECORD_OVERHEAD_BYTES;
        if bytes + route.recorded_bytes() > self.log.record_bytes_max() {
            return self
                .refused("the message and its recipients do not fit into a log segment (segment_bytes)");
        }
        // What a topic retains, or does not retain, may be known and not durable yet.
        let mut wait = if publishing.retain { retained_lsn(self, vhost, topic) } else { Lsn::NONE };
        let heard = kept || !route.at_most_once.is_empty() || !route.passed_by.is_empty();
        let Route { recipients, sessions, queues, at_most_once, dropped, passed_by, identifiers } = route;
        if !plain {
            wait = wait.max(self.store(&publishing, recipients, identifiers, retain, dropped));
        }
        self.note_expiries(&publishing, &sessions, retain);
        for queue in passed_by {
            self.counters.dropped_queue_full += 1;
            self.message_event(|| Event::Dropped { message: None, queue, reason: DropReason::QueueFull });
        }
        self.send_at_most_once(&publishing, at_most_once);
        self.serve(sessions);
        self.serve_queues(publishing.queues);
        self.serve_queues(&queues);
        Published::Stored { lsn: wait, heard }
    }

    fn refused(&mut self, rule: &'static str) -> Published {
        self.counters.refused += 1;
        Published::Refused(rule)
    }

    /// Finds everybody whom the message goes to.
    fn route(&mut self, publishing: &Publishing<'_>) -> Result<Route, &'static str> {
        let mut found = core::mem::take(&mut self.subscribers);
        found.clear();
        let publisher = self.publisher_of(publishing);
        if let Some(topic) = publishing.topic {
            self.state.vhosts[publishing.vhost].subscriptions.find(topic, publisher, &mut found);
        }
        let recipients = Vec::with_capacity(publishing.queues.len());
        let mut route = Route { recipients, ..Route::default() };
        let mut outcome = Ok(());
        for Subscriber { session, qos, retain_as_published, is_group, identifier, .. } in &found {
            if *is_group {
                continue;
            }
            let retain = publishing.retain && *retain_as_published; // [MQTT-3.3.1-9]
            // [MQTT-3.8.4-6]: the lower of the publisher's and the subscription's.
            let qos = publishing.qos.min(*qos);
            if qos == QoS::AtMostOnce {
                let own = publisher == Some(*session);
                route.at_most_once.push(Hearer {
                    session: *session,
                    retain,
                    told: Told::Matching(*identifier),
                    own,
                });
                continue;
            }
            let delivery = Delivery::to_subscriber(qos, retain, publishing.expires());
            outcome = outcome.and(self.route_to_queue(*session, delivery, None, publishing, &mut route));
        }
        for subscriber in found.iter().filter(|subscriber| subscriber.is_group) {
            outcome = outcome.and(self.route_to_group(subscriber, publishing, &mut route));
        }
        self.subscribers = found;
        outcome?;
        for &queue in publishing.queues {
            self.route_to_declared(queue, publishing, &mut route)?;
        }
        if publishing.origin != Origin::Amqp
            && let Some(topic) = publishing.topic
        {
            route.queues = self.queues_of_topic(publishing.vhost, topic);
            for at in 0..route.queues.len() {
                reached!("MQTT to a declared queue");
                self.route_to_declared(route.queues[at], publishing, &mut route)?;
            }
        }
        Ok(route)
    }

    /// The session that publishes to a topic.
    fn publisher_of(&self, publishing: &Publishing<'_>) -> Option<SessionId> {
        let id = publishing.connection.filter(|_| publishing.topic.is_some())?;
        self.connections.get(&id)?.session()
    }

    fn route_to_declared(
        &self,
        id: QueueId,
        publishing: &Publishing<'_>,
        route: &mut Route,
    ) -> Result<(), &'static str> {
        let declared = self.state.declared(id).expect("messages are routed to queues that exist");
        let lane = declared.lane(id, publishing.priority);
        let survives = declared.spec.survives();
        let durable = survives && (publishing.qos > QoS::AtMostOnce || declared.arguments.quorum);
        match self.make_room(id, declared, publishing.parts.body.len() as u64, &mut route.dropped) {
            Ok(true) => {}
            Err(rule) if publishing.is_told() => return Err(rule),
            Ok(false) | Err(_) => {
                route.passed_by.push(lane);
                return Ok(());
            }
        }
        let delivery = Delivery {
            qos: publishing.qos.min(QoS::AtLeastOnce),
            retain: false,
            expires: publishing.expires(),
            transient: survives && !durable,
        };
        let position = self.state.queue(lane).expect("a declared queue has its lanes").next();
        route.recipients.push(Recipient { queue: lane, position, delivery, durable, group: None });
        Ok(())
    }

    /// To a member that has room, else into the group's queue.
    fn route_to_group(
        &mut self,
        group: &Subscriber,
        publishing: &Publishing<'_>,
        route: &mut Route,
    ) -> Result<(), &'static str> {
        let qos = publishing.qos.min(group.qos);
        let as_published = |member: &Member| publishing.retain && member.subscription.retain_as_published;
        if qos == QoS::AtMostOnce {
            if let Some(member) = self.next_member(group.session, qos) {
                self.end_turn(group.session, &member);
                let retain = as_published(&member);
                let told = Told::One(member.subscription.identifier);
                route.at_most_once.push(Hearer { session: member.session, retain, told, own: false });
            }
            return Ok(());
        }
        // Straight into the queue of a member that does not get it otherwise as well.
        if let Some(member) = self.goes_straight_to(group.session, qos) {
            let queue = self.state.session(member.session).map(|session| session.queue);
            if !route.recipients.iter().any(|recipient| Some(recipient.queue) == queue) {
                self.end_turn(group.session, &member);
                let (qos, retain) = (qos.min(member.subscription.qos), as_published(&member));
                let delivery = Delivery::to_subscriber(qos, retain, publishing.expires());
                return self.route_to_queue(member.session, delivery, Some(group.session), publishing, route);
            }
        }
        let delivery = Delivery::to_subscriber(qos, publishing.retain, publishing.expires());
        self.route_to_queue(group.session, delivery, None, publishing, route)
    }

    fn route_to_queue(
        &self,
        id: SessionId,
        delivery: Delivery,
        group: Option<SessionId>,
        publishing: &Publishing<'_>,
        route: &mut Route,
    ) -> Result<(), &'static str> {
        let session = self.state.session(id).expect("who subscribed has a session");
        let queue = self.state.queue(session.queue).expect("a session owns a queue");
        let limits = &self.settings.limits;
        let bytes = publishing.parts.body.len() as u64;
        let is_over = |messages: u64, held: u64| {
            (limits.queue_messages > 0 && messages >= limits.queue_messages)
                || (limits.queue_bytes > 0 && held + bytes > limits.queue_bytes)
        };
        let (mut messages, mut held) = (queue.len() as u64, queue.bytes());
        if is_over(messages, held) {
            if limits.queue_overflow == Overflow::Refuse {
                if !publishing.is_told() {
                    route.passed_by.push(session.queue);
                    return Ok(());
                }
                reached!("refused at the bound");
                return Err(
                    "a queue that it goes to is at its bound (limits.queue_messages, limits.queue_bytes)",
                );
            }
            let mut unsent = queue.iter_from(queue.sent_to());
            while is_over(messages, held) {
                let Some(entry) = unsent.next() else {
                    // All that is there may have been sent: the new one is the one that goes.
                    reached!("dropped newest");
                    route.passed_by.push(session.queue);
                    return Ok(());
                };
                messages -= 1;
                held -= self.state.messages.bytes_of_body(entry.message);
                reached!("dropped oldest");
                route.dropped.push((session.queue, entry.position, entry.message));
            }
        }
        let (position, durable) = (queue.next(), session.durable);
        route.recipients.push(Recipient { queue: session.queue, position, delivery, durable, group });
        route.sessions.push(id);
        if let Some(topic) = publishing.topic.filter(|_| session.identified > 0 && group.is_none()) {
            let own = self.publisher_of(publishing) == Some(id);
            let identifiers = self.identifiers_of(id, topic, own);
            route.identifiers.extend((!identifiers.is_empty()).then_some((session.queue, identifiers)));
        }
        Ok(())
    }

    /// Whether there is no room for what has to be kept.
    fn must_wait(&self, publishing: &Publishing<'_>, route: &Route, retain: Retain) -> bool {
        if self.transacting {
            return false;
        }
        let durable = retain != Retain::Not
            || route.recipients.iter().any(|recipient| recipient.durable)
            || publishing.replaces.iter().any(|(queue, at)| self.state.is_durable_entry(*queue, *at))
            || publishing.received.is_some_and(|(session, _)| self.state.is_durable_session(session));
        let kept = !route.recipients.is_empty() || retain == Retain::Set;
        (durable && self.has_no_room_on_disk()) || (kept && self.has_no_room_in_memory())
    }

    fn store(
        &mut self,
        publishing: &Publishing<'_>,
        recipients: Vec<Recipient>,
        identifiers: Vec<(QueueId, Vec<u32>)>,
        retain: Retain,
        dropped: Vec<(QueueId, QueuePosition, MessageId)>,
    ) -> Lsn {
        let Publishing { vhost, received, will_of, connection, replaces, .. } = *publishing;
        if recipients.is_empty() && retain == Retain::Not && replaces.is_empty() {
            // Nobody keeps the message: only what else its publishing does is recorded.
            match (will_of, received) {
                (Some(key), _) => return self.commit(Record::WillRemoved { key: key.clone() }),
                (None, Some((session, packet_id))) => {
                    return self.commit(Record::PacketIdReceived { session, packet_id });
                }
                (None, None) => {}
            }
        }
        let content = publishing.message(self.now.wall);
        let message = self.state.next_message();
        let routed = if self.settings.message_events { recipients.clone() } else { Vec::new() };
        let vhost = self.state.vhosts[vhost].name.clone();
        let will_of = will_of.map(|key| key.client.clone());
        self.counters.dropped_queue_full += dropped.len() as u64;
        let (gone, forgotten): (Vec<_>, Vec<_>) = dropped
            .iter()
            .map(|&(queue, position, _)| (queue, position))
            .chain(replaces.iter().copied())
            .partition(|&(queue, position)| self.state.is_durable_entry(queue, position));
        let kept = received.filter(|&(session, _)| self.state.is_durable_session(session));
        // What concerns sessions that do not survive stands in no record that does: recovery would not know them.
        for (queue, position) in forgotten {
            self.commit(Record::Settled { queue, position });
        }
        if let Some((session, packet_id)) = received.filter(|_| kept.is_none()) {
            self.commit(Record::PacketIdReceived { session, packet_id });
        }
        let publication = Publication {
            message,
            vhost,
            content,
            recipients,
            dropped: gone,
            retain,
            received: kept,
            will_of,
            identifiers,
        };
        let lsn = self.commit(Record::Published(publication));
        if self.settings.message_events {
            self.report_stored(message, connection, publishing.parts.address, lsn, &routed, &dropped);
        }
        lsn
    }

    fn report_stored(
        &mut self,
        message: MessageId,
        connection: Option<ConnectionId>,
        address: &[u8],
        lsn: Lsn,
        routed: &[Recipient],
        dropped: &[(QueueId, QueuePosition, MessageId)],
    ) {
        let address = Bytes::copy_from_slice(address);
        self.event(|| Event::Received { message, connection, address });
        if lsn > Lsn::NONE {
            self.event(|| Event::Stored { message, lsn });
        }
        for &Recipient { queue, position, .. } in routed {
            self.event(|| Event::Routed { message, queue, position });
        }
        for &(queue, _, message) in dropped {
            self.event(|| Event::Dropped { message: Some(message), queue, reason: DropReason::QueueFull });
        }
    }

    /// Delivers to those whose queues it went to; beyond a turn's worth, later.
    fn serve(&mut self, sessions: Vec<SessionId>) {
        let now = self.settings.limits.turn_work;
        for (index, session) in sessions.into_iter().enumerate() {
            if self.transacting {
                self.hold_deliveries(session);
            } else if index < now {
                self.pump(session);
            } else if self.attachments.contains_key(&session) || self.is_group(session) {
                self.work.push_back(Work::Pump(session));
            }
        }
    }

    /// The identifiers of the session's subscriptions that match; whether the message is its `own`. [MQTT-3.3.4-3..5]
    pub(crate) fn identifiers_of(&self, id: SessionId, topic: &str, own: bool) -> Vec<u32> {
        let mut found = Vec::new();
        if let Some(session) = self.state.session(id).filter(|session| session.identified > 0) {
            self.state.vhosts[session.vhost].subscriptions.identifiers(topic, id, own, &mut found);
        }
        found
    }
}

fn retained_lsn(broker: &Broker, vhost: usize, topic: &str) -> Lsn {
    broker.state.vhosts[vhost].retained.changed(topic)
}
