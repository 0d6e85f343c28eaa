//! Reading the store of a stopped broker, for `check`, `inspect` and `salvage`. Nothing on the disk is changed, not even
//! made: a missing directory is an error.

use super::Failure;
use crate::clock::Clock;
use crate::disk::Outcome;
use crate::disk::directory::{Access, Directory, name_of_segment};
use crate::disk::lock::DirectoryLock;
use crate::disk::look::LookOnly;
use crate::disk::unfinished;
use crate::recovery::{random_seed, recover};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tokio::runtime;
use vowmq_core::input::DiskReply;
use vowmq_core::limits::Settings;
use vowmq_core::output::DiskRequest;
use vowmq_core::{Purpose, Recovered, Refusal};

/// The store of a broker that does not run, and cannot start as long as this is held.
pub(super) struct StoppedStore {
    path: PathBuf,
    directory: Directory,
    _lock: Option<DirectoryLock>,
}

impl StoppedStore {
    /// The store in this directory.
    pub(super) fn open(path: &Path) -> Result<StoppedStore, Failure> {
        if !path.is_dir() {
            return Err(Failure::new(format!("{}: there is no such directory", path.display())));
        }
        unfinished::refuse(path)?;
        let lock = DirectoryLock::look(path)?;
        let store = StoppedStore::unlocked(path);
        Ok(StoppedStore { _lock: Some(lock), ..store })
    }

    /// A copy that nobody else knows of.
    pub(super) fn unlocked(path: &Path) -> StoppedStore {
        let directory = Directory::new(path, Access::ReadOnly);
        StoppedStore { path: path.to_owned(), directory, _lock: None }
    }

    /// Bytes of its largest segment.
    ///
    /// # Errors
    /// There is none. A volume that is not mounted looks like this: it must not pass for a sound store.
    pub(super) fn largest_segment(&self) -> Result<u64, Failure> {
        let listing = match self.execute(&DiskRequest::List) {
            Ok(DiskReply::Listing(listing)) => listing,
            Ok(_) => Vec::new(),
            Err(error) => return Err(Failure::new(error.message)),
        };
        let none = || Failure::new(format!("{}: there is no store in this directory", self.path.display()));
        listing.iter().map(|(_, length)| *length).max().ok_or_else(none)
    }

    /// Whether its segments may be read at all: one that may not says nothing about the store.
    ///
    /// # Errors
    /// Which may not.
    pub(super) fn may_be_read(&self) -> Result<(), Failure> {
        let Ok(DiskReply::Listing(listing)) = self.execute(&DiskRequest::List) else { return Ok(()) };
        let paths = listing.into_iter().map(|(segment, _)| self.path.join(name_of_segment(segment)));
        let denied = |path: &PathBuf| {
            File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        match paths.into_iter().find(denied) {
            Some(path) => {
                Err(Failure::new(format!("{}: it may not be read: permission denied", path.display())))
            }
            None => Ok(()),
        }
    }

    /// Recovers it, for looking.
    pub(super) fn recover(&self) -> Result<Recovered, Refusal> {
        let mut disk = LookOnly::new(&self.path);
        let runtime = runtime::Builder::new_current_thread().build().map_err(|error| no_runtime(&error))?;
        let clock = Clock::start();
        let look = recover(&mut disk, &clock, Settings::default(), random_seed(), Purpose::Look);
        runtime.block_on(look)
    }

    /// Why it was not recovered.
    pub(super) fn refused(&self, refusal: &Refusal) -> Failure {
        Failure::new(format!("{}: {refusal}", self.path.display()))
    }

    /// Reads something of it.
    pub(super) fn execute(&self, request: &DiskRequest) -> Outcome {
        self.directory.execute(request)
    }
}

fn no_runtime(error: &io::Error) -> Refusal {
    Refusal::DiskFailed { doing: "starting to read", error: error.to_string() }
}
