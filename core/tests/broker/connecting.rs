//! CONNECT, CONNACK, PINGREQ, DISCONNECT, the keep-alive, takeover, and MQTT 3.1.

use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::Packet;
use vowmq_core::event::Event;
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input};
use vowmq_core::output::CloseKind;

#[test]
fn session_present_is_true() {
    // Broken: a client that trusts it skips its SUBSCRIBE and never hears anything, or believes in lost messages.
    let mut run = Run::new();
    // [MQTT-3.2.2-3]: none before. [MQTT-3.1.2-4], [MQTT-3.2.2-2]: there is one. [MQTT-3.2.2-1], [MQTT-3.1.2-6],
    // [MQTT-3.1.4-3]: gone by the clean one, which leaves nothing.
    for (clean, expected) in
        [(false, false), (false, true), (true, false), (true, false), (false, false), (false, true)]
    {
        let (id, present) = accepted(&mut run, "c", clean);
        assert_eq!(present, expected, "clean {clean}");
        run.send(id, &DISCONNECT);
    }
}

#[test]
fn identifiers_name_sessions() {
    // Broken: two clients share a session, or one finds that of another. [MQTT-3.1.3-2]
    let mut run = Run::new();
    for client in ["a", "A", "a ", "aa"] {
        let (id, present) = accepted(&mut run, client, false);
        assert!(!present);
        subscribe(&mut run, id, &[(&format!("t/{client}"), 1)]);
        run.send(id, &DISCONNECT);
    }
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t/A", 1, 1, b"for A");
    for (client, expected) in [("a", 0), ("aa", 0), ("A", 1)] {
        let (id, present) = accepted(&mut run, client, false);
        assert!(present);
        assert_eq!(messages(&mut run, id).len(), expected, "{client}");
    }
}

#[test]
fn empty_identifiers_get_unique_ones() {
    // Broken: two anonymous clients throw each other out. [MQTT-3.1.3-6]
    let mut run = Run::new();
    let first = accepted(&mut run, "", true).0;
    let second = accepted(&mut run, "", true).0;
    run.send(first, &PINGREQ);
    run.send(second, &PINGREQ);
    assert_eq!(received(&mut run, first), [Packet::PingResp]);
    assert_eq!(received(&mut run, second), [Packet::PingResp]);
}

#[test]
fn rejected_identifiers_are_answered_and_end_the_connection() {
    // Broken: the client does not learn what is wrong, or goes on. [MQTT-3.1.3-8], [MQTT-3.1.3-9],
    // [MQTT-3.2.2-4], [MQTT-3.2.2-5], [MQTT-3.1.4-5]
    let mut settings = settings();
    settings.limits.client_id_bytes = 30;
    let mut run = Run::with(settings);
    let (listener, _) = accepted(&mut run, "listener", true);
    subscribe(&mut run, listener, &[("t", 0)]);
    for client in ["", &"x".repeat(31)] {
        let id = run.open();
        let mut bytes = encode_connect(&connect_packet(client, false));
        bytes.extend(publish_bytes("t", 0, 0, b"not handled", false, false));
        run.send(id, &bytes);
        assert_eq!(run.taken(id), [0x20, 2, 0, 2]);
        assert!(run.closed(id).is_some());
    }
    assert!(messages(&mut run, listener).is_empty());
    assert!(accepted(&mut run, &"x".repeat(30), false).0 > 0);
}

#[test]
fn where_no_code_fits_there_is_no_connack() {
    // Broken: a client is told a reason that is not the reason. [MQTT-3.2.2-6]
    let mut settings = settings();
    settings.limits.connections = 1;
    let mut run = Run::with(settings);
    let (first, _) = accepted(&mut run, "first", true);
    let second = connect(&mut run, "second", true);
    assert!(run.taken(second).is_empty());
    assert_eq!(run.closed(second).map(|reason| reason.kind), Some(CloseKind::Unavailable));
    assert!(run.closed(first).is_none());
}

#[test]
fn connack_comes_first_and_once() {
    // Broken: a client gets something before it knows that it is connected. [MQTT-3.2.0-1], [MQTT-3.1.4-4]
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 2)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 2, 1, b"waiting");
    let mut bytes = encode_connect(&connect_packet("sub", false));
    bytes.extend(PINGREQ);
    bytes.extend(subscribe_bytes(5, &[("u", 0)]));
    let id = run.open();
    run.hold_disk = true;
    run.send(id, &bytes);
    run.release_disk();
    let packets = received(&mut run, id);
    assert!(packets.len() > 3);
    let first = packets.iter().position(|packet| matches!(packet, Packet::ConnAck(_)));
    assert_eq!(packets.iter().filter(|packet| matches!(packet, Packet::ConnAck(_))).count(), 1);
    assert_eq!(first, Some(0), "{packets:?}");
}

#[test]
fn the_fields_of_connect_are_used() {
    // Broken: fields are mixed up, or a flag without its field is believed. [MQTT-3.1.2-9], [MQTT-3.1.2-18],
    // [MQTT-3.1.2-19], [MQTT-3.1.2-20], [MQTT-3.1.2-21], [MQTT-3.1.3-1], [MQTT-3.1.3-3]
    let mut run = Run::new();
    let (listener, _) = accepted(&mut run, "listener", true);
    subscribe(&mut run, listener, &[("will/topic", 2)]);
    let mut packet = connect_packet("all", true);
    packet.last_will = Some(will("will/topic", "will message", 1, false));
    packet.set_login("user name", "password");
    let id = connect_as(&mut run, &packet);
    let connected = Event::Connected {
        connection: ConnectionId(id),
        client: "all".into(),
        durable: false,
        present: false,
    };
    assert!(run.events.contains(&connected));
    run.break_off(id);
    let got = messages(&mut run, listener);
    assert_eq!((&*got[0].topic, &*got[0].payload, got[0].qos), ("will/topic", &b"will message"[..], 1));
}

#[test]
fn a_silent_client_is_closed_at_one_and_a_half_keep_alives() {
    // Broken: half-open connections stay for ever, or live clients are cut. [MQTT-3.1.2-24]
    let mut run = Run::new();
    let mut packet = connect_packet("c", true);
    packet.keep_alive = 10;
    let id = connect_as(&mut run, &packet);
    run.pass_ms(14_999);
    assert!(run.closed(id).is_none());
    run.send(id, &PINGREQ);
    run.pass_ms(14_999);
    assert!(run.closed(id).is_none());
    run.pass_ms(1);
    assert_eq!(run.clause_of_close(id), "[MQTT-3.1.2-24]");
}

#[test]
fn every_packet_keeps_a_client_alive() {
    // Broken: a client that publishes and never pings is cut.
    let mut run = Run::new();
    let mut packet = connect_packet("c", true);
    packet.keep_alive = 10;
    let id = connect_as(&mut run, &packet);
    for bytes in [
        publish_bytes("t", 0, 0, b"x", false, false),
        subscribe_bytes(1, &[("a", 0)]),
        puback(9),
        PINGREQ.into(),
    ] {
        run.pass_ms(12_000);
        run.send(id, &bytes);
    }
    assert!(run.closed(id).is_none());
}

#[test]
fn keep_alive_0_never_ends_a_connection() {
    // Broken: clients that turned it off are cut. A session lasts as long as its connection. [MQTT-4.1.0-2]
    let mut settings = settings();
    settings.limits.session_expiry_ms = 1000;
    let mut run = Run::with(settings);
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("t", 1)]);
    run.pass_ms(40 * 24 * 3600 * 1000);
    assert!(run.closed(id).is_none());
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 1, 1, b"x");
    assert_eq!(payloads(&mut run, id), [b"x"]);
}

#[test]
fn takeover_closes_the_old_connection_and_the_new_one_works() {
    // Broken: two connections share a session, or the newcomer is turned away. [MQTT-3.1.4-2]
    for (old_clean, new_clean) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut run = Run::new();
        let (old, _) = accepted(&mut run, "c", old_clean);
        subscribe(&mut run, old, &[("t", 1)]);
        let (new, present) = accepted(&mut run, "c", new_clean);
        assert_eq!(present, !old_clean && !new_clean);
        assert_eq!(run.closed(old).map(|reason| reason.kind), Some(CloseKind::TakenOver));
        assert_eq!(run.clause_of_close(old), "[MQTT-3.1.4-2]");
        subscribe(&mut run, new, &[("t", 1)]);
        publish(&mut run, new, "t", 1, 1, b"x");
        assert_eq!(payloads(&mut run, new), [b"x"], "old {old_clean}, new {new_clean}");
        assert!(run.taken(old).is_empty(), "nothing more for the old one");
    }
}

#[test]
fn the_late_close_of_an_old_connection_does_not_touch_the_new_one() {
    // Broken: the end of a connection that was taken over removes the session under the newcomer.
    for clean in [false, true] {
        for cause in [CloseCause::Ordered, CloseCause::Broken, CloseCause::EndOfStream] {
            let mut run = Run::new();
            let (old, _) = accepted(&mut run, "c", clean);
            let (new, _) = accepted(&mut run, "c", clean);
            subscribe(&mut run, new, &[("t", 1)]);
            run.send(old, &publish_bytes("t", 1, 7, b"from the dead", false, false));
            run.input(Input::Sent { connection: ConnectionId(old), bytes: 4 });
            run.input(Input::Closed { connection: ConnectionId(old), cause });
            let (publisher, _) = accepted(&mut run, "pub", true);
            publish(&mut run, publisher, "t", 1, 1, b"x");
            assert_eq!(payloads(&mut run, new), [b"x"]);
            assert!(run.closed(new).is_none());
        }
    }
}

#[test]
fn a_refused_connect_takes_nothing_over() {
    // Broken: whoever sends a broken CONNECT with a stranger's identifier throws the stranger out.
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "victim", true);
    let mut bytes = encode_connect(&connect_packet("victim", true));
    bytes[9] |= 1; // the reserved flag
    let attacker = run.open();
    run.send(attacker, &bytes);
    assert_eq!(run.clause_of_close(attacker), "[MQTT-3.1.2-3]");
    bytes[9] &= !1;
    bytes[8] = 9; // a level from the future
    let attacker = run.open();
    run.send(attacker, &bytes);
    assert_eq!(run.taken(attacker), [0x20, 2, 0, 1]);
    assert!(run.closed(id).is_none());
}

#[test]
fn disconnect_ends_in_order() {
    // Broken: a goodbye is logged as an error, or the session of a durable client goes with it. [MQTT-4.1.0-1]
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("t", 1)]);
    run.send(id, &DISCONNECT);
    let reason = run.closed(id).expect("closed").clone();
    assert_eq!((reason.kind, reason.clause), (CloseKind::Normal, ""));
    run.pass_ms(24 * 3600 * 1000);
    let (publisher, _) = accepted(&mut run, "pub", true);
    publish(&mut run, publisher, "t", 1, 1, b"x");
    let (id, present) = accepted(&mut run, "c", false);
    assert!(present);
    assert_eq!(payloads(&mut run, id), [b"x"]);
}

#[test]
fn everything_received_before_the_end_of_the_stream_is_handled() {
    // Broken: a client that publishes and closes at once loses what it sent.
    let mut settings = settings();
    settings.limits.turn_work = 2;
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", true);
    subscribe(&mut run, subscriber, &[("t", 2)]);
    for (client, last) in [("says goodbye", &DISCONNECT[..]), ("goes", &[])] {
        let id = run.open();
        let mut bytes = encode_connect(&connect_packet(client, false));
        for number in 1..=20 {
            bytes.extend(publish_bytes("t", (number % 3) as u8, number, &number.to_be_bytes(), false, false));
        }
        bytes.extend(last);
        // Both arrive before the broker has had a turn.
        let (connection, now) = (ConnectionId(id), run.now);
        run.hold_disk = true;
        run.broker.handle(now, Input::Received { connection, bytes: bytes.into() });
        run.broker.handle(now, Input::Closed { connection, cause: CloseCause::EndOfStream });
        run.turn();
        run.release_disk();
        let got: Vec<u16> = take_all(&mut run, subscriber)
            .iter()
            .map(|got| u16::from_be_bytes([got.payload[0], got.payload[1]]))
            .collect();
        assert_eq!(got.len(), 20, "{got:?}");
        let mut sorted = got.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=20).collect::<Vec<_>>());
    }
}

#[test]
fn clients_of_mqtt_3_1_are_served() {
    // Broken: old clients are turned away.
    let mut run = Run::new();
    let id = run.open();
    run.send(id, &connect_3_1("old", false));
    assert_eq!(run.taken(id), [0x20, 2, 0, 0]);
    subscribe(&mut run, id, &[("t", 2)]);
    publish(&mut run, id, "t", 2, 5, b"x");
    run.send(id, &pubrel(5));
    let packets = received(&mut run, id);
    assert!(packets.iter().any(|packet| matches!(packet, Packet::PubComp(_))), "{packets:?}");
    assert_eq!(packets.into_iter().filter_map(as_message).map(|got| got.payload).collect::<Vec<_>>(), [b"x"]);
}

#[test]
fn a_client_of_mqtt_3_1_is_not_told_of_its_session() {
    // Broken: the byte that 3.1 reserves is not 0, and a strict client takes the CONNACK for a broken one.
    let mut run = Run::new();
    for _ in 0..2 {
        let id = run.open();
        run.send(id, &connect_3_1("old", false));
        assert_eq!(run.taken(id), [0x20, 2, 0, 0]);
        run.send(id, &DISCONNECT);
    }
}

#[test]
fn a_refused_subscription_of_mqtt_3_1_ends_the_connection() {
    // Broken: 3.1 knows no failure code: the client takes 0x80 for a QoS, or believes that it is subscribed.
    let mut settings = settings();
    settings.limits.subscriptions = 1;
    let mut run = Run::with(settings);
    let id = run.open();
    run.send(id, &connect_3_1("old", true));
    let _ = run.taken(id);
    run.send(id, &subscribe_bytes(1, &[("a", 0), ("b", 0)]));
    assert!(run.taken(id).is_empty());
    assert_eq!(run.closed(id).map(|reason| reason.kind), Some(CloseKind::Limit));
}
