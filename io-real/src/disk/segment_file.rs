//! An open segment, and the two ways to write it durably.
//!
//! ```text
//! past the cache     one call: the device writes and flushes; an error is this write's own
//! through the cache  pwritev, then fdatasync: two waits for the device, and what was written before is synced too
//! ```
//!
//! A batch goes past the cache where the file system can do so: half the processor time and a third less waiting than
//! the other way. What no sync has covered yet, and what is large, goes through the cache. Reads always do; the system
//! keeps both views of the file the same.

use bytes::Bytes;
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What offset, length and memory of a write past the cache are a multiple of. The log's sectors are so long; no
/// device in use asks for more, and one that did would refuse the write, which then goes through the cache.
const ALIGNMENT: usize = 4096;

/// The longest write past the cache, since it has to be copied together. A longer one gains nothing by it.
const DIRECT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of zeros written by one call when a segment is reserved.
const ZEROS_BYTES: usize = 1024 * 1024;

/// Zeros written between two syncs while a segment is reserved, so that the sync of a batch in another segment
/// never waits behind more than this.
const ZEROS_UNSYNCED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Buffers given to one `pwritev`: Linux takes at most 1024.
const SLICES_MAX: usize = 1024;

/// One open segment file. Its handles follow the file when it is renamed.
#[derive(Debug)]
pub(super) struct SegmentFile {
    cached: File,
    /// Opened at the first use; None where the file system has no such way.
    direct: OnceLock<Option<File>>,
    /// What was written through the cache may not be synced. So it is held of a file that others wrote, too.
    unsynced: AtomicBool,
}

/// Memory for writes past the cache, used again and again.
#[derive(Debug, Default)]
pub(super) struct Staging(Vec<u8>);

/// How a try past the cache ended.
enum Direct {
    Written,
    /// The file system takes no such write. Nothing was written.
    Refused,
}

impl SegmentFile {
    /// Around a file that has been opened, or made.
    pub(super) fn new(cached: File) -> SegmentFile {
        SegmentFile { cached, direct: OnceLock::new(), unsynced: AtomicBool::new(true) }
    }

    /// Allocates, then overwrites with zeros. The allocation alone would leave unwritten extents, which every
    /// later sync would have to convert, at the cost of a journal commit. Where the file system cannot allocate
    /// ahead, writing the zeros does.
    pub(super) fn reserve(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.cached, FallocateFlags::empty(), 0, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let zeros = vec![0; ZEROS_BYTES];
        let mut written = 0;
        let mut unsynced = 0;
        while written < length {
            let piece = (length - written).min(ZEROS_BYTES as u64);
            self.cached.write_all_at(&zeros[..piece as usize], written)?;
            written += piece;
            unsynced += piece;
            if unsynced >= ZEROS_UNSYNCED_BYTES_MAX {
                self.cached.sync_data()?;
                unsynced = 0;
            }
        }
        self.cached.sync_all()?;
        self.unsynced.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Writes to the cache, no more.
    pub(super) fn write(&self, chunks: &[Bytes], offset: u64) -> io::Result<()> {
        self.unsynced.store(true, Ordering::Relaxed);
        let mut at = offset;
        for group in chunks.chunks(SLICES_MAX) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|chunk| IoSlice::new(chunk)).collect();
            write_vectored_all_at(&self.cached, &mut slices, &mut at)?;
        }
        Ok(())
    }

    /// Writes; then this and all that was written before is durable. `path` tells the file's, which only the first such
    /// write asks for.
    pub(super) fn write_synced(
        &self,
        path: impl FnOnce() -> PathBuf,
        staging: &mut Staging,
        chunks: &[Bytes],
        offset: u64,
    ) -> io::Result<()> {
        let length: usize = chunks.iter().map(Bytes::len).sum();
        if length <= DIRECT_BYTES_MAX
            && !self.unsynced.load(Ordering::Relaxed)
            && let Some(direct) = self.direct.get_or_init(|| open_direct(&path()))
        {
            match write_direct(direct, staging.copy(chunks, length), offset)? {
                Direct::Written => return Ok(()),
                Direct::Refused => {}
            }
        }
        self.write(chunks, offset)?;
        self.sync()
    }

    /// Makes all that was written through the cache durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.cached.sync_data()?;
        self.unsynced.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Has the system forget its copy of what is synced.
    pub(super) fn forget_cached(&self) -> io::Result<()> {
        match fadvise(&self.cached, 0, None, Advice::DontNeed) {
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What is there from `offset` on, at most `length` bytes.
    pub(super) fn read(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        // The file's end bounds the buffer, whatever was asked for.
        let there = self.cached.metadata()?.len().saturating_sub(offset);
        let mut buffer = vec![0; length.min(there) as usize];
        let mut filled = 0;
        while filled < buffer.len() {
            match self.cached.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        Ok(buffer.into())
    }
}

impl Staging {
    /// The chunks one after the other, in memory that begins at a multiple of `ALIGNMENT`.
    fn copy(&mut self, chunks: &[Bytes], length: usize) -> &[u8] {
        if self.0.len() < length + ALIGNMENT {
            self.0 = vec![0; length + ALIGNMENT];
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        let mut at = start;
        for chunk in chunks {
            self.0[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        &self.0[start..at]
    }
}

/// A second handle whose every write ends with a sync of it, `O_DSYNC` in open(2). None: the file system has no way
/// past its cache, or the file cannot be opened a second time, and the first handle is as good.
fn open_direct(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECT | OFlags::DSYNC;
    OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path).ok()
}

fn write_direct(file: &File, bytes: &[u8], offset: u64) -> io::Result<Direct> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(file, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::OPNOTSUPP) if written == 0 => return Ok(Direct::Refused),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Direct::Written)
}

/// Writes all slices one after the other from `at` on, which it moves along.
fn write_vectored_all_at(file: &File, mut slices: &mut [IoSlice<'_>], at: &mut u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match rustix::io::pwritev(file, slices, *at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *at += count as u64;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 64 * 4096;

    fn reserved(place: &tempfile::TempDir) -> (PathBuf, SegmentFile) {
        let path = place.path().join("segment");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).expect("makes");
        let file = SegmentFile::new(file);
        file.reserve(LENGTH).expect("reserves");
        (path, file)
    }

    fn sectors(byte: u8, count: usize) -> Vec<Bytes> {
        // Chunks of odd lengths, as records have them.
        let bytes = Bytes::from(vec![byte; count * 4096]);
        vec![bytes.slice(..17), bytes.slice(17..17), bytes.slice(17..)]
    }

    #[test]
    fn whichever_way_it_is_written_the_reader_sees_it() {
        // If it failed, a consumer would get zeros or an older message in the place of the one that was acknowledged.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let (path, file) = reserved(&place);
        let mut staging = Staging::default();
        let mut expected = vec![0; LENGTH as usize];
        for (round, (sector, count)) in [(0, 1), (1, 3), (4, 2), (6, 1), (7, 9)].into_iter().enumerate() {
            let byte = round as u8 + 1;
            // The cache has the old bytes of what is written past it.
            assert_eq!(file.read(0, LENGTH).expect("reads"), expected);
            let offset = sector * 4096;
            if round == 2 {
                file.write(&sectors(byte, count), offset).expect("writes");
                assert!(file.unsynced.load(Ordering::Relaxed));
            } else {
                file.write_synced(|| path.clone(), &mut staging, &sectors(byte, count), offset)
                    .expect("writes");
                assert!(!file.unsynced.load(Ordering::Relaxed), "what was left unsynced is synced with it");
            }
            expected[offset as usize..offset as usize + count * 4096].fill(byte);
        }
        assert_eq!(file.read(0, LENGTH).expect("reads"), expected);
    }

    #[test]
    fn a_file_without_a_way_past_the_cache_is_written_through_it() {
        // If it failed, the broker could not start on such a file system.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let (path, file) = reserved(&place);
        file.direct.set(None).expect("not tried yet");
        let mut staging = Staging::default();
        file.write_synced(|| path.clone(), &mut staging, &sectors(7, 2), 4096).expect("writes");
        assert_eq!(file.read(4096, 8192).expect("reads"), sectors(7, 2).concat());
        assert!(staging.0.is_empty(), "it was not tried");
    }

    #[test]
    fn a_refused_write_has_written_nothing_and_goes_through_the_cache() {
        // If it failed, a device with larger blocks than expected would stop the broker.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let (path, file) = reserved(&place);
        let mut staging = Staging::default();
        // No file system that has the way takes a length like this one.
        let odd = vec![Bytes::from_static(b"seven b")];
        file.write_synced(|| path.clone(), &mut staging, &odd, 4096).expect("writes");
        assert_eq!(file.read(4096, 7).expect("reads"), odd[0]);
        assert_eq!(file.read(4103, 1).expect("reads"), [0][..]);
    }

    #[test]
    fn staged_bytes_are_aligned_and_no_older_ones_are_among_them() {
        // If it failed, a batch would end with the remains of a longer one before it.
        let mut staging = Staging::default();
        for count in [3, 1, 2] {
            let chunks = sectors(count as u8, count);
            let staged = staging.copy(&chunks, count * 4096);
            assert_eq!(staged, chunks.concat());
            assert_eq!(staged.as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
