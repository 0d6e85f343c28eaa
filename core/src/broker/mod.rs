//! The broker: takes inputs, hands out orders. Everything else hangs from here.
//!
//! Who may change what: `state` is changed by `commit` alone, through a record; connections and attachments belong
//! to the methods of their folders (`mqtt`, `session`); what leaves for a client leaves through `send`, `reply`
//! or the deliveries of `session`.

mod ending;
mod expiring;
mod facts;
pub(crate) mod fanning_out;
pub(crate) mod fetching;
mod lanes;
pub(crate) mod proving;
pub mod publishing;
mod room;
mod shutdown;
mod timers;
mod upkeep;

use crate::amqp::Amqp;
use crate::connection::Connection;
use crate::deadlines::Deadlines;
use crate::durable::gate::Gate;
use crate::durable::log::{Log, LogEvent, Placed};
use crate::durable::record::{ClientKey, Record};
use crate::durable::state::State;
use crate::event::Event;
use crate::ids::{ConnectionId, ListenerId, Lsn, OpId, QueueId, Seed, SessionId};
use crate::input::{CloseCause, DiskError, DiskReply, Input, Peer, Protocol, Question};
use crate::limits::Settings;
use crate::marks::reached;
use crate::outbox::Outbox;
use crate::output::{Answer, CloseKind, CloseReason, Halt, Output};
use crate::routing::subscriptions::Subscriber;
use crate::session::Attachment;
use crate::session::departures::Departures;
use crate::session::sharing::Sharing;
use crate::statistics::Statistics;
use crate::time::{Deadline, Now, WallTime};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
pub(crate) use ending::Ending;
use expiring::Expiries;
use fanning_out::FanOut;
use fetching::Fetches;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upkeep::Upkeep;

/// The broker.
pub struct Broker {
    pub(crate) settings: Settings,
    pub(crate) seed: Seed,
    /// The clocks of the input that is handled.
    pub(crate) now: Now,
    pub(crate) state: State,
    pub(crate) log: Log,
    pub(crate) gate: Gate,
    pub(crate) outbox: Outbox,
    /// These are boxed, because a map has room for up to twice as many as it holds.
    pub(crate) connections: HashMap<ConnectionId, Box<Connection>, FixedState>,
    pub(crate) attachments: HashMap<SessionId, Box<Attachment>, FixedState>,
    pub(crate) deadlines: Deadlines,
    /// Durable sessions whose client is away, by when they expire.
    pub(crate) away: BTreeSet<(WallTime, SessionId)>,
    /// Wills that are published when their delay is over.
    pub(crate) wills_due: BTreeSet<(WallTime, ClientKey)>,
    /// What groups of shared subscriptions have given out.
    pub(crate) sharing: Sharing,
    /// Messages for MQTT subscribers that expire.
    pub(crate) expiries: Expiries,
    /// What was put off to a later turn.
    pub(crate) work: VecDeque<Work>,
    /// Pieces of work done since the start: packets handled, messages sent, retained topics looked at. Whoever works
    /// at a stretch stops when it has grown by `Limits::turn_work`.
    pub(crate) pieces: u64,
    /// QoS 0 messages on their way to many; later ones queue behind them.
    pub(crate) fan_outs: VecDeque<FanOut>,
    /// Connections with parked PUBLISHes.
    pub(crate) parked: BTreeSet<ConnectionId>,
    /// Clients whose will waits for room.
    pub(crate) held_wills: BTreeSet<ClientKey>,
    /// What was lately taken away of clients.
    pub(crate) departures: Departures,
    pub(crate) counters: Statistics,
    /// Messages on their way from the disk.
    pub(crate) fetches: Fetches,
    /// Checkpoints and compaction.
    pub(crate) upkeep: Upkeep,
    /// Consumers and how far declared queues are served.
    pub(crate) amqp: Amqp,
    /// A transaction is committed: nothing of it is delivered before it is durable, and nothing of it held back.
    pub(crate) transacting: bool,
    /// Connections with something to send.
    pub(crate) to_send: Vec<ConnectionId>,
    subscribers: Vec<Subscriber>,
    /// Where what is kept of an AMQP message's properties is put together; no larger than a frame.
    pub(crate) stored_properties: Vec<u8>,
    /// `Work::Bury` is in the list.
    burying: bool,
    memory_full: bool,
    publishers_held: bool,
    stage: Stage,
}

/// Work that was put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Go on with the connection's input.
    Parse(ConnectionId),
    /// Go on with the connection's parked PUBLISHes.
    Unpark(ConnectionId),
    /// Go on with the session's deliveries.
    Pump(SessionId),
    /// Go on with the retained messages that the session is owed.
    Owed(SessionId),
    /// Go on with the declared queue's deliveries.
    Serve(QueueId),
    /// Free queues that went away.
    Bury,
    /// Go on with checkpoints and compaction.
    Upkeep,
}

/// How far the broker's life is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Serving,
    /// Held answers are flushed; nothing new is read.
    Flushing,
    /// Connections are closed; their wills are flushed.
    Closing,
    Stopped,
}

impl Broker {
    pub(crate) fn recovered(
        now: Now,
        settings: Settings,
        seed: Seed,
        state: State,
        log: Log,
        outbox: Outbox,
    ) -> Broker {
        let key = seed.hash_key();
        Broker {
            settings,
            seed,
            now,
            state,
            log,
            gate: Gate::default(),
            outbox,
            connections: HashMap::with_hasher(FixedState::with_seed(key)),
            attachments: HashMap::with_hasher(FixedState::with_seed(key)),
            deadlines: Deadlines::default(),
            away: BTreeSet::new(),
            wills_due: BTreeSet::new(),
            sharing: Sharing::default(),
            expiries: Expiries::default(),
            work: VecDeque::new(),
            pieces: 0,
            fan_outs: VecDeque::new(),
            parked: BTreeSet::new(),
            held_wills: BTreeSet::new(),
            departures: Departures::default(),
            counters: Statistics::default(),
            fetches: Fetches::default(),
            upkeep: Upkeep::default(),
            amqp: Amqp::new(key),
            transacting: false,
            to_send: Vec::new(),
            subscribers: Vec::new(),
            stored_properties: Vec::new(),
            burying: false,
            memory_full: false,
            publishers_held: false,
            stage: Stage::Serving,
        }
    }

    /// Takes a fact. Never fails; does a bounded amount of work and puts the rest off to `next_deadline`. Several
    /// calls may come before the outputs are polled.
    pub fn handle(&mut self, now: Now, input: Input) {
        if self.stage == Stage::Stopped {
            return;
        }
        self.now = now;
        match input {
            Input::Opened { connection, listener, protocol, peer } => {
                self.opened(connection, listener, protocol, peer);
            }
            Input::Received { connection, bytes } => {
                if self.stage == Stage::Serving {
                    self.received(connection, bytes);
                }
            }
            Input::Sent { connection, bytes } => self.sent(connection, bytes),
            Input::Closed { connection, cause } => self.closed(connection, cause),
            Input::Verified { connection, verdict } => {
                if self.stage == Stage::Serving {
                    self.verified(connection, verdict);
                }
            }
            Input::DiskDone { op, result } => self.disk_done(op, result),
            Input::DeadlineReached => self.deadline_reached(),
            Input::Reload(settings) => self.reload(*settings),
            Input::Query { query, question: Question::Statistics } => {
                let answer = Answer::Statistics(Box::new(self.statistics()));
                self.outbox.push(Output::Answer { query, answer });
            }
            Input::ShutdownRequested => self.shut_down(),
        }
        self.check_room();
        self.check_shutdown();
    }

    /// The next order, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        while let Some(id) = self.to_send.pop() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.listed = false;
            if connection.send.has_pending() {
                return Some(Output::Send { connection: id, chunks: connection.send.take() });
            }
        }
        None
    }

    /// When the broker wants `DeadlineReached`; a moment that has passed means "at once".
    pub fn next_deadline(&self) -> Option<Deadline> {
        if self.stage == Stage::Stopped {
            return None;
        }
        let (at, why) = self.earliest_deadline()?;
        Some(Deadline { at, why })
    }

    /// The highest LSN that is known to be on disk.
    pub fn durable(&self) -> Lsn {
        self.log.durable()
    }

    /// Whether every record is on disk.
    pub fn is_durable(&self) -> bool {
        self.log.durable() == self.log.last()
    }

    /// Whether `Halt` was ordered.
    pub fn has_stopped(&self) -> bool {
        self.stage == Stage::Stopped
    }

    /// Applies a record, and appends it to the log if anything of it must survive; its LSN, or `Lsn::NONE`.
    pub(crate) fn commit(&mut self, record: Record) -> Lsn {
        let placed = match &record {
            Record::Published(publication) => Some(Placed::Message(publication.message)),
            Record::Relocated { message, .. } => Some(Placed::Message(*message)),
            _ => None,
        };
        let lsn = match record.is_durable(&self.state) {
            true => self.log.append(self.now, &record, placed, &self.settings),
            false => Lsn::NONE,
        };
        self.state.apply(record, lsn, None);
        lsn
    }

    /// `lsn` took something of the client's away: answers that say so wait for it.
    pub(crate) fn note_departure(&mut self, key: &ClientKey, lsn: Lsn) {
        self.departures.note(key, lsn, self.log.durable());
    }

    fn opened(&mut self, id: ConnectionId, listener: ListenerId, protocol: Protocol, peer: Peer) {
        let limit = self.settings.limits.connections;
        let refusal: Option<Cow<'static, str>> = if self.stage != Stage::Serving {
            Some("the broker is shutting down".into())
        } else if self.connections.len() >= limit {
            Some(alloc::format!("limits.connections ({limit}) are open already").into())
        } else {
            None
        };
        if let Some(text) = refusal {
            let reason = CloseReason { kind: CloseKind::Unavailable, clause: "", text, client: None };
            self.outbox.push(Output::Close { connection: id, reason });
            return;
        }
        let connection = Connection::new(listener, protocol, peer, self.now.monotonic);
        self.connections.insert(id, Box::new(connection));
        let at = self.now.monotonic.plus_ms(self.settings.limits.connect_ms);
        self.set_timer(id, at, crate::time::Why::Handshake);
    }

    /// Takes other settings. Whoever waits at a bound is woken by what crosses it, and the bound may have moved past
    /// them: so everybody is looked at.
    fn reload(&mut self, settings: Settings) {
        self.settings = settings;
        self.note_who_is_away();
        let sessions: Vec<SessionId> = self.state.clients.values().copied().collect();
        for session in sessions {
            let Some(attachment) = self.attachments.get(&session) else { continue };
            let connection = attachment.connection;
            self.resume_reading(connection);
            self.work.extend([Work::Pump(session), Work::Owed(session)]);
        }
        let mut others: Vec<ConnectionId> =
            self.connections.iter().filter(|(_, c)| c.amqp.is_some()).map(|(id, _)| *id).collect();
        others.sort_unstable();
        for connection in others {
            self.resume_reading(connection);
            self.serve_connection(connection);
        }
    }

    fn sent(&mut self, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let bound = self.settings.limits.unsent_bytes;
        let before = connection.send.unsent();
        connection.send.sent(bytes);
        let after = connection.send.unsent();
        let session = connection.session();
        let amqp = connection.amqp.is_some();
        self.resume_reading(id);
        if amqp && before >= bound && after < bound {
            self.serve_connection(id);
        }
        let Some(session) = session else { return };
        if before >= bound && after < bound {
            self.pump(session);
        }
        if before > bound / 2 && after <= bound / 2 {
            self.work.push_back(Work::Owed(session));
        }
    }

    /// All that was received before has been handed over: it is handled before the end.
    fn closed(&mut self, id: ConnectionId, cause: CloseCause) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // No reply can be held for long any more, so nothing stops the rest from being handled.
        connection.closing = true;
        while self.connections.get(&id).is_some_and(|c| c.has_whole_packet() && !c.awaits_verdict()) {
            self.parse_more(id);
        }
        // Who has sent something behind its login may still be heard; of others nothing is left to be done.
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.has_whole_packet()
            && let Some(proving) = connection.proving.as_mut()
        {
            proving.gone = Some(cause);
            return;
        }
        let text = match cause {
            CloseCause::EndOfStream => "closed by the client without DISCONNECT",
            CloseCause::Broken | CloseCause::Ordered => "the connection broke",
        };
        if self.connections.contains_key(&id) {
            self.end(id, Ending::Gone(text));
        }
    }

    fn disk_done(&mut self, op: OpId, result: Result<DiskReply, DiskError>) {
        if self.fetched(op, &result) {
            return self.go_on_with_upkeep();
        }
        let event = self.log.disk_done(self.now, op, result, &self.settings, &mut self.outbox);
        for (placed, place) in self.log.take_placed() {
            match placed {
                Placed::Message(message) => self.state.written(message, place),
                Placed::Image(key) => self.state.image_written(&key, place),
                Placed::Listing(number) => self.upkeep.listing_written(number, place),
            }
        }
        match event {
            LogEvent::Nothing => {}
            LogEvent::Durable => self.pass_gate(),
            LogEvent::Full(why) => {
                reached!("disk full");
                self.event(|| Event::DiskFull { why });
            }
            LogEvent::RoomAgain => {
                reached!("disk has room");
                self.event(|| Event::DiskHasRoom);
            }
            LogEvent::Failed(doing, error) => {
                reached!("disk failed");
                return self.stop(Halt::Storage { doing: doing.into(), error: error.message });
            }
        }
        self.go_on_with_upkeep();
    }

    /// The last output. Nothing that was to be sent leaves after a fault.
    fn stop(&mut self, fault: Halt) {
        if fault != Halt::ShutDown {
            self.outbox.clear();
            self.to_send.clear();
        }
        self.outbox.push(Output::Halt { fault });
        self.stage = Stage::Stopped;
    }

    pub(crate) fn event(&mut self, event: impl FnOnce() -> Event) {
        self.outbox.push(Output::Report(event()));
    }

    pub(crate) fn message_event(&mut self, event: impl FnOnce() -> Event) {
        if self.settings.message_events {
            self.outbox.push(Output::Report(event()));
        }
    }
}
