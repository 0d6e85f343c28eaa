//! The one rule about what a campaign must have reached: a fault that was ordered and never does anything is a green
//! test that lies.
//!
//! - At least `SCENARIO_RUNS_MIN` runs of a written scenario: every effect that its `must_reach` names. What one run shows is
//!   chance.
//! - At least `SEEDS_MIN` generated runs: the effect of every kind of fault there is. Fewer runs say nothing, since a
//!   single fault may come at a moment where there is nothing to break.
//! - At least `MARK_SEEDS_MIN` generated runs: every mark of the core that their clients can lead to, those of MQTT and those
//!   of AMQP.

use crate::effects::Effects;
use crate::fault::EFFECTS;
use crate::scenario::Scenario;
use crate::seeds::Summary;
use std::ops::Range;
use vowmq_core::marks::{AMQP_MARKS, MARKS};

/// So many runs of a written scenario have to show what it is for.
pub const SCENARIO_RUNS_MIN: u64 = 20;

/// So many generated runs have to show every kind of fault at work.
pub const SEEDS_MIN: u64 = 1_000;

/// What befalls clients of AMQP.
const AMQP_EFFECTS: [&str; 6] =
    ["power cut", "process killed", "shutdown", "connection reset", "consumer left", "reading paused"];

/// So many generated runs have to come to every mark.
pub const MARK_SEEDS_MIN: u64 = 3_000;

/// The marks that these runs should have come to and have not.
pub(crate) fn missed_marks(runs: u64, scenario: Option<&Scenario>, counts: &[u64]) -> Vec<String> {
    if scenario.is_some() || runs < MARK_SEEDS_MIN {
        return Vec::new();
    }
    unreached(0..AMQP_MARKS, counts)
}

fn unreached(range: Range<usize>, counts: &[u64]) -> Vec<String> {
    let unreached = range.filter(|mark| counts[*mark] == 0);
    unreached.map(|mark| format!("mark: {}", MARKS[mark].0)).collect()
}

/// The faults and the marks of AMQP that these runs of its clients should have had or come to and have not.
pub fn missed_by_amqp(summary: &Summary, counts: &[u64]) -> Vec<String> {
    let wanted = if summary.runs >= SEEDS_MIN { &AMQP_EFFECTS[..] } else { &[] };
    let effects = wanted.iter().filter(|name| summary.effects.of(name) == 0);
    let mut missed: Vec<String> = effects.map(|name| (*name).to_owned()).collect();
    if summary.runs >= MARK_SEEDS_MIN {
        missed.extend(unreached(AMQP_MARKS..MARKS.len(), counts));
    }
    missed
}

/// The effects that these runs should have had and had not. `ordered` counts the faults that their scenarios order, by
/// the effect of each.
pub(crate) fn missed(
    runs: u64,
    scenario: Option<&Scenario>,
    ordered: &Effects,
    had: &Effects,
) -> Vec<String> {
    let wanted: Vec<&str> = match scenario {
        Some(scenario) if runs >= SCENARIO_RUNS_MIN => {
            scenario.must_reach.iter().map(String::as_str).collect()
        }
        Some(_) => Vec::new(),
        None if runs >= SEEDS_MIN => ordered.iter().map(|(name, _)| name).chain(EFFECTS).collect(),
        None => Vec::new(),
    };
    let mut missed: Vec<String> = Vec::new();
    for name in wanted.into_iter().filter(|name| had.of(name) == 0) {
        if !missed.iter().any(|other| other == name) {
            missed.push(name.to_owned());
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, a fault that does nothing any more would go unnoticed.
    #[test]
    fn a_fault_that_never_took_effect_is_missed() {
        let mut ordered = Effects::default();
        ordered.count("power cut");
        ordered.count("rot");
        let mut had = Effects::default();
        had.count("power cut");
        EFFECTS.iter().filter(|name| **name != "rot").for_each(|name| had.count(name));
        assert_eq!(missed(SEEDS_MIN, None, &ordered, &had), ["rot"]);
        assert!(missed(SEEDS_MIN - 1, None, &ordered, &had).is_empty(), "too few runs to say so");
    }
}
