//! The broker's process: recovery, then the broker, driven as `io-real` drives it, until it crashes, is stopped,
//! or stops by itself.

use super::{Listening, World};
use crate::chance::Domain;
use crate::disk;
use crate::happening::Happening;
use crate::model::Ending;
use crate::network::Surroundings;
use crate::outcome::Checker;
use crate::tap::Tap;
use bytes::Bytes;
use vowmq_core::event::{DropReason, Event};
use vowmq_core::ids::{ConnectionId, OpId};
use vowmq_core::input::Input;
use vowmq_core::limits::Settings;
use vowmq_core::output::{CloseKind, CloseReason, DiskRequest, Halt, Output};
use vowmq_core::time::{Monotonic, Now, WallTime};
use vowmq_core::{Broker, Purpose, Recovered, Recovery, Refusal};

/// A broker that has more to do at one moment does not come to rest.
const TURNS_MAX: u32 = 100_000;

/// What the monotonic clock of a process that starts shows at the most: nearly three hours.
const UPTIME_MAX_US: u64 = 10_000_000_000;

/// The process.
pub(super) struct Process {
    state: State,
    /// Counts the times it was started or ended: what belongs to another time is stale.
    pub(super) epoch: u64,
    down_until: u64,
    drain_pending: bool,
    wake_at: Option<u64>,
    /// The fault that made a disk operation fail since it was started.
    pub(super) disk_error: Option<usize>,
    /// Space was lacking at some time since it was started.
    pub(super) met_full_disk: bool,
    /// It was asked to stop; how long it stays down then.
    pub(super) stopping: Option<u64>,
    /// Its monotonic clock shows so much more than the simulated time.
    clock_ahead_us: i64,
}

enum State {
    Down,
    Recovering(Box<Recovery>),
    Serving(Box<Broker>),
}

impl Process {
    pub(super) fn new() -> Process {
        Process {
            state: State::Down,
            epoch: 0,
            down_until: 0,
            drain_pending: false,
            wake_at: None,
            disk_error: None,
            met_full_disk: false,
            stopping: None,
            clock_ahead_us: 0,
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        matches!(self.state, State::Serving(_))
    }

    pub(super) fn is_recovering(&self) -> bool {
        matches!(self.state, State::Recovering(_))
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down)
    }
}

impl World<'_> {
    /// The process is started.
    pub(super) fn start(&mut self) {
        let now = self.now();
        if !self.process.is_down() {
            return;
        }
        if now < self.process.down_until {
            self.schedule.add(self.process.down_until, Happening::Start);
            return;
        }
        let epoch = self.process.epoch + 1;
        let mut seed = [0; 32];
        let mut draws = self.chance.draws(Domain::BrokerSeed, epoch);
        seed.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&draws.number().to_le_bytes()));
        let settings = self.scenario.settings(self.starts);
        if self.starts > 0 && settings != self.scenario.settings(self.starts - 1) {
            self.effects.count("restarted with other settings");
        }
        self.starts += 1;
        self.settings_change(settings);
        // A monotonic clock says nothing to the next process: each begins with another reading.
        let mut boot = self.chance.draws(Domain::Boot, epoch);
        let reading = *boot.pick(&[0, 1_000_000, UPTIME_MAX_US]);
        let clock_ahead_us = boot.below(reading + 1) as i64 - now as i64;
        self.process.clock_ahead_us = clock_ahead_us;
        let recovery =
            Recovery::new(self.both_clocks(), settings, vowmq_core::ids::Seed(seed), Purpose::Serve);
        let state = State::Recovering(Box::new(recovery));
        let met_full_disk = self.plan.disk_is_full;
        self.process = Process { state, epoch, met_full_disk, clock_ahead_us, ..Process::new() };
        self.trace.line("broker", &[epoch], || "is started and recovers".to_owned());
        self.trace.record(|to| to.process(None));
        self.go_on_recovering();
    }

    /// A disk operation ended.
    pub(super) fn disk_done(&mut self, epoch: u64, op: OpId) {
        if epoch != self.process.epoch {
            return;
        }
        let result = self.disk.complete(op);
        self.trace.record(|to| to.ended(op, result.as_ref().err().map(|error| &*error.message)));
        self.take_in_harm();
        self.take_in_disk();
        self.trace.line("disk", &[op.0, u64::from(result.is_ok())], || match &result {
            Ok(reply) => format!("operation {op} done{}", length_of(reply)),
            Err(error) => format!("operation {op} failed: {}", error.message),
        });
        let now = self.both_clocks();
        match &mut self.process.state {
            State::Down => {}
            State::Recovering(recovery) => {
                recovery.handle(now, op, result);
                self.go_on_recovering();
            }
            State::Serving(_) => self.feed(Input::DiskDone { op, result }),
        }
    }

    /// Hands the broker an input; its outputs are fetched now, or a little later with those of others.
    pub(super) fn feed(&mut self, input: Input) {
        let now = self.both_clocks();
        let State::Serving(broker) = &mut self.process.state else { return };
        self.counts.broker_inputs += 1;
        broker.handle(now, input);
        self.model.stirs();
        if self.process.drain_pending {
            return;
        }
        if self.driver_draws.percent(self.scenario.network.late_drain_percent) {
            self.process.drain_pending = true;
            self.model.unheard();
            let at = self.schedule.now_us() + self.driver_draws.below(400);
            self.schedule.add(at, Happening::Drain { epoch: self.process.epoch });
        } else {
            self.drain();
        }
    }

    pub(super) fn drain_late(&mut self, epoch: u64) {
        if epoch == self.process.epoch {
            self.process.drain_pending = false;
            self.drain();
        }
    }

    pub(super) fn wake(&mut self, epoch: u64) {
        if epoch == self.process.epoch && self.process.wake_at.is_some_and(|at| at <= self.schedule.now_us())
        {
            self.process.wake_at = None;
            self.drain();
        }
    }

    /// The process ends now and is started again after `down_us`.
    pub(super) fn end_process(&mut self, down_us: u64, machine_too: bool) {
        self.take_in_counters();
        self.process_forgets_damage();
        let down_until = self.now() + down_us;
        let epoch = self.process.epoch + 1;
        self.process =
            Process { epoch, down_until: down_until.max(self.process.down_until), ..Process::new() };
        self.counts.crashes += 1;
        self.taps.clear();
        if !machine_too {
            self.trace.record(|to| to.crash(false, "the broker's process is gone"));
        }
        let trace = &mut self.trace;
        self.disk.process_crash(&mut self.crash_draws, |left| trace.record(|to| to.left(left)));
        self.take_in_disk();
        let draws = &mut self.crash_draws;
        // A process's end closes its sockets at once; a machine is only missed.
        let most_us = self.scenario.network.notice_us;
        let notice_us = || if machine_too { draws.below(most_us) } else { 0 };
        let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
        for (client, attempt) in self.network.broker_dies(&mut around, notice_us) {
            self.model.attempt_ended(client, attempt, Ending::Abnormal);
        }
        self.schedule.add(self.process.down_until, Happening::Start);
    }

    /// Adds what the process at hand has counted.
    pub(super) fn take_in_counters(&mut self) {
        match &self.process.state {
            State::Serving(broker) => self.model.drops_counted(broker.statistics().dropped_queue_full),
            // A will may have been published and dropped something; nobody could ask for the count.
            State::Recovering(_) => self.model.drops_counted_unseen(),
            State::Down => {}
        }
    }

    /// Lets a machine that is off be switched on soon.
    pub(super) fn start_soon(&mut self) {
        if self.process.is_down() {
            self.process.down_until = self.now();
            self.schedule.add(self.now() + 10_000, Happening::Start);
        }
    }

    pub(super) fn both_clocks(&self) -> Now {
        let now = self.schedule.now_us();
        let wall = self.wall.at(now).try_into().unwrap_or(0);
        let monotonic = Monotonic(now.saturating_add_signed(self.process.clock_ahead_us));
        Now { monotonic, wall: WallTime(wall) }
    }

    /// From now on these settings are in force.
    pub(super) fn settings_change(&mut self, settings: Settings) {
        self.settings = settings;
        self.model.settings_change(&settings.limits);
    }

    fn go_on_recovering(&mut self) {
        let State::Recovering(recovery) = &mut self.process.state else { return };
        let mut orders = Vec::new();
        while let Some(output) = recovery.poll_output() {
            orders.push(output);
        }
        let finished = recovery.finish();
        for output in orders {
            match output {
                Output::Disk { op, request } => self.order_disk(op, request, true),
                Output::Report(event) => self.trace.note("event", &[], || event.to_string()),
                other => unreachable!("recovery orders nothing but disk operations, not {other:?}"),
            }
        }
        match finished {
            None => {}
            Some(Ok(Recovered { broker, report })) => {
                if report.torn_tail.is_some() {
                    self.effects.count("torn tail cut off");
                }
                self.trace.line("broker", &[report.last_lsn.0], || format!("serves: {report:?}"));
                self.trace.record(|to| to.process(Some(&report)));
                self.course.recoveries.push(self.disk.counts().recovery_operations);
                self.take_in_disk();
                self.model.serves();
                self.judge_start(&report);
                if !self.over
                    && let Err(text) = self.ledger.is_continued_by(report.recovery_count, report.last_lsn)
                {
                    self.model.fail(Checker::Recovery, "broker", text);
                }
                self.process.state = State::Serving(Box::new(broker));
                self.drain();
            }
            Some(Err(refusal)) => self.refused(&refusal),
        }
    }

    /// The broker does not start. That is right only when something was done to it.
    fn refused(&mut self, refusal: &Refusal) {
        self.trace.note("broker", &[], || format!("refuses to start: {refusal}"));
        self.effects.count("refused to start");
        if self.is_right_refusal(refusal) {
            self.effects.count("damage refused");
            self.over = true;
        } else if self.process.disk_error.is_some() || self.process.met_full_disk {
            self.end_process(50_000, false);
        } else {
            let text = format!(
                "it refuses to start, and nothing that was done to the store is the reason: {refusal}"
            );
            self.model.fail(Checker::Refusal, "broker", text);
        }
    }

    /// Lets the broker do what is due, then carries out its orders.
    fn drain(&mut self) {
        self.carry_out_orders();
        if !self.process.drain_pending {
            self.model.heard();
        }
    }

    fn carry_out_orders(&mut self) {
        let now = self.both_clocks();
        let State::Serving(broker) = &mut self.process.state else { return };
        let mut turns = 0;
        while broker.next_deadline().is_some_and(|deadline| deadline.at <= now.monotonic) {
            broker.handle(now, Input::DeadlineReached);
            self.counts.broker_inputs += 1;
            turns += 1;
            if turns == TURNS_MAX {
                self.model.fail(Checker::Progress, "broker", "it has always more to do at once");
                return;
            }
        }
        let mut outputs = Vec::new();
        while let Some(output) = broker.poll_output() {
            outputs.push(output);
        }
        let deadline = broker.next_deadline();
        let mut outputs = outputs.into_iter();
        while let Some(output) = outputs.next() {
            if let Output::Halt { fault } = output {
                if outputs.next().is_some() {
                    self.model.fail(Checker::Halt, "broker", "it goes on after it has stopped");
                }
                self.halted(&fault);
                return;
            }
            self.carry_out(output);
        }
        let ahead_us = self.process.clock_ahead_us;
        if let Some(due) = deadline.map(|deadline| deadline.at.0.saturating_add_signed(-ahead_us))
            && self.process.wake_at.is_none_or(|at| due < at)
        {
            self.process.wake_at = Some(due);
            self.schedule.add(due, Happening::Wake { epoch: self.process.epoch });
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { connection, chunks } => self.send(connection, chunks),
            Output::Close { connection, reason } => self.close(connection, &reason),
            Output::PauseReading { connection } => self.pause(connection, true),
            Output::ResumeReading { connection } => self.pause(connection, false),
            Output::Verify { connection, credentials } => self.verify(connection, &credentials),
            Output::Disk { op, request } => self.order_disk(op, request, false),
            Output::Report(event) => self.report(&event),
            Output::Answer { .. } => {}
            Output::Halt { .. } => unreachable!("taken out before"),
        }
    }

    fn send(&mut self, id: ConnectionId, chunks: Vec<Bytes>) {
        if self.logins.is_one(id) {
            return self.answers_intruder(id, &chunks.concat());
        }
        let length: usize = chunks.iter().map(Bytes::len).sum();
        self.trace
            .line("broker", &[id.0, length as u64], || format!("sends {length} bytes to connection {id}"));
        let Some(connection) = self.network.connection(id) else { return };
        let (client, attempt) = (connection.client, connection.attempt);
        self.trace.record(|to| drop(to.sent(id, client, false, &chunks.concat())));
        let mut leaving = Vec::new();
        let version = self.scenario.clients[client].version();
        let listening = || Listening { tap: Tap::new(version), client, attempt };
        let tap = &mut self.taps.entry(id).or_insert_with(listening).tap;
        for chunk in &chunks {
            self.trace.bytes(chunk);
            tap.take(chunk, |packet| leaving.push(packet));
        }
        for packet in leaving {
            self.leaves(id, client, attempt, packet);
        }
        let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
        self.network.broker_sends(&mut around, id, chunks);
    }

    fn close(&mut self, id: ConnectionId, reason: &CloseReason) {
        self.trace.line("broker", &[id.0], || format!("closes connection {id}: {reason}"));
        // The network may have forgotten the connection: its client is gone.
        let listening = self.taps.remove(&id);
        if let Some(connection) = self.network.connection(id) {
            let words = || format!("closes connection {id}: {reason}");
            self.trace.record(|to| to.signalled(id, connection.client, false, words()));
            let goodbye = reason.kind == CloseKind::Normal && self.process.stopping.is_none();
            let ending = if goodbye { Ending::InOrder } else { Ending::Abnormal };
            self.model.attempt_ended(connection.client, connection.attempt, ending);
        }
        if let Some(listening) = listening.filter(|_| reason.kind == CloseKind::Limit) {
            self.model.goodbye_unheard(listening.client, listening.attempt);
        }
        let refused = self.model.has_bounded_queues();
        match reason.kind {
            CloseKind::ProtocolError => {
                self.model.fail(
                    Checker::Protocol,
                    format!("connection {id}"),
                    format!("it is closed: {reason}"),
                );
            }
            CloseKind::Limit if !refused => {
                self.model.fail(
                    Checker::Protocol,
                    format!("connection {id}"),
                    format!("a limit closes it: {reason}"),
                );
            }
            CloseKind::Unauthorized if !self.logins.is_one(id) => {
                self.model.fail(
                    Checker::Protocol,
                    format!("connection {id}"),
                    format!("it is closed: {reason}"),
                );
            }
            CloseKind::TakenOver => self.taken_over(id),
            CloseKind::Lost => self.effects.count("given up by the broker"),
            CloseKind::Limit | CloseKind::Normal | CloseKind::Unauthorized | CloseKind::Unavailable => {}
        }
        let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
        self.network.broker_closes(&mut around, id);
    }

    /// Nobody but the client itself may have taken its place.
    fn taken_over(&mut self, id: ConnectionId) {
        self.effects.count("taken over");
        let Some(connection) = self.network.connection(id) else { return };
        let client = connection.client;
        // Of two connections the one whose CONNECT comes later stays, whichever was opened first.
        if !self.clients[client].has_tried_again() {
            let text =
                format!("the connection of client {client} is taken over, and it has not opened another");
            self.model.fail(Checker::Protocol, format!("client {client}"), text);
        }
    }

    fn pause(&mut self, id: ConnectionId, paused: bool) {
        self.trace.note("broker", &[id.0, u64::from(paused)], || {
            format!("{} reading from connection {id}", if paused { "stops" } else { "resumes" })
        });
        if paused {
            self.effects.count("reading paused");
        }
        let mut around = Surroundings { schedule: &mut self.schedule, effects: &mut self.effects };
        self.network.set_paused(&mut around, id, paused);
    }

    fn order_disk(&mut self, op: OpId, request: DiskRequest, recovering: bool) {
        let what = || disk::in_words(&request);
        self.trace.line("broker", &[op.0], || format!("orders operation {op}: {}", what()));
        let number = self.disk.counts().operations + 1;
        self.trace.record(|to| to.ordered(op, number, &request));
        let is_write = matches!(request, DiskRequest::Write { .. });
        let latency = self.disk.submit(op, request, recovering);
        let (at, epoch) = (self.now() + latency, self.process.epoch);
        self.schedule.add(at, Happening::DiskDone { epoch, op });
        self.set_off_by_operation(op, is_write, latency);
    }

    fn report(&mut self, event: &Event) {
        self.trace.note("event", &[], || event.to_string());
        match event {
            Event::Dropped { reason: DropReason::QueueFull, .. } if !self.model.has_bounded_queues() => {
                self.model.fail(Checker::Drop, "broker", format!("no queue has a bound: {event}"));
            }
            Event::Dropped { reason: DropReason::QueueFull, .. } => {
                self.effects.count("dropped at a full queue")
            }
            Event::Dropped { reason: DropReason::SlowReader, message, .. } => {
                self.effects.count("dropped for a slow reader");
                if message.is_some() {
                    self.model.fail(
                        Checker::Drop,
                        "broker",
                        format!("only QoS 0 may be dropped so: {event}"),
                    );
                }
            }
            Event::Dropped { reason: DropReason::Expired, .. } => self.effects.count("message expired"),
            Event::SessionExpired { .. } => self.effects.count("session expired"),
            Event::MessageUnreadable { message, given_up, .. } => self.called_unreadable(*message, *given_up),
            Event::CheckpointComplete { .. } => self.effects.count("checkpoint"),
            Event::SegmentOpened { .. } => self.effects.count("segment opened"),
            Event::DiskFull { .. } => self.effects.count("disk full noticed"),
            _ => {}
        }
    }

    fn halted(&mut self, fault: &Halt) {
        self.trace.note("broker", &[], || format!("stops: {fault}"));
        match (fault, self.process.stopping, self.process.disk_error) {
            (Halt::ShutDown, Some(down_us), _) => {
                self.effects.count("shutdown");
                self.end_process(down_us, false);
            }
            (Halt::Storage { .. }, _, Some(index)) => self.stopped_by_disk(index),
            (Halt::Storage { .. }, Some(down_us), None) if self.process.met_full_disk => {
                // It was asked to stop and has no space for the last records.
                self.effects.count("stopped by a full disk");
                self.model.crashed();
                self.end_process(down_us, false);
            }
            (Halt::ShutDown, None, _) | (Halt::Storage { .. }, _, None) => {
                self.model.fail(Checker::Halt, "broker", format!("it stops without a reason: {fault}"));
            }
        }
    }
}

fn length_of(reply: &vowmq_core::input::DiskReply) -> String {
    match reply {
        vowmq_core::input::DiskReply::Bytes(bytes) => format!(": {} bytes", bytes.len()),
        vowmq_core::input::DiskReply::Listing(segments) => format!(": {segments:?}"),
        vowmq_core::input::DiskReply::Done | vowmq_core::input::DiskReply::FreeSpace(_) => String::new(),
    }
}
