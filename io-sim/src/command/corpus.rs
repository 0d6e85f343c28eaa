//! `vowmq-sim corpus`: the runs that once failed.

use super::{End, load};
use clap::Args;
use std::path::PathBuf;
use vowmq_sim::corpus::{Entry, Kept, Record, replay_all};

/// Replays the runs that once failed, or records one more.
///
/// Each is kept, BROKEN (it fails again) or STALE (it cannot be read, or does not reach the faults that it is about);
/// the last two make exit 1. A run on another course than recorded is no failure: a change of the broker brings that
/// about.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim corpus
  vowmq-sim corpus --record shrunk-loss-17.json --why \"The will was forgotten at takeover.\"
  vowmq-sim corpus --accept")]
pub(super) struct Corpus {
    /// Where the records are.
    #[arg(default_value = "corpus/runs")]
    directory: PathBuf,
    /// Add this failing scenario, a file or a seed, under the file's name.
    #[arg(long, value_name = "FILE", requires = "why")]
    record: Option<String>,
    /// What was wrong, in a sentence or two.
    #[arg(long, value_name = "TEXT", requires = "record")]
    why: Option<String>,
    /// Write the course that each run takes now into its record.
    #[arg(long, conflicts_with = "record")]
    accept: bool,
}

impl Corpus {
    pub(super) fn run(self) -> Result<End, String> {
        if let (Some(what), Some(why)) = (&self.record, self.why) {
            let name = PathBuf::from(what).with_extension("json");
            let name = name.file_name().ok_or_else(|| format!("{what} has no name"))?;
            let path = self.directory.join(name);
            if path.exists() {
                return Err(format!(
                    "{} is there already; give the scenario's file another name",
                    path.display()
                ));
            }
            Record::of(load(what, None)?, why)?.write(&path)?;
            say!("recorded as {}; when it is mended: vowmq-sim corpus --accept", path.display());
            return Ok(End::Clean);
        }
        let entries = replay_all(&self.directory)?;
        for entry in &entries {
            say!("{}: {}", entry.path.display(), entry.kept);
            if let (Kept::Broken(_), Some(record)) = (&entry.kept, &entry.record) {
                say!("  it was once: {}", record.why);
            }
            if self.accept {
                accept(entry)?;
            }
        }
        let well = entries.iter().filter(|entry| entry.kept.is_well()).count();
        say!("{well} of {} recorded runs keep every promise and show what they are for", entries.len());
        Ok(End::clean(well == entries.len()))
    }
}

fn accept(entry: &Entry) -> Result<(), String> {
    if let (Kept::AnotherCourse(hash), Some(record)) = (&entry.kept, &entry.record) {
        Record { trace_hash: *hash, ..record.clone() }.write(&entry.path)?;
    }
    Ok(())
}
