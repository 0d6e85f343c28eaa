//! One process a data directory: advisory locks, which the system takes back when the process ends, however it ends. One
//! is on the directory itself, which nobody removes from under a broker as they may remove a "stale" file; the other is on
//! `DIR/lock`, which names the process, and works where directories cannot be locked.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "lock";

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: File,
    file: Option<File>,
    /// Whether the file names this process.
    signed: bool,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses the directory.
    #[error("another vowmq{} uses {}; stop it or choose another --data-dir", in_brackets(*pid), .directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
        /// The other process, where it said so.
        pid: Option<u32>,
    },
    /// The lock file cannot be opened, read or written.
    #[error("{}: {error}", .file.display())]
    Failed {
        /// The lock file.
        file: PathBuf,
        /// The system's words.
        error: io::Error,
    },
}

fn in_brackets(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

impl DirectoryLock {
    /// Locks the directory for this process alone, and writes its pid down.
    ///
    /// # Errors
    /// Somebody else holds it, or the system refuses.
    pub fn take(directory: &Path) -> Result<DirectoryLock, LockError> {
        let path = directory.join(NAME);
        let failed = |error| LockError::Failed { file: path.clone(), error };
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed)?;
        lock(&mut file, directory, FlockOperation::NonBlockingLockExclusive).map_err(failed)??;
        let itself = lock_itself(directory, FlockOperation::NonBlockingLockExclusive)?;
        sign(&mut file).map_err(failed)?;
        Ok(DirectoryLock { _directory: itself, file: Some(file), signed: true })
    }

    /// Locks the directory for looking, beside others who look. Changes nothing.
    ///
    /// # Errors
    /// A broker holds it, or the system refuses.
    pub fn look(directory: &Path) -> Result<DirectoryLock, LockError> {
        let path = directory.join(NAME);
        let failed = |error| LockError::Failed { file: path.clone(), error };
        let mut file = match File::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if let Some(file) = &mut file {
            lock(file, directory, FlockOperation::NonBlockingLockShared).map_err(failed)??;
        }
        let itself = lock_itself(directory, FlockOperation::NonBlockingLockShared)?;
        Ok(DirectoryLock { _directory: itself, file, signed: false })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.signed) {
            // The name in the file is a courtesy to whoever is refused; the lock itself ends with the handle.
            let _ = file.set_len(0);
        }
    }
}

/// The outer error is the system's, the inner one says that somebody holds the lock.
fn lock(file: &mut File, directory: &Path, operation: FlockOperation) -> io::Result<Result<(), LockError>> {
    match flock(&*file, operation) {
        Ok(()) => Ok(Ok(())),
        Err(Errno::WOULDBLOCK) => {
            let mut signature = String::new();
            file.take(32).read_to_string(&mut signature)?;
            Ok(Err(LockError::Held { directory: directory.to_owned(), pid: signature.trim().parse().ok() }))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Locks the directory itself. Network file systems may not know how; then the lock file has to do.
fn lock_itself(directory: &Path, operation: FlockOperation) -> Result<File, LockError> {
    let itself =
        File::open(directory).map_err(|error| LockError::Failed { file: directory.to_owned(), error })?;
    match flock(&itself, operation) {
        Err(Errno::WOULDBLOCK) => Err(LockError::Held { directory: directory.to_owned(), pid: None }),
        Ok(()) | Err(_) => Ok(itself),
    }
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_who_holds() {
        // If it failed, two brokers would write into one store.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let held = DirectoryLock::take(place.path()).expect("free");
        let error = DirectoryLock::take(place.path()).expect_err("held");
        let expected = format!(
            "another vowmq (pid {}) uses {}; stop it or choose another --data-dir",
            std::process::id(),
            place.path().display()
        );
        assert_eq!(error.to_string(), expected);
        DirectoryLock::look(place.path()).expect_err("a running store is not looked at");
        // Somebody takes the file for a left-over.
        std::fs::remove_file(place.path().join(NAME)).expect("it is there");
        DirectoryLock::take(place.path()).expect_err("still held");
        DirectoryLock::look(place.path()).expect_err("still not looked at");
        drop(held);
        DirectoryLock::take(place.path()).expect("free again");
    }

    #[test]
    fn looking_shuts_brokers_out_and_makes_nothing() {
        // If it failed, a broker could start under a check, or a check would leave files behind.
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        drop(DirectoryLock::look(place.path()).expect("free"));
        assert_eq!(std::fs::read_dir(place.path()).expect("lists").count(), 0);
        drop(DirectoryLock::take(place.path()).expect("free"));
        let first = DirectoryLock::look(place.path()).expect("free");
        let second = DirectoryLock::look(place.path()).expect("shared");
        let error = DirectoryLock::take(place.path()).expect_err("held");
        drop((first, second));
        assert!(error.to_string().starts_with("another vowmq uses "), "{error}");
    }
}
