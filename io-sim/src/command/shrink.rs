//! `vowmq-sim shrink`: the smallest scenario that fails in the same way.

use super::replay::write_page;
use super::{End, load, write_file};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;
use vowmq_sim::any::AnyScenario;
use vowmq_sim::corpus::Record;
use vowmq_sim::shrink::shrink_any;

/// Makes a failing scenario as small as it gets, so that it still fails the same checker on the same object.
///
/// The object is what the violation is about: the same client identifier, a message of the same publisher, a topic, the
/// broker; with clients of AMQP the checker alone. Writes the scenario as JSON and prints its steps. Exit 1 when something
/// was shrunk, since it is broken; 2 when there was nothing to shrink.
#[derive(Args)]
#[command(after_help = "Examples:
  vowmq-sim shrink 170277
  vowmq-sim shrink amqp:7 --html small.html
  vowmq-sim shrink scenario.toml --seed 12 --out small.json
  vowmq-sim shrink 170277 --record --why \"Acks were forgotten.\" --out corpus/runs/forgotten-acks.json")]
pub(super) struct Shrink {
    /// A seed (amqp:SEED for clients of AMQP) or a file.
    what: String,
    /// With a file: another seed for what the scenario leaves open.
    #[arg(long)]
    seed: Option<u64>,
    /// Where to write it; shrunk-CHECKER-SEED.json by default.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a record for corpus/runs instead, with --why.
    #[arg(long, requires = "why")]
    record: bool,
    /// What was wrong, in a sentence or two.
    #[arg(long, value_name = "TEXT", requires = "record")]
    why: Option<String>,
    /// About so long. Work is counted, not time, so that the same input gives the same output on every machine.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Write what happens in it as one page for a browser, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
}

impl Shrink {
    pub(super) fn run(self) -> Result<End, String> {
        let scenario = load(&self.what, self.seed)?;
        let begin = Instant::now();
        let (claim, shrunk) = shrink_any(&scenario, self.seconds)?;
        let small = &shrunk.scenario;
        let out =
            self.out.unwrap_or_else(|| format!("shrunk-{}-{}.json", claim.checker, scenario.seed()).into());
        match self.why {
            Some(why) => Record::of(small.clone(), why)?.write(&out)?,
            None => {
                let text = serde_json::to_string_pretty(small).map_err(|error| error.to_string())?;
                write_file(&out, &(text + "\n"))?;
            }
        }
        let replay = format!("vowmq-sim replay {} --trace", out.display());
        if let Some(path) = &self.html {
            write_page(path, small, &small.run_recorded(), &replay, None)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        if self.json {
            let all = serde_json::json!({
                "checker": claim.checker,
                "object": claim.object,
                "before": size(&scenario),
                "after": size(small),
                "runs": shrunk.runs,
                "minimal": shrunk.minimal,
                "seconds": seconds,
                "file": out,
                "replay": replay,
            });
            say!("{all}");
            return Ok(End::Broken);
        }
        say!("{claim}, shrunk in {} runs and {seconds:.1} s", shrunk.runs);
        if !shrunk.minimal {
            say!("the time was over before nothing more could be taken away: more with --seconds");
        }
        say!("{:>12} {:>10} {:>10}", "", "before", "after");
        for ((name, before), (_, after)) in scenario.sizes().into_iter().zip(small.sizes()) {
            say!("{name:>12} {before:>10} {after:>10}");
        }
        small.steps().iter().for_each(|step| say!("{step}"));
        say!("{replay}");
        if let Some(path) = &self.html {
            say!("the page is {}", path.display());
        }
        Ok(End::Broken)
    }
}

fn size(scenario: &AnyScenario) -> Value {
    let sizes = scenario.sizes().into_iter().map(|(name, count)| (name.to_owned(), Value::from(count)));
    sizes.chain([("size".to_owned(), Value::from(scenario.size()))]).collect()
}
