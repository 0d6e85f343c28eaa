//! What a client does with what it receives.

use super::agreement::Agreement;
use super::session::{Answer, Came, Request, Todo};
use super::{Client, Context, Link, PATIENCE_US};
use crate::codec::{self, Answer as Ack, Codes, ConnAck, Packet, Publish, Reason, Verdict, Version};
use crate::happening::Timer;
use crate::model::Delivery;
use crate::outcome::Checker;
use crate::scenario::Asked;
use bytes::Bytes;
use vowmq_core::ids::ConnectionId;

/// Reasons for which a broker may end the connection of a client that keeps the rules: a bound, the end of the process, a
/// silence, another connection (MQTT 5 §3.14.2.1).
const GOODBYES: [u8; 5] = [0x89, 0x8b, 0x8d, 0x8e, 0x97];

/// Larger packets no broker of a simulation has a reason to send.
const PACKET_BYTES_MAX: usize = 1 << 20;

impl Client {
    /// Bytes came from the broker.
    pub(crate) fn received(&mut self, around: &mut Context<'_>, connection: ConnectionId, bytes: &Bytes) {
        if self.connection() != Some(connection) {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        let asks = self.program.mqtt5.as_ref();
        let takes = asks.map_or(0, |asks| asks.maximum_packet_bytes as usize);
        while self.connection() == Some(connection) && !self.buffer.is_empty() {
            let before = self.buffer.len();
            match codec::read(self.program.version(), &mut self.buffer, PACKET_BYTES_MAX) {
                Ok(Some(_)) if takes > 0 && before - self.buffer.len() > takes => {
                    let bytes = before - self.buffer.len();
                    let text = format!("a packet of {bytes} bytes, and it takes {takes} ([MQTT-3.1.2-24])");
                    self.fail(around, Checker::Protocol, &text);
                }
                Ok(Some(packet)) => self.packet_received(around, packet),
                Ok(None) => break,
                Err(error) => {
                    self.fail(around, Checker::Codec, &format!("what came is not MQTT: {error}"));
                    return;
                }
            }
        }
        self.pump(around);
    }

    fn packet_received(&mut self, around: &mut Context<'_>, packet: Packet) {
        around.trace.line("receives", &[self.index as u64], || format!("{}: {packet}", self.program.id));
        let handshake = matches!(self.link, Link::Handshake { .. });
        match packet {
            Packet::ConnAck(connack) if handshake => self.connack_received(around, &connack),
            _ if handshake => {
                self.fail(around, Checker::Protocol, "the first packet is no CONNACK ([MQTT-3.2.0-1])")
            }
            _ if self.dismissed => {
                self.fail(around, Checker::Protocol, "a packet after DISCONNECT ([MQTT-3.14.4-1])");
            }
            Packet::Publish(mut publish) => match self.agreement.resolve(&mut publish) {
                Ok(()) => self.publish_received(around, &publish),
                Err(rule) => self.fail(around, Checker::Protocol, &format!("it is sent {rule}")),
            },
            Packet::PubAck(ack) => self.answered(around, ack, 1),
            Packet::PubRec(ack) => self.pubrec_received(around, ack),
            Packet::PubRel(Ack { packet_id, .. }) => {
                let came = self.session.incoming.remove(&packet_id).flatten();
                self.answer_later(around, Answer::Complete(packet_id, came));
            }
            Packet::PubComp(ack) => self.answered(around, ack, 2),
            Packet::SubAck(suback) => self.suback_received(around, &suback),
            Packet::UnsubAck(unsuback) => self.unsuback_received(around, &unsuback),
            Packet::PingResp => {}
            Packet::Disconnect(disconnect)
                if self.program.version() == Version::V5 && GOODBYES.contains(&disconnect.code) =>
            {
                self.dismissed = true;
            }
            Packet::ConnAck(_)
            | Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq
            | Packet::Disconnect(_) => {
                self.fail(around, Checker::Protocol, &format!("no broker may send this here: {packet:?}"));
            }
        }
    }

    fn connack_received(&mut self, around: &mut Context<'_>, connack: &ConnAck) {
        let Link::Handshake { connection, asked } = self.link else { return };
        if connack.verdict != Verdict::Accepted {
            if connack.verdict != Verdict::Unavailable || !around.model.allows_refusals() {
                self.fail(around, Checker::Protocol, &format!("its CONNECT is refused: {connack:?}"));
            }
            return;
        }
        self.link = Link::Up { connection, asked };
        if let Some(asks) = &self.program.mqtt5 {
            self.agreement = Agreement::new(connack.terms, asks.aliases, asks.topic_alias_maximum);
        }
        if self.program.hasty_percent > 0 {
            self.patient_until = around.now + self.draws.below(PATIENCE_US);
        }
        around.model.connect_accepted(self.index, self.attempts - 1);
        around.model.connected(self.index, asked, connack.present);
        self.asks_once_s = None;
        if asked == Asked::Clean {
            self.afresh = false;
        }
        if connack.present && around.model.is_in_doubt(self.index) {
            // Its session may have expired and a CONNECT without answer have begun another: it cannot tell what
            // the broker knows, so it begins anew.
            self.afresh = true;
            return self.take_over(around);
        }
        if connack.present && asked != Asked::Clean {
            self.resume(around);
        } else {
            self.session.start_afresh(around.model, false);
            self.session.settled.clear();
        }
        if self.program.keep_alive_s > 0 {
            self.timer(around, u64::from(self.program.keep_alive_s) * 500_000, Timer::Ping);
        }
    }

    fn publish_received(&mut self, around: &mut Context<'_>, publish: &Publish) {
        around.counts.deliveries += 1;
        let fresh = publish.qos != 2 || !self.session.incoming.contains_key(&publish.packet_id);
        let key = around.model.delivered(&Delivery {
            client: self.index,
            attempt: self.attempts - 1,
            topic: &publish.topic,
            payload: &publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            packet_id: publish.packet_id,
            fresh,
            identifiers: &publish.identifiers,
        });
        let retained = publish.retain && !around.model.keeps_retain(self.index);
        let came = key.map(|key| Came { key, retained });
        let id = publish.packet_id;
        if publish.qos == 0 {
            if publish.dup {
                self.fail(around, Checker::Protocol, "a QoS 0 message carries DUP ([MQTT-3.3.1-2])");
            }
            return;
        }
        if let Some(open) = self.session.open_ids.insert(id, came)
            && open != came
        {
            self.fail(around, Checker::PacketId, &format!("packet id {id} is in use on this connection"));
        }
        around.model.in_flight(self.index, self.session.open_ids.len());
        if publish.qos == 1 {
            self.answer_later(around, Answer::Ack(id, came));
            return;
        }
        if let Some(held) = self.session.incoming.insert(id, came)
            && held != came
        {
            let text =
                format!("packet id {id} was not released and comes with another message: that one is lost");
            self.fail(around, Checker::PacketId, &text);
        }
        self.answer_later(around, Answer::Received(id));
    }

    fn pubrec_received(&mut self, around: &mut Context<'_>, ack: Ack) {
        let id = ack.packet_id;
        let found = self.session.outgoing.iter().position(|outgoing| outgoing.packet_id == id);
        let Some(at) = found.filter(|at| self.session.outgoing[*at].publish.qos == 2) else {
            self.fail(
                around,
                Checker::Protocol,
                &format!("PUBREC for packet id {id}, which it does not use"),
            );
            return;
        };
        if ack.reason.refuses() {
            return self.message_refused(around, at, ack);
        }
        let outgoing = &mut self.session.outgoing[at];
        if outgoing.released {
            *self.session.repeated.entry(id).or_default() += 1;
        } else {
            outgoing.released = true;
            let (key, first, write) = (outgoing.key, outgoing.first, outgoing.write);
            self.message_acked(around, (key, ack.reason), first, write);
        }
        self.release(around, id);
    }

    /// PUBACK or PUBCOMP: the message is seen through.
    fn answered(&mut self, around: &mut Context<'_>, ack: Ack, qos: u8) {
        let id = ack.packet_id;
        let at = self.session.outgoing.iter().position(|outgoing| outgoing.packet_id == id);
        let Some(at) = at else {
            match self.session.repeated.get_mut(&id) {
                Some(1) => {
                    self.session.repeated.remove(&id);
                }
                Some(more) => *more -= 1,
                None => self.fail(
                    around,
                    Checker::Protocol,
                    &format!("an answer for packet id {id}, which it does not use"),
                ),
            }
            return;
        };
        let outgoing = &self.session.outgoing[at];
        if outgoing.publish.qos != qos || (qos == 2 && !outgoing.released) {
            self.fail(around, Checker::Protocol, &format!("the wrong answer for packet id {id}"));
            return;
        }
        if qos == 1 && ack.reason.refuses() {
            return self.message_refused(around, at, ack);
        }
        let outgoing = self.session.outgoing.remove(at).expect("just found");
        if qos == 1 {
            self.message_acked(around, (outgoing.key, ack.reason), outgoing.first, outgoing.write);
        }
    }

    /// The broker does not take a message: its packet id is free, and nothing more comes of it ([MQTT-4.3.3-4] of MQTT 5).
    fn message_refused(&mut self, around: &mut Context<'_>, at: usize, ack: Ack) {
        let outgoing = self.session.outgoing.remove(at).expect("just found");
        if ack.reason != Reason::QuotaExceeded || !around.model.has_bounded_queues() {
            self.fail(around, Checker::Protocol, &format!("its message is refused: {ack:?}"));
        }
        around.model.publish_refused(outgoing.key);
    }

    fn message_acked(
        &mut self,
        around: &mut Context<'_>,
        (key, reason): (crate::payload::MessageKey, Reason),
        first: bool,
        write: u64,
    ) {
        if reason == Reason::NobodyHears {
            around.model.nobody_hears(key);
        }
        around.model.publish_acked(key);
        if first && around.model.proves_disk(key) {
            around.model.settlements_proven(self.index, write);
        }
    }

    fn suback_received(&mut self, around: &mut Context<'_>, suback: &Codes) {
        let request = self.take_request(suback.packet_id);
        let Some(Request { tickets, todo: Todo::Subscribe { filters }, .. }) = request else {
            self.fail(
                around,
                Checker::Protocol,
                &format!("SUBACK for packet id {}, which it does not use", suback.packet_id),
            );
            return;
        };
        if suback.codes.len() != filters.len() {
            let text =
                format!("it asks for {} subscriptions and gets {suback:?} ([MQTT-3.8.4-5])", filters.len());
            return self.fail(around, Checker::Protocol, &text);
        }
        for (((filter, qos), ticket), code) in filters.into_iter().zip(tickets).zip(&suback.codes) {
            match code {
                Ok(granted) if *granted <= qos => {
                    around.model.request_acked(self.index, &filter, ticket, Some(*granted));
                }
                Err(Reason::QuotaExceeded) if around.model.allows_refusals() => {
                    around.model.request_refused(self.index, &filter, ticket);
                    self.session.wanted.remove(&filter);
                }
                _ => self.fail(
                    around,
                    Checker::Protocol,
                    &format!("it asks for QoS {qos} and gets {suback:?}"),
                ),
            }
        }
    }

    fn unsuback_received(&mut self, around: &mut Context<'_>, unsuback: &Codes) {
        let request = self.take_request(unsuback.packet_id);
        let Some(Request { tickets, todo: Todo::Unsubscribe { filters }, .. }) = request else {
            let id = unsuback.packet_id;
            let text = format!("UNSUBACK for packet id {id}, which it does not use");
            return self.fail(around, Checker::Protocol, &text);
        };
        let of_mqtt_5 = self.program.version() == Version::V5;
        let wrong = |code: &Result<u8, Reason>| matches!(code, Err(reason) if *reason != Reason::NotInUse);
        if (of_mqtt_5 && unsuback.codes.len() != filters.len()) || unsuback.codes.iter().any(wrong) {
            self.fail(around, Checker::Protocol, &format!("it gives up {filters:?} and gets {unsuback:?}"));
        }
        for (filter, ticket) in filters.iter().zip(tickets) {
            around.model.request_acked(self.index, filter, ticket, None);
        }
    }

    fn take_request(&mut self, id: u16) -> Option<Request> {
        let at = self.session.requests.iter().position(|request| request.packet_id == id)?;
        self.session.requests.remove(at)
    }

    /// Answers go out in the order of what they answer ([MQTT-4.6.0-2] to [MQTT-4.6.0-4]), some time later.
    fn answer_later(&mut self, around: &mut Context<'_>, answer: Answer) {
        self.session.answers.push_back(answer);
        if self.program.answer_us == 0 {
            self.answer(around);
        } else if !self.answers_due {
            self.answers_due = true;
            let wait = self.draws.below(self.program.answer_us);
            self.timer(around, wait, Timer::Answers);
        }
    }

    pub(super) fn answer(&mut self, around: &mut Context<'_>) {
        self.answers_due = false;
        let Link::Up { asked, .. } = self.link else { return };
        while let Some(answer) = self.session.answers.pop_front() {
            let (packet, settled) = match answer {
                Answer::Ack(id, came) => (Packet::PubAck(Ack::new(id)), Some((id, came))),
                Answer::Received(id) => (Packet::PubRec(Ack::new(id)), None),
                Answer::Complete(id, came) => (Packet::PubComp(Ack::new(id)), Some((id, came))),
            };
            self.write(around, &packet);
            let Some((id, came)) = settled else { continue };
            self.session.open_ids.remove(&id);
            self.session.settled.insert(id);
            if let Some(came) = came.filter(|came| !asked.ends() && !came.retained) {
                around.model.settled(self.index, came.key, self.session.writes);
            }
        }
    }
}
