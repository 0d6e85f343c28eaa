//! Many runs: seeds shared out among threads, a part of them run twice, everything counted.

use crate::coverage;
use crate::effects::Effects;
use crate::outcome::{Checker, Counts, Outcome, Violation};
use crate::scenario::Scenario;
use crate::watch::{self, RUN_MAX};
use crate::{generate, run, run_traced};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use vowmq_core::marks;

/// Of so many seeds one is run twice and compared.
const TWICE_EVERY: u64 = 16;
/// How often clocks and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Lines of a trace that lead up to its first difference.
const CONTEXT_LINES: usize = 5;

/// Which runs, and until when. Where several ends are given, the first one counts; runs under way are finished.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds, in order.
    pub seeds: Range<u64>,
    /// Threads; at least one.
    pub jobs: usize,
    /// This one under each seed's choices, instead of those that the seeds generate.
    pub scenario: Option<Scenario>,
    /// Ends after the first failure. All smaller seeds have been run then.
    pub until_failure: bool,
    /// Ends at this time.
    pub until: Option<Instant>,
    /// Ends when somebody sets this.
    pub stop: Arc<AtomicBool>,
}

/// What a campaign brought.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that were finished.
    pub runs: u64,
    /// Runs that were compared with a second one.
    pub compared: u64,
    /// The counts of all runs together.
    pub counts: Counts,
    /// Faults that the scenarios order, by the effect that shows them at work.
    pub ordered: Effects,
    /// What failed, by seed.
    pub failures: Vec<Failure>,
    /// How often each mark of the core was reached meanwhile in this process, in the order of `MARKS`.
    pub marks: Vec<u64>,
    /// Effects and marks that these runs must have had and had not.
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

impl Campaign {
    /// The scenarios of these seeds, on one thread, to the end.
    pub fn new(seeds: Range<u64>) -> Campaign {
        let stop = Arc::new(AtomicBool::new(false));
        Campaign { seeds, jobs: 1, scenario: None, until_failure: false, until: None, stop }
    }

    /// Runs them. `each` is called after every run with what it brought. A run without end is reported and left behind
    /// with its thread.
    pub fn run(&self, each: &mut dyn FnMut(&Summary)) -> Summary {
        let marks_before = marks::counts();
        let next = Arc::new(AtomicU64::new(self.seeds.start));
        let (to_us, news) = mpsc::channel();
        let mut working = self.jobs.max(1);
        let mut running: Vec<Running> = vec![None; working];
        for worker in 0..working {
            let (campaign, next, to_us) = (self.clone(), next.clone(), to_us.clone());
            std::thread::spawn(move || campaign.work(worker, &next, &to_us));
        }
        let mut summary = Summary::default();
        while working > 0 {
            let mut ended = Vec::new();
            match news.recv_timeout(LOOK) {
                Ok((worker, News::Begins(seed))) => running[worker] = Some((seed, Instant::now())),
                Ok((worker, News::Ends(own))) => {
                    running[worker] = None;
                    ended.push(own);
                }
                Ok((_, News::Rests)) => working -= 1,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            for endless in running.iter_mut().filter(|running| is_endless(running)) {
                working -= 1;
                ended.extend(endless.take().map(|(seed, _)| endless_run(seed)));
            }
            for own in ended {
                each(&own);
                summary.add(own);
            }
            let failed = self.until_failure && !summary.failures.is_empty();
            if failed || self.until.is_some_and(|until| Instant::now() >= until) {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        summary.failures.sort_by_key(|failure| failure.seed);
        let (ordered, had) = (&summary.ordered, &summary.counts.effects);
        summary.missed = coverage::missed(summary.runs, self.scenario.as_ref(), ordered, had);
        summary.marks = marks::counts().iter().zip(marks_before).map(|(now, before)| now - before).collect();
        summary.missed.extend(coverage::missed_marks(summary.runs, self.scenario.as_ref(), &summary.marks));
        summary
    }

    fn work(&self, worker: usize, next: &AtomicU64, to_us: &Sender<(usize, News)>) {
        let tell = |news| to_us.send((worker, news)).is_ok();
        while !self.stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.seeds.end || !tell(News::Begins(seed)) {
                break;
            }
            let mut own = Summary::default();
            own.take(seed, self.scenario.as_ref());
            tell(News::Ends(own));
        }
        tell(News::Rests);
    }
}

fn is_endless(running: &Running) -> bool {
    running.is_some_and(|(_, since)| since.elapsed() > RUN_MAX)
}

fn endless_run(seed: u64) -> Summary {
    let failure = Failure { seed, violation: watch::endless(), size: usize::MAX };
    Summary { runs: 1, failures: vec![failure], ..Summary::default() }
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
            if outcome.trace_hash != run(&scenario).trace_hash {
                outcome.violation = Some(two_courses(&run_traced(&scenario), &run_traced(&scenario)));
            }
        }
        self.runs += 1;
        self.counts.add(&outcome.counts);
        scenario.faults.iter().for_each(|fault| self.ordered.count(fault.effect()));
        if let Some(violation) = outcome.violation {
            self.failures.push(Failure { seed, violation, size: scenario.size() });
        }
    }

    fn add(&mut self, other: Summary) {
        self.runs += other.runs;
        self.compared += other.compared;
        self.counts.add(&other.counts);
        self.ordered.add(&other.ordered);
        self.failures.extend(other.failures);
    }
}

/// The violation of a run that took two courses: where they part, and what led up to it.
fn two_courses(first: &Outcome, second: &Outcome) -> Violation {
    let at_us = first.counts.simulated_us.min(second.counts.simulated_us);
    let violation =
        |text| Violation { checker: Checker::Determinism, subject: "run".to_owned(), text, at_us };
    let longest = first.trace.len().max(second.trace.len());
    let Some(parted) = (0..longest).find(|line| first.trace.get(*line) != second.trace.get(*line)) else {
        let text = "run twice, it took two courses; run twice again with a trace, it took one, so that the \
                    difference cannot be shown";
        return violation(text.to_owned());
    };
    let mut lines =
        vec![format!("run twice, it took two courses; line {} is the first to differ", parted + 1)];
    let context = parted.saturating_sub(CONTEXT_LINES)..parted;
    lines.extend(first.trace[context].iter().map(|line| format!("       | {line}")));
    for (name, outcome) in [("first ", first), ("second", second)] {
        let line = outcome.trace.get(parted).map_or("(it has ended)", String::as_str);
        lines.push(format!("{name} | {line}"));
    }
    violation(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(lines: &[&str]) -> Outcome {
        Outcome { trace: lines.iter().map(|line| (*line).to_owned()).collect(), ..Outcome::default() }
    }

    /// Were it to fail, a run that cannot be repeated would be reported without a place to look at.
    #[test]
    fn the_first_difference_is_shown_with_what_led_up_to_it() {
        let first = traced(&["1", "2", "3", "4", "5", "6", "left", "8"]);
        let second = traced(&["1", "2", "3", "4", "5", "6", "right"]);
        let text = two_courses(&first, &second).text;
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "run twice, it took two courses; line 7 is the first to differ",
                "       | 2",
                "       | 3",
                "       | 4",
                "       | 5",
                "       | 6",
                "first  | left",
                "second | right",
            ]
        );
        assert!(two_courses(&traced(&["1"]), &traced(&["1", "2"])).text.contains("first  | (it has ended)"));
    }
}
