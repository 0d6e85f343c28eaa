//! Faults that users reported against other brokers: sessions, flow, storage. The others are in `public_reports`.

use crate::support::disk::{File, Survival};
use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::Packet;
use vowmq_core::ids::{ConnectionId, SegmentNumber};
use vowmq_core::input::Input;
use vowmq_core::output::{CloseKind, Halt};

fn clean(run: &mut Run, client: &str) -> u64 {
    accepted(run, client, true).0
}

fn away(run: &mut Run, client: &str, filters: &[(&str, u8)]) {
    let (id, _) = accepted(run, client, false);
    subscribe(run, id, filters);
    run.send(id, &DISCONNECT);
}

#[test]
fn b40_a_clean_sessions_queue_does_not_survive() {
    // Broken: queues of clients that are gone for good fill the disk. [MQTT-3.1.2-6]
    let mut run = Run::new();
    let id = clean(&mut run, "c");
    subscribe(&mut run, id, &[("t", 2)]);
    let publisher = clean(&mut run, "pub");
    publish(&mut run, publisher, "t", 2, 1, b"x");
    let mut run = run.power_cut(Survival::Everything);
    assert_eq!((run.report.sessions, run.report.messages), (0, 0));
    let publisher = clean(&mut run, "pub");
    publish(&mut run, publisher, "t", 2, 1, b"x");
    assert_eq!(run.broker.statistics().messages, 0);
    assert!(!accepted(&mut run, "c", false).1);
}

#[test]
fn b41_a_recovered_session_gets_messages_before_its_client_is_back() {
    // Broken: PUBACK, and the message is nowhere. [MQTT-3.2.2-2], [MQTT-4.5.0-1]
    let mut run = Run::new();
    away(&mut run, "a", &[("t/+", 1)]);
    for crash in 0..3 {
        run = run.power_cut(Survival::Nothing);
        let publisher = clean(&mut run, "b");
        publish(&mut run, publisher, &format!("t/{crash}"), 1, 1, &[b'0' + crash]);
        assert_eq!(run.taken(publisher), puback(1));
    }
    let mut run = run.power_cut(Survival::Nothing);
    let (id, present) = accepted(&mut run, "a", false);
    assert!(present);
    assert_eq!(take_texts(&mut run, id), ["0", "1", "2"]);
}

#[test]
fn b44_every_subscription_is_live_after_a_restart() {
    // Broken: only the first one is.
    let mut run = Run::new();
    away(&mut run, "a", &[("one", 2), ("two/#", 2)]);
    away(&mut run, "b", &[("two/+", 1), ("one", 0), ("three", 2)]);
    let mut run = run.power_cut(Survival::Nothing);
    let (a, b) = (accepted(&mut run, "a", false).0, accepted(&mut run, "b", false).0);
    let publisher = clean(&mut run, "pub");
    for (number, topic) in ["one", "two/x", "three"].into_iter().enumerate() {
        publish(&mut run, publisher, topic, 2, 1 + number as u16, topic.as_bytes());
    }
    assert_eq!(take_texts(&mut run, a), ["one", "two/x"]);
    assert_eq!(take_texts(&mut run, b), ["one", "two/x", "three"]);
}

#[test]
fn b46_repeated_qos2_before_pubrel() {
    // Broken: a repetition is delivered again, or cuts the publisher. [MQTT-4.3.3-2]
    let mut run = Run::new();
    away(&mut run, "sub", &[("t", 2)]);
    let (mut publisher, _) = accepted(&mut run, "pub", false);
    for repetition in 0..6 {
        run.send(publisher, &publish_bytes("t", 2, 1, b"once", repetition > 0, false));
        assert_eq!(run.taken(publisher), pubrec(1));
        if repetition == 2 {
            run = run.power_cut(Survival::Nothing);
            publisher = accepted(&mut run, "pub", false).0;
        }
    }
    run.send(publisher, &pubrel(1));
    assert_eq!(run.taken(publisher), pubcomp(1));
    let (id, _) = accepted(&mut run, "sub", false);
    assert_eq!(take_texts(&mut run, id), ["once"]);
}

#[test]
fn b48_unreleased_ids_are_bounded() {
    // Broken: a publisher that never sends PUBREL fills the memory, with one id or with all.
    let mut run = Run::new();
    let id = clean(&mut run, "same id");
    (0..5000).for_each(|_| publish(&mut run, id, "t", 2, 1, &[0; 100]));
    assert_eq!(run.taken(id).len(), 5000 * 4);
    assert_eq!((run.broker.statistics().messages, run.broker.statistics().body_bytes), (0, 0));
    let id = clean(&mut run, "all ids");
    let most = settings().limits.received_ids;
    let mut answered = 0;
    for packet_id in 1..=65_535 {
        publish(&mut run, id, "t", 2, packet_id, b"x");
        answered += usize::from(!run.taken(id).is_empty());
    }
    assert_eq!(answered, most);
    assert_eq!(run.closed(id).map(|reason| reason.kind), Some(CloseKind::Limit));
}

#[test]
fn b50_ids_roll_on_when_nothing_is_in_flight() {
    // Broken: numbering restarts at 1, and an id names two messages within one burst. [MQTT-2.3.1-4]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, id, &[("t", 1)]);
    let publisher = clean(&mut run, "pub");
    let mut ids = Vec::new();
    for number in 1..=50 {
        publish(&mut run, publisher, "t", 1, number, b"x");
        let got = messages(&mut run, id);
        ids.extend(got.iter().map(|got| got.packet_id));
        got.iter().for_each(|got| run.send(id, &puback(got.packet_id)));
    }
    assert_eq!(ids, (1..=50).collect::<Vec<_>>());
}

#[test]
fn b52_subscribing_anew_at_qos_0_leaks_no_place_in_the_window() {
    // Broken: deliveries stall after a few changes of QoS. [MQTT-3.8.4-3]
    let mut settings = settings();
    settings.limits.inflight = 3;
    let mut run = Run::with(settings);
    let (id, _) = accepted(&mut run, "sub", false);
    let publisher = clean(&mut run, "pub");
    for round in 0..20 {
        subscribe(&mut run, id, &[("t", 2)]);
        publish(&mut run, publisher, "t", 2, 1, b"left unacknowledged for a while");
        run.send(publisher, &pubrel(1));
        let got = messages(&mut run, id);
        subscribe(&mut run, id, &[("t", 0)]);
        publish(&mut run, publisher, "t", 2, 1, b"at most once");
        run.send(publisher, &pubrel(1));
        assert_eq!(payloads(&mut run, id), [b"at most once"], "round {round}");
        run.send(id, &pubrec(got[0].packet_id));
        run.send(id, &pubcomp(got[0].packet_id));
        let _ = run.taken(id);
    }
}

#[test]
fn b54_an_acknowledgement_of_the_wrong_kind_completes_nothing() {
    // Broken: PUBACK for QoS 2 frees a place and loses the message, or it is stuck for ever. [MQTT-4.3.2-1],
    // [MQTT-4.3.3-1]
    for (qos, wrong) in [(2, puback as fn(u16) -> Vec<u8>), (2, pubcomp), (1, pubrec), (1, pubcomp)] {
        let mut run = Run::new();
        let (id, _) = accepted(&mut run, "sub", false);
        subscribe(&mut run, id, &[("t", qos)]);
        let publisher = clean(&mut run, "pub");
        publish(&mut run, publisher, "t", qos, 1, b"x");
        let packet_id = messages(&mut run, id)[0].packet_id;
        run.send(id, &wrong(packet_id));
        assert_eq!(run.clause_of_close(id), "§4.3");
        let (id, _) = accepted(&mut run, "sub", false);
        let got = take_all(&mut run, id);
        assert_eq!((got.len(), got[0].packet_id, got[0].dup), (1, packet_id, true));
        assert_eq!(run.broker.statistics().messages, 0);
    }
}

#[test]
fn b56_the_window_is_whole_on_a_new_connection() {
    // Broken: places taken on the old connection stay taken. [MQTT-4.4.0-1]
    let mut settings = settings();
    settings.limits.inflight = 2;
    let mut run = Run::with(settings);
    away(&mut run, "sub", &[("t", 2)]);
    let publisher = clean(&mut run, "pub");
    (1..=9).for_each(|number| publish(&mut run, publisher, "t", 2, number, &[b'0' + number as u8]));
    for _ in 0..5 {
        let (id, _) = accepted(&mut run, "sub", false);
        assert_eq!(messages(&mut run, id).len(), 2);
        run.break_off(id);
    }
    let (id, _) = accepted(&mut run, "sub", false);
    assert_eq!(take_texts(&mut run, id).concat(), "123456789");
}

#[test]
fn b60_stray_acknowledgements_widen_no_window() {
    // Broken: acknowledgements of nothing make the broker send more than the window.
    let mut settings = settings();
    settings.limits.inflight = 3;
    for qos in 1..=2 {
        let mut run = Run::with(settings);
        let (id, _) = accepted(&mut run, "sub", false);
        subscribe(&mut run, id, &[("t", qos)]);
        let publisher = clean(&mut run, "pub");
        (1..=20).for_each(|number| publish(&mut run, publisher, "t", qos, number, b"x"));
        let got = messages(&mut run, id);
        assert_eq!(got.len(), 3);
        for stray in [4, 5, 20, 21, 1000, 65_535] {
            run.send(id, &puback(stray));
            run.send(id, &pubcomp(stray));
        }
        run.send(id, &pubrel(7));
        assert!(messages(&mut run, id).is_empty());
        if qos == 1 {
            (0..10).for_each(|_| run.send(id, &puback(got[0].packet_id)));
            assert_eq!(messages(&mut run, id).len(), 1, "one place, however often it is acknowledged");
        }
    }
}

#[test]
fn b74_overlapping_filters_bring_the_highest_qos() {
    // Broken: the copy comes with the lower QoS. Ours: one copy. [MQTT-3.3.5-1]
    for filters in [[("a/#", 0), ("a/b", 1)], [("a/b", 1), ("a/#", 0)]] {
        let mut run = Run::new();
        away(&mut run, "sub", &filters);
        let publisher = clean(&mut run, "pub");
        publish(&mut run, publisher, "a/b", 1, 1, b"x");
        let (id, _) = accepted(&mut run, "sub", false);
        let got = take_all(&mut run, id);
        assert_eq!((got.len(), got[0].qos), (1, 1));
    }
}

#[test]
fn b76_large_payloads_come_whole_and_delay_nobody() {
    // Broken: a payload is cut or mixed up at some size, above all to a slow reader.
    let mut settings = settings();
    settings.segment_bytes = 8 * 1024 * 1024;
    (settings.limits.packet_bytes, settings.limits.unsent_bytes) = (3 << 20, 100_000);
    let mut run = Run::with(settings);
    away(&mut run, "away", &[("t", 1)]);
    let (slow, other, publisher) =
        (clean(&mut run, "slow"), clean(&mut run, "other"), clean(&mut run, "pub"));
    subscribe(&mut run, slow, &[("t", 2)]);
    subscribe(&mut run, other, &[("ping", 0)]);
    let sizes = [0, 2047, 2048, 65_535, 65_536, 65_537, 1 << 20, (3 << 20) - 10];
    let body = |size: usize| -> Vec<u8> { (0..size).map(|at| (at * 31 + size) as u8).collect() };
    run.clients_read = false;
    for (number, size) in sizes.into_iter().enumerate() {
        publish(&mut run, publisher, "t", 2, 1 + number as u16, &body(size));
        publish(&mut run, publisher, "ping", 0, 0, b"x");
        assert_eq!(payloads(&mut run, other), [b"x"]);
    }
    let mut got = bytes::BytesMut::new();
    loop {
        let piece = run.taken(slow);
        if piece.is_empty() {
            break;
        }
        got.extend_from_slice(&piece);
        run.input(Input::Sent { connection: ConnectionId(slow), bytes: piece.len() });
    }
    for size in sizes {
        let packet = mqttbytes::v4::read(&mut got, 4 << 20).expect("MQTT");
        assert!(as_message(packet).expect("PUBLISH").payload == body(size), "{size} bytes");
    }
    let mut run = run.power_cut(Survival::Nothing);
    let (id, _) = accepted(&mut run, "away", false);
    let read = take_all(&mut run, id);
    assert!(read.iter().map(|got| &got.payload).eq(sizes.map(body).iter()), "after a crash");
}

#[test]
fn b85_only_what_was_not_acknowledged_comes_again_after_a_crash() {
    // Broken: a completed QoS 2 message comes again. [MQTT-4.3.3-1]
    let mut run = Run::new();
    away(&mut run, "sub", &[("t", 2)]);
    let publisher = clean(&mut run, "pub");
    for number in 1..=9 {
        publish(
            &mut run,
            publisher,
            "t",
            if number == 9 { 1 } else { 2 },
            number,
            number.to_string().as_bytes(),
        );
    }
    let (id, _) = accepted(&mut run, "sub", false);
    let ids: Vec<u16> = messages(&mut run, id).iter().map(|got| got.packet_id).collect();
    for packet_id in &ids[..6] {
        run.send(id, &pubrec(*packet_id));
        assert_eq!(run.taken(id), pubrel(*packet_id));
    }
    ids[..4].iter().for_each(|packet_id| run.send(id, &pubcomp(*packet_id)));
    // The window: a consumer's last acknowledgements are written within limits.lazy_sync_ms.
    run.pass_ms(settings().limits.lazy_sync_ms);
    let mut run = run.power_cut(Survival::Nothing);
    let (id, _) = accepted(&mut run, "sub", false);
    let packets = received(&mut run, id);
    let released: Vec<u16> =
        packets.iter().filter_map(|p| if let Packet::PubRel(r) = p { Some(r.pkid) } else { None }).collect();
    assert_eq!(released, ids[4..6]);
    let again: Vec<u16> = packets.into_iter().filter_map(as_message).map(|got| got.packet_id).collect();
    assert_eq!(again, ids[6..]);
}

#[test]
fn b87_a_crash_while_a_segment_is_made_harms_nothing() {
    // Broken: an empty, short or header-only segment keeps the broker from starting, or hides what was acknowledged.
    let mut run = Run::new();
    away(&mut run, "sub", &[("t", 1)]);
    let publisher = clean(&mut run, "pub");
    publish(&mut run, publisher, "t", 1, 1, b"acknowledged");
    assert_eq!(run.taken(publisher), puback(1));
    let last = *run.disk.files.keys().next_back().expect("segments");
    for length in [0, 1, 4095, 4096, 64 * 1024] {
        let mut disk = run.disk.clone();
        let bytes = vec![0; length];
        disk.files.insert(
            last.next(),
            File { written: bytes.clone(), durable: bytes, entry: true, ..File::default() },
        );
        for survival in [Survival::Nothing, Survival::Everything] {
            let mut disk = disk.clone();
            disk.power_cut(survival);
            // Twice, so that what the first recovery left behind is recovered, too.
            let once = Run::on(disk, run.now, settings());
            let mut again = once.power_cut(survival);
            let (id, present) = accepted(&mut again, "sub", false);
            assert!(present);
            assert_eq!(take_texts(&mut again, id), ["acknowledged"], "{length} bytes");
        }
    }
    assert!(run.disk.files.contains_key(&SegmentNumber(1)));
}

#[test]
fn b90_what_was_removed_stays_removed() {
    // Broken: an ended session, a subscription, a retained value or a message is back after a crash.
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "ended", false);
    subscribe(&mut run, id, &[("t", 1)]);
    run.send(id, &DISCONNECT);
    let (id, _) = accepted(&mut run, "left", false);
    subscribe(&mut run, id, &[("t", 1), ("u", 1)]);
    run.send(id, &unsubscribe_bytes(1, &["t"]));
    let publisher = clean(&mut run, "pub");
    publish(&mut run, publisher, "u", 1, 1, b"read");
    assert_eq!(take_texts(&mut run, id), ["read"]);
    retain(&mut run, publisher, "r", 1, 2, b"x");
    retain(&mut run, publisher, "r", 1, 3, b"");
    let ended = clean(&mut run, "ended"); // CONNACK: the durable session is gone
    run.send(ended, &DISCONNECT);
    run.pass_ms(50);
    for survival in [Survival::Nothing, Survival::Everything] {
        run = run.power_cut(survival);
        assert_eq!((run.report.sessions, run.report.messages, run.report.retained), (1, 0, 0));
        let publisher = clean(&mut run, "pub");
        publish(&mut run, publisher, "t", 1, 1, b"x");
        assert_eq!(run.broker.statistics().messages, 0);
    }
}

#[test]
fn s01_payloads_are_bytes() {
    // Broken: a payload is changed on its way, live, queued, retained, as a will, or over a crash.
    let mut run = Run::new();
    away(&mut run, "sub", &[("#", 1)]);
    let every: Vec<u8> = (0..=255).rev().collect();
    let publisher = accepted_with_will(
        &mut run,
        "pub",
        true,
        mqttbytes::v4::LastWill {
            topic: "will".into(),
            message: every.clone().into(),
            qos: mqttbytes::QoS::AtLeastOnce,
            retain: false,
        },
    );
    subscribe(&mut run, publisher, &[("live", 0)]);
    publish(&mut run, publisher, "live", 1, 1, &every);
    assert_eq!(payloads(&mut run, publisher), std::slice::from_ref(&every));
    retain(&mut run, publisher, "retained", 1, 2, &every);
    let mut run = run.power_cut(Survival::Nothing);
    let (id, _) = accepted(&mut run, "sub", false);
    assert_eq!(take_all(&mut run, id).into_iter().map(|got| got.payload).collect::<Vec<_>>(), vec![every; 3]);
}

#[test]
fn s05_a_will_is_a_message_like_others() {
    // Broken: its QoS is ignored, or it is not kept for who is away. [MQTT-3.1.2-8]
    let mut run = Run::new();
    away(&mut run, "away", &[("w", 2)]);
    let dying = accepted_with_will(&mut run, "dying", true, will("w", "gone", 2, false));
    accepted(&mut run, "dying", true);
    assert!(run.closed(dying).is_some());
    let mut run = run.power_cut(Survival::Nothing);
    let (id, _) = accepted(&mut run, "away", false);
    let got = take_all(&mut run, id);
    assert_eq!((got.len(), got[0].qos, &*got[0].payload), (1, 2, &b"gone"[..]));
}

#[test]
fn s06_a_packet_may_take_its_time() {
    // Broken: a packet whose pieces come slowly drops the link.
    let mut run = Run::new();
    let mut connect = connect_packet("slow", true);
    connect.keep_alive = 60;
    let id = run.open();
    let bytes = [
        encode_connect(&connect),
        subscribe_bytes(1, &[("t", 1)]),
        publish_bytes("t", 1, 5, b"in pieces", false, false),
    ];
    for byte in bytes.concat() {
        run.send(id, &[byte]);
        run.pass_ms(100);
    }
    assert_eq!(messages(&mut run, id)[0].payload, b"in pieces");
    assert!(run.closed(id).is_none());
}

#[test]
fn s07_no_acknowledgement_after_a_storage_error() {
    // Broken: the disk fails, and the publisher is told that its message is safe.
    for qos in 1..=2 {
        let mut run = Run::new();
        away(&mut run, "sub", &[("t", 2)]);
        let publisher = clean(&mut run, "pub");
        run.disk.fail_next = Some(crate::support::disk::Kind::Write);
        publish(&mut run, publisher, "t", qos, 1, b"x");
        assert!(run.taken(publisher).is_empty());
        assert!(matches!(run.halt, Some(Halt::Storage { .. })));
    }
}

#[test]
fn s08_nothing_acknowledged_is_dropped_by_default() {
    // Broken: a bound that nobody set drops messages that were acknowledged as durable.
    let mut run = Run::new();
    away(&mut run, "sub", &[("t", 1)]);
    let publisher = clean(&mut run, "pub");
    for _ in 0..110 {
        let bytes: Vec<u8> =
            (1..=1000).flat_map(|id| publish_bytes("t", 1, id, b"x", false, false)).collect();
        run.send(publisher, &bytes);
    }
    assert_eq!(acknowledgements(&mut run, publisher).len(), 110_000);
    assert_eq!((run.broker.statistics().messages, run.broker.statistics().dropped_queue_full), (110_000, 0));
}
