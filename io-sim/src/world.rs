//! A run: clients, network, disk and the broker's process, event by event through simulated time.

mod damage;
mod fault;
mod login;
mod phase;
mod process;
mod wire;

use crate::chance::{Chance, Domain, Draws};
use crate::client::{Client, Context, Order};
use crate::clock::WallClock;
use crate::disk::Disk;
use crate::effects::Effects;
use crate::happening::Happening;
use crate::ledger::Ledger;
use crate::model::{Ending, Model};
use crate::network::{Network, Piece, Surroundings};
use crate::outcome::{Checker, Counts, Course, Outcome};
use crate::scenario::{self, Scenario};
use crate::schedule::Schedule;
use crate::tap::Tap;
use crate::trace::{Detail, Trace};
use damage::Damage;
use fault::Plan;
use login::Logins;
use phase::Phase;
use process::Process;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use vowmq_core::ids::{ConnectionId, ListenerId};
use vowmq_core::input::{CloseCause, Input, Peer, Protocol};
use vowmq_core::limits::Settings;

/// A run that takes more events than this goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;
/// How long what comes of a broken promise is recorded, and for how many events.
const AFTERMATH_US: u64 = 20_000;
const AFTERMATH_EVENTS: u64 = 1_000;

/// What listens to the broker on a connection, and whose that is.
struct Listening {
    tap: Tap,
    client: usize,
    attempt: usize,
}

/// Everything there is in a run.
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    schedule: Schedule<Happening>,
    network: Network,
    disk: Disk,
    ledger: Ledger,
    clients: Vec<Client>,
    model: Model,
    trace: Trace,
    counts: Counts,
    course: Course,
    effects: Effects,
    process: Process,
    /// How often the process was started.
    starts: u64,
    plan: Plan,
    damage: Damage,
    phase: Phase,
    chance: Chance,
    crash_entity: u64,
    crash_draws: Draws,
    /// The broker's settings in force.
    settings: Settings,
    driver_draws: Draws,
    taps: BTreeMap<ConnectionId, Listening>,
    /// The process stands still until then.
    paused_until: u64,
    wall: WallClock,
    logins: Logins,
    over: bool,
    /// What the run brought, if it is gone on with to show what comes of a broken promise.
    ended: Option<Outcome>,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario, detail: Detail) -> World<'a> {
        let chance = Chance::new(scenario.seed);
        let mut schedule = Schedule::new();
        schedule.add(0, Happening::Start);
        let mut clients = Vec::new();
        for (index, program) in scenario.clients.iter().enumerate() {
            for (operation, at) in program.operations.iter().enumerate() {
                schedule.add(at.at_us, Happening::Operation { client: index, index: operation });
            }
            let draws = chance.draws(Domain::Client, crate::chance::entity(&program.id));
            clients.push(Client::new(index, program.clone(), scenario.has_users(), draws));
        }
        for (index, at) in scenario::at_times(&scenario.faults) {
            schedule.add(at, Happening::Fault(index));
        }
        schedule.add(scenario.fault_phase_us, Happening::Heal);
        let mut trace = Trace::new(detail != Detail::Hash);
        if detail == Detail::Entries {
            trace.keep_entries(scenario.clients.iter().map(|client| client.id.clone()).collect());
        }
        World {
            scenario,
            schedule,
            network: Network::new(scenario.network.clone(), chance, &scenario.clients),
            disk: Disk::new(scenario.disk.clone(), chance),
            ledger: Ledger::new(),
            clients,
            model: Model::new(scenario),
            trace,
            counts: Counts::default(),
            course: Course::default(),
            effects: Effects::default(),
            process: Process::new(),
            starts: 0,
            plan: Plan::new(&scenario.faults),
            damage: Damage::default(),
            paused_until: 0,
            wall: WallClock::new(scenario.clock.wall_ppm),
            phase: Phase::Faults,
            chance,
            crash_entity: 0,
            settings: scenario.settings(0),
            crash_draws: chance.draws(Domain::Crash, 0),
            driver_draws: chance.draws(Domain::Driver, 0),
            taps: BTreeMap::new(),
            logins: Logins::default(),
            over: false,
            ended: None,
        }
    }

    /// Runs until the end, or until a promise is broken.
    pub(crate) fn run(&mut self) {
        if self.scenario.clock.wall_ppm != 0 {
            self.effects.count("wall clock that runs wrong");
        }
        let mut events = 0;
        while !self.over && self.model.violation().is_none() {
            if !self.take_event() {
                break;
            }
            events += 1;
            if events == EVENTS_MAX {
                self.model.fail(Checker::Progress, "run", format!("{EVENTS_MAX} events and no end"));
            }
        }
        if self.model.violation().is_none() {
            self.take_in_counters();
            self.model.check_drops();
        }
    }

    /// What comes of a broken promise is recorded too, for a while. It counts for nothing else.
    pub(crate) fn look_on(&mut self) {
        let Some(violation) = self.model.violation().cloned() else { return };
        let outcome = self.outcome();
        self.trace.record(|to| to.violated(&violation));
        self.ended = Some(outcome);
        if violation.checker == Checker::Panic {
            return;
        }
        let until = self.now() + AFTERMATH_US;
        for _ in 0..AFTERMATH_EVENTS {
            if self.now() > until || !self.take_event() {
                break;
            }
        }
    }

    /// Lets the next event happen, if there is one.
    fn take_event(&mut self) -> bool {
        let Some(happening) = self.schedule.pop() else { return false };
        let now = self.now();
        self.model.set_now(now);
        self.trace.set_now(now);
        if now < self.paused_until && happening.needs_process() {
            self.schedule.add(self.paused_until, happening);
        } else {
            self.happen(happening);
        }
        true
    }

    /// Notes a panic of the broker.
    pub(crate) fn panicked(&mut self, words: String) {
        self.model.fail(Checker::Panic, "broker", words);
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let mut outcome = self.ended.take().unwrap_or_else(|| self.outcome());
        outcome.entries = self.trace.take_recording().map_or_else(Vec::new, |recording| recording.finish());
        outcome
    }

    /// What the run brought so far, its entries aside.
    fn outcome(&mut self) -> Outcome {
        self.counts.simulated_us = self.schedule.now_us();
        self.effects.count_many("acknowledged before it was delivered", self.model.debts());
        self.counts.effects = std::mem::take(&mut self.effects);
        self.course.operations = self.disk.counts().operations;
        let (trace_hash, trace) = self.trace.so_far();
        Outcome {
            violation: self.model.violation().cloned(),
            trace_hash,
            trace,
            entries: Vec::new(),
            counts: std::mem::take(&mut self.counts),
            course: std::mem::take(&mut self.course),
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Operation { client, index } => {
                if self.phase == Phase::Faults {
                    self.with_client(client, |client, around| client.operate(around, index));
                }
            }
            Happening::ClientTimer { client, timer, generation } => {
                self.with_client(client, |client, around| client.timer_ran_out(around, timer, generation));
            }
            Happening::ToBroker(id) => self.arrive_at_broker(id),
            Happening::ToClient(id) => self.arrive_at_client(id),
            Happening::Taken(id) => {
                if let Some(bytes) = self.network.take_taken(id) {
                    self.feed(Input::Sent { connection: id, bytes });
                }
            }
            Happening::ClosedAsOrdered(id) => {
                let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
                if self.network.closed_as_ordered(&mut around, id) {
                    self.trace.record(|to| to.lost(id, true));
                    self.feed(Input::Closed { connection: id, cause: CloseCause::Ordered });
                }
            }
            Happening::DiskDone { epoch, op } => self.disk_done(epoch, op),
            Happening::Verified { epoch, connection, right } => self.verified(epoch, connection, right),
            Happening::Wake { epoch } => self.wake(epoch),
            Happening::Drain { epoch } => self.drain_late(epoch),
            Happening::Start => self.start(),
            Happening::Fault(index) => self.fault(index),
            Happening::FaultEnds(index) => self.fault_ends(index),
            Happening::Heal => self.heal(),
            Happening::Look => self.look(),
        }
    }

    fn now(&self) -> u64 {
        self.schedule.now_us()
    }

    /// Lets a client act, then carries out what it wants of the network.
    fn with_client(&mut self, index: usize, act: impl FnOnce(&mut Client, &mut Context<'_>)) {
        let mut orders = Vec::new();
        let mut context = Context {
            now: self.schedule.now_us(),
            model: &mut self.model,
            trace: &mut self.trace,
            counts: &mut self.counts,
            orders: &mut orders,
        };
        act(&mut self.clients[index], &mut context);
        let mut orders = VecDeque::from(orders);
        while let Some(order) = orders.pop_front() {
            if let Some(connection) = self.carry_out_for_client(index, order) {
                let mut more = Vec::new();
                let mut context = Context {
                    now: self.schedule.now_us(),
                    model: &mut self.model,
                    trace: &mut self.trace,
                    counts: &mut self.counts,
                    orders: &mut more,
                };
                self.clients[index].opened(&mut context, connection);
                orders.extend(more);
            }
        }
    }

    /// Tells the number of a connection that was opened.
    fn carry_out_for_client(&mut self, client: usize, order: Order) -> Option<ConnectionId> {
        let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
        match order {
            Order::Open { attempt } => {
                let id = self.network.open(&mut around, client, attempt);
                self.trace.record(|to| to.signalled(id, client, true, format!("opens connection {id}")));
                return Some(id);
            }
            Order::Write(id, bytes) => {
                self.trace.record(|to| drop(to.sent(id, client, true, &bytes)));
                self.network.client_writes(&mut around, id, bytes);
            }
            Order::Finish(id) => {
                self.trace.record(|to| {
                    to.signalled(id, client, true, format!("ends connection {id}"));
                    to.lost(id, false);
                });
                self.network.client_finishes(&mut around, id);
            }
            Order::Reset(id) => {
                around.effects.count("client reset");
                self.trace.record(|to| {
                    to.note("client", Some(client as u64), "breaks its connection".to_owned());
                    to.broken(id);
                });
                self.network.client_resets(&mut around, id);
            }
            Order::Vanish(id) => {
                around.effects.count("half-open");
                self.trace.record(|to| {
                    to.note("client", Some(client as u64), "vanishes from its connection".to_owned());
                    to.lost(id, false);
                });
                self.network.client_vanishes(id);
            }
            Order::StopReading { until_us } => {
                around.effects.count("slow reader");
                self.network.stall(client, crate::fault::Direction::ToClient, until_us);
            }
            Order::Timer { at_us, timer, generation } => {
                around.schedule.add(at_us, Happening::ClientTimer { client, timer, generation });
            }
        }
        None
    }

    fn arrive_at_broker(&mut self, id: ConnectionId) {
        loop {
            let serving = self.process.is_serving();
            let Some(connection) = self.network.connection(id) else { return };
            let (client, attempt, open) =
                (connection.client, connection.attempt, connection.is_open_at_broker());
            let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
            let Some(piece) = self.network.arrived_at_broker(&mut around, id, serving) else { return };
            match piece {
                Piece::Open => {
                    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1024 + client as u16);
                    self.trace
                        .line("network", &[id.0], || format!("connection {id} of client {client} opened"));
                    self.trace.record(|to| to.arrived(id, true, 1));
                    let (connection, peer) = (id, Peer { address });
                    self.feed(Input::Opened {
                        connection,
                        listener: ListenerId(0),
                        protocol: Protocol::Mqtt,
                        peer,
                    });
                }
                Piece::Bytes(bytes) => {
                    self.trace.record(|to| to.arrived(id, true, bytes.len()));
                    if open || self.driver_draws.percent(50) {
                        self.feed(Input::Received { connection: id, bytes });
                    }
                }
                Piece::Finish => {
                    self.trace.record(|to| to.arrived(id, true, 1));
                    // A broker that is being stopped does not read a goodbye any more.
                    let read = self.process.stopping.is_none();
                    let ending = if read { Ending::InOrder } else { Ending::Abnormal };
                    self.model.attempt_ended(client, attempt, ending);
                    self.feed(Input::Closed { connection: id, cause: CloseCause::EndOfStream });
                }
                Piece::Broken => {
                    self.trace.record(|to| to.lost(id, true));
                    self.model.attempt_ended(client, attempt, Ending::Abnormal);
                    self.feed(Input::Closed { connection: id, cause: CloseCause::Broken });
                }
            }
        }
    }

    fn arrive_at_client(&mut self, id: ConnectionId) {
        loop {
            let Some(connection) = self.network.connection(id) else { return };
            let client = connection.client;
            let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
            let Some(piece) = self.network.arrived_at_client(&mut around, id) else { return };
            match piece {
                Piece::Bytes(bytes) => {
                    self.trace.record(|to| to.arrived(id, false, bytes.len()));
                    self.with_client(client, |client, around| client.received(around, id, &bytes))
                }
                Piece::Finish | Piece::Broken => {
                    self.trace.record(|to| {
                        to.arrived(id, false, usize::from(piece == Piece::Finish));
                        to.broken(id);
                    });
                    self.with_client(client, |client, around| client.connection_broke(around, id));
                }
                Piece::Open => {}
            }
        }
    }
}
