//! Who the client is: name and password of CONNECT, and the exchange of AUTH packets (MQTT 5 §4.12).
//!
//! ```text
//! CONNECT ─► is a proof asked for? ─no──────────────────────► admitted
//!                 │ yes                                          ▲
//!                 ▼              Proven                          │
//!            the driver is asked ────────────────────────────────┤
//!              ▲     │ GoesOn                                    │
//!              │     ▼
//!   AUTH of the client ◄── AUTH 0x18          Refused ─► CONNACK 0x86 (4 in MQTT 3), closed
//! ```
//!
//! Until it is admitted, a client may send AUTH and DISCONNECT alone [MQTT-3.1.2-30]. One that is connected may prove itself
//! again (§4.12.1), and goes on with everything else meanwhile.

use super::connecting::{Asker, Proof};
use super::packet::auth::{self, AuthReason};
use super::packet::frame::{self, Framed};
use super::packet::{Auth, Connect, Packet, ProtocolLevel, ReasonCode, Violation};
use crate::access::{Access, Credentials, Proving, ProvingStage, Verdict};
use crate::broker::Broker;
use crate::broker::proving::shown;
use crate::connection::Reply;
use crate::ids::{ConnectionId, Lsn};
use crate::marks::reached;
use crate::output::CloseKind;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use bytes::Bytes;

/// What a client of MQTT 5 proved itself with, to do it again.
pub(super) struct Authenticated {
    pub method: Box<str>,
    pub user: Box<str>,
}

/// What CONNECT has to bring.
enum Demand {
    Nothing,
    Proof(Credentials),
    Refusal(ReasonCode, &'static str, String),
}

impl Broker {
    /// A CONNECT of a version that is spoken here: it is admitted, or has to wait for a proof, or is refused.
    pub(super) fn authenticate(
        &mut self,
        id: ConnectionId,
        connect: &Connect<'_>,
        asker: Asker,
        packet: impl FnOnce() -> Bytes,
    ) {
        match self.demand(connect) {
            Demand::Nothing => self.admit(id, connect, asker, None),
            Demand::Proof(credentials) => {
                reached!("login asked for");
                // A copy, or it would pin all that came in with it.
                let packet = Bytes::copy_from_slice(&packet());
                self.ask_driver(id, ProvingStage::Connecting(packet), credentials);
            }
            Demand::Refusal(code, clause, text) => {
                self.counters.logins_refused += 1;
                self.refuse(id, asker, code, CloseKind::Unauthorized, clause, text.into());
            }
        }
    }

    fn demand(&self, connect: &Connect<'_>) -> Demand {
        let terms = &connect.terms;
        match (self.settings.access, terms.authentication_method) {
            (Access::Everybody, None) => Demand::Nothing,
            (Access::Everybody, Some(method)) => Demand::Refusal(
                ReasonCode::BadAuthenticationMethod,
                "[MQTT-4.12.0-1]",
                unknown_method(method),
            ),
            (Access::Users { .. }, Some(method)) => Demand::Proof(Credentials::Step {
                method: method.into(),
                state: None,
                data: terms.authentication_data.unwrap_or_default().into(),
            }),
            (Access::Users { or_anonymous }, None) => {
                let (user, password) = (connect.user_name, connect.password);
                if user.is_some() || password.is_some() {
                    return Demand::Proof(Credentials::Password {
                        user: user.unwrap_or_default().into(),
                        password: password.unwrap_or_default().into(),
                    });
                }
                if or_anonymous {
                    return Demand::Nothing;
                }
                let text = "a user name and a password are needed here".into();
                Demand::Refusal(ReasonCode::NotAuthorized, "", text)
            }
        }
    }

    /// The driver has answered.
    pub(crate) fn verified_mqtt(&mut self, id: ConnectionId, proving: Proving, verdict: Verdict) {
        if let Verdict::GoesOn { state, data } = verdict {
            return self.exchange_goes_on(id, proving, state, &data);
        }
        match proving.stage {
            ProvingStage::Connecting(packet) => {
                let method = proving.exchange.map(|exchange| exchange.method);
                self.connecting_verified(id, &packet, method, verdict);
            }
            ProvingStage::Connected | ProvingStage::Starting(_) => self.verified_again(id, verdict),
        }
    }

    /// The driver knows who sent this CONNECT, or that it does not.
    fn connecting_verified(
        &mut self,
        id: ConnectionId,
        packet: &Bytes,
        method: Option<Box<str>>,
        verdict: Verdict,
    ) {
        let connect = parsed_connect(packet);
        let asker = Asker::of(&connect, connect.level.unwrap_or(ProtocolLevel::V3_1_1));
        match verdict {
            Verdict::Proven { user, data } => {
                let proof = method.map(|method| Proof { user: user.into(), method, data });
                self.admit(id, &connect, asker, proof);
            }
            Verdict::UnknownMethod => {
                let text = unknown_method(method.as_deref().unwrap_or_default());
                let (code, kind) = (ReasonCode::BadAuthenticationMethod, CloseKind::Unauthorized);
                self.refuse(id, asker, code, kind, "[MQTT-4.12.0-1]", text.into());
            }
            Verdict::Refused { why } => {
                let (code, kind) = (ReasonCode::BadUserNameOrPassword, CloseKind::Unauthorized);
                self.refuse(id, asker, code, kind, "", why); // [MQTT-4.12.0-4]
            }
            Verdict::Unavailable { why } => self.refuse_for_now(id, asker, why),
            Verdict::GoesOn { .. } => {} // dealt with before
        }
    }

    /// The driver has answered to the last step of an exchange on a connection that was let in before.
    fn verified_again(&mut self, id: ConnectionId, verdict: Verdict) {
        let known =
            self.authenticated(id).map(|authenticated| authenticated.user.clone()).unwrap_or_default();
        let (mut code, mut kind) = (ReasonCode::NotAuthorized, CloseKind::Unauthorized);
        let why = match verdict {
            Verdict::Proven { user, data } if *user == *known => {
                return self.send_auth(id, AuthReason::Success, &data);
            }
            Verdict::Proven { user, .. } => {
                format!("it has proven to be {} before, and now to be {}", shown(&known), shown(&user)).into()
            }
            Verdict::Refused { why } => why,
            Verdict::Unavailable { why } => {
                (code, kind) = (ReasonCode::ServerBusy, CloseKind::Unavailable);
                why.into()
            }
            Verdict::UnknownMethod | Verdict::GoesOn { .. } => {
                "the authentication method is not known any more".into()
            }
        };
        self.dismiss(id, code, kind, "[MQTT-4.12.1-2]", why);
    }

    /// The client has to send another AUTH. [MQTT-4.12.0-2]
    fn exchange_goes_on(
        &mut self,
        id: ConnectionId,
        mut proving: Proving,
        state: alloc::vec::Vec<u8>,
        data: &[u8],
    ) {
        if let Some(exchange) = &mut proving.exchange {
            exchange.state = state;
        }
        proving.asked = false;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.proving = Some(Box::new(proving));
        }
        self.send_auth(id, AuthReason::Continue, data);
    }

    /// AUTH, behind a CONNACK that is held; not if it is larger than the client takes [MQTT-3.1.2-24].
    fn send_auth(&mut self, id: ConnectionId, reason: AuthReason, data: &[u8]) {
        let Some(connection) = self.connections.get(&id) else { return };
        let authenticated = connection.client.as_ref().and_then(|client| client.authenticated.as_ref());
        let exchange = connection.proving.as_ref().and_then(|proving| proving.exchange.as_ref());
        let method = exchange.map(|exchange| &exchange.method).or(authenticated.map(|known| &known.method));
        let most = match connection.proving.as_ref().map(|proving| &proving.stage) {
            Some(ProvingStage::Connecting(packet)) => {
                parsed_connect(packet).terms.maximum_packet_bytes as usize
            }
            _ => connection.terms().map_or(usize::MAX, |terms| terms.maximum_packet_bytes),
        };
        let packet = auth::encode(reason, method.map_or("", |method| method), data);
        if packet.len() > most {
            let text =
                format!("AUTH takes {} bytes; the client's Maximum Packet Size is {most}", packet.len());
            return self.dismiss(
                id,
                ReasonCode::PacketTooLarge,
                CloseKind::ProtocolError,
                "MQTT 5 [MQTT-3.1.2-24]",
                text.into(),
            );
        }
        self.reply(id, Lsn::NONE, Reply::Long(packet.into()));
    }

    fn authenticated(&self, id: ConnectionId) -> Option<&Authenticated> {
        self.connections.get(&id)?.client.as_ref()?.authenticated.as_deref()
    }

    /// AUTH: the next step of an exchange, or the first one of another by a client that is connected.
    pub(super) fn on_auth(&mut self, id: ConnectionId, auth: &Auth<'_>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let under_way = connection.proving.as_ref();
        let asked = under_way.is_some_and(|proving| proving.asked);
        let exchange = under_way.and_then(|proving| proving.exchange.as_ref());
        let authenticated = connection.client.as_ref().and_then(|client| client.authenticated.as_ref());
        let agreed = exchange.map(|exchange| &exchange.method).or(authenticated.map(|known| &known.method));
        let violation = match (agreed, auth.method) {
            (None, _) => Some(Violation::UnexpectedAuth), // [MQTT-4.12.0-7]
            (Some(_), None) => Some(Violation::AuthWithoutMethod),
            (Some(agreed), Some(method)) if **agreed != *method => Some(Violation::AuthOtherMethod),
            _ if asked => Some(Violation::AuthOutOfTurn),
            _ => match (exchange.is_some(), auth.reason) {
                (true, AuthReason::Continue) | (false, AuthReason::Again) => None,
                _ => Some(Violation::AuthOutOfTurn),
            },
        };
        if let Some(violation) = violation {
            return self.violated(id, violation);
        }
        let method = auth.method.unwrap_or_default().into();
        let data = auth.data.unwrap_or_default().into();
        let (stage, state) = match connection.proving.take() {
            Some(proving) => (proving.stage, proving.exchange.map(|exchange| exchange.state)),
            None => (ProvingStage::Connected, None),
        };
        self.ask_driver(id, stage, Credentials::Step { method, state, data });
    }
}

fn unknown_method(method: &str) -> String {
    format!("the authentication method {} is not known here", shown(method))
}

/// A CONNECT that was kept, decoded again.
fn parsed_connect(packet: &Bytes) -> Connect<'_> {
    let Ok(Framed::Whole(frame, _)) = frame::parse(packet) else {
        unreachable!("only whole packets are kept");
    };
    match Packet::decode(frame, ProtocolLevel::V3_1_1) {
        Ok(Packet::Connect(connect)) => connect,
        _ => unreachable!("only a valid CONNECT is kept"),
    }
}
