//! The acknowledgement table of the README, row by row: with the disk held, no answer leaves before its facts.
//!
//! Each test fails when its wait is taken away.

use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::{self, LastWill, Packet};

/// With the disk held, `act` must bring nothing for the connection; once the disk goes on, exactly one answer.
fn waits(run: &mut Run, id: u64, act: impl FnOnce(&mut Run)) -> Packet {
    run.hold_disk = true;
    act(run);
    let early = received(run, id);
    assert!(early.is_empty(), "left before its facts were durable: {early:?}");
    assert!(!run.held.is_empty(), "nothing is being written");
    run.release_disk();
    let mut late = received(run, id);
    assert_eq!(late.len(), 1, "one answer: {late:?}");
    late.remove(0)
}

/// With the disk held, `act` brings its answer at once, and nothing is written.
fn waits_for_nothing(run: &mut Run, id: u64, act: impl FnOnce(&mut Run)) -> Packet {
    run.hold_disk = true;
    act(run);
    assert!(run.held.is_empty(), "it costs a sync: {:?}", run.held);
    let mut packets = received(run, id);
    assert_eq!(packets.len(), 1, "one answer: {packets:?}");
    run.release_disk();
    packets.remove(0)
}

/// A durable subscriber that is away, and a clean publisher.
fn with_offline_subscriber(qos: u8) -> (Run, u64) {
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t/#", qos)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    (run, publisher)
}

#[test]
fn puback_waits_for_the_message_in_a_durable_session() {
    // Broken: a power cut right after the PUBACK loses the message.
    let (mut run, publisher) = with_offline_subscriber(1);
    let answer = waits(&mut run, publisher, |run| publish(run, publisher, "t/a", 1, 5, b"x"));
    assert_eq!(answer, Packet::PubAck(v4::PubAck::new(5)));
}

#[test]
fn pubrec_waits_for_message_and_packet_id() {
    // Broken: a power cut after the PUBREC loses the message, or its packet id so that it comes twice.
    let (mut run, _) = with_offline_subscriber(2);
    let (publisher, _) = accepted(&mut run, "durable-pub", false);
    let answer = waits(&mut run, publisher, |run| publish(run, publisher, "t/a", 2, 6, b"x"));
    assert_eq!(answer, Packet::PubRec(v4::PubRec::new(6)));
    let records = run.broker.statistics().records;
    publish(&mut run, publisher, "t/a", 2, 7, b"y");
    assert_eq!(run.broker.statistics().records, records + 1, "message and packet id are one record");
}

#[test]
fn pubrec_waits_for_the_packet_id_of_a_message_to_nobody() {
    // Broken: after a crash the publisher's repetition is taken for new, and reaches who subscribed meanwhile.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "durable-pub", false);
    waits(&mut run, publisher, |run| publish(run, publisher, "nobody", 2, 6, b"x"));
}

#[test]
fn puback_waits_for_the_retained_value() {
    // Broken: a new subscriber gets an older value than the last acknowledged.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "pub", true);
    waits(&mut run, publisher, |run| retain(run, publisher, "t", 1, 1, b"value"));
    waits(&mut run, publisher, |run| retain(run, publisher, "t", 1, 2, b""));
}

#[test]
fn puback_of_a_retained_value_cleared_twice_waits_for_the_first() {
    // Broken: the second clearing is acknowledged at once, the power goes, and the value is back.
    let mut run = Run::new();
    let (first, _) = accepted(&mut run, "first", true);
    let (second, _) = accepted(&mut run, "second", true);
    retain(&mut run, first, "t", 1, 1, b"value");
    let _ = received(&mut run, first);
    let answer = waits(&mut run, second, |run| {
        retain(run, first, "t", 1, 2, b"");
        retain(run, second, "t", 1, 3, b"");
    });
    assert_eq!(answer, Packet::PubAck(v4::PubAck::new(3)));
}

#[test]
fn repeated_qos2_publish_waits_for_the_first_ones_record() {
    // Broken: PUBREC for the repetition leaves while the record of the first is not on disk.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "durable-pub", false);
    run.hold_disk = true;
    publish(&mut run, publisher, "t", 2, 6, b"x");
    run.send(publisher, &publish_bytes("t", 2, 6, b"x", true, false));
    assert!(received(&mut run, publisher).is_empty());
    run.release_disk();
    assert_eq!(acknowledgements(&mut run, publisher), [(0x50, 6), (0x50, 6)]);
}

#[test]
fn pubcomp_waits_for_the_forgetting() {
    // Broken: crash after PUBCOMP, the id is remembered, the publisher's next message under it is lost.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "durable-pub", false);
    publish(&mut run, publisher, "t", 2, 6, b"x");
    let _ = received(&mut run, publisher);
    let answer = waits(&mut run, publisher, |run| run.send(publisher, &pubrel(6)));
    assert_eq!(answer, Packet::PubComp(v4::PubComp::new(6)));
}

#[test]
fn repeated_pubrel_waits_for_the_first_ones_record() {
    // Broken: the second PUBREL finds no id and is answered at once, while the forgetting is not on disk.
    let mut run = Run::new();
    let (publisher, _) = accepted(&mut run, "durable-pub", false);
    publish(&mut run, publisher, "t", 2, 6, b"x");
    let _ = received(&mut run, publisher);
    run.hold_disk = true;
    run.send(publisher, &pubrel(6));
    run.send(publisher, &pubrel(6));
    assert!(received(&mut run, publisher).is_empty());
    run.release_disk();
    assert_eq!(acknowledgements(&mut run, publisher), [(0x70, 6), (0x70, 6)]);
}

#[test]
fn pubrel_to_a_subscriber_waits_for_its_pubrec() {
    // Broken: crash, PUBLISH is sent again under an id that the subscriber has released: twice.
    let (mut run, publisher) = with_offline_subscriber(2);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    publish(&mut run, publisher, "t/a", 2, 5, b"x");
    let id = messages(&mut run, subscriber)[0].packet_id;
    let answer = waits(&mut run, subscriber, |run| run.send(subscriber, &pubrec(id)));
    assert_eq!(answer, Packet::PubRel(v4::PubRel::new(id)));
}

#[test]
fn qos2_delivery_waits_for_its_enqueue_record() {
    // Broken: crash after the delivery, the message is not in the queue, its id goes to another message.
    let (mut run, publisher) = with_offline_subscriber(2);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    let answer = waits(&mut run, subscriber, |run| publish(run, publisher, "t/a", 2, 5, b"x"));
    assert!(matches!(answer, Packet::Publish(_)));
}

#[test]
fn qos1_delivery_waits_for_the_horizon_only() {
    // Broken: a slow disk delays every delivery; or a delivered message is called new after a crash.
    let mut settings = settings();
    settings.limits.horizon_block = 4;
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    run.hold_disk = true;
    for id in 1..=6 {
        publish(&mut run, publisher, "t", 1, id, b"x");
    }
    assert_eq!(messages(&mut run, subscriber).len(), 4, "as far as the horizon, and no further");
    run.release_disk();
    assert_eq!(messages(&mut run, subscriber).len(), 2);
}

#[test]
fn connack_waits_for_the_new_session() {
    // Broken: the client believes in a session that a power cut takes away.
    let mut run = Run::new();
    let id = run.open();
    let bytes = encode_connect(&connect_packet("c", false));
    let answer = waits(&mut run, id, |run| run.send(id, &bytes));
    assert!(matches!(answer, Packet::ConnAck(ack) if !ack.session_present));
}

#[test]
fn connack_of_a_session_known_but_not_durable_waits() {
    // Broken: the second CONNECT says "session present" before the first one's record is on disk.
    let mut run = Run::new();
    let (first, second) = (run.open(), run.open());
    let bytes = encode_connect(&connect_packet("c", false));
    let answer = waits(&mut run, second, |run| {
        run.send(first, &bytes);
        run.send(second, &bytes);
    });
    assert!(matches!(answer, Packet::ConnAck(ack) if ack.session_present));
}

#[test]
fn connack_waits_for_the_deletion_of_the_old_session() {
    // Broken: clean start over a durable session, power cut, and the old session is back with its messages.
    let mut run = Run::new();
    let (old, _) = accepted(&mut run, "c", false);
    run.send(old, &DISCONNECT);
    let (first, second) = (run.open(), run.open());
    let bytes = encode_connect(&connect_packet("c", true));
    let answer = waits(&mut run, second, |run| {
        run.send(first, &bytes);
        // The session is gone in memory: a second CONNECT must not overtake the record that says so.
        run.send(second, &bytes);
    });
    assert!(matches!(answer, Packet::ConnAck(ack) if !ack.session_present));
}

#[test]
fn connack_waits_for_the_expiry_to_stop() {
    // Broken: the client is back, power cut, and its session expires as if it had stayed away.
    let mut run = Run::new();
    let (old, _) = accepted(&mut run, "c", false);
    run.send(old, &DISCONNECT);
    let id = run.open();
    let bytes = encode_connect(&connect_packet("c", false));
    waits(&mut run, id, |run| run.send(id, &bytes));
}

#[test]
fn connack_of_a_resume_that_changes_nothing_waits_for_nothing() {
    // Broken: a storm of reconnecting clients pays a sync each.
    let mut settings = settings();
    settings.limits.session_expiry_ms = 0;
    let mut run = Run::with(settings);
    let (old, _) = accepted(&mut run, "c", false);
    run.send(old, &DISCONNECT);
    run.pass_ms(2000);
    run.hold_disk = true;
    let id = connect(&mut run, "c", false);
    assert!(matches!(&received(&mut run, id)[..], [Packet::ConnAck(ack)] if ack.session_present));
}

#[test]
fn connack_waits_for_the_will() {
    // Broken: the broker crashes with the client, and the will that it left is never published.
    let mut run = Run::new();
    let id = run.open();
    let mut packet = connect_packet("c", true);
    packet.last_will = Some(LastWill::new("w", "gone", mqttbytes::QoS::AtLeastOnce, false));
    waits(&mut run, id, |run| run.send(id, &encode_connect(&packet)));
}

#[test]
fn suback_waits_for_the_subscription() {
    // Broken: the subscriber is told that it is subscribed, power cut, and it gets nothing.
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    let answer = waits(&mut run, id, |run| run.send(id, &subscribe_bytes(3, &[("a/#", 1)])));
    assert!(matches!(answer, Packet::SubAck(_)));
}

#[test]
fn unsuback_waits_for_the_removal() {
    // Broken: after a power cut the client gets what it has unsubscribed from.
    let mut run = Run::new();
    let (id, _) = accepted(&mut run, "c", false);
    subscribe(&mut run, id, &[("a", 1)]);
    let bytes = packet(0xa2, &[0, 9, 0, 1, b'a']);
    let answer = waits(&mut run, id, |run| run.send(id, &bytes));
    assert_eq!(answer, Packet::UnsubAck(v4::UnsubAck::new(9)));
    // Once more: nothing to remove, but the removal may still be on its way.
    run.hold_disk = true;
    run.send(id, &subscribe_bytes(4, &[("a", 1)]));
    run.send(id, &bytes);
    run.send(id, &bytes);
    assert!(received(&mut run, id).is_empty());
    run.release_disk();
    assert_eq!(acknowledgements(&mut run, id), [(0x90, 4), (0xb0, 9), (0xb0, 9)]);
}

#[test]
fn clean_sessions_cost_no_sync() {
    // Broken: who asks for no durability pays for it.
    let mut run = Run::new();
    let (publisher, subscriber) = (run.open(), run.open());
    for (id, name) in [(publisher, "pub"), (subscriber, "sub")] {
        let bytes = encode_connect(&connect_packet(name, true));
        waits_for_nothing(&mut run, id, |run| run.send(id, &bytes));
    }
    waits_for_nothing(&mut run, subscriber, |run| run.send(subscriber, &subscribe_bytes(1, &[("t", 2)])));
    for qos in 1..=2 {
        waits_for_nothing(&mut run, publisher, |run| publish(run, publisher, "t", qos, 5, b"x"));
    }
    waits_for_nothing(&mut run, publisher, |run| run.send(publisher, &pubrel(5)));
    let ids: Vec<u16> = messages(&mut run, subscriber).iter().map(|got| got.packet_id).collect();
    run.send(subscriber, &puback(ids[0]));
    waits_for_nothing(&mut run, subscriber, |run| run.send(subscriber, &pubrec(ids[1])));
    run.send(subscriber, &pubcomp(ids[1]));
    run.send(subscriber, &DISCONNECT);
    run.pass_ms(5000);
    assert_eq!(run.broker.statistics().syncs, 0);
}

#[test]
fn qos0_to_a_durable_session_costs_no_sync() {
    // Broken: a stream of QoS 0 readings syncs the disk all day.
    let (mut run, publisher) = with_offline_subscriber(1);
    run.pass_ms(5000);
    let syncs = run.broker.statistics().syncs;
    publish(&mut run, publisher, "t/a", 0, 0, b"x");
    run.pass_ms(5000);
    assert_eq!(run.broker.statistics().syncs, syncs);
}

#[test]
fn replies_keep_their_order_and_deliveries_and_pings_pass_them() {
    // Broken: an unheld answer overtakes a held one; or a slow disk starves the keep-alive of a connection.
    let (mut run, publisher) = with_offline_subscriber(1);
    subscribe(&mut run, publisher, &[("own", 0)]);
    run.hold_disk = true;
    publish(&mut run, publisher, "t/a", 1, 1, b"held");
    publish(&mut run, publisher, "nobody", 1, 2, b"not held, but behind");
    publish(&mut run, publisher, "own", 0, 0, b"passes");
    run.send(publisher, &[0xc0, 0]);
    let early = received(&mut run, publisher);
    assert!(matches!(early[..], [Packet::Publish(_), Packet::PingResp]), "{early:?}");
    run.release_disk();
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1), (0x40, 2)]);
}

#[test]
fn no_delivery_before_its_connack() {
    // Broken: a client gets a PUBLISH before it knows that it is connected.
    let (mut run, publisher) = with_offline_subscriber(1);
    publish(&mut run, publisher, "t/a", 1, 1, b"waiting");
    run.hold_disk = true;
    let id = connect(&mut run, "sub", false);
    publish(&mut run, publisher, "t/b", 0, 0, b"at most once");
    assert!(received(&mut run, id).is_empty());
    run.release_disk();
    let packets = received(&mut run, id);
    assert!(matches!(packets[..], [Packet::ConnAck(_), Packet::Publish(_)]), "{packets:?}");
}

#[test]
fn consumer_acks_ride_on_the_next_sync_or_start_one_after_a_while() {
    // Broken: every PUBACK of a subscriber costs a sync of its own; or it is never written on an idle broker.
    let (mut run, publisher) = with_offline_subscriber(1);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    publish(&mut run, publisher, "t/a", 1, 1, b"x");
    let id = messages(&mut run, subscriber)[0].packet_id;
    run.pass_ms(100);
    run.hold_disk = true;
    run.send(subscriber, &puback(id));
    assert!(run.held.is_empty(), "a sync of its own");
    run.pass_ms(9);
    assert!(run.held.is_empty(), "before limits.lazy_sync_ms");
    run.pass_ms(1);
    assert_eq!(run.held.len(), 1);
}
