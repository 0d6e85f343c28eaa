//! Clients that have to prove who they are: the driver that finds out, and somebody who does not know the password.

use super::World;
use crate::chance::Domain;
use crate::client;
use crate::codec::{self, Connect, Packet, Terms};
use crate::happening::Happening;
use crate::outcome::Checker;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use vowmq_core::access::{Access, Credentials, Verdict};
use vowmq_core::ids::{ConnectionId, ListenerId};
use vowmq_core::input::{Input, Peer, Protocol};

/// The longest that the driver takes.
const LATENCY_MAX_US: u64 = 5_000;

/// Connections of intruders have numbers from here on.
const FIRST_INTRUDER: u64 = 1 << 48;

/// Those who connect without a password that is right, and who is answered when.
#[derive(Default)]
pub(super) struct Logins {
    count: u64,
    /// By user: when the driver answers what it was asked last. It answers one user in the order of the questions: else a
    /// connection that its client has given up long ago could take over a later one.
    answered: BTreeMap<String, u64>,
    /// Questions that are not answered: in which life of the broker, by which connection, and whether the password is right.
    asked: Vec<(u64, ConnectionId, bool)>,
}

impl Logins {
    pub(super) fn is_one(&self, id: ConnectionId) -> bool {
        id.0 >= FIRST_INTRUDER
    }

    fn next(&mut self) -> ConnectionId {
        self.count += 1;
        ConnectionId(FIRST_INTRUDER + self.count)
    }
}

impl World<'_> {
    /// The broker asks whether a client is who it says.
    pub(super) fn verify(&mut self, connection: ConnectionId, credentials: &Credentials) {
        let (user, right) = match credentials {
            Credentials::Password { user, password } => {
                (user.as_str(), *password == client::password(user).into_bytes())
            }
            Credentials::Step { .. } => ("", false),
        };
        let latency = self.chance.draws(Domain::Login, connection.0).below(LATENCY_MAX_US);
        let answered = self.logins.answered.entry(user.to_owned()).or_default();
        *answered = (self.schedule.now_us() + latency).max(*answered);
        let at = *answered;
        let epoch = self.process.epoch;
        self.trace.line("broker", &[connection.0], || format!("asks who is at connection {connection}"));
        self.logins.asked.push((epoch, connection, right));
        self.schedule.add(at, Happening::Verified { epoch, connection, right });
    }

    /// Other settings are about to be in force. If they ask nobody for a password, who comes then would overtake those
    /// that are being looked at, and an older connection of a client take over the newer one: they are answered first.
    pub(super) fn verify_all_that_asked(&mut self) {
        for (epoch, connection, right) in self.logins.asked.clone() {
            self.verified(epoch, connection, right);
        }
    }

    pub(super) fn verified(&mut self, epoch: u64, connection: ConnectionId, right: bool) {
        let asked = self.logins.asked.iter().position(|asked| *asked == (epoch, connection, right));
        let Some(asked) = asked else { return };
        self.logins.asked.remove(asked);
        if epoch != self.process.epoch {
            return;
        }
        let verdict = match right {
            true => Verdict::Proven { user: String::new(), data: Vec::new() },
            false => Verdict::Refused { why: "the password is wrong".into() },
        };
        self.feed(Input::Verified { connection, verdict });
    }

    /// Somebody connects under a client's identifier, with a password that is wrong, and would take its session away.
    pub(super) fn intrude(&mut self, client: usize) {
        if self.settings.access == Access::Everybody || !self.process.is_serving() {
            return;
        }
        self.effects.count("intruder");
        let id = self.logins.next();
        let program = &self.scenario.clients[client];
        let connect = Connect {
            version: program.version(),
            client_id: program.id.clone(),
            keep_alive_s: 0,
            clean: true,
            will: None,
            password: Some("a guess".to_owned()),
            terms: Terms::default(),
        };
        let mut bytes = BytesMut::new();
        codec::write(program.version(), &Packet::Connect(connect), &mut bytes);
        let peer = Peer { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1) };
        let (listener, protocol) = (ListenerId(0), Protocol::Mqtt);
        self.trace.line("intruder", &[id.0], || format!("connects as client {client}"));
        self.feed(Input::Opened { connection: id, listener, protocol, peer });
        self.feed(Input::Received { connection: id, bytes: bytes.freeze() });
    }

    /// The only answer that an intruder may get is a CONNACK that refuses it.
    pub(super) fn answers_intruder(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.trace.bytes(&Bytes::copy_from_slice(bytes));
        let refuses = bytes.first() == Some(&0x20) && matches!(bytes.get(3), Some(4 | 5 | 0x80..));
        if !refuses {
            let text = format!("somebody with a wrong password is answered with {bytes:02x?}");
            self.model.fail(Checker::Protocol, format!("connection {id}"), text);
        }
    }
}
