//! Drives the core's `Recovery` over a disk until there is a broker or a refusal. No listener opens before.

use crate::clock::Clock;
use crate::disk::Disk;
use crate::report::Report;
use std::future::poll_fn;
use vowmq_core::ids::Seed;
use vowmq_core::limits::Settings;
use vowmq_core::output::Output;
use vowmq_core::{Purpose, Recovered, Recovery, Refusal};

/// Rebuilds the broker from its store.
///
/// # Errors
/// The store cannot be used; the refusal says where and what to do.
pub async fn recover<D: Disk>(
    disk: &mut D,
    clock: &Clock,
    settings: Settings,
    seed: Seed,
    purpose: Purpose,
) -> Result<Recovered, Refusal> {
    let mut recovery = Recovery::new(clock.now(), settings, seed, purpose);
    let mut report = Report::default();
    let mut under_way: usize = 0;
    loop {
        while let Some(output) = recovery.poll_output() {
            match output {
                Output::Disk { op, request } => {
                    under_way += 1;
                    disk.begin(op, request);
                }
                Output::Report(event) => report.event(clock.now(), &event),
                other => panic!("recovery orders nothing but disk operations, not {other:?}"),
            }
        }
        if let Some(end) = recovery.finish() {
            return end;
        }
        assert!(under_way > 0, "recovery has not ended and waits for nothing");
        let (op, outcome) = poll_fn(|cx| disk.poll_done(cx)).await;
        under_way -= 1;
        recovery.handle(clock.now(), op, outcome);
    }
}

/// The core's randomness, from the operating system.
///
/// # Panics
/// The operating system has no randomness to give.
pub fn random_seed() -> Seed {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    Seed(bytes)
}
