//! `vowmq-sim run`: a campaign.

use super::report::Report;
use super::{End, command_for, processors, read_scenario};
use clap::Args;
use cpu_time::ProcessTime;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vowmq_core::marks::AMQP_MARKS;
use vowmq_sim::campaign::{Campaign, Failure};
use vowmq_sim::outcome::Checker;
use vowmq_sim::scenario::Scenario;

/// Fresh seeds begin below this, so that they stay short enough to be read out.
const FRESH_BELOW: u64 = 1_000_000_000_000;
/// Failures of each checker that are printed when they are found.
const SHOWN_EACH: u64 = 3;

/// Runs the scenarios of many seeds, or one scenario under many seeds.
///
/// Without --seeds it takes fresh seeds from a random start, which it prints, until --minutes are over, --until-failure
/// ends it, or Ctrl-C, which ends with the summary too. A campaign of 1,000 generated seeds or more also fails when a
/// kind of fault never took effect, one of 3,000 when a mark of the core was never reached.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim run --seeds 0..2000
  vowmq-sim run --minutes 2 --junit simulator.xml
  vowmq-sim run --until-failure
  vowmq-sim run --scenario sim-scenarios/session/takeover.toml --seeds 0..500")]
pub(super) struct Run {
    /// The seeds: from A to B, B not included.
    #[arg(long, value_parser = parse_seeds, value_name = "A..B")]
    seeds: Option<Range<u64>>,
    /// Ends after so many minutes; parts of one are allowed.
    #[arg(long, value_parser = parse_minutes, value_name = "M")]
    minutes: Option<Duration>,
    /// Ends with the first failure.
    #[arg(long)]
    until_failure: bool,
    /// Threads; as many as there are processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// A scenario in a file. Without seeds, minutes and until-failure it runs once, as written.
    #[arg(long, value_name = "PATH")]
    scenario: Option<PathBuf>,
    /// Print the summary as JSON; failures and progress go to standard error.
    #[arg(long)]
    json: bool,
    /// Print how often each mark of the core was reached.
    #[arg(long, conflicts_with = "json")]
    marks: bool,
    /// Write the summary as JUnit XML too, one test case a checker.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(self) -> Result<End, String> {
        let scenario = self.scenario.as_deref().map(read_scenario).transpose()?;
        let seeds = self.seeds(scenario.as_ref())?;
        if let Some(path) = &self.junit {
            super::write_file(path, "")?; // a mistake in its name is told before, not after
        }
        scenario.iter().for_each(super::warn_of_settings);
        if seeds.end == u64::MAX {
            let note = format!("seeds from {} on; Ctrl-C ends with the summary", seeds.start);
            if self.json { eprintln!("{note}") } else { say!("{note}") }
        }
        let begin = Instant::now();
        let campaign = Campaign {
            seeds: seeds.clone(),
            jobs: self.jobs.unwrap_or_else(processors),
            scenario,
            until_failure: self.until_failure,
            until: self.minutes.map(|minutes| begin + minutes),
            stop: stop_on_signal()?,
        };
        let bar = self.bar(&seeds);
        let (mut runs, mut failed) = (0, BTreeMap::new());
        let summary = campaign.run(&mut |own| {
            runs += own.runs;
            self.print_failures(&bar, &own.failures, &mut failed);
            self.move_bar(&bar, begin, runs);
        });
        bar.finish_and_clear();
        let report = Report {
            summary: &summary,
            first_seed: seeds.start,
            interrupted: was_interrupted(),
            elapsed: begin.elapsed(),
            cpu: ProcessTime::now().as_duration(),
            file: self.scenario.as_deref(),
        };
        if self.json {
            report.print_json();
        } else {
            report.print();
            if self.marks {
                super::marks::print(0..AMQP_MARKS, &summary.marks);
            }
        }
        if let Some(path) = &self.junit {
            report.write_junit(path)?;
        }
        Ok(End::clean(summary.is_clean()))
    }

    fn seeds(&self, scenario: Option<&Scenario>) -> Result<Range<u64>, String> {
        let bounded = self.minutes.is_some() || self.until_failure;
        match (&self.seeds, scenario) {
            (Some(seeds), _) => Ok(seeds.clone()),
            (None, Some(scenario)) if !bounded => Ok(scenario.seed..scenario.seed + 1),
            (None, _) => {
                let random = getrandom::u64().map_err(|error| format!("no random start: {error}"))?;
                Ok(random % FRESH_BELOW..u64::MAX)
            }
        }
    }

    /// A bar over the time, if that ends the campaign; else over the seeds, if they end.
    fn bar(&self, seeds: &Range<u64>) -> ProgressBar {
        let (length, template) = match self.minutes {
            Some(minutes) => {
                (Some(minutes.as_millis() as u64), "{bar:40} {msg} seeds  {elapsed} passed, {eta} left")
            }
            None if seeds.end == u64::MAX => (None, "{spinner} {pos} seeds  {per_sec}  {elapsed} passed"),
            None => (Some(seeds.end - seeds.start), "{bar:40} {pos}/{len} seeds  {per_sec}  {eta} left"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is right");
        let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.with_style(style)
    }

    /// Prints what failed above the bar, of each checker the first few.
    fn print_failures(&self, bar: &ProgressBar, failures: &[Failure], failed: &mut BTreeMap<Checker, u64>) {
        for failure in failures {
            let count = failed.entry(failure.violation.checker).or_default();
            *count += 1;
            let text = if *count <= SHOWN_EACH {
                let replay = command_for("replay", failure.seed, self.scenario.as_deref());
                format!("BROKEN: {}\n  {replay} --trace", failure.violation)
            } else if *count == SHOWN_EACH + 1 {
                format!("further seeds that fail {} are only counted", failure.violation.checker)
            } else {
                continue;
            };
            bar.suspend(|| if self.json { eprintln!("{text}") } else { say!("{text}") });
        }
    }

    fn move_bar(&self, bar: &ProgressBar, begin: Instant, runs: u64) {
        if self.minutes.is_some() {
            bar.set_message(runs.to_string());
            bar.set_position(begin.elapsed().as_millis() as u64);
        } else {
            bar.set_position(runs);
        }
    }
}

/// Whether there was a Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the campaign at hand was ended by Ctrl-C.
pub(super) fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Set by the first Ctrl-C; the second one ends the process at once.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let ours = stop.clone();
    let set = move || {
        ours.store(true, Ordering::Relaxed);
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            exit(130);
        }
    };
    ctrlc::set_handler(set).map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;
    Ok(stop)
}

/// Reads `A..B`, or `A` for one seed.
pub(super) fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let seeds = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(text)?..number(text)?.checked_add(1).ok_or("the last number is no seed")?,
    };
    if seeds.is_empty() { Err("there is no seed in that range".to_owned()) } else { Ok(seeds) }
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{text:?}: {error}"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}
