//! The log: standard error, with a filter that a reload may change.

use super::Failure;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Changes the filter of a running log.
#[derive(Clone)]
pub(super) struct LogFilter(reload::Handle<EnvFilter, Registry>);

/// Starts the log of this process.
pub(super) fn start(filter: &str) -> Result<LogFilter, Failure> {
    let (filter, handle) = reload::Layer::new(filter.parse::<EnvFilter>()?);
    let lines = fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    Ok(LogFilter(handle))
}

impl LogFilter {
    pub(super) fn set(&self, filter: &str) -> Result<(), Failure> {
        self.0.reload(filter.parse::<EnvFilter>()?)?;
        Ok(())
    }
}
