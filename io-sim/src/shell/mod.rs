//! The real shell of `io-real` under turmoil: its own code for accepting, reading, writing, back-pressure, time-outs
//! and shutdown, over a simulated network and the simulated disk, checked from seeds.
//!
//! ```text
//!  three machines with clients          the broker's machine
//!  ┌────────────────────────┐  turmoil  ┌──────────────────────────────────────┐
//!  │ client ── link ────────┼──────────►│ wire ── vowmq::shell ── storage ──┐  │
//!  └────────────────────────┘           └───┼───────────────────────────────┼──┘
//!         │                                 │ bytes that leave              │ what is synced
//!         ▼                                 ▼                               ▼
//!       ledger (what was promised, what was kept) ◄────────────────────── disk
//! ```
//!
//! A run is a pure function of a [`ShellScenario`]: all time is tokio's paused clock, all choices follow from the
//! seed, and everything is on one thread.

mod client;
mod director;
mod ledger;
mod machine;
mod scenario;
mod stage;
mod storage;
mod wire;

pub use scenario::{Deed, ShellClient, ShellFault, ShellNetwork, ShellScenario, generate};

use crate::outcome::Outcome;
use crate::run::catch_panics;
use stage::Stage;
use std::rc::Rc;

/// Runs a scenario: the same scenario brings the same outcome, always and everywhere.
pub fn run(scenario: &ShellScenario) -> Outcome {
    run_with(scenario, false)
}

/// As `run`, and the outcome has the trace in words.
pub fn run_traced(scenario: &ShellScenario) -> Outcome {
    run_with(scenario, true)
}

fn run_with(scenario: &ShellScenario, readable: bool) -> Outcome {
    let stage = Stage::new(scenario, readable);
    let panic = catch_panics(|| director::direct(&stage));
    let ledger = Rc::try_unwrap(stage).ok().map(|stage| stage.ledger.into_inner());
    ledger.expect("whoever shared the stage ended with the simulation").finish(panic)
}
