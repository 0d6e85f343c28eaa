//! Takes faults, clients and operations away.

use super::tree::{count, items, operations};
use super::{Shrinkable, Shrinker, Verdict};
use crate::scenario::Scenario;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// So few faults and operations that any two of them are tried together.
const PAIRS_MAX: usize = 24;

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// All faults of a kind, then pieces.
    pub(super) fn fewer_faults(&mut self) {
        let kinds: BTreeSet<String> = items(&mut self.value.clone(), "faults").iter().map(kind).collect();
        for unwanted in kinds {
            self.propose(|scenario| items(scenario, "faults").retain(|fault| kind(fault) != unwanted));
        }
        self.pieces(
            |scenario| count(scenario, "faults"),
            |scenario, piece| {
                items(scenario, "faults").drain(piece);
            },
        );
    }

    /// Clients with all that concerns them.
    pub(super) fn fewer_clients(&mut self) {
        for client in (0..count(&self.value, "clients")).rev() {
            self.propose(|scenario| without_client(scenario, client));
        }
    }

    /// Operations of all clients.
    pub(super) fn fewer_operations(&mut self) {
        self.pieces(|scenario| operations(scenario).len(), without_operations);
    }

    /// Any two of operations and faults.
    pub(super) fn without_pairs(&mut self) {
        let all = |scenario: &Value| operations(scenario).len() + count(scenario, "faults");
        let mut second = all(&self.value);
        if second > PAIRS_MAX {
            return;
        }
        while second > 1 {
            second -= 1;
            for first in (0..second).rev() {
                let both = |scenario: &mut Value| {
                    without_one(scenario, second);
                    without_one(scenario, first);
                };
                if self.propose(both) {
                    second = second.min(all(&self.value));
                    break;
                }
            }
        }
    }
}

impl<S: Shrinkable, J: FnMut(&S) -> Verdict> Shrinker<S, J> {
    /// Proposes to leave out ever smaller pieces of a list, from its end.
    pub(super) fn pieces(
        &mut self,
        count: impl Fn(&Value) -> usize,
        without: impl Fn(&mut Value, Range<usize>),
    ) {
        let mut length = count(&self.value);
        while length > 0 {
            let mut end = count(&self.value);
            while end > 0 {
                let begin = end.saturating_sub(length);
                self.propose(|scenario| without(scenario, begin..end));
                end = begin.min(count(&self.value));
            }
            length /= 2;
        }
    }
}

fn kind(fault: &Value) -> String {
    fault["kind"].to_string()
}

fn without_operations(scenario: &mut Value, piece: Range<usize>) {
    for (client, operation) in operations(scenario).drain(piece).rev() {
        items(&mut scenario["clients"][client], "operations").remove(operation);
    }
}

/// Counts operations first, then faults.
fn without_one(scenario: &mut Value, index: usize) {
    let operations = operations(scenario).len();
    if index < operations {
        without_operations(scenario, index..index + 1);
    } else {
        items(scenario, "faults").remove(index - operations);
    }
}

/// Faults name clients by their index.
fn without_client(scenario: &mut Value, client: usize) {
    items(scenario, "clients").remove(client);
    items(scenario, "faults").retain_mut(|fault| {
        let Some(named) = fault.get_mut("client") else { return true };
        let index = named.as_u64().unwrap_or_default() as usize;
        if index > client {
            *named = Value::from(index - 1);
        }
        index != client
    });
}
