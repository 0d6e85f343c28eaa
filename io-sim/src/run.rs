//! Runs one scenario.

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::trace::Detail;
use crate::world::World;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// While a scenario runs on this thread: the words of its last panic.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a scenario: the same scenario brings the same outcome, always and everywhere.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, Detail::Hash)
}

/// As `run`, and the outcome has the trace in words.
pub fn run_traced(scenario: &Scenario) -> Outcome {
    run_with(scenario, Detail::Lines)
}

/// As `run_traced`, and the outcome has the typed entries too.
pub fn run_recorded(scenario: &Scenario) -> Outcome {
    run_with(scenario, Detail::Entries)
}

fn run_with(scenario: &Scenario, detail: Detail) -> Outcome {
    let mut world = World::new(scenario, detail);
    if let Some(words) = catch_panics(|| world.run()) {
        world.panicked(words);
    }
    if detail == Detail::Entries {
        // A broker that is broken may panic here, which tells nothing more.
        let _ = catch_panics(|| world.look_on());
    }
    world.finish()
}

/// Runs something; the words of its last panic if there was one, be it that a task of a runtime caught it.
pub(crate) fn catch_panics(run: impl FnOnce()) -> Option<String> {
    catch_words();
    PANIC.set(Some(String::new()));
    let ended = catch_unwind(AssertUnwindSafe(run));
    let words = PANIC.take().unwrap_or_default();
    (ended.is_err() || !words.is_empty()).then_some(words)
}

/// Keeps the words of panics within runs instead of printing them; other panics print as before.
fn catch_words() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let running = PANIC.with_borrow_mut(|words| {
                let running = words.is_some();
                if let Some(words) = words {
                    *words = info.to_string();
                }
                running
            });
            if !running {
                before(info);
            }
        }));
    });
}
