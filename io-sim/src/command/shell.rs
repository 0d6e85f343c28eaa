//! `vowmq-sim shell`: the broker's real shell under turmoil, from seeds.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vowmq_sim::outcome::Outcome;
use vowmq_sim::shell::{Summary, campaign, generate, run_traced};

/// Runs the broker's own code for sockets, back-pressure, time-outs and shutdown over a simulated network and disk.
#[derive(Args)]
pub struct Arguments {
    /// The seeds: from A to B, B not included.
    #[arg(long, value_parser = parse_seeds, value_name = "A..B")]
    seeds: Range<u64>,
    /// Threads; as many as there are processors by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// Print everything that happens; for one seed.
    #[arg(long)]
    trace: bool,
    /// Print the scenario as JSON instead of running it; for one seed.
    #[arg(long)]
    show: bool,
}

/// Carries the command out. Exit 0 if every promise was kept, 1 if one was broken, 2 if it makes no sense.
pub fn run(arguments: &Arguments) -> ExitCode {
    let seeds = arguments.seeds.clone();
    let one = seeds.end - seeds.start == 1;
    match (arguments.trace, arguments.show) {
        (true, _) | (_, true) if !one => {
            eprintln!("error: --trace and --show are for one seed: --seeds 7..8");
            ExitCode::from(2)
        }
        (_, true) => {
            let scenario = generate(seeds.start);
            println!("{}", serde_json::to_string_pretty(&scenario).expect("a scenario can be written"));
            ExitCode::SUCCESS
        }
        (true, false) => print_run(&run_traced(&generate(seeds.start))),
        (false, false) => run_many(seeds, arguments.jobs),
    }
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("seeds are given as A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let seeds = number(from)?..number(to)?;
    if seeds.is_empty() { Err("there is no seed in that range".to_owned()) } else { Ok(seeds) }
}

fn print_run(outcome: &Outcome) -> ExitCode {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in &outcome.trace {
        if writeln!(out, "{line}").is_err() {
            return ExitCode::SUCCESS; // whoever reads has enough
        }
    }
    drop(out);
    println!("trace {:016x}", outcome.trace_hash);
    match &outcome.violation {
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

fn run_many(seeds: Range<u64>, jobs: Option<usize>) -> ExitCode {
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let bar = ProgressBar::new(seeds.end - seeds.start);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left");
    bar.set_style(style.expect("the template is right"));
    let begin = Instant::now();
    let summary = campaign(seeds, jobs, &|| bar.inc(1));
    bar.finish_and_clear();
    print_summary(&summary, begin.elapsed());
    if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn print_summary(summary: &Summary, elapsed: Duration) {
    println!(
        "{} seeds ({} of them run twice) in {:.1} s: {:.1} seeds a second",
        summary.runs,
        summary.compared,
        elapsed.as_secs_f64(),
        summary.runs as f64 / elapsed.as_secs_f64().max(1e-9)
    );
    println!(
        "{} deliveries, {} ends of the broker in {:.1} s of simulated time",
        summary.deliveries,
        summary.ends,
        summary.simulated_us as f64 / 1e6
    );
    for (name, count) in summary.effects.iter() {
        println!("  {count:>12}  {name}");
    }
    if summary.failures.is_empty() {
        println!("every promise was kept");
    }
    for (seed, violation) in &summary.failures {
        println!("BROKEN by seed {seed}: {violation}");
        println!("  vowmq-sim shell --seeds {seed}..{} --trace", seed + 1);
    }
}
