//! Sets faults off, and counts those that took effect.

use super::World;
use super::phase::Phase;
use crate::chance::Domain;
use crate::disk::{Cut, Lie};
use crate::fault::{Direction, Fault, Leaves, When};
use crate::happening::Happening;
use crate::network::Surroundings;
use crate::outcome::Checker;
use crate::words;
use std::collections::BTreeMap;
use vowmq_core::ids::OpId;
use vowmq_core::input::Input;

/// The faults that disk operations set off, by their numbers.
pub(super) struct Plan {
    operations: BTreeMap<u64, Vec<usize>>,
    recovery_operations: BTreeMap<u64, Vec<usize>>,
    syncs: BTreeMap<u64, Vec<usize>>,
    writes: BTreeMap<u64, Vec<usize>>,
    reads: BTreeMap<u64, Vec<usize>>,
    /// The faults that wait for writes: from when, and for how many more.
    writes_since: Vec<(usize, u64, u64)>,
    pub(super) disk_is_full: bool,
}

impl Plan {
    pub(super) fn new(faults: &[Fault]) -> Plan {
        let mut plan = Plan {
            operations: BTreeMap::new(),
            recovery_operations: BTreeMap::new(),
            syncs: BTreeMap::new(),
            writes: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes_since: Vec::new(),
            disk_is_full: false,
        };
        for (index, fault) in faults.iter().enumerate() {
            let (by, number) = match fault.when() {
                When::AtUs(_) => continue,
                When::WriteSince { at_us, number } => {
                    plan.writes_since.push((index, *at_us, *number));
                    continue;
                }
                When::DiskOperation(number) => (&mut plan.operations, number),
                When::RecoveryOperation(number) => (&mut plan.recovery_operations, number),
                When::Sync(number) => (&mut plan.syncs, number),
                When::Write(number) => (&mut plan.writes, number),
                When::Read(number) => (&mut plan.reads, number),
            };
            by.entry(*number).or_default().push(index);
        }
        plan
    }

    /// The faults that waited for this write.
    fn write_ordered(&mut self, now: u64) -> Vec<usize> {
        let due = self.writes_since.iter_mut().filter(|(_, at, _)| *at <= now);
        due.for_each(|(_, _, left)| *left = left.saturating_sub(1));
        self.writes_since.extract_if(.., |(_, _, left)| *left == 0).map(|(index, ..)| index).collect()
    }
}

impl World<'_> {
    /// Sets off what waits for the disk operation that was just ordered: during it or right after.
    pub(super) fn set_off_by_operation(&mut self, op: OpId, is_write: bool, latency: u64) {
        if self.phase != Phase::Faults {
            return;
        }
        let counts = self.disk.counts();
        if is_write {
            for index in self.plan.write_ordered(self.schedule.now_us()) {
                self.set_off(index, op, latency);
            }
        }
        let mut set_off = Vec::new();
        for (by, number) in [
            (&mut self.plan.operations, counts.operations),
            (&mut self.plan.recovery_operations, counts.recovery_operations),
            (&mut self.plan.syncs, counts.syncs),
            (&mut self.plan.writes, counts.writes),
            (&mut self.plan.reads, counts.reads),
        ] {
            set_off.extend(by.remove(&number).unwrap_or_default());
        }
        for index in set_off {
            self.set_off(index, op, latency + 300);
        }
    }

    /// Sets a fault off by a disk operation: it hits the operation itself, or sets in within this time.
    fn set_off(&mut self, index: usize, op: OpId, within_us: u64) {
        let fault = &self.scenario.faults[index];
        let draws = |domain| self.chance.draws(domain, fault.entity());
        if fault.hits_an_operation() {
            self.trace.record(|to| to.fault(index, words::fault(fault, self.scenario)));
        }
        match fault {
            Fault::DiskError { pages, .. } => {
                let is_read = self.disk.is_read(op);
                if self.disk.fail(op, *pages) {
                    self.effects.count("short write");
                }
                if !is_read || !self.process.is_serving() {
                    self.process.disk_error = Some(index);
                }
                self.effects.count("disk error");
            }
            Fault::LostWrite { .. } => self.disk.lie(op, Lie::Lost),
            Fault::MisdirectedWrite { .. } => {
                self.disk.lie(op, Lie::Misdirected(draws(Domain::Lie).number()))
            }
            Fault::StaleRead { .. } => self.disk.lie(op, Lie::Stale(draws(Domain::Lie).number())),
            Fault::PowerCut { leaves: Some(_), .. } => self.schedule.add(self.now(), Happening::Fault(index)),
            _ => {
                let at = self.now() + draws(Domain::FaultDelay).below(within_us);
                self.schedule.add(at, Happening::Fault(index));
            }
        }
    }

    /// A fault sets in.
    pub(super) fn fault(&mut self, index: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        let fault = &self.scenario.faults[index];
        self.trace.line("fault", &[index as u64], || format!("{fault:?}"));
        self.trace.record(|to| to.fault(index, words::fault(fault, self.scenario)));
        self.begin_crash_choices(fault.entity());
        match fault {
            Fault::PowerCut { down_us, leaves, .. } => self.power_cut(*down_us, leaves.as_ref()),
            Fault::ProcessCrash { down_us, .. } => self.process_crash(*down_us),
            Fault::Shutdown { down_us, .. } => {
                if self.process.is_serving() && self.process.stopping.is_none() {
                    self.process.stopping = Some(*down_us);
                    self.feed(Input::ShutdownRequested);
                }
            }
            Fault::DiskError { .. }
            | Fault::LostWrite { .. }
            | Fault::MisdirectedWrite { .. }
            | Fault::StaleRead { .. } => {}
            Fault::SlowDisk { for_us, extra_us, .. } => {
                self.effects.count("slow disk");
                self.disk.set_extra_us(*extra_us);
                self.schedule.add(self.now() + for_us, Happening::FaultEnds(index));
            }
            Fault::DiskFull { for_us, .. } => {
                self.effects.count("disk full");
                self.set_disk_full(true);
                self.schedule.add(self.now() + for_us, Happening::FaultEnds(index));
            }
            Fault::Rot { .. } => {
                if let Some((segment, at)) = self.disk.rot(&mut self.crash_draws) {
                    self.rotted(segment, at as u64);
                }
            }
            Fault::Pause { for_us, .. } => {
                if !self.process.is_down() {
                    self.effects.count("process paused");
                    self.paused_until = self.schedule.now_us() + for_us;
                    self.model.sleeps_until(self.paused_until);
                }
            }
            Fault::Reload { broker, .. } => {
                if self.process.is_serving() {
                    self.effects.count("settings reloaded");
                    self.verify_all_that_asked();
                    self.settings_change(broker.settings());
                    self.feed(Input::Reload(Box::new(self.settings)));
                }
            }
            Fault::Reset { client, .. } => self.each_of(*client, World::reset),
            Fault::HalfOpen { client, .. } => {
                self.with_client(*client, |client, around| client.cut_off(around))
            }
            Fault::Stall { client, direction, for_us, .. } => {
                let until_us = self.schedule.now_us() + for_us;
                self.each_of(*client, |world, client| world.stall(client, *direction, until_us));
            }
            Fault::Intruder { client, .. } => self.intrude(*client),
            Fault::WallJump { by_ms, .. } => {
                self.effects.count("wall clock jump");
                self.wall.jump(*by_ms);
                self.model.wall_jumps(*by_ms);
            }
        }
    }

    /// One client, or everybody.
    fn each_of(&mut self, client: Option<usize>, mut act: impl FnMut(&mut Self, usize)) {
        match client {
            Some(client) => act(self, client),
            None => (0..self.clients.len()).for_each(|client| act(self, client)),
        }
    }

    fn reset(&mut self, client: usize) {
        if let Some(id) = self.clients[client].connection() {
            self.effects.count("network reset");
            let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
            self.network.reset(&mut around, id);
        }
    }

    fn stall(&mut self, client: usize, direction: Direction, until_us: u64) {
        self.effects.count("network stall");
        self.network.stall(client, direction, until_us);
    }

    /// The choices of a crash follow from the fault that brings it about.
    pub(super) fn begin_crash_choices(&mut self, entity: u64) {
        self.crash_entity = entity;
        self.crash_draws = self.chance.draws(Domain::Crash, entity);
    }

    /// A fault that lasts is over.
    pub(super) fn fault_ends(&mut self, index: usize) {
        match &self.scenario.faults[index] {
            Fault::SlowDisk { .. } => self.disk.set_extra_us(0),
            Fault::DiskFull { .. } => self.set_disk_full(false),
            _ => {}
        }
    }

    /// The disk has failed and the broker has stopped, as it must.
    pub(super) fn stopped_by_disk(&mut self, index: usize) {
        self.effects.count("stopped by the disk");
        self.begin_crash_choices(self.scenario.faults[index].entity());
        self.model.crashed();
        let Fault::DiskError { down_us, reboot, .. } = &self.scenario.faults[index] else { return };
        if *reboot {
            self.power_cut(*down_us, None);
        } else {
            self.process_crash(*down_us);
        }
    }

    pub(super) fn power_cut(&mut self, down_us: u64, leaves: Option<&Leaves>) {
        self.effects.count("power cut");
        if !self.process.is_serving() && !self.process.is_down() {
            self.effects.count("power cut in recovery");
        }
        self.trace.line("power", &[], || "is cut".to_owned());
        self.trace.record(|to| to.crash(true, "the power is cut"));
        self.model.crashed();
        let mut cut = match leaves {
            Some(leaves) => Cut::told(leaves),
            None => Cut::drawn(self.chance, &self.scenario.disk, self.crash_entity, &mut self.crash_draws),
        };
        let (effects, trace) = (&mut self.effects, &mut self.trace);
        self.disk.power_cut(&mut cut, |left| {
            left.effect().into_iter().for_each(|name| effects.count(name));
            trace.record(|to| to.left(left));
        });
        self.course.cuts.push(cut.size());
        self.take_in_disk();
        self.end_process(down_us, true);
    }

    /// Tells the model what became durable.
    pub(super) fn take_in_disk(&mut self) {
        self.ledger.read(&self.disk);
        self.trace.record(|to| to.synced(self.ledger.synced()));
        let news = self.ledger.take_news();
        for (key, clients) in &news.stored {
            self.model.stored(*key, clients);
        }
        for (key, client) in &news.dropped {
            self.model.dropped(*key, client);
        }
        for (client, away) in &news.presence {
            self.model.recorded(client, *away);
        }
        for (client, packet_id, key) in &news.settled {
            self.settled(client, *packet_id, *key);
        }
        if let Some((length, client)) = news.longest
            && self.scenario.queue_messages_max().is_some_and(|most| length as u64 > most)
        {
            let text = format!("the queue of {client:?} holds {length} messages, which is beyond its bound");
            self.model.fail(Checker::Window, client, text);
        }
        if let Some(text) = news.wrong_image {
            self.model.fail(Checker::Image, "checkpoint", text);
        }
        if let Some(text) = self.disk.take_overwrite() {
            self.model.fail(Checker::Overwrite, "disk", text);
        }
    }

    fn process_crash(&mut self, down_us: u64) {
        if self.process.is_down() {
            return;
        }
        self.effects.count("process crash");
        self.trace.line("broker", &[], || "is killed".to_owned());
        self.model.crashed();
        self.end_process(down_us, false);
    }

    pub(super) fn set_disk_full(&mut self, full: bool) {
        self.plan.disk_is_full = full;
        self.process.met_full_disk |= full;
        self.disk.set_full(full);
    }
}
