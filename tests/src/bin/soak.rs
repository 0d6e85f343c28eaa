//! The soak: publish, drain, SIGKILL every minute, restart, for as long as one likes. In the end nothing acknowledged is
//! lost, nothing of QoS 2 came twice, and neither the disk nor the memory has grown beyond what is owed.
//!
//! ```text
//! cargo run --release -p vowmq-tests --bin soak -- --minutes 60
//! ```
//!
//! Four publishers send numbered messages with QoS 1 and 2, each until it is acknowledged to the end. A subscriber takes
//! everything, and is away every other half minute, so that a backlog grows and is drained. Another one gets two of a
//! hundred messages and is away until the end: what it is owed lies scattered over all segments. A line a minute says
//! what the store takes, what of it is owed, and what the broker's memory is.

use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use vowmq_tests::client::{Audit, Publisher, Received, Subscriber};
use vowmq_tests::{Vowmq, free_address, vowmq};

const PUBLISHERS: usize = 4;

/// Bytes that a message takes in the log beside its filling, at the most: record, header and share of the padding.
const OVERHEAD_BYTES: u64 = 4096;

/// Bytes of the broker's memory that are not the messages'.
const PROGRAM_BYTES: u64 = 128 * 1024 * 1024;

/// Memory for messages on disk (`limits.cache_bytes`).
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes that a queued message takes in memory although its body is on disk, with room to spare.
const ENTRY_BYTES: u64 = 200;

/// How long upkeep may take to give back what is needed no more.
const GIVING_BACK: Duration = Duration::from_secs(20);

#[derive(Debug, Parser)]
#[command(about = "Publish, drain, SIGKILL, restart: for hours.")]
struct Arguments {
    /// How long.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Seconds between two kills.
    #[arg(long, default_value_t = 60)]
    kill_every: u64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 2000)]
    bytes: usize,
    /// Bytes of a segment.
    #[arg(long, default_value_t = 8 * 1024 * 1024)]
    segment_bytes: u64,
    /// An existing directory for the store [default: a temporary one].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// What the subscribers are owed and have got.
#[derive(Clone)]
struct Audits {
    all: Arc<Mutex<Audit>>,
    kept: Arc<Mutex<Audit>>,
}

/// The store and the memory at one moment.
struct Sample {
    file_bytes: u64,
    owed_messages: u64,
    resident_bytes: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir().expect("a directory");
    let place = arguments.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    let violations = soak(&arguments, &place.join("store"));
    violations.iter().for_each(|violation| println!("BROKEN: {violation}"));
    if violations.is_empty() {
        println!("nothing was lost, nothing came twice, disk and memory stayed within their bounds");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn soak(arguments: &Arguments, store: &Path) -> Vec<String> {
    let settings = settings(arguments);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let address = free_address();
    let audits =
        Audits { all: Arc::new(Mutex::new(Audit::of_all())), kept: Arc::new(Mutex::new(Audit::of_kept())) };
    let mut broker = Vowmq::start_at(store, &address, &settings);
    Subscriber::prepare(&address, "all", "t/#");
    Subscriber::prepare(&address, "kept", "t/+/kept");
    let stop = Arc::new(AtomicBool::new(false));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|number| Publisher::start(&address, number, arguments.bytes, &audits.all, &stop))
        .collect();
    let drainer = {
        let (address, audit, stop) = (address.clone(), Arc::clone(&audits.all), Arc::clone(&stop));
        thread::spawn(move || take_every_other_half_minute(&address, &audit, &stop))
    };
    println!("minute  file MiB  owed MiB  RSS MiB  acknowledged  recovery");
    let mut violations = Vec::new();
    let begun = Instant::now();
    let mut kill_at = begun + Duration::from_secs(arguments.kill_every);
    for minute in 1..=arguments.minutes {
        let ends = begun + Duration::from_secs(60 * minute);
        while Instant::now() < ends {
            thread::sleep(ends.min(kill_at).saturating_duration_since(Instant::now()));
            if Instant::now() >= kill_at {
                let sample = when_it_is_given_back(arguments, &broker, store, &audits);
                println!("{}", sample.line(arguments, minute, &audits, &broker));
                violations.extend(sample.violations(arguments, minute));
                broker.kill();
                broker = Vowmq::start_at(store, &address, &settings);
                kill_at = Instant::now() + Duration::from_secs(arguments.kill_every);
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    publishers.into_iter().for_each(Publisher::join);
    let received = drainer.join().expect("the subscriber came to its end");
    drain(&address, "all", received, &audits.all);
    locked(&audits.kept).acknowledged_as(&locked(&audits.all));
    drain(&address, "kept", Received::new(), &audits.kept);
    for (name, audit) in [("all", &audits.all), ("kept", &audits.kept)] {
        let audit = locked(audit);
        println!("{name}: {}", audit.summary());
        violations.extend(audit.wrong().iter().map(|wrong| format!("{name}: {wrong}")));
        if audit.missing() > 0 {
            violations.push(format!("{name}: {} acknowledged messages are lost", audit.missing()));
        }
    }
    let end = when_it_is_given_back(arguments, &broker, store, &audits);
    println!("{}", end.line(arguments, arguments.minutes, &audits, &broker));
    violations.extend(end.violations(arguments, arguments.minutes));
    if broker.terminate() != Some(0) {
        violations.push("the broker did not stop in order".into());
    }
    let check = vowmq(&["check", "--data-dir", store.to_str().expect("a path in UTF-8")]);
    println!("{}", String::from_utf8_lossy(&check.stdout).trim_end());
    if !check.status.success() {
        violations.push(String::from_utf8_lossy(&check.stderr).into_owned());
    }
    violations
}

fn settings(arguments: &Arguments) -> Vec<String> {
    let packet_bytes = (arguments.segment_bytes / 4).min(1024 * 1024);
    let settings = [
        format!("segment_bytes={}", arguments.segment_bytes),
        format!("limits.packet_bytes={packet_bytes}"),
        format!("limits.connect_bytes={}", packet_bytes.min(64 * 1024)),
        format!("limits.cache_bytes={CACHE_BYTES}"),
    ];
    settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
}

fn take_every_other_half_minute(address: &str, audit: &Arc<Mutex<Audit>>, stop: &AtomicBool) -> Received {
    let half_minute = || {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100)); // until it is time, or all ends
        }
    };
    let mut received = Received::new();
    while !stop.load(Ordering::Relaxed) {
        half_minute();
        let subscriber = Subscriber::start(address, "all", received, audit);
        half_minute();
        received = subscriber.join();
    }
    received
}

/// Takes all that is still owed, as long as something comes.
fn drain(address: &str, id: &str, received: Received, audit: &Arc<Mutex<Audit>>) {
    let subscriber = Subscriber::start(address, id, received, audit);
    let mut last = (Instant::now(), locked(audit).arrived());
    while locked(audit).missing() > 0 && last.0.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(100)); // a poll of what another thread counts
        let arrived = locked(audit).arrived();
        if arrived > last.1 {
            last = (Instant::now(), arrived);
        }
    }
    // What was acknowledged is settled before this ends.
    thread::sleep(Duration::from_secs(1));
    subscriber.join();
}

/// The store and the memory as they are soon: of a backlog that has just been drained, upkeep gives back for a while.
fn when_it_is_given_back(arguments: &Arguments, broker: &Vowmq, store: &Path, audits: &Audits) -> Sample {
    let until = Instant::now() + GIVING_BACK;
    loop {
        let sample = sample(broker, store, audits);
        if sample.violations(arguments, 0).is_empty() || Instant::now() >= until {
            return sample;
        }
        thread::sleep(Duration::from_millis(500)); // a poll of what the broker gives back
    }
}

fn sample(broker: &Vowmq, store: &Path, audits: &Audits) -> Sample {
    let files = fs::read_dir(store).expect("the store").filter_map(Result::ok);
    let file_bytes = files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
    let status = fs::read_to_string(format!("/proc/{}/status", broker.pid())).expect("the broker runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    locked(&audits.kept).acknowledged_as(&locked(&audits.all));
    let owed_messages = locked(&audits.all).missing() + locked(&audits.kept).missing();
    Sample { file_bytes, owed_messages, resident_bytes: kib * 1024 }
}

impl Sample {
    fn owed_bytes(&self, arguments: &Arguments) -> u64 {
        self.owed_messages * arguments.bytes as u64
    }

    fn line(&self, arguments: &Arguments, minute: u64, audits: &Audits, broker: &Vowmq) -> String {
        let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
        format!(
            "{minute:6}  {:8.1}  {:8.1}  {:7.1}  {:12}  {}",
            mib(self.file_bytes),
            mib(self.owed_bytes(arguments)),
            mib(self.resident_bytes),
            locked(&audits.all).acknowledged(),
            broker.recovered
        )
    }

    /// What is beyond its bound: twice what is needed and a few segments on disk; cache and table in memory.
    fn violations(&self, arguments: &Arguments, minute: u64) -> Vec<String> {
        let needed = self.owed_messages * (arguments.bytes as u64 + OVERHEAD_BYTES);
        let disk = 2 * needed + 8 * arguments.segment_bytes;
        let memory = PROGRAM_BYTES + CACHE_BYTES + self.owed_messages * ENTRY_BYTES;
        let beyond = |what: &str, bytes: u64, bound: u64| {
            let text = format!("minute {minute}: {what} {bytes} bytes, and {bound} is the bound");
            (bytes > bound).then_some(text)
        };
        let disk = beyond("the store's files take", self.file_bytes, disk);
        disk.into_iter().chain(beyond("the broker's memory is", self.resident_bytes, memory)).collect()
    }
}

fn locked(audit: &Mutex<Audit>) -> MutexGuard<'_, Audit> {
    audit.lock().unwrap_or_else(PoisonError::into_inner)
}
