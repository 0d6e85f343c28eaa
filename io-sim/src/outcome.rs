//! What a run brought.

use crate::disk::CutSize;
use crate::effects::Effects;
use crate::recording::Entry;
use serde::{Deserialize, Serialize};
use std::fmt;
use strum::{Display, EnumIter, EnumMessage, EnumString};

/// Which promise was broken. Written as in `ack-before-disk`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
    EnumMessage,
    EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Checker {
    /// An answer left before what it asserts was on the disk.
    AckBeforeDisk,
    /// Something acknowledged did not arrive.
    Loss,
    /// Something arrived more often than it may.
    Duplicate,
    /// Something came in the wrong order.
    Order,
    /// Something arrived that nobody published, or not so, or that its receiver had not asked for.
    Invented,
    /// A sector that held something was written again, or a segment of an earlier life was written to.
    Overwrite,
    /// Session present was not true.
    SessionPresent,
    /// A retained message was missing, or not the last one.
    Retained,
    /// Something was delivered after it had expired, or before its time.
    Expiry,
    /// Something settled was delivered again.
    CameBack,
    /// A redelivery without DUP or under another packet id.
    Redelivery,
    /// A packet id was used twice at the same time.
    PacketId,
    /// More messages in flight, or in a queue, than the limit allows.
    Window,
    /// A will was published when it should not, or not published when it should.
    Will,
    /// Something did not come to an end in time.
    Progress,
    /// An image of a checkpoint does not say what the records before it say.
    Image,
    /// A recovery did not go on where the synced records end.
    Recovery,
    /// The broker refused to start over a store that was not damaged, or named the wrong records.
    Refusal,
    /// The broker started over a store whose synced records were damaged.
    Damage,
    /// The broker stopped without a reason, or went on after it had stopped.
    Halt,
    /// A message was dropped though no bound allows it.
    Drop,
    /// The broker sent bytes that are not MQTT.
    Codec,
    /// The broker broke a rule of MQTT, or closed the connection of a client that kept them.
    Protocol,
    /// The broker panicked.
    Panic,
    /// The same scenario took another course.
    Determinism,
}

impl Checker {
    /// What it means that this promise is broken, in a sentence.
    pub fn meaning(self) -> &'static str {
        self.get_documentation().unwrap_or_default()
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which.
    pub checker: Checker,
    /// What it happened to.
    pub subject: String,
    /// What happened, in words.
    pub text: String,
    /// When, in simulated time.
    pub at_us: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at_us / 1_000_000, self.at_us % 1_000_000);
        write!(f, "{} ({}) at {seconds}.{micros:06}: {}", self.checker, self.subject, self.text)
    }
}

/// What a run brought.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The first broken promise, if any.
    pub violation: Option<Violation>,
    /// A hash of everything that happened.
    pub trace_hash: u64,
    /// Everything that happened, one line each, if it was asked for.
    pub trace: Vec<String>,
    /// The same as typed entries, if they were asked for.
    pub entries: Vec<Entry>,
    /// What was counted.
    pub counts: Counts,
    /// What an enumeration of crashes goes on.
    pub course: Course,
}

/// Where a run could have crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Disk operations ordered.
    pub operations: u64,
    /// Disk operations that recoveries had ordered whenever one of them was done.
    pub recoveries: Vec<u64>,
    /// What each power cut found, if it was told what to leave.
    pub cuts: Vec<CutSize>,
}

/// What was counted in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls of the broker's `handle`.
    pub broker_inputs: u64,
    /// Simulated microseconds.
    pub simulated_us: u64,
    /// Packets that clients sent.
    pub packets: u64,
    /// Messages that subscribers received.
    pub deliveries: u64,
    /// Ends of the broker's process of all kinds.
    pub crashes: u64,
    /// Faults and peculiarities that took effect.
    pub effects: Effects,
}

impl Counts {
    /// Adds what was counted in other runs.
    pub fn add(&mut self, other: &Counts) {
        self.broker_inputs += other.broker_inputs;
        self.simulated_us += other.simulated_us;
        self.packets += other.packets;
        self.deliveries += other.deliveries;
        self.crashes += other.crashes;
        self.effects.add(&other.effects);
    }
}
