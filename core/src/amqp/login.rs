//! Who an AMQP client is: Start-Ok with PLAIN or AMQPLAIN, then Tune or the end.

use super::connection::{CHANNEL_MAX, FRAME_MAX, HEARTBEAT_S, Stage};
use super::fault::Fault;
use super::wire::method::connection;
use super::wire::{ReplyCode, Table, Value};
use crate::access::{Access, Credentials, ProvingStage, Verdict};
use crate::broker::{Broker, Ending};
use crate::ids::{ConnectionId, Lsn};
use crate::output::CloseKind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Broker {
    /// Who the client says it is, and what it can.
    pub(super) fn on_start_ok(
        &mut self,
        id: ConnectionId,
        start: &connection::StartOk<'_>,
    ) -> Result<(), Fault> {
        let login = match start.mechanism.as_bytes() {
            b"PLAIN" => plain_login(start.response).map(|login| ("PLAIN", login)),
            b"AMQPLAIN" => amqplain_login(start.response).map(|login| ("AMQPLAIN", login)),
            _ => None,
        };
        let Some((mechanism, (user, password))) = login else {
            let text =
                "Login was refused: the mechanism must be PLAIN or AMQPLAIN, with a user and a password";
            return Err(Fault { hard: true, ..Fault::refused(text) });
        };
        let capabilities = start.client_properties.get("capabilities").and_then(Value::as_table);
        let can = |name: &str| capabilities.and_then(|c| c.get(name)).and_then(Value::as_bool) == Some(true);
        let (takes_cancel, takes_blocked) = (can("consumer_cancel_notify"), can("connection.blocked"));
        if let Some(peer) = self.peer_mut(id) {
            (peer.takes_cancel, peer.takes_blocked) = (takes_cancel, takes_blocked);
        }
        match self.settings.access {
            Access::Everybody => self.tune(id, &user),
            Access::Users { .. } => {
                let stage = ProvingStage::Starting(mechanism);
                self.ask_driver(id, stage, Credentials::Password { user, password });
            }
        }
        Ok(())
    }

    /// The driver has answered who the client is.
    pub(crate) fn verified_amqp(&mut self, id: ConnectionId, mechanism: &str, verdict: Verdict) {
        let (code, kind, why) = match verdict {
            Verdict::Proven { user, .. } => return self.tune(id, &user),
            Verdict::Unavailable { why } => (ReplyCode::ResourceError, CloseKind::Unavailable, why.into()),
            Verdict::Refused { why } => (ReplyCode::AccessRefused, CloseKind::Unauthorized, why),
            Verdict::GoesOn { .. } | Verdict::UnknownMethod => {
                (ReplyCode::AccessRefused, CloseKind::Unauthorized, "it takes one step".into())
            }
        };
        let words = format!("Login was refused using authentication mechanism {mechanism}: {why}");
        let text = code.text(&words);
        let (class_id, method_id) = (connection::StartOk::ID.class, connection::StartOk::ID.method);
        let (reply_code, reply_text) = (code.number(), text.as_short_str());
        self.answer(id, 0, Lsn::NONE, &connection::Close { reply_code, reply_text, class_id, method_id });
        // It is not worth waiting for who is not known: it may never answer.
        let reason = self.reason(id, kind, "", words.into());
        self.end(id, Ending::Ordered(reason));
    }

    /// The client is this user: the connection is tuned.
    fn tune(&mut self, id: ConnectionId, user: &str) {
        if let Some(peer) = self.peer_mut(id) {
            peer.user = user.into();
            peer.stage = Stage::Tune;
        }
        let (channel_max, frame_max, heartbeat_s) = (CHANNEL_MAX, FRAME_MAX.get(), HEARTBEAT_S);
        self.answer(id, 0, Lsn::NONE, &connection::Tune { channel_max, frame_max, heartbeat_s });
    }
}

/// `[authorization identity] NUL user NUL password` (RFC 4616).
fn plain_login(response: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut parts = response.split(|byte| *byte == 0);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let user = core::str::from_utf8(user).ok()?;
    parts.next().is_none().then(|| (user.into(), password.into()))
}

/// A field table without its length, with LOGIN and PASSWORD.
fn amqplain_login(response: &[u8]) -> Option<(String, Vec<u8>)> {
    let table = Table::decode(response).ok()?;
    let password = table.get("PASSWORD")?.as_long_string()?;
    Some((table.get("LOGIN")?.as_str()?.into(), password.into()))
}
