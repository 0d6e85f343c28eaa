//! `vowmq-sim marks`: the interesting places of the core, and how often a campaign comes to each.

use super::{End, processors};
use clap::Args;
use std::ops::Range;
use vowmq_core::marks::{AMQP_MARKS, MARKS};
use vowmq_sim::campaign::Campaign;

/// Runs generated seeds of MQTT's clients and prints how often each mark of the core was reached; one that never was makes exit 1.
///
/// A mark is a place in the core where something interesting happens: a segment is rolled, a delivery waits for its
/// record, recovery finds a torn tail. A campaign that does not come there tests nothing of it.
#[derive(Args)]
pub(super) struct Marks {
    /// Seeds, from 0 on.
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    seeds: u64,
    /// Threads; as many as there are processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

impl Marks {
    pub(super) fn run(self) -> Result<End, String> {
        let mut campaign = Campaign::new(0..self.seeds);
        campaign.jobs = self.jobs.unwrap_or_else(processors);
        let summary = campaign.run(&mut |_| {});
        print(0..AMQP_MARKS, &summary.marks);
        Ok(End::clean(summary.marks[..AMQP_MARKS].iter().all(|count| *count > 0)))
    }
}

/// The table of some marks.
pub(super) fn print(range: Range<usize>, counts: &[u64]) {
    for ((name, meaning), count) in MARKS[range.clone()].iter().zip(&counts[range]) {
        say!("  {count:>12}  {name}: {meaning}");
    }
}
