//! `vowmq-sim exhaust`: everything that is small.

use super::run::{stop_on_signal, was_interrupted};
use super::{End, processors, write_file};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::Instant;
use vowmq_sim::exhaust::{Bounds, STEPS, exhaust};

/// Tries every crash of short workloads: at every disk operation, with every subset surviving of what was not synced, and
/// once more inside the recovery.
///
/// A workload is a publisher, a subscriber with a will, and up to four steps, one after the other or all at once. Ctrl-C
/// ends with what was tried.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim exhaust --steps 2
  vowmq-sim exhaust --steps 4 --recovery-steps 2 --out failing.json")]
pub(super) struct Exhaust {
    /// Steps of the longest workload.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=4), value_name = "N")]
    steps: u64,
    /// Steps of the longest workload whose recoveries are crashed as well, at each of their operations.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=4), value_name = "N")]
    recovery_steps: u64,
    /// Unsynced sectors, lengths and names that are tried in every subset; of more, the others stay or go together.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=20), value_name = "N")]
    items: u32,
    /// Threads; as many as there are processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Where the first failing scenario is written.
    #[arg(long, default_value = "exhaust-failure.json", value_name = "FILE")]
    out: PathBuf,
    /// List what a step may be, and do nothing.
    #[arg(long)]
    list: bool,
}

impl Exhaust {
    pub(super) fn run(self) -> Result<End, String> {
        if self.list {
            STEPS.iter().for_each(|step| say!("{step}"));
            return Ok(End::Clean);
        }
        let begin = Instant::now();
        let bounds = Bounds {
            steps: self.steps as usize,
            items: self.items,
            recovery_steps: self.recovery_steps as usize,
        };
        let template = "{bar:40} {pos}/{len} workloads  {elapsed} passed, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        let bar = ProgressBar::new(0).with_style(style);
        let each = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let stop = stop_on_signal()?;
        let search = exhaust(bounds, self.jobs.unwrap_or_else(processors), &each, &stop);
        bar.finish_and_clear();
        say!(
            "{} workloads, {} crash points, {} runs, {} of them with a crash inside the recovery, in {:.1} s; at {} points \
             more than {} items were not synced, and not every subset was tried",
            search.workloads,
            search.crash_points,
            search.runs,
            search.recovery_runs,
            begin.elapsed().as_secs_f64(),
            search.bounded,
            self.items
        );
        if was_interrupted() {
            say!("interrupted: the other workloads were not tried");
        }
        for (scenario, violation) in search.failures.iter().take(5) {
            say!("BROKEN: {violation}\n  {}", scenario.why);
        }
        let Some((scenario, _)) = search.failures.first() else {
            say!("every promise was kept");
            return Ok(End::Clean);
        };
        let text = serde_json::to_string_pretty(scenario).map_err(|error| error.to_string())?;
        write_file(&self.out, &text)?;
        say!("{} workloads fail; the first one is in {}", search.failures.len(), self.out.display());
        say!("  vowmq-sim replay {} --trace", self.out.display());
        Ok(End::Broken)
    }
}
