//! CONNECT: who the client is, which session it gets, what its CONNACK waits for (§3.1.4).

use super::authenticating::Authenticated;
use super::connection::Client;
use super::packet::connack::{self, ConnectReturnCode};
use super::packet::{Connect, ProtocolLevel, ReasonCode};
use super::terms::{self, Terms};
use super::topic::TopicName;
use crate::broker::{Broker, Ending};
use crate::connection::Reply;
use crate::durable::record::{ClientKey, Record, SessionExpiry};
use crate::event::Event;
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::marks::reached;
use crate::output::CloseKind;
use crate::session::Attachment;
use crate::time::Why;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::hash::BuildHasher;
use foldhash::quality::FixedState;

/// The virtual host of MQTT listeners.
pub(crate) const DEFAULT_VHOST: &str = "/";

/// Who is answered with CONNACK.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    /// The version it speaks.
    pub level: ProtocolLevel,
    /// Bytes of the largest packet that it takes. [MQTT-3.1.2-24] of MQTT 5
    pub packet_bytes: usize,
}

impl Asker {
    pub fn of(connect: &Connect<'_>, level: ProtocolLevel) -> Asker {
        let packet_bytes = usize::try_from(connect.terms.maximum_packet_bytes).unwrap_or(usize::MAX);
        Asker { level, packet_bytes }
    }
}

/// What an exchange of AUTH packets ended with (MQTT 5 §4.12).
pub(super) struct Proof {
    pub user: Box<str>,
    pub method: Box<str>,
    /// The last data for the client.
    pub data: Vec<u8>,
}

/// CONNACK that accepts.
fn accepting(level: ProtocolLevel, present: bool, properties: &[u8]) -> Box<[u8]> {
    match level {
        ProtocolLevel::V5 => connack::encode_accepted(present, properties).into(),
        ProtocolLevel::V3_1_1 => Box::new(connack::encode(ConnectReturnCode::Accepted, present)),
        // Its byte of session present is reserved (MQTT 3.1 §3.2).
        ProtocolLevel::V3_1 => Box::new(connack::encode(ConnectReturnCode::Accepted, false)),
    }
}

/// How long the client's session outlives its connection; none: it ends with it.
fn keeps(connect: &Connect<'_>) -> Option<SessionExpiry> {
    match connect.level {
        Ok(ProtocolLevel::V5) => Some(connect.terms.session_expiry_s)
            .filter(|seconds| *seconds > 0)
            .map(SessionExpiry::of_interval),
        _ => (!connect.clean_session).then_some(SessionExpiry::AsSet),
    }
}

impl Broker {
    pub(super) fn on_connect(
        &mut self,
        id: ConnectionId,
        connect: &Connect<'_>,
        packet: impl FnOnce() -> Bytes,
    ) {
        let level = match connect.level {
            Ok(level) => level,
            Err(number) => {
                let text = format!("protocol level {number} is not spoken here; MQTT 3.1, 3.1.1 and 5 are");
                let level = ProtocolLevel::V3_1_1; // what an unknown version is sure to read
                let code = ReasonCode::UnsupportedProtocolVersion; // [MQTT-3.1.2-2]
                let asker = Asker { level, packet_bytes: usize::MAX };
                return self.refuse(id, asker, code, CloseKind::ProtocolError, "[MQTT-3.1.2-2]", text.into());
            }
        };
        self.authenticate(id, connect, Asker::of(connect, level), packet);
    }

    /// Whoever sent it may connect: gives it its session.
    pub(super) fn admit(
        &mut self,
        id: ConnectionId,
        connect: &Connect<'_>,
        asker: Asker,
        proof: Option<Proof>,
    ) {
        let Some(client) = self.client_id(id, connect, asker) else { return };
        let properties = self.connack_properties(id, connect, asker, &client, proof.as_ref());
        let (answer, most) = (connack::bytes_with(&properties), asker.packet_bytes);
        if answer > most {
            let text = format!("CONNACK takes {answer} bytes; the client's Maximum Packet Size is {most}");
            let (code, kind) = (ReasonCode::PacketTooLarge, CloseKind::ProtocolError);
            return self.refuse(id, asker, code, kind, "MQTT 5 [MQTT-3.1.2-24]", text.into());
        }
        if let Some(will) = &connect.will
            && let Some(text) = self.topic_beyond_limits(will.topic.as_str())
        {
            // MQTT 3 has no return code for it. [MQTT-3.2.2-6]
            return self.refuse(id, asker, ReasonCode::TopicNameInvalid, CloseKind::Limit, "", text.into());
        }
        let key = ClientKey { vhost: DEFAULT_VHOST.into(), client: client.as_str().into() };
        if let Some(text) = self.unavailable_for(&key, connect) {
            return self.refuse_for_now(id, asker, text);
        }
        self.take_over(&key, connect.clean_session);
        // The will of the connection that just ended may wait for room: a new one must not take its place.
        if let Some(text) = self.unavailable_for(&key, connect) {
            return self.refuse_for_now(id, asker, text);
        }
        let expiry = keeps(connect);
        let (session, present, wait) = match connect.clean_session {
            true => self.begin_anew(key.clone(), expiry),
            false => self.resume_or_begin(key.clone(), expiry),
        };
        let wait = wait.max(self.leave_will(key, connect, session));
        self.accept(id, connect, asker.level, session, proof);
        self.attach(session, id);
        self.event(|| Event::Connected {
            connection: id,
            client: client.as_str().into(),
            durable: expiry.is_some(),
            present,
        });
        self.reply(id, wait, Reply::Opening(accepting(asker.level, present, &properties))); // [MQTT-3.2.2-1..3]
        self.begin_deliveries(session);
    }

    /// The properties of a CONNACK that accepts; before MQTT 5 there are none.
    fn connack_properties(
        &self,
        id: ConnectionId,
        connect: &Connect<'_>,
        asker: Asker,
        client: &str,
        proof: Option<&Proof>,
    ) -> Vec<u8> {
        if asker.level != ProtocolLevel::V5 {
            return Vec::new();
        }
        let answers = connect.terms.wants_response_information.then(|| format!("answers/{id}/{client}"));
        let answers = answers.filter(|topic| topic.len() <= self.settings.limits.topic_bytes);
        let answers = answers.filter(|topic| TopicName::new(topic).is_ok());
        let terms = connack::Terms {
            assigned_client_id: connect.client_id.is_empty().then_some(client),
            server_keep_alive_s: self.keep_alive_in_place_of(connect),
            response_information: answers.as_deref(), // [MQTT-3.1.2-28]
            authentication: proof.map(|proof| (&*proof.method, &*proof.data)), // [MQTT-4.12.0-5]
            ..terms::of_broker(&self.settings.limits)
        };
        let whole = connack::properties(&terms);
        if connack::bytes_with(&whole) <= asker.packet_bytes || answers.is_none() {
            return whole;
        }
        connack::properties(&connack::Terms { response_information: None, ..terms })
    }

    /// The keep-alive that a client is told to use, if not its own. [MQTT-3.1.2-21], [MQTT-3.2.2-21]
    fn keep_alive_in_place_of(&self, connect: &Connect<'_>) -> Option<u16> {
        let most = u16::try_from(self.settings.limits.keep_alive_max_ms / 1000).unwrap_or(u16::MAX);
        let of_mqtt_5 = connect.level == Ok(ProtocolLevel::V5);
        let too_long = connect.keep_alive_s == 0 || connect.keep_alive_s > most;
        (of_mqtt_5 && most > 0 && too_long).then_some(most)
    }

    /// The client's identifier, or one of our own. None: it was refused.
    fn client_id(&mut self, id: ConnectionId, connect: &Connect<'_>, asker: Asker) -> Option<String> {
        let level = asker.level;
        let given = connect.client_id;
        let most = self.settings.limits.client_id_bytes;
        let problem: Option<(&'static str, Cow<'static, str>)> = if given.len() > most {
            Some((
                "",
                format!("a client identifier of {} bytes; limits.client_id_bytes is {most}", given.len())
                    .into(),
            ))
        } else if given.is_empty() && level == ProtocolLevel::V3_1 {
            Some(("MQTT 3.1 §3.1", "an empty client identifier".into()))
        } else if given.is_empty() && !connect.clean_session && level != ProtocolLevel::V5 {
            Some(("[MQTT-3.1.3-8]", "an empty client identifier without a clean session".into()))
        } else {
            None
        };
        if let Some((clause, text)) = problem {
            let code = ReasonCode::ClientIdentifierNotValid;
            self.refuse(id, asker, code, CloseKind::ProtocolError, clause, text);
            return None;
        }
        if !given.is_empty() {
            return Some(given.into());
        }
        Some(self.assigned_client_id(id))
    }

    /// An identifier that no session has, and that another client does not guess. [MQTT-3.1.3-6], [MQTT-3.2.2-16] of MQTT 5
    fn assigned_client_id(&self, id: ConnectionId) -> String {
        let hashing = FixedState::with_seed(self.seed.client_id_key());
        let names = (0_u64..).map(|attempt| format!("vowmq-{:016x}-{id}", hashing.hash_one((id, attempt))));
        let key = |name: &str| ClientKey { vhost: DEFAULT_VHOST.into(), client: name.into() };
        let mut free = names.filter(|name| self.state.session_of(&key(name)).is_none());
        free.next().expect("there are fewer sessions than attempts")
    }

    /// What stands in the way of serving the client now.
    fn unavailable_for(&self, key: &ClientKey, connect: &Connect<'_>) -> Option<&'static str> {
        let new = self.state.session_of(key).is_none();
        let kept = keeps(connect).is_some();
        if self.held_wills.contains(key) {
            Some("the disk is full: the will of the connection before cannot be published yet")
        } else if self.log.is_full() && connect.clean_session && self.state.wills.contains_key(key) {
            Some("the disk is full: the will of the session before cannot be published yet")
        } else if (self.log.is_full() && kept && new)
            || (self.log.is_nearly_out_of_reserve() && (kept || connect.will.is_some()))
        {
            Some("the disk is full: what this client asks for cannot be recorded")
        } else if new && self.state.session_count() >= self.settings.limits.sessions {
            Some("limits.sessions exist already")
        } else {
            None
        }
    }

    pub(super) fn refuse_for_now(&mut self, id: ConnectionId, asker: Asker, text: &'static str) {
        self.refuse(id, asker, ReasonCode::ServerUnavailable, CloseKind::Unavailable, "", text.into());
    }

    /// Refuses: CONNACK with a code and without a session, then the end. [MQTT-3.2.2-4], [MQTT-3.2.2-5]
    pub(super) fn refuse(
        &mut self,
        id: ConnectionId,
        asker: Asker,
        code: ReasonCode,
        kind: CloseKind,
        clause: &'static str,
        text: Cow<'static, str>,
    ) {
        self.counters.protocol_errors += u64::from(kind == CloseKind::ProtocolError);
        match (asker.level, ConnectReturnCode::of(code)) {
            (ProtocolLevel::V5, _) => {
                let packet = connack::encode_refused(code, &text, asker.packet_bytes);
                packet.iter().for_each(|packet| self.send(id, packet));
            }
            (_, Some(code)) => self.send(id, &connack::encode(code, false)),
            (_, None) => {}
        }
        let reason = self.reason(id, kind, clause, text);
        self.end(id, Ending::Ordered(reason));
    }

    /// Ends the connection that uses the client's identifier now. [MQTT-3.1.4-2]
    fn take_over(&mut self, key: &ClientKey, clean: bool) {
        let Some(session) = self.state.session_of(key) else { return };
        let Some(old) = self.attachments.get(&session).map(|attachment| attachment.connection) else {
            return;
        };
        let text = "another connection uses the same client identifier";
        self.say_goodbye(old, ReasonCode::SessionTakenOver, text); // [MQTT-3.1.4-3] of MQTT 5
        let reason = self.reason(old, CloseKind::TakenOver, "[MQTT-3.1.4-2]", text.into());
        let outlives = self.state.session(session).is_some_and(|session| session.outlives_its_connection());
        let goes_on = !clean && outlives;
        if goes_on {
            reached!("taken over");
        }
        self.end(old, if goes_on { Ending::HandedOver(reason) } else { Ending::Ordered(reason) });
    }

    /// A new session; what was there goes. [MQTT-3.1.2-6], [MQTT-3.1.2-4] of MQTT 5
    fn begin_anew(&mut self, key: ClientKey, expiry: Option<SessionExpiry>) -> (SessionId, bool, Lsn) {
        if let Some(old) = self.state.session_of(&key) {
            reached!("session replaced");
            self.remove_session(old);
        }
        let wait = self.departures.of(&key);
        let (session, lsn) = self.open_session(key, expiry);
        (session, false, wait.max(lsn))
    }

    /// The session that was there, or a new one that will be. [MQTT-3.1.2-4], [MQTT-3.1.2-5]
    fn resume_or_begin(&mut self, key: ClientKey, expiry: Option<SessionExpiry>) -> (SessionId, bool, Lsn) {
        let found = self.state.session_of(&key);
        if let Some(id) = found.filter(|id| self.state.is_durable_session(*id)) {
            reached!("session resumed");
            let wait = self.resume(id);
            let expiry = expiry.unwrap_or(SessionExpiry::After(0));
            return (id, true, wait.max(self.set_session_expiry(id, expiry)));
        }
        if let Some(id) = found {
            self.remove_session(id);
        }
        // Nor is there a session to be told of while the end of the one before may be lost.
        let wait = if expiry.is_some() { Lsn::NONE } else { self.departures.of(&key) };
        let (id, lsn) = self.open_session(key, expiry);
        (id, false, lsn.max(wait))
    }

    /// A new session: one that outlives its connection, if it has an expiry.
    pub(crate) fn open_session(&mut self, key: ClientKey, expiry: Option<SessionExpiry>) -> (SessionId, Lsn) {
        let (session, queue) = self.state.next_session();
        let horizon = crate::ids::QueuePosition(self.settings.limits.horizon_block);
        let (at, durable) = (self.now.wall, expiry.is_some());
        let lsn = self.commit(Record::SessionOpened { session, queue, key, durable, at, horizon });
        (session, lsn.max(expiry.map_or(Lsn::NONE, |expiry| self.set_session_expiry(session, expiry))))
    }

    /// The session stays so long from now on; what an answer that says so waits for.
    pub(super) fn set_session_expiry(&mut self, session: SessionId, expiry: SessionExpiry) -> Lsn {
        let before = self.state.session(session).map(|session| session.expiry);
        if before == Some(expiry) {
            return Lsn::NONE;
        }
        self.commit(Record::SessionExpirySet { session, expiry })
    }

    /// Stops the expiry of a durable session and lets its queue deliver; what the CONNACK waits for.
    fn resume(&mut self, id: SessionId) -> Lsn {
        let session = self.state.session(id).expect("it was just found");
        let (known, key, expiry) = (session.changed, session.key.clone(), session.expiry);
        if session.away_since.is_none() {
            return known;
        }
        self.forget_away(id);
        self.end_delay(&key);
        let session = self.state.session(id).expect("it was just found");
        let next = self.state.queue(session.queue).expect("a session owns a queue").next();
        let horizon = next.plus(self.settings.limits.horizon_block);
        let lsn = self.commit(Record::SessionAttached { session: id, horizon });
        // Where sessions never expire, coming back changes nothing that a client is told.
        let expires = match expiry {
            SessionExpiry::AsSet => self.settings.limits.session_expiry_ms > 0,
            SessionExpiry::After(_) => true,
            SessionExpiry::Never => false,
        };
        if expires { lsn } else { known }
    }

    fn accept(
        &mut self,
        id: ConnectionId,
        connect: &Connect<'_>,
        level: ProtocolLevel,
        session: SessionId,
        proof: Option<Proof>,
    ) {
        let keep_alive_s = self.keep_alive_in_place_of(connect).unwrap_or(connect.keep_alive_s);
        let silence = u64::from(keep_alive_s) * 1_500_000; // [MQTT-3.1.2-24]
        let silence_us = (silence > 0).then_some(silence);
        let connection = self.connections.get_mut(&id).expect("it sent the CONNECT that is handled");
        let terms = Terms::new(&connect.terms, &self.settings.limits);
        let terms = (level == ProtocolLevel::V5).then(|| Box::new(terms));
        let authenticated = proof.map(|Proof { user, method, .. }| Box::new(Authenticated { user, method }));
        let client = Client { level, session, silence_us, accepted: false, terms, authenticated };
        connection.client = Some(Box::new(client));
        self.clear_timer(id);
        if let Some(silence_us) = silence_us {
            self.set_timer(id, self.now.monotonic.plus_us(silence_us), Why::KeepAlive);
        }
    }

    fn attach(&mut self, session: SessionId, connection: ConnectionId) {
        let queue = self.state.session(session).expect("it was just opened or found").queue;
        let front = self.state.queue(queue).expect("a session owns a queue").front();
        let before = self.attachments.insert(session, Box::new(Attachment::new(connection, queue, front)));
        assert!(before.is_none(), "a session has one connection");
    }
}
