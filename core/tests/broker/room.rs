//! A full disk, full memory: publishers are held, nobody else is, nothing is lost.

use crate::support::amqp;
use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, recover, settings};
use amq_protocol::protocol::{AMQPClass, connection};
use mqttbytes::v4::{LastWill, Packet};
use vowmq_core::Purpose;
use vowmq_core::durable::owner::Owner;
use vowmq_core::durable::record::ClientKey;
use vowmq_core::event::Event;

const SEGMENT: u64 = 64 * 1024;

/// A broker on a disk of `segments` segments, with a durable subscriber that is connected.
fn run_on(segments: u64) -> (Run, u64, u64) {
    run_with_reserve(segments, 0)
}

/// The same, with so many of the segments kept for acknowledgements, checkpoints and compaction.
fn run_with_reserve(segments: u64, reserve: u64) -> (Run, u64, u64) {
    let mut settings = settings();
    settings.limits.reserve_segments = reserve;
    settings.limits.free_bytes = SEGMENT; // for the segment that a restart opens
    let mut run = Run::with(settings);
    run.disk.capacity = Some(segments * SEGMENT);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    (run, subscriber, publisher)
}

/// Publishes until one is not answered; how many were.
fn fill(run: &mut Run, publisher: u64, from: u16) -> u16 {
    for id in from..from + 500 {
        publish(run, publisher, "t", 1, id, &[b'x'; 1000]);
        if acknowledgements(run, publisher).is_empty() {
            return id - from;
        }
    }
    panic!("the disk never got full");
}

#[test]
fn a_full_disk_holds_publishers_and_everybody_else_goes_on() {
    // Broken: a full disk is met in the middle of a write; or consumers, who would make room, are held as well.
    let (mut run, subscriber, publisher) = run_on(5);
    let stored = fill(&mut run, publisher, 1);
    assert!(stored > 10);
    assert!(run.events.iter().any(|event| matches!(event, Event::DiskFull { .. })));
    run.send(publisher, &[0xc0, 0]);
    assert_eq!(received(&mut run, publisher), [Packet::PingResp]);
    publish(&mut run, publisher, "other", 0, 0, b"needs no room");
    run.pass_ms(100);
    assert!(run.halt.is_none());
    // New durable sessions and subscriptions are refused with a reason, not held.
    let new = connect(&mut run, "new", false);
    assert!(
        matches!(&received(&mut run, new)[..], [Packet::ConnAck(ack)] if ack.code == mqttbytes::v4::ConnectReturnCode::ServiceUnavailable)
    );
    run.send(subscriber, &subscribe_bytes(5, &[("u", 1)]));
    let packets = received(&mut run, subscriber);
    assert!(packets.iter().any(|packet| matches!(packet, Packet::SubAck(_))), "{packets:?}");
    // Room comes: what was parked is stored and acknowledged, by itself.
    run.disk.capacity = None;
    run.pass_ms(2000);
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, stored + 1)]);
    assert!(run.events.contains(&Event::DiskHasRoom));
}

#[test]
fn nothing_acknowledged_is_lost_on_a_disk_that_fills_again_and_again() {
    // Broken: the reserve is not enough, or what is parked is lost or stored twice.
    let (mut run, subscriber, publisher) = run_on(5);
    run.send(subscriber, &DISCONNECT);
    let mut stored = 0;
    for round in 0..20 {
        stored += usize::from(fill(&mut run, publisher, 1)) + 1;
        let more = SEGMENT * (6 + round);
        run.disk.capacity = Some(more);
        run.pass_ms(1500);
        assert_eq!(acknowledgements(&mut run, publisher).len(), 1, "round {round}");
    }
    let mut run = run.power_cut(Survival::Nothing);
    assert_eq!(run.report.messages as usize, stored);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    let mut received = 0;
    while received < stored {
        let got = messages(&mut run, subscriber);
        assert!(!got.is_empty(), "{received} of {stored}");
        received += got.len();
        got.iter().for_each(|got| run.send(subscriber, &puback(got.packet_id)));
    }
}

#[test]
fn a_publisher_that_goes_on_is_not_read_any_more() {
    // Broken: a publisher on a full disk fills the memory instead.
    let (mut run, _, publisher) = run_on(5);
    run.pass_ms(10);
    let stored = fill(&mut run, publisher, 1);
    for id in 0..2000 {
        publish(&mut run, publisher, "t", 1, 1000 + id, &[b'x'; 1000]);
    }
    assert_eq!(run.paused.get(&publisher), Some(&true));
    assert!(run.broker.statistics().parked < 1100);
    run.disk.capacity = None;
    run.pass_ms(5000);
    assert_eq!(run.paused.get(&publisher), Some(&false));
    let answered = acknowledgements(&mut run, publisher);
    assert_eq!(answered.len(), 2001, "{stored}");
    assert!(answered[1..].windows(2).all(|pair| pair[0].1 + 1 == pair[1].1), "in their order");
}

#[test]
fn full_memory_holds_publishers_until_consumers_catch_up() {
    // Broken: memory grows with every message that nobody takes.
    let mut settings = settings();
    settings.limits.memory_bytes = 20 * (1000 + 1 + 160 + 32 + 8); // body, topic, the message, its place in a queue
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    let stored = fill(&mut run, publisher, 1);
    assert_eq!(stored, 20);
    let key = ClientKey { vhost: "/".into(), client: "sub".into() };
    let largest = Some((Owner::Session(key), 20));
    assert!(run.events.contains(&Event::MemoryFull { largest }), "the operator learns who fills it");
    let got = messages(&mut run, subscriber);
    got.iter().for_each(|got| run.send(subscriber, &puback(got.packet_id)));
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 21)]);
    assert!(run.events.contains(&Event::MemoryHasRoom));
}

#[test]
fn keep_alive_stands_still_for_whom_we_do_not_read() {
    // Broken: a client that we do not read is told that it is silent, and its will is published.
    let (mut run, _, _) = run_on(5);
    let mut packet = connect_packet("slow", true);
    packet.keep_alive = 10;
    let publisher = connect_as(&mut run, &packet);
    let _ = received(&mut run, publisher);
    fill(&mut run, publisher, 1);
    for id in 0..2000 {
        publish(&mut run, publisher, "t", 1, 1000 + id, &[b'x'; 1000]);
    }
    assert_eq!(run.paused.get(&publisher), Some(&true));
    run.pass_ms(60_000);
    assert!(run.closed(publisher).is_none(), "{:?}", run.closed(publisher));
    run.disk.capacity = None;
    run.pass_ms(2000);
    run.pass_ms(60_000);
    assert_eq!(run.clause_of_close(publisher), "[MQTT-3.1.2-24]");
}

#[test]
fn a_start_on_a_full_disk_says_so_and_loses_nothing() {
    // Broken: recovery waits for ever for room that nobody knows is missing; or wills are lost with the refusal.
    let mut settings = settings();
    settings.limits.connect_bytes = 20_000;
    let mut run = Run::with(settings);
    for number in 0..12 {
        let mut packet = connect_packet(&format!("device {number}"), true);
        packet.last_will =
            Some(LastWill::new(format!("w/{number}"), vec![b'x'; 15_000], mqttbytes::QoS::AtLeastOnce, true));
        let id = connect_as(&mut run, &packet);
        assert!(matches!(received(&mut run, id)[..], [Packet::ConnAck(_)]));
    }
    let (mut disk, now) = (run.disk, run.now);
    disk.power_cut(Survival::Nothing);
    disk.capacity = Some(disk.allocated());
    let mut files = Vec::new();
    for start in 0..3 {
        match recover(&mut disk, now, settings, Purpose::Serve) {
            Err(refusal) => {
                let text = refusal.to_string();
                // The first one still has the segment that was prepared.
                let expected = if start == 0 { "the disk is full" } else { "no space left" };
                assert!(text.contains(expected), "{text}");
            }
            Ok(_) => panic!("twelve wills do not fit into what is left"),
        }
        files.push(disk.files.len());
    }
    assert_eq!(files[1], files[2], "what a start could not use is given back");
    disk.capacity = None;
    let mut run = Run::on(disk, now, settings);
    let (reader, _) = accepted(&mut run, "reader", true);
    run.send(reader, &subscribe_bytes(1, &[("w/+", 1)]));
    assert_eq!(payloads(&mut run, reader).len(), 12);
}

#[test]
fn clients_that_come_and_go_on_a_full_disk_use_up_no_reserve() {
    // Broken: who could make room is locked out, for good, by what its own reconnects have written.
    let (mut run, subscriber, publisher) = run_with_reserve(24, 3);
    run.send(subscriber, &DISCONNECT);
    let mut stored = 0;
    while {
        publish(&mut run, publisher, "t", 1, stored + 1, &[b'x'; 15_000]);
        !acknowledgements(&mut run, publisher).is_empty()
    } {
        stored += 1;
    }
    for number in 0..1500 {
        let mut packet = connect_packet("sub", false);
        packet.last_will = Some(will("w", "gone", 1, false));
        let id = connect_as(&mut run, &packet);
        assert!(run.closed(id).is_none(), "at reconnect {number}: {:?}", run.closed(id));
        run.send(id, &DISCONNECT);
        run.pass_ms(1);
        assert!(run.halt.is_none(), "at reconnect {number}");
    }
    let (subscriber, present) = accepted(&mut run, "sub", false);
    assert!(present);
    assert!(take_all(&mut run, subscriber).len() >= usize::from(stored));
}

#[test]
fn what_would_be_recorded_is_not_declared_on_a_full_disk() {
    // Broken: declarations use up the space that is kept for acknowledgements, and nothing brings it back.
    let (mut run, _, publisher) = run_on(5);
    let client = amqp::opened(&mut run);
    amqp::declare(&mut run, client, "known", true, &[]);
    fill(&mut run, publisher, 1);
    amqp::declare(&mut run, client, "known", true, &[]);
    amqp::declare(&mut run, client, "passing", false, &[]);
    let declare = amqp::method!(Queue::queue::Declare { queue: "new".into(), durable: true });
    amqp::send(&mut run, client, 1, declare);
    assert_eq!(amqp::channel_fault(&mut run, client), (506, "RESOURCE_ERROR - the disk is full".into()));
}

#[test]
fn a_goodbye_waits_for_what_is_held_before_it() {
    // Broken: Close-Ok says that what was published before is done, and it is gone.
    let mut settings = settings();
    settings.limits.memory_bytes = 20_000;
    let mut run = Run::with(settings);
    let client = amqp::opened(&mut run);
    amqp::declare(&mut run, client, "q", true, &[]);
    for _ in 0..2 {
        amqp::publish(&mut run, client, "", "q", &[b'x'; 10_000], &Default::default());
    }
    let (leaving, lost) = (amqp::opened(&mut run), amqp::opened(&mut run));
    let goodbye = || AMQPClass::Connection(connection::AMQPMethod::Close(Default::default()));
    for id in [leaving, lost] {
        amqp::publish(&mut run, id, "", "q", b"held", &Default::default());
        amqp::send(&mut run, id, 0, goodbye());
        assert!(
            amqp::methods(&mut run, id).iter().all(|method| !is_close_ok(method)),
            "not before it is done"
        );
    }
    run.break_off(lost);
    assert_eq!(run.broker.statistics().dropped_held, 1);
    while amqp::get(&mut run, client, "q", true).is_some_and(|got| got.body != b"held") {}
    assert!(amqp::methods(&mut run, leaving).iter().any(is_close_ok));
    assert!(run.closed(leaving).is_some());
}

fn is_close_ok(method: &AMQPClass) -> bool {
    matches!(method, AMQPClass::Connection(connection::AMQPMethod::CloseOk(_)))
}
