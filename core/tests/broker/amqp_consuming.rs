//! AMQP: who gets messages, and what becomes of those that are out.

use crate::support::amqp::*;
use crate::support::disk::Survival;
use crate::support::{Run, settings};
use amq_protocol::protocol::{AMQPClass, basic};
use amq_protocol::types::AMQPValue;

fn consume(queue: &str, tag: &str) -> AMQPClass {
    method!(Basic::basic::Consume { queue: queue.into(), consumer_tag: tag.into() })
}

fn close_channel() -> AMQPClass {
    method!(Channel::channel::Close { reply_code: 200 })
}

#[test]
fn a_get_ends_with_its_channel() {
    // Broken: the message goes to nobody, and stays out until the broker is started again; or a new channel of the same
    // number gets an answer to what it never asked.
    let mut run = Run::new();
    let (publisher, client) = (opened(&mut run), opened(&mut run));
    declare(&mut run, publisher, "q", true, &[]);
    publish(&mut run, publisher, "", "q", b"1", &persistent());
    run.hold_disk = true;
    let get = method!(Basic::basic::Get { queue: "q".into(), no_ack: true });
    let open = method!(Channel::channel::Open {});
    send_at_once(&mut run, client, vec![get, close_channel(), open]);
    run.release_disk();
    assert_eq!(messages(&mut run, client), []);
    assert_eq!(get_body(&mut run, client, "q"), Some("1".into()));
}

fn get_body(run: &mut Run, id: u64, queue: &str) -> Option<String> {
    get(run, id, queue, true).map(|message| String::from_utf8_lossy(&message.body).into_owned())
}

#[test]
fn what_was_not_committed_goes_back_with_its_channel() {
    // Broken: a worker that dies between its acknowledgement and its commit leaves a message that nobody gets.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", true, &[]);
    for body in [b"1", b"2", b"3"] {
        publish(&mut run, client, "", "q", body, &persistent());
    }
    send(&mut run, client, 1, method!(Tx::tx::Select {}));
    for _ in 0..3 {
        assert!(get(&mut run, client, "q", false).is_some());
    }
    send(&mut run, client, 1, method!(Basic::basic::Ack { delivery_tag: 1 }));
    send(&mut run, client, 1, method!(Basic::basic::Nack { delivery_tag: 2 }));
    send_at_once(&mut run, client, vec![close_channel(), method!(Channel::channel::Open {})]);
    for body in ["1", "2", "3"] {
        assert_eq!(get_body(&mut run, client, "q"), Some(body.into()));
    }
}

#[test]
fn what_is_settled_is_not_known_any_more() {
    // Broken: a client that settles twice is not told, and settles with `multiple` what it did not mean.
    for multiple in [false, true] {
        let mut run = Run::new();
        let client = opened(&mut run);
        declare(&mut run, client, "q", false, &[]);
        for _ in 0..2 {
            publish(&mut run, client, "", "q", b"x", &persistent());
            get(&mut run, client, "q", false);
        }
        send(&mut run, client, 1, method!(Basic::basic::Ack { delivery_tag: 2 }));
        send(&mut run, client, 1, method!(Basic::basic::Ack { delivery_tag: 2, multiple: multiple }));
        let (code, text) = channel_fault(&mut run, client);
        assert_eq!((code, &text[..]), (406, "PRECONDITION_FAILED - unknown delivery tag 2"));
    }
}

#[test]
fn the_single_active_consumer_stays_whoever_comes() {
    // Broken: two consumers work at the same time on a queue that promises one.
    let mut run = Run::new();
    let (first, second) = (opened(&mut run), opened(&mut run));
    declare(&mut run, first, "q", false, &[("x-single-active-consumer", AMQPValue::Boolean(true))]);
    send(&mut run, first, 1, consume("q", "first"));
    let mut eager = basic::Consume { queue: "q".into(), ..basic::Consume::default() };
    eager.arguments.insert("x-priority".into(), number(10));
    send(&mut run, second, 1, AMQPClass::Basic(basic::AMQPMethod::Consume(eager)));
    publish(&mut run, first, "", "q", b"1", &persistent());
    assert_eq!((bodies(&mut run, first), bodies(&mut run, second)), (vec!["1".into()], vec![]));
    send(&mut run, first, 1, close_channel());
    assert_eq!(bodies(&mut run, second), ["1"]);
    // Nor does anybody get it for himself.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", false, &[("x-single-active-consumer", AMQPValue::Boolean(true))]);
    send(&mut run, client, 1, method!(Basic::basic::Consume { queue: "q".into(), exclusive: true }));
    assert_eq!(channel_fault(&mut run, client).0, 403);
}

#[test]
fn deliveries_are_counted_where_they_are_limited() {
    // Broken: a consumer cannot see that it has had a message before, and how often.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", true, &[("x-queue-type", text("quorum"))]);
    publish(&mut run, client, "", "q", b"x", &persistent());
    for count in [None, Some(1), Some(2)] {
        let message = get(&mut run, client, "q", false).expect("it is there");
        let headers = message.properties.headers().clone().unwrap_or_default();
        let found = headers.inner().get("x-delivery-count").cloned();
        assert_eq!(found, count.map(AMQPValue::LongLongInt));
        let nack = method!(Basic::basic::Nack { delivery_tag: message.tag, requeue: true });
        send(&mut run, client, 1, nack);
    }
}

#[test]
fn how_often_a_message_came_back_survives_a_power_cut() {
    // Broken: a message that kills its consumers is tried for ever by a broker that is restarted now and then.
    // Read from its own record, and from a checkpoint.
    for (checkpoints, ms) in [(false, 20), (true, 5000)] {
        let mut settings = settings();
        settings.limits.checkpoint_bytes = if checkpoints { 4096 } else { 1 << 30 };
        let mut run = Run::with(settings);
        let client = opened(&mut run);
        declare(&mut run, client, "dead", true, &[]);
        let limited = [("x-delivery-limit", number(2)), ("x-queue-type", text("quorum"))];
        let to_dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
        declare(&mut run, client, "q", true, &[&limited[..], &to_dead[..]].concat());
        publish(&mut run, client, "", "q", b"poison", &persistent());
        for count in 0..=2 {
            let client = opened(&mut run);
            let message = get(&mut run, client, "q", false).expect("it is there");
            let headers = message.properties.headers().clone().unwrap_or_default();
            let expected = (count > 0).then_some(AMQPValue::LongLongInt(count));
            assert_eq!(headers.inner().get("x-delivery-count").cloned(), expected);
            send(
                &mut run,
                client,
                1,
                method!(Basic::basic::Nack { delivery_tag: message.tag, requeue: true }),
            );
            run.pass_ms(ms);
            run = run.power_cut(Survival::Nothing);
        }
        assert!(run.report.checkpoint.is_some() || !checkpoints, "{:?}", run.report);
        let client = opened(&mut run);
        assert_eq!(get(&mut run, client, "q", false), None);
        assert_eq!(get_body(&mut run, client, "dead"), Some("poison".into()));
    }
}

#[test]
fn what_a_transaction_rejects_goes_with_all_the_rest_of_it() {
    // Broken: after a crash a message is a dead letter, and what was published in the same transaction is not there.
    let mut seen = [0, 0];
    for (operations, survivors) in (0..4).flat_map(|operations| (0..16).map(move |bits| (operations, bits))) {
        let mut run = Run::new();
        let client = opened(&mut run);
        declare(&mut run, client, "dead", true, &[]);
        let to_dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
        declare(&mut run, client, "q", true, &to_dead);
        declare(&mut run, client, "answers", true, &[]);
        publish(&mut run, client, "", "q", b"question", &persistent());
        let question = get(&mut run, client, "q", false).expect("it is there");
        send(&mut run, client, 1, method!(Tx::tx::Select {}));
        run.hold_disk = true;
        publish(&mut run, client, "", "answers", &[b'x'; 9000], &persistent());
        send(&mut run, client, 1, method!(Basic::basic::Reject { delivery_tag: question.tag }));
        send(&mut run, client, 1, method!(Tx::tx::Commit {}));
        run.disk_works_until(run.disk.operations.len() + operations);
        let mut run = run.power_cut(Survival::Sectors(survivors));
        let client = opened(&mut run);
        let found = ["q", "answers", "dead"].map(|queue| get(&mut run, client, queue, true).is_some());
        assert!(found == [true, false, false] || found == [false, true, true], "{found:?}");
        seen[usize::from(found[0])] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}: one of the outcomes was never there");
}

#[test]
fn who_looks_at_a_queue_comes_behind_the_consumers_of_what_was_published_before() {
    // Broken: what one read brought together is told apart wrongly: a purge takes what belongs to a consumer, or a queue
    // whose messages have all gone out is not empty.
    let looks: [(AMQPClass, AMQPClass); 4] = [
        (method!(Basic::basic::Get { queue: "q".into(), no_ack: true }), method!(Basic::basic::GetEmpty {})),
        (
            method!(Queue::queue::Purge { queue: "q".into() }),
            method!(Queue::queue::PurgeOk { message_count: 0 }),
        ),
        (
            method!(Queue::queue::Delete { queue: "q".into(), if_empty: true }),
            method!(Queue::queue::DeleteOk { message_count: 0 }),
        ),
        (
            method!(Queue::queue::Declare { queue: "q".into(), passive: true }),
            method!(Queue::queue::DeclareOk { queue: "q".into(), message_count: 0, consumer_count: 1 }),
        ),
    ];
    for (look, answer) in looks {
        let mut run = Run::new();
        let (consumer, client) = (opened(&mut run), opened(&mut run));
        declare(&mut run, client, "q", false, &[]);
        let consume =
            method!(Basic::basic::Consume { queue: "q".into(), consumer_tag: "c".into(), no_ack: true });
        send(&mut run, consumer, 1, consume);
        methods(&mut run, consumer);
        let publish = method!(Basic::basic::Publish { exchange: "".into(), routing_key: "q".into() });
        let published = publish_bytes(publish, b"m", &basic::AMQPProperties::default());
        run.send(client, &[published, method_bytes(look)].concat());
        assert_eq!(bodies(&mut run, consumer), ["m"]);
        assert_eq!(methods(&mut run, client), [answer]);
    }
}
