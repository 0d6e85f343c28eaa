//! Cuts off what comes after the failure, and ties faults to times instead of counts.

use super::tree::{items, put};
use super::{Shrinker, Verdict};
use crate::fault::When;
use crate::scenario::Scenario;
use crate::watch::run_watched;
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// Nothing begins after the failure; no last power cut, if it is not for that; and a short phase of faults.
    pub(super) fn end_early(&mut self) {
        if let Some(failed_us) = self.failed_us {
            self.propose(|scenario| {
                for client in items(scenario, "clients") {
                    items(client, "operations").retain(|operation| !is_after(&operation["at_us"], failed_us));
                }
                items(scenario, "faults").retain(|fault| !is_after(&fault["when"]["at_us"], failed_us));
            });
        }
        self.propose(|scenario| scenario["last_power_cut"] = Value::from(false));
        let last_us = last_us(&self.value);
        let before_us = self.scenario.fault_phase_us;
        for end_us in [last_us + 1, last_us + 10_000, last_us + 100_000, last_us.midpoint(before_us)] {
            if end_us < before_us && self.propose(|scenario| scenario["fault_phase_us"] = Value::from(end_us))
            {
                break;
            }
        }
    }

    /// A fault that waits for a number of operations, writes or syncs gets the time at which it set in, or becomes a
    /// power cut at a time at which the process ended: then it stays where it is when others go.
    pub(super) fn moments_as_times(&mut self) {
        for index in (0..self.scenario.faults.len()).rev() {
            let fault = &self.scenario.faults[index];
            if matches!(fault.when(), When::AtUs(_)) || self.left == 0 {
                continue;
            }
            let words = format!("{fault:?}");
            let Some(outcome) = run_watched(&self.scenario, true) else { return };
            self.runs += 1;
            self.left = self.left.saturating_sub(outcome.counts.broker_inputs);
            let times = |ending: &str| {
                let lines = outcome.trace.iter().filter(|line| line.ends_with(ending));
                lines.filter_map(|line| time_of(line)).collect::<BTreeSet<u64>>()
            };
            let when = format!("/faults/{index}/when");
            let timed = times(&words)
                .into_iter()
                .any(|at_us| self.propose(|scenario| put(scenario, &when, json!({ "at_us": at_us }))));
            if timed {
                continue;
            }
            for at_us in times(" is cut").union(&times(" is killed")) {
                let cut = json!({ "kind": "power_cut", "when": { "at_us": at_us }, "down_us": 1_000 });
                if self.propose(|scenario| put(scenario, &format!("/faults/{index}"), cut)) {
                    break;
                }
            }
        }
    }
}

fn is_after(time: &Value, end_us: u64) -> bool {
    time.as_u64().is_some_and(|at| at > end_us)
}

/// When the last operation or fault of the scenario begins, as far as that has a time.
fn last_us(scenario: &Value) -> u64 {
    let mut scenario = scenario.clone();
    let faults =
        items(&mut scenario, "faults").iter().filter_map(|fault| fault["when"]["at_us"].as_u64()).max();
    let clients = items(&mut scenario, "clients").iter_mut();
    let last = clients.filter_map(|client| items(client, "operations").last()?["at_us"].as_u64()).max();
    last.max(faults).unwrap_or_default()
}

/// The time of a line of the trace, which begins with seconds and six digits of microseconds.
fn time_of(line: &str) -> Option<u64> {
    let (seconds, micros) = line.split_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?)
}
