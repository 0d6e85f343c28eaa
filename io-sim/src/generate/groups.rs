//! Groups of shared subscriptions: some workers, whose sessions survive or do not, and publishers for them.

use super::{disturbances, speak_mqtt_5};
use crate::chance::Draws;
use crate::scenario::{Action, ClientProgram, Operation, Scenario};

const TOPICS: [&str; 3] = ["shared/1", "shared/2", "shared/1/x"];
const FILTERS: [&str; 4] =
    ["$share/g/shared/#", "$share/g/shared/+", "$share/h/shared/#", "$share/h/shared/1"];

/// Adds a group or two to some scenarios.
pub(super) fn add_some(draws: &mut Draws, scenario: &mut Scenario, of_mqtt_5: u32) {
    if !draws.percent(35) {
        return;
    }
    let end_us = scenario.fault_phase_us;
    let filters = [*draws.pick(&FILTERS), *draws.pick(&FILTERS)];
    let clean_percent = *draws.pick(&[0, 30, 30, 100]);
    let workers = draws.between(2, 5);
    publish(draws, scenario, end_us);
    for index in 0..workers {
        let filter = *draws.pick(&filters);
        let mut worker = ClientProgram::new(&format!("worker-{index}"));
        worker.clean = draws.percent(clean_percent);
        worker.keep_alive_s = *draws.pick(&[1, 2, 10]);
        worker.answer_us = *draws.pick(&[0, 0, 1_000, 50_000]);
        worker.reconnect_us = *draws.pick(&[6_000, 30_000, 200_000]);
        worker.operations = operations(draws, filter, end_us);
        if draws.percent(of_mqtt_5) {
            speak_mqtt_5(draws, &mut worker);
            // A group owes nothing that is too large for some member.
            worker.mqtt5.iter_mut().for_each(|asks| asks.maximum_packet_bytes = 0);
        }
        scenario.clients.push(worker);
    }
}

fn operations(draws: &mut Draws, filter: &str, end_us: u64) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut add = |at_us: u64, action: Action| operations.push(Operation { at_us, action });
    let subscribe = |draws: &mut Draws| Action::Subscribe {
        filter: filter.to_owned(),
        qos: draws.between(1, 2) as u8,
        more: Vec::new(),
    };
    add(draws.below(end_us / 3), subscribe(draws));
    for _ in 0..*draws.pick(&[0, 0, 1, 3]) {
        let left_us = draws.below(end_us);
        add(left_us, Action::Unsubscribe { filter: filter.to_owned(), more: Vec::new() });
        add(left_us + draws.below(end_us / 4), subscribe(draws));
    }
    for action in disturbances(draws) {
        add(draws.below(end_us), action);
    }
    operations.sort_by_key(|operation| operation.at_us);
    operations
}

/// Some of the clients that there are publish to the group's topics.
fn publish(draws: &mut Draws, scenario: &mut Scenario, end_us: u64) {
    for _ in 0..draws.between(2, 20) {
        let of_mqtt_5 = draws.percent(20);
        let action = Action::Publish {
            topic: (*draws.pick(&TOPICS)).to_owned(),
            qos: *draws.pick(&[1, 1, 2, 2, 0]),
            retain: draws.percent(10),
            size: 20 + draws.below(200) as u32,
            count: draws.between(1, 20) as u32,
            expiry_s: of_mqtt_5.then(|| *draws.pick(&[1, 60, 1000])),
        };
        let client = draws.below(scenario.clients.len() as u64) as usize;
        scenario.clients[client].operations.push(Operation { at_us: draws.below(end_us), action });
    }
}
