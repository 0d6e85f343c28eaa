//! A scenario in words: its clients, what they do, and what goes wrong.

use super::scenario::{FaultKind, Scenario};
use crate::outcome::Violation;
use crate::page::Subject;
use crate::words::fields;
use serde::Serialize;
use serde_json::json;
use std::fmt;

impl Scenario {
    /// A name for each client, by its index.
    pub(super) fn client_names(&self) -> Vec<String> {
        let numbered =
            |kind: &'static str, count: usize| (0..count).map(move |number| format!("{kind} {number}"));
        let names = numbered("publisher", self.publishers.len())
            .chain(numbered("consumer", self.consumers.len()))
            .chain(numbered("lodger", self.lodgers.len()))
            .chain(numbered("sensor", self.sensors.len()))
            .chain(self.listener.iter().map(|_| "listener".to_owned()));
        names.chain(["drainer".to_owned()]).collect()
    }

    /// What a page tells of it, and of what its run broke.
    pub fn subject(&self, violation: Option<&Violation>) -> Subject {
        Subject {
            why: self.why.clone(),
            seed: self.seed,
            clients: self.client_names(),
            steps: self.steps(),
            faults: json!(self.faults),
            object: violation.map(|violation| violation.subject.clone()),
        }
    }

    /// What happens in it, a line each.
    pub fn steps(&self) -> Vec<String> {
        let mut plans: Vec<String> = self.publishers.iter().map(said).collect();
        plans.extend(self.consumers.iter().map(said));
        plans.extend(self.lodgers.iter().map(said));
        plans.extend(self.sensors.iter().map(said));
        plans.extend(self.listener.iter().map(said));
        let queues = self.queues.iter().map(|queue| format!("{:>10}  queue{}", "", said(queue)));
        let named = self.client_names().into_iter().zip(plans);
        let clients = named.map(|(name, plan)| format!("{:>10}  {name}{plan}", ""));
        let faults = self.faults.iter();
        let faults = faults.map(|fault| format!("{:>10.6}  FAULT {}", fault.at_us as f64 / 1e6, fault.kind));
        queues.chain(clients).chain(faults).collect()
    }
}

fn said(plan: &impl Serialize) -> String {
    fields(&serde_json::to_value(plan).unwrap_or_default())
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::PowerCut => f.write_str("power cut"),
            FaultKind::Kill => f.write_str("the process is killed"),
            FaultKind::Shutdown => f.write_str("the operator stops the broker"),
            FaultKind::Reset { client } => write!(f, "the connection of client {client} breaks"),
        }
    }
}
