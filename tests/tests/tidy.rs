//! The sources keep their shape: lengths as a ratchet, no leftovers, no orphans.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use vowmq_tests::workspace;

/// Lines of a file, with its tests. Lower it when the longest file gets shorter.
const FILE_LINES_MAX: usize = 600;

/// Lines of a function. Lower it when the longest function gets shorter.
const FUNCTION_LINES_MAX: usize = 70;

/// What has no place in finished work.
const LEFTOVERS: [&str; 6] = ["TODO", "FIXME", "XXX", "dbg!(", "#[ignore", "unimplemented!("];

/// Names that say nothing.
const EMPTY_NAMES: [&str; 5] = ["util", "common", "helpers", "types", "misc"];

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the workspace") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for member in ["core", "io-real", "io-sim", "tests"] {
        files(&workspace().join(member), "rs", &mut found);
    }
    assert!(found.len() > 50, "the sources were not found");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("a source file"))).collect()
}

fn report(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn files_and_functions_are_short_enough() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            problems.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display()));
        }
        let mut begun: Option<(usize, usize, &str)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let head = head.trim_start_matches("pub(super) ").trim_start_matches("async ");
            if head.starts_with("fn ") && !line.ends_with(';') {
                begun = Some((number, indent, head));
            } else if let Some((from, depth, head)) = begun
                && line.trim_end() == format!("{}}}", " ".repeat(depth))
            {
                let length = number - from + 1;
                if length > FUNCTION_LINES_MAX {
                    let place = format!("{}:{}", path.display(), from + 1);
                    problems
                        .push(format!("{place}: {head} has {length} lines, at most {FUNCTION_LINES_MAX}"));
                }
                begun = None;
            }
        }
    }
    report(problems);
}

#[test]
fn nothing_unfinished_is_left() {
    let mut problems = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.ends_with("tests/tidy.rs")) {
        for (number, line) in text.lines().enumerate() {
            for leftover in LEFTOVERS.iter().filter(|leftover| line.contains(**leftover)) {
                problems.push(format!("{}:{}: {leftover}", path.display(), number + 1));
            }
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if EMPTY_NAMES.contains(&stem) {
            problems.push(format!("{}: a name that says nothing", path.display()));
        }
    }
    report(problems);
}

#[test]
fn every_source_file_says_what_it_is() {
    let silent = sources().into_iter().filter(|(_, text)| !text.starts_with("//!"));
    report(silent.map(|(path, _)| format!("{}: begins without //!", path.display())).collect());
}

#[test]
fn the_core_knows_no_system() {
    // The compiler checks it through no_std; this keeps somebody from taking that away.
    let root = fs::read_to_string(workspace().join("core/src/lib.rs")).expect("the core");
    assert!(root.contains("#![no_std]") && !root.contains("extern crate std"));
}

#[test]
fn no_corpus_file_is_an_orphan() {
    let mut texts = String::new();
    for (_, text) in sources() {
        texts.push_str(&text);
    }
    let mut corpus = Vec::new();
    for extension in ["json", "toml", "log", "patch"] {
        files(&workspace().join("corpus"), extension, &mut corpus);
    }
    let read: BTreeSet<&str> = ["wire", "runs", "log", "planted-bugs"].into();
    let orphan = |path: &PathBuf| {
        let folder = path.strip_prefix(workspace().join("corpus")).ok().and_then(|p| p.iter().next());
        let folder = folder.and_then(|folder| folder.to_str()).unwrap_or_default().to_owned();
        !read.contains(folder.as_str()) || !texts.contains(&format!("corpus/{folder}"))
    };
    report(
        corpus
            .into_iter()
            .filter(orphan)
            .map(|path| format!("{}: nobody reads it", path.display()))
            .collect(),
    );
}
