//! Every normative statement of MQTT 3.1.1 and of MQTT 5 that concerns a server is named by a test that would fail
//! without it.
//!
//! The statements are in `clauses/mqtt-3.1.1.txt` and `clauses/mqtt-5.0.txt`. The two standards give the same ids to
//! different statements, so a test says which standard it means: `[MQTT-3.3.2-5]` is of 3.1.1, `[MQTT5-3.3.2-5]` is of
//! 5. The broker itself tells its users `MQTT 5 [MQTT-3.3.2-5]`, with the id that they will find in the standard; where
//! a test repeats that, it counts for 5.
//!
//! A statement counts as covered when a test's source names its id: a file in a `tests` folder, a frame of
//! `corpus/wire`, what follows `#[cfg(test)]` in a source file, or, for MQTT 5, a test in `interop/mqtt5`, which
//! `.ci/run` runs. `cargo test -p vowmq-tests --test clauses -- --nocapture` prints where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use vowmq_tests::workspace;

/// Where tests are.
const TESTS: [&str; 5] = ["core/tests", "io-real/tests", "tests/tests", "corpus/wire", "tests/interop/mqtt5"];

/// Sources whose test modules count.
const SOURCES: [&str; 2] = ["core/src", "io-real/src"];

/// What tests are written in.
const EXTENSIONS: [&str; 4] = ["rs", "json", "py", "js"];

/// The lists, and how many statements are there at least.
const LISTS: [(&str, usize); 2] = [("mqtt-3.1.1.txt", 100), ("mqtt-5.0.txt", 200)];

fn statements(list: &str) -> Vec<(String, String)> {
    let path = workspace().join("tests/clauses").join(list);
    let list = fs::read_to_string(path).expect("the list of statements");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap_or_else(|| panic!("an id and some words: {line:?}")))
        .map(|(id, words)| (id.to_owned(), words.to_owned()))
        .collect()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            found.push(path);
        }
    }
}

/// The lines of tests, with their places.
fn test_lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (folders, tests_only) in [(&TESTS[..], false), (&SOURCES[..], true)] {
        let mut found = Vec::new();
        folders.iter().for_each(|folder| files(&workspace().join(folder), &mut found));
        found.sort();
        for path in found.iter().filter(|path| !path.ends_with("tests/tests/clauses.rs")) {
            let name = path.strip_prefix(workspace()).expect("it lies in the workspace").display();
            let text = fs::read_to_string(path).expect("a source file");
            let numbered = text.lines().enumerate();
            let counted = numbered.skip_while(|(_, line)| tests_only && line.trim() != "#[cfg(test)]");
            lines.extend(counted.map(|(number, line)| (format!("{name}:{}", number + 1), line.to_owned())));
        }
    }
    lines
}

/// The ids named in a line: `MQTT-` or `MQTT5-`, and what belongs to a number behind it.
fn ids(line: &str) -> Vec<String> {
    let line = line.replace("MQTT 5 [MQTT-", "MQTT 5 [MQTT5-");
    let mut ids = Vec::new();
    for (at, _) in line.match_indices("MQTT") {
        for standard in ["MQTT-", "MQTT5-"] {
            let Some(tail) = line[at..].strip_prefix(standard) else { continue };
            let end = tail.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(tail.len());
            ids.push(format!("{standard}{}", tail[..end].trim_end_matches(['.', '-'])));
        }
    }
    ids
}

/// Where each id is named.
fn places() -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (place, line) in test_lines() {
        ids(&line).into_iter().for_each(|id| places.entry(id).or_default().push(place.clone()));
    }
    places
}

#[test]
fn every_statement_has_a_test() {
    // Broken: the broker could break a rule of its protocol and no test would know the rule.
    let places = places();
    let mut missing = Vec::new();
    for (list, at_least) in LISTS {
        let statements = statements(list);
        assert!(statements.len() > at_least, "{list} is cut");
        let before = missing.len();
        for (id, words) in &statements {
            match places.get(id) {
                Some(places) => {
                    let more = match places.len() {
                        0..=3 => String::new(),
                        count => format!(" and {} more", count - 3),
                    };
                    println!("[{id}] {words}: {}{more}", places[..places.len().min(3)].join(", "));
                }
                None => missing.push(format!("[{id}] {words}")),
            }
        }
        let covered = statements.len() - (missing.len() - before);
        println!("{covered} of {} statements of {list} are covered", statements.len());
    }
    assert!(missing.is_empty(), "no test names:\n{}", missing.join("\n"));
}

#[test]
fn every_id_of_mqtt_5_is_of_a_statement() {
    // Broken: a test names an id with a slip of the pen, or of the other standard, and the reader looks in vain.
    let listed: BTreeSet<String> = statements("mqtt-5.0.txt").into_iter().map(|(id, _)| id).collect();
    let places = places();
    let odd: Vec<String> = places
        .iter()
        .filter(|(id, _)| id.starts_with("MQTT5-") && !listed.contains(*id))
        .map(|(id, places)| format!("[{id}]: {}", places.join(", ")))
        .collect();
    assert!(odd.is_empty(), "not in the list:\n{}", odd.join("\n"));
}

#[test]
fn ids_are_read_whole() {
    // Broken: a test of statement 10 counts for statement 1, or one of MQTT 5 for 3.1.1, and a statement without a test
    // goes unnoticed.
    assert_eq!(
        ids("// [MQTT-3.1.2-10], [MQTT-3-8.3-4]. MQTT-4.7.1, [MQTT5-3.1.2-10]. MQTT 5 [MQTT-4.2-1]; MQTT 5"),
        ["MQTT-3.1.2-10", "MQTT-3-8.3-4", "MQTT-4.7.1", "MQTT5-3.1.2-10", "MQTT5-4.2-1"]
    );
    for (list, _) in LISTS {
        let listed: Vec<String> = statements(list).into_iter().map(|(id, _)| id).collect();
        let unique: BTreeSet<&String> = listed.iter().collect();
        assert_eq!(unique.len(), listed.len(), "{list} has an id twice");
    }
}
