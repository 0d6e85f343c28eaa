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
use super::packet::{AckKind, Packet, PacketId, ProtocolLevel, Publish, Violation};
use super::topic;
use crate::broker::Broker;
use crate::broker::publishing::{Published, Publishing};
use crate::durable::record::Record;
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::marks::reached;
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
        if !self.admit_publish(id, session, publish) {
            return;
        }
        if self.is_repetition(id, session, publish) {
            return;
        }
        if self.has_to_queue(id, publish) || !self.try_publish(id, session, publish) {
            self.park(id, packet());
        }
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
        if !self.topic_is_within_limits(id, publish.topic.as_str()) {
            return false;
        }
        if let Delivery::ExactlyOnce(packet_id) = publish.delivery {
            let received = &self.state.session(session).expect("a client has a session").received;
            let most = self.settings.limits.received_ids;
            if received.len() >= most && !received.contains_key(&packet_id) {
                let text = "more unreleased QoS 2 messages than limits.received_ids allows";
                self.over_limit(id, text.into());
                return false;
            }
        }
        true
    }

    /// Whether a topic name or filter is within the limits; otherwise the connection has been closed.
    pub(super) fn topic_is_within_limits(&mut self, id: ConnectionId, text: &str) -> bool {
        let limits = &self.settings.limits;
        let problem = if text.len() > limits.topic_bytes {
            alloc::format!("a topic of {} bytes; limits.topic_bytes is {}", text.len(), limits.topic_bytes)
        } else if topic::levels(text) > limits.topic_levels {
            alloc::format!(
                "a topic of {} levels; limits.topic_levels is {}",
                topic::levels(text),
                limits.topic_levels
            )
        } else {
            return true;
        };
        self.over_limit(id, problem.into());
        false
    }

    /// False: it has to wait for room.
    fn try_publish(&mut self, id: ConnectionId, session: SessionId, publish: &Publish<'_>) -> bool {
        let received = match publish.delivery {
            Delivery::ExactlyOnce(packet_id) => Some((session, packet_id)),
            Delivery::AtLeastOnce(_) | Delivery::AtMostOnce => None,
        };
        let vhost = self.state.session(session).expect("a client has a session").vhost;
        let (topic, qos) = (publish.topic.as_str(), publish.delivery.qos());
        let published = self.publish(Publishing {
            retain: publish.retain,
            received,
            connection: Some(id),
            ..Publishing::of_mqtt(vhost, topic, publish.payload, qos)
        });
        match (published, publish.delivery) {
            (Published::Held, _) => return false,
            (Published::Refused(text), Delivery::AtLeastOnce(_) | Delivery::ExactlyOnce(_)) => {
                // MQTT 3.1.1 knows no other answer than to acknowledge or to close. [MQTT-3.3.5-2]
                self.over_limit(id, text.into());
            }
            (Published::Stored(lsn), Delivery::AtLeastOnce(packet_id)) => {
                self.acknowledge(id, AckKind::PubAck, packet_id, lsn);
            }
            (Published::Stored(lsn), Delivery::ExactlyOnce(packet_id)) => {
                self.acknowledge(id, AckKind::PubRec, packet_id, lsn);
            }
            (Published::Stored(_) | Published::Refused(_), Delivery::AtMostOnce) => {}
        }
        true
    }

    fn received_lsn(&self, session: SessionId, packet_id: PacketId) -> Option<Lsn> {
        self.state.session(session).and_then(|session| session.received.get(&packet_id).copied())
    }

    /// PUBREL: the identifier may be used for another message.
    pub(super) fn on_pubrel(&mut self, id: ConnectionId, session: SessionId, packet_id: PacketId) {
        let wait = match self.received_lsn(session, packet_id) {
            Some(_) => self.commit(Record::PacketIdReleased { session, packet_id }),
            // Released before: the answer says so again, once that is durable.
            None => {
                reached!("repeated PUBREL");
                self.state.session(session).map_or(Lsn::NONE, |session| session.released)
            }
        };
        self.acknowledge(id, AckKind::PubComp, packet_id, wait);
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
        self.connections[&id].parked.iter().any(|packet| parked_publish(packet).delivery == wanted)
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
            if !self.try_publish(id, session, &parked_publish(&packet)) {
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
fn parked_publish(packet: &Bytes) -> Publish<'_> {
    let Ok(Framed::Whole(frame, _)) = frame::parse(packet) else {
        unreachable!("only whole packets are parked");
    };
    // PUBLISH reads the same at every level.
    match Packet::decode(frame, ProtocolLevel::V3_1_1) {
        Ok(Packet::Publish(publish)) => publish,
        _ => unreachable!("only valid PUBLISH packets are parked"),
    }
}
