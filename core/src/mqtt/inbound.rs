//! What a client publishes: PUBLISH, and the PUBREL of QoS 2 (§4.3).
//!
//! A QoS 2 message is routed when it arrives; its packet identifier is remembered until the PUBREL, and whatever
//! comes under it before that is the same message again (§4.3.3, method B). Crash story of a durable session:
//!
//! 1. PUBLISH: message and identifier go into one record.
//! 2. PUBREC leaves after its sync.
//! 3. PUBREL: the forgetting is recorded.
//! 4. PUBCOMP leaves after its sync.
//!
//! After a crash before 2 or 4 the client sends again and finds what is recorded.

use super::packet::frame::{self, Framed};
use super::packet::publish::Delivery;
use super::packet::{AckKind, Packet, PacketId, ProtocolLevel, Publish, ReasonCode, Violation};
use super::topic::{self, TopicName};
use crate::broker::Broker;
use crate::broker::publishing::{Published, Publishing};
use crate::durable::record::Record;
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::marks::reached;
use crate::time::WallTime;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;

impl Broker {
    /// PUBLISH; `packet` yields its bytes, in case it has to be parked.
    pub(super) fn on_publish(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish<'_>,
        packet: impl FnOnce() -> Bytes,
    ) {
        let Some(alias) = publish.properties.topic_alias else {
            return self.on_publish_to_topic(id, session, publish, packet);
        };
        let Some(name) = self.name_of_alias(id, alias, publish.topic) else { return };
        let topic = TopicName::new(&name).expect("it was valid when its alias was set");
        let publish = Publish { topic: Some(topic), ..publish.clone() };
        // What the alias stands for may have changed when a parked packet has its turn.
        self.on_publish_to_topic(id, session, &publish, || publish.encode().into());
    }

    fn on_publish_to_topic(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish<'_>,
        packet: impl FnOnce() -> Bytes,
    ) {
        if !self.admit_publish(id, session, publish) {
            return;
        }
        if self.is_repetition(id, session, publish) {
            return;
        }
        if !self.admit_one_more(id, publish) {
            return;
        }
        if self.has_to_queue(id, publish) || !self.try_publish(id, session, publish) {
            self.park(id, packet());
        }
    }

    /// What the client's alias stands for, from now on `topic` if there is one; none: nothing, and the connection has been
    /// closed. [MQTT-3.3.2-8], [MQTT-3.3.2-9]
    fn name_of_alias(
        &mut self,
        id: ConnectionId,
        alias: u16,
        topic: Option<TopicName<'_>>,
    ) -> Option<Arc<str>> {
        let terms = self.connections.get_mut(&id)?.terms_mut()?;
        if !terms.takes_alias(alias) {
            self.violated(id, Violation::TopicAlias);
            return None;
        }
        if let Some(topic) = topic {
            terms.set_alias(alias, topic.as_str());
        }
        let name = terms.topic_of(alias);
        if name.is_none() {
            self.violated(id, Violation::TopicAliasUnknown);
        }
        name
    }

    /// Whether a client of MQTT 5 keeps to Receive Maximum; otherwise the connection has been closed. [MQTT-3.3.4-7] of MQTT 5
    fn admit_one_more(&mut self, id: ConnectionId, publish: &Publish<'_>) -> bool {
        if publish.delivery == Delivery::AtMostOnce {
            return true;
        }
        let Some(terms) = self.connections.get_mut(&id).and_then(|c| c.terms_mut()) else { return true };
        terms.unacknowledged += 1;
        let within = terms.unacknowledged <= terms.unacknowledged_maximum;
        if !within {
            self.violated(id, Violation::ReceiveMaximum);
        }
        within
    }

    /// Whether it is a repetition, which has been dealt with then. One is never parked: the PUBREL would pass it, and
    /// it would come to life as a new message.
    fn is_repetition(&mut self, id: ConnectionId, session: SessionId, publish: &Publish<'_>) -> bool {
        let Delivery::ExactlyOnce(packet_id) = publish.delivery else { return false };
        if let Some(lsn) = self.received_lsn(session, packet_id) {
            // Answered as before, once what the answer says is durable. [MQTT-4.3.3-2]
            reached!("repeated publish");
            self.acknowledge(id, AckKind::PubRec, packet_id, lsn);
            return true;
        }
        self.has_parked(id, packet_id) // answered when the first one is
    }

    /// Whether it has to wait behind what is parked: order is kept per topic and QoS [MQTT-4.6.0-6], and what a
    /// topic retains is the last that was published.
    fn has_to_queue(&self, id: ConnectionId, publish: &Publish<'_>) -> bool {
        let connection = &self.connections[&id];
        let any = !connection.parked.is_empty();
        match publish.delivery {
            Delivery::AtMostOnce => connection.parked_at_most_once > 0 || (publish.retain && any),
            Delivery::AtLeastOnce(_) | Delivery::ExactlyOnce(_) => any,
        }
    }

    /// Whether it is within the limits; otherwise the connection has been closed.
    fn admit_publish(&mut self, id: ConnectionId, session: SessionId, publish: &Publish<'_>) -> bool {
        self.counters.received += 1;
        if !self.topic_is_within_limits(id, publish.name()) {
            return false;
        }
        // A client of MQTT 5 keeps to Receive Maximum, which does not count what it released before it came back.
        if let Delivery::ExactlyOnce(packet_id) = publish.delivery
            && self.level_of(id) != ProtocolLevel::V5
        {
            let received = &self.state.session(session).expect("a client has a session").received;
            let most = self.settings.limits.received_ids;
            if received.len() >= most && !received.contains_key(&packet_id) {
                let text = "more unreleased QoS 2 messages than limits.received_ids allows";
                self.over_limit(id, ReasonCode::ReceiveMaximumExceeded, text.into());
                return false;
            }
        }
        true
    }

    /// Whether a topic name or filter is within the limits; otherwise the connection has been closed.
    pub(super) fn topic_is_within_limits(&mut self, id: ConnectionId, text: &str) -> bool {
        let Some(problem) = self.topic_beyond_limits(text) else { return true };
        self.over_limit(id, ReasonCode::TopicNameInvalid, problem.into());
        false
    }

    /// Which limit a topic name or filter goes beyond, if any.
    pub(super) fn topic_beyond_limits(&self, text: &str) -> Option<String> {
        let limits = &self.settings.limits;
        let (bytes, levels) = (text.len(), topic::levels(text));
        if bytes > limits.topic_bytes {
            return Some(format!("a topic of {bytes} bytes; limits.topic_bytes is {}", limits.topic_bytes));
        }
        let most = limits.topic_levels;
        (levels > most).then(|| format!("a topic of {levels} levels; limits.topic_levels is {most}"))
    }

    /// False: it has to wait for room.
    fn try_publish(&mut self, id: ConnectionId, session: SessionId, publish: &Publish<'_>) -> bool {
        let received = match publish.delivery {
            Delivery::ExactlyOnce(packet_id) => Some((session, packet_id)),
            Delivery::AtLeastOnce(_) | Delivery::AtMostOnce => None,
        };
        let vhost = self.state.session(session).expect("a client has a session").vhost;
        let (topic, qos) = (publish.name(), publish.delivery.qos());
        let expiry = publish.properties.expiry_s.map(|seconds| u64::from(seconds) * 1000);
        let properties = publish.properties.forwarded();
        let published = self.publish(Publishing {
            retain: publish.retain,
            received,
            connection: Some(id),
            expires_at: expiry.map_or(WallTime(0), |ms| self.now.wall.plus_ms(ms)),
            ..Publishing::of_mqtt(vhost, topic, &properties, publish.payload, qos)
        });
        let (kind, packet_id) = match publish.delivery {
            Delivery::AtMostOnce => return published != Published::Held,
            Delivery::AtLeastOnce(packet_id) => (AckKind::PubAck, packet_id),
            Delivery::ExactlyOnce(packet_id) => (AckKind::PubRec, packet_id),
        };
        match published {
            Published::Held => return false,
            Published::Stored { lsn, heard: false } => {
                self.acknowledge_with(id, kind, packet_id, lsn, ReasonCode::NoMatchingSubscribers);
            }
            Published::Stored { lsn, .. } => self.acknowledge(id, kind, packet_id, lsn),
            Published::Refused(_) if self.level_of(id) == ProtocolLevel::V5 => {
                // The identifier is free again: a PUBREC that refuses ends it. [MQTT-4.3.3-9]
                self.acknowledge_with(id, kind, packet_id, Lsn::NONE, ReasonCode::QuotaExceeded);
            }
            Published::Refused(text) => {
                // MQTT 3.1.1 knows no other answer than to acknowledge or to close. [MQTT-3.3.5-2]
                self.over_limit(id, ReasonCode::QuotaExceeded, text.into());
            }
        }
        true
    }

    fn received_lsn(&self, session: SessionId, packet_id: PacketId) -> Option<Lsn> {
        self.state.session(session).and_then(|session| session.received.get(&packet_id).copied())
    }

    /// PUBREL: the identifier may be used for another message.
    pub(super) fn on_pubrel(&mut self, id: ConnectionId, session: SessionId, packet_id: PacketId) {
        let (wait, reason) = match self.received_lsn(session, packet_id) {
            Some(_) => (self.commit(Record::PacketIdReleased { session, packet_id }), ReasonCode::Success),
            // Released before: the answer says so again, once that is durable.
            None => {
                reached!("repeated PUBREL");
                let released = self.state.session(session).map_or(Lsn::NONE, |session| session.released);
                (released, ReasonCode::PacketIdentifierNotFound)
            }
        };
        self.acknowledge_with(id, AckKind::PubComp, packet_id, wait, reason);
    }

    /// Keeps a PUBLISH until there is room; its publisher's later ones wait behind it.
    fn park(&mut self, id: ConnectionId, packet: Bytes) {
        reached!("publish parked");
        self.counters.parked += 1;
        let connection = self.connections.get_mut(&id).expect("it sent the PUBLISH that is parked");
        connection.parked_bytes += packet.len();
        connection.parked_at_most_once += usize::from(is_at_most_once(&packet));
        connection.parked.push_back(Bytes::copy_from_slice(&packet));
        self.parked.insert(id);
    }

    fn has_parked(&self, id: ConnectionId, packet_id: PacketId) -> bool {
        let wanted = Delivery::ExactlyOnce(packet_id);
        let level = self.level_of(id);
        self.connections[&id].parked.iter().any(|packet| parked_publish(packet, level).delivery == wanted)
    }

    /// Takes parked PUBLISHes up again, until one has to wait again.
    pub(crate) fn unpark(&mut self, id: ConnectionId) {
        if self.connections.get(&id).is_some_and(|connection| connection.amqp.is_some()) {
            return self.unpark_amqp(id);
        }
        while let Some(connection) = self.connections.get_mut(&id)
            && let Some(packet) = connection.parked.front().cloned()
        {
            let session = connection.session().expect("only clients park");
            let level = self.level_of(id);
            if !self.try_publish(id, session, &parked_publish(&packet, level)) {
                return;
            }
            reached!("publish unparked");
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.parked.pop_front();
                connection.parked_bytes -= packet.len();
                connection.parked_at_most_once -= usize::from(is_at_most_once(&packet));
            }
        }
        self.parked.remove(&id);
        self.resume_reading(id);
    }

    /// Closes for a violation found outside of decoding.
    pub(super) fn wrong_kind(&mut self, id: ConnectionId) {
        self.violated(id, Violation::AckOfWrongKind);
    }
}

fn is_at_most_once(packet: &Bytes) -> bool {
    packet[0] & 0x06 == 0
}

/// A PUBLISH that was parked, decoded again.
fn parked_publish(packet: &Bytes, level: ProtocolLevel) -> Publish<'_> {
    let Ok(Framed::Whole(frame, _)) = frame::parse(packet) else {
        unreachable!("only whole packets are parked");
    };
    match Packet::decode(frame, level) {
        Ok(Packet::Publish(publish)) => publish,
        _ => unreachable!("only valid PUBLISH packets are parked"),
    }
}
