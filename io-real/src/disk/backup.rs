//! Copies a store while its broker runs, without asking it.
//!
//! A segment behind which the log has gone on is never changed. So the segments are copied in ascending order, the one
//! that is being written last; what that has is a beginning of the log that the broker might have left by a crash.
//! Segments go, or are used again, under the copy: only when a checkpoint that does not need them is named in a batch on
//! disk. Where one was gone, the copy goes on until the segment that is written has been copied after that, and then has
//! that batch.
//!
//! The segment that is being written is read from its end to its beginning, sector by sector. The other way round, the
//! copy could miss a batch and have the next one, which the broker would never leave.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use vowmq_core::durable::SECTOR;
use vowmq_core::durable::segment::{self, FirstSector};
use vowmq_core::ids::SegmentNumber;

use super::directory::{name_of_segment, segment_of_name};

/// Passes, so that a busy broker does not keep a copy from its end; as a rule the second finds nothing new.
const PASSES_MAX: usize = 100;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies the segments of the directory `from` into the directory `to`, which has none, and makes them durable.
///
/// # Errors
/// What the system says, or that there is no store, or that segments went faster than they could be copied.
pub fn copy_segments(from: &Path, to: &Path) -> io::Result<Copied> {
    // Segments copied whole, with their bytes: they do not change any more.
    let mut sealed: BTreeMap<SegmentNumber, u64> = BTreeMap::new();
    for _ in 0..PASSES_MAX {
        let there = list(from)?;
        let Some(written) = segment_being_written(from, &there)? else {
            return Err(at(from)(io::Error::new(ErrorKind::NotFound, "there is no store in this directory")));
        };
        for segment in sealed.keys().filter(|segment| !there.contains(segment)) {
            let path = to.join(name_of_segment(*segment));
            fs::remove_file(&path).map_err(at(&path))?;
        }
        sealed.retain(|segment, _| there.contains(segment));
        let mut gone = false;
        let done = |segment: &&SegmentNumber| sealed.contains_key(segment);
        let wanted: Vec<_> = there.iter().filter(|s| **s < written && !done(s)).copied().collect();
        for segment in wanted {
            match copy(from, to, segment) {
                Ok(bytes) => drop(sealed.insert(segment, bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => gone = true,
                Err(error) => return Err(error),
            }
        }
        let bytes = match copy(from, to, written) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let after = list(from)?;
        let complete = sealed.keys().all(|segment| after.contains(segment));
        if !gone && complete && segment_being_written(from, &after)? == Some(written) {
            File::open(to).and_then(|directory| directory.sync_all()).map_err(at(to))?;
            let bytes = bytes + sealed.values().sum::<u64>();
            return Ok(Copied { segments: 1 + sealed.len() as u64, bytes });
        }
    }
    Err(io::Error::other(
        "the broker goes through its segments faster than they can be copied; make them larger",
    ))
}

/// Removes all segments of the directory.
///
/// # Errors
/// What the system says.
pub fn remove_segments(directory: &Path) -> io::Result<()> {
    list(directory)?
        .into_iter()
        .try_for_each(|segment| fs::remove_file(directory.join(name_of_segment(segment))))
}

fn list(directory: &Path) -> io::Result<Vec<SegmentNumber>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        segments.extend(entry.map_err(at(directory))?.file_name().to_str().and_then(segment_of_name));
    }
    segments.sort_unstable();
    Ok(segments)
}

/// The last segment that has a header of its own. Those above it are prepared, and have nothing.
fn segment_being_written(directory: &Path, there: &[SegmentNumber]) -> io::Result<Option<SegmentNumber>> {
    for &segment in there.iter().rev() {
        let mut sector = [0; SECTOR as usize];
        let path = directory.join(name_of_segment(segment));
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut sector, 0)).map_err(at(&path));
        match read {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => continue,
            Err(error) => return Err(error),
        }
        match segment::parse(&sector) {
            FirstSector::Header(header) if header.segment == segment => return Ok(Some(segment)),
            FirstSector::Header(_) | FirstSector::NewerFormat(_) | FirstSector::Nothing => {}
        }
    }
    Ok(None)
}

/// Copies a segment from its end to its beginning, and makes it durable; its bytes.
fn copy(from: &Path, to: &Path, segment: SegmentNumber) -> io::Result<u64> {
    let name = name_of_segment(segment);
    let (from, to) = (from.join(&name), to.join(&name));
    let source = File::open(&from).map_err(at(&from))?;
    let length = source.metadata().map_err(at(&from))?.len();
    let mut options = OpenOptions::new();
    let target = options.write(true).create(true).truncate(true).mode(0o600).open(&to).map_err(at(&to))?;
    target.set_len(length).map_err(at(&to))?;
    // Sector by sector and backwards, nothing is read ahead: so it is read once before, into the system's cache, where what
    // the broker writes past it is not.
    io::copy(&mut &source, &mut io::sink()).map_err(at(&from))?;
    let mut sector = [0; SECTOR as usize];
    let sectors = length.div_ceil(SECTOR);
    for number in (0..sectors).rev() {
        let offset = number * SECTOR;
        let piece = &mut sector[..(length - offset).min(SECTOR) as usize];
        source.read_exact_at(piece, offset).map_err(at(&from))?;
        target.write_all_at(piece, offset).map_err(at(&to))?;
    }
    target.sync_all().map_err(at(&to))?;
    Ok(length)
}

/// The system's words with the place that they are about.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_store_is_not_copied() {
        // If it failed, the backup of a volume that is not mounted would be called a backup.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).and_then(|()| fs::create_dir(&to)).expect("makes");
        fs::write(from.join(name_of_segment(SegmentNumber(1))), [0; 8192]).expect("writes");
        let error = copy_segments(&from, &to).expect_err("nothing is there");
        assert_eq!(error.to_string(), format!("{}: there is no store in this directory", from.display()));
        assert_eq!(fs::read_dir(&to).expect("lists").count(), 0);
    }
}
