//! How often each fault and each peculiarity took effect: a fault that does nothing is a test that lies.

use serde::Serialize;
use std::collections::BTreeMap;

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effects(BTreeMap<&'static str, u64>);

impl Effects {
    pub(crate) fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    pub(crate) fn count_many(&mut self, name: &'static str, times: u64) {
        if times > 0 {
            *self.0.entry(name).or_default() += times;
        }
    }

    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Effects) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// How often this took effect.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All counters by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
