//! The real shell under turmoil, as CI runs it: some dozens of seeds, each fault kind in effect, and that a seed
//! means one run.

use vowmq_sim::seeds::campaign;
use vowmq_sim::shell::{generate, run, run_traced};

#[test]
fn some_dozens_of_seeds_keep_every_promise() {
    // Broken: a promise of the broker, in the very code that serves. `vowmq-sim shell --seeds N..N+1 --trace` shows
    // the run of the seed that is named.
    let summary = campaign(0..150, 2, false, &|seed| run(&generate(seed)), &|| {});
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures.first());
    for effect in [
        "accepting failed",
        "connection broken off",
        "disk error",
        "fell silent",
        "flood of pings",
        "full disk",
        "goodbye",
        "link held",
        "mute connections",
        "partition",
        "partition one way",
        "power cut",
        "process kill",
        "sector lost",
        "segments lost",
        "shutdown",
        "slow disk",
        "slow link",
        "started on a full disk",
        "stopped by a disk error",
        "stopped reading",
        "taken over",
    ] {
        assert!(summary.effects.of(effect) > 0, "{effect:?} never took effect");
    }
    assert!(summary.deliveries > 5_000 && summary.ends > 100, "the runs are idle: {summary:#?}");
}

#[test]
fn a_seed_means_one_run() {
    // Broken: a failing seed could not be replayed.
    for seed in 0..10 {
        let scenario = generate(seed);
        let (first, second) = (run_traced(&scenario), run_traced(&scenario));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_ne!(first.trace_hash, run_traced(&generate(seed + 1)).trace_hash, "the seed decides");
    }
}
