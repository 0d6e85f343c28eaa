//! A short life of sessions, crashed at every disk operation with every kind of survival, then audited.

use crate::support::disk::{Disk, Survival};
use crate::support::packets::*;
use crate::support::{Run, settings};
use mqttbytes::v4::{LastWill, Packet};
use std::collections::BTreeSet;
use vowmq_core::input::Input;
use vowmq_core::output::Output;

/// What clients were told in a life that ended at some point.
#[derive(Default, Debug)]
struct Told {
    session: bool,
    subscribed: bool,
    /// Payloads acknowledged to the publisher.
    acknowledged: BTreeSet<Vec<u8>>,
    /// Payloads of QoS 2 that the subscriber has completed (PUBCOMP sent).
    completed: BTreeSet<Vec<u8>>,
    /// Payloads of QoS 2 that the subscriber has seen.
    seen: BTreeSet<Vec<u8>>,
    retained: Option<Vec<u8>>,
    retained_attempted: Option<Vec<u8>>,
    will: bool,
}

/// Lives until the disk dies after `operations` operations; what was told by then, and the disk.
fn live(operations: usize) -> (Told, Disk, bool) {
    let mut run = Run::new();
    let base = run.disk.operations.len();
    let mut told = Told::default();
    let mut alive = true;
    let mut step = |run: &mut Run, action: &mut dyn FnMut(&mut Run)| {
        let attempted = alive;
        if alive {
            run.hold_disk = true;
            action(run);
            alive = run.disk_works_until(base + operations);
        }
        attempted
    };
    let subscriber = run.open();
    let mut connect = connect_packet("sub", false);
    connect.last_will = Some(LastWill::new("will", "of sub", mqttbytes::QoS::AtLeastOnce, true));
    step(&mut run, &mut |run| run.send(subscriber, &encode_connect(&connect)));
    told.session = !received(&mut run, subscriber).is_empty();
    told.will = told.session;
    step(&mut run, &mut |run| run.send(subscriber, &subscribe_bytes(1, &[("t", 2)])));
    told.subscribed = !received(&mut run, subscriber).is_empty();
    let publisher = run.open();
    step(&mut run, &mut |run| run.send(publisher, &encode_connect(&connect_packet("pub", false))));
    let _ = received(&mut run, publisher);
    for id in 1..=4u16 {
        let payload = format!("message {id}").into_bytes();
        step(&mut run, &mut |run| publish(run, publisher, "t", 2, id, &payload));
        if acknowledgements(&mut run, publisher).contains(&(0x50, id)) && told.subscribed {
            told.acknowledged.insert(payload.clone());
        }
        for got in messages(&mut run, subscriber) {
            told.seen.insert(got.payload.clone());
            step(&mut run, &mut |run| run.send(subscriber, &pubrec(got.packet_id)));
            let released = acknowledgements(&mut run, subscriber).contains(&(0x62, got.packet_id));
            if released && id % 2 == 0 {
                step(&mut run, &mut |run| run.send(subscriber, &pubcomp(got.packet_id)));
                told.completed.insert(got.payload);
            }
        }
        step(&mut run, &mut |run| run.send(publisher, &pubrel(id)));
        let _ = received(&mut run, publisher);
        let value = format!("value {id}").into_bytes();
        if step(&mut run, &mut |run| retain(run, publisher, "kept", 1, 100 + id, &value)) {
            told.retained_attempted = Some(value.clone());
        }
        if acknowledgements(&mut run, publisher).contains(&(0x40, 100 + id)) {
            told.retained = Some(value);
        }
    }
    let ended = step(&mut run, &mut |_| ());
    (told, run.disk, ended)
}

fn audit(told: &Told, run: &mut Run, context: &str) {
    let (subscriber, present) = accepted(run, "sub", false);
    assert!(present || !told.session, "{context}: a session that was acknowledged is gone");
    let mut got: Vec<Vec<u8>> = Vec::new();
    let mut will = 0;
    loop {
        let packets = received(run, subscriber);
        if packets.is_empty() {
            break;
        }
        for packet in packets {
            match packet {
                Packet::Publish(publish) => {
                    got.push(publish.payload.to_vec());
                    run.send(subscriber, &pubrec(publish.pkid));
                }
                Packet::PubRel(release) => run.send(subscriber, &pubcomp(release.pkid)),
                other => panic!("{context}: unexpected {other:?}"),
            }
        }
    }
    let unique: BTreeSet<_> = got.iter().cloned().collect();
    assert_eq!(unique.len(), got.len(), "{context}: twice: {got:?}");
    for payload in &told.completed {
        assert!(!unique.contains(payload), "{context}: completed and back: {payload:?}");
    }
    for payload in &told.acknowledged {
        assert!(unique.contains(payload) || told.seen.contains(payload), "{context}: lost: {payload:?}");
    }
    let (reader, _) = accepted(run, "reader", true);
    run.send(reader, &subscribe_bytes(1, &[("kept", 1), ("will", 1)]));
    let mut kept = None;
    for got in messages(run, reader) {
        match got.topic.as_str() {
            "kept" => kept = Some(got.payload),
            _ => will += 1,
        }
    }
    let allowed = [&told.retained, &told.retained_attempted];
    assert!(allowed.contains(&&kept), "{context}: retained {kept:?}, allowed {allowed:?}");
    assert!(will == 1 || !told.will, "{context}: the will was published {will} times");
}

#[test]
fn every_crash_point_keeps_every_promise() {
    // Broken: at some point of some operation, a power cut breaks a promise of the acknowledgement table.
    let mut ends = false;
    for operations in 0..400 {
        let (told, disk, alive) = live(operations);
        for survival in [
            Survival::Nothing,
            Survival::Everything,
            Survival::Sectors(0b01),
            Survival::Sectors(0b10),
            Survival::Garbage(0b01),
            Survival::Garbage(0b10),
        ] {
            let mut disk = disk.clone();
            disk.power_cut(survival);
            let mut run = Run::on(disk, Run::new().now, settings());
            audit(&told, &mut run, &format!("after {operations} operations, {survival:?}"));
        }
        ends = alive;
        if alive {
            assert!(operations > 20, "the life has more operations than that");
            break;
        }
    }
    assert!(ends, "the life never ended");
}

#[test]
fn shutdown_writes_everything_and_publishes_wills() {
    // Broken: SIGTERM loses consumers' acknowledgements, or swallows wills.
    let mut run = Run::new();
    let mut connect = connect_packet("dying", true);
    connect.last_will = Some(LastWill::new("w", "gone", mqttbytes::QoS::AtMostOnce, true));
    let id = connect_as(&mut run, &connect);
    run.input(Input::ShutdownRequested);
    assert_eq!(run.halt, Some(vowmq_core::output::Halt::ShutDown));
    assert!(run.closed(id).is_some());
    assert!(run.broker.poll_output().is_none_or(|output| matches!(output, Output::Report(_))));
    let mut run = run.power_cut(Survival::Nothing);
    let (reader, _) = accepted(&mut run, "reader", true);
    run.send(reader, &subscribe_bytes(1, &[("w", 1)]));
    assert_eq!(payloads(&mut run, reader), [b"gone"]);
}
