//! Every normative statement of MQTT 3.1.1 that concerns a server is named by a test that would fail without it.
//!
//! The statements are in `clauses/mqtt-3.1.1.txt`. A statement counts as covered when a test's source names its id:
//! a file in a `tests` folder, a frame of `corpus/wire`, or what follows `#[cfg(test)]` in a source file.
//! `cargo test -p vowmq-tests --test clauses -- --nocapture` prints where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use vowmq_tests::workspace;

/// Where tests are.
const TESTS: [&str; 4] = ["core/tests", "io-real/tests", "tests/tests", "corpus/wire"];

/// Sources whose test modules count.
const SOURCES: [&str; 2] = ["core/src", "io-real/src"];

fn statements() -> Vec<(String, String)> {
    let path = workspace().join("tests/clauses/mqtt-3.1.1.txt");
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
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "json") {
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

/// The ids named in a line: `MQTT-` and what belongs to a number behind it.
fn ids(line: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for (at, _) in line.match_indices("MQTT-") {
        let tail = &line[at + 5..];
        let end = tail.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(tail.len());
        ids.push(format!("MQTT-{}", tail[..end].trim_end_matches(['.', '-'])));
    }
    ids
}

#[test]
fn every_statement_has_a_test() {
    // Broken: the broker could break a rule of its protocol and no test would know the rule.
    let statements = statements();
    assert!(statements.len() > 100, "the list of statements is cut");
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (place, line) in test_lines() {
        ids(&line).into_iter().for_each(|id| places.entry(id).or_default().push(place.clone()));
    }
    let mut missing = Vec::new();
    for (id, words) in &statements {
        match places.get(id) {
            Some(places) => {
                let more =
                    if places.len() > 3 { format!(" and {} more", places.len() - 3) } else { String::new() };
                println!("[{id}] {words}: {}{more}", places[..places.len().min(3)].join(", "));
            }
            None => missing.push(format!("[{id}] {words}")),
        }
    }
    println!("{} of {} statements are covered", statements.len() - missing.len(), statements.len());
    assert!(missing.is_empty(), "no test names:\n{}", missing.join("\n"));
}

#[test]
fn ids_are_read_whole() {
    // Broken: a test of statement 10 counts for statement 1, and a statement without a test goes unnoticed.
    assert_eq!(
        ids("// [MQTT-3.1.2-10], [MQTT-3-8.3-4]. MQTT-4.7.1"),
        ["MQTT-3.1.2-10", "MQTT-3-8.3-4", "MQTT-4.7.1"]
    );
    let listed: Vec<String> = statements().into_iter().map(|(id, _)| id).collect();
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "an id is listed twice");
}
