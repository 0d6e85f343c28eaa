//! What goes wrong in a run, and when.

use serde::{Deserialize, Serialize};

/// The moment that sets a fault off. Counts begin at 1 and go through the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At this time.
    AtUs(u64),
    /// With this disk operation.
    DiskOperation(u64),
    /// With this disk operation of all that recoveries order.
    RecoveryOperation(u64),
    /// With this sync.
    Sync(u64),
    /// With this write.
    Write(u64),
    /// With the `number`-th write that is ordered from this time on; a power cut finds it under way.
    WriteSince {
        /// The time.
        at_us: u64,
        /// Counted from 1.
        number: u64,
    },
    /// With this read.
    Read(u64),
}

/// What the operating system does with the pages of a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// They are as before the writes.
    Dropped,
    /// They read as written and count as clean: the next sync succeeds without having written them.
    KeptClean,
}

/// A direction of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Nothing comes through to the broker.
    ToBroker,
    /// Nothing comes through to the client.
    ToClient,
    /// Nothing comes through.
    Both,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The machine loses its power: what was not synced is gone, or half gone.
    PowerCut {
        /// The moment; with a disk operation, a moment during or right after it.
        when: When,
        /// How long the machine stays off.
        down_us: u64,
    },
    /// The process dies; what it wrote stays in the page cache.
    ProcessCrash {
        /// The moment.
        when: When,
        /// Until it is started again.
        down_us: u64,
    },
    /// The operator stops the broker in order.
    Shutdown {
        /// The moment.
        when: When,
        /// Until it is started again.
        down_us: u64,
    },
    /// An operation of the disk fails: with `When::Sync` a sync, with `When::Write` a write, and so on.
    DiskError {
        /// The operation.
        when: When,
        /// What becomes of the pages of a sync.
        #[serde(default = "dropped")]
        pages: Pages,
        /// Until the broker, which stops, is started again.
        down_us: u64,
        /// Whether the machine is switched off and on in between.
        #[serde(default)]
        reboot: bool,
    },
    /// All disk operations take longer.
    SlowDisk {
        /// From when.
        when: When,
        /// For how long.
        for_us: u64,
        /// What each takes more.
        extra_us: u64,
    },
    /// No space is left.
    DiskFull {
        /// From when.
        when: When,
        /// For how long.
        for_us: u64,
    },
    /// A bit of a synced sector turns over.
    Rot {
        /// When.
        when: When,
    },
    /// A client's connection breaks for both ends.
    Reset {
        /// When.
        when: When,
        /// Whose, counted from 0.
        client: usize,
    },
    /// A client takes its connection for broken; the broker hears nothing of it.
    HalfOpen {
        /// When.
        when: When,
        /// Whose, counted from 0.
        client: usize,
    },
    /// Nothing comes through for a while.
    Stall {
        /// From when.
        when: When,
        /// For how long.
        for_us: u64,
        /// Whose connections, counted from 0.
        client: usize,
        /// Which way.
        direction: Direction,
    },
    /// The wall clock jumps.
    WallJump {
        /// When.
        when: When,
        /// By how much, forward or back.
        by_ms: i64,
    },
}

fn dropped() -> Pages {
    Pages::Dropped
}

impl Fault {
    /// The moment that sets it off.
    pub fn when(&self) -> &When {
        match self {
            Fault::PowerCut { when, .. }
            | Fault::ProcessCrash { when, .. }
            | Fault::Shutdown { when, .. }
            | Fault::DiskError { when, .. }
            | Fault::SlowDisk { when, .. }
            | Fault::DiskFull { when, .. }
            | Fault::Rot { when }
            | Fault::Reset { when, .. }
            | Fault::HalfOpen { when, .. }
            | Fault::Stall { when, .. }
            | Fault::WallJump { when, .. } => when,
        }
    }

    /// The client it concerns, if it is one.
    pub fn client(&self) -> Option<usize> {
        match self {
            Fault::Reset { client, .. } | Fault::HalfOpen { client, .. } | Fault::Stall { client, .. } => {
                Some(*client)
            }
            Fault::PowerCut { .. }
            | Fault::ProcessCrash { .. }
            | Fault::Shutdown { .. }
            | Fault::DiskError { .. }
            | Fault::SlowDisk { .. }
            | Fault::DiskFull { .. }
            | Fault::Rot { .. }
            | Fault::WallJump { .. } => None,
        }
    }
}
