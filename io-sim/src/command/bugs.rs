//! `vowmq-sim bugs`: plants bugs and hunts them.

use super::{End, processors};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use vowmq_sim::outcome::Checker;
use vowmq_sim::planted::{Bug, Workshop};

/// Seconds of work that shrinking a failure may take.
const SHRINK_SECONDS: &str = "20";

/// Plants known bugs of real brokers one by one, and reports how soon the simulator catches each.
///
/// Each patch of corpus/planted-bugs is applied to a copy of the sources and built; then seeds are run until one fails,
/// from several first seeds on, since one hunt says little; and the first failure is shrunk. Exit 1 when a patch does not apply or build, when its bug is not caught, or when it is caught
/// by a checker that its header does not expect. Needs cargo and git.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim bugs
  vowmq-sim bugs puback-before-sync --scratch /tmp/hunt")]
pub(super) struct Bugs {
    /// Only these, by the names of their patches.
    names: Vec<String>,
    /// Where the patches are, from the workspace's root.
    #[arg(long, default_value = "corpus/planted-bugs", value_name = "DIR")]
    patches: PathBuf,
    /// Seeds until a bug counts as not caught.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    first_seed: u64,
    /// Hunts for each bug, a million seeds apart; the table shows their medians.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    hunts: u64,
    /// The workspace's root.
    #[arg(long, default_value = ".", value_name = "DIR")]
    source: PathBuf,
    /// Where to copy and build; kept, so that the next time is shorter. By default a directory that is removed again.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Threads of a hunt; as many as there are processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// How far the first seeds of two hunts are apart.
const HUNTS_APART: u64 = 1_000_000;

/// A bug that every hunt caught.
struct Caught {
    /// Seeds until then, the one that caught it included: the median of the hunts, and the worst.
    seeds: u64,
    seeds_worst: u64,
    /// Of a hunt: the median.
    cpu_seconds: f64,
    checkers: BTreeSet<Checker>,
    /// What was left of the failing scenario, and the file it is in.
    shrunk: Result<(u64, PathBuf), String>,
}

/// A hunt that caught it.
struct Hunt {
    seed: u64,
    /// Seeds until then.
    seeds: u64,
    cpu_seconds: f64,
    checker: Checker,
}

impl Bugs {
    pub(super) fn run(self) -> Result<End, String> {
        let mut bugs = Bug::read_all(&self.source.join(&self.patches))?;
        if let Some(unknown) = self.names.iter().find(|name| bugs.iter().all(|bug| bug.name != **name)) {
            return Err(format!("there is no bug {unknown:?}"));
        }
        bugs.retain(|bug| self.names.is_empty() || self.names.contains(&bug.name));
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let scratch = self.scratch.as_deref().unwrap_or(temporary.path());
        let workshop = Workshop::new(&self.source, scratch)?;
        let mut results = Vec::new();
        for bug in &bugs {
            let result = self.plant(bug, &workshop, scratch);
            if !self.json {
                print_row(bug, &result);
            }
            results.push(result);
        }
        let clean = bugs.iter().zip(&results).all(|(bug, result)| is_right(bug, result));
        if self.json {
            let rows: Vec<Value> = bugs.iter().zip(&results).map(|(bug, result)| row(bug, result)).collect();
            say!("{}", json!({ "bugs": rows, "clean": clean }));
        } else {
            print_overall(&results);
        }
        Ok(End::clean(clean))
    }

    /// Plants a bug, hunts it, and takes it out again.
    fn plant(&self, bug: &Bug, workshop: &Workshop, scratch: &Path) -> Result<Caught, String> {
        workshop.apply(bug, false)?;
        let caught = workshop.build().and_then(|simulator| self.hunts(bug, &simulator, scratch));
        workshop.apply(bug, true)?;
        caught
    }

    /// All hunts for a bug, and the failure of the first one shrunk.
    fn hunts(&self, bug: &Bug, simulator: &Path, scratch: &Path) -> Result<Caught, String> {
        let scenario = bug.scenario.as_ref().map(|path| self.source.join(path));
        let firsts = (0..self.hunts).map(|hunt| self.first_seed + hunt * HUNTS_APART);
        let hunts: Vec<Hunt> = firsts
            .map(|first| self.hunt(simulator, first, bug, scenario.as_deref()))
            .collect::<Result<_, _>>()?;
        let out = scratch.join(format!("{}.json", bug.name));
        let failed = format!("{}{}", if bug.amqp { "amqp:" } else { "" }, hunts[0].seed);
        let shrunk = shrink(simulator, &failed, scenario.as_deref(), &out);
        let mut seeds: Vec<u64> = hunts.iter().map(|hunt| hunt.seeds).collect();
        seeds.sort_unstable();
        let mut cpu_seconds: Vec<f64> = hunts.iter().map(|hunt| hunt.cpu_seconds).collect();
        cpu_seconds.sort_by(f64::total_cmp);
        Ok(Caught {
            seeds: seeds[seeds.len() / 2],
            seeds_worst: seeds[seeds.len() - 1],
            cpu_seconds: cpu_seconds[cpu_seconds.len() / 2],
            checkers: hunts.iter().map(|hunt| hunt.checker).collect(),
            shrunk,
        })
    }

    fn hunt(&self, simulator: &Path, first: u64, bug: &Bug, scenario: Option<&Path>) -> Result<Hunt, String> {
        let mut run = Command::new(simulator);
        let kind = if bug.amqp { "amqp" } else { "run" };
        run.args([kind, "--until-failure", "--json", "--seeds"])
            .arg(format!("{first}..{}", first + self.seeds));
        run.arg("--jobs").arg(self.jobs.unwrap_or_else(processors).to_string());
        run.args(scenario.iter().flat_map(|path| ["--scenario".as_ref(), path.as_os_str()]));
        let summary = json_of(run)?;
        let failure = &summary["failures"][0];
        let Some(seed) = failure["seed"].as_u64() else {
            return Err(format!("NOT CAUGHT by {} seeds from {first} on", self.seeds));
        };
        let checker = &failure["violation"]["checker"];
        Ok(Hunt {
            seed,
            seeds: seed - first + 1,
            cpu_seconds: summary["cpu_seconds"].as_f64().unwrap_or_default(),
            checker: serde_json::from_value(checker.clone())
                .map_err(|error| format!("{checker}: {error}"))?,
        })
    }
}

/// Shrinks the failure of a seed; how large what is left is, and where.
fn shrink(
    simulator: &Path,
    failed: &str,
    scenario: Option<&Path>,
    out: &Path,
) -> Result<(u64, PathBuf), String> {
    let mut shrink = Command::new(simulator);
    shrink.args(["shrink", "--json", "--seconds", SHRINK_SECONDS, "--out"]).arg(out);
    match scenario {
        Some(path) => shrink.arg(path).args(["--seed", failed]),
        None => shrink.arg(failed),
    };
    let size = json_of(shrink)?["after"]["size"].as_u64().unwrap_or_default();
    Ok((size, out.to_owned()))
}

/// What a simulator prints as JSON, whatever its exit code.
fn json_of(mut command: Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn is_right(bug: &Bug, result: &Result<Caught, String>) -> bool {
    let expected = |caught: &Caught| caught.checkers.iter().all(|checker| bug.expected.contains(checker));
    result.as_ref().is_ok_and(expected)
}

fn print_row(bug: &Bug, result: &Result<Caught, String>) {
    let name = &bug.name;
    match result {
        Ok(caught) => {
            let size = caught.shrunk.as_ref().map_or_else(String::clone, |(size, _)| size.to_string());
            let wrong =
                if is_right(bug, result) { "" } else { "  WRONG REASON: its header does not expect this" };
            let checkers: Vec<String> = caught.checkers.iter().map(Checker::to_string).collect();
            say!(
                "{name:<44} {:>5} seeds, worst {:>5} {:>7.2} CPU s  shrunk to {size:>2}  {}{wrong}",
                caught.seeds,
                caught.seeds_worst,
                caught.cpu_seconds,
                checkers.join(", ")
            );
        }
        Err(error) => say!("{name:<44} {error}"),
    }
}

fn row(bug: &Bug, result: &Result<Caught, String>) -> Value {
    let about =
        json!({ "name": bug.name, "bug": bug.bug, "broker": bug.broker, "right": is_right(bug, result) });
    let found = match result {
        Ok(caught) => json!({
            "seeds": caught.seeds,
            "cpu_seconds": caught.cpu_seconds,
            "seeds_worst": caught.seeds_worst,
            "checkers": caught.checkers,
            "size": caught.shrunk.as_ref().ok().map(|(size, _)| size),
            "scenario": caught.shrunk.as_ref().ok().map(|(_, file)| file),
            "error": caught.shrunk.as_ref().err(),
        }),
        Err(error) => json!({ "error": error }),
    };
    let fields = [about, found].into_iter().filter_map(|value| value.as_object().cloned()).flatten();
    fields.collect()
}

/// Medians and the worst of those that were caught.
fn print_overall(results: &[Result<Caught, String>]) {
    let caught: Vec<&Caught> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    say!("{} of {} caught", caught.len(), results.len());
    let numbers = |number: &dyn Fn(&Caught) -> Option<f64>| -> Vec<f64> {
        let mut numbers: Vec<f64> = caught.iter().filter_map(|caught| number(caught)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    for (name, numbers) in [
        ("seeds", numbers(&|caught| Some(caught.seeds as f64))),
        ("seeds of the worst hunt", numbers(&|caught| Some(caught.seeds_worst as f64))),
        ("CPU seconds", numbers(&|caught| Some(caught.cpu_seconds))),
        ("operations and faults", numbers(&|caught| Some(caught.shrunk.as_ref().ok()?.0 as f64))),
    ] {
        if let (Some(median), Some(worst)) = (numbers.get(numbers.len() / 2), numbers.last()) {
            say!("{name:>24}: median {median:.2}, worst {worst:.2}");
        }
    }
}
