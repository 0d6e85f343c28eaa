//! The one rule about what a campaign must have reached: a fault that was ordered and never does anything is a green
//! test that lies.
//!
//! - At least `SCENARIO_RUNS_MIN` runs of a written scenario: every effect that its `must_reach` names. What one run shows is
//!   chance.
//! - At least `SEEDS_MIN` generated runs: the effect of every kind of fault there is. Fewer runs say nothing, since a
//!   single fault may come at a moment where there is nothing to break.
//! - At least `MARK_SEEDS_MIN` generated runs: every mark of the core.

use crate::effects::Effects;
use crate::fault::EFFECTS;
use crate::scenario::Scenario;
use vowmq_core::marks::MARKS;

/// So many runs of a written scenario have to show what it is for.
pub const SCENARIO_RUNS_MIN: u64 = 20;

/// So many generated runs have to show every kind of fault at work.
pub const SEEDS_MIN: u64 = 1_000;

/// So many generated runs have to come to every mark.
pub const MARK_SEEDS_MIN: u64 = 3_000;

/// The marks that these runs should have come to and have not.
pub(crate) fn missed_marks(runs: u64, scenario: Option<&Scenario>, counts: &[u64]) -> Vec<String> {
    if scenario.is_some() || runs < MARK_SEEDS_MIN {
        return Vec::new();
    }
    let unreached = MARKS.iter().zip(counts).filter(|(_, count)| **count == 0);
    unreached.map(|((name, _), _)| format!("mark: {name}")).collect()
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
