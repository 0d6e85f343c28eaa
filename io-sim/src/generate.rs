//! Makes a scenario from a seed. Swarm: every seed draws which faults exist, how many, and the limits, so that
//! every boundary is crossed by some seeds and no fault hides another for ever.

mod faults;
mod groups;
mod situation;
mod users;

use crate::chance::{Chance, Domain, Draws};
use crate::fault::{Fault, When};
use crate::scenario::{
    Action, BrokerSettings, ClientProgram, ClockSettings, DiskSettings, Mqtt5, NetworkSettings, Operation,
    Scenario, Survival, Will,
};

/// What the clients of a generated scenario do at least, all together.
const OPERATIONS_MIN: u64 = 1_000;

const TOPICS: [&str; 10] =
    ["a", "a/b", "a/b/c", "a/c", "b", "b/c", "/", "/a", "long/topic/with/levels", "ä/ö"];
const FILTERS: [&str; 10] = ["a", "a/b", "a/+", "a/#", "#", "+/b", "+", "b/#", "/#", "long/+/with/#"];

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    let chance = Chance::new(seed);
    let part = |part: u64| chance.draws(Domain::Generate, part);
    let mut draws = part(0);
    let fault_phase_us = *draws.pick(&[200_000, 500_000, 1_000_000, 2_000_000, 4_000_000]);
    let client_count = draws.between(2, 7);
    let topics: Vec<&str> = (0..draws.between(1, 5)).map(|_| *draws.pick(&TOPICS)).collect();
    let busy = draws.between(1, 40);
    let mut clients: Vec<ClientProgram> = (0..client_count)
        .map(|index| client(&mut part(100 + index), index, &topics, busy, fault_phase_us))
        .collect();
    let of_mqtt_5 = *part(9).pick(&[0, 50, 50, 80, 100]);
    for (index, client) in (0..).zip(&mut clients) {
        let mut draws = part(200 + index);
        if draws.percent(of_mqtt_5) {
            speak_mqtt_5(&mut draws, client);
        }
    }
    let faults = faults::some(&mut part(3), clients.len(), fault_phase_us);
    let mut scenario = Scenario {
        why: String::new(),
        seed,
        fault_phase_us,
        heal_us: 60_000_000,
        last_power_cut: draws.percent(60),
        must_reach: Vec::new(),
        checkers: Vec::new(),
        configuration: None,
        broker: broker(&mut part(1)),
        restarts: restarts(&mut part(7)),
        clock: ClockSettings { wall_ppm: *draws.pick(&[0, 0, 0, 200, -200, 50_000, -50_000]) },
        network: network(&mut part(2)),
        disk: disk(&mut part(4)),
        clients,
        faults,
    };
    groups::add_some(&mut part(10), &mut scenario, of_mqtt_5);
    situation::add_some(&mut part(6), &mut scenario);
    fill_up(&mut part(8), &mut scenario);
    users::add_some(&mut part(11), &mut scenario);
    keep_to_what_is_taken(&mut scenario);
    for client in &mut scenario.clients {
        client.drop_identifiers_of_many();
    }
    scenario
}

/// Makes a client one of MQTT 5, with what only such a one asks for.
fn speak_mqtt_5(draws: &mut Draws, client: &mut ClientProgram) {
    let retained = [(false, 0), (false, 0), (false, 0), (false, 1), (false, 2), (true, 2)];
    let (retain_as_published, retain_handling) = *draws.pick(&retained);
    client.mqtt5 = Some(Mqtt5 {
        session_expiry_s: *draws.pick(&[u32::MAX, u32::MAX, 0, 1, 2, 60]),
        receive_maximum: *draws.pick(&[1, 2, 5, 20, u16::MAX]),
        topic_alias_maximum: *draws.pick(&[0, 1, 2, 10]),
        aliases: *draws.pick(&[0, 1, 2, 10]),
        maximum_packet_bytes: *draws.pick(&[0, 0, 0, 0, 200, 1_000]),
        identifiers: draws.percent(50),
        no_local: draws.percent(20),
        retain_as_published,
        retain_handling,
    });
    if let Some(will) = &mut client.will {
        will.delay_s = *draws.pick(&[0, 0, 1, 2, 30]);
    }
    let percent = *draws.pick(&[0, 0, 20, 100]);
    for operation in &mut client.operations {
        if let Action::Publish { expiry_s, .. } = &mut operation.action {
            *expiry_s = draws.percent(percent).then(|| *draws.pick(&[1, 2, 60, 100_000]));
        }
    }
}

/// Clients of MQTT 3.1.1 are not told how many messages the broker takes: they have to know it.
fn keep_to_what_is_taken(scenario: &mut Scenario) {
    let least = scenario.all_settings().map(|settings| settings.limits.received_ids).min();
    for client in scenario.clients.iter_mut().filter(|client| client.mqtt5.is_none()) {
        client.window = client.window.min(least.unwrap_or(usize::MAX));
    }
}

/// Sees to it that clients do at least so much, and that the broker crashes at least once.
fn fill_up(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    let mut missing = OPERATIONS_MIN.saturating_sub(scenario.operations());
    while missing > 0 {
        let count = missing.min(draws.between(1, 40));
        let client = draws.below(scenario.clients.len() as u64) as usize;
        let Some(topic) = some_topic(draws, scenario) else { break };
        let (qos, size) = (draws.below(3) as u8, 20 + draws.below(60) as u32);
        let action = Action::Publish { topic, qos, retain: false, size, count: count as u32, expiry_s: None };
        scenario.clients[client].operations.push(Operation { at_us: draws.below(end_us), action });
        missing -= count;
    }
    for client in &mut scenario.clients {
        client.operations.sort_by_key(|operation| operation.at_us);
    }
    let crashes = |fault: &Fault| {
        matches!(
            fault,
            Fault::PowerCut { when: When::AtUs(_), .. } | Fault::ProcessCrash { when: When::AtUs(_), .. }
        )
    };
    if !scenario.faults.iter().any(crashes) {
        let when = When::AtUs(draws.between(end_us / 4, end_us - 1));
        scenario.faults.push(Fault::PowerCut { when, down_us: 1_000, leaves: None });
    }
}

/// A topic that somebody publishes to already.
fn some_topic(draws: &mut Draws, scenario: &Scenario) -> Option<String> {
    let actions = scenario.clients.iter().flat_map(|client| &client.operations);
    let topics: Vec<&String> = actions
        .filter_map(|operation| match &operation.action {
            Action::Publish { topic, .. } => Some(topic),
            _ => None,
        })
        .collect();
    if topics.is_empty() { None } else { Some((*draws.pick(&topics)).clone()) }
}

fn broker(draws: &mut Draws) -> BrokerSettings {
    BrokerSettings {
        segment_kib: *draws.pick(&[64, 64, 128, 512]),
        inflight: draws.between(1, 20) as usize,
        horizon_block: *draws.pick(&[1, 2, 5, 16, 1024]),
        turn_work: *draws.pick(&[1, 3, 16, 4096]),
        lazy_sync_ms: *draws.pick(&[1, 10, 10, 50]),
        lazy_sync_bytes: *draws.pick(&[1, 4096, 65_536]),
        unsent_bytes: *draws.pick(&[200, 4096, 1 << 20]),
        held_replies: *draws.pick(&[2, 10, 1000]),
        parked_bytes: 65_536,
        queue_messages: if draws.percent(8) { draws.between(1, 20) } else { 0 },
        queue_refuses: draws.percent(20),
        message_events: draws.percent(20),
        session_expiry_ms: if draws.percent(15) { *draws.pick(&[100, 100, 300, 1000]) } else { 0 },
        cache_bytes: *draws.pick(&[0, 500, 4096, 1 << 20]),
        checkpoint_bytes: *draws.pick(&[16_384, 60_000, 0]),
        disk_percent: *draws.pick(&[110, 150, 200]),
        reserve_segments: draws.between(0, 3),
        received_ids: *draws.pick(&[1, 3, 10, 10_000, 10_000]),
        topic_aliases: *draws.pick(&[0, 1, 3, 64]),
        ..BrokerSettings::default()
    }
}

/// Some brokers are started again with other settings.
fn restarts(draws: &mut Draws) -> Vec<BrokerSettings> {
    let count = if draws.percent(15) { draws.between(1, 3) } else { 0 };
    (0..count).map(|_| broker(draws)).collect()
}

fn network(draws: &mut Draws) -> NetworkSettings {
    let latency_min_us = *draws.pick(&[1, 20, 100]);
    NetworkSettings {
        latency_min_us,
        latency_max_us: latency_min_us + *draws.pick(&[1, 100, 1000]),
        slow_percent: *draws.pick(&[0, 2, 10]),
        slow_us: *draws.pick(&[2_000, 10_000]),
        lost_permille: *draws.pick(&[0, 0, 0, 3]),
        split_percent: *draws.pick(&[0, 5, 30]),
        coalesce_percent: *draws.pick(&[0, 50, 100]),
        window_bytes: *draws.pick(&[100, 1000, 65_536]),
        late_drain_percent: *draws.pick(&[0, 20, 60]),
        notice_us: *draws.pick(&[1_000, 30_000, 300_000]),
    }
}

fn disk(draws: &mut Draws) -> DiskSettings {
    let latency_min_us = *draws.pick(&[5, 50, 500]);
    let fates = [
        Survival::default(),
        Survival { lost: 1, kept: 1, torn: 0, zero: 0, garbage: 0 },
        Survival { lost: 1, kept: 1, torn: 6, zero: 0, garbage: 0 },
        Survival { lost: 1, kept: 2, torn: 0, zero: 3, garbage: 3 },
    ];
    DiskSettings {
        latency_min_us,
        latency_max_us: latency_min_us + *draws.pick(&[1, 300, 3000]),
        survival: draws.pick(&fates).clone(),
        entry_lost_percent: *draws.pick(&[50, 90]),
    }
}

fn client(draws: &mut Draws, index: u64, topics: &[&str], busy: u64, end_us: u64) -> ClientProgram {
    let subscribes = index == 0 || draws.percent(60);
    let publishes = index == 1 || draws.percent(60);
    let mut operations = Vec::new();
    let mut add = |at_us: u64, action: Action| operations.push(Operation { at_us, action });
    add(draws.below(end_us / 10), Action::Connect { clean: false, session_expiry_s: None });
    if subscribes {
        for _ in 0..draws.between(1, 3) {
            add(draws.below(end_us / 3), subscribe(draws, topics));
        }
        if draws.percent(40) {
            // A fickle one: few filters, so that what it undoes is often there.
            let filters = [filter(draws, topics), filter(draws, topics)];
            for _ in 0..*draws.pick(&[4, 10, 40]) {
                let filter = draws.pick(&filters).clone();
                let qos = draws.between(1, 2) as u8;
                let undo = draws.percent(50);
                let action = if undo {
                    Action::Unsubscribe { filter, more: Vec::new() }
                } else {
                    Action::Subscribe { filter, qos, more: Vec::new() }
                };
                add(draws.below(end_us), action);
            }
        }
    }
    if publishes {
        let retain_percent = *draws.pick(&[0, 0, 20, 60]);
        let qos_of = *draws.pick(&[[1, 1, 1], [2, 2, 2], [1, 2, 2], [0, 1, 2]]);
        let large = draws.percent(10);
        for _ in 0..draws.between(1, busy) {
            let retain = draws.percent(retain_percent);
            let size = match draws.below(20) {
                0 if retain => 0,
                0 if large => 5000 + draws.below(10_000) as u32,
                1..4 => draws.below(2000) as u32,
                _ => 20 + draws.below(100) as u32,
            };
            // Without retain an empty payload says nothing.
            let size = if retain { size } else { size.max(20) };
            let count = if retain { 1 } else { draws.between(1, 12) as u32 };
            let topic = (*draws.pick(topics)).to_owned();
            add(
                draws.below(end_us),
                Action::Publish { topic, qos: *draws.pick(&qos_of), retain, size, count, expiry_s: None },
            );
        }
    }
    for action in disturbances(draws) {
        add(draws.below(end_us), action);
    }
    operations.sort_by_key(|operation| operation.at_us);
    ClientProgram {
        id: format!("client-{index}"),
        clean: draws.percent(25),
        will: draws.percent(25).then(|| Will {
            topic: (*draws.pick(topics)).to_owned(),
            qos: draws.below(3) as u8,
            retain: draws.percent(20),
            delay_s: 0,
        }),
        keep_alive_s: *draws.pick(&[1, 2, 10]),
        window: draws.between(1, 20) as usize,
        answer_us: *draws.pick(&[0, 0, 1000, 50_000]),
        reconnect_us: *draws.pick(&[6_000, 30_000, 200_000]),
        operations,
        ..ClientProgram::new("")
    }
}

/// What a client does to its own connections.
fn disturbances(draws: &mut Draws) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut some = |draws: &mut Draws, percent: u32, action: &dyn Fn(&mut Draws) -> Action| {
        if draws.percent(percent) {
            for _ in 0..draws.between(1, 3) {
                actions.push(action(draws));
            }
        }
    };
    some(draws, 25, &|_| Action::Drop);
    some(draws, 15, &|_| Action::Silence);
    some(draws, 20, &|_| Action::TakeOver);
    some(draws, 15, &|_| Action::Resend);
    some(draws, 15, &|draws| Action::StopReading { for_us: draws.between(1_000, 500_000) });
    some(draws, 15, &|draws| Action::Disconnect {
        session_expiry_s: draws.percent(20).then(|| *draws.pick(&[0, 1, 60, u32::MAX])),
        keeps_will: draws.percent(20),
    });
    some(draws, 15, &|_| Action::Connect { clean: false, session_expiry_s: None });
    some(draws, 8, &|_| Action::Connect { clean: true, session_expiry_s: None });
    some(draws, 10, &|draws| Action::Connect {
        clean: false,
        session_expiry_s: Some(*draws.pick(&[0, 0, 1, 60, u32::MAX])),
    });
    actions
}

fn subscribe(draws: &mut Draws, topics: &[&str]) -> Action {
    let qos = *draws.pick(&[0, 1, 1, 2, 2, 2]);
    let more = if draws.percent(15) { draws.between(1, 3) } else { 0 };
    let more = (0..more).map(|_| (filter(draws, topics), draws.below(3) as u8)).collect();
    Action::Subscribe { filter: filter(draws, topics), qos, more }
}

fn filter(draws: &mut Draws, topics: &[&str]) -> String {
    if draws.percent(60) { (*draws.pick(topics)).to_owned() } else { (*draws.pick(&FILTERS)).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, campaigns would stop at seeds that say nothing.
    #[test]
    fn every_seed_is_a_scenario_that_can_be_written_down() {
        for seed in 0..300 {
            let scenario = generate(seed);
            scenario.check().expect("generated scenarios keep the rules");
            let text = serde_json::to_string(&scenario).expect("a scenario can be written");
            let again = crate::scenario::parse(&text).expect("and read");
            assert_eq!(again, scenario);
        }
    }
}
