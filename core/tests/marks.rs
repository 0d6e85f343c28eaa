//! The list of marks is the list of places.

use std::path::Path;
use vowmq_core::marks::MARKS;

fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.file_name().is_some_and(|name| name != "marks.rs") {
            all.push_str(&std::fs::read_to_string(&path).expect("readable"));
        }
    }
}

#[test]
fn every_mark_has_a_place_and_a_name_of_its_own() {
    // Broken: a campaign would wait for ever for a mark that nothing reaches, or count two places as one.
    let mut all = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    for (index, (name, meaning)) in MARKS.iter().enumerate() {
        assert_eq!(all.matches(&format!("reached!({name:?})")).count(), 1, "{name}");
        assert!(!meaning.is_empty() && !MARKS[..index].iter().any(|(other, _)| other == name), "{name}");
    }
}
