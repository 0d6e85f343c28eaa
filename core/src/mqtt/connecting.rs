//! CONNECT: who the client is, which session it gets, what its CONNACK waits for (§3.1.4).

use super::connection::Client;
use super::packet::connack::{self, ConnectReturnCode};
use super::packet::{Connect, ProtocolLevel};
use crate::broker::{Broker, Ending};
use crate::connection::Reply;
use crate::durable::record::{ClientKey, Record};
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

/// The virtual host of MQTT listeners.
pub(crate) const DEFAULT_VHOST: &str = "/";

impl Broker {
    pub(super) fn on_connect(&mut self, id: ConnectionId, connect: &Connect<'_>) {
        let level = match connect.level {
            Ok(level) => level,
            Err(number) => {
                let text = format!("protocol level {number} is not spoken here; MQTT 3.1 and 3.1.1 are");
                let code = ConnectReturnCode::UnacceptableProtocolVersion; // [MQTT-3.1.2-2]
                return self.refuse(id, code, CloseKind::ProtocolError, "[MQTT-3.1.2-2]", text.into());
            }
        };
        let Some(client) = self.client_id(id, connect, level) else { return };
        if let Some(will) = &connect.will
            && !self.topic_is_within_limits(id, will.topic.as_str())
        {
            return; // no return code fits [MQTT-3.2.2-6]
        }
        let key = ClientKey { vhost: DEFAULT_VHOST.into(), client: client.as_str().into() };
        if let Some(text) = self.unavailable_for(&key, connect) {
            return self.refuse_for_now(id, text);
        }
        self.take_over(&key, connect.clean_session);
        // The will of the connection that just ended may wait for room: a new one must not take its place.
        if let Some(text) = self.unavailable_for(&key, connect) {
            return self.refuse_for_now(id, text);
        }
        let (session, present, wait) = match connect.clean_session {
            true => self.begin_clean(key.clone()),
            false => self.resume_or_begin(key.clone()),
        };
        let wait = wait.max(self.leave_will(key, connect));
        self.accept(id, connect, level, session);
        self.attach(session, id);
        self.event(|| Event::Connected {
            connection: id,
            client: connect.client_id.into(),
            durable: !connect.clean_session,
            present,
        });
        // In MQTT 3.1 the byte of session present is reserved (MQTT 3.1 §3.2).
        let told = present && level == ProtocolLevel::V3_1_1;
        let reply = Reply::Opening(connack::encode(ConnectReturnCode::Accepted, told)); // [MQTT-3.2.2-1..3]
        self.reply(id, wait, reply);
        self.begin_deliveries(session);
    }

    /// The client's identifier, or one of our own. None: it was refused.
    fn client_id(&mut self, id: ConnectionId, connect: &Connect<'_>, level: ProtocolLevel) -> Option<String> {
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
        } else if given.is_empty() && !connect.clean_session {
            Some(("[MQTT-3.1.3-8]", "an empty client identifier without a clean session".into()))
        } else {
            None
        };
        if let Some((clause, text)) = problem {
            let code = ConnectReturnCode::IdentifierRejected;
            self.refuse(id, code, CloseKind::ProtocolError, clause, text);
            return None;
        }
        if !given.is_empty() {
            return Some(given.into());
        }
        // [MQTT-3.1.3-6]: unique, and not to be guessed by another client.
        Some(format!("vowmq-{:016x}-{}", self.seed.client_id_key(), id))
    }

    /// What stands in the way of serving the client now.
    fn unavailable_for(&self, key: &ClientKey, connect: &Connect<'_>) -> Option<&'static str> {
        let new = self.state.session_of(key).is_none();
        let kept = !connect.clean_session;
        if self.held_wills.contains(key) {
            Some("the disk is full: the will of the connection before cannot be published yet")
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

    fn refuse_for_now(&mut self, id: ConnectionId, text: &'static str) {
        self.refuse(id, ConnectReturnCode::ServerUnavailable, CloseKind::Unavailable, "", text.into());
    }

    /// Refuses: CONNACK with a code and without a session, then the end. [MQTT-3.2.2-4], [MQTT-3.2.2-5]
    fn refuse(
        &mut self,
        id: ConnectionId,
        code: ConnectReturnCode,
        kind: CloseKind,
        clause: &'static str,
        text: Cow<'static, str>,
    ) {
        self.counters.protocol_errors += u64::from(kind == CloseKind::ProtocolError);
        self.send(id, &connack::encode(code, false));
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
        let reason = self.reason(old, CloseKind::TakenOver, "[MQTT-3.1.4-2]", text.into());
        let goes_on = !clean && self.state.is_durable_session(session);
        if goes_on {
            reached!("taken over");
        }
        self.end(old, if goes_on { Ending::HandedOver(reason) } else { Ending::Ordered(reason) });
    }

    /// A session that ends with its connection; what was there goes. [MQTT-3.1.2-6]
    fn begin_clean(&mut self, key: ClientKey) -> (SessionId, bool, Lsn) {
        if let Some(old) = self.state.session_of(&key) {
            reached!("session replaced");
            self.remove_session(old);
        }
        let wait = self.departures.of(&key);
        (self.open_session(key, false).0, false, wait)
    }

    /// The session that was there, or a new one that will be. [MQTT-3.1.2-4], [MQTT-3.1.2-5]
    fn resume_or_begin(&mut self, key: ClientKey) -> (SessionId, bool, Lsn) {
        let found =
            self.state.session_of(&key).and_then(|id| self.state.session(id).map(|s| (id, s.durable)));
        match found {
            Some((id, true)) => {
                reached!("session resumed");
                (id, true, self.resume(id))
            }
            Some((id, false)) => {
                self.remove_session(id);
                let (id, lsn) = self.open_session(key, true);
                (id, false, lsn)
            }
            None => {
                let (id, lsn) = self.open_session(key, true);
                (id, false, lsn)
            }
        }
    }

    fn open_session(&mut self, key: ClientKey, durable: bool) -> (SessionId, Lsn) {
        let (session, queue) = self.state.next_session();
        let horizon = crate::ids::QueuePosition(self.settings.limits.horizon_block);
        let at = self.now.wall;
        let lsn = self.commit(Record::SessionOpened { session, queue, key, durable, at, horizon });
        (session, lsn)
    }

    /// Stops the expiry of a durable session and lets its queue deliver; what the CONNACK waits for.
    fn resume(&mut self, id: SessionId) -> Lsn {
        let session = self.state.session(id).expect("it was just found");
        let known = session.changed;
        let Some(away_since) = session.away_since else { return known };
        self.away.remove(&(away_since, id));
        let next = self.state.queue(session.queue).expect("a session owns a queue").next();
        let horizon = next.plus(self.settings.limits.horizon_block);
        let lsn = self.commit(Record::SessionAttached { session: id, horizon });
        // Where sessions never expire, coming back changes nothing that a client is told.
        if self.settings.limits.session_expiry_ms > 0 { lsn } else { known }
    }

    fn accept(&mut self, id: ConnectionId, connect: &Connect<'_>, level: ProtocolLevel, session: SessionId) {
        let silence = u64::from(connect.keep_alive_s) * 1_500_000; // [MQTT-3.1.2-24]
        let silence_us = (silence > 0).then_some(silence);
        let connection = self.connections.get_mut(&id).expect("it sent the CONNECT that is handled");
        connection.client = Some(Box::new(Client { level, session, silence_us, accepted: false }));
        self.clear_timer(id);
        if let Some(silence_us) = silence_us {
            self.set_timer(id, self.now.monotonic.plus_us(silence_us), Why::KeepAlive);
        }
    }

    fn attach(&mut self, session: SessionId, connection: ConnectionId) {
        let queue = self.state.session(session).expect("it was just opened or found").queue;
        let front = self.state.queue(queue).expect("a session owns a queue").front();
        let before = self.attachments.insert(session, Attachment::new(connection, queue, front));
        assert!(before.is_none(), "a session has one connection");
    }
}
