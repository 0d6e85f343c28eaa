//! The command: `run` a campaign of seeds or one scenario, `replay` one of them.

#[path = "command/shell.rs"]
mod shell;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vowmq_sim::campaign::{Summary, campaign};
use vowmq_sim::outcome::Outcome;
use vowmq_sim::scenario::{self, Scenario};
use vowmq_sim::{generate, run, run_traced};

/// Simulates vowmq on a network that breaks and a disk that loses its power, and checks every promise.
#[derive(Parser)]
#[command(name = "vowmq-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the scenarios of many seeds, or one scenario under many seeds. Exit 1 if a promise was broken.
    Run {
        /// The seeds: from A to B, B not included.
        #[arg(long, value_parser = parse_seeds, value_name = "A..B")]
        seeds: Option<Range<u64>>,
        /// A scenario in a file; without seeds it runs once, as written.
        #[arg(long, value_name = "PATH")]
        scenario: Option<PathBuf>,
        /// Threads; as many as there are processors by default.
        #[arg(long)]
        jobs: Option<usize>,
        /// Print the summary as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs one scenario again: that of a seed, or one in a file.
    Replay {
        /// A seed or a file.
        what: String,
        /// With the file: another seed for what the scenario leaves open.
        #[arg(long)]
        seed: Option<u64>,
        /// Print everything that happens.
        #[arg(long)]
        trace: bool,
        /// Print the scenario as JSON instead of running it.
        #[arg(long)]
        show: bool,
    },
    /// Runs the broker's real shell over a simulated network. Exit 1 if a promise was broken.
    Shell(shell::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { seeds, scenario, jobs, json } => {
            match run_many(seeds, scenario.as_deref(), jobs, json) {
                Ok(code) => code,
                Err(words) => usage(&words),
            }
        }
        Command::Replay { what, seed, trace, show } => match load(&what, seed) {
            Ok(scenario) if show => {
                println!("{}", serde_json::to_string_pretty(&scenario).expect("a scenario can be written"));
                ExitCode::SUCCESS
            }
            Ok(scenario) => replay(&scenario, trace),
            Err(words) => usage(&words),
        },
        Command::Shell(arguments) => shell::run(&arguments),
    }
}

fn usage(words: &str) -> ExitCode {
    eprintln!("error: {words}");
    ExitCode::from(2)
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("seeds are given as A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let seeds = number(from)?..number(to)?;
    if seeds.is_empty() { Err("there is no seed in that range".to_owned()) } else { Ok(seeds) }
}

fn load(what: &str, seed: Option<u64>) -> Result<Scenario, String> {
    if let Ok(number) = what.parse::<u64>() {
        return Ok(generate(number));
    }
    let mut scenario = read_scenario(Path::new(what))?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

fn read_scenario(path: &Path) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    scenario::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn replay(scenario: &Scenario, trace: bool) -> ExitCode {
    if !scenario.why.is_empty() {
        println!("{}", scenario.why.trim());
    }
    let outcome: Outcome = if trace { run_traced(scenario) } else { run(scenario) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in &outcome.trace {
        if writeln!(out, "{line}").is_err() {
            return ExitCode::SUCCESS; // whoever reads has enough
        }
    }
    drop(out);
    let counts = &outcome.counts;
    println!(
        "{} broker inputs, {} packets, {} deliveries, {} crashes in {} of simulated time; trace {:016x}",
        counts.broker_inputs,
        counts.packets,
        counts.deliveries,
        counts.crashes,
        seconds(counts.simulated_us),
        outcome.trace_hash
    );
    print_effects(counts);
    match outcome.violation {
        Some(violation) => {
            println!("BROKEN: {violation}");
            ExitCode::from(1)
        }
        None => {
            println!("every promise was kept");
            ExitCode::SUCCESS
        }
    }
}

fn run_many(
    seeds: Option<Range<u64>>,
    path: Option<&Path>,
    jobs: Option<usize>,
    json: bool,
) -> Result<ExitCode, String> {
    let scenario = path.map(read_scenario).transpose()?;
    let seeds = match (seeds, &scenario) {
        (Some(seeds), _) => seeds,
        (None, Some(scenario)) => scenario.seed..scenario.seed + 1,
        (None, None) => return Err("say --seeds A..B, or --scenario PATH, or both".to_owned()),
    };
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(seeds.end - seeds.start) };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left");
    bar.set_style(style.expect("the template is right"));
    let begin = Instant::now();
    let summary = campaign(seeds, jobs, scenario.as_ref(), &|| bar.inc(1));
    bar.finish_and_clear();
    if json {
        print_json(&summary, begin.elapsed(), path);
    } else {
        print_summary(&summary, begin.elapsed(), path);
    }
    Ok(if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn replay_command(seed: u64, path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("vowmq-sim replay {} --seed {seed} --trace", path.display()),
        None => format!("vowmq-sim replay {seed} --trace"),
    }
}

fn print_summary(summary: &Summary, elapsed: Duration, path: Option<&Path>) {
    let counts = &summary.counts;
    let rate = |count: u64| count as f64 / elapsed.as_secs_f64().max(1e-9);
    println!(
        "{} seeds ({} of them run twice) in {:.1} s: {:.0} seeds and {:.0} broker inputs a second",
        summary.runs,
        summary.compared,
        elapsed.as_secs_f64(),
        rate(summary.runs),
        rate(counts.broker_inputs)
    );
    println!(
        "{} broker inputs, {} packets, {} deliveries, {} crashes in {} of simulated time",
        counts.broker_inputs,
        counts.packets,
        counts.deliveries,
        counts.crashes,
        seconds(counts.simulated_us)
    );
    print_effects(counts);
    if summary.failures.is_empty() {
        println!("every promise was kept");
    }
    for name in &summary.missed {
        println!("NOT REACHED: {name:?}, so these runs do not show what the scenario is for");
    }
    for (checker, failures) in summary.by_checker() {
        let shortest = failures[0];
        println!("BROKEN: {checker}, by {} seeds; the shortest is seed {}:", failures.len(), shortest.seed);
        println!("  {}", shortest.violation);
        println!("  {}", replay_command(shortest.seed, path));
    }
}

fn print_effects(counts: &vowmq_sim::outcome::Counts) {
    for (name, count) in counts.effects.iter() {
        println!("  {count:>12}  {name}");
    }
}

fn print_json(summary: &Summary, elapsed: Duration, path: Option<&Path>) {
    let counts = &summary.counts;
    let effects: serde_json::Map<String, serde_json::Value> =
        counts.effects.iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let failures: Vec<serde_json::Value> = summary
        .failures
        .iter()
        .map(|failure| {
            serde_json::json!({
                "seed": failure.seed,
                "size": failure.size,
                "violation": failure.violation,
                "replay": replay_command(failure.seed, path),
            })
        })
        .collect();
    let all = serde_json::json!({
        "seeds": summary.runs,
        "compared": summary.compared,
        "seconds": elapsed.as_secs_f64(),
        "broker_inputs": counts.broker_inputs,
        "packets": counts.packets,
        "deliveries": counts.deliveries,
        "crashes": counts.crashes,
        "simulated_us": counts.simulated_us,
        "effects": effects,
        "failures": failures,
        "missed": summary.missed,
    });
    println!("{all}");
}

fn seconds(micros: u64) -> String {
    format!("{:.1} s", micros as f64 / 1e6)
}
