//! What decides a run of the real shell: plain data, and how a seed becomes it.
//!
//! Tokio's timers know no less than a millisecond, so all times are milliseconds of simulated time.

use crate::chance::{Chance, Domain, Draws};
use crate::fault::{Direction, Pages};
use crate::scenario::{BrokerSettings, DiskSettings, Survival, Sync};
use serde::{Deserialize, Serialize};

/// Machines that clients run on: what breaks a network breaks it for all clients of a machine.
pub const HOSTS: usize = 3;

/// Everything that decides a run of the real shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellScenario {
    /// Decides what the scenario leaves open.
    pub seed: u64,
    /// How long deeds and faults go on; afterwards everything is healed.
    pub fault_phase_ms: u64,
    /// How long everything acknowledged may take to arrive after that.
    pub heal_ms: u64,
    /// The broker's settings.
    pub broker: BrokerSettings,
    /// `Limits::connect_ms`.
    pub connect_ms: u64,
    /// The network.
    pub network: ShellNetwork,
    /// The disk.
    pub disk: DiskSettings,
    /// The clients.
    pub clients: Vec<ShellClient>,
    /// What goes wrong.
    pub faults: Vec<ShellFault>,
}

/// How the network behaves when nothing is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellNetwork {
    /// Least time from one end to the other.
    pub latency_min_ms: u64,
    /// Most time.
    pub latency_max_ms: u64,
    /// Bytes of a segment, at the most: writes are cut anywhere below.
    pub segment_bytes: usize,
    /// Segments that may be on their way or arrived and unread, each way.
    pub segments: usize,
    /// Calls of a socket that must be made again though something could be done, of a hundred.
    pub would_block_percent: u32,
    /// Accepted connections before which accepting fails once, of a hundred.
    pub accept_error_percent: u32,
}

impl ShellNetwork {
    /// Bytes that may be on their way one way.
    pub(super) fn window_bytes(&self) -> u64 {
        (self.segments * self.segment_bytes) as u64
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellClient {
    /// Whether it asks for a clean session; it publishes at QoS 0 and 1 only then.
    pub clean: bool,
    /// Keep-alive, at least 2.
    pub keep_alive_s: u16,
    /// QoS 1 and 2 messages that it publishes before it waits.
    pub window: usize,
    /// Most bytes that it reads in a millisecond, until all is healed; 0 means as many as come.
    pub reads_bytes: usize,
    /// Filters and their QoS.
    pub subscriptions: Vec<(String, u8)>,
    /// What it does, in order of time.
    pub deeds: Vec<(u64, Deed)>,
}

/// Something that a client does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Deed {
    /// It publishes messages.
    Publish {
        /// The second level of their topic.
        branch: u8,
        /// Their QoS.
        qos: u8,
        /// How many.
        count: u32,
        /// Bytes of each.
        size: u32,
    },
    /// It reads nothing for a while, and goes on sending.
    StopReading {
        /// For how long.
        for_ms: u64,
    },
    /// It reads nothing and asks whether the broker is there, far more often than the answers fit anywhere.
    Flood {
        /// For how long it does not read.
        for_ms: u64,
    },
    /// It closes its connection without a word and comes back.
    Break,
    /// It sends nothing more until the broker gives it up.
    FallSilent,
    /// It opens another connection while the old one is open.
    TakeOver,
    /// It says goodbye and stays away.
    Leave {
        /// For how long.
        for_ms: u64,
    },
    /// It opens connections that say nothing, or not enough.
    Mute {
        /// How many.
        connections: u32,
    },
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ShellFault {
    /// What is sent between a machine and the broker is lost: to the connections that are open, for good.
    Partition {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
        /// The machine.
        host: usize,
        /// Which way.
        direction: Direction,
    },
    /// What is sent between a machine and the broker waits until the end.
    Hold {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
        /// The machine.
        host: usize,
    },
    /// Now and then everything on its way between a machine and the broker is lost.
    Loss {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
        /// The machine.
        host: usize,
        /// How often, in a thousand segments.
        per_thousand: u32,
    },
    /// Everything between a machine and the broker takes longer.
    Slow {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
        /// The machine.
        host: usize,
        /// How long each segment takes.
        latency_ms: u64,
    },
    /// The broker's machine loses its power, at once or when so many more writes were ordered.
    PowerCut {
        /// From when.
        at_ms: u64,
        /// With 0 at once, else during this write.
        write: u64,
        /// How long the machine stays off.
        down_ms: u64,
    },
    /// The broker's process is killed.
    Kill {
        /// When.
        at_ms: u64,
        /// Until it is started again.
        down_ms: u64,
    },
    /// The operator stops the broker in order.
    ShutDown {
        /// When.
        at_ms: u64,
        /// Until it is started again.
        down_ms: u64,
    },
    /// The next write fails.
    DiskError {
        /// From when.
        at_ms: u64,
        /// What becomes of the pages.
        pages: Pages,
        /// Until the broker, which stops, is started again.
        down_ms: u64,
        /// Whether the machine is switched off and on in between.
        reboot: bool,
    },
    /// All disk operations take longer.
    SlowDisk {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
        /// What each takes more.
        extra_ms: u64,
    },
    /// No space is left.
    FullDisk {
        /// From when.
        at_ms: u64,
        /// For how long.
        for_ms: u64,
    },
}

impl ShellFault {
    /// When it begins.
    pub(super) fn at_ms(&self) -> u64 {
        match self {
            ShellFault::Partition { at_ms, .. }
            | ShellFault::Hold { at_ms, .. }
            | ShellFault::Loss { at_ms, .. }
            | ShellFault::Slow { at_ms, .. }
            | ShellFault::PowerCut { at_ms, .. }
            | ShellFault::Kill { at_ms, .. }
            | ShellFault::ShutDown { at_ms, .. }
            | ShellFault::DiskError { at_ms, .. }
            | ShellFault::SlowDisk { at_ms, .. }
            | ShellFault::FullDisk { at_ms, .. } => *at_ms,
        }
    }
}

/// The scenario of a seed.
pub fn generate(seed: u64) -> ShellScenario {
    let chance = Chance::new(seed);
    let part = |part: u64| chance.draws(Domain::Generate, part);
    let mut draws = part(0);
    let fault_phase_ms = *draws.pick(&[1_000, 2_000, 4_000]);
    let publishers = draws.between(1, 3);
    let subscribers = draws.between(1, 4);
    let network = network(&mut part(2));
    // What is cut very small takes its time.
    let size_max = if network.segment_bytes < 600 { 200 } else { 5_000 };
    let clients = (0..publishers + subscribers)
        .map(|index| client(&mut part(100 + index), index, publishers, fault_phase_ms, size_max))
        .collect();
    let mut faults = faults(&mut part(3), fault_phase_ms);
    faults.sort_by_key(ShellFault::at_ms);
    ShellScenario {
        seed,
        fault_phase_ms,
        heal_ms: 40_000,
        broker: broker(&mut part(1)),
        connect_ms: draws.between(1_000, 2_000),
        network,
        disk: disk(&mut part(4)),
        clients,
        faults,
    }
}

fn broker(draws: &mut Draws) -> BrokerSettings {
    BrokerSettings {
        segment_kib: *draws.pick(&[64, 128, 512]),
        inflight: draws.between(1, 20) as usize,
        horizon_block: *draws.pick(&[1, 5, 1024]),
        turn_work: *draws.pick(&[1, 16, 4096]),
        lazy_sync_ms: *draws.pick(&[1, 10, 50]),
        unsent_bytes: *draws.pick(&[500, 4096, 16_384]),
        held_replies: *draws.pick(&[2, 10, 1000]),
        message_events: false,
        sync: Sync::Always,
        ..BrokerSettings::default()
    }
}

fn network(draws: &mut Draws) -> ShellNetwork {
    let latency_min_ms = draws.between(0, 2);
    ShellNetwork {
        latency_min_ms,
        latency_max_ms: latency_min_ms + *draws.pick(&[0, 2, 20]),
        segment_bytes: *draws.pick(&[20, 64, 600, 1460]),
        // Also how many connections may wait to be accepted.
        segments: draws.between(24, 48) as usize,
        would_block_percent: *draws.pick(&[0, 5, 30]),
        accept_error_percent: *draws.pick(&[0, 0, 20]),
    }
}

fn disk(draws: &mut Draws) -> DiskSettings {
    let latency_min_us = *draws.pick(&[0, 200, 2_000]);
    DiskSettings {
        latency_min_us,
        latency_max_us: latency_min_us + *draws.pick(&[0, 1_000, 10_000]),
        survival: Survival::default(),
        entry_lost_percent: 50,
    }
}

fn client(draws: &mut Draws, index: u64, publishers: u64, phase_ms: u64, size_max: u32) -> ShellClient {
    let publishes = index < publishers;
    let clean = draws.percent(if publishes { 20 } else { 25 });
    let mut deeds = Vec::new();
    if publishes {
        let size = size_max.min(*draws.pick(&[20, 100, 1_000, 5_000]));
        for _ in 0..draws.between(4, 20) {
            let qos = draws.below(if clean { 2 } else { 3 }) as u8;
            let (branch, count) = (draws.below(2) as u8, draws.between(1, 8) as u32);
            deeds.push((draws.below(phase_ms), Deed::Publish { branch, qos, count, size }));
        }
    }
    for _ in 0..draws.below(4) {
        deeds.push((draws.below(phase_ms), misdeed(draws, publishes)));
    }
    deeds.sort_by_key(|(at_ms, _)| *at_ms);
    let everything = || vec![("#".to_owned(), draws_qos(index))];
    let subscriptions = match (publishes, draws.below(3)) {
        (true, _) => Vec::new(),
        (false, 0) => (0..publishers).map(|of| (format!("t{of}/#"), draws.below(3) as u8)).collect(),
        (false, _) => everything(),
    };
    ShellClient {
        clean,
        keep_alive_s: draws.between(2, 4) as u16,
        window: draws.between(1, 10) as usize,
        reads_bytes: if draws.percent(20) { draws.between(20, 300) as usize } else { 0 },
        subscriptions,
        deeds,
    }
}

/// Subscribers differ, and most of them want to miss nothing.
fn draws_qos(index: u64) -> u8 {
    [2, 1, 2, 0][index as usize % 4]
}

fn misdeed(draws: &mut Draws, publishes: bool) -> Deed {
    match draws.below(10) {
        0 if publishes => Deed::Flood { for_ms: draws.between(500, 3_000) },
        0 | 1 => Deed::StopReading { for_ms: draws.between(100, 3_000) },
        2 => Deed::StopReading { for_ms: draws.between(2_000, 6_000) },
        3 | 4 => Deed::Break,
        5 => Deed::FallSilent,
        6 | 7 => Deed::TakeOver,
        8 => Deed::Leave { for_ms: draws.between(0, 2_000) },
        _ => Deed::Mute { connections: draws.between(1, 3) as u32 },
    }
}

fn faults(draws: &mut Draws, phase_ms: u64) -> Vec<ShellFault> {
    let mut faults = Vec::new();
    let kinds: Vec<u64> = (0..draws.between(1, 4)).map(|_| draws.below(10)).collect();
    for _ in 0..draws.between(1, 6) {
        let at_ms = draws.below(phase_ms);
        let for_ms = draws.between(50, phase_ms);
        let down_ms = draws.between(1, 500);
        let host = draws.below(HOSTS as u64) as usize;
        faults.push(match *draws.pick(&kinds) {
            0 => {
                let direction = *draws.pick(&[Direction::Both, Direction::ToBroker, Direction::ToClient]);
                ShellFault::Partition { at_ms, for_ms, host, direction }
            }
            1 => ShellFault::Hold { at_ms, for_ms, host },
            2 => ShellFault::Loss { at_ms, for_ms, host, per_thousand: draws.between(1, 30) as u32 },
            3 => ShellFault::Slow { at_ms, for_ms, host, latency_ms: draws.between(20, 200) },
            4 => ShellFault::PowerCut { at_ms, write: draws.below(6), down_ms },
            5 => ShellFault::Kill { at_ms, down_ms },
            6 => ShellFault::ShutDown { at_ms, down_ms },
            7 => {
                let pages = *draws.pick(&[Pages::Dropped, Pages::KeptClean]);
                ShellFault::DiskError { at_ms, pages, down_ms, reboot: draws.percent(50) }
            }
            8 => ShellFault::SlowDisk { at_ms, for_ms, extra_ms: draws.between(5, 100) },
            _ => ShellFault::FullDisk { at_ms, for_ms: for_ms.min(1_000) },
        });
    }
    faults
}
