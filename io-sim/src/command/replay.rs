//! `vowmq-sim replay`: one scenario again.

use super::{End, load, report, warn_of_settings, write_file};
use clap::Args;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use vowmq_sim::any::AnyScenario;
use vowmq_sim::outcome::Outcome;
use vowmq_sim::page::{Page, Window};

/// Runs one scenario again: that of a seed, or one in a file.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim replay 170277 --trace | less
  vowmq-sim replay amqp:7 --html run.html
  vowmq-sim replay shrunk-loss-170277.json --html run.html
  vowmq-sim replay corpus/runs/held-will-replaced-at-takeover.json
  vowmq-sim replay 170277 --show > scenario.json")]
pub(super) struct Replay {
    /// A seed (amqp:SEED for clients of AMQP) or a file.
    what: String,
    /// With a file: another seed for what the scenario leaves open.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens.
    #[arg(long)]
    trace: bool,
    /// Write what happens as one page for a browser, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Let the page begin and end at these seconds of simulated time, as in 1.5..3.
    #[arg(long, value_name = "FROM..TO", requires = "html")]
    window: Option<Window>,
    /// Print the scenario as JSON instead of running it.
    #[arg(long)]
    show: bool,
    /// Print the outcome as JSON, without the trace.
    #[arg(long, conflicts_with_all = ["trace", "show"])]
    json: bool,
}

impl Replay {
    pub(super) fn run(self) -> Result<End, String> {
        let scenario = load(&self.what, self.seed)?;
        if let AnyScenario::Mqtt(scenario) = &scenario {
            warn_of_settings(scenario);
        }
        if self.show {
            say!("{}", serde_json::to_string_pretty(&scenario).map_err(|error| error.to_string())?);
            return Ok(End::Clean);
        }
        if !scenario.why().is_empty() && !self.json {
            say!("{}", scenario.why().trim());
        }
        let outcome = match (&self.html, self.trace) {
            (Some(_), _) => scenario.run_recorded(),
            (None, true) => scenario.run_traced(),
            (None, false) => scenario.run(),
        };
        if let Some(window) = self.window.filter(|window| !window.touches(outcome.counts.simulated_us)) {
            let seconds = outcome.counts.simulated_us as f64 / 1e6;
            return Err(format!("the run takes {seconds:.3} s; {window} shows nothing of it"));
        }
        if let Some(path) = &self.html {
            write_page(path, &scenario, &outcome, &self.command(), self.window)?;
        }
        let end = End::clean(outcome.violation.is_none());
        if self.json {
            let all = serde_json::json!({
                "trace_hash": format!("{:016x}", outcome.trace_hash),
                "violation": outcome.violation,
                "counts": outcome.counts,
            });
            say!("{all}");
            return Ok(end);
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        for line in outcome.trace.iter().filter(|_| self.trace) {
            if writeln!(out, "{line}").is_err() {
                return Ok(end); // whoever reads has enough
            }
        }
        drop(out);
        say!("{}; trace {:016x}", report::counted(&outcome.counts), outcome.trace_hash);
        report::print_effects(outcome.counts.effects.iter());
        match outcome.violation {
            Some(violation) => say!("BROKEN: {violation}"),
            None => say!("every promise was kept"),
        }
        if let Some(path) = &self.html {
            say!("the page is {}", path.display());
        }
        Ok(end)
    }

    /// The command that does it again.
    fn command(&self) -> String {
        let seed = self.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
        format!("vowmq-sim replay {}{seed} --trace", self.what)
    }
}

/// Writes the page of a run that `command` does again.
pub(super) fn write_page(
    path: &Path,
    scenario: &AnyScenario,
    outcome: &Outcome,
    command: &str,
    window: Option<Window>,
) -> Result<(), String> {
    let subject = scenario.subject(outcome.violation.as_ref());
    write_file(path, &Page { subject, outcome, command }.render(window.unwrap_or_default()))
}
