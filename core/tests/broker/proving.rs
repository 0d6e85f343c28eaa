//! Clients that prove who they are, before they may do anything and again later. The driver's part is played by the tests.

use crate::support::packets::*;
use crate::support::{Run, settings};
use vowmq_core::access::{Access, Credentials, Verdict};
use vowmq_core::ids::ConnectionId;
use vowmq_core::input::{CloseCause, Input, Protocol};
use vowmq_core::mqtt::packet::Violation;
use vowmq_core::output::CloseKind;

const METHOD: &str = "SCRAM-SHA-256";

fn with_users(or_anonymous: bool) -> Run {
    let mut settings = settings();
    settings.access = Access::Users { or_anonymous };
    Run::with(settings)
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// CONNECT with a clean session, and name and password as they are given.
fn connect_bytes(level: u8, client: &str, user: Option<&str>, password: Option<&str>) -> Vec<u8> {
    let flags = 2 | u8::from(user.is_some()) << 7 | u8::from(password.is_some()) << 6;
    let mut body = [&text("MQTT")[..], &[level, flags, 0, 0]].concat();
    if level == 5 {
        body.push(0);
    }
    body.extend(text(client));
    user.iter().chain(&password).for_each(|field| body.extend(text(field)));
    packet(0x10, &body)
}

fn method_and_data(method: &str, data: &str) -> Vec<u8> {
    [&[21][..], &text(method), &[22], &text(data)].concat()
}

/// CONNECT of MQTT 5 that begins an exchange.
fn connect_by_exchange(client: &str, method: &str, data: &str, more: &[u8]) -> Vec<u8> {
    let properties = [more, &method_and_data(method, data)].concat();
    let head = [&text("MQTT")[..], &[5, 2, 0, 0, properties.len() as u8]].concat();
    packet(0x10, &[head, properties, text(client)].concat())
}

fn auth_bytes(reason: u8, method: &str, data: &str) -> Vec<u8> {
    let properties = method_and_data(method, data);
    packet(0xf0, &[&[reason, properties.len() as u8][..], &properties].concat())
}

fn opened(run: &mut Run, connect: &[u8]) -> u64 {
    let id = run.open();
    run.send(id, connect);
    id
}

/// What the driver was asked about this connection.
fn asked(run: &mut Run, id: u64) -> Credentials {
    let at = run.asked.iter().position(|(connection, _)| connection.0 == id).expect("the driver is asked");
    run.asked.remove(at).1
}

fn answer(run: &mut Run, id: u64, verdict: Verdict) {
    run.input(Input::Verified { connection: ConnectionId(id), verdict });
}

fn proven(user: &str, data: &str) -> Verdict {
    Verdict::Proven { user: user.to_owned(), data: data.into() }
}

fn refused() -> Verdict {
    Verdict::Refused { why: "the password is wrong".into() }
}

fn kind_of_close(run: &Run, id: u64) -> CloseKind {
    run.closed(id).expect("it is closed").kind
}

/// An exchange of two steps that is over; what the client was sent at its end.
fn exchanged(run: &mut Run, client: &str) -> (u64, Vec<u8>) {
    let id = opened(run, &connect_by_exchange(client, METHOD, "first", &[]));
    asked(run, id);
    answer(run, id, Verdict::GoesOn { state: b"state".to_vec(), data: b"challenge".to_vec() });
    run.taken(id);
    run.send(id, &auth_bytes(0x18, METHOD, "last"));
    asked(run, id);
    answer(run, id, proven("alice", "signature"));
    let connack = run.taken(id);
    assert_eq!((connack[0], connack[3]), (0x20, 0));
    (id, connack)
}

#[test]
fn nothing_is_handled_before_the_driver_has_answered() {
    // Broken: who does not know the password subscribes all the same, or a client that does is never let in.
    for level in [4, 5] {
        let mut run = with_users(false);
        let id = opened(&mut run, &connect_bytes(level, "c", Some("alice"), Some("secret")));
        let password = Credentials::Password { user: "alice".to_owned(), password: b"secret".to_vec() };
        assert_eq!(asked(&mut run, id), password);
        assert_eq!(run.paused.get(&id), None, "it is read on, or nobody would see it go");
        run.send(id, &packet(0xc0, &[]));
        assert_eq!(
            (run.taken(id), run.paused.get(&id)),
            (vec![], Some(&true)),
            "nothing yet, and no more is read"
        );
        answer(&mut run, id, proven("alice", ""));
        let answers = run.taken(id);
        assert_eq!((answers[0], answers[3]), (0x20, 0));
        assert_eq!((&answers[answers.len() - 2..], run.paused.get(&id)), (&[0xd0, 0][..], Some(&false)));
    }
}

#[test]
fn who_is_refused_takes_nothing_from_the_client_of_that_name() {
    // Broken: a wrong password ends the connection, or the session, of the client that has the right one.
    for (level, code) in [(4, 4), (5, 0x86)] {
        let mut run = with_users(false);
        let real = opened(&mut run, &connect_bytes(level, "c", Some("alice"), Some("secret")));
        answer(&mut run, real, proven("alice", ""));
        run.taken(real);
        let other = opened(&mut run, &connect_bytes(level, "c", Some("alice"), Some("guess")));
        answer(&mut run, other, refused());
        let connack = run.taken(other);
        assert_eq!((connack[0], connack[2], connack[3]), (0x20, 0, code));
        assert_eq!(kind_of_close(&run, other), CloseKind::Unauthorized);
        assert!(run.closed(real).is_none());
        assert_eq!(run.broker.statistics().logins_refused, 1);
        // A later answer to the same question is nobody's.
        answer(&mut run, other, proven("alice", ""));
        assert!(run.closed(real).is_none() && run.taken(other).is_empty());
    }
}

#[test]
fn who_says_nothing_is_let_in_only_where_that_is_allowed() {
    for (level, code) in [(4, 5), (5, 0x87)] {
        let mut run = with_users(false);
        let id = opened(&mut run, &connect_bytes(level, "c", None, None));
        assert_eq!((run.taken(id)[3], kind_of_close(&run, id)), (code, CloseKind::Unauthorized));
        let mut run = with_users(true);
        let id = opened(&mut run, &connect_bytes(level, "c", None, None));
        assert_eq!((run.taken(id)[3], run.asked.len()), (0, 0));
        // A name is not to be had without its password.
        let named = opened(&mut run, &connect_bytes(level, "d", Some("alice"), None));
        let nothing = Credentials::Password { user: "alice".to_owned(), password: Vec::new() };
        assert_eq!(asked(&mut run, named), nothing);
    }
}

#[test]
fn what_a_client_sent_before_it_went_away_counts_once_it_is_proven() {
    // Broken: a device that connects, publishes and goes loses its message where passwords are checked.
    for (verdict, arrives) in [(proven("alice", ""), 1), (refused(), 0)] {
        let mut run = with_users(true);
        let (reader, _) = accepted(&mut run, "reader", true);
        subscribe(&mut run, reader, &[("t", 1)]);
        let login = connect_bytes(4, "c", Some("alice"), Some("secret"));
        let bytes = [login, publish_bytes("t", 1, 1, b"m", false, false), packet(0xe0, &[])].concat();
        let id = opened(&mut run, &bytes);
        run.input(Input::Closed { connection: ConnectionId(id), cause: CloseCause::EndOfStream });
        assert!(payloads(&mut run, reader).is_empty() && run.closed(id).is_none());
        answer(&mut run, id, verdict);
        assert_eq!(payloads(&mut run, reader).len(), arrives);
        assert!(run.closed(id).is_some() && run.broker.statistics().connections == 1);
    }
}

#[test]
fn a_driver_that_never_answers_keeps_no_connection() {
    // Broken: who came in time is told nothing, or that it came too late.
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_bytes(4, "c", Some("alice"), Some("secret")));
    let amqp = started(&mut run, "PLAIN", b"\0alice\0secret");
    run.pass_ms(11_000);
    assert_eq!((run.taken(id)[3], kind_of_close(&run, id)), (3, CloseKind::Unavailable));
    assert_eq!(run.taken(amqp)[7..13], [0, 10, 0, 50, 1, 250], "Close with 506");
    answer(&mut run, id, proven("alice", ""));
    answer(&mut run, amqp, proven("alice", ""));
    assert_eq!((run.broker.statistics().sessions, run.broker.statistics().connections), (0, 0));
}

#[test]
fn who_goes_and_has_sent_nothing_else_is_not_waited_for() {
    // Broken: whoever opens connections and lets them go keeps the driver busy, and connections in memory.
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_bytes(4, "c", Some("alice"), Some("secret")));
    run.break_off(id);
    assert!(run.closed(id).is_some() && run.broker.statistics().connections == 0);
    answer(&mut run, id, proven("alice", ""));
    assert_eq!(run.broker.statistics().sessions, 0);
}

#[test]
fn where_nobody_can_look_the_client_is_told_to_try_again() {
    for (level, code) in [(4, 3), (5, 0x88)] {
        let mut run = with_users(false);
        let id = opened(&mut run, &connect_bytes(level, "c", Some("alice"), Some("secret")));
        answer(&mut run, id, Verdict::Unavailable { why: "too many logins at once" });
        assert_eq!((run.taken(id)[3], kind_of_close(&run, id)), (code, CloseKind::Unavailable));
    }
}

#[test]
fn an_exchange_goes_its_steps() {
    // [MQTT5-4.12.0-2], [MQTT5-4.12.0-5]
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[]));
    let step = |state: Option<&str>, data: &str| Credentials::Step {
        method: METHOD.to_owned(),
        state: state.map(|state| state.into()),
        data: data.into(),
    };
    assert_eq!(asked(&mut run, id), step(None, "first"));
    answer(&mut run, id, Verdict::GoesOn { state: b"state".to_vec(), data: b"challenge".to_vec() });
    assert_eq!(run.taken(id), auth_bytes(0x18, METHOD, "challenge"));
    run.send(id, &auth_bytes(0x18, METHOD, "last"));
    assert_eq!(asked(&mut run, id), step(Some("state"), "last"));
    answer(&mut run, id, proven("alice", "signature"));
    let connack = run.taken(id);
    let properties = method_and_data(METHOD, "signature");
    assert_eq!((connack[0], connack[3]), (0x20, 0));
    assert!(connack.windows(properties.len()).any(|window| window == properties), "{connack:02x?}");
}

#[test]
fn a_failed_exchange_ends_with_connack() {
    // [MQTT5-4.12.0-1], [MQTT5-4.12.0-4]
    for (verdict, code) in [(refused(), 0x86), (Verdict::UnknownMethod, 0x8c)] {
        let mut run = with_users(false);
        let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[]));
        answer(&mut run, id, verdict);
        assert_eq!((run.taken(id)[3], kind_of_close(&run, id)), (code, CloseKind::Unauthorized));
    }
    let mut run = Run::new();
    let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[]));
    assert_eq!((run.taken(id)[3], run.asked.len()), (0x8c, 0), "without users no method is known");
}

#[test]
fn during_an_exchange_only_auth_and_disconnect_have_a_place() {
    // [MQTT5-3.1.2-30], [MQTT5-4.12.1-1]
    let (other, turn) = (Violation::OtherThanAuth, Violation::AuthOutOfTurn);
    let wrong: [(&str, Vec<u8>, Violation); 7] = [
        ("PINGREQ", packet(0xc0, &[]), other),
        ("CONNECT", connect_bytes(5, "c", None, None), other),
        ("another method", auth_bytes(0x18, "SCRAM-SHA-1", "last"), Violation::AuthOtherMethod),
        ("without a method", packet(0xf0, &[0x18, 0]), Violation::AuthWithoutMethod),
        ("begun again", auth_bytes(0x19, METHOD, "last"), turn),
        ("success", auth_bytes(0, METHOD, "last"), turn),
        ("no reason", packet(0xf0, &[]), Violation::AuthWithoutMethod),
    ];
    for (name, bytes, violation) in wrong {
        let mut run = with_users(false);
        let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[]));
        asked(&mut run, id);
        answer(&mut run, id, Verdict::GoesOn { state: vec![], data: b"challenge".to_vec() });
        run.taken(id);
        run.send(id, &bytes);
        assert_eq!(run.clause_of_close(id), violation.clause(), "{name}");
        assert!(
            run.asked.is_empty() && run.taken(id).is_empty(),
            "{name}: no CONNACK, and no DISCONNECT before it"
        );
    }
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[]));
    answer(&mut run, id, Verdict::GoesOn { state: vec![], data: b"challenge".to_vec() });
    run.send(id, &packet(0xe0, &[]));
    assert_eq!(kind_of_close(&run, id), CloseKind::Normal);
}

#[test]
fn a_step_that_the_client_cannot_take_ends_the_exchange() {
    // Broken: AUTH is larger than the client's Maximum Packet Size. [MQTT5-3.1.2-24]
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_by_exchange("c", METHOD, "first", &[39, 0, 0, 0, 20]));
    answer(&mut run, id, Verdict::GoesOn { state: vec![], data: vec![b'x'; 100] });
    assert!(run.taken(id).is_empty());
    assert_eq!(kind_of_close(&run, id), CloseKind::ProtocolError);
}

#[test]
fn a_connected_client_proves_itself_again_and_goes_on_meanwhile() {
    // Broken: everything stands still while a client renews its proof (MQTT 5 §4.12.1).
    let mut run = with_users(false);
    let (id, _) = exchanged(&mut run, "c");
    run.send(id, &auth_bytes(0x19, METHOD, "first"));
    assert!(matches!(asked(&mut run, id), Credentials::Step { state: None, .. }));
    run.send(id, &packet(0xc0, &[]));
    assert_eq!(run.taken(id), [0xd0, 0]);
    answer(&mut run, id, Verdict::GoesOn { state: b"second".to_vec(), data: b"challenge".to_vec() });
    assert_eq!(run.taken(id), auth_bytes(0x18, METHOD, "challenge"));
    run.send(id, &auth_bytes(0x18, METHOD, "last"));
    assert!(
        matches!(asked(&mut run, id), Credentials::Step { state: Some(state), .. } if state == b"second")
    );
    answer(&mut run, id, proven("alice", "signature"));
    assert_eq!(run.taken(id), auth_bytes(0, METHOD, "signature"));
    assert!(run.closed(id).is_none());
}

#[test]
fn who_cannot_prove_itself_again_is_closed() {
    // [MQTT5-4.12.1-2]
    let busy = Verdict::Unavailable { why: "no password can be checked now" };
    for (verdict, code, kind) in [
        (refused(), 0x87, CloseKind::Unauthorized),
        (Verdict::UnknownMethod, 0x87, CloseKind::Unauthorized),
        (proven("mallory", "signature"), 0x87, CloseKind::Unauthorized),
        (busy, 0x89, CloseKind::Unavailable),
    ] {
        let mut run = with_users(false);
        let (id, _) = exchanged(&mut run, "c");
        run.send(id, &auth_bytes(0x19, METHOD, "first"));
        answer(&mut run, id, verdict);
        let goodbye = run.taken(id);
        assert_eq!((goodbye[0], goodbye[2]), (0xe0, code), "{goodbye:02x?}");
        assert_eq!(kind_of_close(&run, id), kind);
    }
}

#[test]
fn auth_out_of_turn_is_a_protocol_error() {
    let wrong: [(&str, Vec<u8>); 3] = [
        ("a step without a first one", auth_bytes(0x18, METHOD, "last")),
        ("another method", auth_bytes(0x19, "SCRAM-SHA-1", "first")),
        ("two at once", [auth_bytes(0x19, METHOD, "first"), auth_bytes(0x19, METHOD, "first")].concat()),
    ];
    for (name, bytes) in wrong {
        let mut run = with_users(false);
        let (id, _) = exchanged(&mut run, "c");
        run.send(id, &bytes);
        let goodbye = run.taken(id);
        assert!(goodbye[0] == 0xe0 && goodbye[2] == 0x82, "{name}: {goodbye:02x?}");
        assert_eq!(kind_of_close(&run, id), CloseKind::ProtocolError, "{name}");
    }
    // Who logged in with a password has agreed on no method. [MQTT5-4.12.0-7]
    let mut run = with_users(false);
    let id = opened(&mut run, &connect_bytes(5, "c", Some("alice"), Some("secret")));
    answer(&mut run, id, proven("alice", ""));
    run.taken(id);
    run.send(id, &auth_bytes(0x19, METHOD, "first"));
    assert_eq!(run.taken(id)[2], 0x82);
}

#[test]
fn a_reload_asks_those_who_come_later() {
    let mut run = Run::new();
    let early = opened(&mut run, &connect_bytes(4, "early", None, None));
    let mut settings = settings();
    settings.access = Access::Users { or_anonymous: false };
    run.input(Input::Reload(Box::new(settings)));
    let late = opened(&mut run, &connect_bytes(4, "late", None, None));
    assert!(run.closed(early).is_none());
    assert_eq!(kind_of_close(&run, late), CloseKind::Unauthorized);
}

/// An AMQP connection that has sent Start-Ok.
fn started(run: &mut Run, mechanism: &str, response: &[u8]) -> u64 {
    let id = run.open_for(Protocol::Amqp);
    run.send(id, b"AMQP\0\0\x09\x01");
    run.taken(id);
    let short = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    let response = [&(response.len() as u32).to_be_bytes()[..], response].concat();
    let arguments = [vec![0, 10, 0, 11, 0, 0, 0, 0], short(mechanism), response, short("en_US")].concat();
    let head = [&[1, 0, 0][..], &(arguments.len() as u32).to_be_bytes()].concat();
    run.send(id, &[head, arguments, vec![0xce]].concat());
    id
}

#[test]
fn amqp_clients_are_tuned_once_they_are_proven() {
    // Broken: whoever speaks AMQP needs no password.
    let amqplain = [&b"\x05LOGINS\0\0\0\x05alice\x08PASSWORDS\0\0\0\x06secret"[..]].concat();
    for (mechanism, response) in [("PLAIN", b"\0alice\0secret".to_vec()), ("AMQPLAIN", amqplain)] {
        let mut run = with_users(true);
        let id = started(&mut run, mechanism, &response);
        let password = Credentials::Password { user: "alice".to_owned(), password: b"secret".to_vec() };
        assert_eq!((asked(&mut run, id), run.taken(id)), (password, vec![]));
        answer(&mut run, id, proven("alice", ""));
        assert_eq!(run.taken(id)[7..11], [0, 10, 0, 30], "Tune");

        let id = started(&mut run, mechanism, &response);
        answer(&mut run, id, refused());
        let close = run.taken(id);
        assert_eq!(close[7..13], [0, 10, 0, 50, 1, 147], "Close with 403");
        let words = String::from_utf8_lossy(&close);
        assert!(words.contains("ACCESS_REFUSED") && words.contains(mechanism), "{words}");
        assert_eq!(
            kind_of_close(&run, id),
            CloseKind::Unauthorized,
            "logged with its address, as others are"
        );

        let id = started(&mut run, mechanism, &response);
        answer(&mut run, id, Verdict::Unavailable { why: "too many logins at once" });
        assert_eq!(run.taken(id)[7..13], [0, 10, 0, 50, 1, 250], "Close with 506");

        let gone = started(&mut run, mechanism, &response);
        run.break_off(gone);
        answer(&mut run, gone, proven("alice", ""));
        assert!(run.closed(gone).is_some());
    }
}
