//! What `vowmq-sim` can do, one file a command. Exit 0: every promise was kept; 1: one was broken, or something did not
//! show what it is for; 2: a mistake on the command line or in a file.

/// Prints a line. Whoever reads may have had enough and gone: that ends nothing, and changes no exit code.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

mod bugs;
mod corpus;
mod exhaust;
mod marks;
mod replay;
mod report;
mod run;
mod seeds;
mod shrink;

use clap::{Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;
use vowmq_sim::any::AnyScenario;
use vowmq_sim::corpus::scenario_in;
use vowmq_sim::scenario::Scenario;

/// Simulates vowmq on a network that breaks and a disk that loses its power, and checks every promise.
///
/// Everything that happens in a run follows from its scenario, so that every failure can be replayed. A seed stands for
/// the scenario that it generates; people write scenarios as TOML (see sim-scenarios/).
#[derive(Parser)]
#[command(name = "vowmq-sim", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 every promise was kept; 1 a violation was found; 2 usage.";

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Replay(replay::Replay),
    Shrink(shrink::Shrink),
    Exhaust(exhaust::Exhaust),
    Marks(marks::Marks),
    Shell(seeds::Shell),
    Amqp(seeds::Amqp),
    Corpus(corpus::Corpus),
    Bugs(bugs::Bugs),
}

impl Arguments {
    /// Does what was asked for.
    pub(crate) fn run(self) -> ExitCode {
        let ended = match self.command {
            Command::Run(run) => run.run(),
            Command::Replay(replay) => replay.run(),
            Command::Shrink(shrink) => shrink.run(),
            Command::Exhaust(exhaust) => exhaust.run(),
            Command::Marks(marks) => marks.run(),
            Command::Shell(shell) => shell.run(),
            Command::Amqp(amqp) => amqp.run(),
            Command::Corpus(corpus) => corpus.run(),
            Command::Bugs(bugs) => bugs.run(),
        };
        match ended {
            Ok(End::Clean) => ExitCode::SUCCESS,
            Ok(End::Broken) => ExitCode::from(1),
            Err(words) => {
                eprintln!("error: {words}");
                ExitCode::from(2)
            }
        }
    }
}

/// How a command ended; an error is a mistake in what was asked for, in words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Broken,
}

impl End {
    fn clean(clean: bool) -> End {
        if clean { End::Clean } else { End::Broken }
    }
}

/// The scenario of a seed, or that in a file with perhaps another seed.
fn load(what: &str, seed: Option<u64>) -> Result<AnyScenario, String> {
    match (AnyScenario::of_seed(what), seed) {
        (Some(_), Some(_)) => Err("--seed goes with a file; here a seed is given already".to_owned()),
        (Some(scenario), None) => Ok(scenario),
        (None, _) => {
            let mut scenario = read_any(Path::new(what))?;
            if let Some(seed) = seed {
                *scenario.seed_mut() = seed;
            }
            Ok(scenario)
        }
    }
}

/// A scenario as TOML or JSON, or a record of one.
fn read_any(path: &Path) -> Result<AnyScenario, String> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return vowmq_sim::scenario::read(path).map(|scenario| AnyScenario::Mqtt(Box::new(scenario)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    scenario_in(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// As `read_any`, for what runs clients of MQTT only.
fn read_scenario(path: &Path) -> Result<Scenario, String> {
    match read_any(path)? {
        AnyScenario::Mqtt(scenario) => Ok(*scenario),
        AnyScenario::Amqp(_) => {
            let path = path.display();
            Err(format!("{path} is a scenario of AMQP clients, which `vowmq-sim replay {path}` runs"))
        }
    }
}

/// A run under such settings fails rightly, and its reader should know why.
fn warn_of_settings(scenario: &Scenario) {
    if scenario.gives_up_the_promise() {
        eprintln!(
            "note: `sync` is not \"always\", so an acknowledgement does not mean \"on disk\", and what breaks for it is no \
             fault of the broker; name the `checkers` that count in the scenario to see the others"
        );
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The command that does this with the run of a seed.
fn command_for(verb: &str, seed: u64, file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("vowmq-sim {verb} {} --seed {seed}", file.display()),
        None => format!("vowmq-sim {verb} {seed}"),
    }
}

/// As many threads as there are processors.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
