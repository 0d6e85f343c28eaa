//! Many runs from seeds, of the shell or of AMQP clients: shared out among threads, a part of them run twice, everything
//! counted.

use crate::effects::Effects;
use crate::outcome::{Checker, Outcome, Violation};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of so many seeds one is run twice and compared.
const TWICE_EVERY: u64 = 16;

/// What a campaign brought.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs.
    pub runs: u64,
    /// Runs that were compared with a second one.
    pub compared: u64,
    /// Messages that subscribers received.
    pub deliveries: u64,
    /// Ends of the broker's process of all kinds.
    pub ends: u64,
    /// Simulated microseconds.
    pub simulated_us: u64,
    /// Faults and peculiarities that took effect.
    pub effects: Effects,
    /// What was broken, by seed.
    pub failures: Vec<(u64, Violation)>,
}

/// Runs these seeds by `run` on so many threads, `until_failure` or all. `each` is called after every run.
pub fn campaign(
    seeds: Range<u64>,
    jobs: usize,
    until_failure: bool,
    run: &(dyn Fn(u64) -> Outcome + Sync),
    each: &(dyn Fn() + Sync),
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let found = until_failure && !summary.lock().expect("no run panics").failures.is_empty();
                    if seed >= seeds.end || found {
                        break;
                    }
                    let own = run_seed(seed, run);
                    summary.lock().expect("no run panics").add(own);
                    each();
                }
            });
        }
    });
    let mut summary = summary.into_inner().expect("no run panics");
    summary.failures.sort_by_key(|(seed, _)| *seed);
    summary
}

fn run_seed(seed: u64, run: &(dyn Fn(u64) -> Outcome + Sync)) -> Summary {
    let mut outcome = run(seed);
    let compared = seed.is_multiple_of(TWICE_EVERY);
    if compared && run(seed).trace_hash != outcome.trace_hash {
        let (subject, text) = ("run".to_owned(), "run twice, it took two courses".to_owned());
        outcome.violation = Some(Violation { checker: Checker::Determinism, subject, text, at_us: 0 });
    }
    Summary {
        runs: 1,
        compared: u64::from(compared),
        deliveries: outcome.counts.deliveries,
        ends: outcome.counts.crashes,
        simulated_us: outcome.counts.simulated_us,
        effects: outcome.counts.effects,
        failures: outcome.violation.map(|violation| (seed, violation)).into_iter().collect(),
    }
}

impl Summary {
    fn add(&mut self, other: Summary) {
        self.runs += other.runs;
        self.compared += other.compared;
        self.deliveries += other.deliveries;
        self.ends += other.ends;
        self.simulated_us += other.simulated_us;
        self.effects.add(&other.effects);
        self.failures.extend(other.failures);
    }
}
