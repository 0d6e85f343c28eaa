//! Reading the store of a stopped broker, for `check` and `inspect`. Nothing on the disk is changed, not even
//! made: a missing directory is an error.

use super::Failure;
use crate::clock::Clock;
use crate::disk::lock::DirectoryLock;
use crate::disk::look::LookOnly;
use crate::recovery::{random_seed, recover};
use std::path::Path;
use vowmq_core::limits::Settings;
use vowmq_core::{Purpose, Recovered};

/// Recovers the store for looking; no broker can start on it meanwhile.
pub(super) fn recover_stopped(data_dir: &Path) -> Result<Recovered, Failure> {
    if !data_dir.is_dir() {
        return Err(Failure(format!("{}: there is no such directory", data_dir.display())));
    }
    let _lock = DirectoryLock::look(data_dir)?;
    let mut disk = LookOnly::new(data_dir);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let recovered = runtime.block_on(recover(
        &mut disk,
        &Clock::start(),
        Settings::default(),
        random_seed(),
        Purpose::Look,
    ));
    recovered.map_err(|refusal| Failure(format!("{}: {refusal}", data_dir.display())))
}
