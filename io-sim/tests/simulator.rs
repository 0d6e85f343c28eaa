//! The simulator as CI runs it: every written scenario, some hundred seeds, and that a seed means one run.

use std::path::{Path, PathBuf};
use vowmq_sim::campaign::Campaign;
use vowmq_sim::claim::Claim;
use vowmq_sim::corpus::replay_all;
use vowmq_sim::outcome::Checker;
use vowmq_sim::planted::{Bug, Workshop};
use vowmq_sim::scenario::{self, Scenario, Sync};
use vowmq_sim::shrink::shrink;
use vowmq_sim::{generate, run, run_traced};

/// Runs of each written scenario, each with other residual choices.
const RUNS_EACH: u64 = 60;

fn scenarios(folder: &Path, found: &mut Vec<(PathBuf, Scenario)>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            scenarios(&path, found);
        } else if path.file_name().is_some_and(|name| name != "vowmq.toml") {
            let scenario = scenario::read(&path).unwrap_or_else(|error| panic!("{error}"));
            found.push((path, scenario));
        }
    }
}

#[test]
fn written_scenarios_keep_every_promise_and_reach_what_they_are_for() {
    // Broken: a promise of the broker, or a scenario that shows nothing any more.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    scenarios(&root.join("sim-scenarios"), &mut found);
    assert!(found.len() >= 16, "the scenarios are where they were");
    for (path, scenario) in found {
        assert!(!scenario.why.is_empty(), "{} says why", path.display());
        let campaign = Campaign { jobs: 2, scenario: Some(scenario), ..Campaign::new(0..RUNS_EACH) };
        let summary = campaign.run(&mut |_| {});
        assert!(
            summary.is_clean(),
            "{}: {:#?} {:?}",
            path.display(),
            summary.failures.first(),
            summary.missed
        );
        let owed = summary.counts.effects.of("acknowledged before it was delivered");
        assert!(
            summary.counts.deliveries > 0 && owed + summary.counts.crashes > 0,
            "{} is idle",
            path.display()
        );
    }
}

#[test]
fn recorded_runs_keep_every_promise_and_show_what_they_are_for() {
    // Broken: something that was mended once, or a record that shows nothing any more.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/runs");
    let entries = replay_all(&root).expect("the corpus can be read");
    assert!(entries.len() >= 7, "the records are where they were");
    for entry in entries {
        assert!(entry.kept.is_well(), "{}: {}", entry.path.display(), entry.kept);
        let record = entry.record.expect("what is well was read");
        assert!(!record.why.is_empty(), "{} says why", entry.path.display());
    }
}

#[test]
fn some_hundred_seeds_keep_every_promise() {
    // Broken: a promise of the broker. The failure names the seed; `vowmq-sim replay SEED --trace` shows the run.
    let summary = Campaign { jobs: 2, ..Campaign::new(0..400) }.run(&mut |_| {});
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures.first());
    for effect in
        ["power cut", "process crash", "sector lost", "sector torn", "torn tail cut off", "network reset"]
    {
        assert!(summary.counts.effects.of(effect) > 0, "{effect:?} never took effect");
    }
}

#[test]
fn a_seed_means_one_run() {
    // Broken: a failing seed could not be replayed.
    for seed in 0..20 {
        let scenario = generate(seed);
        let (first, second) = (run_traced(&scenario), run_traced(&scenario));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
    }
}

#[test]
fn a_broker_that_breaks_its_word_is_shrunk_to_what_shows_it() {
    // Broken: a failure would be handed over with all that happened to be around it.
    for seed in 0..8 {
        let mut scenario = generate(seed);
        scenario.broker.sync = Sync::Never;
        let Some(violation) = run(&scenario).violation.filter(|broken| broken.checker != Checker::Panic)
        else {
            continue;
        };
        let (claim, shrunk) = shrink(&scenario, 60).expect("it fails");
        let small = &shrunk.scenario;
        assert_eq!(claim, Claim::of(&violation, &scenario), "seed {seed}");
        let again = run(small).violation.expect("what is shrunk still fails");
        assert_eq!(claim, Claim::of(&again, small), "seed {seed}");
        assert!(small.size() <= 12 && small.size() <= scenario.size(), "seed {seed}: {}", small.size());
    }
}

#[test]
fn every_planted_bug_can_be_planted_and_taken_out() {
    // Broken: a planted bug whose place in the sources has changed, so that nobody hunts it any more.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let bugs = Bug::read_all(&root.join("corpus/planted-bugs")).expect("every header can be read");
    assert!(!bugs.is_empty(), "the patches are where they were");
    let folder = tempfile::tempdir().expect("a directory");
    let workshop = Workshop::new(&root, folder.path()).expect("the sources can be copied");
    for bug in bugs {
        let done = workshop.apply(&bug, false).and_then(|()| workshop.apply(&bug, true));
        assert_eq!(done, Ok(()), "{}", bug.name);
    }
}
