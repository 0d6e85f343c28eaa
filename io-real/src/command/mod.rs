//! The command line. Exit codes: 0 well, 1 not, 2 usage. Scripts depend on the lines on standard output.

mod backup;
mod check;
mod config;
mod fact_line;
mod inspect;
mod log;
mod salvage;
mod serve;
mod stopped_store;
mod user;

use crate::access::{ITERATIONS, ITERATIONS_MAX};
use crate::configuration::{ConfigurationError, Flag, Origin, Sources};
use clap::{Args, Parser, Subcommand};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "vowmq", version, about = "A message broker whose acknowledgement means: on disk.")]
#[command(args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker (also without a command).
    Serve(ServeFlags),
    /// Verify the store of a stopped broker, with every message in it; of a damaged one, tell what is missing and who is
    /// affected. Changes nothing. Exit 0: sound, 1: damaged, 3: it could not be checked, since a broker uses it or there is
    /// none.
    Check {
        /// The directory of the store.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// List what the store of a stopped broker holds. Changes nothing.
    Inspect {
        /// The directory of the store.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Copy all that can be read of a damaged store of a stopped broker into a new one, and tell what is missing.
    Salvage {
        /// The directory of the damaged store.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// The directory of the new store, empty or absent.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Bytes of a segment of the new store [default: as the largest of the old one].
        #[arg(long, value_name = "BYTES")]
        segment_bytes: Option<u64>,
    },
    /// Copy a store, also while its broker runs.
    Backup {
        /// The directory of the store.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// The directory of the copy, empty or absent.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Make the line of a user for the table [users] of the configuration. The password is asked for, or read from the
    /// first line of standard input.
    User {
        /// The user's name.
        name: String,
        /// How often the password is hashed. Clients that log in with SCRAM-SHA-256 have to do it as often.
        #[arg(long, value_name = "N", default_value_t = ITERATIONS,
              value_parser = clap::value_parser!(u32).range(i64::from(ITERATIONS)..=i64::from(ITERATIONS_MAX)))]
        iterations: u32,
    },
    /// Check a configuration file and print what is in force with it.
    Config {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Args, Debug)]
struct ServeFlags {
    /// The configuration file (or VOWMQ_CONFIG).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The directory of the store [default: ./vowmq-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// An address for MQTT, port 0 for any free port; may be repeated [default: 127.0.0.1:1883; none if only --amqp is given].
    #[arg(long, value_name = "ADDR")]
    mqtt: Vec<String>,
    /// An address for AMQP, port 0 for any free port; may be repeated [default: 127.0.0.1:5672; none if only --mqtt is given].
    #[arg(long, value_name = "ADDR")]
    amqp: Vec<String>,
    /// What is logged on standard error: error, warn, info, debug, trace, also by module.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Any setting of the configuration file, such as limits.inflight=20; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the program with the arguments and environment of this process.
pub fn run() -> ExitCode {
    let line = CommandLine::parse();
    let outcome = match line.command.unwrap_or(Command::Serve(line.serve)) {
        Command::Serve(flags) => flags.into_sources().and_then(serve::serve),
        Command::Check { data_dir } => check::check(&data_dir),
        Command::Inspect { data_dir, json } => inspect::inspect(&data_dir, json),
        Command::Salvage { from, to, segment_bytes } => salvage::salvage(&from, &to, segment_bytes),
        Command::Backup { data_dir, to } => backup::backup(&data_dir, &to),
        Command::User { name, iterations } => user::user(&name, iterations),
        Command::Config { file } => config::config(file),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { text, exit }) => {
            eprintln!("vowmq: {text}");
            ExitCode::from(exit)
        }
    }
}

/// The exit code of most failures; of `check`: the store is damaged.
const FAILED: u8 = 1;

/// The exit code for a mistake on the command line.
const USAGE: u8 = 2;

/// The exit code of `check` when it cannot say anything about a store.
const NOT_CHECKED: u8 = 3;

/// Why a command failed, for the operator.
#[derive(Debug)]
struct Failure {
    text: String,
    exit: u8,
}

impl Failure {
    fn new(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), exit: FAILED }
    }

    /// Of something in this place.
    fn at(path: &Path, error: &impl fmt::Display) -> Failure {
        Failure::new(format!("{}: {error}", path.display()))
    }

    fn not_checked(self) -> Failure {
        Failure { exit: NOT_CHECKED, ..self }
    }

    /// Of a configuration: a mistake on the command line is told from others.
    fn of_configuration(error: &ConfigurationError) -> Failure {
        let exit = if matches!(error.origin, Origin::Flag(_)) { USAGE } else { FAILED };
        Failure { text: error.to_string(), exit }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::new(error.to_string())
    }
}

impl ServeFlags {
    fn into_sources(self) -> Result<Sources, Failure> {
        let mut flags = Vec::new();
        let mut add = |name: &str, key: &str, value: String| {
            flags.push(Flag { name: name.to_owned(), key: key.to_owned(), value });
        };
        for pair in self.set {
            let Some((key, value)) = pair.split_once('=') else {
                let text = format!("--set {pair}: expected KEY=VALUE, such as limits.inflight=20");
                return Err(Failure { text, exit: USAGE });
            };
            add(&format!("--set {pair}"), key.trim(), value.trim().to_owned());
        }
        if let Some(directory) = self.data_dir {
            add("--data-dir", "data_dir", directory.to_string_lossy().into_owned());
        }
        if !self.mqtt.is_empty() {
            add("--mqtt", "listen.mqtt", self.mqtt.join(","));
        }
        if !self.amqp.is_empty() {
            add("--amqp", "listen.amqp", self.amqp.join(","));
        }
        if let Some(filter) = self.log {
            add("--log", "log", filter);
        }
        Ok(Sources::of_process(self.config, flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_settings() {
        // If it failed, a flag would be accepted and do nothing.
        CommandLine::command().debug_assert();
        let mut arguments = vec!["vowmq", "--data-dir", "d", "--amqp", "127.0.0.1:0", "--set", "sync=never"];
        arguments.extend(["--mqtt", "[::1]:0", "--mqtt", "127.0.0.1:0"]);
        let line = CommandLine::parse_from(arguments);
        let mut sources = line.serve.into_sources().expect("well formed");
        sources.file = None;
        sources.variables.clear();
        let configuration = sources.load().expect("accepted");
        assert_eq!(configuration.data_dir, PathBuf::from("d"));
        assert_eq!((configuration.listen_mqtt.len(), configuration.listen_amqp.len()), (2, 1));
        assert_eq!(configuration.settings.sync, vowmq_core::limits::SyncPolicy::Never);
        let line = CommandLine::parse_from(["vowmq", "serve", "--set", "sync"]);
        let Some(Command::Serve(flags)) = line.command else { panic!("not serve") };
        assert!(flags.into_sources().is_err());
    }
}
