//! What goes wrong in a run, and when.

use crate::scenario::BrokerSettings;
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

/// What a power cut makes of a disk operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnderWay {
    /// It has not begun.
    NotBegun,
    /// It is done, and nobody has heard of it.
    Done,
    /// It is written and not synced.
    Written,
}

/// Exactly what a power cut leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaves {
    /// Of the operations under way, in the order in which they were ordered; those not named have not begun.
    pub operations: Vec<UnderWay>,
    /// A bit for each changed name, then for each file its length and its sectors that are not durable, lowest first:
    /// set where the change stays.
    pub kept: u64,
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
        /// Exactly what it leaves, in place of what is drawn; it comes at once then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leaves: Option<Leaves>,
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
    /// The disk says that it has written and synced a batch, and has not.
    LostWrite {
        /// The write; one that is no batch is let pass.
        when: When,
    },
    /// The disk writes a batch to another place of the log, and says that all is well.
    MisdirectedWrite {
        /// The write; one that is no batch is let pass.
        when: When,
    },
    /// A read returns a sector as it was before it was written.
    StaleRead {
        /// The read.
        when: When,
    },
    /// The broker's process stands still: it was stopped, or its machine gives it no time.
    Pause {
        /// From when.
        when: When,
        /// For how long.
        for_us: u64,
    },
    /// The operator changes the settings while the broker serves.
    Reload {
        /// When.
        when: When,
        /// The settings from then on.
        broker: Box<BrokerSettings>,
    },
    /// A client's connection breaks for both ends.
    Reset {
        /// When.
        when: When,
        /// Whose, counted from 0; everybody's when nobody is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<usize>,
    },
    /// A client takes its connection for broken; the broker hears nothing of it.
    HalfOpen {
        /// When.
        when: When,
        /// Whose, counted from 0.
        client: usize,
    },
    /// Nothing comes through for a while: a partition.
    Stall {
        /// From when.
        when: When,
        /// For how long.
        for_us: u64,
        /// Whose connections, counted from 0; everybody's when nobody is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<usize>,
        /// Which way.
        direction: Direction,
    },
    /// Somebody else connects under a client's identifier, and does not know its password.
    Intruder {
        /// When.
        when: When,
        /// Whose, counted from 0.
        client: usize,
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

/// What each kind of fault is counted as when it takes effect, by `Fault::effect`.
pub const EFFECTS: [&str; 17] = [
    "power cut",
    "process crash",
    "shutdown",
    "disk error",
    "slow disk",
    "disk full",
    "rot",
    "write lost",
    "write misdirected",
    "read stale",
    "process paused",
    "settings reloaded",
    "network reset",
    "half-open",
    "network stall",
    "wall clock jump",
    "intruder",
];

impl Fault {
    /// What it is counted as when it takes effect: one of `EFFECTS`.
    pub fn effect(&self) -> &'static str {
        let index = match self {
            Fault::PowerCut { .. } => 0,
            Fault::ProcessCrash { .. } => 1,
            Fault::Shutdown { .. } => 2,
            Fault::DiskError { .. } => 3,
            Fault::SlowDisk { .. } => 4,
            Fault::DiskFull { .. } => 5,
            Fault::Rot { .. } => 6,
            Fault::LostWrite { .. } => 7,
            Fault::MisdirectedWrite { .. } => 8,
            Fault::StaleRead { .. } => 9,
            Fault::Pause { .. } => 10,
            Fault::Reload { .. } => 11,
            Fault::Reset { .. } => 12,
            Fault::HalfOpen { .. } => 13,
            Fault::Stall { .. } => 14,
            Fault::WallJump { .. } => 15,
            Fault::Intruder { .. } => 16,
        };
        EFFECTS[index]
    }

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
            | Fault::LostWrite { when }
            | Fault::MisdirectedWrite { when }
            | Fault::StaleRead { when }
            | Fault::Pause { when, .. }
            | Fault::Reload { when, .. }
            | Fault::Reset { when, .. }
            | Fault::HalfOpen { when, .. }
            | Fault::Stall { when, .. }
            | Fault::Intruder { when, .. }
            | Fault::WallJump { when, .. } => when,
        }
    }

    /// Whether it takes effect within a disk operation, rather than at a moment of its own.
    pub(crate) fn hits_an_operation(&self) -> bool {
        matches!(
            self,
            Fault::DiskError { .. }
                | Fault::LostWrite { .. }
                | Fault::MisdirectedWrite { .. }
                | Fault::StaleRead { .. }
        )
    }

    /// The client it concerns, if it is one.
    pub fn client(&self) -> Option<usize> {
        match self {
            Fault::Reset { client, .. } | Fault::Stall { client, .. } => *client,
            Fault::HalfOpen { client, .. } | Fault::Intruder { client, .. } => Some(*client),
            _ => None,
        }
    }

    /// Names its residual choices, whatever other faults there are: a fault that is taken out of a scenario shifts
    /// nothing of the others. Two equal faults make the same choices.
    pub(crate) fn entity(&self) -> u64 {
        crate::chance::entity(&format!("{self:?}"))
    }
}
