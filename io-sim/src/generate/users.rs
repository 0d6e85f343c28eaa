//! Users: in some scenarios clients have to prove who they are, and others try to connect in their names.

use crate::chance::Draws;
use crate::fault::{Fault, When};
use crate::scenario::Scenario;

/// Makes clients prove who they are, in some scenarios; with some settings, or with all.
pub(super) fn add_some(draws: &mut Draws, scenario: &mut Scenario) {
    if !draws.percent(20) {
        return;
    }
    scenario.broker.users = true;
    for settings in &mut scenario.restarts {
        settings.users = draws.percent(80);
    }
    let (clients, end_us) = (scenario.clients.len() as u64, scenario.fault_phase_us);
    for _ in 0..draws.between(0, 6) {
        let (when, client) = (When::AtUs(draws.below(end_us)), draws.below(clients) as usize);
        scenario.faults.push(Fault::Intruder { when, client });
    }
}
