//! `vowmq check`: verifies a stopped store, every record by the rules of recovery and every message that is held; of a
//! damaged one it tells what is readable, what is not and who is affected.

use super::Failure;
use super::stopped_store::StoppedStore;
use crate::recovery::random_seed;
use std::fmt::{self, Write as _};
use std::io::{self, Write, stdout};
use std::path::Path;
use vowmq_core::RecoveryReport;
use vowmq_core::durable::salvage::{Found, Loss, Salvage};

pub(super) fn check(data_dir: &Path) -> Result<(), Failure> {
    let store = StoppedStore::open(data_dir).map_err(Failure::not_checked)?;
    store.largest_segment().map_err(Failure::not_checked)?;
    store.may_be_read().map_err(Failure::not_checked)?;
    let mut device = |request| store.execute(&request);
    let (report, refusal, mut left) = match store.recover() {
        Ok(recovered) => (Some(recovered.report), None, Salvage::of(recovered.broker)),
        Err(refusal) => {
            let left = Salvage::read(&mut device, random_seed())
                .map_err(|error| Failure::new(error.message).not_checked())?;
            (None, Some(refusal), left)
        }
    };
    left.read_messages(&mut device);
    let losses = left.losses.len();
    if let Some(report) = report.as_ref().filter(|_| losses == 0) {
        return stdout().write_all(verdict(data_dir, report)?.as_bytes()).map_err(|error| untold(&error));
    }
    write!(stdout(), "damaged: store in {}\n{}", data_dir.display(), leftover(&left))
        .and_then(|()| tell(&left.losses))
        .map_err(|error| untold(&error))?;
    if losses == 0 {
        // What is damaged stood before the checkpoint that the rest was read from.
        writeln!(stdout(), "missing: nothing that is needed; `vowmq salvage` makes a sound store of it")
            .map_err(|error| untold(&error))?;
    }
    Err(match refusal {
        Some(refusal) => store.refused(&refusal),
        None => Failure::new(format!(
            "{}: the log is whole, but not all messages can be read. vowmq starts and passes these by; `vowmq salvage` \
             makes a store without them",
            data_dir.display()
        )),
    })
}

/// A finding that nobody could be told is none.
fn untold(error: &io::Error) -> Failure {
    Failure::new(format!("standard output: {error}")).not_checked()
}

/// What is missing, a line each.
pub(super) fn tell(losses: &[Loss]) -> io::Result<()> {
    let mut out = stdout().lock();
    losses.iter().try_for_each(|loss| writeln!(out, "missing: {loss}"))?;
    out.flush()
}

/// How much is readable of a damaged store.
pub(super) fn leftover(left: &Salvage) -> String {
    let Found { sessions, messages, retained } = left.found();
    let mut text = String::new();
    if left.segments > 0 {
        text.push_str(&format!("log: {} segments, {} whole batches\n", left.segments, left.batches));
    }
    text.push_str(&format!("readable: {sessions} sessions, {messages} messages, {retained} retained\n"));
    text
}

fn verdict(data_dir: &Path, report: &RecoveryReport) -> Result<String, fmt::Error> {
    let mut text = String::new();
    writeln!(text, "sound: store {} in {}", report.store, data_dir.display())?;
    writeln!(
        text,
        "log: {} segments, {} records, the last is {}, recovery count {}",
        report.segments, report.records, report.last_lsn, report.recovery_count
    )?;
    if let Some(segment) = report.checkpoint {
        writeln!(text, "checkpoint: recovery begins in segment {segment}")?;
    }
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
