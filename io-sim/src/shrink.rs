//! Makes a scenario that fails smaller, until nothing can be taken away any more.
//!
//! Every step proposes a simpler scenario and keeps it if it still breaks the same [`Claim`]. The steps work on the
//! scenario as JSON, so that a new kind of fault, action or setting is shrunk without a line here:
//!
//! ```text
//! moments   what waits for the n-th disk operation gets the time at which that was: it stays when others go
//! lists     all of a kind, then ever smaller pieces, of faults, clients, operations; in the end any two together
//! calm      the network without chance, the broker's settings as by default, one fate for unsynced sectors
//! values    fewer messages, smaller, shorter, rounder; wills and client settings away; short topics
//! ```
//!
//! A scenario of AMQP clients goes through the same, by lists and values alone (`amqp_rounds`).
//!
//! What is taken away shifts the choices that the scenario leaves open, so once nothing helps as it is, every step is
//! tried under a few other seeds too. It ends when a whole round has helped nowhere, or when the work allowed is done.
//! Work is counted in what the runs do, not by the clock: the same scenario always shrinks to the same one.

mod amqp_rounds;
mod calm;
mod lists;
mod moments;
mod tree;
mod values;

use crate::amqp;
use crate::any::AnyScenario;
use crate::claim::Claim;
use crate::scenario::Scenario;
use crate::watch::run_watched;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashSet;

/// Work that a processor of our days does in a second, in broker inputs.
const WORK_A_SECOND: u64 = 250_000;
/// The same for AMQP clients, of whom a broker input may be many frames.
const WORK_A_SECOND_OF_AMQP: u64 = 80_000;
/// What a run costs beside its broker inputs.
const WORK_A_RUN: u64 = 300;
const NOTHING_BROKEN: &str = "every promise is kept, so that there is nothing to shrink";
/// Other seeds that a step is tried under in the rounds that have them.
const OTHER_SEEDS: [u64; 3] = [0, 4, 16];

/// What a proposal came to.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Whether it still fails as it should, and then when, in simulated time.
    pub fails_at_us: Option<u64>,
    /// What it cost to find out.
    pub work: u64,
}

/// A scenario of some kind.
pub trait Shrinkable: Clone + PartialEq + Serialize + DeserializeOwned {
    /// The seed of what it leaves open.
    fn seed_mut(&mut self) -> &mut u64;

    /// Whether it can be run.
    fn is_valid(&self) -> bool;

    /// Brings it, as JSON, into the order that it is in.
    fn tidy(_value: &mut Value) {}
}

impl Shrinkable for Scenario {
    fn seed_mut(&mut self) -> &mut u64 {
        &mut self.seed
    }

    fn is_valid(&self) -> bool {
        self.check().is_ok()
    }

    fn tidy(value: &mut Value) {
        tree::tidy(value);
    }
}

/// What became of a scenario.
#[derive(Clone, Debug)]
pub struct Shrunk<S = Scenario> {
    /// The smallest that still fails.
    pub scenario: S,
    /// How many scenarios were run.
    pub runs: u64,
    /// Whether nothing more could be taken away; else the work allowed was done before.
    pub minimal: bool,
}

impl<S> Shrunk<S> {
    fn map<T>(self, change: impl FnOnce(S) -> T) -> Shrunk<T> {
        Shrunk { scenario: change(self.scenario), runs: self.runs, minimal: self.minimal }
    }
}

/// Shrinks a scenario that breaks a promise to one that breaks the same promise of the same object, in about so many
/// seconds of one processor.
///
/// # Errors
/// It breaks none, or it has no end, in words.
pub fn shrink(scenario: &Scenario, seconds: u64) -> Result<(Claim, Shrunk), String> {
    let outcome =
        run_watched(scenario, false).ok_or("it has no end, so that nothing can be compared with it")?;
    let violation = outcome.violation.ok_or(NOTHING_BROKEN)?;
    let claim = Claim::of(&violation, scenario);
    let shrunk = shrink_by(scenario, seconds.saturating_mul(WORK_A_SECOND), |proposal| {
        // A proposal without an end breaks something else.
        let Some(outcome) = run_watched(proposal, false) else {
            return Verdict { fails_at_us: None, work: u64::MAX };
        };
        let same = outcome.violation.filter(|violation| Claim::of(violation, proposal) == claim);
        let work = outcome.counts.broker_inputs + WORK_A_RUN;
        Verdict { fails_at_us: same.map(|violation| violation.at_us), work }
    });
    Ok((claim, shrunk))
}

/// Shrinks a scenario to one of which `judge` still says that it fails, with so much work in its own measure.
pub fn shrink_by(scenario: &Scenario, work: u64, judge: impl FnMut(&Scenario) -> Verdict) -> Shrunk {
    shrink_in_rounds(scenario, work, judge, Shrinker::round)
}

/// As `shrink_by`, for a scenario of AMQP clients.
pub fn shrink_amqp_by(
    scenario: &amqp::Scenario,
    work: u64,
    judge: impl FnMut(&amqp::Scenario) -> Verdict,
) -> Shrunk<amqp::Scenario> {
    shrink_in_rounds(scenario, work, judge, Shrinker::round_of_amqp)
}

fn shrink_in_rounds<S: Shrinkable, J: FnMut(&S) -> Verdict>(
    scenario: &S,
    work: u64,
    mut judge: J,
    round: fn(&mut Shrinker<S, J>) -> bool,
) -> Shrunk<S> {
    let first = judge(scenario);
    let value = tree::of(scenario);
    let mut shrinker = Shrinker {
        scenario: scenario.clone(),
        value,
        judge,
        failed_us: first.fails_at_us,
        left: work.saturating_sub(first.work),
        runs: 1,
        tried: HashSet::new(),
        seeds: 0,
    };
    for seeds in OTHER_SEEDS {
        shrinker.seeds = seeds;
        while round(&mut shrinker) {}
    }
    Shrunk { scenario: shrinker.scenario, runs: shrinker.runs, minimal: shrinker.left > 0 }
}

/// Shrinks a scenario of AMQP clients that breaks a promise to one that breaks the same, of whatever object, in about so
/// many seconds of one processor.
///
/// # Errors
/// It breaks none, in words.
pub fn shrink_amqp(
    scenario: &amqp::Scenario,
    seconds: u64,
) -> Result<(Claim, Shrunk<amqp::Scenario>), String> {
    let violation = amqp::run(scenario).violation.ok_or(NOTHING_BROKEN)?;
    let checker = violation.checker;
    let shrunk = shrink_amqp_by(scenario, seconds.saturating_mul(WORK_A_SECOND_OF_AMQP), |proposal| {
        let outcome = amqp::run(proposal);
        let same = outcome.violation.filter(|violation| violation.checker == checker);
        let work = outcome.counts.broker_inputs + WORK_A_RUN;
        Verdict { fails_at_us: same.map(|violation| violation.at_us), work }
    });
    Ok((Claim::as_told(&violation), shrunk))
}

/// Shrinks a scenario of either kind.
///
/// # Errors
/// As `shrink` and `shrink_amqp`.
pub fn shrink_any(scenario: &AnyScenario, seconds: u64) -> Result<(Claim, Shrunk<AnyScenario>), String> {
    match scenario {
        AnyScenario::Mqtt(scenario) => {
            let (claim, shrunk) = shrink(scenario, seconds)?;
            Ok((claim, shrunk.map(|small| AnyScenario::Mqtt(Box::new(small)))))
        }
        AnyScenario::Amqp(scenario) => {
            let (claim, shrunk) = shrink_amqp(scenario, seconds)?;
            Ok((claim, shrunk.map(|small| AnyScenario::Amqp(Box::new(small)))))
        }
    }
}

/// A scenario on its way to a smaller one.
struct Shrinker<S, J> {
    /// The smallest so far, and the same as JSON.
    scenario: S,
    value: Value,
    judge: J,
    /// When it fails.
    failed_us: Option<u64>,
    /// Work that is left.
    left: u64,
    runs: u64,
    /// What was proposed already: asked whether it holds something, never gone through.
    tried: HashSet<String>,
    /// Seeds that a proposal is tried under beside its own.
    seeds: u64,
}

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// Every step once. Whether one helped.
    fn round(&mut self) -> bool {
        let before = self.value.clone();
        self.end_early();
        self.moments_as_times();
        self.fewer_faults();
        self.fewer_clients();
        self.fewer_operations();
        self.calmer();
        self.simpler_values();
        if self.value == before {
            self.without_pairs();
        }
        self.value != before
    }
}

impl<S: Shrinkable, J: FnMut(&S) -> Verdict> Shrinker<S, J> {
    /// Proposes a change. Whether it is kept.
    fn propose(&mut self, change: impl FnOnce(&mut Value)) -> bool {
        let mut value = self.value.clone();
        change(&mut value);
        S::tidy(&mut value);
        let Ok(mut proposal) = serde_json::from_value::<S>(value) else { return false };
        if proposal == self.scenario || !proposal.is_valid() {
            return false;
        }
        if self.holds(&proposal) {
            return true;
        }
        let own = *proposal.seed_mut();
        (0..self.seeds).filter(|seed| *seed != own).any(|seed| {
            *proposal.seed_mut() = seed;
            self.holds(&proposal)
        })
    }

    /// Whether this scenario still fails, and so is the smallest now.
    fn holds(&mut self, proposal: &S) -> bool {
        let value = tree::of(proposal);
        if self.left == 0 || !self.tried.insert(value.to_string()) {
            return false;
        }
        let verdict = (self.judge)(proposal);
        self.runs += 1;
        self.left = self.left.saturating_sub(verdict.work);
        if verdict.fails_at_us.is_some() {
            (self.scenario, self.value) = (proposal.clone(), value);
            self.failed_us = verdict.fails_at_us;
        }
        verdict.fails_at_us.is_some()
    }
}

#[cfg(test)]
mod tests;
