//! Runs that may have no end. Simulated time and events are bounded, but a broker that goes round in circles within
//! one call lets neither go on: only a clock outside the run notices.

use crate::outcome::{Checker, Outcome, Violation};
use crate::scenario::Scenario;
use crate::{run, run_traced};
use std::sync::mpsc;
use std::time::Duration;

/// Runs take well below a second.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(60);

/// Runs a scenario on a thread of its own, with a readable trace if that is asked for. None: it has not come to an
/// end within 60 seconds, and its thread is left behind, to end with the process.
pub fn run_watched(scenario: &Scenario, readable: bool) -> Option<Outcome> {
    watched(scenario, if readable { run_traced } else { run })
}

/// As `run_watched`, for whatever runs.
pub(crate) fn watched<S: Clone + Send + 'static>(scenario: &S, run: fn(&S) -> Outcome) -> Option<Outcome> {
    let (to_us, outcome) = mpsc::channel();
    let scenario = scenario.clone();
    std::thread::spawn(move || {
        // Nobody listens any more when it took too long.
        let _ = to_us.send(run(&scenario));
    });
    outcome.recv_timeout(RUN_MAX).ok()
}

/// What is wrong with a run without end.
pub fn endless() -> Violation {
    let seconds = RUN_MAX.as_secs();
    let text = format!("it has not come to an end after {seconds} s: something goes round in circles");
    Violation { checker: Checker::Progress, subject: "run".to_owned(), text, at_us: 0 }
}
