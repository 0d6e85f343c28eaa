//! A scenario, whoever its clients are: for the corpus, and for what replays and shrinks.

use crate::amqp;
use crate::claim::Claim;
use crate::outcome::{Outcome, Violation};
use crate::page::Subject;
use crate::scenario::{self, Scenario};
use crate::watch::{endless, watched};
use crate::words;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// A scenario of either kind. In a file it is that of its kind and nothing beside: one of AMQP's clients has `queues`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AnyScenario {
    /// Its clients speak MQTT.
    Mqtt(Box<Scenario>),
    /// Its clients speak AMQP, but for some that may speak MQTT beside them.
    Amqp(Box<amqp::Scenario>),
}

impl AnyScenario {
    /// What a seed generates: `7`, or `amqp:7` for clients of AMQP. None: it is no seed.
    pub fn of_seed(text: &str) -> Option<AnyScenario> {
        match text.strip_prefix("amqp:") {
            Some(seed) => seed.parse().ok().map(|seed| AnyScenario::Amqp(Box::new(amqp::generate(seed)))),
            None => text.parse().ok().map(|seed| AnyScenario::Mqtt(Box::new(crate::generate(seed)))),
        }
    }

    /// Parses a scenario: JSON where the text begins with a brace, else TOML, in which only clients of MQTT are written.
    ///
    /// # Errors
    /// The parser's words, or what is wrong with the scenario.
    pub fn parse(text: &str) -> Result<AnyScenario, String> {
        #[derive(Deserialize)]
        struct Kind {
            queues: Option<IgnoredAny>,
        }
        if serde_json::from_str::<Kind>(text).is_ok_and(|kind| kind.queues.is_some()) {
            let scenario: amqp::Scenario = serde_json::from_str(text).map_err(|error| error.to_string())?;
            scenario.check()?;
            return Ok(AnyScenario::Amqp(Box::new(scenario)));
        }
        scenario::parse(text).map(|scenario| AnyScenario::Mqtt(Box::new(scenario)))
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        match self {
            AnyScenario::Mqtt(scenario) => scenario.check(),
            AnyScenario::Amqp(scenario) => scenario.check(),
        }
    }

    /// Runs it. That it has no end is a broken promise too.
    pub fn run(&self) -> Outcome {
        self.watched(crate::run, amqp::run)
    }

    /// As `run`, and the outcome has the trace in words.
    pub fn run_traced(&self) -> Outcome {
        self.watched(crate::run_traced, amqp::run_recorded)
    }

    /// As `run_traced`, and the outcome has the typed entries too.
    pub fn run_recorded(&self) -> Outcome {
        self.watched(crate::run_recorded, amqp::run_recorded)
    }

    fn watched(&self, mqtt: fn(&Scenario) -> Outcome, amqp: fn(&amqp::Scenario) -> Outcome) -> Outcome {
        let outcome = match self {
            AnyScenario::Mqtt(scenario) => watched(&**scenario, mqtt),
            AnyScenario::Amqp(scenario) => watched(&**scenario, amqp),
        };
        outcome.unwrap_or_else(|| Outcome { violation: Some(endless()), ..Outcome::default() })
    }

    /// What a run of it broke.
    pub fn claim(&self, violation: &Violation) -> Claim {
        match self {
            AnyScenario::Mqtt(scenario) => Claim::of(violation, scenario),
            AnyScenario::Amqp(_) => Claim::as_told(violation),
        }
    }

    /// What a page tells of it, and of what its run broke.
    pub fn subject(&self, violation: Option<&Violation>) -> Subject {
        match self {
            AnyScenario::Mqtt(scenario) => Subject::of(scenario, violation),
            AnyScenario::Amqp(scenario) => scenario.subject(violation),
        }
    }

    /// The effects that its faults can have.
    pub fn effects(&self) -> BTreeSet<&'static str> {
        match self {
            AnyScenario::Mqtt(scenario) => scenario.faults.iter().map(crate::fault::Fault::effect).collect(),
            AnyScenario::Amqp(scenario) => scenario.faults.iter().map(|fault| fault.kind.effect()).collect(),
        }
    }

    /// Of what it has how many.
    pub fn sizes(&self) -> Vec<(&'static str, usize)> {
        match self {
            AnyScenario::Mqtt(scenario) => {
                let operations = scenario.size() - scenario.faults.len();
                let (faults, clients) = (scenario.faults.len(), scenario.clients.len());
                vec![("operations", operations), ("faults", faults), ("clients", clients)]
            }
            AnyScenario::Amqp(scenario) => {
                vec![("clients", scenario.clients()), ("faults", scenario.faults.len())]
            }
        }
    }

    /// Its first two sizes together: faults, and operations, or clients of AMQP, which do what they do over and over.
    pub fn size(&self) -> usize {
        self.sizes().iter().take(2).map(|(_, count)| count).sum()
    }

    /// What happens in it, a line each.
    pub fn steps(&self) -> Vec<String> {
        match self {
            AnyScenario::Mqtt(scenario) => words::steps(scenario),
            AnyScenario::Amqp(scenario) => scenario.steps(),
        }
    }

    /// What it is for.
    pub fn why(&self) -> &str {
        match self {
            AnyScenario::Mqtt(scenario) => &scenario.why,
            AnyScenario::Amqp(scenario) => &scenario.why,
        }
    }

    /// The same, to be changed.
    pub fn why_mut(&mut self) -> &mut String {
        match self {
            AnyScenario::Mqtt(scenario) => &mut scenario.why,
            AnyScenario::Amqp(scenario) => &mut scenario.why,
        }
    }

    /// The seed of what it leaves open.
    pub fn seed(&self) -> u64 {
        match self {
            AnyScenario::Mqtt(scenario) => scenario.seed,
            AnyScenario::Amqp(scenario) => scenario.seed,
        }
    }

    /// The same, to be changed.
    pub fn seed_mut(&mut self) -> &mut u64 {
        match self {
            AnyScenario::Mqtt(scenario) => &mut scenario.seed,
            AnyScenario::Amqp(scenario) => &mut scenario.seed,
        }
    }
}

impl<'de> Deserialize<'de> for AnyScenario {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyScenario, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let any = match value.get("queues") {
            Some(_) => serde_json::from_value(value).map(AnyScenario::Amqp),
            None => serde_json::from_value(value).map(AnyScenario::Mqtt),
        };
        any.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, a file would be run as what it is not, or not at all.
    #[test]
    fn a_scenario_of_either_kind_is_read_as_what_it_is() {
        for name in ["3", "amqp:3"] {
            let scenario = AnyScenario::of_seed(name).expect("a seed");
            let text = serde_json::to_string(&scenario).expect("it can be written");
            assert_eq!(AnyScenario::parse(&text).expect("and read"), scenario);
            assert_eq!(serde_json::from_str::<AnyScenario>(&text).expect("also within a record"), scenario);
            assert_eq!(scenario.run().trace_hash, scenario.run_recorded().trace_hash);
        }
        assert!(matches!(AnyScenario::of_seed("amqp:3"), Some(AnyScenario::Amqp(_))));
        assert_eq!(AnyScenario::of_seed("three"), None);
    }

    /// Were it to fail, a scenario that somebody changed would panic, or show nothing.
    #[test]
    fn a_scenario_that_cannot_be_run_is_refused_with_its_reason() {
        let text = serde_json::to_string(&amqp::generate(3)).expect("it can be written");
        let wrong = text.replacen("\"window\":", "\"window\":0,\"was\":", 1);
        let error = AnyScenario::parse(&wrong).expect_err("an unknown field");
        assert!(error.contains("unknown field `was`"), "{error}");
        let mut scenario = amqp::generate(3);
        scenario.consumers[0].queue = scenario.queues.len();
        let text = serde_json::to_string(&scenario).expect("it can be written");
        assert_eq!(AnyScenario::parse(&text).expect_err("no such queue"), "a consumer's queue is not there");
    }
}
