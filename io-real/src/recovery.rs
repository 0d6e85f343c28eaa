//! Drives the core's `Recovery` over a disk until there is a broker or a refusal. No listener opens before.

use crate::clock::Clock;
use crate::disk::Disk;
use crate::report;
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
    let mut under_way: usize = 0;
    loop {
        while let Some(output) = recovery.poll_output() {
            match output {
                Output::Disk { op, request } => {
                    under_way += 1;
                    disk.begin(op, request);
                }
                Output::Report(event) => report::event(&event),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::directory::{Access, Directory};
    use crate::disk::threads::DiskThreads;

    async fn start(place: &std::path::Path, settings: Settings) -> Result<Recovered, Refusal> {
        let directory = Directory::new(place, Access::ReadWrite);
        let mut disk = DiskThreads::start(directory).expect("threads can be had");
        recover(&mut disk, &Clock::start(), settings, Seed([7; 32]), Purpose::Serve).await
    }

    #[tokio::test]
    async fn a_start_on_a_full_disk_is_no_broken_invariant() {
        // If it failed, a broker that is started while its disk is full would abort instead of serving consumers.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let mut settings = Settings::default();
        settings.limits.packet_bytes = 16 * 1024;
        settings.limits.connect_bytes = 16 * 1024;
        settings.segment_bytes = 64 * 1024;
        start(place.path(), settings).await.map(drop).expect("an empty store can be used");
        settings.limits.free_bytes = u64::MAX;
        start(place.path(), settings).await.map(drop).expect("a store on a full disk can be used");
    }
}
