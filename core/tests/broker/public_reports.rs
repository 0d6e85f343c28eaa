//! Faults that users reported against other brokers, as far as they concern MQTT 3.1.1, limits and storage. Each test is
//! named after its report and tests the kind, not only the input. Sessions, flow and storage: `public_reports_storage`.

use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, settings};
use proptest::prelude::*;
use std::collections::BTreeSet;
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input};
use vowmq_core::output::CloseKind;

fn clean(run: &mut Run, client: &str) -> u64 {
    accepted(run, client, true).0
}

/// Sends the bytes as a fresh client, which must be closed without a byte; the clause.
fn clause_of(run: &mut Run, bytes: &[u8]) -> &'static str {
    let id = clean(run, "offender");
    run.send(id, bytes);
    assert!(run.taken(id).is_empty(), "{bytes:02x?} was answered");
    run.clause_of_close(id)
}

#[test]
fn b01_wildcards_in_the_middle_are_refused() {
    // Broken: "home/#/temp" is granted and matches something. [MQTT-4.7.1-2], [MQTT-4.8.0-1]
    let mut run = Run::new();
    for filter in ["home/#/temp", "a#", "#a", "a/#b", "#/", "/#/a", "##"] {
        assert_eq!(clause_of(&mut run, &subscribe_bytes(1, &[(filter, 1)])), "[MQTT-4.7.1-2]", "{filter}");
    }
    let publisher = clean(&mut run, "pub");
    publish(&mut run, publisher, "home/x/temp", 1, 1, b"x");
    assert_eq!(run.broker.statistics().delivered, 0);
}

#[test]
fn b03_wildcards_are_checked_in_every_packet() {
    // Broken: SUBSCRIBE is strict and UNSUBSCRIBE or PUBLISH is not. [MQTT-4.7.1-1], [MQTT-3.3.2-2]
    let mut run = Run::new();
    for (filter, clause) in
        [("#abc", "[MQTT-4.7.1-2]"), ("x+", "[MQTT-4.7.1-3]"), ("a/+b/c", "[MQTT-4.7.1-3]")]
    {
        assert_eq!(clause_of(&mut run, &subscribe_bytes(1, &[(filter, 0)])), clause);
        assert_eq!(clause_of(&mut run, &unsubscribe_bytes(1, &[filter])), clause);
    }
    for topic in ["a/+", "#", "a/#", "a+b"] {
        for qos in 0..=2 {
            let bytes = publish_bytes(topic, qos, 1, b"x", false, true);
            assert_eq!(clause_of(&mut run, &bytes), "[MQTT-3.3.2-2]", "{topic}");
        }
    }
}

#[test]
fn b04_connect_flags_must_fit_together() {
    // Broken: flags that contradict one another are accepted. [MQTT-3.1.2-3], [MQTT-3.1.2-11], [MQTT-3.1.2-13],
    // [MQTT-3.1.2-14], [MQTT-3.1.2-15], [MQTT-3.1.2-22]
    for flags in 0..=255u8 {
        let (will, will_qos, will_retain) = (flags & 4 != 0, flags >> 3 & 3, flags & 0x20 != 0);
        let (name, password) = (flags & 0x80 != 0, flags & 0x40 != 0);
        let valid = flags & 1 == 0
            && will_qos < 3
            && (will || (will_qos == 0 && !will_retain))
            && (name || !password);
        let fields = 1 + 2 * usize::from(will) + usize::from(name) + usize::from(password);
        let body = [b"\0\x04MQTT\x04", &[flags, 0, 0][..], &b"\0\x01a".repeat(fields)].concat();
        let mut run = Run::new();
        let id = run.open();
        run.send(id, &packet(0x10, &body));
        let expected: &[u8] = if valid { &[0x20, 2, 0, 0] } else { &[] };
        assert_eq!(run.taken(id), expected, "flags {flags:02x}");
        assert_eq!(run.closed(id).is_none(), valid, "flags {flags:02x}");
    }
}

#[test]
fn b06_nothing_is_answered_before_connect() {
    // Broken: a stranger gets answers. [MQTT-3.1.0-1]
    for first in (0x00..=0xff).filter(|first| first >> 4 != 1) {
        let mut run = Run::new();
        let id = run.open();
        run.send(id, &[first]); // the first byte is enough
        assert!(run.taken(id).is_empty());
        assert_eq!(run.clause_of_close(id), "[MQTT-3.1.0-1]", "{first:02x}");
    }
}

#[test]
fn b09_packet_identifier_0_is_refused() {
    // Broken: an answer to nobody. [MQTT-2.3.1-1]
    let mut run = Run::new();
    let acks = [puback(0), pubrec(0), pubrel(0), pubcomp(0)];
    let requests = [
        subscribe_bytes(0, &[("a", 0)]),
        unsubscribe_bytes(0, &["a"]),
        publish_bytes("a", 1, 0, b"", false, false),
        publish_bytes("a", 2, 0, b"", false, false),
    ];
    for bytes in acks.iter().chain(&requests) {
        assert_eq!(clause_of(&mut run, bytes), "[MQTT-2.3.1-1]", "{bytes:02x?}");
    }
}

#[test]
fn b11_ill_formed_text_is_refused_everywhere_and_payloads_are_not_text() {
    // Broken: bytes that are no text get into topics, identifiers or names. [MQTT-1.5.3-1], [MQTT-1.5.3-2],
    // [MQTT-3.1.3-4], [MQTT-3.1.3-10], [MQTT-3.1.3-11], [MQTT-3.3.2-1], [MQTT-3.8.3-1], [MQTT-3.10.3-1], [MQTT-4.7.3-2]
    let texts: [(&[u8], &str); 5] = [
        (b"a\0b", "[MQTT-1.5.3-2]"),
        (b"\xed\xa0\x80", "[MQTT-1.5.3-1]"),
        (b"\xc0\xaf", "[MQTT-1.5.3-1]"),
        (b"\xff", "[MQTT-1.5.3-1]"),
        (b"\xf0\x82\x82\xac", "[MQTT-1.5.3-1]"),
    ];
    for (text, clause) in texts {
        let field = [&(text.len() as u16).to_be_bytes()[..], text].concat();
        let mut run = Run::new();
        let after = [
            packet(0x30, &field),
            packet(0x82, &[&[0, 1], &field[..], &[0]].concat()),
            packet(0xa2, &[&[0, 1], &field[..]].concat()),
        ];
        for bytes in after {
            assert_eq!(clause_of(&mut run, &bytes), clause);
        }
        for (flags, fields) in
            [(2, vec![&field[..]]), (6, vec![b"\0\x01c", &field, b"\0\0"]), (0x82, vec![b"\0\x01c", &field])]
        {
            let id = run.open();
            run.send(id, &packet(0x10, &[b"\0\x04MQTT\x04", &[flags, 0, 0][..], &fields.concat()].concat()));
            assert!(run.taken(id).is_empty());
            assert_eq!(run.clause_of_close(id), clause, "flags {flags:02x}");
        }
        let id = clean(&mut run, "c");
        subscribe(&mut run, id, &[("t", 0)]);
        publish(&mut run, id, "t", 0, 0, text);
        assert_eq!(payloads(&mut run, id), [text]);
    }
}

#[test]
fn b15_topics_that_begin_with_a_dollar_are_topics() {
    // Broken: "$foo/x" stops the broker, or reaches "#". [MQTT-4.7.2-1]
    let mut run = Run::new();
    let (all, own) = (clean(&mut run, "all"), clean(&mut run, "own"));
    subscribe(&mut run, all, &[("#", 0), ("+/x", 0), ("+/#", 0)]);
    subscribe(&mut run, own, &[("$foo/#", 0)]);
    for topic in ["$foo/x", "$foo", "$", "$/x", "$SYS/x"] {
        publish(&mut run, all, topic, 1, 1, b"x");
        assert_eq!(run.taken(all), puback(1), "{topic}");
    }
    let topics: Vec<String> = messages(&mut run, own).into_iter().map(|got| got.topic).collect();
    assert_eq!(topics, ["$foo/x", "$foo"]);
}

#[test]
fn b17_a_second_or_refused_connect_leaves_nothing_open() {
    // Broken: a connection lives on half connected. [MQTT-3.1.0-2], [MQTT-3.1.4-5], [MQTT-3.2.2-5]
    let mut run = Run::new();
    let listener = clean(&mut run, "listener");
    subscribe(&mut run, listener, &[("#", 0)]);
    let twice = accepted_with_will(&mut run, "twice", true, will("will", "lost", 0, false));
    run.send(
        twice,
        &[encode_connect(&connect_packet("twice", true)), publish_bytes("no", 0, 0, b"", false, false)]
            .concat(),
    );
    assert_eq!(run.clause_of_close(twice), "[MQTT-3.1.0-2]");
    assert_eq!(take_texts(&mut run, listener), ["lost"], "not a normal end, and nothing behind it");
    let refused = run.open();
    run.send(
        refused,
        &[encode_connect(&connect_packet("", false)), publish_bytes("no", 0, 0, b"", false, false)].concat(),
    );
    assert_eq!(run.taken(refused), [0x20, 2, 0, 2]);
    assert!(run.closed(refused).is_some());
    run.send(refused, &encode_connect(&connect_packet("again", true)));
    assert!(run.taken(refused).is_empty() && take_all(&mut run, listener).is_empty());
}

#[test]
fn b18_topic_matching_table() {
    // Broken: a rule of §4.7 is read differently, live or for retained messages. [MQTT-4.7.1-2], [MQTT-4.7.1-3],
    // [MQTT-4.7.3-4]
    let table: [(&str, &[&str], &[&str]); 12] = [
        ("sport/#", &["sport", "sport/", "sport/x", "sport/x/y"], &["sports", "Sport", "/sport", "asport/x"]),
        ("#", &["a", "/", "a/b", "/a"], &["$a", "$a/b"]),
        ("+/+", &["/finance", "a/b", "/", "a/"], &["a", "a/b/c", "$a/b"]),
        ("/+", &["/finance", "/"], &["finance", "a/finance", "/a/b"]),
        ("+", &["finance", " "], &["/finance", "a/", "$a"]),
        ("sport/+", &["sport/", "sport/x"], &["sport", "sport/x/y", "sport//"]),
        ("sport/tennis/+", &["sport/tennis/p", "sport/tennis/"], &["sport/tennis", "sport/tennis/p/r"]),
        ("+/tennis/#", &["a/tennis", "/tennis/x", "a/tennis/b/c"], &["tennis", "a/b/tennis"]),
        ("a//b", &["a//b"], &["a/b", "a/x/b", "a///b"]),
        ("a/+/b", &["a//b", "a/x/b"], &["a/b", "a/x/y/b"]),
        ("ACCOUNTS", &["ACCOUNTS"], &["Accounts", "ACCOUNTS/", "ACCOUNTS "]),
        ("$SYS/monitor/+", &["$SYS/monitor/x"], &["SYS/monitor/x", "$SYS/monitor"]),
    ];
    for (filter, matching, others) in table {
        let mut run = Run::new();
        let (live, publisher) = (clean(&mut run, "live"), clean(&mut run, "pub"));
        subscribe(&mut run, live, &[(filter, 0)]);
        matching.iter().chain(others).for_each(|topic| retain(&mut run, publisher, topic, 0, 0, b"x"));
        let late = clean(&mut run, "late");
        subscribe(&mut run, late, &[(filter, 0)]);
        for id in [live, late] {
            let got: BTreeSet<String> = messages(&mut run, id).into_iter().map(|got| got.topic).collect();
            assert_eq!(got, matching.iter().map(|topic| (*topic).to_owned()).collect(), "{filter}");
        }
    }
}

/// The rules of §4.7 read word by word, independent of the broker's code.
fn matches(filter: &str, topic: &str) -> bool {
    fn levels(filter: &[&str], topic: &[&str]) -> bool {
        match (filter, topic) {
            (["#"], _) => true,
            ([], []) => true,
            (["+", filter @ ..], [_, topic @ ..]) => levels(filter, topic),
            ([first, filter @ ..], [found, topic @ ..]) => first == found && levels(filter, topic),
            _ => false,
        }
    }
    let (first, dollar) = (filter.as_bytes()[0], topic.starts_with('$'));
    let (filter, topic): (Vec<&str>, Vec<&str>) = (filter.split('/').collect(), topic.split('/').collect());
    !(dollar && (first == b'+' || first == b'#')) && levels(&filter, &topic)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    // Broken: a wildcard subscriber gets retained messages that do not match, or misses some. [MQTT-3.3.1-6],
    // [MQTT-3.3.2-3]
    #[test]
    fn b21_retained_messages_by_brute_force(
        topics in prop::collection::btree_set("[$]?[ab!]{0,2}(/[ab]{0,1}){0,4}", 200..400),
        filters in prop::collection::vec("([ab]{0,2}/|[+]/|[$]a/){0,4}([ab]{1,2}|[+]|#)", 100),
    ) {
        let mut settings = settings();
        settings.limits.turn_work = 64;
        let mut run = Run::with(settings);
        let publisher = clean(&mut run, "pub");
        let topics: Vec<String> = topics.into_iter().filter(|topic| !topic.is_empty()).collect();
        topics.iter().for_each(|topic| retain(&mut run, publisher, topic, 0, 0, b"x"));
        let reader = clean(&mut run, "reader");
        for filter in &filters {
            run.send(reader, &subscribe_bytes(1, &[(filter, 0)]));
            let mut got: Vec<String> = messages(&mut run, reader).into_iter().map(|got| got.topic).collect();
            got.sort();
            let expected: Vec<&String> = topics.iter().filter(|topic| matches(filter, topic)).collect();
            prop_assert_eq!(got.iter().collect::<Vec<_>>(), expected, "filter {}", filter);
            run.send(reader, &unsubscribe_bytes(1, &[filter]));
        }
    }
}

#[test]
fn b23_wildcard_filters_get_retained_messages() {
    // Broken: only exact filters find them. [MQTT-3.3.1-6], [MQTT-3.3.1-8]
    let mut run = Run::new();
    let id = clean(&mut run, "c");
    ["a/1", "a/2"].iter().for_each(|topic| retain(&mut run, id, topic, 0, 0, b"x"));
    for filter in ["a/+", "a/#", "#", "+/+"] {
        run.send(id, &subscribe_bytes(1, &[(filter, 0)]));
        let got = messages(&mut run, id);
        assert!(got.len() == 2 && got.iter().all(|got| got.retain), "{filter}: {got:?}");
    }
}

#[test]
fn b25_the_retain_flag_tells_live_from_stored() {
    // Broken: a live value is marked as stored, or a stored one as live; also where it was queued, or is sent again.
    // [MQTT-3.3.1-8], [MQTT-3.3.1-9]
    let mut run = Run::new();
    let publisher = clean(&mut run, "pub");
    let (id, _) = accepted(&mut run, "sub", false);
    retain(&mut run, publisher, "t", 1, 1, b"stored");
    run.send(id, &subscribe_bytes(1, &[("t", 1)]));
    retain(&mut run, publisher, "t", 1, 2, b"live");
    let flags = |run: &mut Run, id| messages(run, id).iter().map(|got| got.retain).collect::<Vec<_>>();
    assert_eq!(flags(&mut run, id), [true, false]);
    run.break_off(id);
    retain(&mut run, publisher, "t", 1, 3, b"queued");
    let (id, _) = accepted(&mut run, "sub", false);
    assert_eq!(flags(&mut run, id), [true, false, false]);
    let mut run = run.power_cut(Survival::Nothing);
    let (id, _) = accepted(&mut run, "sub", false);
    assert_eq!(flags(&mut run, id), [true, false, false]);
}

#[test]
fn b27_b35_a_takeover_publishes_the_will_and_just_closes() {
    // Broken: W1 is never published, or the old link gets a packet that 3.1.1 does not have. [MQTT-3.1.4-2],
    // [MQTT-3.1.2-8]
    for (old_clean, new_clean) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut run = Run::new();
        let listener = clean(&mut run, "listener");
        subscribe(&mut run, listener, &[("w", 1)]);
        let old = accepted_with_will(&mut run, "c", old_clean, will("w", "W1", 1, false));
        let (new, _) = accepted(&mut run, "c", new_clean);
        assert_eq!(take_texts(&mut run, listener), ["W1"]);
        assert!(run.taken(old).is_empty());
        assert_eq!(run.closed(old).map(|reason| reason.kind), Some(CloseKind::TakenOver));
        run.break_off(old);
        run.send(new, &DISCONNECT);
        assert!(take_all(&mut run, listener).is_empty(), "once");
    }
}

#[test]
fn b32_publish_disconnect_and_fin_in_one_segment() {
    // Broken: the end of the stream is acted on before what came with it. [MQTT-3.14.4-3]
    for qos in 0..=2 {
        let mut run = Run::new();
        let listener = clean(&mut run, "listener");
        subscribe(&mut run, listener, &[("#", 2)]);
        let id = accepted_with_will(&mut run, "short", true, will("will", "no", 0, false));
        let bytes = [&publish_bytes("t", qos, 1, b"yes", false, false)[..], &DISCONNECT].concat();
        let (now, connection) = (run.now, ConnectionId(id));
        run.broker.handle(now, Input::Received { connection, bytes: bytes.into() });
        run.broker.handle(now, Input::Closed { connection, cause: CloseCause::EndOfStream });
        run.turn();
        assert_eq!(take_texts(&mut run, listener), ["yes"]);
    }
}

#[test]
fn s02_s04_what_is_not_mqtt_is_refused() {
    // Broken: lossy topics, another protocol, reserved bits, QoS 3 are served. (Each alone: corpus/wire.)
    // [MQTT-3.1.2-1], [MQTT-2.2.2-2], [MQTT-3.3.1-4]
    let mut run = Run::new();
    for (bytes, clause) in [
        (publish_bytes("a", 3, 1, b"x", false, false), "[MQTT-3.3.1-4]"),
        (packet(0x30, b"\0\x02a\xffx"), "[MQTT-1.5.3-1]"),
        (packet(0x83, b"\0\x01\0\x01a\0"), "[MQTT-2.2.2-2]"),
        (encode_connect(&connect_packet("again", true)), "[MQTT-3.1.0-2]"),
    ] {
        assert_eq!(clause_of(&mut run, &bytes), clause);
    }
    let id = run.open();
    run.send(id, &packet(0x10, b"\0\x04mqtt\x04\x02\0\0\0\x01c"));
    assert_eq!(run.clause_of_close(id), "[MQTT-3.1.2-1]");
    assert_eq!(run.broker.statistics().delivered, 0);
}

#[test]
fn s03_a_plus_matches_an_empty_level_and_a_hash_no_dollar() {
    // Broken: filters compiled to patterns that mean something else. [MQTT-4.7.1-3], [MQTT-4.7.2-1]
    let mut run = Run::new();
    let id = clean(&mut run, "c");
    subscribe(&mut run, id, &[("a/+/b", 0), ("#", 0), ("x.y", 0)]);
    ["a//b", "$SYS/x", "xzy"].iter().for_each(|topic| publish(&mut run, id, topic, 0, 0, b"x"));
    let topics: Vec<String> = messages(&mut run, id).into_iter().map(|got| got.topic).collect();
    assert_eq!(topics, ["a//b", "xzy"]);
    run.send(id, &unsubscribe_bytes(1, &["#"]));
    publish(&mut run, id, "xzy", 0, 0, b"x");
    assert!(messages(&mut run, id).is_empty(), "a dot is a dot");
    assert_eq!(clause_of(&mut run, &subscribe_bytes(1, &[("a+b", 0)])), "[MQTT-4.7.1-3]");
}
