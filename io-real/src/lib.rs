//! The real driver of vowmq's core: sockets, files, the clock, the configuration and the command line.
//!
//! [`shell::Shell`] is generic over its listeners and streams, [`disk::Disk`] over who carries out the store's
//! orders, so that tests can put a simulated network or disk under the very code that serves.

pub mod access;
pub mod clock;
pub mod command;
pub mod configuration;
pub mod disk;
pub mod recovery;
mod report;
pub mod shell;
