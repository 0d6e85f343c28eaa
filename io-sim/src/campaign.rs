//! Many runs: seeds shared out among threads, a part of them run twice, everything counted.

use crate::effects::Effects;
use crate::outcome::{Checker, Counts, Outcome, Violation};
use crate::scenario::Scenario;
use crate::{generate, run};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Of so many seeds one is run twice and compared.
const TWICE_EVERY: u64 = 16;
/// Runs take well below a second. Simulated time and events are bounded, but a broker that goes round in circles
/// within one call lets neither go on.
const RUN_MAX: Duration = Duration::from_secs(60);

/// What a campaign brought.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that were finished.
    pub runs: u64,
    /// Runs that were compared with a second one.
    pub compared: u64,
    /// The counts of all runs together.
    pub counts: Counts,
    /// What failed, by seed.
    pub failures: Vec<Failure>,
    /// Effects that the scenario says it must have and that no run had.
    pub missed: Vec<String>,
}

/// A seed that fails.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is broken.
    pub violation: Violation,
    /// How many operations and faults its scenario has: the smallest is read first.
    pub size: usize,
}

/// What a thread reports.
enum News {
    /// It begins with this seed.
    Begins(u64),
    /// It is through with it.
    Ends(Summary),
    /// It has nothing more to do.
    Rests,
}

/// What one thread is at: a seed since that time. None if it has none.
type Running = Option<(u64, Instant)>;

/// Runs these seeds on so many threads. With a scenario, that one under each seed's choices. `each` is called
/// after every run. A run without end is reported and left behind with its thread.
pub fn campaign(seeds: Range<u64>, jobs: usize, scenario: Option<&Scenario>, each: &dyn Fn()) -> Summary {
    let next = Arc::new(AtomicU64::new(seeds.start));
    let (to_us, news) = mpsc::channel();
    let mut working = jobs.max(1);
    let mut running: Vec<Running> = vec![None; working];
    for worker in 0..working {
        let (next, scenario, to_us) = (next.clone(), scenario.cloned(), to_us.clone());
        std::thread::spawn(move || {
            let tell = |news| to_us.send((worker, news)).is_ok();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end || !tell(News::Begins(seed)) {
                    break;
                }
                let mut own = Summary::default();
                own.take(seed, scenario.as_ref());
                tell(News::Ends(own));
            }
            tell(News::Rests);
        });
    }
    let mut summary = Summary::default();
    while working > 0 {
        match news.recv_timeout(Duration::from_secs(1)) {
            Ok((worker, News::Begins(seed))) => running[worker] = Some((seed, Instant::now())),
            Ok((worker, News::Ends(own))) => {
                running[worker] = None;
                summary.add(own);
                each();
            }
            Ok((_, News::Rests)) => working -= 1,
            Err(_) => {}
        }
        for endless in running.iter_mut().filter(|running| is_endless(running)) {
            working -= 1;
            summary.failures.extend(endless.take().map(|(seed, _)| endless_run(seed)));
        }
    }
    summary.failures.sort_by_key(|failure| failure.seed);
    let wanted = scenario.map_or(&[][..], |scenario| &scenario.must_reach);
    let missed = wanted.iter().filter(|name| summary.counts.effects.of(name) == 0);
    summary.missed = missed.cloned().collect();
    summary
}

fn is_endless(running: &Running) -> bool {
    running.is_some_and(|(_, since)| since.elapsed() > RUN_MAX)
}

fn endless_run(seed: u64) -> Failure {
    let text =
        format!("it has not come to an end after {} s: something goes round in circles", RUN_MAX.as_secs());
    let violation = Violation { checker: Checker::Progress, subject: "run".to_owned(), text, at_us: 0 };
    Failure { seed, violation, size: usize::MAX }
}

impl Summary {
    /// Whether every promise was kept, and the runs showed what they should.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.missed.is_empty()
    }

    /// Failures by checker, the smallest scenario first.
    pub fn by_checker(&self) -> BTreeMap<Checker, Vec<&Failure>> {
        let mut groups: BTreeMap<Checker, Vec<&Failure>> = BTreeMap::new();
        for failure in &self.failures {
            groups.entry(failure.violation.checker).or_default().push(failure);
        }
        for group in groups.values_mut() {
            group.sort_by_key(|failure| (failure.size, failure.seed));
        }
        groups
    }

    fn take(&mut self, seed: u64, scenario: Option<&Scenario>) {
        let scenario = match scenario {
            Some(scenario) => Scenario { seed, ..scenario.clone() },
            None => generate(seed),
        };
        let mut outcome = run(&scenario);
        if seed.is_multiple_of(TWICE_EVERY) {
            self.compared += 1;
            compare(&mut outcome, &run(&scenario));
        }
        self.runs += 1;
        add_counts(&mut self.counts, &outcome.counts);
        if let Some(violation) = outcome.violation {
            let operations: usize = scenario.clients.iter().map(|client| client.operations.len()).sum();
            self.failures.push(Failure { seed, violation, size: operations + scenario.faults.len() });
        }
    }

    fn add(&mut self, other: Summary) {
        self.runs += other.runs;
        self.compared += other.compared;
        add_counts(&mut self.counts, &other.counts);
        self.failures.extend(other.failures);
    }
}

fn compare(outcome: &mut Outcome, again: &Outcome) {
    if outcome.trace_hash != again.trace_hash {
        let text = "run twice, it took two courses".to_owned();
        let at_us = outcome.counts.simulated_us.min(again.counts.simulated_us);
        let subject = "run".to_owned();
        outcome.violation = Some(Violation { checker: Checker::Determinism, subject, text, at_us });
    }
}

fn add_counts(sum: &mut Counts, counts: &Counts) {
    sum.broker_inputs += counts.broker_inputs;
    sum.simulated_us += counts.simulated_us;
    sum.packets += counts.packets;
    sum.deliveries += counts.deliveries;
    sum.crashes += counts.crashes;
    let effects: &Effects = &counts.effects;
    sum.effects.add(effects);
}
