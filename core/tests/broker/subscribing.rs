//! SUBSCRIBE, UNSUBSCRIBE, and who gets what (§3.8 to §3.11, §4.7).

use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::Packet;

/// Publishes to each topic and returns what reached the subscriber.
fn reached(run: &mut Run, subscriber: u64, topics: &[&str]) -> Vec<String> {
    let (publisher, _) = accepted(run, "a publisher", true);
    for topic in topics {
        publish(run, publisher, topic, 0, 0, b"x");
    }
    messages(run, subscriber).into_iter().map(|got| got.topic).collect()
}

#[test]
fn suback_answers_filter_by_filter() {
    // Broken: the client takes the code of one filter for another's. [MQTT-3.8.4-1], [MQTT-3.8.4-2],
    // [MQTT-3.8.4-5], [MQTT-3.9.3-1], [MQTT-2.3.1-7]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    run.send(id, &subscribe_bytes(0x1234, &[("a", 2), ("b", 0), ("c/#", 1), ("+", 2)]));
    assert_eq!(run.taken(id), [0x90, 6, 0x12, 0x34, 2, 0, 1, 2]);
}

#[test]
fn several_filters_are_as_several_packets() {
    // Broken: of many filters in one packet only some hold. [MQTT-3.8.4-4]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    subscribe(&mut run, id, &[("a", 0), ("b", 1), ("c/+", 2)]);
    assert_eq!(reached(&mut run, id, &["a", "b", "c/1", "d"]), ["a", "b", "c/1"]);
}

#[test]
fn only_matching_topics_are_delivered() {
    // Broken: a subscriber reads what it never asked for. [MQTT-3.3.2-3]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    subscribe(&mut run, id, &[("a/+/c", 1), ("x/#", 2)]);
    let topics = ["a", "a/b", "a/b/c", "a//c", "a/b/c/d", "x", "x/y/z", "y/x", "/a/b/c"];
    assert_eq!(reached(&mut run, id, &topics), ["a/b/c", "a//c", "x", "x/y/z"]);
}

#[test]
fn the_same_filter_replaces_the_subscription() {
    // Broken: the old QoS stays, or a message comes twice. [MQTT-3.8.4-3]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for qos in [2, 0, 1] {
        subscribe(&mut run, id, &[("t", qos)]);
        publish(&mut run, publisher, "t", 2, 1, b"x");
        run.send(publisher, &pubrel(1));
        let got = take_all(&mut run, id);
        assert_eq!(got.iter().map(|got| got.qos).collect::<Vec<_>>(), [qos]);
    }
    run.send(id, &unsubscribe_bytes(1, &["t"]));
    publish(&mut run, publisher, "t", 1, 1, b"x");
    assert!(messages(&mut run, id).is_empty(), "one subscription, however often it was made");
}

#[test]
fn overlapping_subscriptions_bring_one_copy_at_the_highest_qos() {
    // Broken: a message comes twice, or with less than was granted. [MQTT-3.3.5-1]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("a/#", 0), ("a/b", 2), ("+/b", 1), ("#", 0)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for (number, qos) in [(1, 0), (2, 1), (3, 2)] {
        publish(&mut run, publisher, "a/b", qos, number, b"x");
    }
    let got = take_all(&mut run, id);
    assert_eq!(got.iter().map(|got| got.qos).collect::<Vec<_>>(), [0, 1, 2]);
    // Without the highest the next one counts.
    run.send(id, &unsubscribe_bytes(1, &["a/b"]));
    publish(&mut run, publisher, "a/b", 2, 4, b"x");
    assert_eq!(take_all(&mut run, id).iter().map(|got| got.qos).collect::<Vec<_>>(), [1]);
}

#[test]
fn resubscribing_does_not_interrupt() {
    // Broken: messages that come while a client subscribes again are lost. [MQTT-3.8.4-3]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 1..=30u16 {
        publish(&mut run, publisher, "t", 1, number, format!("{number:02}").as_bytes());
        run.send(id, &subscribe_bytes(number, &[("t", 1 + (number % 2) as u8)]));
    }
    let texts = take_texts(&mut run, id);
    assert_eq!(texts, (1..=30).map(|number| format!("{number:02}")).collect::<Vec<_>>());
}

#[test]
fn unsubscribe_ends_exactly_that_subscription() {
    // Broken: a client goes on getting what it left, or loses what it kept. [MQTT-3.10.4-1], [MQTT-3.10.4-2],
    // [MQTT-3.10.4-4], [MQTT-3.10.4-5], [MQTT-3.10.4-6], [MQTT-2.3.1-7]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    subscribe(&mut run, id, &[("a/+", 1), ("a/b", 0), ("A/b", 0), ("x/#", 0), ("y", 0)]);
    // "a/c" matches "a/+" and is not it; "x/+" is not "x/#".
    run.send(id, &unsubscribe_bytes(0x4321, &["a/c", "x/+", "a/b", "not there", "y"]));
    assert_eq!(run.taken(id), [0xb0, 2, 0x43, 0x21]);
    assert_eq!(reached(&mut run, id, &["a/b", "a/c", "A/b", "x/y", "y"]), ["a/b", "a/c", "A/b", "x/y"]);
    run.send(id, &unsubscribe_bytes(2, &["a/+"]));
    assert_eq!(run.taken(id), [0xb0, 2, 0, 2]);
    assert_eq!(reached(&mut run, id, &["a/b", "a/c", "A/b"]), ["A/b"]);
}

#[test]
fn what_was_begun_before_unsubscribe_is_completed() {
    // Broken: UNSUBSCRIBE leaves a QoS 2 message half delivered. [MQTT-3.10.4-3]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("t", 2)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 2, 1, b"one");
    publish(&mut run, publisher, "t", 1, 2, b"two");
    let got = messages(&mut run, id);
    run.send(id, &pubrec(got[0].packet_id));
    run.send(id, &unsubscribe_bytes(1, &["t"]));
    assert_eq!(acknowledgements(&mut run, id), [(0x62, got[0].packet_id), (0xb0, 1)]);
    run.break_off(id);
    let (id, _) = accepted(&mut run, "c", false);
    let packets = received(&mut run, id);
    assert!(
        matches!(&packets[0], Packet::PubRel(release) if release.pkid == got[0].packet_id),
        "{packets:?}"
    );
    assert!(
        matches!(&packets[1], Packet::Publish(publish) if publish.pkid == got[1].packet_id && publish.dup)
    );
}

#[test]
fn wildcards_do_not_match_a_leading_dollar() {
    // Broken: "#" brings the internals of the broker to every application. [MQTT-4.7.2-1]
    let topics = ["$SYS/a", "$x", "$", "a/$b", "SYS/a"];
    let expected: [(&str, &[&str]); 6] = [
        ("#", &["a/$b", "SYS/a"]),
        ("+/a", &["SYS/a"]),
        ("+", &[]),
        ("$SYS/#", &["$SYS/a"]),
        ("$SYS/+", &["$SYS/a"]),
        ("a/+", &["a/$b"]),
    ];
    for (filter, expected) in expected {
        let mut run = Run::new();
        let (id, _) = accepted(&mut run, "c", true);
        subscribe(&mut run, id, &[(filter, 0)]);
        assert_eq!(reached(&mut run, id, &topics), expected, "{filter}, live");
        // Retained messages go by the same rule.
        let (publisher, _) = accepted(&mut run, "retaining", true);
        topics.iter().for_each(|topic| retain(&mut run, publisher, topic, 0, 0, b"x"));
        let (id, _) = accepted(&mut run, "c", true);
        subscribe(&mut run, id, &[(filter, 0)]);
        let mut retained: Vec<String> = messages(&mut run, id).into_iter().map(|got| got.topic).collect();
        let mut expected: Vec<&str> = expected.to_vec();
        retained.sort();
        expected.sort();
        assert_eq!(retained, expected, "{filter}, retained");
    }
}

#[test]
fn topics_are_compared_byte_by_byte() {
    // Broken: two spellings of one letter, or a byte order mark, are taken for the same topic. [MQTT-4.7.3-4],
    // [MQTT-1.5.3-3]
    let spellings = ["é", "e\u{301}", "É", "\u{feff}é", "é ", "e"];
    let mut run = Run::new();
    for filter in spellings {
        let (id, _) = accepted(&mut run, "c", true);
        subscribe(&mut run, id, &[(filter, 0)]);
        assert_eq!(reached(&mut run, id, &spellings), [filter]);
    }
}

#[test]
fn topics_of_65535_bytes_pass_where_the_limit_allows() {
    // Broken: a length is cut to fewer bits somewhere on the way, or on the disk. [MQTT-4.7.3-3]
    let mut settings = settings();
    settings.segment_bytes = 1024 * 1024;
    settings.limits.packet_bytes = 200_000;
    settings.limits.topic_bytes = 65_535;
    let mut run = Run::with(settings);
    let topic = "é".repeat(32_767) + "x";
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[(&topic, 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, &topic, 1, 1, b"one");
    publish(&mut run, publisher, &topic[2..], 1, 2, b"not this");
    assert_eq!(acknowledgements(&mut run, publisher).len(), 2);
    let mut run = run.power_cut(crate::support::disk::Survival::Nothing);
    let (id, _) = accepted(&mut run, "c", false);
    let got = take_all(&mut run, id);
    assert_eq!(got.len(), 1);
    assert_eq!((got[0].topic.len(), got[0].topic == topic), (65_535, true));
}

#[test]
fn subscriptions_of_a_clean_session_go_with_it() {
    // Broken: dead subscriptions pile up, or a later client of that name gets them. [MQTT-3.1.2-6]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", true);
    subscribe(&mut run, id, &[("t", 1)]);
    run.break_off(id);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 1, 1, b"x");
    assert_eq!(run.broker.statistics().messages, 0);
    let (id, _) = accepted(&mut run, "c", true);
    publish(&mut run, publisher, "t", 1, 2, b"x");
    assert!(messages(&mut run, id).is_empty());
}

#[test]
fn durable_subscriptions_survive_a_crash_and_their_removal_too() {
    // Broken: SUBACK or UNSUBACK promised what a power cut takes back. [MQTT-4.1.0-1]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("a", 1), ("b/#", 2), ("c", 1)]);
    run.send(id, &unsubscribe_bytes(2, &["c"]));
    assert_eq!(acknowledgements(&mut run, id), [(0xb0, 2)]);
    let mut run = run.power_cut(crate::support::disk::Survival::Nothing);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for (number, topic) in ["a", "b/1", "c"].into_iter().enumerate() {
        publish(&mut run, publisher, topic, 2, 1 + number as u16, b"x");
    }
    let (id, _) = accepted(&mut run, "c", false);
    let got: Vec<_> = take_all(&mut run, id).into_iter().map(|got| (got.topic, got.qos)).collect();
    assert_eq!(got, [("a".into(), 1), ("b/1".into(), 2)]);
}
