//! Bounded exhaustive search: short workloads, every disk operation as a crash point, every state that the crash may
//! leave (operations under way not begun, done, or written and not synced; any subset of what was not synced), then
//! recovery and audit; and another crash at every operation of that recovery.
//!
//! Random seeds find what is likely; this finds everything that is small.

mod workload;

use crate::fault::{Fault, Leaves, UnderWay, When};
use crate::outcome::{Outcome, Violation};
use crate::run::run;
use crate::scenario::Scenario;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use workload::{STEPS, Workload};

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps of the longest workload: 1 to 4.
    pub steps: usize,
    /// Of more unsynced items than this, only the first so many are tried in every subset; the others go together with
    /// the last of these.
    pub items: u32,
    /// Steps of the longest workload whose recoveries are crashed as well.
    pub recovery_steps: usize,
}

/// What a search brought.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Workloads tried.
    pub workloads: u64,
    /// Disk operations at which one was crashed.
    pub crash_points: u64,
    /// Runs: workloads times crash points times what may be left.
    pub runs: u64,
    /// Of these, with another crash inside the recovery.
    pub recovery_runs: u64,
    /// Places where the bound left subsets out.
    pub bounded: u64,
    /// The first failing scenario of each workload that fails, with what it broke.
    pub failures: Vec<(Scenario, Violation)>,
}

/// Searches on so many threads. `each` is called after every workload with the number of those done and of all. Ends
/// early, with what it has, when `stop` is set.
pub fn exhaust(
    bounds: Bounds,
    jobs: usize,
    each: &(dyn Fn(usize, usize) + Sync),
    stop: &AtomicBool,
) -> Search {
    let workloads = Workload::all(bounds.steps);
    let before_the_steps = run(&workload::before_the_steps()).course.operations;
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Search::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(workload) = workloads.get(index) else { return };
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let found = Enumeration::new(bounds, workload, before_the_steps).finish();
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    total.add(found);
                    each(total.workloads as usize, workloads.len());
                }
            });
        }
    });
    let mut search = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    search.failures.sort_by(|left, right| left.0.why.cmp(&right.0.why));
    search
}

impl Search {
    fn add(&mut self, other: Search) {
        self.workloads += other.workloads;
        self.crash_points += other.crash_points;
        self.runs += other.runs;
        self.recovery_runs += other.recovery_runs;
        self.bounded += other.bounded;
        self.failures.extend(other.failures);
    }
}

/// All crashes of one workload.
struct Enumeration {
    bounds: Bounds,
    scenario: Scenario,
    /// The first disk operation to crash at: those before the first step are the same for all workloads.
    first: u64,
    crash_recoveries: bool,
    search: Search,
}

impl Enumeration {
    fn new(bounds: Bounds, workload: &Workload, before_the_steps: u64) -> Enumeration {
        let first = match workload.steps.len() {
            0 | 1 => 1,
            _ => before_the_steps + 1,
        };
        let crash_recoveries = workload.steps.len() <= bounds.recovery_steps;
        let search = Search { workloads: 1, ..Search::default() };
        Enumeration { bounds, scenario: workload.scenario(), first, crash_recoveries, search }
    }

    fn finish(mut self) -> Search {
        if let Some(whole) = self.try_with(Vec::new()) {
            for operation in self.first..=whole.course.operations {
                self.search.crash_points += 1;
                if self.crash_at(Vec::new(), When::DiskOperation(operation), self.crash_recoveries).is_none()
                {
                    break; // one failure a workload is enough to look at
                }
            }
        }
        self.search
    }

    /// Tries everything that a crash at this moment may leave; none when a promise was broken.
    fn crash_at(&mut self, before: Vec<Fault>, when: When, and_recovery: bool) -> Option<()> {
        let cut = |operations: &[UnderWay], kept| {
            let leaves = Some(Leaves { operations: operations.to_vec(), kept });
            let mut faults = before.clone();
            faults.push(Fault::PowerCut { when: when.clone(), down_us: 1_000, leaves });
            faults
        };
        let place = before.len();
        let first = self.try_with(cut(&[], 0))?;
        let under_way = first.course.cuts.get(place).map_or(0, |size| size.operations);
        for operations in combinations(under_way) {
            let lost = self.try_with(cut(&operations, 0))?;
            let items = lost.course.cuts.get(place).map_or(0, |size| size.items);
            self.search.bounded += u64::from(items > self.bounds.items);
            let bits = items.min(self.bounds.items);
            for subset in 1..1u64 << bits {
                let all_others = if subset >> (bits - 1) & 1 == 1 { u64::MAX << bits } else { 0 };
                self.try_with(cut(&operations, subset | all_others))?;
            }
            if and_recovery {
                self.crash_recovery(&cut(&operations, 0), &lost)?;
                if items > 0 {
                    let faults = cut(&operations, u64::MAX);
                    let kept = self.try_with(faults.clone())?;
                    self.crash_recovery(&faults, &kept)?;
                }
            }
        }
        Some(())
    }

    /// Crashes the recovery that followed the crash, at each of its operations.
    fn crash_recovery(&mut self, faults: &[Fault], outcome: &Outcome) -> Option<()> {
        // The first recovery is that of the empty store; if the crash hit it, the second one is what it was for.
        let recoveries = &outcome.course.recoveries;
        let after = match recoveries.len() {
            0 | 1 => return Some(()),
            2 => 0,
            _ => recoveries[0],
        };
        let end = recoveries[recoveries.len().saturating_sub(2)];
        let before = self.search.runs;
        for operation in after + 1..=end {
            self.crash_at(faults.to_vec(), When::RecoveryOperation(operation), false)?;
        }
        self.search.recovery_runs += self.search.runs - before;
        Some(())
    }

    fn try_with(&mut self, faults: Vec<Fault>) -> Option<Outcome> {
        let scenario = Scenario { faults, ..self.scenario.clone() };
        let mut outcome = run(&scenario);
        self.search.runs += 1;
        match outcome.violation.take() {
            None => Some(outcome),
            Some(violation) => {
                self.search.failures.push((scenario, violation));
                None
            }
        }
    }
}

/// Everything that may become of so many operations.
fn combinations(operations: u32) -> Vec<Vec<UnderWay>> {
    let mut all = vec![Vec::new()];
    for _ in 0..operations {
        let longer = all.iter().flat_map(|one: &Vec<UnderWay>| {
            [UnderWay::NotBegun, UnderWay::Done, UnderWay::Written]
                .map(|next| one.iter().copied().chain([next]).collect())
        });
        all = longer.collect();
    }
    all
}
