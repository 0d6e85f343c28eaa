//! Stores written by earlier versions open for ever; damaged ones are refused with the place.

use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use vowmq_tests::{Vowmq, vowmq, workspace};

/// A copy of a store of corpus/log, to be opened at will.
fn copy_of(name: &str) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a directory");
    let store = place.path().join("store");
    fs::create_dir(&store).expect("a directory");
    let mut segments = 0;
    for entry in fs::read_dir(workspace().join("corpus/log").join(name)).expect("the store") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, store.join(path.file_name().expect("a file"))).expect("a copy");
        segments += 1;
    }
    assert!(segments > 1, "the store is there");
    (place, store)
}

fn run(command: &[&str], store: &std::path::Path) -> (bool, String, String) {
    let path = store.to_str().expect("a path in UTF-8");
    let output = vowmq(&[command, &["--data-dir", path]].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_store_of_format_1_opens_and_means_the_same() {
    opens_and_means_the_same("format-1", "54 records", "recovered 5 sessions, 2 queues, 10 messages");
}

#[test]
fn a_store_of_format_2_opens_and_means_the_same() {
    opens_and_means_the_same("format-2", "6 records", "recovered 3 sessions, 3 queues, 66 messages");
}

#[test]
fn a_store_of_format_3_opens_and_means_the_same() {
    opens_and_means_the_same("format-3", "9 records", "recovered 7 sessions, 5 queues, 136 messages");
}

fn opens_and_means_the_same(format: &str, records: &str, recovered: &str) {
    // Broken: an update loses, or changes the meaning of, what an earlier version wrote.
    let (_place, store) = copy_of(format);
    let (sound, facts, errors) = run(&["inspect", "--json"], &store);
    assert!(sound, "{errors}");
    let expected =
        fs::read_to_string(workspace().join(format!("corpus/log/{format}.jsonl"))).expect("the facts");
    // Where a message lies is told last, and each version counts that in its own way.
    let meaning = |line: &str| line.split(",\"place\":").next().map(str::to_owned);
    for (found, expected) in facts.lines().zip(expected.lines()) {
        assert_eq!(meaning(found), meaning(expected));
    }
    assert_eq!(facts.lines().count(), expected.lines().count());
    let (sound, said, _) = run(&["check"], &store);
    assert!(sound && said.contains(records), "{said}");
    let broker = Vowmq::start(&store, &[]);
    assert!(broker.recovered.starts_with(recovered), "{}", broker.recovered);
}

#[test]
fn a_damaged_store_is_refused_with_its_place_and_left_as_it_is() {
    // Broken: damage is passed by, or the tool that was to find it makes it worse.
    let (_place, store) = copy_of("damaged");
    let before = fs::read(store.join("00000000000000000002.log")).expect("the segment");
    for command in [&["check"][..], &["inspect"], &["serve", "--mqtt", "127.0.0.1:0"]] {
        let (sound, _, errors) = run(command, &store);
        assert!(!sound, "{command:?}");
        for part in ["acknowledged data is damaged", "segment 2", "offset 20480", "records 28 to 28"] {
            assert!(errors.contains(part), "{command:?} does not say {part:?}: {errors}");
        }
    }
    let segments = fs::read_dir(&store).expect("the store").filter_map(Result::ok);
    let segments = segments.filter(|entry| entry.path().extension().is_some_and(|e| e == "log")).count();
    assert_eq!(segments, 5);
    assert_eq!(fs::read(store.join("00000000000000000002.log")).expect("the segment"), before);
}

#[test]
fn a_store_that_could_not_be_checked_is_not_called_damaged() {
    // Broken: a script takes a store in use, or a volume that is not mounted, for a damaged one, and salvages it.
    let (place, store) = copy_of("format-3");
    let exit = |store: &std::path::Path| {
        vowmq(&["check", "--data-dir", store.to_str().expect("a path in UTF-8")]).status.code()
    };
    let broker = Vowmq::start(&store, &[]);
    assert_eq!(exit(&store), Some(3), "a broker uses it");
    drop(broker);
    assert_eq!(exit(&store), Some(0));
    assert_eq!(exit(place.path()), Some(3), "there is no store");
    assert_eq!(exit(&place.path().join("absent")), Some(3), "there is no directory");
    let (_place, damaged) = copy_of("damaged");
    assert_eq!(exit(&damaged), Some(1));
}
