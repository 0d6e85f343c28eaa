//! MQTT 5, byte for byte: what the broker sends and takes where a client asks for something unusual.

use crate::support::packets::*;
use crate::support::{Run, settings};

/// A string with its length before it.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// What has its length before it in one to four bytes.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut length = bytes.len();
    while length > 127 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [&out[..], bytes].concat()
}

/// CONNECT of a clean session with these properties.
fn connect_with(client: &str, properties: &[u8]) -> Vec<u8> {
    packet(0x10, &[&text("MQTT")[..], &[5, 2, 0, 0], &counted(properties), &text(client)].concat())
}

/// A client with these properties.
fn connected_with(run: &mut Run, client: &str, properties: &[u8]) -> u64 {
    let id = run.open();
    run.send(id, &connect_with(client, properties));
    let connack = run.taken(id);
    assert_eq!((connack[0], connack[3]), (0x20, 0), "{connack:?}");
    id
}

fn subscribe_with(packet_id: u8, properties: &[u8], filters: &[&str]) -> Vec<u8> {
    let filters: Vec<u8> = filters.iter().flat_map(|filter| [&text(filter)[..], &[0]].concat()).collect();
    packet(0x82, &[&[0, packet_id][..], &counted(properties), &filters].concat())
}

#[test]
fn whatever_an_authentication_method_is_called_it_is_refused() {
    // Broken: one packet of somebody unknown ends the broker. [MQTT-4.12.0-1]
    for method in ["SCRAM".to_owned(), "\u{1}".repeat(20_000), "é".repeat(32_767)] {
        let mut run = Run::with({
            let mut settings = settings();
            settings.limits.connect_bytes = 20_000;
            settings.limits.packet_bytes = 20_000;
            settings
        });
        let method = &method[..method.len().min(19_900)];
        let id = run.open();
        run.send(id, &connect_with("c", &[&[0x15][..], &text(method)].concat()));
        let connack = run.taken(id);
        let reason = connack.iter().position(|byte| *byte == 0x8c);
        assert!(connack.len() < 1200 && reason.is_some_and(|at| at < 6), "{connack:?}");
        assert!(run.closed(id).is_some_and(|reason| reason.to_string().len() < 400));
    }
}

#[test]
fn a_delay_of_nothing_is_no_property_of_what_is_published() {
    // Broken: the will of one client makes its subscribers close their connections. (MQTT 5 §3.3.2.3)
    let mut run = Run::new();
    let subscriber = connected_with(&mut run, "subscriber", &[]);
    run.send(subscriber, &subscribe_with(1, &[], &["w"]));
    run.taken(subscriber);
    let will = [&[5, 0x18, 0, 0, 0, 0][..], &text("w"), &text("gone")].concat();
    let connect = [&text("MQTT")[..], &[5, 0x06, 0, 0, 0], &text("dying"), &will].concat();
    let dying = run.open();
    run.send(dying, &packet(0x10, &connect));
    run.break_off(dying);
    assert_eq!(run.taken(subscriber), packet(0x30, &[&text("w")[..], &[0], b"gone"].concat()));
}

#[test]
fn nothing_is_larger_than_the_client_takes() {
    // Broken: a small device gets packets that it cannot hold. [MQTT-3.1.2-24], [MQTT-3.2.2-19]
    let most = |bytes: u8| [0x27, 0, 0, 0, bytes];
    for bytes in 1..40 {
        // Whatever happens to it.
        for properties in [most(bytes).to_vec(), [&most(bytes)[..], &[0x15][..], &text("UNKNOWN")].concat()] {
            let mut run = Run::new();
            let id = run.open();
            run.send(id, &connect_with("", &properties));
            let answer = run.taken(id);
            assert!(answer.len() <= usize::from(bytes), "{bytes}: {answer:?}");
            if answer.get(3) == Some(&0) {
                let filters: Vec<String> = (0..40).map(|n| format!("filter/{n}")).collect();
                let filters: Vec<&str> = filters.iter().map(|filter| &**filter).collect();
                run.send(id, &subscribe_with(1, &[], &filters));
                let answer = run.taken(id);
                assert!(answer.len() <= usize::from(bytes) && answer[0] == 0xe0, "{bytes}: {answer:?}");
                assert!(run.closed(id).is_some());
            }
        }
    }
    let mut run = Run::new();
    let id = connected_with(&mut run, "c", &most(60));
    run.send(id, &subscribe_with(1, &[], &["a", "b"]));
    assert_eq!(run.taken(id), [0x90, 5, 0, 1, 0, 0, 0]);
    assert!(run.closed(id).is_none());
}

#[test]
fn an_identifier_comes_once_for_each_subscription_that_matches() {
    // Broken: a client cannot tell how many of its subscriptions a message is for. (MQTT 5 §3.3.4)
    let mut run = Run::new();
    let id = connected_with(&mut run, "c", &[]);
    run.send(id, &subscribe_with(1, &[0x0b, 9], &["t/+", "t/#"]));
    run.send(id, &subscribe_with(2, &[0x0b, 3], &["t/a"]));
    run.taken(id);
    run.send(id, &packet(0x30, &[&text("t/a")[..], &[0], b"x"].concat()));
    assert_eq!(
        run.taken(id),
        packet(0x30, &[&text("t/a")[..], &[6, 0x0b, 3, 0x0b, 9, 0x0b, 9], b"x"].concat())
    );
}

#[test]
fn a_length_takes_as_few_bytes_as_it_can() {
    // Broken: what one reads as one packet, another refuses. [MQTT-1.5.5-1]
    let mut run = Run::new();
    let id = connected_with(&mut run, "c", &[]);
    run.send(id, &[0xc0, 0x80, 0x00]);
    assert!(run.closed(id).is_some());
    let mut long = connect_with("c", &[]);
    long.splice(1..2, [long[1] | 0x80, 0]);
    let id = run.open();
    run.send(id, &long);
    assert_eq!(run.taken(id)[3], 0x81);
    // MQTT 3.1.1 does not say so.
    let (id, _) = accepted(&mut run, "old", true);
    run.send(id, &[0xc0, 0x80, 0x00]);
    assert_eq!(run.taken(id), [0xd0, 0]);
}

#[test]
fn who_publishes_to_nobody_is_told() {
    // Broken: a publisher cannot see that it has a wrong topic. (MQTT 5 §3.4.2.1, §3.5.2.1)
    let mut run = Run::new();
    let id = connected_with(&mut run, "c", &[]);
    for (qos, answer) in [(0x32, 0x40), (0x34, 0x50)] {
        run.send(id, &packet(qos, &[&text("t")[..], &[0, 1, 0], b"x"].concat()));
        assert_eq!(run.taken(id), [answer, 3, 0, 1, 0x10]);
    }
}

#[test]
fn many_filters_cost_no_more_than_one_by_one() {
    // Broken: one packet keeps the broker busy for seconds. (The work, not the time, is what can be counted here: it would
    // take minutes if every filter were compared with every other one.)
    let mut settings = settings();
    settings.segment_bytes = 16 << 20;
    settings.limits.packet_bytes = 4 << 20;
    settings.limits.subscriptions = 200_000;
    let mut run = Run::with(settings);
    let id = connected_with(&mut run, "c", &[]);
    let filters: Vec<String> = (0..50_000).map(|n| format!("{n}")).collect();
    let filters: Vec<&str> = filters.iter().map(|filter| &**filter).collect();
    run.send(id, &subscribe_with(1, &[], &filters));
    assert!(run.taken(id).len() > 50_000);
    run.send(id, &subscribe_with(2, &[], &filters));
    assert!(run.taken(id).len() > 50_000);
    let names: Vec<u8> = filters.iter().flat_map(|filter| text(filter)).collect();
    run.send(id, &packet(0xa2, &[&[0, 3, 0][..], &names].concat()));
    let unsuback = run.taken(id);
    assert!(unsuback.len() > 50_000 && unsuback[7..].iter().all(|code| *code == 0));
}
