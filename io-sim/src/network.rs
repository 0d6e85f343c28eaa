//! The simulated network: per connection two pipes of pieces on their way, in order, with latency.
//!
//! Towards the client there is a window: what the broker orders to be sent waits at the broker's socket until
//! the client has read enough. Towards the broker everything is on its way at once.

use crate::chance::{self, Chance, Domain, Draws};
use crate::effects::Effects;
use crate::fault::Direction;
use crate::happening::Happening;
use crate::scenario::{ClientProgram, NetworkSettings};
use crate::schedule::Schedule;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use vowmq_core::ids::ConnectionId;

/// How long a closed connection may still try to send what was ordered before.
const LINGER_US: u64 = 3_000_000;

/// How long until a lost segment is sent again for the first time.
const RETRANSMISSION_US: u64 = 200_000;

/// What travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The connection itself.
    Open,
    /// Bytes.
    Bytes(Bytes),
    /// The end of the stream, in order.
    Finish,
    /// The news that the connection is broken.
    Broken,
}

/// All connections.
pub(crate) struct Network {
    settings: NetworkSettings,
    chance: Chance,
    connections: BTreeMap<ConnectionId, Connection>,
    opened: u64,
    /// Per client until when nothing comes through: to the broker, to the client.
    stalled_until: Vec<[u64; 2]>,
    /// Per client: what names its residual choices.
    entities: Vec<u64>,
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) client: usize,
    pub(crate) attempt: usize,
    to_broker: Pipe,
    to_client: Pipe,
    broker: BrokerEnd,
    client_gone: bool,
    paused: bool,
    /// Ordered by the broker and not on its way yet.
    unsent: VecDeque<Bytes>,
    /// On its way to the client, or unread there.
    outstanding: usize,
    /// Taken by the socket and not yet reported.
    taken: usize,
    /// The end of the stream is on its way to the client.
    finished: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BrokerEnd {
    Unopened,
    Open,
    Closing,
    Gone,
}

struct Pipe {
    draws: Draws,
    pieces: VecDeque<(u64, Piece)>,
    last_at: u64,
}

/// What the network may touch beside itself.
pub(crate) struct Surroundings<'a> {
    pub(crate) schedule: &'a mut Schedule<Happening>,
    pub(crate) effects: &'a mut Effects,
}

impl Network {
    pub(crate) fn new(settings: NetworkSettings, chance: Chance, clients: &[ClientProgram]) -> Network {
        let stalled_until = vec![[0; 2]; clients.len()];
        let entities = clients.iter().map(|client| chance::entity(&client.id)).collect();
        Network { settings, chance, connections: BTreeMap::new(), opened: 0, stalled_until, entities }
    }

    /// A client opens a connection, its `attempt`-th.
    pub(crate) fn open(
        &mut self,
        around: &mut Surroundings<'_>,
        client: usize,
        attempt: usize,
    ) -> ConnectionId {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let entity = self.entities[client].wrapping_add(attempt as u64);
        let mut connection = Connection {
            client,
            attempt,
            to_broker: Pipe::new(self.chance.draws(Domain::ToBroker, entity)),
            to_client: Pipe::new(self.chance.draws(Domain::ToClient, entity)),
            broker: BrokerEnd::Unopened,
            client_gone: false,
            paused: false,
            unsent: VecDeque::new(),
            outstanding: 0,
            taken: 0,
            finished: false,
        };
        let at =
            connection.to_broker.push(&self.settings, around.schedule.now_us(), Piece::Open, around.effects);
        around.schedule.add(at, Happening::ToBroker(id));
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn client_writes(&mut self, around: &mut Surroundings<'_>, id: ConnectionId, bytes: Bytes) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.broker == BrokerEnd::Gone || connection.client_gone {
            return;
        }
        let now = around.schedule.now_us();
        connection.to_broker.push_split(&self.settings, now, bytes, around, Happening::ToBroker(id));
    }

    /// The client ends its direction in order and reads no more.
    pub(crate) fn client_finishes(&mut self, around: &mut Surroundings<'_>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.client_gone = true;
        let at = connection.to_broker.push(
            &self.settings,
            around.schedule.now_us(),
            Piece::Finish,
            around.effects,
        );
        around.schedule.add(at, Happening::ToBroker(id));
    }

    /// The client breaks the connection: what was on its way is lost both ways.
    pub(crate) fn client_resets(&mut self, around: &mut Surroundings<'_>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.client_gone = true;
        connection.break_towards_broker(&self.settings, around, id);
        connection.to_client.pieces.clear();
        self.tidy(id);
    }

    /// The client is not there any more and the broker hears nothing of it.
    pub(crate) fn client_vanishes(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.client_gone = true;
        }
        self.tidy(id);
    }

    /// The connection breaks in the middle: both ends hear of it.
    pub(crate) fn reset(&mut self, around: &mut Surroundings<'_>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.break_towards_broker(&self.settings, around, id);
        connection.to_client.pieces.clear();
        connection.break_towards_client(&self.settings, around, id, 0);
    }

    /// The broker's order to send; what the window allows is taken at once.
    pub(crate) fn broker_sends(
        &mut self,
        around: &mut Surroundings<'_>,
        id: ConnectionId,
        chunks: Vec<Bytes>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.broker == BrokerEnd::Gone {
            return;
        }
        connection.unsent.extend(chunks.into_iter().filter(|chunk| !chunk.is_empty()));
        connection.fill_window(&self.settings, around, id);
    }

    /// The broker's order to close.
    pub(crate) fn broker_closes(&mut self, around: &mut Surroundings<'_>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.broker == BrokerEnd::Gone {
            return;
        }
        connection.broker = BrokerEnd::Closing;
        let now = around.schedule.now_us();
        let wait =
            if connection.unsent.is_empty() { connection.to_client.draws.below(2000) } else { LINGER_US };
        around.schedule.add(now + wait, Happening::ClosedAsOrdered(id));
        connection.fill_window(&self.settings, around, id);
    }

    /// The driver has closed; true if the broker is to hear of it.
    pub(crate) fn closed_as_ordered(&mut self, around: &mut Surroundings<'_>, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if connection.broker != BrokerEnd::Closing {
            return false;
        }
        connection.broker = BrokerEnd::Gone;
        if !connection.unsent.is_empty() {
            connection.unsent.clear();
            connection.break_towards_client(&self.settings, around, id, 0);
        }
        self.tidy(id);
        true
    }

    pub(crate) fn set_paused(&mut self, around: &mut Surroundings<'_>, id: ConnectionId, paused: bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.paused = paused;
        if !paused {
            around.schedule.add(around.schedule.now_us(), Happening::ToBroker(id));
        }
    }

    /// Nothing comes through for this client until then.
    pub(crate) fn stall(&mut self, client: usize, direction: Direction, until_us: u64) {
        let both = direction == Direction::Both;
        if both || direction == Direction::ToBroker {
            self.stalled_until[client][0] = until_us;
        }
        if both || direction == Direction::ToClient {
            self.stalled_until[client][1] = until_us;
        }
    }

    /// Nothing slows it down any more, so that what is due can arrive in time.
    pub(crate) fn heal(&mut self) {
        self.settings.window_bytes = self.settings.window_bytes.max(65_536);
        self.settings.slow_percent = 0;
        self.settings.lost_permille = 0;
        self.stalled_until.fill([0; 2]);
    }

    /// What has arrived at the broker. `serving` tells whether anybody listens.
    pub(crate) fn arrived_at_broker(
        &mut self,
        around: &mut Surroundings<'_>,
        id: ConnectionId,
        serving: bool,
    ) -> Option<Piece> {
        let now = around.schedule.now_us();
        let connection = self.connections.get_mut(&id)?;
        let stalled = self.stalled_until[connection.client][0];
        if now < stalled {
            around.schedule.add(stalled, Happening::ToBroker(id));
            return None;
        }
        if connection.broker == BrokerEnd::Gone || (connection.paused && connection.broker == BrokerEnd::Open)
        {
            return None;
        }
        let piece = connection.to_broker.pop(&self.settings, now, around.effects)?;
        match &piece {
            Piece::Open if serving => connection.broker = BrokerEnd::Open,
            Piece::Open => {
                connection.broker = BrokerEnd::Gone;
                connection.break_towards_client(&self.settings, around, id, 0);
                return None;
            }
            Piece::Bytes(_) => {}
            Piece::Finish | Piece::Broken => {
                connection.broker = BrokerEnd::Gone;
                connection.unsent.clear();
                self.tidy(id);
            }
        }
        Some(piece)
    }

    /// What has arrived at the client, which has read it.
    pub(crate) fn arrived_at_client(
        &mut self,
        around: &mut Surroundings<'_>,
        id: ConnectionId,
    ) -> Option<Piece> {
        let now = around.schedule.now_us();
        let connection = self.connections.get_mut(&id)?;
        let stalled = self.stalled_until[connection.client][1];
        if connection.client_gone {
            return None;
        }
        if now < stalled {
            around.schedule.add(stalled, Happening::ToClient(id));
            return None;
        }
        let piece = connection.to_client.pop(&self.settings, now, around.effects)?;
        match &piece {
            Piece::Bytes(bytes) => {
                connection.outstanding -= bytes.len();
                connection.fill_window(&self.settings, around, id);
            }
            Piece::Finish | Piece::Broken => {
                connection.client_gone = true;
                self.tidy(id);
            }
            Piece::Open => {}
        }
        Some(piece)
    }

    /// How much the broker's socket has taken since the last call.
    pub(crate) fn take_taken(&mut self, id: ConnectionId) -> Option<usize> {
        let connection = self.connections.get_mut(&id)?;
        let taken = std::mem::take(&mut connection.taken);
        (connection.broker == BrokerEnd::Open && taken > 0).then_some(taken)
    }

    /// The broker's process is gone: what it had not sent is lost, what was on its way to clients arrives, and
    /// they hear after `notice_us` that the connection is broken.
    /// Tells whose connections those were, and which attempts.
    pub(crate) fn broker_dies(
        &mut self,
        around: &mut Surroundings<'_>,
        mut notice_us: impl FnMut() -> u64,
    ) -> Vec<(usize, usize)> {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        let mut broken = Vec::new();
        for id in ids {
            let connection = self.connections.get_mut(&id).expect("just listed");
            if matches!(connection.broker, BrokerEnd::Open | BrokerEnd::Closing) {
                connection.broker = BrokerEnd::Gone;
                connection.to_broker.pieces.clear();
                connection.unsent.clear();
                broken.push((connection.client, connection.attempt));
                connection.break_towards_client(&self.settings, around, id, notice_us());
                self.tidy(id);
            }
        }
        broken
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// Forgets a connection that neither end has any more.
    fn tidy(&mut self, id: ConnectionId) {
        let over = |connection: &Connection| connection.broker == BrokerEnd::Gone && connection.client_gone;
        if self.connections.get(&id).is_some_and(over) {
            self.connections.remove(&id);
        }
    }
}

impl Connection {
    /// Whether the broker has it open.
    pub(crate) fn is_open_at_broker(&self) -> bool {
        self.broker == BrokerEnd::Open
    }

    fn break_towards_broker(
        &mut self,
        settings: &NetworkSettings,
        around: &mut Surroundings<'_>,
        id: ConnectionId,
    ) {
        self.to_broker.pieces.clear();
        match self.broker {
            BrokerEnd::Unopened => self.broker = BrokerEnd::Gone,
            BrokerEnd::Open | BrokerEnd::Closing => {
                self.paused = false;
                let at =
                    self.to_broker.push(settings, around.schedule.now_us(), Piece::Broken, around.effects);
                around.schedule.add(at, Happening::ToBroker(id));
            }
            BrokerEnd::Gone => {}
        }
    }

    fn break_towards_client(
        &mut self,
        settings: &NetworkSettings,
        around: &mut Surroundings<'_>,
        id: ConnectionId,
        later_us: u64,
    ) {
        let at =
            self.to_client.push(settings, around.schedule.now_us() + later_us, Piece::Broken, around.effects);
        around.schedule.add(at, Happening::ToClient(id));
    }

    /// Puts on its way what the window allows.
    fn fill_window(&mut self, settings: &NetworkSettings, around: &mut Surroundings<'_>, id: ConnectionId) {
        let now = around.schedule.now_us();
        let reported_before = self.taken > 0;
        while self.outstanding < settings.window_bytes {
            let Some(mut chunk) = self.unsent.pop_front() else { break };
            let room = settings.window_bytes - self.outstanding;
            if chunk.len() > room {
                around.effects.count("window full");
                self.unsent.push_front(chunk.split_off(room));
            }
            self.outstanding += chunk.len();
            self.taken += chunk.len();
            self.to_client.push_split(settings, now, chunk, around, Happening::ToClient(id));
        }
        if self.taken > 0 && !reported_before {
            around.schedule.add(now + 20, Happening::Taken(id));
        }
        if self.broker == BrokerEnd::Closing && self.unsent.is_empty() && !self.finished {
            self.finished = true;
            let at = self.to_client.push(settings, now, Piece::Finish, around.effects);
            around.schedule.add(at, Happening::ToClient(id));
        }
    }
}

impl Pipe {
    fn new(draws: Draws) -> Pipe {
        Pipe { draws, pieces: VecDeque::new(), last_at: 0 }
    }

    /// Puts a piece on its way; tells when it arrives.
    fn push(&mut self, settings: &NetworkSettings, now: u64, piece: Piece, effects: &mut Effects) -> u64 {
        let mut latency = self.draws.between(settings.latency_min_us, settings.latency_max_us);
        if settings.slow_percent > 0 && self.draws.percent(settings.slow_percent) {
            latency += settings.slow_us;
        }
        let mut again_us = RETRANSMISSION_US;
        while settings.lost_permille > 0 && self.draws.below(1000) < u64::from(settings.lost_permille) {
            effects.count("segment lost and sent again");
            latency += again_us;
            again_us *= 2;
        }
        self.last_at = self.last_at.max(now + latency);
        self.pieces.push_back((self.last_at, piece));
        self.last_at
    }

    /// Puts bytes on their way, whole or split anywhere.
    fn push_split(
        &mut self,
        settings: &NetworkSettings,
        now: u64,
        mut bytes: Bytes,
        around: &mut Surroundings<'_>,
        arrival: Happening,
    ) {
        if settings.split_percent > 0 && self.draws.percent(settings.split_percent) {
            let piece_max = 1 + self.draws.below(bytes.len() as u64);
            while bytes.len() > 1 && self.pieces.len() < 1000 {
                let head = bytes.split_to(self.draws.between(1, piece_max.min(bytes.len() as u64)) as usize);
                let at = self.push(settings, now, Piece::Bytes(head), around.effects);
                around.schedule.add(at, arrival);
                around.effects.count("bytes split");
                if bytes.is_empty() {
                    return;
                }
            }
        }
        let at = self.push(settings, now, Piece::Bytes(bytes), around.effects);
        around.schedule.add(at, arrival);
    }

    /// Takes the next piece that has arrived; bytes possibly together with what arrived after them.
    fn pop(&mut self, settings: &NetworkSettings, now: u64, effects: &mut Effects) -> Option<Piece> {
        if self.pieces.front()?.0 > now {
            return None;
        }
        let (_, mut first) = self.pieces.pop_front()?;
        while let Piece::Bytes(bytes) = &first
            && let Some((at, Piece::Bytes(next))) = self.pieces.front()
            && *at <= now
            && self.draws.percent(settings.coalesce_percent)
        {
            first = Piece::Bytes([&bytes[..], &next[..]].concat().into());
            self.pieces.pop_front();
            effects.count("pieces joined");
        }
        Some(first)
    }
}
