//! The world of a run: the broker over the simulated disk, clients over a simulated network, and time.

use super::bridge::Bridged;
use super::client::{Client, Role};
use super::lodger::Lodger;
use super::model::{How, Key, Model};
use super::scenario::Scenario;
use super::tap::Tap;
use super::wire::Decoder;
use crate::chance::{Chance, Domain, Draws};
use crate::disk::Disk;
use crate::effects::Effects;
use crate::outcome::{Checker, Counts, Outcome};
use crate::schedule::Schedule;
use crate::trace::{Detail, Trace};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use vowmq_core::ids::{OpId, Seed};
use vowmq_core::input::Input;
use vowmq_core::output::Output;
use vowmq_core::time::{Monotonic, Now, WallTime};
use vowmq_core::{Broker, Purpose, Recovered, Recovery};

/// Simulated time after which the queues must be drained.
const DRAIN_US: u64 = 120_000_000;

/// What a wall clock shows when a run begins, in milliseconds.
const WALL_MS: u64 = 1_700_000_000_000;

/// As many bytes are received at once as the real shell reads at once.
pub(super) const READ_BYTES_MAX: usize = 64 << 10;

/// Turns at one moment after which a broker does not come to rest.
const TURNS_MAX: u32 = 100_000;

pub(super) enum Happening {
    Start,
    DiskDone {
        epoch: u64,
        op: OpId,
    },
    Wake {
        epoch: u64,
    },
    ToBroker {
        link: u64,
        bytes: Bytes,
    },
    /// The broker reads again what had to wait.
    Read {
        link: u64,
    },
    ToClient {
        link: u64,
        bytes: Bytes,
    },
    Connect {
        client: usize,
    },
    ClientWakes {
        link: u64,
    },
    Broken {
        link: u64,
    },
    ClientHears {
        link: u64,
    },
    Fault(usize),
    Heal,
    Look,
}

pub(super) enum Process {
    Down,
    Recovering(Box<Recovery>),
    Serving(Box<Broker>),
}

/// A connection.
pub(super) struct Link {
    pub(super) client: usize,
    pub(super) at_broker: bool,
    pub(super) at_client: bool,
    /// The broker has done with it.
    pub(super) over: bool,
    /// What the client has not decoded yet.
    pub(super) incoming: Decoder,
    /// When the last bytes arrive, each way.
    pub(super) last_us: (u64, u64),
    /// When the client next does something by itself.
    pub(super) wakes_us: Option<u64>,
    pub(super) paused: bool,
    pub(super) waiting: VecDeque<Bytes>,
}

pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) chance: Chance,
    pub(super) draws: Draws,
    pub(super) schedule: Schedule<Happening>,
    pub(super) disk: Disk,
    pub(super) process: Process,
    pub(super) epoch: u64,
    pub(super) wake_at: Option<u64>,
    pub(super) down_until: u64,
    pub(super) stopping: bool,
    pub(super) clients: Vec<Client>,
    /// The connection of each client.
    pub(super) current: Vec<Option<u64>>,
    pub(super) links: BTreeMap<u64, Link>,
    pub(super) next_link: u64,
    pub(super) model: Model<'a>,
    pub(super) tap: Tap,
    pub(super) trace: Trace,
    pub(super) effects: Effects,
    pub(super) counts: Counts,
    /// Somebody has declared all that there is.
    pub(super) declared: bool,
    pub(super) healed: bool,
    pub(super) drained: bool,
    pub(super) last_delivery_us: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, detail: Detail) -> World<'a> {
        let chance = Chance::new(scenario.seed);
        let publishers = scenario.publishers.iter().enumerate().map(|(number, plan)| Role::Publisher {
            plan: plan.clone(),
            number: number as u32,
            next: 0,
            confirmed: 0,
            sent: 0,
            at_us: 0,
            waits: false,
        });
        let behind = (scenario.publishers.len() + scenario.sensors.len()) as u32;
        let consumers = scenario.consumers.iter().zip(behind..);
        let consumers =
            consumers.map(|(plan, number)| Role::Consumer { plan: plan.clone(), number, next: 0 });
        let lodgers = scenario.lodgers.iter().enumerate();
        let lodgers = lodgers.map(|(number, plan)| Role::Lodger(Lodger::new(plan.clone(), number)));
        let first = scenario.publishers.len() as u32;
        let sensors = scenario.sensors.iter().zip(first..);
        let sensors = sensors.map(|(plan, number)| Role::Bridged(Bridged::sensor(plan.clone(), number)));
        let listener = scenario.listener.iter().map(|plan| Role::Bridged(Bridged::listener(plan.clone())));
        let roles = publishers.chain(consumers).chain(lodgers).chain(sensors).chain(listener);
        let roles = roles.chain([Role::Drainer]).enumerate();
        let clients: Vec<Client> = roles
            .map(|(number, role)| Client::new(role, chance.draws(Domain::Client, 1000 + number as u64)))
            .collect();
        let mut trace = Trace::new(detail != Detail::Hash);
        if detail != Detail::Hash {
            trace.keep_entries(scenario.client_names());
        }
        World {
            scenario,
            chance,
            draws: chance.draws(Domain::Driver, 1),
            schedule: Schedule::new(),
            disk: Disk::new(scenario.disk.clone(), chance),
            process: Process::Down,
            epoch: 0,
            wake_at: None,
            down_until: 0,
            stopping: false,
            current: vec![None; clients.len()],
            clients,
            links: BTreeMap::new(),
            next_link: 1,
            model: Model::new(scenario),
            tap: Tap::default(),
            trace,
            effects: Effects::default(),
            counts: Counts::default(),
            declared: false,
            healed: false,
            drained: false,
            last_delivery_us: 0,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        self.schedule.add(0, Happening::Start);
        for client in 0..self.clients.len() - 1 {
            self.schedule.add(1000, Happening::Connect { client });
        }
        for (index, fault) in self.scenario.faults.iter().enumerate() {
            self.schedule.add(fault.at_us, Happening::Fault(index));
        }
        self.schedule.add(self.scenario.fault_phase_us, Happening::Heal);
        while self.model.violation().is_none()
            && !self.drained
            && let Some(happening) = self.schedule.pop()
        {
            let now_us = self.schedule.now_us();
            self.trace.set_now(now_us);
            self.model.set_now(now_us);
            if now_us > self.scenario.fault_phase_us + DRAIN_US {
                self.model.fail(Checker::Progress, "queues", "they are not drained in time".to_owned());
                break;
            }
            self.happens(happening);
        }
        if self.model.violation().is_none() {
            self.model.audit();
        }
        self.counts.simulated_us = self.schedule.now_us();
        self.counts.deliveries = self.model.deliveries;
        self.counts.effects = self.effects;
        let violation = self.model.violation().cloned();
        if let Some(violation) = &violation {
            self.trace.line("BROKEN", &[], || violation.to_string());
            self.trace.record(|to| to.violated(violation));
        }
        let (trace_hash, trace) = self.trace.so_far();
        let entries = self.trace.take_recording().map_or_else(Vec::new, |recording| recording.finish());
        Outcome { violation, trace_hash, trace, entries, counts: self.counts, ..Outcome::default() }
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Start => self.start(),
            Happening::DiskDone { epoch, op } if epoch == self.epoch => self.disk_done(op),
            Happening::Wake { epoch } if epoch == self.epoch => {
                self.wake_at = None;
                self.turn();
            }
            Happening::DiskDone { .. } | Happening::Wake { .. } => {}
            Happening::ToBroker { link, bytes } => {
                self.links.entry(link).and_modify(|link| link.waiting.push_back(bytes));
                self.read(link);
            }
            Happening::Read { link } => self.read(link),
            Happening::ToClient { link, bytes } => self.arrives(link, &bytes),
            Happening::Connect { client } => self.connect(client),
            Happening::ClientWakes { link } => self.client_wakes(link),
            Happening::Broken { link } => self.broken(link),
            Happening::ClientHears { link } => self.client_hears(link),
            Happening::Fault(index) => self.fault(index),
            Happening::Heal => self.heal(),
            Happening::Look => self.look(),
        }
    }

    fn now(&self) -> Now {
        let now = self.schedule.now_us();
        Now { monotonic: Monotonic(now), wall: WallTime(WALL_MS + now / 1000) }
    }

    fn start(&mut self) {
        let now_us = self.schedule.now_us();
        if !matches!(self.process, Process::Down) || now_us < self.down_until {
            return;
        }
        self.epoch += 1;
        self.wake_at = None;
        let mut seed = [0; 32];
        let mut draws = self.chance.draws(Domain::BrokerSeed, self.epoch);
        seed.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&draws.number().to_le_bytes()));
        let settings = self.scenario.broker.settings();
        let recovery = Recovery::new(self.now(), settings, Seed(seed), Purpose::Serve);
        self.process = Process::Recovering(Box::new(recovery));
        self.trace.line("broker", &[self.epoch], || "is started and recovers".to_owned());
        self.trace.record(|to| to.process(None));
        self.recover();
    }

    fn recover(&mut self) {
        let Process::Recovering(recovery) = &mut self.process else { return };
        let mut orders = Vec::new();
        while let Some(output) = recovery.poll_output() {
            orders.push(output);
        }
        let finished = recovery.finish();
        for output in orders {
            match output {
                Output::Disk { op, request } => self.order(op, request, true),
                Output::Report(event) => self.trace.note("event", &[], || event.to_string()),
                other => unreachable!("recovery orders nothing but disk operations, not {other:?}"),
            }
        }
        match finished {
            None => {}
            Some(Ok(Recovered { broker, report })) => {
                self.trace.line("broker", &[report.last_lsn.0], || format!("serves: {report:?}"));
                self.trace.record(|to| to.process(Some(&report)));
                self.process = Process::Serving(Box::new(broker));
                self.turn();
            }
            Some(Err(refusal)) => self.model.fail(Checker::Refusal, "broker", refusal.to_string()),
        }
    }

    fn order(&mut self, op: OpId, request: vowmq_core::output::DiskRequest, recovering: bool) {
        let number = self.disk.counts().operations + 1;
        self.trace.record(|to| to.ordered(op, number, &request));
        let latency = self.disk.submit(op, request, recovering);
        let at = self.schedule.now_us() + latency;
        self.schedule.add(at, Happening::DiskDone { epoch: self.epoch, op });
    }

    fn disk_done(&mut self, op: OpId) {
        let now = self.now();
        let result = self.disk.complete(op);
        self.trace.record(|to| to.ended_as_ordered(op, result.as_ref().err().map(|error| &*error.message)));
        self.trace.line("disk", &[op.0], || format!("operation {op} done"));
        match &mut self.process {
            Process::Down => {}
            Process::Recovering(recovery) => {
                recovery.handle(now, op, result);
                self.recover();
            }
            Process::Serving(_) => self.feed(Input::DiskDone { op, result }),
        }
    }

    pub(super) fn feed(&mut self, input: Input) {
        let now = self.now();
        let Process::Serving(broker) = &mut self.process else { return };
        self.counts.broker_inputs += 1;
        broker.handle(now, input);
        self.turn();
    }

    /// The broker does what is due, and its orders are carried out.
    fn turn(&mut self) {
        let now = self.now();
        let mut turns = 0;
        loop {
            self.carry_out();
            let Process::Serving(broker) = &mut self.process else { return };
            if broker.next_deadline().is_none_or(|deadline| deadline.at > now.monotonic) {
                break;
            }
            broker.handle(now, Input::DeadlineReached);
            turns += 1;
            if turns == TURNS_MAX {
                return self.model.fail(Checker::Progress, "broker", "it has always more to do".to_owned());
            }
        }
        let Process::Serving(broker) = &mut self.process else { return };
        if broker.is_durable() {
            self.model.durable();
        }
        let due = broker.next_deadline().map(|deadline| deadline.at.0);
        if let Some(due) = due
            && self.wake_at.is_none_or(|at| due < at)
        {
            self.wake_at = Some(due);
            self.schedule.add(due, Happening::Wake { epoch: self.epoch });
        }
    }

    fn carry_out(&mut self) {
        let Process::Serving(broker) = &mut self.process else { return };
        let mut outputs = Vec::new();
        while let Some(output) = broker.poll_output() {
            outputs.push(output);
        }
        for output in outputs {
            match output {
                Output::Send { connection, chunks } => self.sends(connection.0, &chunks.concat()),
                Output::Close { connection, reason } => self.closes(connection.0, &reason.to_string()),
                Output::PauseReading { connection } => {
                    self.effects.count("reading paused");
                    self.links.entry(connection.0).and_modify(|link| link.paused = true);
                }
                Output::ResumeReading { connection } => self.resumes(connection.0),
                Output::Verify { .. } => unreachable!("everybody may connect"),
                Output::Disk { op, request } => self.order(op, request, false),
                Output::Report(event) => {
                    self.model.told(&event);
                    self.trace.note("event", &[], || event.to_string());
                }
                Output::Answer { .. } => {}
                Output::Halt { fault } => self.halted(&fault),
            }
        }
        self.model.drained();
    }
}

/// What a body says; an error: it is none of ours.
pub(super) fn key_of(body: &[u8]) -> Result<Key, String> {
    Key::of(body).ok_or_else(|| format!("a body that nobody published: {:?}", String::from_utf8_lossy(body)))
}

/// How a delivery is answered.
pub(super) fn how(requeue: bool) -> How {
    if requeue { How::Returned } else { How::Rejected }
}
