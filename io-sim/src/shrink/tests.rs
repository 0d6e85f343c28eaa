//! Shrinking against predicates whose smallest scenario is known.

use super::{Verdict, shrink_by};
use crate::fault::Fault;
use crate::generate;
use crate::scenario::{Action, Scenario};

/// More than any of these takes.
const WORK: u64 = 1_000_000;

fn judged_by(fails: impl Fn(&Scenario) -> bool) -> impl FnMut(&Scenario) -> Verdict {
    move |scenario| Verdict { fails_at_us: fails(scenario).then_some(u64::MAX), work: 1 }
}

fn publishes(scenario: &Scenario, wanted: u8) -> bool {
    let mut actions = scenario.clients.iter().flat_map(|client| &client.operations).map(|at| &at.action);
    actions.any(|action| matches!(action, Action::Publish { qos, .. } if *qos == wanted))
}

fn resets_the_publisher(scenario: &Scenario) -> bool {
    scenario.faults.iter().any(|fault| {
        let Fault::Reset { client, .. } = fault else { return false };
        scenario.clients[client.unwrap_or(0)]
            .operations
            .iter()
            .any(|at| matches!(at.action, Action::Publish { .. }))
    })
}

/// Broken: a failure would be handed over with operations and faults that have nothing to do with it.
#[test]
fn only_what_is_needed_is_left() {
    let fails = |scenario: &Scenario| publishes(scenario, 2) && resets_the_publisher(scenario);
    let mut shrunk_any = 0;
    for seed in (0..60).filter(|seed| fails(&generate(*seed))) {
        let shrunk = shrink_by(&generate(seed), WORK, judged_by(fails));
        let scenario = &shrunk.scenario;
        assert!(fails(scenario) && scenario.check().is_ok(), "seed {seed}: it fails no more");
        assert!(shrunk.minimal, "seed {seed}");
        // A publisher that is reset publishes with QoS 2, or another one does.
        assert!(scenario.clients.len() <= 2 && scenario.faults.len() == 1, "seed {seed}: {scenario:#?}");
        assert_eq!(scenario.size(), 1 + scenario.clients.len(), "seed {seed}: {scenario:#?}");
        assert_eq!(scenario.broker, crate::scenario::BrokerSettings::default(), "seed {seed}");
        assert_eq!((scenario.network.split_percent, scenario.last_power_cut), (0, false), "seed {seed}");
        shrunk_any += 1;
    }
    assert!(shrunk_any > 3, "the seeds are too few");
}

/// Broken: two operations that only make sense together would stay for ever.
#[test]
fn what_only_goes_together_goes_together() {
    let balanced = |scenario: &Scenario| {
        let actions = || scenario.clients.iter().flat_map(|client| &client.operations).map(|at| &at.action);
        let connects = actions().filter(|action| matches!(action, Action::Connect { .. })).count();
        connects == scenario.faults.len()
    };
    let mut scenario = generate(0);
    scenario.clients.truncate(3);
    scenario.faults = vec![Fault::Rot { when: crate::fault::When::AtUs(1) }; 3];
    for client in &mut scenario.clients {
        client.operations.retain(|at| !matches!(at.action, Action::Connect { .. }));
        client.operations.truncate(2);
        client.operations.push(crate::scenario::Operation {
            at_us: 5,
            action: Action::Connect { clean: false, session_expiry_s: None },
        });
    }
    assert!(balanced(&scenario));
    assert_eq!(shrink_by(&scenario, WORK, judged_by(balanced)).scenario.size(), 0);
}

/// Broken: a name that has to be there would be lost with its meaning, or numbers stay as they came from the seed.
#[test]
fn values_get_small_and_round() {
    let fails = |scenario: &Scenario| {
        let mut all = scenario.clients.iter().flat_map(|client| &client.operations);
        all.any(|at| matches!(&at.action, Action::Publish { count, .. } if *count > 5 && at.at_us > 100_000))
    };
    let seed = (0..50).find(|seed| fails(&generate(*seed))).expect("one of them does");
    let shrunk = shrink_by(&generate(seed), WORK, judged_by(fails)).scenario;
    let operation = &shrunk.clients[0].operations[0];
    let Action::Publish { topic, qos: 0..=1, retain: false, size: 32, count: 6, expiry_s: None } =
        &operation.action
    else {
        panic!("{operation:?}");
    };
    assert_eq!((topic.as_str(), shrunk.clients[0].will.is_none()), ("a", true));
    assert!(operation.at_us > 100_000 && operation.at_us.to_string().trim_end_matches('0').len() <= 2);
}

/// Broken: somebody else would not get the same small scenario.
#[test]
fn the_same_scenario_always_shrinks_to_the_same() {
    let judge = || judged_by(|scenario| publishes(scenario, 1) && scenario.faults.len() > 2);
    let seed =
        (0..50).find(|seed| judge()(&generate(*seed)).fails_at_us.is_some()).expect("one of them does");
    let (first, second) =
        (shrink_by(&generate(seed), WORK, judge()), shrink_by(&generate(seed), WORK, judge()));
    assert_eq!((first.scenario, first.runs), (second.scenario, second.runs));
    assert!(shrink_by(&generate(seed), 20, judge()).runs <= 40, "it stops when the work is done");
}

/// Broken: a failure of AMQP's clients would be handed over with clients and faults that have nothing to do with it.
#[test]
fn of_amqps_clients_only_what_is_needed_is_left() {
    let fails = |scenario: &crate::amqp::Scenario| {
        scenario.consumers.iter().any(|plan| plan.asks) && !scenario.faults.is_empty()
    };
    let seed = (0..100).find(|seed| fails(&crate::amqp::generate(*seed))).expect("one of them does");
    let judge = |scenario: &crate::amqp::Scenario| Verdict {
        fails_at_us: fails(scenario).then_some(u64::MAX),
        work: 1,
    };
    let shrunk = super::shrink_amqp_by(&crate::amqp::generate(seed), WORK, judge);
    let scenario = &shrunk.scenario;
    assert!(shrunk.minimal && fails(scenario), "seed {seed}");
    assert_eq!((scenario.publishers.len(), scenario.consumers.len(), scenario.faults.len()), (0, 1, 1));
}
