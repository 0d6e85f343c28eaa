//! AMQP clients against the broker over the simulated disk: publishers with confirms and transactions, consumers that
//! acknowledge, give back and give away, power cuts and broken connections; everything drawn from a seed.
//!
//! ```text
//!  scenario ──► clients (codec: amq-protocol) ──network──► broker ──► disk
//!                        what passes the broker's door is heard by `tap` and held against `model`
//! ```

mod bridge;
mod client;
mod faults;
mod lodger;
mod model;
mod routes;
mod scenario;
mod tap;
mod wire;
mod world;

use crate::outcome::{Checker, Outcome, Violation};
use crate::run::catch_panics;
pub use scenario::{
    ConsumerPlan, FaultKind, FaultPlan, ListenerPlan, LodgerPlan, MarkPlan, PublisherPlan, QueuePlan,
    Scenario, SensorPlan, Through, generate,
};
use world::World;

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, false)
}

/// As `run`, with a line for everything that happens.
pub fn run_traced(scenario: &Scenario) -> Outcome {
    run_with(scenario, true)
}

fn run_with(scenario: &Scenario, readable: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let panic = catch_panics(|| outcome = World::new(scenario, readable).run());
    if let Some(text) = panic {
        outcome.violation =
            Some(Violation { checker: Checker::Panic, subject: "broker".to_owned(), text, at_us: 0 });
    }
    outcome
}
