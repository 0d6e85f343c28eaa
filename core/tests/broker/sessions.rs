//! Sessions that outlive their connections: queues, redelivery, the window, packet identifiers, expiry (§4.1, §4.4).

use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::Packet;
use vowmq_core::event::Event;
use vowmq_core::limits::Settings;
use vowmq_core::time::WallTime;

fn window(inflight: usize) -> Settings {
    let mut settings = settings();
    settings.limits.inflight = inflight;
    settings
}

/// A durable subscriber that is away, with `count` messages of this QoS, "1" to "count", waiting.
fn backlog(settings: Settings, qos: u8, count: u16) -> (Run, u64) {
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", qos)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 1..=count {
        publish(&mut run, publisher, "t", 1 + u8::from(qos == 2), number, number.to_string().as_bytes());
        run.send(publisher, &pubrel(number));
    }
    let _ = run.taken(publisher);
    (run, publisher)
}

fn ids(got: &[Got]) -> Vec<u16> {
    got.iter().map(|got| got.packet_id).collect()
}

fn numbers(got: &[Got]) -> Vec<u16> {
    got.iter().map(|got| String::from_utf8_lossy(&got.payload).parse().expect("a number")).collect()
}

#[test]
fn qos_1_and_2_wait_for_who_is_away_and_qos_0_does_not() {
    // Broken: a device that sleeps loses what it was promised. [MQTT-3.1.2-5], [MQTT-4.1.0-1]
    let (mut run, publisher) = backlog(settings(), 2, 3);
    publish(&mut run, publisher, "t", 0, 0, b"0");
    publish(&mut run, publisher, "t", 1, 9, b"4");
    let (subscriber, present) = accepted(&mut run, "sub", false);
    assert!(present);
    let got = take_all(&mut run, subscriber);
    assert_eq!(numbers(&got), [1, 2, 3, 4]);
    assert!(got.iter().all(|got| !got.dup), "none of them was sent before");
}

#[test]
fn what_is_unacknowledged_comes_again_with_dup_ids_and_order() {
    // Broken: a message is lost with its connection, or comes as a new one. [MQTT-4.4.0-1], [MQTT-3.3.1-1],
    // [MQTT-4.6.0-1], [MQTT-2.3.1-4]
    for crash in [false, true] {
        let (mut run, _) = backlog(settings(), 1, 6);
        let (subscriber, _) = accepted(&mut run, "sub", false);
        let first = messages(&mut run, subscriber);
        assert_eq!(numbers(&first), [1, 2, 3, 4, 5, 6]);
        for number in [1, 3] {
            run.send(subscriber, &puback(first[number].packet_id));
        }
        run.pass_ms(50);
        if crash {
            run = run.power_cut(Survival::Nothing);
        } else {
            run.break_off(subscriber);
        }
        let (subscriber, present) = accepted(&mut run, "sub", false);
        assert!(present);
        let again = messages(&mut run, subscriber);
        assert_eq!(numbers(&again), [1, 3, 5, 6]);
        assert_eq!(ids(&again), [0, 2, 4, 5].map(|at: usize| first[at].packet_id));
        assert!(again.iter().all(|got| got.dup));
    }
}

#[test]
fn pubrel_comes_again_and_publish_does_not() {
    // Broken: exactly once is twice, or the exchange is never ended. [MQTT-4.3.3-1], [MQTT-4.4.0-1]
    for crash in [false, true] {
        let (mut run, _) = backlog(settings(), 2, 3);
        let (subscriber, _) = accepted(&mut run, "sub", false);
        let first = ids(&messages(&mut run, subscriber));
        run.send(subscriber, &pubrec(first[0]));
        run.send(subscriber, &pubrec(first[1]));
        assert_eq!(acknowledgements(&mut run, subscriber), [(0x62, first[0]), (0x62, first[1])]);
        run.send(subscriber, &pubcomp(first[0]));
        run.pass_ms(50);
        if crash {
            run = run.power_cut(Survival::Nothing);
        } else {
            run.break_off(subscriber);
        }
        let (subscriber, _) = accepted(&mut run, "sub", false);
        let packets = received(&mut run, subscriber);
        assert!(
            matches!(&packets[..], [Packet::PubRel(release), Packet::Publish(publish)]
            if release.pkid == first[1] && publish.pkid == first[2] && publish.dup),
            "{packets:?}"
        );
        run.send(subscriber, &pubcomp(first[1]));
        run.send(subscriber, &pubrec(first[2]));
        run.send(subscriber, &pubcomp(first[2]));
        assert_eq!(run.broker.statistics().messages, 0);
    }
}

#[test]
fn a_pubrec_before_its_publish_came_again_is_believed() {
    // Broken: the subscriber is told PUBREL, forgets the id, and PUBLISH comes again under it: twice. [MQTT-4.3.3-1]
    for crash in [false, true] {
        let (mut run, publisher) = backlog(window(2), 2, 4);
        let (subscriber, _) = accepted(&mut run, "sub", false);
        let first = messages(&mut run, subscriber);
        assert_eq!(numbers(&first), [1, 2]);
        if crash {
            run = run.power_cut(Survival::Nothing);
        } else {
            run.break_off(subscriber);
        }
        let id = run.open();
        let mut bytes = encode_connect(&connect_packet("sub", false));
        first.iter().for_each(|got| bytes.extend(pubrec(got.packet_id)));
        run.hold_disk = true;
        run.send(id, &bytes);
        assert!(run.taken(id).is_empty(), "CONNACK waits");
        run.release_disk();
        let packets = received(&mut run, id);
        let sent_again = packets
            .iter()
            .any(|packet| matches!(packet, Packet::Publish(p) if ids(&first).contains(&p.pkid)));
        assert!(!sent_again, "{packets:?}");
        ids(&first).into_iter().for_each(|packet_id| run.send(id, &pubcomp(packet_id)));
        assert_eq!(take_texts(&mut run, id), ["3", "4"]);
        if !crash {
            publish(&mut run, publisher, "t", 2, 77, b"5");
            assert_eq!(take_texts(&mut run, id), ["5"], "the window is free again");
        }
        assert_eq!(run.broker.statistics().messages, 0);
    }
}

#[test]
fn the_window_holds_and_refills() {
    // Broken: a subscriber is flooded, or gets nothing after its first window.
    for qos in 1..=2 {
        let (mut run, _) = backlog(window(4), qos, 11);
        let (subscriber, _) = accepted(&mut run, "sub", false);
        let mut got = messages(&mut run, subscriber);
        assert_eq!(got.len(), 4);
        // One acknowledged to the end, one more comes; whichever it was.
        for at in [2, 0, 1, 3, 4, 5, 6, 7] {
            let id = got[at].packet_id;
            if qos == 1 {
                run.send(subscriber, &puback(id));
            } else {
                run.send(subscriber, &pubrec(id));
                assert_eq!(run.taken(subscriber), pubrel(id), "PUBREC alone frees no place");
                run.send(subscriber, &pubcomp(id));
            }
            got.extend(messages(&mut run, subscriber));
            let acknowledged =
                [2, 0, 1, 3, 4, 5, 6, 7].iter().position(|&a| a == at).expect("in the list") + 1;
            assert_eq!(got.len(), (4 + acknowledged).min(11));
        }
        assert_eq!(numbers(&got), (1..=11).collect::<Vec<_>>());
    }
}

#[test]
fn packet_ids_wrap_and_are_never_used_twice_at_once() {
    // Broken: after 65,535 messages an identifier is 0, or names two messages. [MQTT-2.3.1-4], [MQTT-4.3.2-1]
    let mut run = Run::with(window(10));
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    let mut expected = 1u16;
    for round in 0..6_600u32 {
        let bytes: Vec<u8> =
            (1..=10).flat_map(|id| publish_bytes("t", 1, id, &round.to_be_bytes(), false, false)).collect();
        run.send(publisher, &bytes);
        let acks: Vec<u8> = messages(&mut run, subscriber)
            .iter()
            .flat_map(|got| {
                assert_eq!(got.packet_id, expected);
                expected = if expected == 65_535 { 1 } else { expected + 1 };
                puback(got.packet_id)
            })
            .collect();
        run.send(subscriber, &acks);
        let _ = run.taken(publisher);
    }
    assert!(expected < 1000, "once around");
}

#[test]
fn a_stuck_message_keeps_its_id_and_exhausts_the_others() {
    // Broken: one message that is never acknowledged shares its identifier with a later one; or, once it is
    // acknowledged, deliveries never go on. [MQTT-2.3.1-4]
    let mut run = Run::with(window(10));
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 1, 1, b"stuck");
    let stuck = messages(&mut run, subscriber)[0].packet_id;
    let mut delivered = 1u32;
    for _ in 0..7_300u32 {
        let bytes: Vec<u8> = (1..=9).flat_map(|id| publish_bytes("t", 1, id, b"x", false, false)).collect();
        run.send(publisher, &bytes);
        let got = messages(&mut run, subscriber);
        assert!(got.iter().all(|got| got.packet_id != stuck), "in use");
        delivered += got.len() as u32;
        let acks: Vec<u8> = got.iter().flat_map(|got| puback(got.packet_id)).collect();
        run.send(subscriber, &acks);
        let _ = run.taken(publisher);
    }
    assert_eq!(delivered, 65_535, "every identifier once, and no further");
    run.send(subscriber, &puback(stuck));
    assert_eq!(messages(&mut run, subscriber).len(), 10, "deliveries go on");
}

#[test]
fn a_session_without_its_client_expires() {
    // Broken: abandoned sessions fill the disk for ever; or one that is in use goes.
    let mut settings = settings();
    settings.limits.session_expiry_ms = 60_000;
    let (mut run, publisher) = backlog(settings, 1, 3);
    run.pass_ms(59_000);
    assert_eq!(run.broker.statistics().sessions_expired, 0);
    let (subscriber, present) = accepted(&mut run, "sub", false);
    assert!(present);
    run.pass_ms(500_000);
    assert_eq!(run.broker.statistics().sessions_expired, 0, "its client is there");
    run.break_off(subscriber);
    run.pass_ms(59_999);
    assert_eq!(run.broker.statistics().sessions_expired, 0);
    run.pass_ms(1);
    assert!(run.events.contains(&Event::SessionExpired { client: "sub".into(), messages: 3 }));
    assert_eq!(run.broker.statistics().dropped_session_end, 3, "counted");
    publish(&mut run, publisher, "t", 1, 9, b"x");
    assert_eq!(run.broker.statistics().messages, 0);
    assert!(!accepted(&mut run, "sub", false).1);
}

#[test]
fn expiry_goes_on_over_a_restart() {
    // Broken: a broker that restarts daily never lets a session go; or lets those go that were connected.
    let mut settings = settings();
    settings.limits.session_expiry_ms = 60_000;
    let (mut run, _) = backlog(settings, 1, 1);
    accepted(&mut run, "connected", false);
    run.pass_ms(40_000);
    let mut run = run.power_cut(Survival::Nothing); // a second passes
    run.pass_ms(18_999);
    assert_eq!(run.broker.statistics().sessions_expired, 0);
    run.pass_ms(1);
    assert!(run.events.contains(&Event::SessionExpired { client: "sub".into(), messages: 1 }));
    assert_eq!(run.broker.statistics().sessions_expired, 1, "whoever was connected counts from the restart");
    run.pass_ms(41_000);
    assert_eq!(run.broker.statistics().sessions_expired, 2);
    let mut run = run.power_cut(Survival::Nothing);
    assert!(!accepted(&mut run, "sub", false).1, "gone for good");
}

#[test]
fn what_expired_while_the_broker_was_down_goes_at_start() {
    // Broken: recovery waits for ever for a record that nobody asked to be written, and the broker never starts.
    let mut settings = settings();
    settings.limits.session_expiry_ms = 60_000;
    let (mut run, _) = backlog(settings, 1, 3);
    run.pass_ms(5_000);
    run.now.wall = run.now.wall.plus_ms(24 * 3600 * 1000);
    let mut run = run.power_cut(Survival::Nothing);
    let statistics = run.broker.statistics();
    assert_eq!((statistics.sessions_expired, statistics.dropped_session_end), (1, 3));
    assert!(!accepted(&mut run, "sub", false).1);
}

#[test]
fn jumps_of_the_wall_clock_harm_nobody_who_is_connected() {
    // Broken: a clock that is set ends live sessions, or keeps dead ones for ever.
    let mut settings = settings();
    settings.limits.session_expiry_ms = 60_000;
    let (mut run, publisher) = backlog(settings, 1, 1);
    let (alive, _) = accepted(&mut run, "alive", false);
    subscribe(&mut run, alive, &[("t", 1)]);
    // Back by a day: who is away has longer, nothing else happens.
    run.now.wall = WallTime(run.now.wall.0 - 24 * 3600 * 1000);
    run.pass_ms(61_000);
    assert_eq!(run.broker.statistics().sessions_expired, 0);
    // Forward by two days: the one who is away expires, the one who is connected does not.
    run.now.wall = run.now.wall.plus_ms(48 * 3600 * 1000);
    run.pass_ms(60_000);
    assert_eq!(run.broker.statistics().sessions_expired, 1);
    publish(&mut run, publisher, "t", 1, 9, b"9");
    assert_eq!(payloads(&mut run, alive), [b"9"]);
    run.break_off(alive);
    run.pass_ms(60_000);
    assert_eq!(run.broker.statistics().sessions_expired, 2);
}

#[test]
fn a_clean_session_takes_everything_of_the_old_one_away() {
    // Broken: state of a session is used again after it was ended. [MQTT-3.1.2-6]
    let (mut run, publisher) = backlog(settings(), 2, 5);
    let (id, present) = accepted(&mut run, "sub", true);
    assert!(!present);
    assert!(received(&mut run, id).is_empty());
    run.send(id, &DISCONNECT);
    publish(&mut run, publisher, "t", 1, 9, b"x");
    let (id, present) = accepted(&mut run, "sub", false);
    assert!(!present && received(&mut run, id).is_empty());
    assert_eq!(run.broker.statistics().messages, 0);
    let mut run = run.power_cut(Survival::Nothing);
    assert_eq!(run.report.messages, 0);
    let (id, present) = accepted(&mut run, "sub", false);
    assert!(present && received(&mut run, id).is_empty());
}

#[test]
fn a_takeover_hands_the_window_over() {
    // Broken: what was in flight to the old connection is lost, or its places stay taken.
    let (mut run, _) = backlog(window(3), 1, 7);
    let (old, _) = accepted(&mut run, "sub", false);
    let first = messages(&mut run, old);
    run.send(old, &puback(first[0].packet_id));
    let (new, _) = accepted(&mut run, "sub", false);
    run.send(old, &puback(first[1].packet_id)); // too late
    let got = take_all(&mut run, new);
    assert_eq!(numbers(&got), [2, 3, 4, 5, 6, 7]);
    assert_eq!(got.iter().map(|got| got.dup).collect::<Vec<_>>(), [true, true, true, false, false, false]);
}
