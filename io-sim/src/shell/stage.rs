//! What the broker's machine, the clients and the director share: the scenario, the ledger, the broker's disk and
//! what is known of its process. All of it lives on one thread.

use super::ledger::Ledger;
use super::scenario::ShellScenario;
use crate::chance::{Chance, Domain, Draws};
use crate::disk::{self, Cut, Disk};
use crate::fault::Pages;
use crate::outcome::Checker;
use crate::scenario::DiskSettings;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use vowmq::disk::Outcome;
use vowmq::shell::Command;
use vowmq_core::ids::OpId;
use vowmq_core::output::DiskRequest;

/// The wall clock when a run begins.
pub(super) const WALL_START_MS: u64 = 1_700_000_000_000;

/// What everybody sees.
pub(super) struct Stage {
    pub(super) scenario: ShellScenario,
    chance: Chance,
    pub(super) ledger: RefCell<Ledger>,
    pub(super) machine: RefCell<Machine>,
    /// The faults are over.
    pub(super) calm: Cell<bool>,
}

/// The broker's machine, as far as it outlives the process.
pub(super) struct Machine {
    pub(super) disk: Disk,
    crash_draws: Draws,
    chance: Chance,
    settings: DiskSettings,
    powered: bool,
    /// The power goes when so many more writes were ordered.
    pub(super) cut_at_write: Option<u64>,
    /// Counts the starts of the process.
    pub(super) epoch: u64,
    pub(super) down_until_ms: u64,
    pub(super) kill: Rc<Notify>,
    pub(super) commands: Option<UnboundedSender<Command>>,
    pub(super) shutdown: Option<ShutDown>,
    /// The next write fails so.
    pub(super) failing: Option<DiskFailure>,
    /// When an operation has failed in this life of the process, and what then.
    pub(super) failed: Option<(u64, DiskFailure)>,
    pub(super) full: bool,
    pub(super) ever_full: bool,
    /// Space was lacking at some time since the process was started.
    pub(super) met_full: bool,
    /// What the last recovery found: messages.
    pub(super) recovered: Option<u64>,
}

/// An ordered end that was asked for.
#[derive(Clone, Copy)]
pub(super) struct ShutDown {
    pub(super) asked_ms: u64,
    pub(super) down_ms: u64,
}

/// An operation's failure, and what becomes of the broker that stops for it.
#[derive(Clone, Copy)]
pub(super) struct DiskFailure {
    pub(super) pages: Pages,
    pub(super) down_ms: u64,
    pub(super) reboot: bool,
}

impl Stage {
    pub(super) fn new(scenario: &ShellScenario, readable: bool) -> Rc<Stage> {
        let chance = Chance::new(scenario.seed);
        let machine = Machine {
            disk: Disk::new(scenario.disk.clone(), chance),
            crash_draws: chance.draws(Domain::Crash, 0),
            chance,
            settings: scenario.disk.clone(),
            powered: true,
            cut_at_write: None,
            epoch: 0,
            down_until_ms: 0,
            kill: Rc::new(Notify::new()),
            commands: None,
            shutdown: None,
            failing: None,
            failed: None,
            full: false,
            ever_full: false,
            met_full: false,
            recovered: None,
        };
        Rc::new(Stage {
            scenario: scenario.clone(),
            chance,
            ledger: RefCell::new(Ledger::new(scenario, readable)),
            machine: RefCell::new(machine),
            calm: Cell::new(false),
        })
    }

    /// The residual choices of something, by its name and number.
    pub(super) fn draws(&self, name: &str, number: u64) -> Draws {
        let kind =
            name.bytes().fold(0, |kind: u64, byte| kind.wrapping_mul(31).wrapping_add(u64::from(byte)));
        self.chance.draws(Domain::Shell, kind << 32 | number)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.ledger.borrow().now_ms()
    }

    /// The number of the process that runs.
    pub(super) fn epoch(&self) -> u64 {
        self.machine.borrow().epoch
    }

    pub(super) fn is_powered(&self) -> bool {
        self.machine.borrow().powered
    }

    /// Whether space was lacking at some time: answers of then may still be on their way.
    pub(super) fn met_full_disk(&self) -> bool {
        self.machine.borrow().ever_full
    }

    /// Something broke a promise.
    pub(super) fn fail(&self, checker: Checker, subject: &str, text: impl Into<String>) {
        self.ledger.borrow_mut().fail(checker, subject, text);
    }

    /// Takes an order to the disk; tells how long it takes.
    pub(super) fn order_disk(&self, op: OpId, request: DiskRequest) -> u64 {
        let mut machine = self.machine.borrow_mut();
        let mut ledger = self.ledger.borrow_mut();
        let is_write = matches!(request, DiskRequest::Write { .. });
        ledger.note("broker", &[op.0, u64::from(is_write)], || {
            format!("orders {op}: {}", disk::in_words(&request))
        });
        let recovering = machine.commands.is_none();
        let takes = machine.disk.submit(op, request, recovering);
        if is_write && let Some(failure) = machine.failing.take() {
            machine.disk.fail(op, failure.pages);
            machine.failed = Some((u64::MAX, failure));
        }
        if is_write && let Some(left) = &mut machine.cut_at_write {
            *left -= 1;
            if *left == 0 {
                ledger.note("disk", &[], || "the power goes".to_owned());
                machine.powered = false;
            }
        }
        takes
    }

    /// An operation's time is over: carries it out.
    pub(super) fn disk_done(&self, op: OpId) -> Outcome {
        let mut machine = self.machine.borrow_mut();
        let mut ledger = self.ledger.borrow_mut();
        let outcome = machine.disk.complete(op);
        ledger.note("disk", &[op.0, u64::from(outcome.is_ok())], || match &outcome {
            Ok(_) => format!("{op} is done"),
            Err(error) => format!("{op} failed: {}", error.message),
        });
        if outcome.is_err()
            && let Some((at_ms, _)) = &mut machine.failed
            && *at_ms == u64::MAX
        {
            *at_ms = ledger.now_ms();
            ledger.count("disk error");
        }
        ledger.take_in_disk(&mut machine.disk);
        outcome
    }

    /// The process is gone, whatever it had under way.
    pub(super) fn process_leaves_disk(&self) {
        let mut machine = self.machine.borrow_mut();
        let Machine { disk, crash_draws, .. } = &mut *machine;
        disk.process_crash(crash_draws, |_| {});
        self.ledger.borrow_mut().take_in_disk(disk);
    }

    /// Bytes are about to leave the broker for good.
    pub(super) fn leaves(&self, peer: SocketAddr, bytes: &[u8]) {
        self.ledger.borrow_mut().leaves(peer, bytes);
    }
}

impl Machine {
    /// The power is gone, and with it what was not synced.
    pub(super) fn lose_power(&mut self, ledger: &mut Ledger, down_until_ms: u64) {
        let Machine { disk, crash_draws, chance, settings, epoch, .. } = self;
        let mut cut = Cut::drawn(*chance, settings, *epoch, crash_draws);
        disk.power_cut(&mut cut, |left| left.effect().into_iter().for_each(|effect| ledger.count(effect)));
        ledger.take_in_disk(disk);
        self.powered = false;
        self.cut_at_write = None;
        self.down_until_ms = self.down_until_ms.max(down_until_ms);
    }

    pub(super) fn powered_on(&self) -> bool {
        self.powered
    }

    /// The machine runs again; its process does not yet.
    pub(super) fn switch_on(&mut self) {
        self.powered = true;
    }

    /// A process is started.
    pub(super) fn begin_life(&mut self) {
        self.epoch += 1;
        self.kill = Rc::new(Notify::new());
        self.commands = None;
        self.shutdown = None;
        self.failed = None;
        self.met_full = self.full;
    }
}
