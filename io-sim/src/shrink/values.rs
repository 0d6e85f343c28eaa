//! Makes what is left smaller, shorter and rounder.

use super::tree::{forget, leaves, put};
use super::{Shrinkable, Shrinker, Verdict};
use crate::scenario::Scenario;
use serde_json::Value;
use std::collections::BTreeSet;

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// Fields of clients and faults, one by one.
    pub(super) fn simpler_values(&mut self) {
        for client in 0..self.scenario.clients.len() {
            self.propose(|scenario| forget(scenario, &format!("/clients/{client}/will")));
        }
        for path in [leaves(&self.value, "/clients"), leaves(&self.value, "/faults")].concat() {
            let field = path.rsplit('/').next().unwrap_or_default();
            // The client of a fault and its name say who it is; what is as by default is simple enough.
            if field == "client" || field == "id" || self.is_default(&path) {
                continue;
            }
            let forgotten = self.propose(|scenario| forget(scenario, &path));
            let number = self.value.pointer(&path).and_then(Value::as_u64);
            if let Some(number) = number.filter(|_| !forgotten) {
                self.smaller(&path, field, number);
            }
        }
        self.shorter_names();
        self.round_fault_phase();
    }

    /// Topics and filters become shorter: others that are there, or single letters.
    fn shorter_names(&mut self) {
        for name in self.names() {
            let names = self.names();
            let fresh = ('a'..='z').map(String::from).find(|letter| !names.contains(letter));
            let others = names.iter().cloned().chain(fresh);
            for better in others.filter(|other| (other.len(), other) < (name.len(), &name)) {
                if self.propose(|scenario| rename(scenario, &name, &better)) {
                    break;
                }
            }
        }
    }

    fn names(&self) -> BTreeSet<String> {
        let paths = leaves(&self.value, "/clients").into_iter().filter(|path| is_name(path));
        paths.filter_map(|path| Some(self.value.pointer(&path)?.as_str()?.to_owned())).collect()
    }

    fn round_fault_phase(&mut self) {
        let end_us = self.scenario.fault_phase_us;
        for unit in [1_000_000, 100_000, 10_000, 1_000] {
            let round_us = end_us.next_multiple_of(unit);
            if round_us == end_us
                || self.propose(|scenario| scenario["fault_phase_us"] = Value::from(round_us))
            {
                return;
            }
        }
    }

    /// Whether the scenario says the same without this field.
    fn is_default(&self, path: &str) -> bool {
        let mut value = self.value.clone();
        forget(&mut value, path);
        serde_json::from_value::<Scenario>(value).is_ok_and(|scenario| scenario == self.scenario)
    }
}

impl<S: Shrinkable, J: FnMut(&S) -> Verdict> Shrinker<S, J> {
    /// The first of the smaller numbers with which it fails, again and again.
    pub(super) fn smaller(&mut self, path: &str, field: &str, mut number: u64) {
        let is_time = field.ends_with("_us") || field.ends_with("_ms");
        let next = |number: u64| if is_time { rounder(number) } else { lower(number) };
        while let Some(better) = next(number)
            .into_iter()
            .find(|better| self.propose(|scenario| put(scenario, path, Value::from(*better))))
        {
            number = better;
        }
    }
}

/// Numbers below this one, the smallest first. 0 is left alone: it often has a meaning of its own.
fn lower(number: u64) -> Vec<u64> {
    let mut lower = vec![1, 2, number / 2, number.saturating_sub(3), number.saturating_sub(1)];
    lower.retain(|better| (1..number).contains(better));
    lower.dedup();
    lower
}

/// Times below this one with fewer digits that are not zero, the roundest first.
fn rounder(time: u64) -> Vec<u64> {
    let units = (0..=time.max(1).ilog10()).rev().map(|digits| 10_u64.pow(digits));
    units.map(|unit| time / unit * unit).filter(|better| *better < time).collect()
}

fn is_name(path: &str) -> bool {
    path.ends_with("/topic") || path.ends_with("/filter")
}

fn rename(scenario: &mut Value, name: &str, better: &str) {
    for path in leaves(scenario, "/clients").iter().filter(|path| is_name(path)) {
        if scenario.pointer(path).and_then(Value::as_str) == Some(name) {
            put(scenario, path, Value::from(better));
        }
    }
}
