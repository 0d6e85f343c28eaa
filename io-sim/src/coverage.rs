//! The one rule about what a campaign must have reached: a fault that was ordered and never does anything is a green
//! test that lies.
//!
//! - Runs of a written scenario: every effect that its `must_reach` names.
//! - At least `SEEDS_MIN` generated runs: the effect of every kind of fault that their scenarios order. Fewer runs say
//!   nothing, since a single fault may come at a moment where there is nothing to break.

use crate::effects::Effects;
use crate::fault::Fault;
use crate::scenario::Scenario;

/// So many generated runs have to show every kind of fault at work.
pub const SEEDS_MIN: u64 = 1_000;

/// The effect by which a fault of this kind is seen to have worked.
pub(crate) fn effect_of(fault: &Fault) -> &'static str {
    match fault {
        Fault::PowerCut { .. } => "power cut",
        Fault::ProcessCrash { .. } => "process crash",
        Fault::Shutdown { .. } => "shutdown",
        Fault::DiskError { .. } => "disk error",
        Fault::SlowDisk { .. } => "slow disk",
        Fault::DiskFull { .. } => "disk full",
        Fault::Rot { .. } => "rot",
        Fault::Reset { .. } => "network reset",
        Fault::HalfOpen { .. } => "half-open",
        Fault::Stall { .. } => "network stall",
        Fault::WallJump { .. } => "wall clock jump",
    }
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
        Some(scenario) => scenario.must_reach.iter().map(String::as_str).collect(),
        None if runs >= SEEDS_MIN => ordered.iter().map(|(name, _)| name).collect(),
        None => Vec::new(),
    };
    wanted.into_iter().filter(|name| had.of(name) == 0).map(str::to_owned).collect()
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
        assert_eq!(missed(SEEDS_MIN, None, &ordered, &had), ["rot"]);
        assert!(missed(SEEDS_MIN - 1, None, &ordered, &had).is_empty(), "too few runs to say so");
    }
}
