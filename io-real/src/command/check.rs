//! `vowmq check`: verifies every record of a stopped store by the rules of recovery.

use super::Failure;
use super::stopped_store::recover_stopped;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::Path;
use vowmq_core::RecoveryReport;

pub(super) fn check(data_dir: &Path) -> Result<(), Failure> {
    let recovered = recover_stopped(data_dir)?;
    if recovered.report.segments == 0 {
        // A volume that is not mounted looks like this: it must not pass for a sound store.
        return Err(Failure(format!("{}: there is no store in this directory", data_dir.display())));
    }
    stdout().write_all(verdict(data_dir, &recovered.report)?.as_bytes())?;
    Ok(())
}

fn verdict(data_dir: &Path, report: &RecoveryReport) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "sound: store {} in {}", report.store, data_dir.display())?;
    writeln!(
        text,
        "log: {} segments, {} records, the last is {}, recovery count {}",
        report.segments, report.records, report.last_lsn, report.recovery_count
    )?;
    writeln!(
        text,
        "state: {} sessions, {} queues, {} messages with {} bytes, {} retained, {} wills",
        report.sessions, report.queues, report.messages, report.body_bytes, report.retained, report.wills
    )?;
    if let Some((segment, offset)) = report.torn_tail {
        writeln!(
            text,
            "torn tail: an unfinished write in segment {segment} at offset {offset} is cut off; no record says that \
             it was acknowledged"
        )?;
    }
    Ok(text)
}
