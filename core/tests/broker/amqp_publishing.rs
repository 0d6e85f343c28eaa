//! AMQP: where messages go, and what their publishers are told.

use crate::support::Run;
use crate::support::amqp::*;
use crate::support::packets;
use amq_protocol::protocol::{AMQPClass, basic, connection, queue};
use amq_protocol::types::AMQPValue;
use vowmq_core::input::Input;

fn mandatory(exchange: &str, key: &str) -> AMQPClass {
    method!(Basic::basic::Publish { exchange: exchange.into(), routing_key: key.into(), mandatory: true })
}

fn returns(run: &mut Run, id: u64) -> usize {
    let is_return = |method: &AMQPClass| matches!(method, AMQPClass::Basic(basic::AMQPMethod::Return(_)));
    methods(run, id).iter().filter(|method| is_return(method)).count()
}

#[test]
fn a_topic_that_nobody_hears_is_returned() {
    // Broken: a publisher that asked to be told believes that somebody has its message.
    let mut run = Run::new();
    let (client, subscriber) = (opened(&mut run), packets::accepted(&mut run, "s", true).0);
    publish_as(&mut run, client, mandatory("amq.topic", "a.b"), b"x", &persistent());
    assert_eq!(returns(&mut run, client), 1);
    packets::subscribe(&mut run, subscriber, &[("a/+", 1)]);
    publish_as(&mut run, client, mandatory("amq.topic", "a.b"), b"x", &persistent());
    assert_eq!(returns(&mut run, client), 0);
}

#[test]
fn a_topic_longer_than_a_routing_key_reaches_no_amqp_queue() {
    // Broken: a message comes under a name that its publisher did not give.
    let mut run = Run::new();
    let (client, sensor) = (opened(&mut run), packets::accepted(&mut run, "s", true).0);
    declare(&mut run, client, "q", false, &[]);
    let bind = method!(Queue::queue::Bind {
        queue: "q".into(),
        exchange: "amq.topic".into(),
        routing_key: "#".into()
    });
    send(&mut run, client, 1, bind);
    for (length, packet_id) in [(255, 1), (256, 2)] {
        packets::publish(&mut run, sensor, &"t".repeat(length), 1, packet_id, b"x");
    }
    run.taken(client);
    let message = get(&mut run, client, "q", true).expect("the one whose name fits");
    assert_eq!(message.key.len(), 255);
    assert_eq!(get(&mut run, client, "q", true), None);
    assert_eq!(run.broker.statistics().unmappable, 1);
}

#[test]
fn an_address_for_replies_can_be_asked_for() {
    // Broken: a server cannot find out whether anybody still waits for its answer.
    let mut run = Run::new();
    let (client, server) = (opened(&mut run), opened(&mut run));
    declare(&mut run, server, "rpc", false, &[]);
    let replies = "amq.rabbitmq.reply-to";
    send(&mut run, client, 1, method!(Basic::basic::Consume { queue: replies.into(), no_ack: true }));
    let properties = persistent().with_reply_to(replies.into());
    publish(&mut run, client, "", "rpc", b"question", &properties);
    let question = get(&mut run, server, "rpc", true).expect("it was asked");
    let address = question.properties.reply_to().clone().expect("it says where to");
    let ask = method!(Queue::queue::Declare { queue: address.clone(), passive: true });
    send(&mut run, server, 1, ask.clone());
    match methods(&mut run, server).pop() {
        Some(AMQPClass::Queue(queue::AMQPMethod::DeclareOk(ok))) => {
            assert_eq!((ok.queue, ok.message_count, ok.consumer_count), (address, 0, 1));
        }
        other => panic!("{other:?}"),
    }
    run.break_off(client);
    send(&mut run, server, 1, ask);
    assert_eq!(channel_fault(&mut run, server).0, 404);
}

#[test]
fn what_is_not_there_can_be_unbound() {
    // Broken: clients that tidy up, as RabbitMQ lets them, lose their channel.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", false, &[]);
    for (queue, exchange) in [("none", "amq.direct"), ("q", "none"), ("q", "amq.direct")] {
        let unbind = method!(Queue::queue::Unbind { queue: queue.into(), exchange: exchange.into() });
        send(&mut run, client, 1, unbind);
        let answers = methods(&mut run, client);
        assert!(matches!(answers[..], [AMQPClass::Queue(queue::AMQPMethod::UnbindOk(_))]), "{answers:?}");
    }
}

#[test]
fn differences_are_named_as_rabbitmq_names_them() {
    // Broken: who reads the text of a 406 does not learn which argument is meant, and what it was before.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", true, &[("x-max-length", number(10))]);
    declare(
        &mut run,
        client,
        "q",
        true,
        &[("x-max-length", AMQPValue::LongLongInt(10)), ("x-queue-type", text("classic"))],
    );
    for (argument, expected) in [
        (Some(number(7)), "received '7' but current is '10'"),
        (None, "received none but current is the value '10' of type 'signedint'"),
    ] {
        let id = opened(&mut run);
        let mut again = queue::Declare { queue: "q".into(), durable: true, ..queue::Declare::default() };
        if let Some(value) = argument {
            again.arguments.insert("x-max-length".into(), value);
        }
        send(&mut run, id, 1, AMQPClass::Queue(queue::AMQPMethod::Declare(again)));
        let (code, text) = channel_fault(&mut run, id);
        let whole = format!(
            "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': {expected}"
        );
        assert_eq!((code, text), (406, whole));
    }
}

#[test]
fn copies_are_named_by_a_list() {
    // Broken: a message whose header CC is wrong loses its copies without a word.
    let mut run = Run::new();
    let client = opened(&mut run);
    declare(&mut run, client, "q", false, &[]);
    let mut headers = amq_protocol::types::FieldTable::default();
    headers.insert("CC".into(), text("q"));
    publish(&mut run, client, "", "q", b"x", &persistent().with_headers(headers));
    assert_eq!(channel_fault(&mut run, client).0, 406);
}

#[test]
fn amqp_clients_are_told_that_the_broker_ends() {
    // Broken: a client takes an ordered end for a broken network.
    let mut run = Run::new();
    let client = opened(&mut run);
    run.input(Input::ShutdownRequested);
    let told = methods(&mut run, client);
    let text = "CONNECTION_FORCED - the broker shuts down";
    assert!(
        matches!(&told[..], [AMQPClass::Connection(connection::AMQPMethod::Close(close))]
            if close.reply_code == 320 && close.reply_text.as_str() == text),
        "{told:?}"
    );
}
