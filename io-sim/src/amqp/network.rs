//! Connections: what is sent either way and arrives later, perhaps in pieces, or not at all.

use super::client::{Client, Role, Wish};
use super::wire::Decoder;
use super::world::{Happening, Link, Process, READ_BYTES_MAX, World};
use crate::outcome::Checker;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use vowmq_core::ids::{ConnectionId, ListenerId};
use vowmq_core::input::{CloseCause, Input, Peer, Protocol};

impl World<'_> {
    pub(super) fn sends(&mut self, link: u64, bytes: &[u8]) {
        self.trace.bytes(bytes);
        let said = self.said(link, bytes, false);
        self.trace.line("broker", &[link, bytes.len() as u64], || {
            format!("sends {} bytes to {link}{said}", bytes.len())
        });
        let before = self.model.deliveries;
        if !self.is_aside(link) {
            self.tap.sent(link, bytes, &mut self.model, self.scenario);
        }
        if self.model.deliveries > before {
            self.last_delivery_us = self.schedule.now_us();
        }
        self.travel(link, bytes, false);
    }

    /// What these bytes say, behind a colon; empty where nobody reads it.
    fn said(&mut self, id: u64, bytes: &[u8], to_broker: bool) -> String {
        let Some(link) = self.links.get(&id) else { return String::new() };
        let (client, mut said) = (link.client, Vec::new());
        self.trace.record(|to| said = to.sent(ConnectionId(id), client, to_broker, bytes));
        if said.is_empty() { String::new() } else { format!(": {}", said.join("; ")) }
    }

    /// Whether it is the connection of a client that judges the broker itself.
    fn is_aside(&self, link: u64) -> bool {
        let client = self.links.get(&link).map(|link| &self.clients[link.client]);
        client.is_some_and(|client| matches!(client.role, Role::Lodger(_)))
    }

    /// Bytes are on their way, perhaps in pieces.
    fn travel(&mut self, id: u64, bytes: &[u8], to_broker: bool) {
        let now = self.schedule.now_us();
        let (low, high) = self.scenario.latency_us;
        let Some(link) = self.links.get_mut(&id) else { return };
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = !self.draws.percent(self.scenario.split_percent);
            let most = rest.len().min(READ_BYTES_MAX);
            let length = if whole { most } else { self.draws.between(1, most as u64) as usize };
            let (piece, later) = rest.split_at(length);
            rest = later;
            let last = if to_broker { &mut link.last_us.0 } else { &mut link.last_us.1 };
            let at = (now + self.draws.between(low, high)).max(*last);
            *last = at;
            let bytes = Bytes::copy_from_slice(piece);
            self.schedule.add(
                at,
                match to_broker {
                    true => Happening::ToBroker { link: id, bytes },
                    false => Happening::ToClient { link: id, bytes },
                },
            );
        }
    }

    /// The broker reads what has arrived, as long as it wants to.
    pub(super) fn read(&mut self, id: u64) {
        while let Some(link) = self.links.get_mut(&id).filter(|link| link.at_broker && !link.paused)
            && let Some(bytes) = link.waiting.pop_front()
        {
            if !self.is_aside(id) {
                self.tap.received(id, &bytes, &mut self.model, self.scenario);
            }
            self.trace.record(|to| to.arrived(ConnectionId(id), true, bytes.len()));
            self.feed(Input::Received { connection: ConnectionId(id), bytes });
        }
    }

    pub(super) fn resumes(&mut self, id: u64) {
        let now = self.schedule.now_us();
        let Some(link) = self.links.get_mut(&id) else { return };
        link.paused = false;
        self.schedule.add(now, Happening::Read { link: id });
    }

    /// Bytes arrive at the client.
    pub(super) fn arrives(&mut self, id: u64, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.at_client) else { return };
        let (client, at_broker) = (link.client, link.at_broker);
        link.incoming.push(bytes);
        self.trace.record(|to| to.arrived(ConnectionId(id), false, bytes.len()));
        if at_broker {
            self.feed(Input::Sent { connection: ConnectionId(id), bytes: bytes.len() });
        }
        let now = self.schedule.now_us();
        match self.clients[client].receive_mqtt(bytes, now) {
            None => {}
            Some(Ok(wish)) => return self.wished(client, id, wish),
            Some(Err(what)) => return self.unexpected(client, &what),
        }
        loop {
            let Some(link) = self.links.get_mut(&id).filter(|link| link.at_client) else { return };
            let frame = match link.incoming.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(error) => return self.model.fail(Checker::Codec, format!("client {client}"), error),
            };
            self.counts.packets += 1;
            let now = self.schedule.now_us();
            match self.clients[client].receive(frame, self.scenario, now) {
                Ok(wish) => self.wished(client, id, wish),
                Err(what) => return self.unexpected(client, &what),
            }
        }
    }

    fn unexpected(&mut self, client: usize, what: &str) {
        let text = format!("it is sent what none of its requests asks for: {what}");
        self.model.fail(Checker::Protocol, format!("client {client}"), text);
    }

    pub(super) fn wished(&mut self, client: usize, id: u64, wish: Wish) {
        if !wish.bytes.is_empty() {
            let said = self.said(id, &wish.bytes, true);
            self.trace.line("client", &[client as u64, wish.bytes.len() as u64], || {
                format!("{client} sends {} bytes on {id}{said}", wish.bytes.len())
            });
            self.travel(id, &wish.bytes, true);
        }
        let soonest = self.schedule.now_us() + 1;
        if let Some(at) = wish.wake_us.map(|at| at.max(soonest))
            && let Some(link) = self.links.get_mut(&id)
            && link.wakes_us.is_none_or(|due| at < due)
        {
            link.wakes_us = Some(at);
            self.schedule.add(at, Happening::ClientWakes { link: id });
        }
        if wish.leaves {
            self.effects.count("consumer left");
            self.breaks(id);
        }
    }

    /// The client does what is due by now, unless it was woken for that before.
    pub(super) fn client_wakes(&mut self, id: u64) {
        let now = self.schedule.now_us();
        let Some(link) = self.links.get_mut(&id) else { return };
        let client = link.client;
        if link.wakes_us.take_if(|due| *due == now).is_some() && self.current[client] == Some(id) {
            let wish = self.clients[client].go_on(now);
            self.wished(client, id, wish);
        }
    }

    pub(super) fn connect(&mut self, client: usize) {
        if self.current[client].is_some() || self.clients[client].is_done() {
            return;
        }
        let is_drainer = client + 1 == self.clients.len();
        let is_mqtt = matches!(self.clients[client].role, Role::Bridged(_));
        if self.healed && !is_drainer && !is_mqtt && !self.clients[client].is_busy() {
            return;
        }
        // Its queue goes with its connection: it comes back when the broker knows that this has ended.
        let is_lodger = matches!(self.clients[client].role, Role::Lodger(_));
        let too_early = is_lodger && self.links.values().any(|link| link.client == client && !link.over);
        // MQTT's clients declare nothing: they come when somebody else has.
        self.declared |= self.clients.iter().any(Client::has_declared);
        let too_early = too_early || (is_mqtt && !self.declared);
        if !matches!(self.process, Process::Serving(_)) || self.stopping || too_early {
            let at = self.schedule.now_us() + 5_000;
            return self.schedule.add(at, Happening::Connect { client });
        }
        let id = self.next_link;
        self.next_link += 1;
        let link = Link {
            client,
            at_broker: true,
            at_client: true,
            over: false,
            incoming: Decoder::default(),
            last_us: (0, 0),
            wakes_us: None,
            paused: false,
            waiting: VecDeque::new(),
        };
        self.links.insert(id, link);
        self.current[client] = Some(id);
        self.trace.line("network", &[id], || format!("connection {id} of client {client} opened"));
        let peer = Peer { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)) };
        let (connection, listener) = (ConnectionId(id), ListenerId(0));
        self.trace.record(|to| {
            if !is_mqtt {
                to.speaks_amqp(connection);
            }
            to.signalled(connection, client, true, format!("opens connection {id}"));
            to.arrived(connection, true, 1);
        });
        let protocol = if is_mqtt { Protocol::Mqtt } else { Protocol::Amqp };
        if is_mqtt {
            self.tap.opened_by_mqtt(id);
        }
        if is_lodger {
            self.model.set_aside(id);
        }
        self.feed(Input::Opened { connection, listener, protocol, peer });
        let wish = self.clients[client].connected();
        self.wished(client, id, wish);
    }

    /// The connection breaks: the client knows at once, the broker a little later.
    pub(super) fn breaks(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.at_client = false;
        let client = link.client;
        self.current[client] = None;
        self.trace.record(|to| {
            to.lost(ConnectionId(id), false);
            to.note("client", Some(client as u64), format!("loses connection {id}"));
        });
        let at = self.schedule.now_us() + self.draws.below(3_000);
        self.schedule.add(at, Happening::Broken { link: id });
        let again = at + 1_000 + self.draws.below(20_000);
        self.schedule.add(again, Happening::Connect { client });
    }

    pub(super) fn broken(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id)
            && std::mem::replace(&mut link.at_broker, false)
        {
            self.trace.record(|to| to.broken(ConnectionId(id)));
            // It is over with `Close`: until then the broker handles what it has received.
            self.feed(Input::Closed { connection: ConnectionId(id), cause: CloseCause::Broken });
        }
    }

    /// The broker closes it. No client does anything that it may be closed for.
    pub(super) fn closes(&mut self, id: u64, reason: &str) {
        self.trace.line("broker", &[id], || format!("closes {id}: {reason}"));
        self.tap.forget(id);
        self.model.ended(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        (link.at_broker, link.over) = (false, true);
        let (client, last) = (link.client, link.last_us.1);
        self.trace.record(|to| {
            to.lost(ConnectionId(id), true);
            to.signalled(ConnectionId(id), client, false, format!("closes connection {id}: {reason}"));
        });
        if link.at_client && !self.stopping {
            self.model.fail(Checker::Protocol, format!("client {client}"), format!("it is closed: {reason}"));
        }
        self.schedule.add(last, Happening::ClientHears { link: id });
    }

    pub(super) fn client_hears(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if std::mem::replace(&mut link.at_client, false) {
            let client = link.client;
            self.trace.record(|to| to.arrived(ConnectionId(id), false, 1));
            self.current[client] = None;
            let at = self.schedule.now_us() + 1_000 + self.draws.below(20_000);
            self.schedule.add(at, Happening::Connect { client });
        }
    }
}
