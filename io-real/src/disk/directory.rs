//! The directory of segment files, and each order of the core as system calls on it.
//!
//! An operation that fails is reported as it is. Nothing is tried again: after a failed sync the page cache has
//! forgotten what it could not write, so a second sync that "succeeds" would be a lie.

use super::Outcome;
use super::segment_file::{SegmentFile, Staging};
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vowmq_core::ids::SegmentNumber;
use vowmq_core::input::{DiskError, DiskErrorKind, DiskReply};
use vowmq_core::output::DiskRequest;

/// Segment files held open at a time.
pub(crate) const OPEN_FILES_MAX: usize = 64;

/// No store has a segment with a higher number: it would have written more than 2^47 bytes. The core counts to 2^32.
const SEGMENT_NUMBER_MAX: u64 = 1 << 31;

/// What may be done in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Reading only; every other order fails.
    ReadOnly,
}

/// An open directory of segments. Shared by the threads that work on it.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    access: Access,
    open: Mutex<BTreeMap<SegmentNumber, Arc<SegmentFile>>>,
    /// Of the one thread that writes batches; the lock is never waited for.
    staging: Mutex<Staging>,
}

impl Directory {
    /// The directory at `path`, which must exist.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Directory {
        Directory {
            path: path.into(),
            access,
            open: Mutex::new(BTreeMap::new()),
            staging: Mutex::new(Staging::default()),
        }
    }

    /// Makes the directory if it is missing, durably: the entry of a directory is part of its parent, so each
    /// parent is synced, or a power cut could take the whole store away.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        Directory::make(parent)?;
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(error),
        }
        File::open(parent)?.sync_all()
    }

    /// Carries out one order.
    ///
    /// # Errors
    /// What the system says, with the file's name.
    pub fn execute(&self, request: &DiskRequest) -> Outcome {
        if self.access == Access::ReadOnly && !only_reads(request) {
            return Err(DiskError {
                kind: DiskErrorKind::Failed,
                message: format!("{}: opened for reading only", self.path.display()),
            });
        }
        match request {
            DiskRequest::List => self.list().map_err(|error| self.failed(&error)),
            DiskRequest::Create { segment } => {
                self.create(*segment).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::Reserve { segment, length } => {
                self.reserve(*segment, *length).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::Write { segment, offset, chunks, sync } => {
                self.write(*segment, *offset, chunks, *sync).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::Sync { segment } => {
                self.sync(*segment).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::SyncDirectory => self.sync_directory().map_err(|error| self.failed(&error)),
            DiskRequest::Read { segment, offset, length } => {
                self.read(*segment, *offset, *length).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::Remove { segment } => {
                self.remove(*segment).map_err(|error| self.failed_at(*segment, &error))
            }
            DiskRequest::Rename { from, to } => {
                self.rename(*from, *to).map_err(|error| self.failed_at(*from, &error))
            }
            DiskRequest::FreeSpace => self.free_space().map_err(|error| self.failed(&error)),
        }
    }

    fn list(&self) -> io::Result<DiskReply> {
        let mut listing = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Some(segment) = entry.file_name().to_str().and_then(segment_of_name) {
                let metadata = entry.metadata()?;
                if !metadata.is_file() {
                    return Err(not_a_file(segment));
                }
                listing.push((segment, metadata.len()));
            }
        }
        Ok(DiskReply::Listing(listing))
    }

    fn create(&self, segment: SegmentNumber) -> io::Result<DiskReply> {
        // Payloads are nobody's business but the broker's.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(self.path_of(segment))?;
        self.keep_open(segment, file);
        Ok(DiskReply::Done)
    }

    fn reserve(&self, segment: SegmentNumber, length: u64) -> io::Result<DiskReply> {
        self.file(segment)?.reserve(length)?;
        Ok(DiskReply::Done)
    }

    fn write(
        &self,
        segment: SegmentNumber,
        offset: u64,
        chunks: &[bytes::Bytes],
        sync: bool,
    ) -> io::Result<DiskReply> {
        let file = self.file(segment)?;
        if sync {
            let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_synced(|| self.path_of(segment), &mut staging, chunks, offset)?;
        } else {
            file.write(chunks, offset)?;
        }
        Ok(DiskReply::Done)
    }

    /// Syncs, and has the system forget its copy: after a sync that failed, the page cache keeps what never got
    /// to the disk and calls it clean. A broker that starts again has to see what the disk has.
    fn sync(&self, segment: SegmentNumber) -> io::Result<DiskReply> {
        let file = self.file(segment)?;
        file.sync()?;
        file.forget_cached()?;
        Ok(DiskReply::Done)
    }

    fn sync_directory(&self) -> io::Result<DiskReply> {
        File::open(&self.path)?.sync_all()?;
        Ok(DiskReply::Done)
    }

    fn read(&self, segment: SegmentNumber, offset: u64, length: u64) -> io::Result<DiskReply> {
        Ok(DiskReply::Bytes(self.file(segment)?.read(offset, length)?))
    }

    fn remove(&self, segment: SegmentNumber) -> io::Result<DiskReply> {
        self.open_files().remove(&segment);
        fs::remove_file(self.path_of(segment))?;
        Ok(DiskReply::Done)
    }

    /// Never over a segment that is there: that is the system's to say, in one step. A handle that is open stays the
    /// file's, under its new number.
    fn rename(&self, from: SegmentNumber, to: SegmentNumber) -> io::Result<DiskReply> {
        let (old, new) = (self.path_of(from), self.path_of(to));
        match renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // The file system does not know the flag. Nobody else makes segments here: the directory is locked.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if new.try_exists()? {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                fs::rename(&old, &new)?;
            }
            Err(errno) => return Err(errno.into()),
        }
        let mut open = self.open_files();
        open.remove(&to);
        if let Some(file) = open.remove(&from) {
            open.insert(to, file);
        }
        Ok(DiskReply::Done)
    }

    fn free_space(&self) -> io::Result<DiskReply> {
        let system = statvfs(&self.path)?;
        Ok(DiskReply::FreeSpace(system.f_bavail.saturating_mul(system.f_frsize)))
    }

    fn file(&self, segment: SegmentNumber) -> io::Result<Arc<SegmentFile>> {
        if let Some(file) = self.open_files().get(&segment) {
            return Ok(Arc::clone(file));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(self.access == Access::ReadWrite)
            .open(self.path_of(segment))?;
        Ok(self.keep_open(segment, file))
    }

    /// Keeps a file open, and closes the oldest segment when there are too many: the newest are the ones that
    /// are written and synced, and an error that a sync owes must be told through the handle that wrote.
    fn keep_open(&self, segment: SegmentNumber, file: File) -> Arc<SegmentFile> {
        let file = Arc::new(SegmentFile::new(file));
        let mut open = self.open_files();
        open.insert(segment, Arc::clone(&file));
        if open.len() > OPEN_FILES_MAX {
            open.pop_first();
        }
        file
    }

    fn open_files(&self) -> std::sync::MutexGuard<'_, BTreeMap<SegmentNumber, Arc<SegmentFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path_of(&self, segment: SegmentNumber) -> PathBuf {
        self.path.join(name_of_segment(segment))
    }

    fn failed(&self, error: &io::Error) -> DiskError {
        disk_error(&self.path, error)
    }

    fn failed_at(&self, segment: SegmentNumber, error: &io::Error) -> DiskError {
        disk_error(&self.path_of(segment), error)
    }
}

fn only_reads(request: &DiskRequest) -> bool {
    match request {
        DiskRequest::List | DiskRequest::Read { .. } | DiskRequest::FreeSpace => true,
        DiskRequest::Create { .. }
        | DiskRequest::Reserve { .. }
        | DiskRequest::Write { .. }
        | DiskRequest::Sync { .. }
        | DiskRequest::SyncDirectory
        | DiskRequest::Remove { .. }
        | DiskRequest::Rename { .. } => false,
    }
}

/// Twenty digits and `.log`.
pub(crate) fn name_of_segment(segment: SegmentNumber) -> String {
    format!("{:020}.log", segment.0)
}

/// Whatever else lies in the directory is not ours.
pub(super) fn segment_of_name(name: &str) -> Option<SegmentNumber> {
    let digits = name.strip_suffix(".log")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| all_digits && *number <= SEGMENT_NUMBER_MAX);
    number.map(SegmentNumber)
}

/// A link would be renamed and removed in the place of what it leads to, whose own directory nobody syncs.
fn not_a_file(segment: SegmentNumber) -> io::Error {
    io::Error::other(format!(
        "{} is a symbolic link or a directory, and a segment has to be a file in the data directory itself; put the file \
         back, or move the whole directory and name it by --data-dir",
        name_of_segment(segment)
    ))
}

fn disk_error(path: &Path, error: &io::Error) -> DiskError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskErrorKind::Full,
        io::ErrorKind::AlreadyExists => DiskErrorKind::AlreadyExists,
        io::ErrorKind::NotFound => DiskErrorKind::NotFound,
        _ => DiskErrorKind::Failed,
    };
    DiskError { kind, message: format!("{}: {error}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn directory(access: Access) -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let directory = Directory::new(place.path(), access);
        (place, directory)
    }

    #[test]
    fn written_bytes_are_read_back_and_the_rest_is_zero() {
        // If it failed, recovery would read something else than what was acknowledged.
        let (_place, directory) = directory(Access::ReadWrite);
        let segment = SegmentNumber(7);
        let length = 3 * 1024 * 1024 + 4096;
        directory.execute(&DiskRequest::Create { segment }).expect("creates");
        directory.execute(&DiskRequest::Reserve { segment, length }).expect("reserves");
        // More chunks than one system call takes, some of them empty.
        let chunks: Vec<Bytes> = (0..4096_u32)
            .flat_map(|number| [Bytes::new(), Bytes::copy_from_slice(&number.to_le_bytes())])
            .collect();
        let written: Vec<u8> = chunks.concat();
        let write = DiskRequest::Write { segment, offset: 8192, chunks, sync: true };
        assert_eq!(directory.execute(&write), Ok(DiskReply::Done));

        let read =
            directory.execute(&DiskRequest::Read { segment, offset: 0, length: u64::MAX }).expect("reads");
        let DiskReply::Bytes(read) = read else { panic!("not bytes: {read:?}") };
        assert_eq!(read.len() as u64, length, "a read ends where the file ends");
        assert!(read[..8192].iter().all(|byte| *byte == 0));
        assert_eq!(&read[8192..8192 + written.len()], &written[..]);
        assert!(read[8192 + written.len()..].iter().all(|byte| *byte == 0));
        let beyond = directory.execute(&DiskRequest::Read { segment, offset: length + 1, length: 10 });
        assert_eq!(beyond, Ok(DiskReply::Bytes(Bytes::new())));
    }

    #[test]
    fn a_listing_names_segments_only() {
        // If it failed, a stray file would be taken for a segment, or a segment would be missed.
        let (place, directory) = directory(Access::ReadWrite);
        let too_high = name_of_segment(SegmentNumber(SEGMENT_NUMBER_MAX + 1));
        let strays = ["lock", "1.log", "0000000000000000000a.log", "00000000000000000003.log.old", &too_high];
        for stray in strays {
            fs::write(place.path().join(stray), "x").expect("writes");
        }
        for segment in [SegmentNumber(2), SegmentNumber(11)] {
            directory.execute(&DiskRequest::Create { segment }).expect("creates");
        }
        directory
            .execute(&DiskRequest::Reserve { segment: SegmentNumber(11), length: 8192 })
            .expect("reserves");
        directory.execute(&DiskRequest::SyncDirectory).expect("syncs");
        let reply = directory.execute(&DiskRequest::List).expect("lists");
        let DiskReply::Listing(mut listing) = reply else { panic!("not a listing: {reply:?}") };
        listing.sort();
        assert_eq!(listing, [(SegmentNumber(2), 0), (SegmentNumber(11), 8192)]);

        directory.execute(&DiskRequest::Remove { segment: SegmentNumber(2) }).expect("removes");
        let reply = directory.execute(&DiskRequest::List);
        assert_eq!(reply, Ok(DiskReply::Listing(vec![(SegmentNumber(11), 8192)])));
    }

    #[test]
    fn a_segment_that_is_a_link_is_refused() {
        // If it failed, a store whose segments were moved away and linked would be taken for an empty one.
        let (place, directory) = directory(Access::ReadWrite);
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, [0; 8192]).expect("writes");
        let link = place.path().join(name_of_segment(SegmentNumber(1)));
        std::os::unix::fs::symlink(&elsewhere, &link).expect("links");
        let error = directory.execute(&DiskRequest::List).expect_err("a link");
        assert!(error.message.contains("00000000000000000001.log is a symbolic link"), "{}", error.message);
    }

    #[test]
    fn a_renamed_segment_keeps_what_is_in_it_and_replaces_nothing() {
        // If it failed, a segment that is used again would be written under its old number, or over another one.
        let (_place, directory) = directory(Access::ReadWrite);
        let [from, to, other] = [1, 2, 3].map(SegmentNumber);
        directory.execute(&DiskRequest::Create { segment: from }).expect("creates");
        directory.execute(&DiskRequest::Create { segment: other }).expect("creates");
        let write = |segment, byte| {
            let chunks = vec![Bytes::from(vec![byte; 4096])];
            directory
                .execute(&DiskRequest::Write { segment, offset: 0, chunks, sync: true })
                .expect("writes");
        };
        write(from, 7);
        let taken = directory.execute(&DiskRequest::Rename { from, to: other }).expect_err("it is in use");
        assert_eq!(taken.kind, DiskErrorKind::AlreadyExists);
        directory.execute(&DiskRequest::Rename { from, to }).expect("renames");
        let read = |segment| directory.execute(&DiskRequest::Read { segment, offset: 0, length: 1 });
        assert_eq!(read(to), Ok(DiskReply::Bytes(Bytes::from_static(&[7]))));
        write(to, 8);
        directory.open_files().clear();
        assert_eq!(read(to), Ok(DiskReply::Bytes(Bytes::from_static(&[8]))), "the open handle has followed");
        assert_eq!(read(from).expect_err("it is gone").kind, DiskErrorKind::NotFound);
    }

    #[test]
    fn failures_have_a_kind_and_name_the_file() {
        // If it failed, the core would take a missing or present file for a broken device, and stop.
        let (_place, directory) = directory(Access::ReadWrite);
        let segment = SegmentNumber(1);
        let missing = directory.execute(&DiskRequest::Sync { segment }).expect_err("there is no such file");
        assert_eq!(missing.kind, DiskErrorKind::NotFound);
        assert!(missing.message.contains("00000000000000000001.log"), "{}", missing.message);
        directory.execute(&DiskRequest::Create { segment }).expect("creates");
        let twice = directory.execute(&DiskRequest::Create { segment }).expect_err("it exists");
        assert_eq!(twice.kind, DiskErrorKind::AlreadyExists);
        let full = disk_error(Path::new("x"), &Errno::NOSPC.into());
        assert_eq!(full.kind, DiskErrorKind::Full);
        assert_eq!(disk_error(Path::new("x"), &Errno::DQUOT.into()).kind, DiskErrorKind::Full);
        assert_eq!(disk_error(Path::new("x"), &Errno::IO.into()).kind, DiskErrorKind::Failed);
    }

    #[test]
    fn a_reservation_beyond_the_disk_is_full() {
        // If it failed, a full disk would stop the broker instead of holding its publishers.
        let (_place, directory) = directory(Access::ReadWrite);
        let segment = SegmentNumber(1);
        directory.execute(&DiskRequest::Create { segment }).expect("creates");
        let reply = directory.execute(&DiskRequest::FreeSpace).expect("tells");
        let DiskReply::FreeSpace(free) = reply else { panic!("not a size: {reply:?}") };
        let length = (free + (1 << 40)).next_multiple_of(4096);
        let error =
            directory.execute(&DiskRequest::Reserve { segment, length }).expect_err("there is no room");
        // A file system may also refuse the length as such (EFBIG).
        assert!(matches!(error.kind, DiskErrorKind::Full | DiskErrorKind::Failed), "{error:?}");
    }

    #[test]
    fn reading_only_changes_nothing() {
        // If it failed, `vowmq check` could change the store it was asked to judge.
        let (place, directory) = directory(Access::ReadOnly);
        let segment = SegmentNumber(1);
        for request in [
            DiskRequest::Create { segment },
            DiskRequest::Reserve { segment, length: 4096 },
            DiskRequest::Write { segment, offset: 0, chunks: Vec::new(), sync: true },
            DiskRequest::Sync { segment },
            DiskRequest::SyncDirectory,
            DiskRequest::Remove { segment },
            DiskRequest::Rename { from: segment, to: SegmentNumber(2) },
        ] {
            directory.execute(&request).expect_err("refused");
        }
        assert_eq!(fs::read_dir(place.path()).expect("lists").count(), 0);
    }

    #[test]
    fn old_segments_are_closed_and_opened_again() {
        // If it failed, a large store would run the process out of file descriptors.
        let (_place, directory) = directory(Access::ReadWrite);
        let last = OPEN_FILES_MAX as u64 + 10;
        for number in 1..=last {
            directory.execute(&DiskRequest::Create { segment: SegmentNumber(number) }).expect("creates");
        }
        assert_eq!(directory.open_files().len(), OPEN_FILES_MAX);
        directory.execute(&DiskRequest::Sync { segment: SegmentNumber(1) }).expect("opened again");
        assert!(directory.open_files().contains_key(&SegmentNumber(last)), "the newest stay open");
    }

    #[test]
    fn a_missing_directory_is_made_with_its_parents() {
        // If it failed, the first start with a nested data directory would fail.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let path = place.path().join("a/b/c");
        Directory::make(&path).expect("makes");
        Directory::make(&path).expect("is there already");
        assert!(path.is_dir());
    }
}
