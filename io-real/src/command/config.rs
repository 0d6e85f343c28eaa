//! `vowmq config FILE`: checks a configuration and prints what is in force, which is a configuration itself.

use super::Failure;
use crate::configuration::Sources;
use std::io::{Write, stdout};
use std::path::PathBuf;

pub(super) fn config(file: PathBuf) -> Result<(), Failure> {
    let configuration = Sources::of_process(Some(file), Vec::new())
        .load()
        .map_err(|error| Failure::of_configuration(&error))?;
    stdout().write_all(configuration.to_toml().as_bytes())?;
    Ok(())
}
