//! Takes chance out of network and disk, and the settings back to what they are by default.

use super::tree::{forget, leaves, put};
use super::{Shrinker, Verdict};
use crate::scenario::Scenario;
use serde_json::Value;

/// Fates of unsynced sectors that leave nothing to chance, the easiest to understand first.
const FATES: [&str; 4] = ["lost", "kept", "zero", "garbage"];

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// Whole sections first, then field by field.
    pub(super) fn calmer(&mut self) {
        self.propose(|scenario| forget(scenario, "/broker"));
        for path in leaves(&self.value, "/broker") {
            self.propose(|scenario| forget(scenario, &path));
        }
        self.propose(|scenario| {
            calm(scenario, "/network");
            calm(scenario, "/disk");
        });
        for section in ["/network", "/disk"] {
            self.propose(|scenario| calm(scenario, section));
            for path in leaves(&self.value, section) {
                self.propose(|scenario| calm(scenario, &path));
            }
        }
        self.one_fate();
    }

    /// What is not synced has one fate.
    fn one_fate(&mut self) {
        let weights = self.value["disk"]["survival"].clone();
        for fate in FATES {
            let mut survival = weights.clone();
            for (name, weight) in survival.as_object_mut().into_iter().flatten() {
                *weight = Value::from(u64::from(name == fate));
            }
            if survival == weights || self.propose(|scenario| scenario["disk"]["survival"] = survival) {
                return;
            }
        }
    }
}

/// Leaves nothing to chance at and below this path: no percentage, nothing extra, and the least latency always. What
/// has no calm value is as by default.
fn calm(scenario: &mut Value, below: &str) {
    for path in leaves(scenario, below) {
        let Some((section, name)) = path.rsplit_once('/') else { continue };
        if section.ends_with("survival") || name == "latency_min_us" {
            continue;
        }
        if name.ends_with("_percent") || name == "slow_us" {
            put(scenario, &path, Value::from(0));
        } else if name == "latency_max_us" {
            let least = scenario.pointer(&format!("{section}/latency_min_us")).cloned();
            put(scenario, &path, least.unwrap_or_default());
        } else {
            forget(scenario, &path);
        }
    }
}
