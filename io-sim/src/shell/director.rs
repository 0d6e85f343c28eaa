//! Lets time go on, makes things go wrong when they shall, and sees to it that all comes to a good end.
//!
//! ```text
//! faults ──► healed ──► settled? ──► a moment's rest ──► ordered end ──► recovery finds nothing left ──► end
//!                          └─ not in time: a promise is broken
//! ```

use super::client::client;
use super::machine::{goes_on_after_failure, machine};
use super::scenario::{HOSTS, ShellFault};
use super::stage::{DiskFailure, ShutDown, Stage, WALL_START_MS};
use crate::fault::Direction;
use crate::outcome::Checker;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};
use turmoil::Sim;
use vowmq::shell::Command;

const BROKER: &str = "broker";
const HOST_NAMES: [&str; HOSTS] = ["north", "east", "south"];

/// How long nothing comes before the last ordered end: what clients have answered gets to the broker.
const REST_MS: u64 = 1_000;
/// By then every connection without a client is closed: one and a half keep-alives, and the shell's five seconds.
const REST_MS_MAX: u64 = 15_000;
/// How long the last start may take.
const LAST_START_MS: u64 = 15_000;
/// Longer than any run.
const RUN_MAX: Duration = Duration::from_secs(3600);

/// The director.
struct Director {
    stage: Rc<Stage>,
    sim: Sim<'static>,
    faults: VecDeque<ShellFault>,
    /// What is to be undone, by its time.
    ends: Vec<(u64, Undo)>,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Faults,
    Healed { since_ms: u64 },
    Resting { since_ms: u64 },
    Ending { since_ms: u64, epoch: u64 },
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    Partition(usize, Direction),
    Hold(usize),
    Loss(usize),
    Slow(usize),
    SlowDisk,
    FullDisk,
    PowerOff,
}

/// Runs the whole scenario.
pub(super) fn direct(stage: &Rc<Stage>) {
    let mut director = Director::new(Rc::clone(stage));
    while !matches!(director.phase, Phase::Over) && !stage.ledger.borrow().has_failed() {
        director.step();
    }
}

impl Director {
    fn new(stage: Rc<Stage>) -> Director {
        let scenario = &stage.scenario;
        let network = &scenario.network;
        let mut sim = turmoil::Builder::new()
            .rng_seed(scenario.seed)
            .epoch(UNIX_EPOCH + Duration::from_millis(WALL_START_MS))
            .simulation_duration(RUN_MAX)
            .tick_duration(Duration::from_millis(1))
            .min_message_latency(Duration::from_millis(network.latency_min_ms))
            .max_message_latency(Duration::from_millis(network.latency_max_ms))
            .tcp_capacity(network.segments)
            .enable_random_order()
            .build();
        let shared = Rc::clone(&stage);
        sim.host(BROKER, move || machine(Rc::clone(&shared)));
        for (host, name) in HOST_NAMES.into_iter().enumerate() {
            let shared = Rc::clone(&stage);
            sim.host(name, move || clients_of(Rc::clone(&shared), host));
        }
        let faults = scenario.faults.iter().cloned().collect();
        Director { stage, sim, faults, ends: Vec::new(), phase: Phase::Faults }
    }

    /// A millisecond.
    fn step(&mut self) {
        let now_ms = self.sim.elapsed().as_millis() as u64;
        self.stage.ledger.borrow_mut().set_now_ms(now_ms);
        self.undo_due(now_ms);
        while self.faults.front().is_some_and(|fault| fault.at_ms() <= now_ms)
            && let Some(fault) = self.faults.pop_front()
        {
            self.begin(&fault, now_ms);
        }
        if let Err(error) = self.sim.step() {
            self.stage.fail(Checker::Panic, "run", error.to_string());
        }
        if !self.stage.is_powered() && !self.ends.iter().any(|(_, undo)| *undo == Undo::PowerOff) {
            self.cut_power(now_ms);
        }
        if let Some(words) = goes_on_after_failure(&self.stage) {
            self.stage.fail(Checker::Halt, BROKER, words);
        }
        self.turn_phase(now_ms);
    }

    fn turn_phase(&mut self, now_ms: u64) {
        let scenario = &self.stage.scenario;
        let settled = self.stage.ledger.borrow().is_settled();
        match self.phase {
            Phase::Faults if now_ms >= scenario.fault_phase_ms => self.heal(now_ms),
            Phase::Healed { .. } if settled => self.phase = Phase::Resting { since_ms: now_ms },
            Phase::Healed { since_ms } if now_ms > since_ms + scenario.heal_ms => {
                let (checker, words) = self.stage.ledger.borrow().unsettled();
                self.stage.fail(checker, "run", words);
            }
            Phase::Resting { since_ms } => self.rest(now_ms, since_ms),
            Phase::Ending { epoch, .. } if self.serves() && self.stage.epoch() > epoch => {
                let left = self.stage.machine.borrow().recovered.unwrap_or(0);
                if left > 0 {
                    let text = format!("{left} messages are left after everybody had everything");
                    self.stage.fail(Checker::CameBack, BROKER, text);
                }
                self.phase = Phase::Over;
            }
            Phase::Ending { since_ms, .. } if now_ms > since_ms + LAST_START_MS => {
                self.stage.fail(Checker::Progress, BROKER, "it has not ended and started again in time");
            }
            Phase::Faults | Phase::Healed { .. } | Phase::Ending { .. } | Phase::Over => {}
        }
    }

    /// Nothing comes any more, and every connection is served by now, or gone.
    fn rest(&mut self, now_ms: u64, since_ms: u64) {
        let quiet_ms = now_ms - self.stage.ledger.borrow().last_came_ms().max(since_ms);
        let (held, clients) = (self.stage.ledger.borrow().wires_open(), self.stage.scenario.clients.len());
        let epoch = self.stage.epoch();
        if held == clients as u64 && quiet_ms > REST_MS {
            if self.shut_down(now_ms, 0) {
                self.phase = Phase::Ending { since_ms: now_ms, epoch };
            }
        } else if now_ms > since_ms + REST_MS_MAX {
            let text = format!("it holds {held} connections, and there are {clients} clients");
            self.stage.fail(Checker::Progress, BROKER, text);
        }
    }

    fn serves(&self) -> bool {
        self.stage.machine.borrow().commands.is_some()
    }

    fn heal(&mut self, now_ms: u64) {
        self.ends.iter_mut().for_each(|(at_ms, _)| *at_ms = now_ms);
        self.undo_due(now_ms);
        self.faults.clear();
        {
            let mut machine = self.stage.machine.borrow_mut();
            machine.failing = None;
            machine.cut_at_write = None;
            machine.down_until_ms = machine.down_until_ms.min(now_ms);
        }
        self.stage.calm.set(true);
        self.stage.ledger.borrow_mut().note("director", &[], || "all is healed".to_owned());
        self.phase = Phase::Healed { since_ms: now_ms };
    }

    fn begin(&mut self, fault: &ShellFault, now_ms: u64) {
        self.stage.ledger.borrow_mut().note("director", &[], || format!("{fault:?}"));
        match *fault {
            ShellFault::Partition { host, .. }
            | ShellFault::Hold { host, .. }
            | ShellFault::Loss { host, .. }
            | ShellFault::Slow { host, .. } => self.begin_on_link(fault, host, now_ms),
            ShellFault::PowerCut { write, .. } if write > 0 => {
                self.stage.machine.borrow_mut().cut_at_write = Some(write);
            }
            ShellFault::PowerCut { .. } => self.cut_power(now_ms),
            ShellFault::Kill { down_ms, .. } => self.kill(now_ms, down_ms),
            ShellFault::ShutDown { down_ms, .. } => {
                self.shut_down(now_ms, down_ms);
            }
            ShellFault::DiskError { pages, down_ms, reboot, .. } => {
                self.stage.machine.borrow_mut().failing = Some(DiskFailure { pages, down_ms, reboot });
            }
            ShellFault::SlowDisk { for_ms, extra_ms, .. } => {
                self.stage.machine.borrow_mut().disk.set_extra_us(extra_ms * 1000);
                self.count("slow disk");
                self.ends.push((now_ms + for_ms, Undo::SlowDisk));
            }
            ShellFault::FullDisk { for_ms, .. } => {
                self.set_full(true);
                self.count("full disk");
                self.ends.push((now_ms + for_ms, Undo::FullDisk));
            }
        }
    }

    /// One thing at a time is wrong with a link: turmoil cannot combine them.
    fn begin_on_link(&mut self, fault: &ShellFault, host: usize, now_ms: u64) {
        if self.ends.iter().any(|(_, undo)| undo.host() == Some(host) || *undo == Undo::PowerOff) {
            return;
        }
        let name = HOST_NAMES[host];
        self.stage.ledger.borrow_mut().disturb_publishers();
        let (for_ms, undo) = match *fault {
            ShellFault::Partition { for_ms, direction, .. } => {
                match direction {
                    Direction::Both => self.sim.partition(name, BROKER),
                    Direction::ToBroker => self.sim.partition_oneway(name, BROKER),
                    Direction::ToClient => self.sim.partition_oneway(BROKER, name),
                }
                self.count(if direction == Direction::Both { "partition" } else { "partition one way" });
                (for_ms, Undo::Partition(host, direction))
            }
            ShellFault::Hold { for_ms, .. } => {
                self.sim.hold(name, BROKER);
                self.count("link held");
                (for_ms, Undo::Hold(host))
            }
            ShellFault::Loss { for_ms, per_thousand, .. } => {
                self.sim.set_link_fail_rate(name, BROKER, f64::from(per_thousand) / 1000.0);
                self.count("segments lost");
                (for_ms, Undo::Loss(host))
            }
            ShellFault::Slow { for_ms, latency_ms, .. } => {
                self.sim.set_link_latency(name, BROKER, Duration::from_millis(latency_ms));
                self.count("slow link");
                self.stage.ledger.borrow_mut().slow_down(host);
                self.ends.push((now_ms + for_ms, Undo::Slow(host)));
                return;
            }
            _ => return,
        };
        self.stage.ledger.borrow_mut().disturb(host);
        self.ends.push((now_ms + for_ms, undo));
    }

    fn undo_due(&mut self, now_ms: u64) {
        let (due, later) = self.ends.drain(..).partition(|(at_ms, _)| *at_ms <= now_ms);
        self.ends = later;
        let due: Vec<(u64, Undo)> = due;
        for (_, undo) in due {
            self.undo(undo);
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Partition(host, Direction::Both) => self.sim.repair(HOST_NAMES[host], BROKER),
            Undo::Partition(host, Direction::ToBroker) => self.sim.repair_oneway(HOST_NAMES[host], BROKER),
            Undo::Partition(host, Direction::ToClient) => self.sim.repair_oneway(BROKER, HOST_NAMES[host]),
            Undo::Hold(host) => self.sim.release(HOST_NAMES[host], BROKER),
            Undo::Loss(host) => {
                self.sim.set_link_fail_rate(HOST_NAMES[host], BROKER, 0.0);
                self.sim.release(HOST_NAMES[host], BROKER);
            }
            Undo::Slow(host) => {
                let most = Duration::from_millis(self.stage.scenario.network.latency_max_ms);
                self.sim.set_link_latency(HOST_NAMES[host], BROKER, most);
            }
            Undo::SlowDisk => self.stage.machine.borrow_mut().disk.set_extra_us(0),
            Undo::FullDisk => self.set_full(false),
            Undo::PowerOff => self.switch_on(),
        }
        if let Some(host) = undo.host() {
            self.stage.ledger.borrow_mut().calm_down(host);
        }
    }

    /// The machine vanishes: what is on the network does, then what was not synced, then the process.
    fn cut_power(&mut self, now_ms: u64) {
        if self.ends.iter().any(|(_, undo)| *undo == Undo::PowerOff) {
            return;
        }
        self.count("power cut");
        HOST_NAMES.iter().for_each(|name| self.sim.partition(*name, BROKER));
        let down_ms = self.stage.draws("power", now_ms).between(1, 500);
        {
            let mut ledger = self.stage.ledger.borrow_mut();
            self.stage.machine.borrow_mut().lose_power(&mut ledger, now_ms + down_ms);
            ledger.broker_ended();
        }
        self.sim.crash(BROKER);
        self.stage.machine.borrow_mut().commands = None;
        HOST_NAMES.iter().for_each(|name| self.sim.repair(*name, BROKER));
        // What was wrong with the links is over with that.
        let (over, others): (Vec<_>, Vec<_>) =
            self.ends.drain(..).partition(|(_, undo)| undo.host().is_some());
        self.ends = others;
        over.into_iter().for_each(|(_, undo)| self.undo(undo));
        self.ends.push((now_ms + down_ms, Undo::PowerOff));
    }

    fn switch_on(&mut self) {
        self.stage.machine.borrow_mut().switch_on();
        self.sim.bounce(BROKER);
    }

    fn kill(&mut self, now_ms: u64, down_ms: u64) {
        if !self.serves() {
            return;
        }
        self.count("process kill");
        let mut machine = self.stage.machine.borrow_mut();
        self.stage.ledger.borrow_mut().broker_ended();
        machine.down_until_ms = now_ms + down_ms;
        machine.kill.notify_one();
    }

    /// Asks the broker to end; whether there is one.
    fn shut_down(&mut self, now_ms: u64, down_ms: u64) -> bool {
        let mut machine = self.stage.machine.borrow_mut();
        if machine.shutdown.is_some() {
            return false;
        }
        let Some(commands) = &machine.commands else { return false };
        let asked = commands.send(Command::ShutDown).is_ok();
        if asked {
            machine.shutdown = Some(ShutDown { asked_ms: now_ms, down_ms });
            self.stage.ledger.borrow_mut().shutdown_asked();
        }
        asked
    }

    fn set_full(&mut self, full: bool) {
        let mut machine = self.stage.machine.borrow_mut();
        machine.disk.set_full(full);
        machine.full = full;
        machine.met_full |= full;
        machine.ever_full |= full;
        self.stage.ledger.borrow_mut().disturb_publishers();
    }

    fn count(&self, effect: &'static str) {
        self.stage.ledger.borrow_mut().count(effect);
    }
}

impl Undo {
    /// The machine whose link it concerns.
    fn host(self) -> Option<usize> {
        match self {
            Undo::Partition(host, _) | Undo::Hold(host) | Undo::Loss(host) | Undo::Slow(host) => Some(host),
            Undo::SlowDisk | Undo::FullDisk | Undo::PowerOff => None,
        }
    }
}

/// The clients of one machine.
async fn clients_of(stage: Rc<Stage>, host: usize) -> turmoil::Result {
    let clients: Vec<_> = (0..stage.scenario.clients.len())
        .filter(|index| index % HOSTS == host)
        .map(|index| tokio::task::spawn_local(client(Rc::clone(&stage), index, host)))
        .collect();
    for running in clients {
        running.await?;
    }
    std::future::pending().await
}
