//! kill -9, again and again: the real binary, real sockets, real files.
//!
//! Several publishers send numbered messages with QoS 1 and 2 to a durable subscriber. At a random moment the broker
//! is killed and started again. In the end every acknowledged message must have arrived, those of QoS 2 once, and
//! each publisher's in order. Rounds: `SIGKILL_ROUNDS` (default 12).

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vowmq_tests::client::{Audit, Publisher, Received, Subscriber};
use vowmq_tests::{Vowmq, free_address, vowmq};

const PUBLISHERS: usize = 4;

fn number_of(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
        Err(_) => default,
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled() {
    let rounds = number_of("SIGKILL_ROUNDS", 12);
    let seed = number_of("SIGKILL_SEED", u64::from(std::process::id()));
    eprintln!("{rounds} rounds; SIGKILL_SEED={seed} repeats the moments");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let configuration = directory.path().join("vowmq.toml");
    std::fs::write(
        &configuration,
        "segment_bytes = \"256 KiB\"\n[limits]\npacket_bytes = \"64 KiB\"\nconnect_bytes = \"16 KiB\"\n",
    )
    .expect("the configuration");
    let arguments = ["--config", configuration.to_str().expect("a path in UTF-8")];
    let store = directory.path().join("store");
    let address = free_address();
    let audit = Arc::new(Mutex::new(Audit::of_all()));
    let stop = Arc::new(AtomicBool::new(false));

    let mut broker = Vowmq::start_at(&store, &address, &arguments);
    Subscriber::prepare(&address, "subscriber", "t/#");
    let subscriber = Subscriber::start(&address, "subscriber", Received::new(), &audit);
    let publishers: Vec<_> =
        (0..PUBLISHERS).map(|number| Publisher::start(&address, number, 0, &audit, &stop)).collect();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(random.random_range(20..400)));
        broker.kill();
        broker = Vowmq::start_at(&store, &address, &arguments);
        assert!(!subscriber.has_ended(), "round {round}: the subscriber gave up");
    }
    stop.store(true, Ordering::Relaxed);
    publishers.into_iter().for_each(Publisher::join);
    let patience = Instant::now() + Duration::from_secs(30);
    while audit.lock().expect("nobody panicked").missing() > 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10)); // a poll of what another thread counts
    }
    subscriber.join();
    let audit = audit.lock().expect("nobody panicked");
    eprintln!("{}", audit.summary());
    assert!(audit.acknowledged() > 20 * rounds, "too little went on to say anything");
    audit.check();

    assert_eq!(broker.terminate(), Some(0));
    let path = store.to_str().expect("a path in UTF-8");
    let check = vowmq(&["check", "--data-dir", path]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
