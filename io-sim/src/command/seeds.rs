//! Runs that are nothing but their seed: `vowmq-sim shell` and `vowmq-sim amqp`.

use super::run::parse_seeds;
use super::{End, processors};
use clap::Args;
use cpu_time::ProcessTime;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::time::{Duration, Instant};
use vowmq_core::marks;
use vowmq_sim::coverage::missed_by_amqp;
use vowmq_sim::outcome::{Checker, Outcome};
use vowmq_sim::seeds::{Summary, campaign};
use vowmq_sim::{amqp, shell};

/// Runs the broker's own code for sockets, back-pressure, time-outs and shutdown over a simulated network and disk.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim shell --seeds 0..500
  vowmq-sim shell --seeds 7 --trace")]
pub(super) struct Shell {
    #[command(flatten)]
    seeds: Seeds,
}

/// Runs publishers and consumers of AMQP 0-9-1 through power cuts and broken connections.
///
/// A campaign of 1,000 seeds or more also fails when a kind of fault never took effect, one of 3,000 when a mark of AMQP
/// was never reached.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim amqp --seeds 0..5000
  vowmq-sim amqp --seeds 7 --trace
  vowmq-sim replay amqp:7 --html run.html
  vowmq-sim shrink amqp:7")]
pub(super) struct Amqp {
    #[command(flatten)]
    seeds: Seeds,
    /// Print how often each mark of AMQP was reached.
    #[arg(long, conflicts_with = "json")]
    marks: bool,
}

#[derive(Args)]
struct Seeds {
    /// The seeds: from A to B, B not included; or one seed, A.
    #[arg(long, value_parser = parse_seeds, value_name = "A..B")]
    seeds: Option<Range<u64>>,
    /// Threads; as many as there are processors by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// Stop at the first failure.
    #[arg(long)]
    until_failure: bool,
    /// Print the failures as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Print everything that happens; for one seed.
    #[arg(long)]
    trace: bool,
    /// Print the scenario as JSON instead of running it; for one seed.
    #[arg(long)]
    show: bool,
}

/// A kind of runs.
struct Kind {
    /// The commands that look at the run of one seed.
    looks: fn(u64) -> Vec<String>,
    run: fn(u64) -> Outcome,
    run_traced: fn(u64) -> Outcome,
    /// The scenario as JSON.
    show: fn(u64) -> Result<String, serde_json::Error>,
    /// What a campaign should have had or come to and has not.
    missed: fn(&Summary) -> Vec<String>,
}

impl Shell {
    pub(super) fn run(self) -> Result<End, String> {
        self.seeds.run(&Kind {
            looks: |seed| vec![format!("vowmq-sim shell --seeds {seed} --trace")],
            run: |seed| shell::run(&shell::generate(seed)),
            run_traced: |seed| shell::run_traced(&shell::generate(seed)),
            show: |seed| serde_json::to_string_pretty(&shell::generate(seed)),
            missed: |_| Vec::new(),
        })
    }
}

impl Amqp {
    pub(super) fn run(self) -> Result<End, String> {
        let end = self.seeds.run(&Kind {
            looks: |seed| {
                vec![
                    format!("vowmq-sim replay amqp:{seed} --html run.html"),
                    format!("vowmq-sim shrink amqp:{seed} --html small.html"),
                ]
            },
            run: |seed| amqp::run(&amqp::generate(seed)),
            run_traced: |seed| amqp::run_recorded(&amqp::generate(seed)),
            show: |seed| serde_json::to_string_pretty(&amqp::generate(seed)),
            missed: |summary| missed_by_amqp(summary, &marks::counts()),
        });
        if self.marks {
            super::marks::print(marks::AMQP_MARKS..marks::MARKS.len(), &marks::counts());
        }
        end
    }
}

impl Seeds {
    fn seeds(&self) -> Result<Range<u64>, String> {
        self.seeds.clone().ok_or_else(|| "which seeds? --seeds A..B".to_owned())
    }

    fn run(self, kind: &Kind) -> Result<End, String> {
        if self.show {
            let text = (kind.show)(self.one()?).map_err(|error| error.to_string())?;
            say!("{text}");
            return Ok(End::Clean);
        }
        if self.trace {
            return Ok(print_run(&(kind.run_traced)(self.one()?)));
        }
        let seeds = self.seeds()?;
        Ok(self.run_many(seeds, kind))
    }

    /// The only seed.
    fn one(&self) -> Result<u64, String> {
        let seeds = self.seeds()?;
        if seeds.end - seeds.start == 1 {
            Ok(seeds.start)
        } else {
            Err("--trace and --show are for one seed: --seeds 7".to_owned())
        }
    }

    fn run_many(self, seeds: Range<u64>, kind: &Kind) -> End {
        let bar = ProgressBar::new(seeds.end - seeds.start);
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left");
        bar.set_style(style.expect("the template is right"));
        let (begin, cpu) = (Instant::now(), ProcessTime::now());
        let jobs = self.jobs.unwrap_or_else(processors);
        let summary = campaign(seeds, jobs, self.until_failure, &kind.run, &|| bar.inc(1));
        bar.finish_and_clear();
        let missed = if self.until_failure { Vec::new() } else { (kind.missed)(&summary) };
        if self.json {
            let failures = summary.failures.iter();
            let failures = failures.map(|(seed, violation)| json!({ "seed": seed, "violation": violation }));
            let failures: Vec<Value> = failures.collect();
            say!(
                "{}",
                json!({ "failures": failures, "missed": missed, "cpu_seconds": cpu.elapsed().as_secs_f64() })
            );
        } else {
            print_summary(kind, &summary, begin.elapsed());
            missed
                .iter()
                .for_each(|name| say!("NOT REACHED: {name:?}: these runs do not show what they should"));
        }
        End::clean(summary.failures.is_empty() && missed.is_empty())
    }
}

fn print_run(outcome: &Outcome) -> End {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in &outcome.trace {
        if writeln!(out, "{line}").is_err() {
            break; // whoever reads has enough
        }
    }
    drop(out);
    say!("trace {:016x}", outcome.trace_hash);
    match &outcome.violation {
        Some(violation) => say!("BROKEN: {violation}"),
        None => say!("every promise was kept"),
    }
    End::clean(outcome.violation.is_none())
}

fn print_summary(kind: &Kind, summary: &Summary, elapsed: Duration) {
    say!(
        "{} seeds ({} of them run twice) in {:.1} s: {:.1} seeds a second",
        summary.runs,
        summary.compared,
        elapsed.as_secs_f64(),
        summary.runs as f64 / elapsed.as_secs_f64().max(1e-9)
    );
    say!(
        "{} deliveries, {} ends of the broker in {:.1} s of simulated time",
        summary.deliveries,
        summary.ends,
        summary.simulated_us as f64 / 1e6
    );
    for (name, count) in summary.effects.iter() {
        say!("  {count:>12}  {name}");
    }
    if summary.failures.is_empty() {
        say!("every promise was kept");
    }
    let mut by_checker: BTreeMap<Checker, Vec<u64>> = BTreeMap::new();
    for (seed, violation) in &summary.failures {
        say!("BROKEN by seed {seed}: {violation}");
        by_checker.entry(violation.checker).or_default().push(*seed);
    }
    for (checker, seeds) in by_checker {
        let (seed, count) = (seeds[0], seeds.len());
        say!("{checker}, by {count} of the seeds: {}", checker.meaning());
        (kind.looks)(seed).iter().for_each(|command| say!("  {command}"));
    }
}
