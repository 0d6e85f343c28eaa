//! An MQTT connection: from its first byte to its packets, each handed to where it belongs.
//!
//! ```text
//! Opened ──CONNECT──► accepted, CONNACK held ──CONNACK left──► open for deliveries ──► ended
//! ```
//!
//! Packets are handled as soon as they are whole, before the CONNACK has left as well; replies keep their order.

use super::authenticating::Authenticated;
use super::connecting::Asker;
use super::packet::connect::claims_mqtt_5;
use super::packet::disconnect;
use super::packet::frame::{self, Framed};
use super::packet::{AckKind, Disconnect, Packet, PacketId, ProtocolLevel, ReasonCode, Violation};
use super::terms::Terms;
use crate::broker::fanning_out::FAN_OUTS_MAX;
use crate::broker::{Broker, Ending, Work};
use crate::connection::Reply;
use crate::durable::record::SessionExpiry;
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::marks::reached;
use crate::output::{CloseKind, CloseReason};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use bytes::Bytes;

/// The packet type of PUBLISH (§2.2.1).
const PUBLISH: u8 = 3;

/// The client at the other end.
pub struct Client {
    /// The version it speaks.
    pub level: ProtocolLevel,
    /// Its session.
    pub session: SessionId,
    /// Microseconds after which it counts as gone: one and a half times its keep-alive; none without one.
    pub silence_us: Option<u64>,
    /// Its CONNACK has left: deliveries may go.
    pub accepted: bool,
    /// What was agreed on with a client of MQTT 5.
    pub terms: Option<Box<Terms>>,
    /// What it has proven by an exchange of AUTH packets, and may prove again.
    pub(super) authenticated: Option<Box<Authenticated>>,
}

impl Broker {
    /// Bytes arrived.
    pub(crate) fn received(&mut self, id: ConnectionId, bytes: Bytes) {
        let now = self.now.monotonic;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.last_received = now;
        if connection.input.is_empty()
            && connection.needs <= bytes.len()
            && !connection.is_blocked(&self.settings.limits)
        {
            return self.parse(id, bytes);
        }
        connection.input.extend_from_slice(&bytes);
        if connection.input.len() >= connection.needs {
            self.parse_more(id);
        }
    }

    /// Goes on with what had been put off, and then reads again.
    pub(crate) fn go_on_parsing(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.put_off = false;
        self.parse_more(id);
        self.resume_reading(id);
    }

    /// The rest of what came in has its turn after others. Nothing more is read meanwhile, or it would grow.
    pub(crate) fn put_off(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !core::mem::replace(&mut connection.put_off, true)
        {
            reached!("parsing put off");
            self.work.push_back(Work::Parse(id));
        }
        self.pause(id);
    }

    /// Whether a PUBLISH has to wait for the fan-outs under way.
    fn has_fan_outs_enough(&self, id: ConnectionId) -> bool {
        self.fan_outs.len() >= FAN_OUTS_MAX && !self.connections[&id].closing
    }

    /// Goes on with what was received before.
    pub(crate) fn parse_more(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.input.is_empty() {
            return;
        }
        if connection.is_blocked(&self.settings.limits) {
            // Paused, it is gone on with when nothing stands in the way any more.
            return self.pause(id);
        }
        let bytes = core::mem::take(&mut connection.input).freeze();
        self.parse(id, bytes);
    }

    /// Handles whole packets until there is none, or as many as one turn allows.
    fn parse(&mut self, id: ConnectionId, bytes: Bytes) {
        if self.connections.get(&id).is_some_and(|connection| connection.amqp.is_some()) {
            return self.parse_amqp(id, bytes);
        }
        let mut at = 0;
        let mut needs = 0;
        let end = self.pieces + self.settings.limits.turn_work as u64;
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if connection.is_blocked(&self.settings.limits) {
                // Who waits for its login is read until it sends more, so that one sees it go.
                if at < bytes.len() || !connection.awaits_verdict() {
                    self.pause(id);
                }
                break;
            }
            if self.pieces >= end && at < bytes.len() {
                self.put_off(id);
                break;
            }
            match frame::parse(&bytes[at..]) {
                Err(violation) => return self.violated(id, violation),
                Ok(Framed::Partial { first, needs: total }) => {
                    if !self.may_become(id, first, total) {
                        return;
                    }
                    needs = total;
                    break;
                }
                Ok(Framed::Whole(frame, _))
                    if frame.first >> 4 == PUBLISH && self.has_fan_outs_enough(id) =>
                {
                    self.put_off(id);
                    break;
                }
                Ok(Framed::Whole(frame, used)) => {
                    self.pieces += 1;
                    if !self.may_become(id, Some(frame.first), used) {
                        return;
                    }
                    let level = self.level_so_far(id);
                    let is_mqtt_5 = match level {
                        Some(level) => level == ProtocolLevel::V5,
                        None => claims_mqtt_5(frame.body),
                    };
                    let decoded = match is_mqtt_5 && used != frame::whole_bytes(frame.body.len()) {
                        true => Err(Violation::IntegerTooLong), // [MQTT-1.5.5-1] of MQTT 5
                        false => Packet::decode(frame, level.unwrap_or(ProtocolLevel::V3_1_1)),
                    };
                    match decoded {
                        Err(violation) if level.is_none() && is_mqtt_5 => {
                            return self.refuse_violation(id, violation);
                        }
                        Err(violation) => return self.violated(id, violation),
                        Ok(packet) => self.packet(id, packet, &bytes, at..at + used),
                    }
                    at += used;
                }
            }
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.needs = needs;
        if at < bytes.len() {
            connection.input.extend_from_slice(&bytes[at..]);
        }
    }

    /// Whether a packet that begins so may be waited for: the first one is CONNECT [MQTT-3.1.0-1], none is
    /// larger than allowed. Otherwise the connection has been closed.
    fn may_become(&mut self, id: ConnectionId, first: Option<u8>, total: usize) -> bool {
        let limits = &self.settings.limits;
        let connection = &self.connections[&id];
        let opened = connection.client.is_none();
        let (name, most) = match opened {
            true => ("connect_bytes", limits.connect_bytes),
            false => ("packet_bytes", limits.packet_bytes),
        };
        if opened && connection.proving.is_none() && first.is_some_and(|first| first >> 4 != 1) {
            self.violated(id, Violation::NotConnectFirst);
            return false;
        }
        if total > most {
            let text = alloc::format!("a packet of {total} bytes; limits.{name} is {most}");
            self.over_limit(id, ReasonCode::PacketTooLarge, text.into()); // [MQTT-3.2.2-15]
            return false;
        }
        true
    }

    fn packet(
        &mut self,
        id: ConnectionId,
        packet: Packet<'_>,
        bytes: &Bytes,
        range: core::ops::Range<usize>,
    ) {
        let exchanging = self.connections[&id].proving.is_some();
        let session = match (&packet, self.connections[&id].session()) {
            (Packet::Connect(connect), None) if !exchanging => {
                return self.on_connect(id, connect, || bytes.slice(range));
            }
            (Packet::Auth(auth), None) if exchanging => return self.on_auth(id, auth),
            (Packet::Disconnect(_), None) if exchanging => {
                let reason =
                    self.reason(id, CloseKind::Normal, "", "disconnected before it was known".into());
                return self.end(id, Ending::Ordered(reason));
            }
            (_, None) if exchanging => return self.violated(id, Violation::OtherThanAuth), // [MQTT-3.1.2-30]
            (_, None) => return self.violated(id, Violation::NotConnectFirst),
            (Packet::Connect(_), Some(_)) => return self.violated(id, Violation::SecondConnect), // [MQTT-3.1.0-2]
            (_, Some(session)) => session,
        };
        match packet {
            Packet::Connect(_) => {}
            Packet::Publish(publish) => self.on_publish(id, session, &publish, || bytes.slice(range)),
            Packet::Ack(AckKind::PubRel, packet_id, _) => self.on_pubrel(id, session, packet_id),
            Packet::Ack(kind, packet_id, failed) => {
                self.on_acknowledgement(id, session, kind, packet_id, failed);
            }
            Packet::Subscribe(subscribe) => self.on_subscribe(id, session, &subscribe),
            Packet::Unsubscribe(unsubscribe) => self.on_unsubscribe(id, session, &unsubscribe),
            Packet::PingRequest => self.on_ping(id),
            Packet::Disconnect(disconnect) => self.on_disconnect(id, session, &disconnect),
            Packet::Auth(auth) => self.on_auth(id, &auth),
        }
    }

    /// PINGREQ: its answer passes what is held [MQTT-3.12.4-1], but never CONNACK [MQTT-3.2.0-1].
    fn on_ping(&mut self, id: ConnectionId) {
        const PINGRESP: [u8; 2] = [0xd0, 0];
        let client = self.connections.get(&id).and_then(|connection| connection.client.as_ref());
        match client.is_some_and(|client| client.accepted) {
            true => self.send(id, &PINGRESP),
            false => self.reply(id, Lsn::NONE, Reply::Long(PINGRESP.into())),
        }
    }

    /// DISCONNECT: the will is void [MQTT-3.14.4-3], the connection is closed.
    fn on_disconnect(&mut self, id: ConnectionId, session: SessionId, disconnect: &Disconnect) {
        if let Some(seconds) = disconnect.session_expiry_s {
            let held = self.state.session(session).expect("a client has a session");
            if held.outlives_its_connection() {
                self.set_session_expiry(session, SessionExpiry::of_interval(seconds));
            } else if seconds > 0 {
                return self.violated(id, Violation::SessionExpiryFromZero);
            }
        }
        if !disconnect.keeps_will {
            self.void_will(session); // [MQTT-3.14.4-3]
        }
        let reason = self.reason(id, CloseKind::Normal, "", "disconnected".into());
        self.end(id, Ending::Ordered(reason));
    }

    /// Closes because the peer broke a rule. [MQTT-4.8.0-1]
    pub(crate) fn violated(&mut self, id: ConnectionId, violation: Violation) {
        self.counters.protocol_errors += 1;
        let (code, kind) = (violation.code(), CloseKind::ProtocolError);
        self.dismiss(id, code, kind, violation.clause(), violation.text().into());
    }

    /// Refuses a CONNECT of MQTT 5 that breaks a rule. [MQTT-3.1.4-1]
    fn refuse_violation(&mut self, id: ConnectionId, violation: Violation) {
        let (code, kind) = (violation.code(), CloseKind::ProtocolError);
        // What it takes is not known: the packet could not be read.
        let asker = Asker { level: ProtocolLevel::V5, packet_bytes: usize::MAX };
        self.refuse(id, asker, code, kind, violation.clause(), violation.text().into());
    }

    /// Tells a client of MQTT 5 why its connection ends now; not before its CONNACK. [MQTT-3.14.0-1]
    pub(crate) fn say_goodbye(&mut self, id: ConnectionId, code: ReasonCode, words: &str) {
        let Some(connection) = self.connections.get(&id) else { return };
        let accepted = connection.client.as_ref().is_some_and(|client| client.accepted);
        if let Some(terms) = connection.terms().filter(|_| accepted) {
            let bytes = disconnect::encode(code, words, terms.maximum_packet_bytes);
            self.send(id, &bytes);
        }
    }

    /// Closes because the peer went over a limit.
    pub(crate) fn over_limit(&mut self, id: ConnectionId, code: ReasonCode, text: Cow<'static, str>) {
        self.dismiss(id, code, CloseKind::Limit, "", text);
    }

    /// Closes, and says why.
    pub(crate) fn dismiss(
        &mut self,
        id: ConnectionId,
        code: ReasonCode,
        kind: CloseKind,
        clause: &'static str,
        text: Cow<'static, str>,
    ) {
        self.say_goodbye(id, code, &text);
        let reason = self.reason(id, kind, clause, text);
        self.end(id, Ending::Ordered(reason));
    }

    /// Sends an acknowledgement once `wait` is durable.
    pub(crate) fn acknowledge(&mut self, id: ConnectionId, kind: AckKind, packet_id: PacketId, wait: Lsn) {
        self.reply(id, wait, Reply::Short(kind.encode(packet_id)));
    }

    /// Sends an acknowledgement once `wait` is durable: to a client of MQTT 5 with a reason.
    pub(crate) fn acknowledge_with(
        &mut self,
        id: ConnectionId,
        kind: AckKind,
        packet_id: PacketId,
        wait: Lsn,
        reason: ReasonCode,
    ) {
        match reason != ReasonCode::Success && self.level_of(id) == ProtocolLevel::V5 {
            true => self.reply(id, wait, Reply::Long(Box::new(kind.encode_with(packet_id, reason)))),
            false => self.acknowledge(id, kind, packet_id, wait),
        }
    }

    /// The version that the client speaks.
    pub(super) fn level_of(&self, id: ConnectionId) -> ProtocolLevel {
        let client = self.connections.get(&id).and_then(|connection| connection.client.as_ref());
        client.map_or(ProtocolLevel::V3_1_1, |client| client.level)
    }

    /// The version that the client speaks; none: its CONNECT has not come.
    fn level_so_far(&self, id: ConnectionId) -> Option<ProtocolLevel> {
        let connection = &self.connections[&id];
        let exchanging = connection.proving.is_some().then_some(ProtocolLevel::V5);
        connection.client.as_ref().map(|client| client.level).or(exchanging)
    }

    /// A reason with the client's name.
    pub(crate) fn reason(
        &self,
        id: ConnectionId,
        kind: CloseKind,
        clause: &'static str,
        text: Cow<'static, str>,
    ) -> CloseReason {
        let session = self.connections.get(&id).and_then(|connection| connection.session());
        let session = session.and_then(|session| self.state.session(session));
        let client = session.map(|session| String::from(&*session.key.client));
        CloseReason { kind, clause, text, client }
    }
}
