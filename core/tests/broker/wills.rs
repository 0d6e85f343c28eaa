//! Wills: published exactly once on every end but DISCONNECT (§3.1.2.5).

use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, settings};
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input};

/// A broker with a listener for the topic "will".
fn with_listener() -> (Run, u64) {
    let mut run = Run::new();
    let (listener, _) = accepted(&mut run, "listener", true);
    subscribe(&mut run, listener, &[("will", 2)]);
    (run, listener)
}

fn dying(run: &mut Run, keep_alive: u16) -> u64 {
    let mut packet = connect_packet("dying", true);
    packet.keep_alive = keep_alive;
    packet.last_will = Some(will("will", "gone", 1, false));
    let id = connect_as(run, &packet);
    let _ = run.taken(id);
    id
}

#[test]
fn every_end_but_disconnect_publishes_the_will_once() {
    // Broken: nobody learns that a device is gone, or they learn it twice. [MQTT-3.1.2-8], [MQTT-3.1.2-10]
    type End = (&'static str, fn(&mut Run, u64));
    let ends: [End; 8] = [
        ("keep-alive", |run, _| run.pass_ms(15_000)),
        ("takeover", |run, _| assert!(!accepted(run, "dying", true).1)),
        ("takeover by a durable session", |run, _| assert!(!accepted(run, "dying", false).1)),
        ("socket error", |run, id| run.break_off(id)),
        ("end of stream", |run, id| {
            run.input(Input::Closed { connection: ConnectionId(id), cause: CloseCause::EndOfStream });
        }),
        ("protocol error", |run, id| run.send(id, &[0xc1, 0])),
        ("second CONNECT", |run, id| run.send(id, &encode_connect(&connect_packet("dying", true)))),
        ("over a limit", |run, id| run.send(id, &publish_bytes("t", 0, 0, &[0; 30_000], false, false))),
    ];
    for (name, end) in ends {
        let (mut run, listener) = with_listener();
        let id = dying(&mut run, 10);
        end(&mut run, id);
        assert!(run.closed(id).is_some(), "{name}");
        let got = take_all(&mut run, listener);
        assert_eq!(
            got.iter().map(|got| (&*got.payload, got.qos, got.retain)).collect::<Vec<_>>(),
            [(&b"gone"[..], 1, false)],
            "{name}"
        );
        // [MQTT-3.1.2-10]: nothing is left that could be published once more.
        run.break_off(id);
        let (next, _) = accepted(&mut run, "dying", true);
        run.break_off(next);
        let mut run = run.power_cut(Survival::Everything);
        let (listener, _) = accepted(&mut run, "listener", true);
        subscribe(&mut run, listener, &[("will", 2)]);
        run.pass_ms(60_000);
        assert!(take_all(&mut run, listener).is_empty(), "{name}");
    }
}

#[test]
fn disconnect_voids_the_will() {
    // Broken: a device that said goodbye is reported as lost. [MQTT-3.14.4-3], [MQTT-3.1.2-10]
    let (mut run, listener) = with_listener();
    let id = dying(&mut run, 10);
    run.send(id, &DISCONNECT);
    run.break_off(id);
    run.pass_ms(60_000);
    assert!(take_all(&mut run, listener).is_empty());
    let mut run = run.power_cut(Survival::Nothing);
    let (reader, _) = accepted(&mut run, "reader", true);
    subscribe(&mut run, reader, &[("#", 2)]);
    assert!(take_all(&mut run, reader).is_empty());
}

#[test]
fn without_a_will_nothing_is_published() {
    // Broken: a will of an earlier connection is published for a later one that left none. [MQTT-3.1.2-12]
    let (mut run, listener) = with_listener();
    let id = dying(&mut run, 0);
    run.send(id, &DISCONNECT);
    let (plain, _) = accepted(&mut run, "dying", true);
    run.break_off(plain);
    assert!(take_all(&mut run, listener).is_empty());
}

#[test]
fn a_new_connection_replaces_the_will() {
    // Broken: after a takeover the old will lives on, or the new one is lost with the old connection.
    let (mut run, listener) = with_listener();
    let first = accepted_with_will(&mut run, "dying", false, will("will", "first", 1, false));
    let second = accepted_with_will(&mut run, "dying", false, will("will", "second", 1, false));
    assert_eq!(take_texts(&mut run, listener), ["first"]);
    run.break_off(first);
    assert!(take_texts(&mut run, listener).is_empty(), "the late close");
    run.break_off(second);
    assert_eq!(take_texts(&mut run, listener), ["second"]);
}

#[test]
fn the_will_is_retained_if_it_says_so() {
    // Broken: who comes later does not learn that a device is gone, or reads an old will for ever.
    // [MQTT-3.1.2-16], [MQTT-3.1.2-17]
    let (mut run, listener) = with_listener();
    let plain = accepted_with_will(&mut run, "a", true, will("will/plain", "x", 0, false));
    let kept = accepted_with_will(&mut run, "b", true, will("will/kept", "y", 2, true));
    run.break_off(plain);
    run.break_off(kept);
    subscribe(&mut run, listener, &[("will/#", 2)]);
    let got = take_all(&mut run, listener);
    assert_eq!(got.len(), 1);
    assert_eq!((&*got[0].topic, got[0].qos, got[0].retain), ("will/kept", 2, true));
    // An empty retained will clears the topic.
    let cleaner = accepted_with_will(&mut run, "c", true, will("will/kept", "", 1, true));
    run.break_off(cleaner);
    let (late, _) = accepted(&mut run, "late", true);
    subscribe(&mut run, late, &[("will/#", 2)]);
    assert!(take_all(&mut run, late).is_empty());
}

#[test]
fn the_will_goes_out_with_its_qos_also_to_who_is_away() {
    // Broken: the will reaches only who happens to be connected.
    let (mut run, _) = with_listener();
    let (away, _) = accepted(&mut run, "away", false);
    subscribe(&mut run, away, &[("will", 2)]);
    run.send(away, &DISCONNECT);
    for qos in 0..=2 {
        let id = accepted_with_will(&mut run, "dying", true, will("will", &format!("{qos}"), qos, false));
        run.break_off(id);
    }
    let mut run = run.power_cut(Survival::Nothing);
    let (away, _) = accepted(&mut run, "away", false);
    let got: Vec<_> = take_all(&mut run, away).into_iter().map(|got| (got.payload, got.qos)).collect();
    assert_eq!(got, [(b"1".to_vec(), 1), (b"2".to_vec(), 2)]);
}

#[test]
fn a_crash_of_the_broker_publishes_wills_exactly_once() {
    // Broken: the broker dies with the device, and nobody learns it; or every restart tells it again.
    let (mut run, _) = with_listener();
    let (away, _) = accepted(&mut run, "away", false);
    subscribe(&mut run, away, &[("will", 2)]);
    run.send(away, &DISCONNECT);
    accepted_with_will(&mut run, "clean", true, will("will", "clean, QoS 1", 1, false));
    accepted_with_will(&mut run, "durable", false, will("will", "durable, QoS 2", 2, true));
    // Twice: the second crash comes before anybody has taken them.
    let mut run = run.power_cut(Survival::Nothing).power_cut(Survival::Nothing);
    let (away, _) = accepted(&mut run, "away", false);
    let mut texts = take_texts(&mut run, away);
    texts.sort();
    assert_eq!(texts, ["clean, QoS 1", "durable, QoS 2"]);
    let (reader, _) = accepted(&mut run, "reader", true);
    subscribe(&mut run, reader, &[("will", 2)]);
    assert_eq!(take_texts(&mut run, reader), ["durable, QoS 2"], "retained");
    run.pass_ms(10_000);
    let mut run = run.power_cut(Survival::Nothing);
    let (away, _) = accepted(&mut run, "away", false);
    assert!(take_texts(&mut run, away).is_empty(), "once more after a later crash");
}

#[test]
fn a_will_to_its_own_session_arrives() {
    // Broken: a durable client that subscribed to its own will never sees it.
    let mut run = Run::new();
    let id = accepted_with_will(&mut run, "self", false, will("will", "own", 1, false));
    subscribe(&mut run, id, &[("will", 1)]);
    run.break_off(id);
    let (id, _) = accepted(&mut run, "self", false);
    assert_eq!(take_texts(&mut run, id), ["own"]);
}

#[test]
fn the_will_topic_is_within_the_limits() {
    // Broken: a will is the way around limits.topic_bytes and limits.topic_levels.
    let mut settings = settings();
    (settings.limits.topic_bytes, settings.limits.topic_levels) = (20, 3);
    let mut run = Run::with(settings);
    for (topic, within) in
        [("a/b/c", true), ("a/b/c/d", false), (&*"x".repeat(20), true), (&*"x".repeat(21), false)]
    {
        let mut packet = connect_packet("c", true);
        packet.last_will = Some(will(topic, "x", 0, true));
        let id = connect_as(&mut run, &packet);
        assert_eq!(run.closed(id).is_none(), within, "{topic}");
        assert_eq!(run.taken(id).is_empty(), !within, "{topic}");
        if within {
            run.send(id, &DISCONNECT);
        }
    }
}
