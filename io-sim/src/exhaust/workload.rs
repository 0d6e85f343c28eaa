//! The short workloads: a publisher, a subscriber, and up to four steps, one after the other or all at once.

use crate::fault::Fault;
use crate::scenario::{
    Action, BrokerSettings, ClientProgram, DiskSettings, NetworkSettings, Operation, Scenario, Will,
};

/// What a step may be.
pub const STEPS: [&str; 10] = [
    "publish with QoS 1",
    "publish with QoS 2",
    "set a retained message",
    "clear the retained message",
    "subscribe to the retained topic",
    "unsubscribe",
    "the subscriber says goodbye",
    "the subscriber breaks off and leaves a will",
    "the subscriber begins its session afresh",
    "the publisher takes its own connection over",
];

/// When the first step is taken: both clients are there by then.
const BEGIN_US: u64 = 12_000;
/// From one step to the next: longer than any exchange takes.
const APART_US: u64 = 3_000;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Numbers of `STEPS`.
    pub steps: Vec<usize>,
    /// All steps at the same time.
    pub together: bool,
}

impl Workload {
    /// All workloads of up to so many steps; those of more than one also at once.
    pub fn all(steps_max: usize) -> Vec<Workload> {
        let mut all = Vec::new();
        let mut longest = vec![Vec::new()];
        for _ in 0..steps_max {
            let longer = |steps: &Vec<usize>| {
                let steps = steps.clone();
                (0..STEPS.len()).map(move |step| [&steps[..], &[step]].concat())
            };
            longest = longest.iter().flat_map(longer).collect();
            for steps in &longest {
                all.push(Workload { steps: steps.clone(), together: false });
                if steps.len() > 1 {
                    all.push(Workload { steps: steps.clone(), together: true });
                }
            }
        }
        all
    }

    /// As a scenario without faults.
    pub fn scenario(&self) -> Scenario {
        let [mut subscriber, mut publisher] = clients();
        for (index, step) in self.steps.iter().enumerate() {
            let at_us = BEGIN_US + if self.together { 0 } else { index as u64 * APART_US };
            let (by_publisher, action) = action(*step);
            let client = if by_publisher { &mut publisher } else { &mut subscriber };
            client.operations.push(Operation { at_us, action });
        }
        let names: Vec<&str> = self.steps.iter().map(|step| STEPS[*step]).collect();
        let how = if self.together { " at once" } else { "" };
        Scenario {
            why: format!("Exhaustive search: {}{how}.", names.join(", ")),
            fault_phase_us: BEGIN_US + 10 * APART_US,
            broker: BrokerSettings { segment_kib: 64, horizon_block: 2, ..BrokerSettings::default() },
            network: NetworkSettings {
                latency_min_us: 100,
                latency_max_us: 100,
                slow_percent: 0,
                split_percent: 0,
                coalesce_percent: 0,
                late_drain_percent: 0,
                notice_us: 1_000,
                ..NetworkSettings::default()
            },
            disk: DiskSettings { latency_min_us: 200, latency_max_us: 200, ..DiskSettings::default() },
            clients: vec![subscriber, publisher],
            faults: Vec::<Fault>::new(),
            ..Scenario::empty(1)
        }
    }
}

/// What all workloads have in common, up to their first step.
pub(super) fn before_the_steps() -> Scenario {
    let nothing = Workload { steps: Vec::new(), together: false };
    Scenario { fault_phase_us: BEGIN_US, last_power_cut: false, ..nothing.scenario() }
}

fn clients() -> [ClientProgram; 2] {
    let client = |id: &str| ClientProgram { keep_alive_s: 0, reconnect_us: 6_000, ..ClientProgram::new(id) };
    let at = |at_us, action| Operation { at_us, action };
    let subscribe = Action::Subscribe { filter: "t".to_owned(), qos: 2, more: Vec::new() };
    let subscriber = ClientProgram {
        will: Some(Will { topic: "w".to_owned(), qos: 1, retain: false, delay_s: 0 }),
        operations: vec![
            at(3_000, Action::Connect { clean: false, session_expiry_s: None }),
            at(6_000, subscribe),
        ],
        ..client("subscriber")
    };
    let wills = Action::Subscribe { filter: "w".to_owned(), qos: 1, more: Vec::new() };
    let publisher = ClientProgram {
        operations: vec![
            at(3_000, Action::Connect { clean: false, session_expiry_s: None }),
            at(6_000, wills),
        ],
        ..client("publisher")
    };
    [subscriber, publisher]
}

/// What a step is, and whether the publisher does it.
fn action(step: usize) -> (bool, Action) {
    let publish = |topic: &str, qos, retain, size| {
        (true, Action::Publish { topic: topic.to_owned(), qos, retain, size, count: 1, expiry_s: None })
    };
    match step {
        0 => publish("t", 1, false, 20),
        1 => publish("t", 2, false, 20),
        2 => publish("r", 1, true, 20),
        3 => publish("r", 1, true, 0),
        4 => (false, Action::Subscribe { filter: "r".to_owned(), qos: 2, more: Vec::new() }),
        5 => (false, Action::Unsubscribe { filter: "t".to_owned(), more: Vec::new() }),
        6 => (false, Action::Disconnect { session_expiry_s: None, keeps_will: false }),
        7 => (false, Action::Drop),
        8 => (false, Action::Connect { clean: true, session_expiry_s: None }),
        _ => (true, Action::TakeOver),
    }
}
