//! Retained messages (§3.3.1.3).

use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, settings};

fn with_publisher() -> (Run, u64) {
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "pub", true);
    (run, publisher)
}

/// What a new subscriber gets at once: topic, payload, QoS, RETAIN.
fn found(run: &mut Run, filter: &str, qos: u8) -> Vec<(String, Vec<u8>, u8, bool)> {
    let (id, _) = accepted(run, "a new subscriber", true);
    subscribe(run, id, &[(filter, qos)]);
    let got = take_all(run, id);
    run.send(id, &DISCONNECT);
    got.into_iter().map(|got| (got.topic, got.payload, got.qos, got.retain)).collect()
}

#[test]
fn a_new_subscription_gets_the_last_value() {
    // Broken: a device that starts does not know the state of the world. [MQTT-3.3.1-5], [MQTT-3.3.1-6],
    // [MQTT-3.3.1-8]
    let (mut run, publisher) = with_publisher();
    for (number, qos) in [0u8, 1, 2, 1, 0].into_iter().enumerate() {
        retain(&mut run, publisher, "t", qos, 1, &[number as u8]);
        run.send(publisher, &pubrel(1));
        // [MQTT-3.3.1-7]: also a QoS 0 one replaces.
        assert_eq!(found(&mut run, "t", 2), [("t".into(), vec![number as u8], qos, true)]);
    }
}

#[test]
fn the_lower_qos_counts() {
    // Broken: the stored QoS is lost, or the subscription's ignored. [MQTT-3.3.1-5], [MQTT-3.8.4-6]
    for published in 0..=2 {
        let (mut run, publisher) = with_publisher();
        retain(&mut run, publisher, "t", published, 1, b"x");
        for granted in 0..=2 {
            assert_eq!(
                found(&mut run, "t", granted),
                [("t".into(), b"x".to_vec(), published.min(granted), true)]
            );
        }
    }
}

#[test]
fn an_established_subscription_sees_no_flag() {
    // Broken: a live value is taken for an old one. [MQTT-3.3.1-9]
    let (mut run, publisher) = with_publisher();
    let (id, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, id, &[("t", 2)]);
    for qos in 0..=2 {
        retain(&mut run, publisher, "t", qos, 1, b"x");
        run.send(publisher, &pubrel(1));
    }
    retain(&mut run, publisher, "t", 1, 1, b"");
    let got = take_all(&mut run, id);
    assert_eq!(got.iter().map(|got| got.retain).collect::<Vec<_>>(), [false; 4]);
    assert_eq!(got[3].payload, b"", "the empty one is delivered as any other"); // [MQTT-3.3.1-10]
}

#[test]
fn an_empty_message_clears() {
    // Broken: what was deleted is still there for new subscribers. [MQTT-3.3.1-10], [MQTT-3.3.1-11]
    for qos in 0..=2 {
        let (mut run, publisher) = with_publisher();
        retain(&mut run, publisher, "t", 1, 1, b"x");
        retain(&mut run, publisher, "u", 1, 1, b"y");
        retain(&mut run, publisher, "t", qos, 2, b"");
        retain(&mut run, publisher, "never there", qos, 3, b"");
        assert_eq!(found(&mut run, "#", 2).len(), 1);
        assert_eq!(run.broker.statistics().retained, 1);
        run.pass_ms(50);
        let mut run = run.power_cut(Survival::Nothing);
        assert_eq!(found(&mut run, "#", 2).len(), 1, "after a crash, cleared with QoS {qos}");
    }
}

#[test]
fn a_message_without_the_flag_changes_nothing() {
    // Broken: an event deletes or replaces a state. [MQTT-3.3.1-12]
    let (mut run, publisher) = with_publisher();
    retain(&mut run, publisher, "t", 1, 1, b"state");
    publish(&mut run, publisher, "t", 1, 2, b"event");
    publish(&mut run, publisher, "t", 1, 3, b"");
    publish(&mut run, publisher, "u", 1, 4, b"event");
    assert_eq!(found(&mut run, "#", 1), [("t".into(), b"state".to_vec(), 1, true)]);
}

#[test]
fn retained_messages_outlive_their_publishers_session() {
    // Broken: a state is gone as soon as the device that reported it is. [MQTT-3.1.2-7]
    let (mut run, publisher) = with_publisher();
    retain(&mut run, publisher, "t", 1, 1, b"x");
    run.send(publisher, &DISCONNECT);
    let (durable, _) = accepted(&mut run, "durable", false);
    retain(&mut run, durable, "u", 2, 1, b"y");
    run.send(durable, &DISCONNECT);
    accepted(&mut run, "durable", true);
    run.pass_ms(365 * 24 * 3600 * 1000);
    assert_eq!(found(&mut run, "#", 0).len(), 2);
}

#[test]
fn binary_values_come_back_as_they_were() {
    // Broken: payloads are treated as text.
    let (mut run, publisher) = with_publisher();
    let every_byte: Vec<u8> = (0..=255).collect();
    let values = [every_byte, vec![0], vec![0xff; 3], vec![0xc0, 0xaf, 0xed, 0xa0, 0x80], vec![b'x'; 15_000]];
    for (number, value) in values.iter().enumerate() {
        retain(&mut run, publisher, &format!("t/{number}"), 1, 1, value);
    }
    let mut run = run.power_cut(Survival::Nothing);
    let got: Vec<Vec<u8>> = found(&mut run, "t/+", 1).into_iter().map(|got| got.1).collect();
    assert_eq!(got, values);
}

#[test]
fn wildcards_find_exactly_the_matching_topics() {
    // Broken: a new subscriber misses a state, or reads another's. [MQTT-3.3.1-6]
    let (mut run, publisher) = with_publisher();
    for topic in ["a", "a/b", "a/b/c", "a/", "/a", "b/b", "ab", "a b", "$SYS/a"] {
        retain(&mut run, publisher, topic, 0, 0, b"x");
    }
    let cases: [(&str, &[&str]); 8] = [
        ("#", &["/a", "a", "a b", "a/", "a/b", "a/b/c", "ab", "b/b"]),
        ("a/#", &["a", "a/", "a/b", "a/b/c"]),
        ("a/+", &["a/", "a/b"]),
        ("+/b", &["a/b", "b/b"]),
        ("+", &["a", "a b", "ab"]),
        ("/+", &["/a"]),
        ("$SYS/#", &["$SYS/a"]),
        ("a/b/c/d", &[]),
    ];
    for (filter, expected) in cases {
        let mut topics: Vec<String> = found(&mut run, filter, 0).into_iter().map(|got| got.0).collect();
        topics.sort();
        assert_eq!(topics, expected, "{filter}");
    }
}

#[test]
fn subscribing_again_brings_them_again() {
    // Broken: a client that refreshes its state by subscribing gets nothing. [MQTT-3.8.4-3]
    let (mut run, publisher) = with_publisher();
    retain(&mut run, publisher, "t/1", 1, 1, b"x");
    let (id, _) = accepted(&mut run, "sub", false);
    for qos in [0, 1, 1, 0] {
        run.send(id, &subscribe_bytes(1, &[("t/#", qos)])); // they may come before its SUBACK
        let got = take_all(&mut run, id);
        assert_eq!((got.len(), got[0].qos, got[0].retain), (1, qos, true));
    }
    // A resumed session alone is no new subscription.
    run.send(id, &DISCONNECT);
    let (id, _) = accepted(&mut run, "sub", false);
    assert!(take_all(&mut run, id).is_empty());
}

#[test]
fn more_than_one_turns_work_arrives_whole() {
    // Broken: a wildcard over many topics stops after its first piece, or blocks everybody else.
    for turn_work in [1, 2, 7] {
        let mut settings = settings();
        (settings.limits.turn_work, settings.limits.inflight) = (turn_work, 5);
        let mut run = Run::with(settings);
        let (publisher, _) = accepted(&mut run, "pub", true);
        for number in 0..60 {
            retain(&mut run, publisher, &format!("t/{number:02}"), number % 3, 1, &[number]);
            run.send(publisher, &pubrel(1));
        }
        for (clean, qos) in [(true, 0), (true, 2), (false, 1)] {
            let (id, _) = accepted(&mut run, &format!("sub {clean} {qos}"), clean);
            run.send(id, &subscribe_bytes(1, &[("t/+", qos), ("t/2+", qos), ("none/#", qos)][..1]));
            let mut got: Vec<u8> = take_all(&mut run, id).iter().map(|got| got.payload[0]).collect();
            got.sort_unstable();
            assert_eq!(got, (0..60).collect::<Vec<_>>(), "turn_work {turn_work}, clean {clean}, QoS {qos}");
        }
    }
}

#[test]
fn many_new_subscribers_do_not_keep_others_waiting() {
    // Broken: each of a thousand clients that come back is served a whole turn's worth of retained topics before
    // anybody else has a turn.
    let mut settings = settings();
    settings.limits.turn_work = 10;
    let mut run = Run::with(settings);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 0..100 {
        retain(&mut run, publisher, &format!("t/{number:02}"), 0, 0, b"x");
    }
    let clients: Vec<u64> = (0..20).map(|n| accepted(&mut run, &format!("sub {n}"), true).0).collect();
    let now = run.now;
    for id in &clients {
        let connection = vowmq_core::ids::ConnectionId(*id);
        let bytes = subscribe_bytes(1, &[("t/+", 0)]).into();
        run.broker.handle(now, vowmq_core::input::Input::Received { connection, bytes });
    }
    let before = run.broker.statistics().delivered;
    run.broker.handle(now, vowmq_core::input::Input::DeadlineReached);
    let delivered = run.broker.statistics().delivered - before;
    assert!((10..=20).contains(&delivered), "{delivered} in one turn");
    run.turn();
    for id in clients {
        assert_eq!(messages(&mut run, id).len(), 100);
    }
}

#[test]
fn what_is_published_during_the_walk_comes_once() {
    // Broken: a value that changes while a new subscriber is served comes twice, or its older one last.
    let mut settings = settings();
    (settings.limits.turn_work, settings.limits.inflight) = (1, 1);
    let mut run = Run::with(settings);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 0..10 {
        retain(&mut run, publisher, &format!("t/{number}"), 1, 1, b"older");
    }
    let (id, _) = accepted(&mut run, "sub", false);
    let now = run.now;
    let connection = vowmq_core::ids::ConnectionId(id);
    let bytes = subscribe_bytes(1, &[("t/#", 1)]).into();
    run.broker.handle(now, vowmq_core::input::Input::Received { connection, bytes });
    let connection = vowmq_core::ids::ConnectionId(publisher);
    let bytes = publish_bytes("t/9", 1, 2, b"newer", false, true).into();
    run.broker.handle(now, vowmq_core::input::Input::Received { connection, bytes });
    run.turn();
    let got = take_all(&mut run, id);
    let nine: Vec<_> =
        got.iter().filter(|got| got.topic == "t/9").map(|got| (&*got.payload, got.retain)).collect();
    assert_eq!(nine.last(), Some(&(&b"newer"[..], false)));
    assert_eq!(nine.iter().filter(|(payload, _)| *payload == b"newer").count(), 1);
    assert_eq!(got.len(), 10);
}

#[test]
fn owed_ones_survive_a_crash() {
    // Broken: SUBACK, power cut in the middle of the walk, and the rest never comes.
    for batches in 0..12 {
        let mut settings = settings();
        (settings.limits.turn_work, settings.limits.inflight) = (2, 100);
        let mut run = Run::with(settings);
        let (publisher, _) = accepted(&mut run, "pub", true);
        for number in 0..30 {
            retain(&mut run, publisher, &format!("t/{number:02}"), 2, 1, &[number]);
            run.send(publisher, &pubrel(1));
        }
        let (id, _) = accepted(&mut run, "sub", false);
        run.hold_disk = true;
        run.send(id, &subscribe_bytes(1, &[("t/#", 2)]));
        for _ in 0..batches {
            let Some((op, request)) = (!run.held.is_empty()).then(|| run.held.remove(0)) else { break };
            let result = run.disk.execute(&request);
            run.broker.handle(run.now, vowmq_core::input::Input::DiskDone { op, result });
            run.turn();
        }
        let acknowledged = acknowledgements(&mut run, id).contains(&(0x90, 1));
        let mut run = run.power_cut(Survival::Nothing);
        let (id, present) = accepted(&mut run, "sub", false);
        assert!(present);
        let mut got: Vec<u8> = take_all(&mut run, id).iter().map(|got| got.payload[0]).collect();
        got.sort_unstable();
        if acknowledged {
            assert_eq!(got, (0..30).collect::<Vec<_>>(), "after {batches} disk operations");
        } else {
            assert!(batches == 0 && got.is_empty(), "after {batches} disk operations: {got:?}");
        }
    }
}

#[test]
fn owed_ones_go_on_behind_a_connack_that_waits() {
    // Broken: CONNECT and SUBSCRIBE in one piece, the CONNACK waits for the disk, and what goes with QoS 0 is lost
    // before it. [MQTT-3.3.1-6], [MQTT-3.2.0-1]
    for qos in 0..=1 {
        let (mut run, publisher) = with_publisher();
        retain(&mut run, publisher, "t/0", 0, 0, b"zero");
        retain(&mut run, publisher, "t/1", 1, 1, b"one");
        let id = run.open();
        let mut bytes = encode_connect(&connect_packet("sub", false));
        bytes.extend(subscribe_bytes(1, &[("t/#", qos)]));
        run.hold_disk = true;
        run.send(id, &bytes);
        assert!(run.taken(id).is_empty());
        run.release_disk();
        let mut texts = take_texts(&mut run, id);
        texts.sort();
        assert_eq!(texts, ["one", "zero"], "granted QoS {qos}");
    }
}

#[test]
fn their_number_is_bounded() {
    // Broken: clients fill the memory with topics that nobody reads.
    let mut settings = settings();
    settings.limits.retained = 3;
    let mut run = Run::with(settings);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for topic in ["a", "b", "c"] {
        retain(&mut run, publisher, topic, 1, 1, b"x");
    }
    retain(&mut run, publisher, "d", 0, 0, b"refused, counted");
    retain(&mut run, publisher, "a", 1, 2, b"replacing is no more");
    assert_eq!((run.broker.statistics().retained, run.broker.statistics().refused), (3, 1));
    retain(&mut run, publisher, "b", 1, 3, b"");
    retain(&mut run, publisher, "d", 1, 4, b"room");
    assert_eq!(acknowledgements(&mut run, publisher).len(), 6);
    retain(&mut run, publisher, "e", 1, 5, b"refused"); // [MQTT-3.3.5-2]: no acknowledgement, the end
    assert!(run.taken(publisher).is_empty() && run.closed(publisher).is_some());
    assert_eq!(found(&mut run, "#", 1).len(), 3);
}
