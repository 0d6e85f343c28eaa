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
mod network;
mod routes;
mod scenario;
mod steps;
mod talk;
mod tap;
mod wire;
mod world;

use crate::outcome::{Checker, Outcome, Violation};
use crate::run::catch_panics;
use crate::trace::Detail;
pub use scenario::{
    ConsumerPlan, FaultKind, FaultPlan, ListenerPlan, LodgerPlan, MarkPlan, PublisherPlan, QueuePlan,
    Scenario, SensorPlan, Through, generate,
};
pub(crate) use talk::Talk;
use world::World;

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, Detail::Hash)
}

/// As `run`, and the outcome has a line for everything that happens, and typed entries.
pub fn run_recorded(scenario: &Scenario) -> Outcome {
    run_with(scenario, Detail::Entries)
}

/// The name of the message with this body, if it is one of these clients'.
pub(crate) fn message_of(body: &[u8]) -> Option<String> {
    model::Key::of(body).map(|key| key.to_string())
}

fn run_with(scenario: &Scenario, detail: Detail) -> Outcome {
    let mut outcome = Outcome::default();
    let panic = catch_panics(|| outcome = World::new(scenario, detail).run());
    if let Some(text) = panic {
        outcome.violation =
            Some(Violation { checker: Checker::Panic, subject: "broker".to_owned(), text, at_us: 0 });
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Page, Window};
    use crate::recording::{Fate, What};

    /// Were it to fail, a page would tell another run than the one that failed, or leave out what was said in it.
    #[test]
    fn a_recorded_run_is_the_same_run_and_its_page_tells_it() {
        let scenario = generate(50);
        let outcome = run_recorded(&scenario);
        assert_eq!(outcome.trace_hash, run(&scenario).trace_hash);
        let arrived = |beginning: &str| {
            let of = outcome.entries.iter().filter(|entry| entry.text.starts_with(beginning));
            of.filter(|entry| matches!(entry.what, What::Flight { fate: Fate::Done, .. })).count()
        };
        for beginning in
            ["opens connection", "Connection.StartOk", "Queue.Declare ", "Basic.Publish m", "Basic.Deliver"]
        {
            assert!(arrived(beginning) > 0, "{beginning:?} is not told");
        }
        let stored = |text: &str| text.contains("is published into the queue of");
        let told = outcome.entries.iter().any(|entry| match &entry.what {
            What::Operation { details, .. } => details.iter().any(|detail| stored(detail)),
            _ => false,
        });
        assert!(told, "the records are not told");
        let subject = scenario.subject(outcome.violation.as_ref());
        let page = Page { subject, outcome: &outcome, command: "again" }.render(Window::default());
        for part in ["publisher 0", "drainer", "FAULT"] {
            assert!(page.contains(part), "{part:?} is not on the page");
        }
    }
}
