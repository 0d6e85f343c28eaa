//! Runs that once failed, kept for ever: `corpus/runs/*.json`.
//!
//! A record says what was broken and which faults it takes to see it, so that it is noticed when a run does not show any
//! more what it was kept for. The same code replays them in tests and on the command line.

use crate::any::AnyScenario;
use crate::outcome::{Checker, Violation};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// A run that once failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What was wrong, for people.
    pub why: String,
    /// The checker that noticed.
    pub checker: Checker,
    /// What it complained of: the object of its `Claim`.
    pub subject: String,
    /// The trace when it was recorded, or accepted since: 16 hexadecimal digits.
    #[serde(serialize_with = "write_hash", deserialize_with = "read_hash")]
    pub trace_hash: u64,
    /// Effects without which the run shows nothing.
    pub reaches: Vec<String>,
    /// The run.
    pub scenario: AnyScenario,
}

/// How a recorded run does today.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Every promise is kept, as ever.
    AsRecorded,
    /// Every promise is kept, on a course with this trace, which a change of the broker rightly brings about.
    AnotherCourse(u64),
    /// A promise is broken.
    Broken(Violation),
    /// It shows nothing any more, for this reason.
    Stale(String),
}

/// A file of the corpus.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// Its record, if it can be read.
    pub record: Option<Record>,
    /// How it does.
    pub kept: Kept,
}

impl Record {
    /// Records a failing scenario.
    ///
    /// # Errors
    /// It keeps every promise, in words.
    pub fn of(scenario: AnyScenario, why: String) -> Result<Record, String> {
        let outcome = scenario.run();
        let violation =
            outcome.violation.ok_or("every promise is kept, so that there is nothing to record")?;
        let claim = scenario.claim(&violation);
        let reached = scenario.effects().into_iter().filter(|name| outcome.counts.effects.of(name) > 0);
        let reaches = reached.map(str::to_owned).collect();
        let (checker, subject, trace_hash) = (claim.checker, claim.object, outcome.trace_hash);
        Ok(Record { why, checker, subject, trace_hash, reaches, scenario })
    }

    /// Replays it.
    pub fn replay(&self) -> Kept {
        let outcome = self.scenario.run();
        let effects = &outcome.counts.effects;
        if let Some(violation) = outcome.violation {
            return Kept::Broken(violation);
        }
        let missed: Vec<&str> =
            self.reaches.iter().map(String::as_str).filter(|name| effects.of(name) == 0).collect();
        if !missed.is_empty() {
            return Kept::Stale(format!("it does not reach {} any more", missed.join(", ")));
        }
        if outcome.trace_hash == self.trace_hash {
            Kept::AsRecorded
        } else {
            Kept::AnotherCourse(outcome.trace_hash)
        }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// The file's, in words.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Kept {
    /// Whether the run keeps every promise and shows what it was kept for.
    pub fn is_well(&self) -> bool {
        matches!(self, Kept::AsRecorded | Kept::AnotherCourse(_))
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::AsRecorded => f.write_str("kept"),
            Kept::AnotherCourse(hash) => write!(f, "kept, on another course ({hash:016x})"),
            Kept::Broken(violation) => write!(f, "BROKEN: {violation}"),
            Kept::Stale(why) => write!(f, "STALE: {why}"),
        }
    }
}

/// Replays every record of a directory, by name.
///
/// # Errors
/// The directory cannot be read, in words.
pub fn replay_all(directory: &Path) -> Result<Vec<Entry>, String> {
    let words = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(words)? {
        paths.push(entry.map_err(words)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths.into_iter().map(replay_file).collect())
}

fn replay_file(path: PathBuf) -> Entry {
    let read = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let record =
        read.and_then(|text| serde_json::from_str::<Record>(&text).map_err(|error| error.to_string()));
    match record.and_then(|record| record.scenario.check().map(|()| record)) {
        Ok(record) => Entry { path, kept: record.replay(), record: Some(record) },
        Err(error) => Entry { path, kept: Kept::Stale(format!("it cannot be read: {error}")), record: None },
    }
}

/// The scenario in a text: that of a record, or the text itself as `AnyScenario::parse` takes it.
///
/// # Errors
/// What is wrong with it, in words.
pub fn scenario_in(text: &str) -> Result<AnyScenario, String> {
    #[derive(Deserialize)]
    struct Record {
        why: String,
        scenario: serde_json::Value,
    }
    match serde_json::from_str::<Record>(text) {
        Ok(record) => {
            let mut scenario = AnyScenario::parse(&record.scenario.to_string())?;
            *scenario.why_mut() = record.why;
            Ok(scenario)
        }
        Err(_) => AnyScenario::parse(text),
    }
}

fn write_hash<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{hash:016x}"))
}

fn read_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> AnyScenario {
        let text = r#"
            seed = 1
            fault_phase_us = 300_000
            broker = { sync = "never" }
            [[clients]]
            id = "subscriber"
            operations = [{ at_us = 15_000, do = "subscribe", filter = "a", qos = 1 }]
            [[clients]]
            id = "publisher"
            operations = [{ at_us = 160_000, do = "publish", topic = "a", qos = 1 }]
            [[faults]]
            kind = "process_crash"
            when = { at_us = 10_000 }
            down_us = 1_000
            [[faults]]
            kind = "rot"
            when = { at_us = 290_000 }
        "#;
        AnyScenario::parse(text).expect("it is one")
    }

    /// Were it to fail, a run would be kept that nobody can tell from one that shows nothing.
    #[test]
    fn a_record_says_what_failed_and_what_it_takes() {
        let record = Record::of(broken(), "sync is off".to_owned()).expect("it fails");
        assert_eq!((record.checker, record.subject.as_str()), (Checker::AckBeforeDisk, "subscriber"));
        assert_eq!(record.reaches, ["process crash"], "the rot comes after the failure");
        assert!(matches!(record.replay(), Kept::Broken(_)));
        let text = serde_json::to_string(&record).expect("it can be written");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("and read"), record);
        assert_eq!(scenario_in(&text).expect("it holds one").why(), "sync is off");
        for seed in ["0", "amqp:0"] {
            let scenario = AnyScenario::of_seed(seed).expect("a seed");
            assert!(Record::of(scenario, String::new()).is_err(), "nothing is broken there");
        }
    }

    /// Were it to fail, entries that show nothing any more would stay green for ever.
    #[test]
    fn mended_runs_are_kept_and_idle_ones_are_stale() {
        let mut record = Record::of(broken(), String::new()).expect("it fails");
        let AnyScenario::Mqtt(scenario) = &mut record.scenario else { panic!("its clients speak MQTT") };
        scenario.broker = crate::scenario::BrokerSettings::default();
        let Kept::AnotherCourse(hash) = record.replay() else { panic!("{:?}", record.replay()) };
        record.trace_hash = hash;
        assert_eq!(record.replay(), Kept::AsRecorded);
        let AnyScenario::Mqtt(scenario) = &mut record.scenario else { panic!("its clients speak MQTT") };
        scenario.faults.clear();
        assert_eq!(record.replay(), Kept::Stale("it does not reach process crash any more".to_owned()));
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("old.json"), "{\"why\": 1}").expect("it can be written");
        let entries = replay_all(directory.path()).expect("it can be read");
        assert!(matches!(&entries[..], [Entry { kept: Kept::Stale(_), record: None, .. }]), "{entries:?}");
    }
}
