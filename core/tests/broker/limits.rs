//! Every limit holds at its value and not below it, hurts only who goes over it, and is counted or logged.

use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::{ConnectReturnCode, Packet};
use vowmq_core::event::{DropReason, Event};
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::Input;
use vowmq_core::limits::{Limits, Overflow, Settings};
use vowmq_core::output::CloseKind;

fn with(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

/// The connection was closed for a limit, and the log line names it.
fn over(run: &Run, id: u64, name: &str) {
    let reason = run.closed(id).unwrap_or_else(|| panic!("{name}: not closed"));
    assert_eq!(reason.kind, CloseKind::Limit, "{name}");
    assert!(reason.text.contains(name), "{}", reason.text);
}

fn drops(run: &Run, wanted: DropReason) -> usize {
    run.events
        .iter()
        .filter(|event| matches!(event, Event::Dropped { reason, .. } if *reason == wanted))
        .count()
}

#[test]
fn connections_are_bounded() {
    // Broken: one more connection than the machine can hold.
    let mut run = Run::with(with(|limits| limits.connections = 3));
    let ids: Vec<u64> = (0..3).map(|number| accepted(&mut run, &number.to_string(), true).0).collect();
    let fourth = run.open();
    assert_eq!(run.closed(fourth).map(|reason| reason.kind), Some(CloseKind::Unavailable));
    run.break_off(ids[1]);
    accepted(&mut run, "there is room again", true);
    assert!(run.closed(ids[0]).is_none() && run.closed(ids[2]).is_none());
}

#[test]
fn packets_are_bounded_before_they_are_read() {
    // Broken: a length alone makes the broker wait for, and keep, as many bytes as a client likes.
    let mut run = Run::with(with(|limits| limits.packet_bytes = 5000));
    let (id, _) = accepted(&mut run, "c", true);
    let fits = publish_bytes("t", 1, 1, &vec![0; 5000 - 3 - 3 - 2], false, false);
    assert_eq!(fits.len(), 5000);
    run.send(id, &fits);
    assert_eq!(run.taken(id), puback(1));
    let header = &publish_bytes("t", 1, 1, &vec![0; 5000 - 3 - 3 - 1], false, false)[..3];
    run.send(id, header);
    over(&run, id, "limits.packet_bytes");
}

#[test]
fn the_first_packet_is_bounded_in_bytes_and_time() {
    // Broken: whoever never says who it is may keep memory and a connection for ever.
    let mut run = Run::with(with(|limits| (limits.connect_bytes, limits.connect_ms) = (100, 5000)));
    let long = run.open();
    run.send(long, &encode_connect(&connect_packet(&"x".repeat(90), true))[..2]);
    over(&run, long, "limits.connect_bytes");
    let (silent, slow) = (run.open(), run.open());
    let bytes = encode_connect(&connect_packet("slow", true));
    for byte in &bytes[..5] {
        run.send(slow, &[*byte]);
        run.pass_ms(999);
    }
    assert!(run.closed(silent).is_none() && run.closed(slow).is_none());
    run.pass_ms(5);
    over(&run, silent, "limits.connect_time");
    over(&run, slow, "limits.connect_time");
    let (in_time, _) = accepted(&mut run, "in time", true);
    run.pass_ms(60_000);
    assert!(run.closed(in_time).is_none());
}

#[test]
fn topics_are_bounded_in_bytes_and_levels() {
    // Broken: topics as long and deep as a packet; each of them is kept as often as there are subscribers.
    let settings = with(|limits| (limits.topic_bytes, limits.topic_levels) = (20, 4));
    for (text, name) in [
        ("a/b/c/d/e", "limits.topic_levels"),
        ("123456789012345678901", "limits.topic_bytes"),
        ("////", "limits.topic_levels"),
    ] {
        let mut run = Run::with(settings);
        let (id, _) = accepted(&mut run, "c", true);
        run.send(id, &publish_bytes("a/b/c/d", 1, 1, b"x", false, false));
        run.send(id, &subscribe_bytes(1, &[("12345678901234567890", 0), ("a/b/c/#", 0)]));
        assert_eq!(acknowledgements(&mut run, id), [(0x40, 1), (0x90, 1)]);
        // A filter is refused by itself. [MQTT-3.8.4-5]
        run.send(id, &subscribe_bytes(2, &[("ok", 0), (text, 0), ("fine", 1)]));
        assert_eq!(run.taken(id), [0x90, 5, 0, 2, 0, 0x80, 1]);
        run.send(id, &publish_bytes(text, 1, 1, b"x", false, false));
        assert!(run.taken(id).is_empty());
        over(&run, id, name);
    }
}

#[test]
fn subscriptions_are_bounded_filter_by_filter() {
    // Broken: one client fills the tree; or a client that only renews is refused. [MQTT-3.8.4-5], [MQTT-3.9.3-1]
    let mut run = Run::with(with(|limits| limits.subscriptions = 2));
    let (id, _) = accepted(&mut run, "c", false);
    run.send(id, &subscribe_bytes(1, &[("a", 1), ("b", 2), ("c", 0), ("a", 0)]));
    assert_eq!(run.taken(id), [0x90, 6, 0, 1, 1, 2, 0x80, 0]);
    run.send(id, &unsubscribe_bytes(2, &["b"]));
    run.send(id, &subscribe_bytes(3, &[("c", 0), ("d", 0)]));
    assert_eq!(run.taken(id), [&[0xb0, 2, 0, 2][..], &[0x90, 4, 0, 3, 0, 0x80]].concat());
    publish(&mut run, id, "c", 0, 0, b"c");
    publish(&mut run, id, "d", 0, 0, b"d");
    assert_eq!(payloads(&mut run, id), [b"c"]);
}

#[test]
fn unreleased_qos2_ids_are_bounded() {
    // Broken: a publisher that never sends PUBREL fills the memory.
    let mut run = Run::with(with(|limits| limits.received_ids = 5));
    let (id, _) = accepted(&mut run, "c", false);
    for packet_id in [1, 2, 3, 4, 5, 5, 1] {
        publish(&mut run, id, "t", 2, packet_id, b"x");
    }
    run.send(id, &pubrel(3));
    publish(&mut run, id, "t", 2, 6, b"x");
    assert_eq!(acknowledgements(&mut run, id).len(), 9);
    publish(&mut run, id, "t", 2, 7, b"x");
    assert!(run.taken(id).is_empty());
    over(&run, id, "limits.received_ids");
    // The ids are kept with the session, and so is the bound.
    let (id, _) = accepted(&mut run, "c", false);
    publish(&mut run, id, "t", 2, 7, b"x");
    over(&run, id, "limits.received_ids");
}

/// A durable subscriber that is away, and what became of ten messages of 10 bytes, "0…" to "9…".
fn ten_for_a_bounded_queue(settings: Settings, online_first: usize) -> (Run, u64, Vec<u8>) {
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 0..10u8 {
        if usize::from(number) == online_first {
            run.break_off(subscriber);
        }
        publish(&mut run, publisher, "t", 1, 1 + u16::from(number), &[b'0' + number; 10]);
    }
    let (subscriber, _) = accepted(&mut run, "sub", false);
    let got = take_all(&mut run, subscriber).iter().map(|got| got.payload[0] - b'0').collect();
    (run, publisher, got)
}

#[test]
fn a_bounded_queue_drops_its_oldest_and_counts() {
    // Broken: a queue grows over its bound, the newest goes, or a loss is silent.
    for change in [(|limits| limits.queue_messages = 4) as fn(&mut Limits), |limits| limits.queue_bytes = 49]
    {
        let (run, _, got) = ten_for_a_bounded_queue(with(change), 0);
        assert_eq!(got, [6, 7, 8, 9]);
        assert_eq!((run.broker.statistics().dropped_queue_full, drops(&run, DropReason::QueueFull)), (6, 6));
    }
}

#[test]
fn what_may_have_been_sent_is_not_dropped() {
    // Broken: a message that the subscriber may have, and will acknowledge, is dropped under it; its id goes to another.
    let (run, _, got) = ten_for_a_bounded_queue(with(|limits| limits.queue_messages = 4), 3);
    assert_eq!(got, [0, 1, 2, 9], "0 to 2 were sent; of the others the newest stays");
    assert_eq!(run.broker.statistics().dropped_queue_full, 6);
    let (run, _, got) = ten_for_a_bounded_queue(with(|limits| limits.queue_messages = 4), 6);
    assert_eq!(got, [0, 1, 2, 3], "all of them sent: the new ones go");
    assert_eq!((run.broker.statistics().dropped_queue_full, drops(&run, DropReason::QueueFull)), (6, 6));
}

#[test]
fn drops_survive_a_crash_with_the_message_that_caused_them() {
    // Broken: after a restart a dropped message is back, or the queue is over its bound.
    let settings = with(|limits| limits.queue_messages = 4);
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 2)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for number in 0..10 {
        publish(&mut run, publisher, "t", 2, 1 + number, number.to_string().as_bytes());
    }
    let mut run = run.power_cut(crate::support::disk::Survival::Nothing);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    assert_eq!(take_texts(&mut run, subscriber), ["6", "7", "8", "9"]);
}

#[test]
fn a_refusing_queue_refuses_for_everybody_and_without_an_acknowledgement() {
    // Broken: an acknowledged message is missing where it was refused. [MQTT-3.3.5-2], [MQTT-4.8.0-2]
    let mut run =
        Run::with(with(|limits| (limits.queue_messages, limits.queue_overflow) = (2, Overflow::Refuse)));
    for client in ["full", "free"] {
        let (id, _) = accepted(&mut run, client, false);
        subscribe(&mut run, id, &[(if client == "full" { "t/#" } else { "t/x" }, 1)]);
        run.send(id, &DISCONNECT);
    }
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t/y", 1, 1, b"1");
    publish(&mut run, publisher, "t/y", 2, 2, b"2");
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1), (0x50, 2)]);
    publish(&mut run, publisher, "t/x", 1, 3, b"3");
    assert!(run.taken(publisher).is_empty());
    over(&run, publisher, "limits.queue_messages");
    assert_eq!(run.broker.statistics().refused, 1);
    let (free, _) = accepted(&mut run, "free", false);
    assert!(take_all(&mut run, free).is_empty(), "for all its recipients");
    let (full, _) = accepted(&mut run, "full", false);
    assert_eq!(take_texts(&mut run, full), ["1", "2"]);
}

#[test]
fn a_slow_reader_loses_qos_0_counted_and_nothing_else() {
    // Broken: one subscriber that does not read fills the memory, or loses what it was promised.
    let mut run = Run::with(with(|limits| limits.unsent_bytes = 3000));
    let (slow, _) = accepted(&mut run, "slow", true);
    let (fast, _) = accepted(&mut run, "fast", true);
    for id in [slow, fast] {
        subscribe(&mut run, id, &[("t/#", 2)]);
    }
    let (publisher, _) = accepted(&mut run, "pub", true);
    run.clients_read = false;
    for number in 0..40u16 {
        let qos = (number % 3) as u8;
        publish(&mut run, publisher, &format!("t/{qos}"), qos, 1 + number, &[number as u8; 200]);
        run.send(publisher, &pubrel(1 + number));
        let sent = run.taken(fast).len();
        run.input(Input::Sent { connection: ConnectionId(fast), bytes: sent });
        let sent = run.taken(publisher).len();
        run.input(Input::Sent { connection: ConnectionId(publisher), bytes: sent });
    }
    let first = run.taken(slow);
    assert!(first.len() <= 3000 + 300, "{} bytes for one that reads nothing", first.len());
    let dropped = run.broker.statistics().dropped_slow_reader;
    assert!(dropped > 5 && dropped as usize == drops(&run, DropReason::SlowReader), "{dropped}");
    // It reads again: what is left of QoS 1 and 2 comes, all of it.
    run.clients_read = true;
    run.input(Input::Sent { connection: ConnectionId(slow), bytes: first.len() });
    let mut bytes = bytes::BytesMut::from(&first[..]);
    let mut got = Vec::new();
    while !bytes.is_empty() {
        got.extend(as_message(mqttbytes::v4::read(&mut bytes, 10_000).expect("MQTT")));
    }
    got.extend(messages(&mut run, slow));
    for qos in 1..=2 {
        let numbers: Vec<u8> = got.iter().filter(|got| got.qos == qos).map(|got| got.payload[0]).collect();
        assert_eq!(numbers, (0..40).filter(|number| number % 3 == qos).collect::<Vec<_>>());
    }
    assert_eq!(got.iter().filter(|got| got.qos == 0).count() as u64, 14 - dropped, "counted to the last");
    assert!(run.closed(slow).is_none());
}

#[test]
fn held_replies_pause_reading() {
    // Broken: a slow disk makes a fast publisher fill the memory with answers.
    let mut run = Run::with(with(|limits| limits.held_replies = 10));
    let (publisher, _) = accepted(&mut run, "pub", false);
    run.hold_disk = true;
    let bytes: Vec<u8> = (1..=100).flat_map(|id| publish_bytes("t", 2, id, b"x", false, false)).collect();
    run.send(publisher, &bytes);
    assert_eq!(run.paused.get(&publisher), Some(&true));
    assert_eq!(run.broker.statistics().received, 10);
    run.send(publisher, &PINGREQ); // what the driver had read already
    assert!(run.taken(publisher).is_empty());
    run.release_disk();
    let packets = received(&mut run, publisher);
    assert_eq!(packets.len(), 101);
    assert_eq!(packets.iter().filter(|packet| matches!(packet, Packet::PubRec(_))).count(), 100);
    assert_eq!(run.paused.get(&publisher), Some(&false));
}

#[test]
fn who_reads_no_answers_is_not_read() {
    // Broken: a client that asks for ever and reads nothing fills the memory with answers.
    for request in [
        PINGREQ.to_vec(),
        publish_bytes("t", 1, 1, b"", false, false),
        subscribe_bytes(1, &[("t", 0)]),
        pubrel(1),
    ] {
        let mut run = Run::with(with(|limits| limits.unsent_bytes = 1000));
        let (id, _) = accepted(&mut run, "c", true);
        run.clients_read = false;
        let many = request.repeat(100);
        let mut rounds = 0;
        while run.paused.get(&id) != Some(&true) {
            run.send(id, &many);
            rounds += 1;
            assert!(rounds < 100, "never paused");
        }
        let unread = run.taken(id).len();
        assert!(unread < 2100, "{unread} bytes unread");
        run.clients_read = true;
        run.input(Input::Sent { connection: ConnectionId(id), bytes: unread });
        assert_eq!(run.paused.get(&id), Some(&false));
        run.send(id, &PINGREQ);
        assert!(run.taken(id).ends_with(&[0xd0, 0]), "all the rest is answered");
    }
}

#[test]
fn reload_holds_for_what_happens_afterwards() {
    // Broken: a new limit needs a restart, or cuts who was within the old one.
    let mut run = Run::with(with(|limits| limits.subscriptions = 5));
    let (id, _) = accepted(&mut run, "c", true);
    subscribe(&mut run, id, &[("a", 0), ("b", 0)]);
    run.input(Input::Reload(Box::new(with(|limits| limits.subscriptions = 1))));
    run.send(id, &subscribe_bytes(1, &[("a", 0), ("c", 0)]));
    assert_eq!(run.taken(id), [0x90, 4, 0, 1, 0, 0x80]);
    publish(&mut run, id, "b", 0, 0, b"kept");
    assert_eq!(payloads(&mut run, id), [b"kept"]);
}

#[test]
fn reload_wakes_who_waits_at_a_bound_that_has_moved() {
    // Broken: a subscriber that waited for its connection to send something waits for ever when the bound is raised
    // meanwhile: its messages, or the retained ones that it is owed, never come.
    for retained in [false, true] {
        let mut run = Run::with(with(|limits| limits.unsent_bytes = 1000));
        let (id, _) = accepted(&mut run, "c", true);
        let (publisher, _) = accepted(&mut run, "pub", true);
        if !retained {
            subscribe(&mut run, id, &[("t/#", 1)]);
        }
        run.clients_read = false;
        for number in 0..10u8 {
            let topic = format!("t/{number}");
            let packet = publish_bytes(&topic, 1, 1 + u16::from(number), &[number; 400], false, retained);
            run.send(publisher, &packet);
        }
        if retained {
            run.send(id, &subscribe_bytes(1, &[("t/#", 1)]));
        }
        let before = run.taken(id).len();
        assert!(before < 2000, "{before} bytes for one that reads nothing");
        run.input(Input::Reload(Box::new(with(|limits| limits.unsent_bytes = 1 << 20))));
        let after = run.taken(id).len();
        assert!(before + after > 10 * 400, "retained {retained}: {before} bytes, then {after}");
    }
}

#[test]
fn sessions_are_bounded() {
    // Broken: clients that come under ever new names fill memory and disk with sessions.
    let mut run = Run::with(with(|limits| limits.sessions = 2));
    let (kept, _) = accepted(&mut run, "kept", false);
    run.send(kept, &DISCONNECT);
    let (clean, _) = accepted(&mut run, "clean", true);
    for clean_session in [false, true] {
        let third = connect(&mut run, "third", clean_session);
        let packets = received(&mut run, third);
        assert!(
            matches!(&packets[..], [Packet::ConnAck(ack)] if ack.code == ConnectReturnCode::ServiceUnavailable)
        );
        assert!(run.closed(third).is_some_and(|reason| reason.text.contains("limits.sessions")));
    }
    assert!(accepted(&mut run, "kept", false).1, "who has a session comes back");
    run.send(clean, &DISCONNECT);
    accepted(&mut run, "third", true);
}

#[test]
fn a_will_is_kept_from_nobody_by_the_bound_of_another() {
    // Broken: nobody learns that a device is gone, since one stuck subscriber of many has a full queue: nobody is there
    // who could publish the will again. [MQTT-3.1.2-8]
    let mut run =
        Run::with(with(|limits| (limits.queue_messages, limits.queue_overflow) = (2, Overflow::Refuse)));
    for (client, filter) in [("full", "t/#"), ("free", "t/will")] {
        let (id, _) = accepted(&mut run, client, false);
        subscribe(&mut run, id, &[(filter, 1)]);
        run.send(id, &DISCONNECT);
    }
    let (publisher, _) = accepted(&mut run, "pub", true);
    (1..=2).for_each(|id| publish(&mut run, publisher, "t/y", 1, id, b"y"));
    assert_eq!(acknowledgements(&mut run, publisher).len(), 2);
    let dying = accepted_with_will(&mut run, "dying", true, will("t/will", "gone", 1, true));
    run.break_off(dying);
    assert_eq!((run.broker.statistics().refused, drops(&run, DropReason::QueueFull)), (0, 1));
    let (free, _) = accepted(&mut run, "free", false);
    assert_eq!(take_texts(&mut run, free), ["gone"]);
    let (later, _) = accepted(&mut run, "later", true);
    run.send(later, &subscribe_bytes(1, &[("t/will", 1)]));
    assert_eq!(take_texts(&mut run, later), ["gone"], "it is retained");
}

#[test]
fn a_will_beyond_the_retained_ones_goes_to_who_is_there() {
    // Broken: nobody learns that a device is gone, since too much is retained.
    let mut run = Run::with(with(|limits| limits.retained = 1));
    let (publisher, _) = accepted(&mut run, "pub", true);
    retain(&mut run, publisher, "other", 1, 1, b"x");
    let (listener, _) = accepted(&mut run, "listener", true);
    subscribe(&mut run, listener, &[("will", 1)]);
    let dying = accepted_with_will(&mut run, "dying", true, will("will", "gone", 1, true));
    run.break_off(dying);
    assert_eq!(take_texts(&mut run, listener), ["gone"]);
    let statistics = run.broker.statistics();
    assert_eq!((statistics.retained, statistics.refused), (1, 1), "it is not retained, which is counted");
}
