//! The broker's program. What it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    vowmq::command::run()
}
