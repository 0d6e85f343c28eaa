//! AMQP: what leaves a queue unread.

use crate::support::Run;
use crate::support::amqp::*;
use crate::support::disk::Survival;
use amq_protocol::protocol::{AMQPClass, basic, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

const TO_DEAD: [(&str, &str); 2] = [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "dead")];

/// A queue whose dead letters go to the queue `dead`.
fn declare_work(run: &mut Run, id: u64, more: &[(&str, AMQPValue)]) {
    declare(run, id, "dead", true, &[]);
    let mut arguments: Vec<_> = TO_DEAD.iter().map(|(name, value)| (*name, text(value))).collect();
    arguments.extend(more.iter().cloned());
    declare(run, id, "work", true, &arguments);
}

fn consume(run: &mut Run, id: u64, queue: &str) {
    send(run, id, 1, method!(Basic::basic::Consume { queue: queue.into() }));
}

fn headers(message: &Message) -> FieldTable {
    message.properties.headers().clone().unwrap_or_default()
}

fn deaths(message: &Message) -> Vec<AMQPValue> {
    match headers(message).inner().get("x-death") {
        Some(AMQPValue::FieldArray(deaths)) => deaths.as_slice().to_vec(),
        other => panic!("expected deaths, got {other:?}"),
    }
}

#[test]
fn what_has_no_time_goes_to_who_waits_and_expires_otherwise() {
    // Broken: a queue for those who listen now hands nothing to them, or keeps what nobody wanted.
    let mut run = Run::new();
    let (publisher, consumer) = (opened(&mut run), opened(&mut run));
    declare_work(&mut run, publisher, &[("x-message-ttl", number(0))]);
    publish(&mut run, publisher, "", "work", b"nobody there", &persistent());
    let dead = get(&mut run, publisher, "dead", true).expect("it has expired");
    assert_eq!(dead.body, b"nobody there");
    consume(&mut run, consumer, "work");
    publish(&mut run, publisher, "", "work", b"somebody there", &persistent());
    assert_eq!(bodies(&mut run, consumer), ["somebody there"]);
    // What comes back has had its time.
    send(&mut run, consumer, 1, method!(Basic::basic::Nack { delivery_tag: 1, requeue: true }));
    assert_eq!(bodies(&mut run, consumer), [""; 0]);
    assert_eq!(get(&mut run, publisher, "dead", true).expect("it has expired").body, b"somebody there");
}

#[test]
fn what_goes_straight_to_a_consumer_takes_no_place() {
    // Broken: a bound that holds for what waits keeps messages from a consumer who waits for them.
    for (bound, value) in [("x-max-length", 0), ("x-max-length-bytes", 3)] {
        for more in [None, Some("work")] {
            let mut run = Run::new();
            let (publisher, consumer) = (opened(&mut run), opened(&mut run));
            match more {
                None => drop(declare(&mut run, publisher, "work", true, &[(bound, number(value))])),
                Some(_) => declare_work(&mut run, publisher, &[(bound, number(value))]),
            }
            publish(&mut run, publisher, "", "work", b"too much", &persistent());
            consume(&mut run, consumer, "work");
            assert_eq!(bodies(&mut run, consumer), [""; 0], "nobody waited");
            publish(&mut run, publisher, "", "work", b"too much?", &persistent());
            assert_eq!(bodies(&mut run, consumer), ["too much?"], "{bound}");
        }
    }
}

#[test]
fn a_header_that_has_grown_fits_into_the_receivers_frames() {
    // Broken: a dead letter is sent in a frame that its receiver does not take, which ends the connection each time.
    let mut run = Run::new();
    let (publisher, small) = (opened(&mut run), opened_with(&mut run, 4096));
    for number in 0..40 {
        let next = if number == 39 { "dead".into() } else { format!("q{}", number + 1) };
        let arguments = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&next))];
        declare(&mut run, publisher, &format!("q{number}"), false, &arguments);
    }
    declare(&mut run, publisher, "dead", false, &[]);
    publish(&mut run, publisher, "", "q0", b"x", &persistent());
    for number in 0..40 {
        let tag = get(&mut run, publisher, &format!("q{number}"), false).expect("it comes along").tag;
        send(&mut run, publisher, 1, method!(Basic::basic::Reject { delivery_tag: tag }));
    }
    let frame_of = |run: &mut Run| {
        let get = method!(Basic::basic::Get { queue: "dead".into() });
        send(run, small, 1, get);
        let bytes = run.taken(small);
        let method = 8 + u32::from_be_bytes(bytes[3..7].try_into().expect("four bytes")) as usize;
        8 + u32::from_be_bytes(bytes[method + 3..method + 7].try_into().expect("four bytes"))
    };
    let size = frame_of(&mut run);
    assert!((3800..=4096).contains(&size), "{size} bytes, and as many deaths as possible");
    send(&mut run, small, 1, method!(Basic::basic::Recover { requeue: true }));
    run.taken(small);
    let message = get(&mut run, small, "dead", false).expect("it is there");
    let latest = &deaths(&message)[0];
    assert!(matches!(latest, AMQPValue::FieldTable(death)
        if death.inner().get("queue") == Some(&text("q39"))));
    // Nothing is lost for who takes larger frames.
    send(&mut run, small, 1, method!(Basic::basic::Recover { requeue: true }));
    let message = get(&mut run, publisher, "dead", true).expect("it is there");
    assert_eq!(deaths(&message).len(), 40);
}

#[test]
fn a_queue_takes_what_it_cannot_dead_letter_as_refused() {
    // Broken: a declaration that RabbitMQ takes is refused here.
    let mut run = Run::new();
    let client = opened(&mut run);
    let arguments = [("x-overflow", text("reject-publish-dlx")), ("x-max-length", number(0))];
    declare(&mut run, client, "q", false, &arguments);
    send(&mut run, client, 1, method!(Confirm::confirm::Select {}));
    publish(&mut run, client, "", "q", b"x", &persistent());
    let nacks = methods(&mut run, client).into_iter();
    let nacks = nacks.filter(|method| matches!(method, AMQPClass::Basic(basic::AMQPMethod::Nack(_))));
    assert_eq!(nacks.count(), 1);
}

#[test]
fn a_full_queue_keeps_no_dead_letter_from_another() {
    // Broken: what a queue gave up is nowhere, because one of two queues that it goes to is full.
    let mut run = Run::new();
    let client = opened(&mut run);
    let arguments = [("x-overflow", text("reject-publish")), ("x-max-length", number(0))];
    declare(&mut run, client, "full", true, &arguments);
    declare(&mut run, client, "free", true, &[]);
    for queue in ["full", "free"] {
        send(
            &mut run,
            client,
            1,
            method!(Queue::queue::Bind { queue: queue.into(), exchange: "amq.fanout".into() }),
        );
    }
    declare(&mut run, client, "work", true, &[("x-dead-letter-exchange", text("amq.fanout"))]);
    publish(&mut run, client, "", "work", b"given away", &persistent());
    get(&mut run, client, "work", false).expect("it is there");
    send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: 1 }));
    assert_eq!(get(&mut run, client, "free", true).expect("it is a dead letter").body, b"given away");
}

/// An exchange that delays, and leads everything to these queues.
fn declare_later(run: &mut Run, id: u64, queues: &[&str]) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-delayed-type".into(), text("fanout"));
    let declare = method!(Exchange::exchange::Declare {
        exchange: "later".into(),
        kind: "x-delayed-message".into(),
        durable: true,
        arguments: arguments,
    });
    send(run, id, 1, declare);
    for queue in queues {
        let bind = method!(Queue::queue::Bind { queue: (*queue).into(), exchange: "later".into() });
        send(run, id, 1, bind);
    }
}

fn delayed_by_a_second() -> basic::AMQPProperties {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), number(1000));
    persistent().with_headers(headers)
}

#[test]
fn a_full_queue_keeps_no_delayed_message_from_another() {
    // Broken: a message that was confirmed is nowhere when its time has come.
    let mut run = Run::new();
    let client = opened(&mut run);
    let full = [("x-overflow", text("reject-publish")), ("x-max-length", number(0))];
    declare(&mut run, client, "full", true, &full);
    declare(&mut run, client, "free", true, &[]);
    declare_later(&mut run, client, &["full", "free"]);
    publish(&mut run, client, "later", "", b"in its time", &delayed_by_a_second());
    assert!(get(&mut run, client, "free", true).is_none());
    run.pass_ms(1000);
    assert_eq!(get(&mut run, client, "free", true).expect("it was confirmed").body, b"in its time");
}

#[test]
fn an_exchange_delays_whatever_way_a_message_came_to_it() {
    // Broken: a retry by way of a dead letter exchange is tried again at once, and for ever.
    for restart in [false, true] {
        let mut run = Run::new();
        let client = opened(&mut run);
        declare(&mut run, client, "again", true, &[]);
        declare(&mut run, client, "now", true, &[]);
        declare_later(&mut run, client, &["again"]);
        declare(&mut run, client, "work", true, &[("x-dead-letter-exchange", text("later"))]);
        // By a dead letter.
        publish(&mut run, client, "", "work", b"rejected", &delayed_by_a_second());
        get(&mut run, client, "work", false).expect("it is there");
        send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: 1 }));
        // By a binding, beside a queue that waits for nothing.
        let bind =
            method!(Exchange::exchange::Bind { destination: "later".into(), source: "amq.fanout".into() });
        send(&mut run, client, 1, bind);
        let bind = method!(Queue::queue::Bind { queue: "now".into(), exchange: "amq.fanout".into() });
        send(&mut run, client, 1, bind);
        publish(&mut run, client, "amq.fanout", "", b"bound", &delayed_by_a_second());
        run.pass_ms(500);
        let mut client = client;
        if restart {
            // A power cut takes a second, in which both fall due.
            run = run.power_cut(Survival::Nothing);
            client = opened(&mut run);
        } else {
            assert!(get(&mut run, client, "again", true).is_none());
            run.pass_ms(500);
        }
        assert_eq!(get(&mut run, client, "now", true).expect("it did not wait").body, b"bound");
        for body in [&b"rejected"[..], b"bound"] {
            assert_eq!(get(&mut run, client, "again", true).expect("it is due").body, body);
        }
    }
}

#[test]
fn a_dead_letter_does_not_expire_again() {
    // Broken: what is put aside to be looked at is gone before anybody looks.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare_work(&mut run, client, &[("x-max-length", number(1))]);
    let short = persistent().with_expiration("1000".into());
    publish(&mut run, client, "", "work", b"too many", &short);
    publish(&mut run, client, "", "work", b"rejected", &short);
    let got = get(&mut run, client, "work", false).expect("there is one");
    assert_eq!(got.body, b"rejected");
    send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: 1, requeue: false }));
    run.pass_ms(5000);
    for body in ["too many", "rejected"] {
        let dead = get(&mut run, client, "dead", true).expect("it stays");
        assert_eq!((&dead.body[..], dead.properties.expiration()), (body.as_bytes(), &None));
        let before = deaths(&dead).pop();
        let Some(AMQPValue::FieldTable(death)) = before else { panic!("expected a death, got {before:?}") };
        assert_eq!(death.inner().get("original-expiration"), Some(&text("1000")));
    }
}

#[test]
fn who_refuses_at_the_bound_keeps_what_comes_back_beyond_it() {
    // Broken: a consumer dies, and messages are gone that were confirmed.
    let bounds = [("x-max-length", number(2)), ("x-max-length-bytes", number(2))];
    for (overflow, bound) in
        ["reject-publish", "reject-publish-dlx"].iter().flat_map(|o| bounds.iter().map(move |b| (o, b)))
    {
        for survival in [None, Some(Survival::Nothing)] {
            let mut run = Run::new();
            let (client, consumer) = (opened(&mut run), opened(&mut run));
            declare_work(&mut run, client, &[("x-overflow", text(overflow)), bound.clone()]);
            consume(&mut run, consumer, "work");
            send(&mut run, client, 1, method!(Confirm::confirm::Select {}));
            for body in [b"1", b"2", b"3", b"4"] {
                publish(&mut run, client, "", "work", body, &persistent());
            }
            methods(&mut run, client);
            assert_eq!(bodies(&mut run, consumer), ["1", "2", "3", "4"], "what is given out takes no place");
            run.break_off(consumer);
            let mut client = client;
            if let Some(survival) = survival {
                run = run.power_cut(survival);
                client = opened(&mut run);
            }
            for body in [b"1", b"2", b"3", b"4"] {
                let got = get(&mut run, client, "work", true);
                assert_eq!(
                    got.map(|got| got.body).as_deref(),
                    Some(&body[..]),
                    "{overflow} {bound:?} {survival:?}"
                );
            }
            assert!(get(&mut run, client, "dead", true).is_none());
        }
    }
}

#[test]
fn a_dead_letter_goes_to_every_key_that_it_was_published_with() {
    // Broken: who was to get a blind copy gets no dead letter. (RabbitMQ, "Dead Letter Exchanges": routing)
    for own_key in [None, Some("other")] {
        let mut run = Run::new();
        let client = opened(&mut run);
        for (queue, key) in [("o", "open"), ("b", "blind"), ("x", "other")] {
            declare(&mut run, client, queue, true, &[]);
            let (queue, exchange) = (queue.into(), "amq.direct".into());
            let bind = queue::Bind { queue, exchange, routing_key: key.into(), ..Default::default() };
            send(&mut run, client, 1, AMQPClass::Queue(queue::AMQPMethod::Bind(bind)));
        }
        let mut arguments = vec![("x-dead-letter-exchange", text("amq.direct"))];
        arguments.extend(own_key.map(|key| ("x-dead-letter-routing-key", text(key))));
        declare(&mut run, client, "work", true, &arguments);
        let mut copies = FieldTable::default();
        copies.insert("CC".into(), AMQPValue::FieldArray(vec![text("open")].into()));
        copies.insert("BCC".into(), AMQPValue::FieldArray(vec![text("blind")].into()));
        publish(&mut run, client, "", "work", b"given away", &persistent().with_headers(copies));
        get(&mut run, client, "work", false).expect("it is there");
        send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: 1 }));
        for queue in ["o", "b", "x"] {
            let dead = get(&mut run, client, queue, true);
            assert_eq!(dead.is_some(), (queue == "x") == own_key.is_some(), "{queue}");
            let seen = dead.is_some_and(|dead| headers(&dead).inner().contains_key("BCC"));
            assert!(!seen, "nobody sees who gets blind copies");
        }
    }
}

#[test]
fn times_are_as_long_as_in_rabbitmq() {
    // Broken: a time to live of sixty days is refused.
    const TEN_YEARS_MS: i64 = 315_360_000_000;
    let mut run = Run::new();
    let client = opened(&mut run);
    for name in ["x-message-ttl", "x-expires"] {
        declare(&mut run, client, name, true, &[(name, AMQPValue::LongLongInt(TEN_YEARS_MS))]);
    }
    let mut longer = FieldTable::default();
    longer.insert("x-message-ttl".into(), AMQPValue::LongLongInt(TEN_YEARS_MS + 1));
    let declare_longer = method!(Queue::queue::Declare { queue: "q".into(), arguments: longer });
    send(&mut run, client, 1, declare_longer);
    assert_eq!(channel_fault(&mut run, client).0, 406);
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", true, &[]);
    publish(&mut run, client, "", "q", b"x", &persistent().with_expiration(TEN_YEARS_MS.to_string().into()));
    run.pass_ms(1000);
    assert!(get(&mut run, client, "q", true).is_some());
}

#[test]
fn a_delay_is_a_number_however_it_is_written() {
    // Broken: a client whose library sends a text or a fraction is not made to wait.
    for delay in [text("1000"), AMQPValue::Double(1000.9), AMQPValue::Float(1000.0), number(1000)] {
        let mut run = Run::new();
        let client = opened(&mut run);
        declare(&mut run, client, "q", true, &[]);
        declare_later(&mut run, client, &["q"]);
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), delay.clone());
        publish(&mut run, client, "later", "", b"in its time", &persistent().with_headers(headers));
        assert!(get(&mut run, client, "q", true).is_none(), "{delay:?}");
        run.pass_ms(1000);
        assert!(get(&mut run, client, "q", true).is_some(), "{delay:?}");
    }
}

#[test]
fn a_quorum_queue_counts_deliveries_itself() {
    // Broken: what an application publishes again counts as delivered as often as it was before.
    let mut run = Run::new();
    let client = opened(&mut run);
    let arguments = [("x-queue-type", text("quorum")), ("x-delivery-limit", number(-1))];
    declare(&mut run, client, "q", true, &arguments);
    let mut counted = FieldTable::default();
    counted.insert("x-delivery-count".into(), number(7));
    publish(&mut run, client, "", "q", b"x", &persistent().with_headers(counted));
    for count in 0..3 {
        let got = get(&mut run, client, "q", false).expect("-1 is no limit");
        assert_eq!(headers(&got).inner().get("x-delivery-count"), Some(&AMQPValue::LongLongInt(count)));
        send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: got.tag, requeue: true }));
    }
}
