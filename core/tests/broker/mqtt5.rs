//! MQTT 5 and shared subscriptions over power cuts, and by the wall clock. What clients see is tested by clients that
//! nobody here wrote, in tests/interop.

use crate::support::disk::Survival;
use crate::support::packets::*;
use crate::support::{Run, settings};
use std::collections::BTreeSet;
use vowmq_core::facts::Fact;
use vowmq_core::input::Input;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// CONNECT of MQTT 5 without keep-alive, up to the client's identifier.
fn connect_beginning(client: &str, flags: u8, properties: &[u8]) -> Vec<u8> {
    let head = [5, flags, 0, 0, properties.len() as u8];
    [&text("MQTT")[..], &head, properties, &text(client)].concat()
}

/// CONNECT of MQTT 5 with a session that stays so many seconds, and perhaps a will.
fn connect_5(client: &str, clean: bool, expiry_s: u32, will: Option<(u32, &str)>) -> Vec<u8> {
    let flags = u8::from(clean) << 1 | if will.is_some() { 0x0c } else { 0 };
    let properties = [&[0x11][..], &expiry_s.to_be_bytes()].concat();
    let mut body = connect_beginning(client, flags, &properties);
    if let Some((delay_s, topic)) = will {
        body.extend([5, 0x18]);
        body.extend(delay_s.to_be_bytes());
        body.extend(text(topic));
        body.extend(text("gone"));
    }
    packet(0x10, &body)
}

/// Connects with MQTT 5; whether there was a session.
fn accepted_5(run: &mut Run, connect: &[u8]) -> (u64, bool) {
    let id = run.open();
    run.send(id, connect);
    let connack = run.taken(id);
    assert_eq!((connack[0], connack[3]), (0x20, 0), "{connack:?}");
    (id, connack[2] == 1)
}

fn numbers(payloads: Vec<Vec<u8>>) -> BTreeSet<String> {
    payloads.into_iter().map(|payload| String::from_utf8(payload).expect("text")).collect()
}

fn publish_many(run: &mut Run, topic: &str, qos: u8, count: u16) -> BTreeSet<String> {
    let (publisher, _) = accepted(run, "publisher", true);
    (1..=count).for_each(|n| publish(run, publisher, topic, qos, n, n.to_string().as_bytes()));
    let kind = if qos == 1 { 0x40 } else { 0x50 };
    assert_eq!(acknowledgements(run, publisher), (1..=count).map(|n| (kind, n)).collect::<Vec<_>>());
    (1..=count).map(|n| n.to_string()).collect()
}

fn member(run: &mut Run, client: &str, clean: bool, qos: u8) -> u64 {
    let (id, _) = accepted(run, client, clean);
    // What the group has may come before the SUBACK.
    run.send(id, &subscribe_bytes(1, &[("$share/g/t", qos)]));
    id
}

#[test]
fn unacknowledged_messages_of_a_member_go_to_another_after_a_power_cut() {
    // Broken: a message of a group is lost with the member that had it.
    for survival in [Survival::Nothing, Survival::Everything] {
        let mut run = Run::new();
        let (a, b) = (member(&mut run, "a", false, 1), member(&mut run, "b", false, 1));
        let all = publish_many(&mut run, "t", 1, 6);
        let (of_a, of_b) = (payloads(&mut run, a), payloads(&mut run, b));
        assert_eq!((of_a.len(), of_b.len()), (3, 3), "the members take turns");
        let mut run = run.power_cut(survival);
        let (b, present) = accepted(&mut run, "b", false);
        assert!(present);
        assert_eq!(numbers(payloads(&mut run, b)), all, "b gets what a has not acknowledged as well");
    }
}

#[test]
fn what_was_sent_with_qos_2_stays_with_its_member() {
    // Broken: two members get a QoS 2 message, or nobody does. [MQTT5-4.8.2-4]
    let mut run = Run::new();
    let (a, b) = (member(&mut run, "a", false, 2), member(&mut run, "b", false, 2));
    let all = publish_many(&mut run, "t", 2, 6);
    let (of_a, of_b) = (numbers(payloads(&mut run, a)), numbers(payloads(&mut run, b)));
    assert_eq!(of_a.union(&of_b).cloned().collect::<BTreeSet<_>>(), all);
    let mut run = run.power_cut(Survival::Nothing);
    let (b, _) = accepted(&mut run, "b", false);
    assert_eq!(numbers(payloads(&mut run, b)), of_b);
    let (a, _) = accepted(&mut run, "a", false);
    assert_eq!(numbers(payloads(&mut run, a)), of_a);
}

#[test]
fn a_clean_member_of_a_durable_group_loses_nothing() {
    // Broken: what a clean session had from a durable group is gone with a power cut, or with its connection.
    let mut run = Run::new();
    let durable = member(&mut run, "durable", false, 1);
    let clean = member(&mut run, "clean", true, 1);
    run.break_off(durable);
    let all = publish_many(&mut run, "t", 1, 5);
    assert_eq!(numbers(payloads(&mut run, clean)), all);
    run.send(clean, &puback(1));
    let mut run = run.power_cut(Survival::Nothing);
    let (durable, _) = accepted(&mut run, "durable", false);
    let again = numbers(payloads(&mut run, durable));
    assert!(all.iter().skip(1).all(|one| again.contains(one)), "{again:?}");
    (1..=again.len() as u16).for_each(|id| run.send(durable, &puback(id)));
    let clean = member(&mut run, "clean", true, 1);
    run.break_off(durable);
    let more = publish_many(&mut run, "t", 1, 2);
    assert_eq!(numbers(payloads(&mut run, clean)), more);
    run.break_off(clean);
    let (durable, _) = accepted(&mut run, "durable", false);
    assert_eq!(numbers(payloads(&mut run, durable)), more, "what was lent comes back");
}

#[test]
fn a_group_survives_checkpoints_and_power_cuts() {
    // Broken: a checkpoint forgets whose a group's message is, or a power cut brings settled ones back for good.
    let mut limits = settings();
    limits.limits.checkpoint_bytes = 16 * 1024;
    let mut run = Run::with(limits);
    let mut taken = BTreeSet::new();
    let mut published = BTreeSet::new();
    for round in 0..12u16 {
        let (a, b) = (member(&mut run, "a", false, 1), member(&mut run, "b", round % 3 == 0, 1));
        let (publisher, _) = accepted(&mut run, "publisher", true);
        for n in 1..=20u16 {
            let payload = format!("{round} {n} {}", "x".repeat(700));
            publish(&mut run, publisher, "t", 1, n, payload.as_bytes());
            published.insert(payload);
        }
        for id in [a, b] {
            for got in messages(&mut run, id) {
                let (keeps, packet_id) = (got.payload.len() % 2 == usize::from(round % 2), got.packet_id);
                taken.insert(String::from_utf8(got.payload).expect("text"));
                if keeps {
                    run.send(id, &puback(packet_id));
                }
            }
        }
        let survival = if round % 2 == 0 { Survival::Nothing } else { Survival::Everything };
        run = run.power_cut_with(survival, limits);
    }
    let (a, _) = accepted(&mut run, "a", false);
    taken.extend(take_texts(&mut run, a));
    assert_eq!(taken, published, "every message came to some member");
}

#[test]
fn a_durable_member_makes_its_group_durable() {
    // Broken: what a group of clean sessions holds is lost when a durable session joins, or the broker refuses to start.
    let mut limits = settings();
    limits.limits.inflight = 2;
    let mut run = Run::with(limits);
    let clean = member(&mut run, "clean", true, 1);
    let all = publish_many(&mut run, "t", 1, 6);
    let had = numbers(payloads(&mut run, clean));
    assert_eq!(had.len(), 2);
    let durable = member(&mut run, "durable", false, 1);
    run.break_off(clean);
    let mut got = BTreeSet::new();
    got.extend(take_texts(&mut run, durable));
    assert_eq!(got, all);
    let mut run = run.power_cut_with(Survival::Nothing, limits);
    let (_, present) = accepted(&mut run, "durable", false);
    assert!(present);
}

#[test]
fn a_session_stays_for_its_interval_over_power_cuts() {
    // Broken: a session's expiry starts again with every restart, or a session of interval 0 stays for ever.
    let mut run = Run::new();
    for (client, seconds) in [("short", 10), ("long", 100), ("ever", u32::MAX)] {
        let (id, present) = accepted_5(&mut run, &connect_5(client, true, seconds, None));
        assert!(!present);
        run.break_off(id);
    }
    run.pass_ms(6_000);
    let mut run = run.power_cut(Survival::Nothing);
    run.pass_ms(6_000);
    assert!(!accepted_5(&mut run, &connect_5("short", false, 10, None)).1);
    assert!(accepted_5(&mut run, &connect_5("ever", false, u32::MAX, None)).1);
    let (long, present) = accepted_5(&mut run, &connect_5("long", false, 0, None));
    assert!(present);
    run.break_off(long);
    assert!(!accepted_5(&mut run, &connect_5("long", false, 100, None)).1, "it ended with its connection");
}

#[test]
fn a_delayed_will_comes_once_when_its_delay_is_over() {
    // Broken: a will comes before its delay, twice, or never, because the broker crashed meanwhile. [MQTT5-3.1.2-8]
    // [MQTT5-3.1.3-9]
    let mut run = Run::new();
    let (watcher, _) = accepted(&mut run, "watcher", false);
    subscribe(&mut run, watcher, &[("w/#", 1)]);
    let (ill, _) = accepted_5(&mut run, &connect_5("ill", true, 600, Some((20, "w/ill"))));
    let (back, _) = accepted_5(&mut run, &connect_5("back", true, 600, Some((20, "w/back"))));
    let (brief, _) = accepted_5(&mut run, &connect_5("brief", true, 5, Some((20, "w/brief"))));
    [ill, back, brief].into_iter().for_each(|id| run.break_off(id));
    run.pass_ms(4_000);
    assert!(payloads(&mut run, watcher).is_empty(), "no delay is over");
    let mut run = run.power_cut(Survival::Nothing);
    let (watcher, _) = accepted(&mut run, "watcher", false);
    accepted_5(&mut run, &connect_5("back", false, 600, None));
    run.pass_ms(2_000);
    let topics = |run: &mut Run| messages(run, watcher).into_iter().map(|got| got.topic).collect::<Vec<_>>();
    assert_eq!(topics(&mut run), ["w/brief"], "its session has ended");
    run.pass_ms(30_000);
    assert_eq!(topics(&mut run), ["w/ill"]);
    run.pass_ms(60_000);
    assert!(topics(&mut run).is_empty());
}

#[test]
fn what_nobody_fetches_in_time_is_freed() {
    // Broken: messages that expired fill the memory until their subscriber comes back. [MQTT5-3.3.2-5]
    // In one run; with a restart that reads the records; with one that reads a checkpoint.
    for (ms_until_restart, checkpoint_bytes) in [(None, 0), (Some(20), 0), (Some(3_000), 4096)] {
        let mut settings = settings();
        settings.limits.checkpoint_bytes = checkpoint_bytes;
        let mut run = Run::with(settings);
        let (away, _) = accepted(&mut run, "away", false);
        subscribe(&mut run, away, &[("t", 1)]);
        run.break_off(away);
        let (publisher, _) = accepted_5(&mut run, &connect_5("publisher", true, 0, None));
        let expiring = |retain: u8, id: u8| {
            packet(0x32 | retain, &[&[0, 1, b't', 0, id, 5, 2, 0, 0, 0, 5][..], b"old"].concat())
        };
        run.send(publisher, &expiring(0, 1));
        run.send(publisher, &expiring(1, 2));
        let held = |run: &mut Run| run.broker.statistics().messages;
        assert_eq!(held(&mut run), 2);
        if let Some(ms) = ms_until_restart {
            run.pass_ms(ms);
            run = run.power_cut(Survival::Nothing);
            assert_eq!(run.report.checkpoint.is_some(), checkpoint_bytes > 0, "{:?}", run.report);
            assert_eq!(held(&mut run), 2);
        }
        run.pass_ms(6_000);
        assert_eq!(held(&mut run), 0, "nothing is kept of what has expired");
        let (away, _) = accepted(&mut run, "away", false);
        assert!(payloads(&mut run, away).is_empty());
        assert_eq!(run.broker.statistics().expired, 3, "two in the queue, one retained");
    }
}

#[test]
fn a_receive_maximum_that_was_announced_holds_until_the_connection_ends() {
    // Broken: a client that keeps to what its CONNACK said is disconnected because the operator has lowered the limit.
    let mut run = Run::new();
    let (publisher, _) = accepted_5(&mut run, &connect_5("publisher", false, u32::MAX, None));
    let mut lower = settings();
    lower.limits.received_ids = 1;
    run.input(Input::Reload(Box::new(lower)));
    run.turn();
    let message = |id: u16| packet(0x34, &[&[0, 1, b't'], &id.to_be_bytes()[..], &[0, b'x']].concat());
    for id in 1..=3 {
        run.send(publisher, &message(id));
    }
    assert!(run.closed(publisher).is_none(), "it was told that it may have so many");
    // Nor does what was received on an earlier connection count on the next one.
    let mut run = run.power_cut_with(Survival::Everything, lower);
    let (publisher, present) = accepted_5(&mut run, &connect_5("publisher", false, u32::MAX, None));
    assert!(present);
    run.send(publisher, &message(4));
    assert!(run.closed(publisher).is_none(), "nothing of it is unacknowledged here");
}

#[test]
fn a_group_that_turns_durable_keeps_the_qos_of_its_members() {
    // Broken: a member that was granted QoS 2 gets QoS 1, because one with QoS 1 has made the group durable.
    let mut run = Run::new();
    let exact = member(&mut run, "exact", true, 2);
    let _durable = member(&mut run, "durable", false, 1);
    publish_many(&mut run, "t", 2, 4);
    let levels: Vec<u8> = messages(&mut run, exact).iter().map(|got| got.qos).collect();
    assert!(!levels.is_empty() && levels.iter().all(|qos| *qos == 2), "{levels:?}");
}

#[test]
fn a_member_whose_messages_expired_has_room_for_others() {
    // Broken: what was given to a member and expired before it was sent fills its window for ever; its group stands still.
    let mut narrow = settings();
    narrow.limits.inflight = 3;
    let mut run = Run::with(narrow);
    let member = member(&mut run, "member", false, 2);
    let (publisher, _) = accepted_5(&mut run, &connect_5("publisher", false, u32::MAX, None));
    let brief =
        |id: u16| packet(0x34, &[&[0, 1, b't'], &id.to_be_bytes()[..], &[5, 2, 0, 0, 0, 1, b'x']].concat());
    run.hold_disk = true;
    (1..=3).for_each(|id| run.send(publisher, &brief(id)));
    run.pass_ms(2000);
    run.hold_disk = false;
    run.release_disk();
    assert_eq!(payloads(&mut run, member), Vec::<Vec<u8>>::new(), "they are of no use any more");
    let all = publish_many(&mut run, "t", 2, 3);
    assert_eq!(numbers(payloads(&mut run, member)), all);
}

#[test]
fn who_waits_for_a_message_that_expires_meanwhile_goes_on() {
    // Broken: a message that cannot be read expires before it is tried again, and all behind it stands still for ever.
    let mut settings = settings();
    settings.limits.cache_bytes = 0;
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "subscriber", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    run.break_off(subscriber);
    let (publisher, _) = accepted_5(&mut run, &connect_5("publisher", true, 0, None));
    run.send(publisher, &packet(0x32, &[&[0, 1, b't', 0, 1, 5, 2, 0, 0, 0, 1][..], b"rotten"].concat()));
    run.send(publisher, &packet(0x32, &[&[0, 1, b't', 0, 2, 0][..], b"sound"].concat()));
    let place = run.broker.facts().into_iter().find_map(|fact| match fact {
        Fact::Queued { position, place, .. } if position.0 == 0 => place,
        _ => None,
    });
    let place = place.expect("it is in the log");
    let last = (place.offset + u64::from(place.length)) as usize - 1;
    run.disk.files.get_mut(&place.segment).expect("it is there").written[last] ^= 1;
    run.pass_ms(500);
    let (subscriber, _) = accepted(&mut run, "subscriber", false);
    assert!(payloads(&mut run, subscriber).is_empty(), "the first cannot be read");
    run.pass_ms(1500);
    assert_eq!(payloads(&mut run, subscriber), [b"sound"]);
}

#[test]
fn ones_own_message_has_no_identifier_of_a_subscription_with_no_local() {
    // Broken: a client that goes by identifiers hands its own message to what must not get it. [MQTT-3.8.3-3]
    for qos in 0..2 {
        let mut run = Run::new();
        let (client, _) = accepted_5(&mut run, &connect_5("c", true, 0, None));
        for (id, filter, options) in [(1, "a/#", 4 | qos), (2, "a/+", qos)] {
            let mut body = vec![0, id, 2, 0x0b, id, 0, filter.len() as u8];
            body.extend(filter.as_bytes());
            body.push(options);
            run.send(client, &packet(0x82, &body));
        }
        run.taken(client);
        let id: &[u8] = if qos > 0 { &[0, 9] } else { &[] };
        let published = [&[0, 3][..], b"a/b", id, &[0], b"x"].concat();
        run.send(client, &packet(0x30 | qos << 1, &published));
        let delivered = run.taken(client);
        let publish = delivered.windows(4).find(|bytes| bytes[..2] == [2, 0x0b]);
        assert_eq!(publish.map(|bytes| (bytes[2], bytes[3])), Some((2, b'x')), "{delivered:?}");
    }
}

#[test]
fn what_a_member_has_when_it_leaves_its_group_keeps_its_identifier() {
    // Broken: a client that goes by identifiers knows nobody who wants its message. [MQTT-3.3.4-3]
    for survival in [None, Some(Survival::Nothing)] {
        for qos in 1..=2 {
            let mut run = Run::new();
            let (member, _) = accepted_5(&mut run, &connect_5("member", false, 1000, None));
            let body = [&[0, 1, 2, 0x0b, 7][..], &text("$share/g/t"), &[qos]].concat();
            run.send(member, &packet(0x82, &body));
            publish_many(&mut run, "t", qos, 1);
            assert_eq!(count(&run.taken(member), &[2, 0x0b, 7, b'1']), 1);
            let leaving = [&[0, 2, 0][..], &text("$share/g/t")].concat();
            run.send(member, &packet(0xa2, &leaving));
            run.taken(member);
            run.break_off(member);
            let mut run = match survival {
                Some(survival) => run.power_cut(survival),
                None => run,
            };
            let (_, again) = resume_5(&mut run, "member", 10);
            assert_eq!(count(&again, &[2, 0x0b, 7, b'1']), 1, "QoS {qos}: {again:?}");
        }
    }
}

#[test]
fn a_session_that_ends_with_its_connection_ends_at_a_takeover_too() {
    // Broken: a client is told of a session that its own CONNECT had ended, and its delayed will is lost. (§3.1.2.11.2, §3.1.4)
    for survival in [None, Some(Survival::Nothing)] {
        let mut run = Run::new();
        let (watcher, _) = accepted(&mut run, "watcher", true);
        subscribe(&mut run, watcher, &[("will", 1)]);
        let (first, _) = accepted_5(&mut run, &connect_5("c", false, 1000, None));
        run.break_off(first);
        let (second, present) = accepted_5(&mut run, &connect_5("c", false, 0, Some((60, "will"))));
        assert!(present);
        let (_, present) = accepted_5(&mut run, &connect_5("c", false, 1000, None));
        assert!(!present, "it ended with its connection");
        assert_eq!(run.clause_of_close(second), "[MQTT-3.1.4-2]");
        assert_eq!(payloads(&mut run, watcher), [b"gone"]);
        if let Some(survival) = survival {
            let mut run = run.power_cut(survival);
            let (_, present) = accepted_5(&mut run, &connect_5("c", false, 0, None));
            assert!(present, "the new one stays");
        }
    }
}

/// CONNECT of MQTT 5 that goes on with a session that stays, and takes so many messages at a time.
fn resume_5(run: &mut Run, client: &str, receive_maximum: u16) -> (u64, Vec<u8>) {
    let properties = [&[0x11, 0, 0, 3, 0xe8, 0x21][..], &receive_maximum.to_be_bytes()].concat();
    let id = run.open();
    run.send(id, &packet(0x10, &connect_beginning(client, 0, &properties)));
    let bytes = run.taken(id);
    assert_eq!((bytes[0], bytes[2], bytes[3]), (0x20, 1, 0), "it is resumed: {bytes:?}");
    (id, bytes)
}

fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|found| *found == wanted).count()
}

#[test]
fn what_is_to_be_released_does_not_wait_for_room_in_the_window() {
    // Broken: PUBREL waits for PUBACK. [MQTT5-3.3.4-10]
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "s", false);
    subscribe(&mut run, subscriber, &[("t", 2)]);
    let (publisher, _) = accepted(&mut run, "publisher", true);
    let qos = [1, 2, 2, 1, 2];
    for (id, qos) in (1..).zip(qos) {
        publish(&mut run, publisher, "t", qos, id, b"before");
        run.send(publisher, &pubrel(id));
    }
    assert_eq!(payloads(&mut run, subscriber).len(), qos.len());
    for id in [3, 5] {
        run.send(subscriber, &pubrec(id));
    }
    run.break_off(subscriber);
    let (subscriber, bytes) = resume_5(&mut run, "s", 1);
    assert_eq!(count(&bytes, b"before"), 1, "the window has room for one");
    for id in [3, 5] {
        assert_eq!(count(&bytes, &pubrel(id)), 1, "{bytes:?}");
    }
    // Number 2 was sent on the connection before. Its PUBREC comes ahead of its PUBLISH here.
    run.send(subscriber, &pubrec(2));
    assert_eq!(run.taken(subscriber), pubrel(2));
    for id in [5, 2, 3] {
        run.send(subscriber, &pubcomp(id));
        assert!(run.taken(subscriber).is_empty(), "the window is full as before");
    }
    run.send(subscriber, &puback(1));
    assert_eq!(count(&run.taken(subscriber), b"before"), 1, "number 4");
    publish(&mut run, publisher, "t", 1, 6, b"after");
    assert!(run.taken(subscriber).is_empty());
    run.send(subscriber, &puback(4));
    assert_eq!(count(&run.taken(subscriber), b"after"), 1);
    run.break_off(subscriber);
    let (_, bytes) = resume_5(&mut run, "s", 10);
    assert_eq!((count(&bytes, b"before"), count(&bytes, b"after")), (0, 1), "the others are done with");
}

#[test]
fn a_clean_member_is_told_to_release_when_its_group_has_let_go() {
    // Broken: after a crash another member gets what this one had completed. [MQTT5-4.8.2-5]
    let mut run = Run::new();
    let durable = member(&mut run, "durable", false, 2);
    let clean = member(&mut run, "clean", true, 2);
    run.break_off(durable);
    let all = publish_many(&mut run, "t", 2, 1);
    assert_eq!(numbers(payloads(&mut run, clean)), all);
    run.hold_disk = true;
    run.send(clean, &pubrec(1));
    assert!(run.taken(clean).is_empty(), "the group has it still, if the power goes now");
    run.release_disk();
    assert_eq!(run.taken(clean), pubrel(1));
    let mut run = run.power_cut(Survival::Nothing);
    let (durable, _) = accepted(&mut run, "durable", false);
    assert!(payloads(&mut run, durable).is_empty());
}

#[test]
fn an_assigned_identifier_is_nobodys() {
    // Broken: a client without an identifier of its own gets another one's session. [MQTT5-3.2.2-16]
    let nameless = |run: &mut Run| {
        let id = run.open();
        run.send(id, &connect_5("", false, 1000, None));
        let connack = run.taken(id);
        let at = 1 + connack.iter().position(|byte| *byte == 0x12).expect("it is told its identifier");
        let length = usize::from(u16::from_be_bytes([connack[at], connack[at + 1]]));
        (connack[2], String::from_utf8(connack[at + 2..at + 2 + length].to_vec()).expect("text"))
    };
    let mut run = Run::new();
    accepted(&mut run, "somebody", false);
    let (_, assigned) = nameless(&mut run);
    // The same again, and somebody has that name already.
    let mut run = Run::new();
    let (somebody, _) = accepted(&mut run, &assigned, false);
    let (present, another) = nameless(&mut run);
    assert_eq!(present, 0);
    assert_ne!(another, assigned);
    assert!(run.closed(somebody).is_none());
}

#[test]
fn what_is_sent_after_an_unsubscription_says_by_which_subscription() {
    // Broken: a wide fan-out reaches a client that has just unsubscribed, and says not why. [MQTT-3.3.4-3]
    let mut settings = settings();
    settings.limits.turn_work = 3;
    let mut run = Run::with(settings);
    for other in 0..6 {
        let (id, _) = accepted(&mut run, &format!("other-{other}"), true);
        subscribe(&mut run, id, &[("t", 0)]);
    }
    let (client, _) = accepted_5(&mut run, &connect_5("c", true, 0, None));
    let body = [&[0, 1, 2, 0x0b, 7][..], &text("t"), &[0]].concat();
    run.send(client, &packet(0x82, &body));
    run.taken(client);
    let published = packet(0x30, &[&text("t")[..], &[0], b"x"].concat());
    let unsubscribe = packet(0xa2, &[&[0, 2, 0][..], &text("t")].concat());
    run.send(client, &[published, unsubscribe].concat());
    run.pass_ms(100);
    assert_eq!(count(&run.taken(client), &[2, 0x0b, 7, b'x']), 1);
}

#[test]
fn a_clock_that_is_set_back_gives_no_message_more_time() {
    // Broken: a receiver is told that a message is good for a day, of which its publisher said six seconds.
    // [MQTT-3.3.2-6]
    let mut run = Run::new();
    let (subscriber, _) = accepted_5(&mut run, &connect_5("subscriber", false, u32::MAX, None));
    run.send(subscriber, &packet(0x82, &[&[0, 1, 0][..], &text("t"), &[1]].concat()));
    run.break_off(subscriber);
    let (publisher, _) = accepted_5(&mut run, &connect_5("publisher", true, 0, None));
    run.send(publisher, &packet(0x32, &[&[0, 1, b't', 0, 1, 5, 2, 0, 0, 0, 6][..], b"x"].concat()));
    run.now.wall.0 -= 24 * 3600 * 1000;
    let subscriber = run.open();
    run.send(subscriber, &connect_5("subscriber", false, u32::MAX, None));
    let delivered = run.taken(subscriber);
    let properties = delivered.windows(6).find(|bytes| bytes[..2] == [5, 2]);
    assert_eq!(properties, Some(&[5, 2, 0, 0, 0, 6][..]), "{delivered:?}");
}
