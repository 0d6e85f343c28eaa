//! `vowmq backup`: a copy of a store, also of one whose broker runs; it is opened to see that it holds.

use super::Failure;
use super::salvage::begin_copy;
use super::stopped_store::StoppedStore;
use crate::disk::backup::{copy_segments, remove_segments};
use crate::disk::unfinished;
use std::io::{Write, stdout};
use std::path::Path;
use vowmq_core::durable::salvage::{Loss, Salvage};

/// Times that a copy is made before the store itself must be to blame.
const ATTEMPTS: usize = 3;

pub(super) fn backup(data_dir: &Path, to: &Path) -> Result<(), Failure> {
    if !data_dir.is_dir() {
        return Err(Failure::new(format!("{}: there is no such directory", data_dir.display())));
    }
    unfinished::refuse(data_dir)?;
    let _lock = begin_copy(data_dir, to)?;
    let mut why = Failure::new(String::new());
    for _ in 0..ATTEMPTS {
        let copied = copy_segments(data_dir, to)?;
        let copy = StoppedStore::unlocked(to);
        match verify(&copy) {
            Ok(state) => {
                unfinished::unmark(to).map_err(|error| Failure::at(to, &error))?;
                let (segments, bytes) = (copied.segments, copied.bytes);
                writeln!(
                    stdout(),
                    "backup: {segments} segments, {bytes} bytes in {}\n{state}",
                    to.display()
                )?;
                return Ok(());
            }
            Err(failure) => why = failure,
        }
        remove_segments(to).map_err(|error| Failure::at(to, &error))?;
    }
    let Failure { text: why, .. } = why;
    Err(Failure::new(format!("the copy does not hold, and neither did {} before it: {why}", ATTEMPTS - 1)))
}

/// Opens the copy and reads every message; what it holds.
fn verify(copy: &StoppedStore) -> Result<String, Failure> {
    let recovered = copy.recover().map_err(|refusal| copy.refused(&refusal))?;
    let report = recovered.report;
    let mut left = Salvage::of(recovered.broker);
    left.read_messages(&mut |request| copy.execute(&request));
    if let Some(loss) = left.losses.iter().find(|loss| matches!(loss, Loss::Body { .. })) {
        return Err(Failure::new(loss.to_string()));
    }
    Ok(format!(
        "state: {} sessions, {} queues, {} messages, {} retained, {} wills",
        report.sessions, report.queues, report.messages, report.retained, report.wills
    ))
}
