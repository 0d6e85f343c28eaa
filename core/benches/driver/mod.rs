//! Drives a broker without network and without waiting for a disk: what is measured is the core, the clients' few
//! steps, and one write to a file in memory a batch.

pub mod disk;
pub mod packets;

use bytes::Bytes;
use disk::Disk;
use std::collections::BTreeMap;
use vowmq_core::ids::{ConnectionId, ListenerId, Seed};
use vowmq_core::input::{Input, Peer, Protocol};
use vowmq_core::limits::Settings;
use vowmq_core::mqtt::packet::frame::{self, Frame, Framed};
use vowmq_core::output::Output;
use vowmq_core::time::{Monotonic, Now, WallTime};
use vowmq_core::{Broker, Purpose, Recovered, Recovery};

/// A broker, its store, and the other ends of its connections.
pub struct Driver {
    /// The store.
    pub disk: Disk,
    broker: Broker,
    now: Now,
    sent: BTreeMap<ConnectionId, Vec<Bytes>>,
    connections: u64,
}

/// The settings of all measurements: the defaults, with a wide window, so that clients set the pace.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.limits.inflight = 1000;
    settings
}

/// What a store holds.
pub fn recover(disk: &mut Disk, purpose: Purpose) -> Recovered {
    let now = Now { monotonic: Monotonic(0), wall: WallTime(1_700_000_000_000) };
    let mut recovery = Recovery::new(now, settings(), Seed([7; 32]), purpose);
    loop {
        if let Some(outcome) = recovery.finish() {
            return outcome.unwrap_or_else(|refusal| panic!("the store is refused: {refusal}"));
        }
        if let Some(Output::Disk { op, request }) = recovery.poll_output() {
            recovery.handle(now, op, disk.execute(&request));
        }
    }
}

impl Driver {
    /// A broker on an empty store.
    pub fn new() -> Driver {
        let mut disk = Disk::new();
        let broker = recover(&mut disk, Purpose::Serve).broker;
        let now = Now { monotonic: Monotonic(1), wall: WallTime(1_700_000_000_001) };
        let mut driver = Driver { disk, broker, now, sent: BTreeMap::new(), connections: 0 };
        driver.turn();
        driver
    }

    /// Opens a connection and sends CONNECT; the answer comes with the next `turn`.
    pub fn connect(&mut self, client: &str, clean: bool) -> ConnectionId {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let peer = Peer { address: ([127, 0, 0, 1], 40_000).into() };
        self.broker.handle(
            self.now,
            Input::Opened { connection, listener: ListenerId(0), protocol: Protocol::Mqtt, peer },
        );
        self.receive(connection, packets::connect(client, clean).into());
        connection
    }

    /// Hands over what a client sent.
    pub fn receive(&mut self, connection: ConnectionId, bytes: Bytes) {
        self.broker.handle(self.now, Input::Received { connection, bytes });
    }

    /// Lets the broker work until it comes to rest. What it sends is taken at once and kept until `taken`.
    pub fn turn(&mut self) {
        self.now.monotonic = self.now.monotonic.plus_us(10);
        loop {
            let due = self.broker.next_deadline().is_some_and(|deadline| deadline.at <= self.now.monotonic);
            if due {
                self.broker.handle(self.now, Input::DeadlineReached);
            }
            let mut rests = !due;
            while let Some(output) = self.broker.poll_output() {
                rests = false;
                self.carry_out(output);
            }
            if rests {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { connection, chunks } => {
                let bytes = chunks.iter().map(Bytes::len).sum();
                self.sent.entry(connection).or_default().extend(chunks);
                self.broker.handle(self.now, Input::Sent { connection, bytes });
            }
            Output::Disk { op, request } => {
                let result = self.disk.execute(&request);
                self.broker.handle(self.now, Input::DiskDone { op, result });
            }
            Output::Halt { fault } => panic!("the broker stopped: {fault}"),
            Output::Verify { .. } => panic!("everybody may connect"),
            Output::Close { .. }
            | Output::PauseReading { .. }
            | Output::ResumeReading { .. }
            | Output::Report(_)
            | Output::Answer { .. } => {}
        }
    }

    /// What was sent since this was last asked, by connection.
    pub fn taken(&mut self) -> BTreeMap<ConnectionId, Vec<Bytes>> {
        std::mem::take(&mut self.sent)
    }

    /// Turns and answers as MQTT clients do until nobody has anything to say; how many PUBLISH packets and how many
    /// final acknowledgements of publishers came.
    pub fn converse(&mut self) -> Heard {
        let mut heard = Heard::default();
        loop {
            self.turn();
            let sent = self.taken();
            if sent.is_empty() {
                return heard;
            }
            for (connection, chunks) in sent {
                let mut answers = Vec::new();
                each_packet(&chunks.concat(), |packet| {
                    heard.count(packet);
                    answers.extend(packets::answer(packet).into_iter().flatten());
                });
                if !answers.is_empty() {
                    self.receive(connection, answers.into());
                }
            }
        }
    }
}

/// What clients were sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Heard {
    /// PUBLISH packets.
    pub messages: usize,
    /// PUBACK and PUBCOMP packets.
    pub acknowledged: usize,
}

impl Heard {
    fn count(&mut self, packet: Frame<'_>) {
        match packet.first >> 4 {
            3 => self.messages += 1,
            4 | 7 => self.acknowledged += 1,
            _ => {}
        }
    }
}

fn each_packet(mut bytes: &[u8], mut visit: impl FnMut(Frame<'_>)) {
    while let Ok(Framed::Whole(packet, used)) = frame::parse(bytes) {
        visit(packet);
        bytes = &bytes[used..];
    }
    assert!(bytes.is_empty(), "the broker sends whole packets by the time it rests");
}
