//! PUBLISH and its acknowledgements, both ways, at every QoS (§3.3, §4.3, §4.6).

use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::Packet;
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input};
use vowmq_core::output::Output;

/// A clean publisher and a clean subscriber of "t/#" with this QoS.
fn pair(qos: u8) -> (Run, u64, u64) {
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("t/#", qos)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    (run, publisher, subscriber)
}

#[test]
fn each_qos_has_its_answers() {
    // Broken: the exchange of a QoS is not the one of its table. [MQTT-3.3.4-1], [MQTT-2.3.1-6], [MQTT-2.2.2-1]
    let (mut run, publisher, _) = pair(0);
    publish(&mut run, publisher, "t/a", 0, 0, b"x");
    assert!(run.taken(publisher).is_empty());
    publish(&mut run, publisher, "t/a", 1, 0x1234, b"x");
    assert_eq!(run.taken(publisher), puback(0x1234));
    publish(&mut run, publisher, "t/a", 2, 0x2345, b"x");
    assert_eq!(run.taken(publisher), pubrec(0x2345));
    run.send(publisher, &pubrel(0x2345));
    assert_eq!(run.taken(publisher), pubcomp(0x2345));
}

#[test]
fn the_lower_qos_of_publisher_and_subscriber_is_delivered() {
    // Broken: a subscriber gets more ceremony than it asked for, or less than it was promised. [MQTT-3.8.4-6]
    for granted in 0..=2 {
        for published in 0..=2 {
            let (mut run, publisher, subscriber) = pair(granted);
            publish(&mut run, publisher, "t/a", published, 1, b"x");
            let got = messages(&mut run, subscriber);
            assert_eq!(got.len(), 1);
            let qos = granted.min(published);
            // [MQTT-4.3.1-1], [MQTT-4.3.2-1], [MQTT-4.3.3-1]: DUP is 0 at first. [MQTT-2.3.1-5]: no id with QoS 0.
            assert_eq!((got[0].qos, got[0].dup, got[0].packet_id == 0), (qos, false, qos == 0));
            assert_eq!(got[0].payload, b"x");
        }
    }
}

#[test]
fn the_publishers_dup_goes_no_further() {
    // Broken: a subscriber drops a new message as a repetition. [MQTT-3.3.1-3]
    let (mut run, publisher, subscriber) = pair(2);
    for qos in 1..=2 {
        run.send(publisher, &publish_bytes("t/a", qos, 3, b"x", true, false));
        assert!(!messages(&mut run, subscriber)[0].dup);
    }
}

#[test]
fn qos1_under_the_same_id_is_a_new_message() {
    // Broken: a publisher that uses an id again after its PUBACK loses the message. [MQTT-4.3.2-2]
    let (mut run, publisher, subscriber) = pair(1);
    for dup in [false, false, true] {
        run.send(publisher, &publish_bytes("t/a", 1, 9, b"x", dup, false));
        assert_eq!(run.taken(publisher), puback(9));
    }
    assert_eq!(messages(&mut run, subscriber).len(), 3);
}

#[test]
fn qos2_under_the_same_id_is_the_same_message_until_pubrel() {
    // Broken: exactly once is twice, or a later message is swallowed. [MQTT-4.3.3-2]
    for clean in [true, false] {
        let (mut run, _, subscriber) = pair(2);
        let (publisher, _) = accepted(&mut run, "publisher", clean);
        for dup in [false, true, true, false] {
            run.send(publisher, &publish_bytes("t/a", 2, 9, b"first", dup, false));
            assert_eq!(run.taken(publisher), pubrec(9));
        }
        run.send(publisher, &pubrel(9));
        run.send(publisher, &pubrel(9));
        assert_eq!(run.taken(publisher), [pubcomp(9), pubcomp(9)].concat());
        // The flag alone does not make it a repetition.
        run.send(publisher, &publish_bytes("t/a", 2, 9, b"second", true, false));
        assert_eq!(take_texts(&mut run, subscriber), ["first", "second"]);
    }
}

#[test]
fn qos2_ids_of_a_durable_publisher_survive_its_connection() {
    // Broken: PUBLISH, connection lost before PUBREC, PUBLISH again: twice. [MQTT-4.1.0-1]
    let (mut run, _, subscriber) = pair(2);
    let (publisher, _) = accepted(&mut run, "publisher", false);
    publish(&mut run, publisher, "t/a", 2, 9, b"once");
    run.break_off(publisher);
    let (publisher, _) = accepted(&mut run, "publisher", false);
    run.send(publisher, &publish_bytes("t/a", 2, 9, b"once", true, false));
    assert_eq!(run.taken(publisher), pubrec(9));
    run.send(publisher, &pubrel(9));
    assert_eq!(take_texts(&mut run, subscriber), ["once"]);
}

#[test]
fn qos2_ids_of_a_clean_publisher_do_not_outlive_it() {
    // Broken: a new message of a new session is taken for one of the last session. [MQTT-3.1.2-6]
    let (mut run, _, subscriber) = pair(2);
    for text in ["one", "two"] {
        let (publisher, _) = accepted(&mut run, "publisher", true);
        publish(&mut run, publisher, "t/a", 2, 9, text.as_bytes());
        run.break_off(publisher);
    }
    assert_eq!(take_texts(&mut run, subscriber), ["one", "two"]);
}

#[test]
fn qos2_goes_through_its_four_packets_to_a_subscriber() {
    // Broken: the subscriber waits for PUBREL for ever, or its window leaks. [MQTT-4.3.3-1]
    let (mut run, publisher, subscriber) = pair(2);
    publish(&mut run, publisher, "t/a", 2, 1, b"x");
    let id = messages(&mut run, subscriber)[0].packet_id;
    run.send(subscriber, &pubrec(id));
    assert_eq!(run.taken(subscriber), pubrel(id));
    run.send(subscriber, &pubrec(id)); // once more: PUBREL once more, PUBLISH never
    assert_eq!(run.taken(subscriber), pubrel(id));
    run.send(subscriber, &pubcomp(id));
    assert!(run.taken(subscriber).is_empty());
    assert_eq!(run.broker.statistics().messages, 0);
}

#[test]
fn acknowledgements_come_in_the_order_of_what_they_answer() {
    // Broken: a publisher that counts on the order takes the wrong message for stored. [MQTT-4.6.0-2],
    // [MQTT-4.6.0-3], [MQTT-4.6.0-4]
    let mut run = Run::new();
    let (durable, _) = accepted(&mut run, "durable", false);
    subscribe(&mut run, durable, &[("durable/#", 2)]);
    let (publisher, _) = accepted(&mut run, "pub", false);
    let mut expected = Vec::new();
    run.hold_disk = true;
    for id in 1..=10 {
        let topic = if id % 3 == 0 { "durable/a" } else { "nobody" };
        let qos = 1 + (id % 2) as u8;
        publish(&mut run, publisher, topic, qos, id, b"x");
        expected.push(if qos == 1 { (0x40, id) } else { (0x50, id) });
    }
    run.release_disk();
    assert_eq!(acknowledgements(&mut run, publisher), expected);
    let got = messages(&mut run, durable);
    let twos: Vec<u16> = got.iter().filter(|got| got.qos == 2).map(|got| got.packet_id).collect();
    assert!(!twos.is_empty());
    twos.iter().for_each(|&id| run.send(durable, &pubrec(id)));
    assert_eq!(acknowledgements(&mut run, durable), twos.iter().map(|&id| (0x62, id)).collect::<Vec<_>>());
}

#[test]
fn order_is_kept_per_topic_and_qos() {
    // Broken: the last value of a sensor is not the last that arrives. [MQTT-4.6.0-5], [MQTT-4.6.0-6]
    let mut settings = settings();
    (settings.limits.inflight, settings.limits.turn_work) = (3, 2);
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t/#", 2), ("t/+/x", 1)]);
    let publishers = [accepted(&mut run, "p1", true).0, accepted(&mut run, "p2", true).0];
    for number in 0u16..90 {
        let (publisher, qos) = (publishers[usize::from(number) % 2], (number % 3) as u8);
        let topic = format!("t/{}/x", number % 4);
        publish(&mut run, publisher, &topic, qos, 1 + number, &number.to_be_bytes());
        run.send(publisher, &pubrel(1 + number));
    }
    let got = take_all(&mut run, subscriber);
    assert_eq!(got.len(), 90);
    for topic in 0..4 {
        for qos in 0..=2 {
            let numbers: Vec<&[u8]> = got
                .iter()
                .filter(|got| got.topic == format!("t/{topic}/x") && got.qos == qos)
                .map(|got| &*got.payload)
                .collect();
            assert!(numbers.is_sorted(), "topic {topic}, QoS {qos}: {numbers:?}");
        }
    }
}

/// Ten connections that are subscribed to `t` with QoS 0.
fn ten_subscribers(run: &mut Run) -> Vec<u64> {
    (0..10)
        .map(|number| {
            let (id, _) = accepted(run, &format!("s{number}"), true);
            subscribe(run, id, &[("t", 0)]);
            id
        })
        .collect()
}

#[test]
fn qos0_keeps_its_order_over_a_wide_fan_out() {
    // Broken: where a fan-out takes several turns, the next message overtakes it. [MQTT-4.6.0-6]
    let mut settings = settings();
    settings.limits.turn_work = 3;
    let mut run = Run::with(settings);
    let subscribers = ten_subscribers(&mut run);
    let (publisher, _) = accepted(&mut run, "pub", true);
    let bytes: Vec<u8> = (0..5u8).flat_map(|n| publish_bytes("t", 0, 0, &[n], false, false)).collect();
    run.send(publisher, &bytes);
    for id in subscribers {
        assert_eq!(payloads(&mut run, id), [[0], [1], [2], [3], [4]]);
    }
}

#[test]
fn a_publisher_waits_for_its_wide_fan_outs() {
    // Broken: one publisher of small QoS 0 messages to many subscribers makes the broker remember a list of them
    // for each message, as many as it likes, and keeps everybody else waiting.
    for (turn_work, most) in [(3, 3 + 10), (50, 50 + 10)] {
        let mut settings = settings();
        settings.limits.turn_work = turn_work;
        let mut run = Run::with(settings);
        let subscribers = ten_subscribers(&mut run);
        let (publisher, _) = accepted(&mut run, "pub", true);
        let numbers: Vec<Vec<u8>> = (0..200).map(|number| vec![number]).collect();
        let bytes: Vec<u8> =
            numbers.iter().flat_map(|number| publish_bytes("t", 0, 0, number, false, false)).collect();
        let now = run.now;
        let before = run.broker.statistics().delivered;
        let connection = ConnectionId(publisher);
        run.broker.handle(now, Input::Received { connection, bytes: bytes.into() });
        let delivered = run.broker.statistics().delivered - before;
        assert!(delivered <= most, "{delivered} at a stretch");
        let mut paused = false;
        while let Some(output) = run.broker.poll_output() {
            paused |= matches!(&output, Output::PauseReading { connection: of } if *of == connection);
            run.carry_out(output);
        }
        assert!(paused, "it is read on while its messages wait");
        run.turn();
        assert_eq!(run.paused.get(&publisher), Some(&false));
        for id in subscribers {
            assert_eq!(payloads(&mut run, id), numbers, "turn_work {turn_work}");
        }
    }
}

#[test]
fn retained_qos0_messages_keep_their_order_when_one_had_to_wait() {
    // Broken: on a full disk a retained value waits, room comes, a newer value passes it, and the older one stays.
    // [MQTT-4.6.0-6], [MQTT-3.3.1-7]
    let mut settings = settings();
    settings.limits.memory_bytes = 20 * (1000 + 4 + 160 + 32 + 8); // body, topic, the message, its place in a queue
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("fill", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for id in 1..=20 {
        publish(&mut run, publisher, "fill", 1, id, &[b'x'; 1000]);
    }
    retain(&mut run, publisher, "value", 0, 0, b"older");
    assert_eq!(run.broker.statistics().parked, 1, "it waits for room");
    // Room comes and the newer value with it, before what waits had its turn.
    let ids: Vec<u16> = messages(&mut run, subscriber).iter().map(|got| got.packet_id).collect();
    let acks: Vec<u8> = ids.into_iter().flat_map(puback).collect();
    let newer = publish_bytes("value", 0, 0, b"newer", false, true);
    let now = run.now;
    run.broker.handle(now, Input::Received { connection: ConnectionId(subscriber), bytes: acks.into() });
    run.broker.handle(now, Input::Received { connection: ConnectionId(publisher), bytes: newer.into() });
    run.turn();
    let (reader, _) = accepted(&mut run, "reader", true);
    subscribe(&mut run, reader, &[("value", 0)]);
    assert_eq!(payloads(&mut run, reader), [b"newer"]);
}

#[test]
fn a_message_for_nobody_is_acknowledged() {
    // Broken: a publisher without subscribers waits for ever.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "nobody", 1, 1, b"x");
    publish(&mut run, publisher, "nobody", 2, 2, b"x");
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1), (0x50, 2)]);
}

#[test]
fn a_publisher_that_subscribed_gets_its_own_message() {
    // Broken: a client does not hear itself.
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("t", 1)]);
    publish(&mut run, id, "t", 1, 1, b"x");
    let packets = received(&mut run, id);
    assert_eq!(packets.len(), 2);
    assert!(packets.iter().any(|packet| matches!(packet, Packet::PubAck(_))));
}

#[test]
fn one_message_reaches_every_subscriber_session() {
    // Broken: an acknowledged message is missing in one of the sessions it belongs to. [MQTT-4.5.0-1]
    let mut run = Run::new();
    for number in 0..50 {
        let (id, _) = accepted(&mut run, &format!("s{number}"), false);
        subscribe(&mut run, id, &[(["t/#", "t/+", "t/a", "#"][number % 4], 1 + (number % 2) as u8)]);
        run.send(id, &DISCONNECT);
    }
    let (publisher, _) = accepted(&mut run, "pub", true);
    let records = run.broker.statistics().records;
    publish(&mut run, publisher, "t/a", 2, 1, b"x");
    assert_eq!(run.taken(publisher), pubrec(1));
    assert_eq!(run.broker.statistics().records, records + 1, "one record, whole or not at all");
    let mut run = run.power_cut(crate::support::disk::Survival::Nothing);
    for number in 0..50 {
        let (id, _) = accepted(&mut run, &format!("s{number}"), false);
        assert_eq!(take_texts(&mut run, id), ["x"], "session {number}");
    }
}

#[test]
fn packets_may_come_byte_by_byte() {
    // Broken: what a packet means depends on the network.
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("t", 2)]);
    let id = run.open();
    let mut bytes = encode_connect(&connect_packet("slow", true));
    bytes.extend(publish_bytes("t", 2, 5, &[7; 300], false, false));
    bytes.extend(pubrel(5));
    bytes.extend(PINGREQ);
    for byte in bytes {
        run.send(id, &[byte]);
        run.pass_ms(10); // every piece in a turn of its own
    }
    let packets = received(&mut run, id);
    assert!(
        matches!(packets[..], [Packet::ConnAck(_), Packet::PubRec(_), Packet::PubComp(_), Packet::PingResp]),
        "{packets:?}"
    );
    assert_eq!(take_all(&mut run, subscriber)[0].payload, [7; 300]);
    run.input(Input::Closed { connection: ConnectionId(id), cause: CloseCause::EndOfStream });
}
