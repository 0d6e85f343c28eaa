//! AMQP clients, as CI runs them: some hundreds of seeds, each fault in effect, and that a seed means one run.

use vowmq_sim::amqp::{generate, run, run_recorded};
use vowmq_sim::seeds::campaign;

#[test]
fn some_hundreds_of_seeds_keep_every_promise() {
    // Broken: a promise of the broker to AMQP clients. `vowmq-sim amqp --seeds N..N+1 --trace` shows the run of the seed
    // that is named.
    let summary = campaign(0..400, 2, false, &|seed| run(&generate(seed)), &|| {});
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures.first());
    for effect in
        ["connection reset", "consumer left", "power cut", "process killed", "reading paused", "shutdown"]
    {
        assert!(summary.effects.of(effect) > 0, "{effect:?} never took effect");
    }
    assert!(summary.deliveries > 10_000 && summary.ends > 100, "the runs are idle: {summary:#?}");
}

#[test]
fn a_seed_means_one_run() {
    // Broken: a failing seed could not be replayed.
    for seed in 0..10 {
        let scenario = generate(seed);
        let (first, second) = (run_recorded(&scenario), run_recorded(&scenario));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_ne!(first.trace_hash, run_recorded(&generate(seed + 1)).trace_hash, "the seed decides");
    }
}
