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
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vowmq_core::marks;
use vowmq_sim::coverage::missed_by_amqp;
use vowmq_sim::outcome::{Checker, Outcome};
use vowmq_sim::page::{Page, Window};
use vowmq_sim::seeds::{Summary, campaign};
use vowmq_sim::shrink::shrink_amqp;
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
  vowmq-sim amqp --seeds 7 --shrink shrunk.json
  vowmq-sim amqp --scenario shrunk.json --html run.html")]
pub(super) struct Amqp {
    #[command(flatten)]
    seeds: Seeds,
    /// Print how often each mark of AMQP was reached.
    #[arg(long, conflicts_with = "json")]
    marks: bool,
    /// Make the scenario of the seed as small as it gets, so that it still fails the same checker, and write it to a file;
    /// for one seed.
    #[arg(long, value_name = "FILE")]
    shrink: Option<PathBuf>,
    /// Run a scenario in a file and print everything that happens.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "shrink", "marks"])]
    scenario: Option<PathBuf>,
    /// Write what happens as one page for a browser, which needs nothing else; for one seed, or with --scenario.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shrink", "marks"])]
    html: Option<PathBuf>,
}

/// Seconds of work that shrinking may take.
const SHRINK_SECONDS: u64 = 20;

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
    name: &'static str,
    /// Whether its scenarios can be made smaller.
    shrinks: bool,
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
            name: "shell",
            shrinks: false,
            run: |seed| shell::run(&shell::generate(seed)),
            run_traced: |seed| shell::run_traced(&shell::generate(seed)),
            show: |seed| serde_json::to_string_pretty(&shell::generate(seed)),
            missed: |_| Vec::new(),
        })
    }
}

impl Amqp {
    pub(super) fn run(self) -> Result<End, String> {
        if let Some(path) = &self.scenario {
            let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            let scenario = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let command = format!("vowmq-sim amqp --scenario {}", path.display());
            return self.show_run(&scenario, &command);
        }
        if self.html.is_some() {
            let seed = self.seeds.one()?;
            let command = format!("vowmq-sim amqp --seeds {seed} --trace");
            return self.show_run(&amqp::generate(seed), &command);
        }
        if let Some(path) = &self.shrink {
            return shrink(self.seeds.one()?, path, self.seeds.json);
        }
        let end = self.seeds.run(&Kind {
            name: "amqp",
            shrinks: true,
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

impl Amqp {
    /// Runs a scenario, and prints it or writes its page; `command` runs it again.
    fn show_run(&self, scenario: &amqp::Scenario, command: &str) -> Result<End, String> {
        let mut outcome = amqp::run_recorded(scenario);
        if let Some(path) = &self.html {
            let subject = scenario.subject(outcome.violation.as_ref());
            let page = Page { subject, outcome: &outcome, command };
            super::write_file(path, &page.render(Window::default()))?;
            outcome.trace.clear();
        }
        let end = print_run(&outcome);
        if let Some(path) = &self.html {
            say!("the page is {}", path.display());
        }
        Ok(end)
    }
}

/// Shrinks the scenario of a seed.
fn shrink(seed: u64, path: &Path, json: bool) -> Result<End, String> {
    let before = amqp::generate(seed);
    let (checker, shrunk) = shrink_amqp(&before, SHRINK_SECONDS)?;
    let after = &shrunk.scenario;
    let text = serde_json::to_string_pretty(after).map_err(|error| error.to_string())?;
    super::write_file(path, &(text + "\n"))?;
    let (clients, faults) = (after.clients(), after.faults.len());
    if json {
        let after = json!({ "operations": clients, "faults": faults });
        say!("{}", json!({ "checker": checker, "after": after, "runs": shrunk.runs, "file": path }));
        return Ok(End::Broken);
    }
    say!("{checker}, shrunk in {} runs", shrunk.runs);
    say!(
        "{} clients and {} faults before, {clients} and {faults} after",
        before.clients(),
        before.faults.len()
    );
    say!("vowmq-sim amqp --scenario {} --html {}", path.display(), path.with_extension("html").display());
    Ok(End::Broken)
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
            Err("--trace, --show, --shrink and --html are for one seed: --seeds 7".to_owned())
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
        say!("  vowmq-sim {} --seeds {seed} --trace", kind.name);
        if kind.shrinks {
            say!("  vowmq-sim {} --seeds {seed} --shrink shrunk-{checker}-{seed}.json", kind.name);
        }
    }
}
