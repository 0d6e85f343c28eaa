//! What is left of damaged stores: told by `check`, copied by `salvage`, whatever is damaged.

use mqttbytes::QoS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use vowmq_tests::peer::Peer;
use vowmq_tests::{Vowmq, store_place, vowmq};

const SETTINGS: [&str; 8] = [
    "--set",
    "segment_bytes=64 KiB",
    "--set",
    "limits.packet_bytes=16 KiB",
    "--set",
    "limits.connect_bytes=4 KiB",
    "--set",
    "limits.horizon_block=16",
];
const PATIENCE: Duration = Duration::from_millis(300);

/// A store with all that a store can have, several checkpoints old.
fn store() -> (TempDir, PathBuf) {
    let (place, store) = store_place();
    let broker = Vowmq::start(&store, &SETTINGS);
    for client in ["anna", "bert"] {
        let mut peer = Peer::connect(broker.address, client, false);
        peer.subscribe("m/#", QoS::ExactlyOnce);
        peer.subscribe(&format!("{client}/+"), QoS::AtLeastOnce);
        peer.disconnect();
    }
    let mut publisher = Peer::connect(broker.address, "publisher", false);
    publisher.subscribe("none", QoS::AtLeastOnce);
    for number in 0..200_u16 {
        let qos = if number % 2 == 0 { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
        let payload = format!("{number} {}", "x".repeat(1500));
        publisher.publish_and_wait(
            &format!("m/{}", number % 7),
            qos,
            1 + number,
            number % 5 == 0,
            payload.as_bytes(),
        );
        if number == 120 {
            // Some are settled, so that segments are freed.
            let mut anna = Peer::connect(broker.address, "anna", false);
            (0..100).for_each(|_| drop(anna.take(Duration::from_secs(10)).expect("comes")));
            anna.disconnect();
        }
    }
    broker.kill();
    (place, store)
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = vowmq(arguments);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("text"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// What the client gets until nothing comes for `patience`: the numbers of the messages, in order.
fn drained(broker: &Vowmq, client: &str, patience: Duration) -> Vec<u16> {
    let mut peer = Peer::connect(broker.address, client, false);
    assert!(peer.session_present, "the session of {client} is gone");
    let mut numbers = Vec::new();
    while let Some(came) = peer.take(patience) {
        let payload = String::from_utf8(came.payload).expect("whole");
        let (number, filling) = payload.split_once(' ').expect("a number and a filling");
        assert!(filling.len() == 1500 && filling.bytes().all(|byte| byte == b'x'), "delivered wrong");
        numbers.push(number.parse().expect("a number"));
    }
    numbers
}

#[test]
fn a_whole_store_is_copied_whole() {
    // Broken: salvage loses something that was readable: sessions, subscriptions, queues in order, retained values.
    let (place, store) = store();
    let new = place.path().join("new");
    let (code, said) = run(&["salvage", "--from", text(&store), "--to", text(&new)]);
    assert!(code == Some(0) && !said.contains("missing"), "{said}");
    let facts = |store: &Path| {
        let (code, facts) = run(&["inspect", "--json", "--data-dir", text(store)]);
        assert_eq!(code, Some(0), "{facts}");
        let meaning = |line: &str| line.split(",\"place\":").next().unwrap_or_default().to_owned();
        facts.lines().map(meaning).collect::<Vec<_>>()
    };
    assert_eq!(facts(&store), facts(&new));
    let (code, said) = run(&["check", "--data-dir", text(&new)]);
    assert!(code == Some(0) && said.starts_with("sound"), "{said}");
    let broker = Vowmq::start(&new, &SETTINGS);
    assert_eq!(drained(&broker, "anna", PATIENCE), (100..200).collect::<Vec<_>>());
    assert_eq!(drained(&broker, "bert", PATIENCE), (0..200).collect::<Vec<_>>());
    let mut reader = Peer::connect(broker.address, "reader", true);
    reader.subscribe("m/+", QoS::AtLeastOnce);
    assert_eq!(std::iter::from_fn(|| reader.take(PATIENCE)).count(), 7, "one retained message a topic");
}

#[test]
fn whatever_is_damaged_the_rest_is_copied_and_serves() {
    // Broken: one bad sector costs the whole store, or what comes out of it is wrong or does not open.
    let (place, store) = store();
    let before: Vec<(PathBuf, Vec<u8>)> = segments(&store);
    let mut refused = 0;
    for (index, (path, bytes)) in before.iter().enumerate() {
        let used = bytes.rchunks(4096).position(|sector| sector.iter().any(|byte| *byte != 0));
        let used = used.map_or(0, |empty| bytes.len() / 4096 - empty);
        // Every seventh sector is enough to meet every kind of record; each file begins elsewhere.
        for sector in (index % 7..used).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[sector * 4096 + 60..sector * 4096 + 400].fill(0xa5);
            fs::write(path, &damaged).expect("writes");
            let (code, said) = run(&["check", "--data-dir", text(&store)]);
            let new = place.path().join(format!("new-{index}-{sector}"));
            let (copied, missing) = run(&["salvage", "--from", text(&store), "--to", text(&new)]);
            assert_eq!(copied, Some(0), "{missing}");
            if code == Some(1) {
                refused += 1;
                assert!(said.contains("missing: "), "nothing is said to be missing: {said}");
            }
            let (sound, verdict) = run(&["check", "--data-dir", text(&new)]);
            assert!(sound == Some(0), "{verdict}\nafter: {missing}");
            assert_eq!(fs::read(path).expect("reads"), damaged, "the damaged store was changed");
            if refused % 8 == 1 {
                let broker = Vowmq::start(&new, &SETTINGS);
                for client in ["anna", "bert"] {
                    let numbers = drained(&broker, client, PATIENCE);
                    let once: BTreeSet<_> = numbers.iter().collect();
                    assert!(once.len() == numbers.len() && numbers.is_sorted(), "{client}: {numbers:?}");
                    assert!(numbers.len() >= 50, "too much is lost for one sector: {missing}");
                }
            }
        }
        fs::write(path, bytes).expect("writes");
    }
    assert!(refused > 10, "hardly anything was damaged: {refused}");
    assert_eq!(segments(&store), before);
}

#[test]
fn a_segment_that_is_gone_costs_what_was_in_it_alone() {
    // Broken: a file that somebody removed costs the whole store, or nobody is told.
    let (place, store) = store();
    let before = segments(&store);
    for (index, (path, bytes)) in before.iter().enumerate() {
        fs::remove_file(path).expect("removes");
        let new = place.path().join(format!("new-{index}"));
        let (code, said) = run(&["check", "--data-dir", text(&store)]);
        let (copied, missing) = run(&["salvage", "--from", text(&store), "--to", text(&new)]);
        assert_eq!(copied, Some(0), "{missing}");
        assert!(code == Some(0) || said.contains("missing: "), "nothing is said to be missing: {said}");
        let (sound, verdict) = run(&["check", "--data-dir", text(&new)]);
        assert_eq!(sound, Some(0), "{verdict}");
        let broker = Vowmq::start(&new, &SETTINGS);
        let numbers = drained(&broker, "bert", PATIENCE);
        assert!(numbers.is_sorted() && numbers.len() >= 100, "{}: {missing}", numbers.len());
        fs::write(path, bytes).expect("writes");
    }
}

fn segments(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(store).expect("the store").filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("reads"))).collect()
}

#[test]
fn a_message_that_cannot_be_read_is_told_with_its_client() {
    // Broken: rot in a message that is on disk alone is found when it is delivered, or never.
    let (place, store) = store();
    let (_, facts) = run(&["inspect", "--json", "--data-dir", text(&store)]);
    let oldest = facts.lines().find(|line| line.contains(r#""kind":"queued""#)).expect("a queued message");
    let number = |name: &str| {
        let (_, rest) = oldest.split_once(&format!("\"{name}\":")).expect("it is there");
        rest.split([',', '}']).next().and_then(|digits| digits.parse::<u64>().ok()).expect("a number")
    };
    let (segment, offset, length) = (number("segment"), number("offset"), number("length"));
    let path = store.join(format!("{segment:020}.log"));
    let mut bytes = fs::read(&path).expect("reads");
    bytes[(offset + length - 1) as usize] ^= 1;
    fs::write(&path, bytes).expect("writes");
    let (code, said) = run(&["check", "--data-dir", text(&store)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("client \"anna\"") || said.contains("client \"bert\""), "{said}");
    let (code, facts) = run(&["inspect", "--json", "--data-dir", text(&store)]);
    if code == Some(0) {
        // The log itself is whole there: its checkpoint lies behind the message.
        assert!(facts.contains(r#""unreadable":true"#), "{said}");
        let broker = Vowmq::start(&store, &SETTINGS);
        // Bytes that are wrong are read again, a second apart, before the message is passed by.
        let numbers = drained(&broker, "bert", Duration::from_secs(10));
        assert_eq!(numbers.len(), 199, "all others are delivered");
    }
    drop(place);
}
