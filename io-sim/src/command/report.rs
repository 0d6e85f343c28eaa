//! What a campaign brought: for people, for programs, and for CI.

use super::{command_for, write_file};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use strum::IntoEnumIterator;
use vowmq_core::marks::MARKS;
use vowmq_sim::campaign::{Failure, Summary};
use vowmq_sim::fault::EFFECTS;
use vowmq_sim::outcome::{Checker, Counts};

/// A campaign that is over.
pub(super) struct Report<'a> {
    pub(super) summary: &'a Summary,
    pub(super) first_seed: u64,
    /// Ctrl-C ended it.
    pub(super) interrupted: bool,
    pub(super) elapsed: Duration,
    /// Of all threads.
    pub(super) cpu: Duration,
    /// The scenario's, if one was given.
    pub(super) file: Option<&'a Path>,
}

impl Report<'_> {
    /// Prints it for people.
    pub(super) fn print(&self) {
        let (summary, counts) = (self.summary, &self.summary.counts);
        let rate = |count: u64| count as f64 / self.elapsed.as_secs_f64().max(1e-9);
        say!(
            "{} seeds from {} on ({} of them run twice) in {:.1} s: {:.0} seeds and {:.0} broker inputs a second",
            summary.runs,
            self.first_seed,
            summary.compared,
            self.elapsed.as_secs_f64(),
            rate(summary.runs),
            rate(counts.broker_inputs)
        );
        say!("{}", counted(counts));
        say!("faults, how often each took effect and was ordered:");
        for name in EFFECTS {
            let (took, ordered) = (counts.effects.of(name), summary.ordered.of(name));
            if took + ordered > 0 {
                say!("  {took:>12}  {ordered:>10} ordered  {name}");
            }
        }
        say!("what else happened:");
        print_effects(counts.effects.iter().filter(|(name, _)| !EFFECTS.contains(name)));
        for name in &summary.missed {
            say!("{}", self.missed(name));
        }
        if self.interrupted {
            say!("interrupted: this is what was run until then");
        }
        for (checker, failures) in summary.by_checker() {
            let shortest = failures[0];
            let (count, seed) = (failures.len(), shortest.seed);
            let seeds = if count == 1 { "seed" } else { "seeds" };
            say!("BROKEN: {checker}, by {count} {seeds}; the shortest is seed {seed}:");
            say!("  {}", shortest.violation);
            say!("  {}", self.replay(shortest));
            say!("  {}", self.shrink(shortest));
        }
        if summary.is_clean() {
            say!("every promise was kept");
        }
    }

    /// Prints it for programs, on one line.
    pub(super) fn print_json(&self) {
        let (summary, counts) = (self.summary, &self.summary.counts);
        let failures: Vec<serde_json::Value> = summary
            .failures
            .iter()
            .map(|failure| {
                serde_json::json!({
                    "seed": failure.seed,
                    "size": failure.size,
                    "violation": failure.violation,
                    "replay": self.replay(failure),
                    "shrink": self.shrink(failure),
                })
            })
            .collect();
        let all = serde_json::json!({
            "first_seed": self.first_seed,
            "interrupted": self.interrupted,
            "seeds": summary.runs,
            "compared": summary.compared,
            "seconds": self.elapsed.as_secs_f64(),
            "cpu_seconds": self.cpu.as_secs_f64(),
            "broker_inputs": counts.broker_inputs,
            "packets": counts.packets,
            "deliveries": counts.deliveries,
            "crashes": counts.crashes,
            "simulated_us": counts.simulated_us,
            "effects": counts.effects,
            "marks": MARKS.iter().map(|(name, _)| *name).zip(&summary.marks).collect::<BTreeMap<_, _>>(),
            "ordered": summary.ordered,
            "failures": failures,
            "missed": summary.missed,
        });
        say!("{all}");
    }

    /// Writes it as JUnit XML: one test case a checker, and one for what had to be reached.
    pub(super) fn write_junit(&self, path: &Path) -> Result<(), String> {
        let by_checker = self.summary.by_checker();
        let mut suite = TestSuite::new("vowmq-sim");
        suite.set_time(self.elapsed);
        for checker in Checker::iter() {
            let status = match by_checker.get(&checker) {
                None => TestCaseStatus::success(),
                Some(failures) => self.failed(failures),
            };
            suite.add_test_case(TestCase::new(checker.to_string(), status));
        }
        let mut reached = TestCaseStatus::success();
        if !self.summary.missed.is_empty() {
            reached = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let lines: Vec<String> = self.summary.missed.iter().map(|name| self.missed(name)).collect();
            reached.set_message("something never took effect").set_description(lines.join("\n"));
        }
        suite.add_test_case(TestCase::new("reached", reached));
        let mut report = quick_junit::Report::new("vowmq-sim");
        report.set_time(self.elapsed).add_test_suite(suite);
        write_file(path, &report.to_string().map_err(|error| error.to_string())?)
    }

    /// The status of a checker that these runs failed, the shortest first.
    fn failed(&self, failures: &[&Failure]) -> TestCaseStatus {
        let shortest = failures[0];
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        let seeds: Vec<String> = failures.iter().take(20).map(|failure| failure.seed.to_string()).collect();
        status.set_message(format!("seed {}: {}", shortest.seed, shortest.violation));
        status.set_description(format!(
            "{}\n\nreplay: {}\nshrink: {}\n\nfailed by {} seeds, the shortest scenario first: {}",
            shortest.violation,
            self.replay(shortest),
            self.shrink(shortest),
            failures.len(),
            seeds.join(", ")
        ));
        status
    }

    fn missed(&self, name: &str) -> String {
        let ordered = match self.file {
            Some(_) => "the scenario is for it".to_owned(),
            None => format!("it was ordered {} times", self.summary.ordered.of(name)),
        };
        format!("NOT REACHED: {name:?}, though {ordered}: these runs do not show what they should")
    }

    fn replay(&self, failure: &Failure) -> String {
        command_for("replay", failure.seed, self.file) + " --trace"
    }

    fn shrink(&self, failure: &Failure) -> String {
        command_for("shrink", failure.seed, self.file) + " --html small.html"
    }
}

/// What happened in numbers, on one line.
pub(super) fn counted(counts: &Counts) -> String {
    format!(
        "{} broker inputs, {} packets, {} deliveries, {} crashes in {:.1} s of simulated time",
        counts.broker_inputs,
        counts.packets,
        counts.deliveries,
        counts.crashes,
        counts.simulated_us as f64 / 1e6
    )
}

/// Effects, one a line.
pub(super) fn print_effects<'a>(effects: impl Iterator<Item = (&'a str, u64)>) {
    for (name, count) in effects {
        say!("  {count:>12}  {name}");
    }
}
