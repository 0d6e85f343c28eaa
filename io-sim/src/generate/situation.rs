//! Situations: what needs several things at nearly the same time, and so hardly ever comes about by itself. Each is
//! strewn over a scenario that goes on beside it.

use crate::chance::Draws;
use crate::fault::{Fault, When};
use crate::scenario::{Action, ClientProgram, Operation, Scenario};

/// A topic of its own, so that few subscriptions match it.
const TOPIC: &str = "situation";

/// Adds some situations, each with its own chance.
pub(super) fn add_some(draws: &mut Draws, scenario: &mut Scenario) {
    if draws.percent(40) {
        storm(draws, scenario);
    }
    if draws.percent(9) {
        overflow(draws, scenario);
    }
    if draws.percent(25) {
        haste(draws, scenario);
    }
    if scenario.broker.session_expiry_ms > 0 {
        for _ in 0..draws.between(1, 4) {
            away_until_expiry(draws, scenario);
        }
    }
    if scenario.clients.iter().any(expires) {
        some(draws, scenario, (40, 4), away_by_the_wall_clock);
    }
    if scenario.clients.iter().any(|client| client.mqtt5.is_some()) {
        some(draws, scenario, (25, 3), expiring_while_away);
    }
    some(draws, scenario, (20, 3), unsubscribed_before_a_power_cut);
    some(draws, scenario, (30, 5), cleared_twice_before_a_power_cut);
    some(draws, scenario, (20, 3), afresh_before_a_power_cut);
    if draws.percent(15) {
        owed_at_a_break(draws, scenario);
    }
    if draws.percent(8) {
        repeated_while_parked(draws, scenario);
    }
    for client in &mut scenario.clients {
        client.operations.sort_by_key(|operation| operation.at_us);
    }
}

/// With a chance of so many in a hundred, adds a situation once to so many times.
fn some(
    draws: &mut Draws,
    scenario: &mut Scenario,
    (percent, most): (u32, u64),
    add: fn(&mut Draws, &mut Scenario),
) {
    if draws.percent(percent) {
        for _ in 0..draws.between(1, most) {
            add(draws, scenario);
        }
    }
}

/// Much is written to a slow disk, and power cuts find it under way.
fn storm(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    slow_down(draws, scenario);
    scenario.broker.held_replies = *draws.pick(&[10, 1000, 1000]);
    scenario.network.window_bytes = 65_536;
    let filter = "#".to_owned();
    let subscribe = Action::Subscribe { filter, qos: draws.between(1, 2) as u8, more: Vec::new() };
    scenario.clients[0].operations.push(Operation { at_us: 0, action: subscribe });
    for client in &mut scenario.clients {
        client.window = draws.between(1, 40) as usize;
    }
    for _ in 0..draws.between(4, 20) {
        let at_us = draws.below(end_us);
        burst(draws, scenario, at_us);
        // The first write may be a header that recovery writes.
        let when = When::WriteSince { at_us, number: draws.between(1, 6) };
        let down_us = *draws.pick(&[1_000, 1_000, 20_000]);
        scenario.faults.push(Fault::PowerCut { when, down_us, leaves: None });
    }
}

/// Small queues that overflow while their subscribers go on slowly, and power cuts.
fn overflow(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    slow_down(draws, scenario);
    scenario.broker.queue_messages = draws.between(2, 8);
    scenario.broker.queue_refuses = false;
    scenario.broker.inflight = draws.between(1, 3) as usize;
    for client in &mut scenario.clients {
        client.answer_us = *draws.pick(&[0, 1_000, 5_000]);
    }
    let filter = "#".to_owned();
    let subscribe = Action::Subscribe { filter, qos: 1, more: Vec::new() };
    scenario.clients[0].operations.push(Operation { at_us: 0, action: subscribe });
    scenario.clients[0].clean = false;
    for _ in 0..draws.between(4, 20) {
        let at_us = draws.below(end_us);
        burst(draws, scenario, at_us);
        let when = When::WriteSince { at_us, number: draws.between(1, 6) };
        scenario.faults.push(Fault::PowerCut { when, down_us: 1_000, leaves: None });
    }
}

/// Clients that repeat QoS 2 packets and take their own connections over in the middle of exchanges.
fn haste(draws: &mut Draws, scenario: &mut Scenario) {
    for client in &mut scenario.clients {
        client.repeat_percent = *draws.pick(&[0, 10, 50]);
        client.hasty_percent = *draws.pick(&[0, 5, 10, 30]);
        if draws.percent(70) {
            client.will = None; // its CONNACK would wait for that
        }
    }
}

/// Operations of the disk take long, clients come back soon.
fn slow_down(draws: &mut Draws, scenario: &mut Scenario) {
    let disk = &mut scenario.disk;
    disk.latency_min_us = *draws.pick(&[500, 2_000, 8_000]);
    disk.latency_max_us = disk.latency_min_us + *draws.pick(&[1, 1_000, 10_000]);
    scenario.network.notice_us = *draws.pick(&[1_000, 30_000]);
    for client in &mut scenario.clients {
        client.reconnect_us = *draws.pick(&[6_000, 30_000]);
    }
}

/// Some clients publish many messages from this time on.
fn burst(draws: &mut Draws, scenario: &mut Scenario, at_us: u64) {
    for _ in 0..draws.between(1, 3) {
        let action = Action::Publish {
            topic: (*draws.pick(&["a", "b/c", TOPIC])).to_owned(),
            qos: *draws.pick(&[1, 2, 2]),
            retain: false,
            size: *draws.pick(&[20, 500, 3_000]) + draws.below(1_000) as u32,
            count: draws.between(1, 30) as u32,
            expiry_s: None,
        };
        pick(draws, scenario).operations.push(Operation { at_us, action });
    }
}

/// A client stays away nearly until its session expires, comes back, and the power goes.
fn away_until_expiry(draws: &mut Draws, scenario: &mut Scenario) {
    let away_us = scenario.broker.session_expiry_ms * draws.between(700, 1020);
    let left_us = draws.below(scenario.fault_phase_us.saturating_sub(away_us).max(1));
    let back_us = left_us + away_us;
    let client = pick(draws, scenario);
    client.clean = false;
    client.operations.push(Operation { at_us: left_us, action: disconnect() });
    client
        .operations
        .push(Operation { at_us: back_us, action: Action::Connect { clean: false, session_expiry_s: None } });
    cut_the_power(draws, scenario, back_us);
}

fn disconnect() -> Action {
    Action::Disconnect { session_expiry_s: None, keeps_will: false }
}

/// Whether its session expires soon.
fn expires(client: &ClientProgram) -> bool {
    client.mqtt5.as_ref().is_some_and(|asks| asks.session_expiry_s <= 60) && !client.clean
}

/// A client stays away, the wall clock jumps to about when its session expires, and the power goes while it is away and when
/// it comes back.
fn away_by_the_wall_clock(draws: &mut Draws, scenario: &mut Scenario) {
    let mut found = scenario.clients.iter_mut().filter(|client| expires(client));
    let Some(client) = found.next() else { return };
    let expiry_s = client.mqtt5.as_ref().map_or(0, |asks| asks.session_expiry_s);
    let end_us = scenario.fault_phase_us;
    let left_us = draws.below(end_us / 2);
    let back_us = left_us + draws.between(end_us / 8, end_us / 3);
    client.operations.push(Operation { at_us: left_us, action: disconnect() });
    client
        .operations
        .push(Operation { at_us: back_us, action: Action::Connect { clean: false, session_expiry_s: None } });
    let jump_us = draws.between(left_us, back_us);
    let by_ms = (u64::from(expiry_s) * draws.between(700, 1300)) as i64;
    scenario.faults.push(Fault::WallJump { when: When::AtUs(jump_us), by_ms });
    if draws.percent(60) {
        let at_us = draws.between(left_us, back_us);
        cut_the_power(draws, scenario, at_us);
    }
    if draws.percent(40) {
        cut_the_power(draws, scenario, back_us);
    }
}

/// A subscriber is away; messages for it, also retained, expire at about the time when it comes back, by a wall clock that
/// jumps; the power may go in between.
fn expiring_while_away(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    let left_us = draws.between(end_us / 10, end_us / 2);
    let back_us = left_us + draws.between(end_us / 8, end_us / 3);
    let subscriber = pick(draws, scenario);
    subscriber.clean = false;
    let subscribe =
        Action::Subscribe { filter: TOPIC.to_owned(), qos: draws.between(1, 2) as u8, more: Vec::new() };
    subscriber.operations.push(Operation { at_us: draws.below(left_us), action: subscribe });
    subscriber.operations.push(Operation { at_us: left_us, action: disconnect() });
    subscriber
        .operations
        .push(Operation { at_us: back_us, action: Action::Connect { clean: false, session_expiry_s: None } });
    let expiry = *draws.pick(&[1, 60, 1000]);
    let mut publishers = scenario.clients.iter_mut().filter(|client| client.mqtt5.is_some());
    let Some(publisher) = publishers.next() else { return };
    for _ in 0..draws.between(1, 3) {
        let at_us = draws.between(left_us, back_us);
        let (qos, count) = (draws.between(1, 2) as u8, draws.between(1, 5) as u32);
        let retain = count == 1 && draws.percent(50);
        let (topic, expiry_s) = (TOPIC.to_owned(), Some(expiry));
        let action = Action::Publish { topic, qos, retain, size: 20, count, expiry_s };
        publisher.operations.push(Operation { at_us, action });
    }
    let by_ms = (u64::from(expiry) * draws.between(500, 1200)) as i64;
    let jump_us = draws.between(left_us, back_us);
    scenario.faults.push(Fault::WallJump { when: When::AtUs(jump_us), by_ms });
    if draws.percent(50) {
        let at_us = draws.between(left_us, back_us);
        cut_the_power(draws, scenario, at_us);
    }
}

/// A client begins its session afresh, and the power goes.
fn afresh_before_a_power_cut(draws: &mut Draws, scenario: &mut Scenario) {
    let at_us = draws.below(scenario.fault_phase_us);
    let client = pick(draws, scenario);
    client.clean = false;
    client
        .operations
        .push(Operation { at_us, action: Action::Connect { clean: true, session_expiry_s: None } });
    cut_the_power(draws, scenario, at_us);
}

/// A client unsubscribes, the power goes, and somebody publishes afterwards.
fn unsubscribed_before_a_power_cut(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    let at_us = draws.between(end_us / 10, end_us * 2 / 3);
    let filter = TOPIC.to_owned();
    let client = pick(draws, scenario);
    client.clean = false;
    let subscribed_us = draws.below(at_us);
    let qos = draws.between(1, 2) as u8;
    client.operations.push(Operation {
        at_us: subscribed_us,
        action: Action::Subscribe { filter: filter.clone(), qos, more: Vec::new() },
    });
    client.operations.push(Operation { at_us, action: Action::Unsubscribe { filter, more: Vec::new() } });
    cut_the_power(draws, scenario, at_us);
    for _ in 0..3 {
        let at_us = at_us + draws.below(end_us / 3);
        let action = Action::Publish {
            topic: TOPIC.to_owned(),
            qos: 1,
            retain: false,
            size: 20,
            count: 1,
            expiry_s: None,
        };
        pick(draws, scenario).operations.push(Operation { at_us, action });
    }
}

/// A topic is set, cleared twice at nearly the same time, the power goes, and somebody subscribes.
fn cleared_twice_before_a_power_cut(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    let at_us = draws.between(end_us / 10, end_us * 2 / 3);
    let publish = |qos, size| Action::Publish {
        topic: TOPIC.to_owned(),
        qos,
        retain: true,
        size,
        count: 1,
        expiry_s: None,
    };
    let set_us = draws.below(at_us);
    pick(draws, scenario).operations.push(Operation { at_us: set_us, action: publish(1, 20) });
    let first = draws.below(2) as u8;
    pick(draws, scenario).operations.push(Operation { at_us, action: publish(first, 0) });
    let again_us = at_us + draws.below(3000);
    pick(draws, scenario).operations.push(Operation { at_us: again_us, action: publish(1, 0) });
    cut_the_power(draws, scenario, again_us);
    for _ in 0..2 {
        let at_us = again_us + draws.below(end_us / 3);
        let action = Action::Subscribe { filter: TOPIC.to_owned(), qos: 1, more: Vec::new() };
        pick(draws, scenario).operations.push(Operation { at_us, action });
    }
}

/// A client subscribes to many topics that retain messages, and its connection breaks, or the power goes, before it has
/// them all.
fn owed_at_a_break(draws: &mut Draws, scenario: &mut Scenario) {
    let end_us = scenario.fault_phase_us;
    let at_us = draws.between(end_us / 3, end_us * 2 / 3);
    scenario.broker.turn_work = *draws.pick(&[1, 3, 16]);
    scenario.broker.unsent_bytes = *draws.pick(&[200, 200, 4096]);
    scenario.network.window_bytes = 100;
    for number in 0..draws.between(6, 30) {
        let topic = format!("{TOPIC}/{number}");
        let size = 100 + draws.below(1_000) as u32;
        let action = Action::Publish {
            topic,
            qos: draws.between(1, 2) as u8,
            retain: true,
            size,
            count: 1,
            expiry_s: None,
        };
        let at_us = draws.below(end_us / 4);
        pick(draws, scenario).operations.push(Operation { at_us, action });
    }
    let (filter, qos) = (format!("{TOPIC}/+"), draws.between(1, 2) as u8);
    let broken_us = at_us + draws.between(1_000, 20_000);
    let cut = draws.percent(50);
    let client = pick(draws, scenario);
    client.clean = false;
    let subscribe = Action::Subscribe { filter, qos, more: Vec::new() };
    client.operations.push(Operation { at_us, action: subscribe });
    if cut {
        cut_the_power(draws, scenario, at_us);
    } else {
        client.operations.push(Operation { at_us: broken_us, action: Action::Drop });
    }
}

/// The disk is full when the broker starts again, and a client repeats messages that wait for room.
fn repeated_while_parked(draws: &mut Draws, scenario: &mut Scenario) {
    const TAKES_US: u64 = 400_000;
    let end_us = scenario.fault_phase_us;
    if end_us < 2 * TAKES_US {
        return;
    }
    let at_us = draws.between(end_us / 4, end_us - TAKES_US);
    scenario.faults.push(Fault::DiskFull { when: When::AtUs(at_us), for_us: TAKES_US });
    let crash_us = at_us + draws.below(20_000);
    scenario.faults.push(Fault::ProcessCrash { when: When::AtUs(crash_us), down_us: 1_000 });
    let client = pick(draws, scenario);
    client.clean = false;
    client.reconnect_us = 6_000;
    for _ in 0..draws.between(1, 6) {
        let at_us = at_us + draws.between(50_000, TAKES_US / 2);
        let count = draws.between(1, 6) as u32;
        let action = Action::Publish {
            topic: TOPIC.to_owned(),
            qos: 2,
            retain: false,
            size: 20,
            count,
            expiry_s: None,
        };
        client.operations.push(Operation { at_us, action });
        let again_us = at_us + draws.below(100_000);
        client.operations.push(Operation { at_us: again_us, action: Action::Resend });
    }
}

/// Soon after this time: during a write, or at any moment.
fn cut_the_power(draws: &mut Draws, scenario: &mut Scenario, at_us: u64) {
    let when = match draws.below(3) {
        0 => When::AtUs(at_us + draws.below(40_000)),
        1 => When::AtUs(at_us + draws.below(4_000)),
        _ => When::WriteSince { at_us: at_us + draws.below(1_000), number: draws.between(1, 2) },
    };
    let down_us = *draws.pick(&[1_000, 20_000]);
    scenario.faults.push(Fault::PowerCut { when, down_us, leaves: None });
}

fn pick<'a>(draws: &mut Draws, scenario: &'a mut Scenario) -> &'a mut ClientProgram {
    let index = draws.below(scenario.clients.len() as u64) as usize;
    &mut scenario.clients[index]
}
