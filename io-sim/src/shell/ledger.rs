//! What was promised and what was kept: messages and their recipients, connections and how they may end.
//!
//! It is told of everything when it happens: by the broker's end of a connection before bytes leave, by the disk
//! when something is on it, by the clients when something comes. The first broken promise ends the run.

mod delivery;
mod line;

pub(super) use delivery::Arrival;
pub(super) use line::Misdeed;

use super::scenario::{HOSTS, ShellScenario};
use crate::disk::Disk;
use crate::outcome::{Checker, Counts, Outcome, Violation};
use crate::payload::MessageKey;
use crate::trace::Trace;
use delivery::{Message, Recipient};
use line::Line;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The ledger of a run.
pub(super) struct Ledger {
    /// The records that are synced.
    log: crate::ledger::Ledger,
    now_ms: u64,
    trace: Trace,
    violation: Option<Violation>,
    counts: Counts,
    messages: BTreeMap<MessageKey, Message>,
    recipients: Vec<Recipient>,
    /// Acknowledged and not yet there, by recipient.
    owed: BTreeSet<(usize, MessageKey)>,
    /// Clients that have nothing left to do.
    idle: Vec<bool>,
    lines: BTreeMap<SocketAddr, Line>,
    /// Connections that the broker has accepted, and those of them that it still holds.
    wires: u64,
    wires_open: u64,
    /// The operator has asked for an end that has not come.
    ending: bool,
    /// When something came to a client that is no answer to a ping.
    came_ms: u64,
    /// Which machines' links are disturbed now.
    disturbed: [bool; HOSTS],
    /// And which are slow.
    slowed: [bool; HOSTS],
    /// Counts everything that may hold up a publisher.
    disturbances: u64,
    /// Bytes that one connection may have unsent, and those that the network takes besides.
    unsent_bytes: u64,
    window_bytes: u64,
}

impl Ledger {
    pub(super) fn new(scenario: &ShellScenario, readable: bool) -> Ledger {
        Ledger {
            log: crate::ledger::Ledger::new(),
            now_ms: 0,
            trace: Trace::new(readable),
            violation: None,
            counts: Counts::default(),
            messages: BTreeMap::new(),
            recipients: scenario.clients.iter().map(Recipient::new).collect(),
            owed: BTreeSet::new(),
            idle: vec![false; scenario.clients.len()],
            lines: BTreeMap::new(),
            wires: 0,
            wires_open: 0,
            ending: false,
            came_ms: 0,
            disturbed: [false; HOSTS],
            slowed: [false; HOSTS],
            disturbances: 0,
            unsent_bytes: scenario.broker.unsent_bytes as u64,
            window_bytes: scenario.network.window_bytes(),
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(super) fn set_now_ms(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.trace.set_now(now_ms * 1000);
    }

    /// As `Trace::note`.
    pub(super) fn note(&mut self, who: &str, numbers: &[u64], text: impl FnOnce() -> String) {
        self.trace.note(who, numbers, text);
    }

    pub(super) fn count(&mut self, effect: &'static str) {
        self.counts.effects.count(effect);
    }

    /// A promise is broken. The first one counts.
    pub(super) fn fail(&mut self, checker: Checker, subject: &str, text: impl Into<String>) {
        let violation =
            Violation { checker, subject: subject.to_owned(), text: text.into(), at_us: self.now_ms * 1000 };
        self.note("BROKEN", &[checker as u64], || violation.to_string());
        self.violation.get_or_insert(violation);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.violation.is_some()
    }

    /// What has become durable, and whether that was written where it may.
    pub(super) fn take_in_disk(&mut self, disk: &mut Disk) {
        self.log.read(disk);
        for (key, _) in self.log.take_news().stored {
            if let Some(message) = self.messages.get_mut(&key) {
                message.stored = true;
            }
        }
        if let Some(words) = disk.take_overwrite() {
            self.fail(Checker::Overwrite, "broker", words);
        }
    }

    /// A client has nothing left to do, or something again.
    pub(super) fn set_idle(&mut self, client: usize, idle: bool) {
        self.idle[client] = idle;
    }

    /// A client got something that is no answer to a ping.
    pub(super) fn something_came(&mut self) {
        self.came_ms = self.now_ms;
    }

    /// When that was last.
    pub(super) fn last_came_ms(&self) -> u64 {
        self.came_ms
    }

    /// Whether everything acknowledged is where it belongs and nobody has anything to do.
    pub(super) fn is_settled(&self) -> bool {
        self.owed.is_empty() && self.idle.iter().all(|idle| *idle)
    }

    /// What has not come to an end.
    pub(super) fn unsettled(&self) -> (Checker, String) {
        if let Some((recipient, key)) = self.owed.first() {
            let count = self.owed.len();
            let text = format!("{count} acknowledged messages did not arrive, such as {key} at c{recipient}");
            return (Checker::Loss, text);
        }
        let busy: Vec<String> = (0..self.idle.len())
            .filter(|client| !self.idle[*client])
            .map(|client| format!("c{client}"))
            .collect();
        (Checker::Progress, format!("clients have not come to rest: {}", busy.join(" ")))
    }

    pub(super) fn finish(mut self, panic: Option<String>) -> Outcome {
        if let Some(words) = panic {
            self.violation = None;
            self.fail(Checker::Panic, "run", words);
        }
        self.counts.simulated_us = self.now_ms * 1000;
        let (trace_hash, trace) = self.trace.so_far();
        Outcome { violation: self.violation, trace_hash, trace, counts: self.counts, ..Outcome::default() }
    }
}
