//! The command `vowmq-sim`.

mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    command::Arguments::parse().run()
}
