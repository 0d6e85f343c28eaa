//! `vowmq salvage`: a new store with all that can be read of a damaged one. The old one stays as it is.

use super::Failure;
use super::check::{leftover, tell};
use super::stopped_store::StoppedStore;
use crate::clock::Clock;
use crate::disk::directory::{Access, Directory};
use crate::disk::lock::DirectoryLock;
use crate::disk::unfinished;
use crate::recovery::random_seed;
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use vowmq_core::durable::SECTOR;
use vowmq_core::durable::salvage::Salvage;
use vowmq_core::limits::Settings;

const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
const SEGMENT_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

pub(super) fn salvage(from: &Path, to: &Path, segment_bytes: Option<u64>) -> Result<(), Failure> {
    let old = StoppedStore::open(from)?;
    let settings = settings(old.largest_segment()?, segment_bytes)?;
    let _lock = begin_copy(from, to)?;
    let new = Directory::new(to, Access::ReadWrite);
    let mut read = |request| old.execute(&request);
    let left = match old.recover() {
        Ok(recovered) => Salvage::of(recovered.broker),
        Err(_) => Salvage::read(&mut read, random_seed()).map_err(|error| Failure::new(error.message))?,
    };
    write!(stdout(), "{}", leftover(&left))?;
    let now = Clock::start().now();
    let mut write = |request| new.execute(&request);
    let (copied, losses) = left
        .copy(&mut read, &mut write, now, settings, random_seed())
        .map_err(|error| Failure::at(to, &error))?;
    tell(&losses)?;
    let copy = StoppedStore::unlocked(to);
    let report = copy.recover().map_err(|refusal| copy.refused(&refusal))?.report;
    unfinished::unmark(to).map_err(|error| Failure::at(to, &error))?;
    writeln!(
        stdout(),
        "salvaged: {} sessions, {} messages ({} bytes of log), {} retained, {} wills in {}",
        report.sessions,
        copied.messages,
        copied.bytes,
        report.retained,
        report.wills,
        to.display()
    )?;
    Ok(())
}

/// Segments are as large as the largest of the old store, so that every message fits into one.
fn settings(largest: u64, segment_bytes: Option<u64>) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let as_before = largest.next_multiple_of(SECTOR).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    settings.segment_bytes = segment_bytes.unwrap_or(as_before);
    if settings.segment_bytes < largest {
        let rule = format!("--segment-bytes must be at least {largest}, as large as the old segments");
        return Err(Failure::new(rule));
    }
    let half = settings.segment_bytes / 2 - 8192;
    settings.limits.packet_bytes = settings.limits.packet_bytes.min(half as usize);
    settings.limits.connect_bytes = settings.limits.connect_bytes.min(settings.limits.packet_bytes);
    settings.limits.free_bytes = 0;
    settings.check()?;
    Ok(settings)
}

/// The directory of a copy, made or found empty, locked, and marked as unfinished.
pub(super) fn begin_copy(from: &Path, to: &Path) -> Result<DirectoryLock, Failure> {
    if is_within(to, from) {
        let text = format!("{}: a copy cannot be within what it is a copy of", to.display());
        return Err(Failure::new(text));
    }
    Directory::make(to)
        .map_err(|error| Failure::new(format!("{}: the directory cannot be made: {error}", to.display())))?;
    unfinished::refuse(to)?;
    if fs::read_dir(to).map_err(|error| Failure::at(to, &error))?.next().is_some() {
        return Err(Failure::new(format!("{}: the directory is not empty", to.display())));
    }
    let lock = DirectoryLock::take(to)?;
    unfinished::mark(to).map_err(|error| Failure::at(to, &error))?;
    Ok(lock)
}

/// Whether a path, of which the end may not exist yet, leads into a directory.
fn is_within(path: &Path, directory: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    there.zip(directory.canonicalize().ok()).is_some_and(|(there, directory)| there.starts_with(directory))
}
