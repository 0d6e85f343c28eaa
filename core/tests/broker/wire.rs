//! The wire: frames with their expected outcome (corpus/wire), any bytes at all, and both codecs against each other.
//!
//! A case is sent to a fresh broker: "open" on a connection that has sent nothing, "connected" behind a CONNECT that
//! was accepted. `close` expects the end with that clause and not one byte; `connack` that return code and the end;
//! `reply` exactly these bytes and an open connection. Of MQTT 5 `accepted` expects CONNACK; `refused` CONNACK and `goodbye`
//! DISCONNECT with that reason code and the end, `because` of that clause.

use crate::support::packets::*;
use crate::support::{Run, settings};
use bytes::BytesMut;
use mqttbytes::QoS as Level;
use mqttbytes::v4::{self, LastWill, Packet as Theirs};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use vowmq_core::mqtt::packet::frame::{self, Framed};
use vowmq_core::mqtt::packet::publish;
use vowmq_core::mqtt::packet::{
    AckKind, Connect, ConnectReturnCode, Disconnect, Packet, PacketId, ProtocolLevel, Violation, connack,
};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/wire")
}

struct Case {
    title: String,
    /// The CONNECT before it.
    connected: Option<&'static [u8]>,
    bytes: Vec<u8>,
    expect: Expect,
}

const CONNECT_3: &[u8] = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04case";
const CONNECT_5: &[u8] = b"\x10\x11\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x04case";

#[derive(Debug)]
enum Expect {
    Close(String),
    ConnAck(u8),
    Reply(Vec<u8>),
    /// MQTT 5: CONNACK that accepts.
    Accepted,
    /// MQTT 5: CONNACK or DISCONNECT with a reason code, and the rule that the log names.
    Told {
        packet: u8,
        reason: u8,
        because: String,
    },
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_else(|| panic!("no {field:?} in {case}"))
}

fn from_hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits")).collect()
}

fn cases() -> Vec<Case> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(corpus())
        .expect("corpus/wire")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file()) // the folder amqp is read by its own test
        .collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let list: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a file")).expect("valid JSON");
        cases.extend(list.iter().map(|case| read_case(&file, case)));
    }
    cases
}

fn read_case(file: &str, case: &Value) -> Case {
    let expect = &case["expect"];
    let expect = match (expect["close"].as_str(), expect["connack"].as_u64(), expect["reply"].as_str()) {
        (Some(clause), None, None) => Expect::Close(clause.into()),
        (None, Some(code), None) => Expect::ConnAck(code.try_into().expect("a return code")),
        (None, None, Some(hex)) => Expect::Reply(from_hex(hex)),
        _ if expect["accepted"] == true => Expect::Accepted,
        _ => {
            let told = |field: &str| expect[field].as_u64().map(|code| u8::try_from(code).expect("a code"));
            let (packet, reason) = match (told("refused"), told("goodbye")) {
                (Some(reason), None) => (0x20, reason),
                (None, Some(reason)) => (0xe0, reason),
                _ => panic!("one expectation: {case}"),
            };
            Expect::Told { packet, reason, because: text(expect, "because").into() }
        }
    };
    let connected = match text(case, "after") {
        "open" => None,
        "connected" => Some(CONNECT_3),
        "connected with MQTT 5" => Some(CONNECT_5),
        other => panic!("unknown state {other:?}"),
    };
    let (name, why, clause) = (text(case, "name"), text(case, "why"), text(case, "clause"));
    let title = format!("corpus/wire/{file}.json {name:?} ({why}) {clause}");
    Case { title, connected, bytes: from_hex(text(case, "hex")), expect }
}

/// Sends the case in pieces of `chunk` bytes beside another connection, which must not notice.
fn check(case: &Case, chunk: usize) {
    let title = format!("{} in pieces of {chunk}", case.title);
    let mut run = Run::new();
    let (beside, _) = accepted(&mut run, "beside", true);
    let id = run.open();
    if let Some(connect) = case.connected {
        run.send(id, connect);
        assert_eq!(run.taken(id)[0], 0x20, "{title}: CONNACK");
    }
    case.bytes.chunks(chunk).for_each(|piece| run.send(id, piece));
    let sent = run.taken(id);
    match &case.expect {
        Expect::Close(clause) => {
            assert!(sent.is_empty(), "{title}: something was sent: {sent:?}");
            let reason = run.closed(id).unwrap_or_else(|| panic!("{title}: not closed"));
            assert_eq!(reason.clause, clause, "{title}");
            assert!(reason.to_string().contains(clause), "{title}: the log line names the clause");
        }
        Expect::ConnAck(code) => {
            assert_eq!(sent, [0x20, 2, 0, *code], "{title}");
            assert!(run.closed(id).is_some(), "{title}: not closed");
        }
        Expect::Accepted => {
            assert_eq!((sent[0], sent[3]), (0x20, 0), "{title}: {sent:?}");
            assert!(run.closed(id).is_none(), "{title}: closed: {:?}", run.closed(id));
        }
        Expect::Told { packet, reason, because } => {
            assert_eq!(sent[0], *packet, "{title}: {sent:?}");
            assert_eq!(sent[if *packet == 0x20 { 3 } else { 2 }], *reason, "{title}: {sent:?}");
            let closed = run.closed(id).unwrap_or_else(|| panic!("{title}: not closed"));
            assert_eq!(closed.clause, because, "{title}");
        }
        Expect::Reply(bytes) => {
            assert_eq!(&sent, bytes, "{title}");
            assert!(run.closed(id).is_none(), "{title}: closed: {:?}", run.closed(id));
        }
    }
    run.send(beside, &[0xc0, 0]);
    assert_eq!(run.taken(beside), [0xd0, 0], "{title}: another connection suffers");
    assert!(run.closed(beside).is_none(), "{title}: another connection is closed");
}

#[test]
fn every_frame_of_the_corpus_has_its_outcome() {
    // Broken: malformed or forbidden input is accepted, valid input refused, or it hurts another connection
    // [MQTT-4.8.0-1], [MQTT-3.1.4-1]; or plain MQTT is not enough to be served [MQTT-7.0.0-2].
    let cases = cases();
    assert!(cases.len() >= 80, "{} cases were found", cases.len());
    for case in &cases {
        check(case, usize::MAX);
    }
}

#[test]
fn every_frame_of_the_corpus_has_its_outcome_byte_by_byte() {
    // Broken: what a packet means depends on how the network cut it. [MQTT-7.1.1-1]
    for case in &cases() {
        check(case, 1);
    }
}

#[test]
fn every_rule_has_a_frame_that_breaks_it() {
    // Broken: a rule that no frame of the corpus breaks may never be enforced.
    let cases = cases();
    for violation in Violation::ALL.iter().filter(|violation| **violation != Violation::AckOfWrongKind) {
        let broken = |case: &Case| matches!(&case.expect, Expect::Close(clause) | Expect::Told { because: clause, .. } if clause == violation.clause());
        // Those of filters are told by SUBACK; counted ones, and those of exchanges, have tests of their own.
        let otherwise = [
            Violation::SharedName,
            Violation::SharedNameWildcard,
            Violation::ReceiveMaximum,
            Violation::OtherThanAuth,
            Violation::AuthWithoutMethod,
            Violation::AuthOtherMethod,
            Violation::AuthOutOfTurn,
        ];
        assert!(
            cases.iter().any(broken) || otherwise.contains(violation),
            "no case expects {}",
            violation.clause()
        );
    }
}

/// Bytes that look like packets often enough.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        4 => prop::sample::select(vec![0x10u8, 0x30, 0x31, 0x32, 0x34, 0x35, 0x3d, 0x40, 0x50, 0x62, 0x70, 0x82, 0xa2]),
        1 => any::<u8>()
    ];
    let word = prop_oneof![Just(b"MQTT".to_vec()), "[a/+#$]{0,4}".prop_map(String::into_bytes)];
    let field = prop_oneof![
        word.prop_map(|word| [&(word.len() as u16).to_be_bytes()[..], &word].concat()),
        prop::collection::vec(any::<u8>(), 0..4),
        Just(vec![4, 2, 0, 60]),
        Just(vec![0, 1]),
        Just(vec![1]),
    ];
    let body = prop::collection::vec(field, 0..6).prop_map(|fields| fields.concat());
    let frame = (first, body).prop_map(|(first, body)| packet(first, &body));
    let raw = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop_oneof![4 => frame, 1 => raw], 1..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // Broken: a client can stop the broker with bytes, or reach another connection with them.
    #[test]
    fn no_bytes_harm_the_broker(bytes in stream(), connected: bool, durable: bool, cuts in prop::collection::vec(1usize..20, 1..20)) {
        let mut settings = settings();
        settings.limits.turn_work = 3;
        let mut run = Run::with(settings);
        let (beside, _) = accepted(&mut run, "beside", true);
        let id = if connected { accepted(&mut run, "any", !durable).0 } else { run.open() };
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            run.send(id, now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        run.break_off(id);
        prop_assert!(run.halt.is_none());
        run.send(beside, &[0xc0, 0]);
        prop_assert!(run.taken(beside).ends_with(&[0xd0, 0]));
        prop_assert!(run.closed(beside).is_none());
        let _ = run.power_cut(crate::support::disk::Survival::Nothing);
    }

    // Broken: cutting the stream at other places changes what is answered.
    #[test]
    fn cuts_change_nothing(bytes in stream(), cut in any::<prop::sample::Index>()) {
        let answer = |pieces: [&[u8]; 2]| {
            let mut run = Run::new();
            let (id, _) = accepted(&mut run, "any", true);
            pieces.into_iter().filter(|piece| !piece.is_empty()).for_each(|piece| run.send(id, piece));
            (run.taken(id), run.closed(id).map(|reason| reason.clause))
        };
        let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
        let (whole, cut) = (answer([&bytes, &[]]), answer([left, right]));
        prop_assert_eq!(whole.1, cut.1);
        // Answers that still wait for the disk when the connection ends go with it.
        prop_assert!(cut.0.starts_with(&whole.0), "{:?} and {:?}", whole.0, cut.0);
    }

    // Broken: CONNECT of other programs is misread.
    #[test]
    fn reads_connect_as_others_write_it(
        client in "[a-z0-9é]{1,30}", clean: bool, keep_alive: u16,
        will in prop::option::of(("[a-z/]{1,9}", prop::collection::vec(any::<u8>(), 0..40), 0u8..3, any::<bool>())),
        login in prop::option::of(("[a-z]{1,9}", "[ -~]{1,9}")),
    ) {
        let mut theirs = v4::Connect::new(client.clone());
        theirs.clean_session = clean;
        theirs.keep_alive = keep_alive;
        theirs.last_will = will.clone().map(|(topic, payload, qos, retain)| LastWill::new(topic, payload, level(qos), retain));
        if let Some((name, password)) = &login {
            theirs.set_login(name.clone(), password.clone());
        }
        let bytes = encode_connect(&theirs);
        let Packet::Connect(Connect { level, clean_session, keep_alive_s, client_id, will: ours, user_name, password, .. }) =
            decode(&bytes) else { panic!("not CONNECT") };
        prop_assert_eq!((level, clean_session, keep_alive_s, client_id), (Ok(ProtocolLevel::V3_1_1), clean, keep_alive, &*client));
        let ours = ours.map(|w| (w.topic.as_str().to_owned(), w.payload.to_vec(), w.qos as u8, w.retain));
        prop_assert_eq!(ours, will);
        let ours = user_name.zip(password).map(|(name, password)| (name.to_owned(), password.to_vec()));
        prop_assert_eq!(ours, login.map(|(name, password)| (name, password.into_bytes())));
    }

    // Broken: PUBLISH of other programs is misread, or ours are.
    #[test]
    fn publish_reads_the_same_in_both_codecs(
        topic in "[a-z/é]{1,20}", payload in prop::collection::vec(any::<u8>(), 0..300), qos in 0u8..3, id in 1u16..,
        dup: bool, retain: bool,
    ) {
        let dup = dup && qos > 0; // [MQTT-3.3.1-2]
        let mut theirs = v4::Publish::new(topic.clone(), level(qos), payload.clone());
        (theirs.pkid, theirs.dup, theirs.retain) = (if qos > 0 { id } else { 0 }, dup, retain);
        let mut bytes = BytesMut::new();
        theirs.write(&mut bytes).expect("a valid packet");
        let Packet::Publish(ours) = decode(&bytes) else { panic!("not PUBLISH") };
        prop_assert_eq!((ours.topic.expect("a topic").as_str(), ours.payload, ours.dup, ours.retain), (&*topic, &*payload, dup, retain));
        prop_assert_eq!(ours.delivery.qos() as u8, qos);
        prop_assert_eq!(ours.delivery.packet_id().map(PacketId::get), (qos > 0).then_some(id));
        let mut written = BytesMut::new();
        publish::put_header(&mut written, topic.as_bytes(), ours.delivery, dup, retain, payload.len());
        written.extend_from_slice(&payload);
        prop_assert_eq!(v4::read(&mut written, 1 << 20), Ok(Theirs::Publish(theirs)));
    }

    // Broken: SUBSCRIBE or UNSUBSCRIBE of other programs is misread.
    #[test]
    fn reads_subscriptions_as_others_write_them(
        filters in prop::collection::vec(("([a-z]{1,3}/|[+]/){0,3}([a-z]{1,5}|#|[+])", 0u8..3), 1..6), id in 1u16..,
    ) {
        let theirs = filters.iter().map(|(path, qos)| v4::SubscribeFilter::new(path.clone(), level(*qos)));
        let mut theirs = v4::Subscribe::new_many(theirs);
        theirs.pkid = id;
        let mut bytes = BytesMut::new();
        theirs.write(&mut bytes).expect("a valid packet");
        let Packet::Subscribe(ours) = decode(&bytes) else { panic!("not SUBSCRIBE") };
        prop_assert_eq!(ours.packet_id.get(), id);
        let read: Vec<_> = ours.filters.iter().map(|(filter, qos)| (filter.expect("valid").as_str().to_owned(), qos.qos as u8)).collect();
        prop_assert_eq!(&read, &filters);
        let mut theirs = v4::Unsubscribe::new(filters[0].0.clone());
        theirs.topics = filters.iter().map(|(path, _)| path.clone()).collect();
        theirs.pkid = id;
        let mut bytes = BytesMut::new();
        theirs.write(&mut bytes).expect("a valid packet");
        let Packet::Unsubscribe(ours) = decode(&bytes) else { panic!("not UNSUBSCRIBE") };
        let read: Vec<_> = ours.filters.iter().map(|filter| filter.expect("valid").as_str()).collect();
        prop_assert_eq!((ours.packet_id.get(), read), (id, filters.iter().map(|(path, _)| &**path).collect()));
    }

    // Broken: acknowledgements mean something else to other programs.
    #[test]
    fn acknowledgements_read_the_same_in_both_codecs(id in 1u16..) {
        let ours = PacketId::new(id).expect("not 0");
        let theirs = [
            (AckKind::PubAck, Theirs::PubAck(v4::PubAck::new(id))),
            (AckKind::PubRec, Theirs::PubRec(v4::PubRec::new(id))),
            (AckKind::PubRel, Theirs::PubRel(v4::PubRel::new(id))),
            (AckKind::PubComp, Theirs::PubComp(v4::PubComp::new(id))),
            (AckKind::UnsubAck, Theirs::UnsubAck(v4::UnsubAck::new(id))),
        ];
        for (kind, theirs) in theirs {
            let bytes = kind.encode(ours);
            if kind != AckKind::UnsubAck {
                prop_assert_eq!(decode(&bytes), Packet::Ack(kind, ours, false)); // only servers send UNSUBACK
            }
            prop_assert_eq!(v4::read(&mut BytesMut::from(&bytes[..]), 100), Ok(theirs));
        }
    }

    // Broken: the return codes of SUBACK mean something else to other programs. [MQTT-3.9.3-2]
    #[test]
    fn suback_reads_as_written(id in 1u16.., codes in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0x80]), 1..200)) {
        let mut bytes = Vec::new();
        frame::put_codes(&mut bytes, 0x90, PacketId::new(id).expect("not 0"), &codes, ProtocolLevel::V3_1_1);
        let read = v4::read(&mut BytesMut::from(&bytes[..]), 1000).expect("valid");
        let Theirs::SubAck(ack) = read else { panic!("not SUBACK") };
        let read: Vec<u8> = ack.return_codes.iter().map(|code| match code {
            v4::SubscribeReasonCode::Success(qos) => *qos as u8,
            v4::SubscribeReasonCode::Failure => 0x80,
        }).collect();
        prop_assert_eq!((ack.pkid, read), (id, codes));
    }

    // Broken: a length is misread, or a packet's end found in the wrong place.
    #[test]
    fn any_bytes_are_framed_as_others_frame_them(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        match (frame::parse(&bytes), mqttbytes::check(bytes.iter(), 1 << 30)) {
            (Ok(Framed::Whole(_, used)), Ok(header)) => prop_assert_eq!(used, header.frame_length()),
            (Ok(Framed::Partial { needs, .. }), Err(mqttbytes::Error::InsufficientBytes(more))) => {
                prop_assert!(needs >= bytes.len() + more || bytes.len() < 2);
            }
            (Err(Violation::RemainingLengthTooLong), Err(mqttbytes::Error::MalformedRemainingLength)) => {}
            (ours, theirs) => prop_assert!(false, "{ours:?} and {theirs:?}"),
        }
    }
}

#[test]
fn connack_and_the_packets_without_fields_read_the_same_in_both_codecs() {
    // Broken: a client takes an acceptance for a refusal, or a session for none.
    for (code, theirs) in [
        (ConnectReturnCode::Accepted, v4::ConnectReturnCode::Success),
        (ConnectReturnCode::UnacceptableProtocolVersion, v4::ConnectReturnCode::RefusedProtocolVersion),
        (ConnectReturnCode::IdentifierRejected, v4::ConnectReturnCode::BadClientId),
        (ConnectReturnCode::ServerUnavailable, v4::ConnectReturnCode::ServiceUnavailable),
    ] {
        for present in [false, true] {
            let mut bytes = BytesMut::from(&connack::encode(code, present)[..]);
            let Ok(Theirs::ConnAck(ack)) = v4::read(&mut bytes, 10) else { panic!("not CONNACK") };
            // [MQTT-3.2.2-4]
            let expected = present && code == ConnectReturnCode::Accepted;
            assert_eq!((ack.code, ack.session_present), (theirs, expected));
        }
    }
    assert_eq!(decode(&[0xc0, 0]), Packet::PingRequest);
    assert_eq!(decode(&[0xe0, 0]), Packet::Disconnect(Disconnect::default()));
}

fn level(qos: u8) -> Level {
    mqttbytes::qos(qos).expect("0 to 2")
}

fn decode(bytes: &[u8]) -> Packet<'_> {
    let Ok(Framed::Whole(frame, used)) = frame::parse(bytes) else { panic!("not a whole packet") };
    assert_eq!(used, bytes.len());
    Packet::decode(frame, ProtocolLevel::V3_1_1).expect("a valid packet")
}
