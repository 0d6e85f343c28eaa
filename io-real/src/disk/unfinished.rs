//! The mark of a copy that is not whole yet: a file beside its segments, until all of it is there, verified and on the disk.
//! Without it a copy whose making was ended would pass for a sound store that holds less.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "unfinished-copy";

/// The directory holds a copy that was never finished.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: this copy was never finished: the `vowmq backup` or `vowmq salvage` that made it was ended. Remove the directory \
     and make the copy again",
    .0.display()
)]
pub struct Unfinished(PathBuf);

/// Marks the directory, durably, before anything is copied into it.
///
/// # Errors
/// What the system says.
pub fn mark(directory: &Path) -> io::Result<()> {
    File::create_new(directory.join(NAME))?.sync_all()?;
    File::open(directory)?.sync_all()
}

/// Takes the mark away, durably, when the copy is whole.
///
/// # Errors
/// What the system says.
pub fn unmark(directory: &Path) -> io::Result<()> {
    fs::remove_file(directory.join(NAME))?;
    File::open(directory)?.sync_all()
}

/// Refuses a directory that is marked.
///
/// # Errors
/// It is.
pub fn refuse(directory: &Path) -> Result<(), Unfinished> {
    match directory.join(NAME).exists() {
        true => Err(Unfinished(directory.to_owned())),
        false => Ok(()),
    }
}
