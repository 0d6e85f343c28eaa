//! The exhaustive search as CI runs it.

use std::sync::atomic::AtomicBool;
use vowmq_sim::exhaust::{Bounds, exhaust};

#[test]
fn no_crash_of_a_one_step_workload_breaks_a_promise() {
    // Broken: a promise, by a crash that needs no luck at all.
    let bounds = Bounds { steps: 1, items: 6, recovery_steps: 1 };
    let search = exhaust(bounds, 2, &|_, _| {}, &AtomicBool::new(false));
    assert!(search.failures.is_empty(), "{:#?}", search.failures.first());
    assert!(search.crash_points > 100 && search.recovery_runs > 1_000, "{search:?}");
}
