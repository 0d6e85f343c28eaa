//! A driver for tests: simulated clients, disk and clock, all under the test's control.

pub mod amqp;
pub mod disk;
pub mod packets;

use bytes::Bytes;
use disk::{Disk, Survival};
use std::collections::BTreeMap;
use vowmq_core::access::Credentials;
use vowmq_core::event::Event;
use vowmq_core::ids::{ConnectionId, ListenerId, OpId, Seed};
use vowmq_core::input::{CloseCause, Input, Peer, Protocol};
use vowmq_core::limits::Settings;
use vowmq_core::output::{CloseReason, DiskRequest, Halt, Output};
use vowmq_core::time::{Monotonic, Now, WallTime};
use vowmq_core::{Broker, Purpose, Recovered, Recovery, RecoveryReport, Refusal};

/// Small, so that every boundary is near.
pub fn settings() -> Settings {
    let mut settings = Settings { segment_bytes: 64 * 1024, message_events: true, ..Settings::default() };
    settings.limits.packet_bytes = 20_000;
    settings.limits.connect_bytes = 4096;
    settings.limits.free_bytes = 0;
    settings.limits.reserve_segments = 0;
    settings
}

pub const SEED: Seed = Seed([7; 32]);

/// A running broker with its driver.
pub struct Run {
    pub broker: Broker,
    pub disk: Disk,
    pub now: Now,
    pub report: RecoveryReport,
    pub halt: Option<Halt>,
    pub events: Vec<Event>,
    /// What the driver was asked about clients, and has not answered.
    pub asked: Vec<(ConnectionId, Credentials)>,
    /// Disk orders that are not carried out, while `hold_disk` is set.
    pub held: Vec<(OpId, DiskRequest)>,
    pub hold_disk: bool,
    /// Whether what is sent counts as taken at once.
    pub clients_read: bool,
    sent: BTreeMap<u64, Vec<u8>>,
    closed: BTreeMap<u64, CloseReason>,
    pub paused: BTreeMap<u64, bool>,
    next_connection: u64,
}

/// Recovers from `disk`.
pub fn recover(
    disk: &mut Disk,
    now: Now,
    settings: Settings,
    purpose: Purpose,
) -> Result<Recovered, Refusal> {
    settings.check().expect("the test's settings are within their ranges");
    let mut recovery = Recovery::new(now, settings, SEED, purpose);
    loop {
        if let Some(outcome) = recovery.finish() {
            return outcome;
        }
        let Some(output) = recovery.poll_output() else { panic!("recovery waits for nothing") };
        let Output::Disk { op, request } = output else { continue };
        let result = disk.execute(&request);
        recovery.handle(now, op, result);
    }
}

impl Run {
    /// A broker on an empty store.
    pub fn new() -> Run {
        Run::with(settings())
    }

    pub fn with(settings: Settings) -> Run {
        Run::on(Disk::default(), Now { monotonic: Monotonic(0), wall: WallTime(1_700_000_000_000) }, settings)
    }

    /// A broker on this store.
    pub fn on(mut disk: Disk, now: Now, settings: Settings) -> Run {
        let recovered = match recover(&mut disk, now, settings, Purpose::Serve) {
            Ok(recovered) => recovered,
            Err(refusal) => panic!("refused: {refusal}"),
        };
        disk.settings = Some(settings);
        let mut run = Run {
            broker: recovered.broker,
            disk,
            now,
            report: recovered.report,
            halt: None,
            events: Vec::new(),
            asked: Vec::new(),
            held: Vec::new(),
            hold_disk: false,
            clients_read: true,
            sent: BTreeMap::new(),
            closed: BTreeMap::new(),
            paused: BTreeMap::new(),
            next_connection: 1,
        };
        run.turn();
        run
    }

    /// The power goes: of what was not synced, `survival` decides. Then the broker starts again.
    pub fn power_cut(self, survival: Survival) -> Run {
        let settings = self.settings();
        self.power_cut_with(survival, settings)
    }

    pub fn power_cut_with(mut self, survival: Survival, settings: Settings) -> Run {
        self.disk.power_cut(survival);
        let now = Now { monotonic: Monotonic(0), wall: self.now.wall.plus_ms(1000) };
        Run::on(self.disk, now, settings)
    }

    fn settings(&self) -> Settings {
        self.disk.settings.expect("the run was made with settings")
    }

    /// Opens a connection for MQTT; its number.
    pub fn open(&mut self) -> u64 {
        self.open_for(Protocol::Mqtt)
    }

    /// Opens a connection; its number.
    pub fn open_for(&mut self, protocol: Protocol) -> u64 {
        let id = self.next_connection;
        self.next_connection += 1;
        let address = "127.0.0.1:40000".parse().expect("an address");
        let (connection, listener, peer) = (ConnectionId(id), ListenerId(0), Peer { address });
        self.input(Input::Opened { connection, listener, protocol, peer });
        id
    }

    /// Sends bytes as the client of a connection.
    pub fn send(&mut self, connection: u64, bytes: &[u8]) {
        let connection = ConnectionId(connection);
        self.input(Input::Received { connection, bytes: Bytes::copy_from_slice(bytes) });
    }

    /// The client's network breaks.
    pub fn break_off(&mut self, connection: u64) {
        self.input(Input::Closed { connection: ConnectionId(connection), cause: CloseCause::Broken });
    }

    pub fn input(&mut self, input: Input) {
        self.broker.handle(self.now, input);
        self.turn();
    }

    /// Handles what is due, carries out what is ordered, until nothing happens any more.
    pub fn turn(&mut self) {
        for _ in 0..100_000 {
            let due = self.broker.next_deadline().is_some_and(|deadline| deadline.at <= self.now.monotonic);
            if due {
                self.broker.handle(self.now, Input::DeadlineReached);
            }
            let mut any = due;
            while let Some(output) = self.broker.poll_output() {
                any = true;
                self.carry_out(output);
            }
            if !any {
                return;
            }
        }
        panic!("the broker never comes to rest");
    }

    /// Carries out one order.
    pub fn carry_out(&mut self, output: Output) {
        assert!(self.halt.is_none(), "an order after Halt: {output:?}");
        match output {
            Output::Send { connection, chunks } => {
                let bytes: usize = chunks.iter().map(Bytes::len).sum();
                assert!(bytes > 0, "an empty Send");
                let sent = self.sent.entry(connection.0).or_default();
                chunks.iter().for_each(|chunk| sent.extend_from_slice(chunk));
                if self.clients_read {
                    self.broker.handle(self.now, Input::Sent { connection, bytes });
                }
            }
            Output::Close { connection, reason } => drop(self.closed.insert(connection.0, reason)),
            Output::PauseReading { connection } => drop(self.paused.insert(connection.0, true)),
            Output::ResumeReading { connection } => drop(self.paused.insert(connection.0, false)),
            Output::Verify { connection, credentials } => self.asked.push((connection, credentials)),
            Output::Disk { op, request } if self.hold_disk => self.held.push((op, request)),
            Output::Disk { op, request } => {
                let result = self.disk.execute(&request);
                self.broker.handle(self.now, Input::DiskDone { op, result });
            }
            Output::Report(event) => self.events.push(event),
            Output::Answer { .. } => {}
            Output::Halt { fault } => self.halt = Some(fault),
        }
    }

    /// Carries out the disk orders that were held, and what follows.
    pub fn release_disk(&mut self) {
        self.hold_disk = false;
        for (op, request) in std::mem::take(&mut self.held) {
            let result = self.disk.execute(&request);
            self.broker.handle(self.now, Input::DiskDone { op, result });
        }
        self.turn();
    }

    /// While the disk is held: carries out what is ordered until it has done so many operations; whether that was not
    /// reached. The operation that is under way when the power goes may have reached the page cache.
    pub fn disk_works_until(&mut self, operations: usize) -> bool {
        loop {
            self.turn();
            if self.held.is_empty() {
                return true;
            }
            for (op, request) in std::mem::take(&mut self.held) {
                if self.disk.operations.len() >= operations {
                    if let DiskRequest::Write { segment, offset, chunks, .. } = request {
                        let write = DiskRequest::Write { segment, offset, chunks, sync: false };
                        let _ = self.disk.execute(&write);
                    }
                    return false;
                }
                let result = self.disk.execute(&request);
                self.broker.handle(self.now, Input::DiskDone { op, result });
            }
        }
    }

    /// Lets time pass on both clocks.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now.monotonic.plus_ms(ms);
        let wall = self.now.wall.plus_ms(ms);
        while let Some(deadline) = self.broker.next_deadline()
            && deadline.at <= end
        {
            let step = deadline.at.max(self.now.monotonic);
            let passed = step.0 - self.now.monotonic.0;
            self.now = Now { monotonic: step, wall: self.now.wall.plus_ms(passed / 1000) };
            if passed == 0 && self.hold_disk {
                self.broker.handle(self.now, Input::DeadlineReached);
            }
            self.turn();
            if passed == 0 && self.broker.next_deadline().is_some_and(|next| next.at <= self.now.monotonic) {
                break;
            }
        }
        self.now = Now { monotonic: end, wall };
        self.turn();
    }

    /// Everything the client of a connection was sent since this was last asked.
    pub fn taken(&mut self, connection: u64) -> Vec<u8> {
        self.sent.remove(&connection).unwrap_or_default()
    }

    /// Why the broker closed the connection, if it did.
    pub fn closed(&self, connection: u64) -> Option<&CloseReason> {
        self.closed.get(&connection)
    }

    pub fn clause_of_close(&self, connection: u64) -> &'static str {
        self.closed(connection).expect("the connection was closed").clause
    }
}
