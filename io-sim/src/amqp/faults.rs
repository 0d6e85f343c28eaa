//! What goes wrong, and how it ends: power cuts, kills, broken connections; then everything is drained.

use super::client::{Client, Role};
use super::scenario::FaultKind;
use super::world::{Happening, Process, World};
use crate::chance::Domain;
use crate::disk::Cut;
use crate::outcome::Checker;
use vowmq_core::input::Input;
use vowmq_core::output::Halt;

/// Nothing happens for so long, and the queues count as drained.
const QUIET_US: u64 = 2_000_000;

impl World<'_> {
    pub(super) fn fault(&mut self, index: usize) {
        let kind = self.scenario.faults[index].kind;
        self.trace.record(|to| to.fault(index, kind.to_string()));
        match kind {
            FaultKind::PowerCut => {
                self.effects.count(kind.effect());
                self.trace.line("power", &[], || "is cut".to_owned());
                self.trace.record(|to| to.crash(true, "the power is cut"));
                let mut draws = self.chance.draws(Domain::Crash, index as u64);
                let entity = index as u64;
                let mut cut = Cut::drawn(self.chance, &self.scenario.disk, entity, &mut draws);
                let trace = &mut self.trace;
                self.disk.power_cut(&mut cut, |left| trace.record(|to| to.left(left)));
                self.process_ends(index);
            }
            FaultKind::Kill => {
                self.effects.count(kind.effect());
                self.trace.line("process", &[], || "is killed".to_owned());
                self.trace.record(|to| to.crash(false, "the broker's process is killed"));
                self.process_ends(index);
            }
            FaultKind::Shutdown => {
                if matches!(self.process, Process::Serving(_)) {
                    self.effects.count(kind.effect());
                    (self.stopping, self.model.stopping) = (true, true);
                    self.feed(Input::ShutdownRequested);
                }
            }
            FaultKind::Reset { client } => {
                if let Some(link) = self.current[client] {
                    self.effects.count(kind.effect());
                    self.breaks(link);
                }
            }
        }
    }

    fn process_ends(&mut self, index: usize) {
        self.counts.crashes += 1;
        let mut draws = self.chance.draws(Domain::Crash, 1000 + index as u64);
        let trace = &mut self.trace;
        self.disk.process_crash(&mut draws, |left| trace.record(|to| to.left(left)));
        self.process = Process::Down;
        self.epoch += 1;
        self.stopping = false;
        self.model.crashed();
        for client in &mut self.clients {
            if let Role::Lodger(lodger) = &mut client.role {
                lodger.broker_ended();
            }
        }
        let ids: Vec<u64> = self.links.keys().copied().collect();
        let now = self.schedule.now_us();
        for id in ids {
            self.tap.forget(id);
            if let Some(link) = self.links.get_mut(&id) {
                (link.at_broker, link.over) = (false, true);
            }
            self.schedule.add(now + self.draws.below(2_000), Happening::ClientHears { link: id });
        }
        self.down_until = now + self.draws.below(20_000);
        self.schedule.add(self.down_until, Happening::Start);
    }

    pub(super) fn halted(&mut self, fault: &Halt) {
        self.trace.line("broker", &[], || format!("stops: {fault}"));
        if *fault != Halt::ShutDown || !self.stopping {
            return self.model.fail(Checker::Halt, "broker", fault.to_string());
        }
        self.trace.record(|to| to.crash(false, "the broker has ended as it was told to"));
        self.process_ends(900);
    }

    /// From here on nothing goes wrong: consumers go, what they held goes back, and everything is drained.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        for client in &mut self.clients {
            if let Role::Lodger(lodger) = &mut client.role {
                lodger.end();
            }
        }
        let consumers: Vec<usize> = (0..self.clients.len() - 1)
            .filter(|client| matches!(self.clients[*client].role, Role::Consumer { .. }))
            .collect();
        for client in consumers {
            if let Some(link) = self.current[client] {
                self.breaks(link);
            }
        }
        let drainer = self.clients.len() - 1;
        let now = self.schedule.now_us();
        self.schedule.add(now + 10_000, Happening::Connect { client: drainer });
        self.last_delivery_us = now;
        self.schedule.add(now + QUIET_US, Happening::Look);
    }

    /// Whether all is published and nothing was delivered for long.
    pub(super) fn look(&mut self) {
        let now = self.schedule.now_us();
        let done = !self.clients.iter().any(Client::is_busy);
        if done && now >= self.last_delivery_us + QUIET_US {
            self.drained = true;
        } else {
            self.schedule.add(now + QUIET_US / 4, Happening::Look);
        }
    }
}
