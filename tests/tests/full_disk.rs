//! A volume that is full, again and again: 64 MiB with segments of 1 MiB, filled by a publisher and drained by a
//! subscriber. Nothing is lost, and nobody repairs anything. Rounds: `FULL_DISK_ROUNDS` (default 5).
//!
//! The volume is a tmpfs in a mount namespace of its own, so that nothing is left behind. Making one takes the rights of
//! root, or `unshare -rm`, or `sudo` without a password. Where none of these works the test fails: a promise that is not
//! tested should not look as if it were. `FULL_DISK=skip` says that this is known.

use mqttbytes::QoS;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vowmq_tests::Vowmq;
use vowmq_tests::peer::Peer;

/// Set for the process that runs inside the namespace.
const INSIDE: &str = "FULL_DISK_INSIDE";

const VOLUME_BYTES: u64 = 64 * 1024 * 1024;

const SETTINGS: [&str; 8] = [
    "--set",
    "segment_bytes=1 MiB",
    "--set",
    "limits.packet_bytes=256 KiB",
    "--set",
    "limits.connect_bytes=64 KiB",
    "--set",
    "limits.free_bytes=1 MiB",
];

/// Bytes of a payload.
const PAYLOAD: usize = 4096;

/// How long a publisher waits for an acknowledgement before it takes the broker for full.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ways into a mount namespace.
const WAYS: [&[&str]; 3] = [&["unshare", "-m"], &["unshare", "-rm"], &["sudo", "-n", "-E", "unshare", "-m"]];

#[test]
fn a_full_volume_is_filled_and_drained_again_and_again() {
    // Broken: a full disk loses messages, stops the broker for good, or needs a person.
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    let works = |way: &&&[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]);
        let tried = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(way) = WAYS.iter().find(works) else {
        let known = env::var("FULL_DISK").is_ok_and(|word| word == "skip");
        assert!(
            known,
            "no volume of 64 MiB can be mounted here (tried: {WAYS:?}), so this was not tested. Run it as root, or set \
             FULL_DISK=skip to go without"
        );
        return eprintln!("NOT TESTED: no volume can be mounted here, and FULL_DISK=skip is set");
    };
    let this = env::current_exe().expect("a test has a path");
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).arg(this).args(["--nocapture", "--exact"]);
    command.arg("a_full_volume_is_filled_and_drained_again_and_again").env(INSIDE, "1");
    let status = command.status().expect("it was just tried");
    assert!(status.success(), "see above");
}

fn inside() {
    let rounds: u64 = env::var("FULL_DISK_ROUNDS").map_or(5, |text| text.parse().expect("a number"));
    let place = tempfile::tempdir().expect("a directory");
    let volume = place.path().join("volume");
    std::fs::create_dir(&volume).expect("a directory");
    let size = format!("size={VOLUME_BYTES}");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&volume).status();
    assert!(mount.expect("mount can be started").success());
    run(&volume, rounds);
    // The namespace ends with this process; the directory below has to be free before.
    assert!(Command::new("umount").arg(&volume).status().expect("umount can be started").success());
}

fn run(store: &Path, rounds: u64) {
    let mut broker = Vowmq::start(store, &SETTINGS);
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    subscriber.subscribe("t", QoS::AtLeastOnce);
    subscriber.disconnect();
    let mut numbers = 0..;
    for round in 0..rounds {
        let mut publisher = Peer::connect(broker.address, "publisher", false);
        let mut acknowledged = BTreeSet::new();
        let mut flying = BTreeMap::new();
        fill(&mut publisher, &mut flying, &mut numbers, &mut acknowledged);
        let bytes = acknowledged.len() * PAYLOAD;
        assert!(
            bytes as u64 > VOLUME_BYTES / 4,
            "round {round}: held after {bytes} bytes: space did not come back"
        );
        assert!(!flying.is_empty(), "round {round}: the volume was never full");
        if round % 2 == 1 {
            broker.kill();
            broker = Vowmq::start(store, &SETTINGS);
        }
        let arrived = drain(&broker, &acknowledged);
        let lost: Vec<_> = acknowledged.difference(&arrived).collect();
        assert!(lost.is_empty(), "round {round}: {} lost, the first {:?}", lost.len(), lost.first());
        if round % 2 == 0 {
            // Publishers go on by themselves: what was held is acknowledged, and arrives.
            let note = |number| {
                acknowledged.insert(number);
            };
            let patience = Duration::from_secs(30);
            publisher.publish_numbers("t", &mut flying, 0, patience, || None, note).expect("connected");
            assert!(flying.is_empty(), "round {round}: still held although there is room");
            let rest = drain(&broker, &acknowledged.difference(&arrived).copied().collect());
            let all: BTreeSet<u64> = arrived.union(&rest).copied().collect();
            assert!(acknowledged.is_subset(&all), "round {round}: what was held was lost");
        }
        eprintln!("round {round}: {} messages, {} MiB", acknowledged.len(), bytes / 1024 / 1024);
    }
    assert_eq!(broker.terminate(), Some(0));
}

/// Publishes until no acknowledgement comes any more.
fn fill(
    publisher: &mut Peer,
    flying: &mut BTreeMap<u16, u64>,
    numbers: &mut std::ops::RangeFrom<u64>,
    acknowledged: &mut BTreeSet<u64>,
) {
    let more = || {
        let number = numbers.next()?;
        let mut payload = format!("{number} ").into_bytes();
        payload.resize(PAYLOAD, b'x');
        Some((number, payload))
    };
    let note = |number| {
        acknowledged.insert(number);
    };
    publisher.publish_numbers("t", flying, 50, PATIENCE, more, note).expect("a full disk cuts nobody off");
}

/// Takes messages until all of these have come, and what else is there.
fn drain(broker: &Vowmq, wanted: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    assert!(subscriber.session_present);
    let mut arrived = BTreeSet::new();
    let until = Instant::now() + Duration::from_secs(60);
    while !wanted.is_subset(&arrived) && Instant::now() < until {
        // Looked at in stretches: the comparison is long.
        for _ in 0..1000 {
            let Some(came) = subscriber.take(Duration::from_millis(300)) else { break };
            assert_eq!(came.payload.len(), PAYLOAD);
            let text = String::from_utf8(came.payload).expect("text");
            let number = text.split(' ').next().and_then(|number| number.parse().ok());
            arrived.insert(number.expect("a number"));
        }
    }
    arrived
}
