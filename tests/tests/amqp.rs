//! lapin, a client that this project did not write, against the real binary.

use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer};
use std::path::Path;
use std::time::Duration;
use vowmq_tests::Vowmq;

const PATIENCE: Duration = Duration::from_secs(10);

fn start(directory: &Path) -> Vowmq {
    Vowmq::start(directory, &["--amqp", "127.0.0.1:0"])
}

async fn connect(broker: &Vowmq) -> Connection {
    let uri = format!("amqp://{}/%2f", broker.amqp.expect("it listens for AMQP"));
    let connect = Connection::connect(&uri, ConnectionProperties::default());
    tokio::time::timeout(PATIENCE, connect).await.expect("in time").expect("the broker takes the connection")
}

async fn channel(connection: &Connection) -> Channel {
    connection.create_channel().await.expect("a channel")
}

async fn confirming(connection: &Connection) -> Channel {
    let channel = channel(connection).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirm mode");
    channel
}

async fn declare(channel: &Channel, queue: &str) {
    let options = QueueDeclareOptions::durable();
    channel.queue_declare(queue.into(), options, FieldTable::default()).await.expect("a queue");
}

async fn publish(channel: &Channel, queue: &str, body: &[u8], properties: BasicProperties) -> Confirmation {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let published = channel.basic_publish("".into(), queue.into(), options, body, properties).await;
    published.expect("sent").await.expect("an answer")
}

fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}

async fn consume(channel: &Channel, queue: &str) -> Consumer {
    let consume =
        channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    consume.await.expect("a consumer")
}

async fn next(consumer: &mut Consumer) -> lapin::message::Delivery {
    let next = tokio::time::timeout(PATIENCE, consumer.next()).await.expect("in time");
    next.expect("the consumer stands").expect("a delivery")
}

#[tokio::test]
async fn confirmed_messages_survive_sigkill_in_order() {
    // Broken: a confirm that lapin trusts is worth nothing after a crash.
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store");
    let broker = start(&store);
    let connection = connect(&broker).await;
    let publisher = confirming(&connection).await;
    declare(&publisher, "q").await;
    for number in 0..100u32 {
        let confirmed = publish(&publisher, "q", &number.to_be_bytes(), persistent()).await;
        assert_eq!(confirmed, Confirmation::Ack(None), "{number}");
    }
    broker.kill();
    let broker = start(&store);
    let connection = connect(&broker).await;
    let channel = channel(&connection).await;
    channel.basic_qos(10, BasicQosOptions::default()).await.expect("a bound");
    let mut consumer = consume(&channel, "q").await;
    for number in 0..100u32 {
        let delivery = next(&mut consumer).await;
        assert_eq!((&delivery.data[..], delivery.redelivered), (&number.to_be_bytes()[..], false));
        delivery.ack(BasicAckOptions::default()).await.expect("acknowledged");
    }
}

#[tokio::test]
async fn bodies_and_properties_come_as_they_went() {
    // Broken: what a Rust client sends is changed or cut on its way.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = start(&directory.path().join("store"));
    let connection = connect(&broker).await;
    let (publisher, channel) = (confirming(&connection).await, channel(&connection).await);
    declare(&publisher, "q").await;
    let mut consumer = consume(&channel, "q").await;
    let mut headers = FieldTable::default();
    headers.insert("number".into(), AMQPValue::LongLongInt(-7));
    headers.insert("fraction".into(), AMQPValue::Double(0.5));
    headers.insert("nothing".into(), AMQPValue::Void);
    for size in [0, 1, 131_064, 131_065, 1_000_000] {
        let body: Vec<u8> = (0..=255).cycle().take(size).collect();
        let properties = persistent()
            .with_headers(headers.clone())
            .with_content_type("application/octet-stream".into())
            .with_correlation_id("c".into())
            .with_timestamp(1_700_000_000);
        publish(&publisher, "q", &body, properties.clone()).await;
        let delivery = next(&mut consumer).await;
        assert!(delivery.data == body, "{size} bytes came back changed");
        assert_eq!(delivery.properties, properties);
    }
}

#[tokio::test]
async fn what_cannot_be_routed_is_returned_with_its_confirm() {
    // Broken: a publisher that asked to be told believes that its message was taken.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = start(&directory.path().join("store"));
    let connection = connect(&broker).await;
    let publisher = confirming(&connection).await;
    match publish(&publisher, "nowhere", b"back", persistent()).await {
        Confirmation::Ack(Some(returned)) => {
            assert_eq!((returned.reply_code, &returned.delivery.data[..]), (312, &b"back"[..]));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn given_back_messages_come_again_in_their_old_places() {
    // Broken: a worker that fails upsets the order for all others.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = start(&directory.path().join("store"));
    let connection = connect(&broker).await;
    let (publisher, first) = (confirming(&connection).await, channel(&connection).await);
    declare(&publisher, "q").await;
    for body in [b"1", b"2", b"3"] {
        publish(&publisher, "q", body, persistent()).await;
    }
    let mut consumer = consume(&first, "q").await;
    for _ in 0..3 {
        next(&mut consumer).await;
    }
    first.close(200, "".into()).await.expect("closed");
    let second = channel(&connection).await;
    let mut consumer = consume(&second, "q").await;
    for body in [b"1", b"2", b"3"] {
        let delivery = next(&mut consumer).await;
        assert_eq!((&delivery.data[..], delivery.redelivered), (&body[..], true));
    }
}

#[tokio::test]
async fn a_wrong_declaration_closes_its_channel_alone() {
    // Broken: one mistake takes the other channels of the connection with it, or is not told.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = start(&directory.path().join("store"));
    let connection = connect(&broker).await;
    let (good, bad) = (confirming(&connection).await, channel(&connection).await);
    declare(&good, "q").await;
    let other = bad.queue_declare("q".into(), QueueDeclareOptions::default(), FieldTable::default()).await;
    let error = other.expect_err("the queue is there as a durable one").to_string();
    assert!(error.contains("inequivalent arg 'durable'"), "{error}");
    assert_eq!(publish(&good, "q", b"x", persistent()).await, Confirmation::Ack(None));
}

#[tokio::test]
async fn a_committed_transaction_survives_sigkill_whole() {
    // Broken: half a transaction is there after a crash, or one that was not committed.
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store");
    let broker = start(&store);
    let connection = connect(&broker).await;
    let channel_of = channel(&connection).await;
    declare(&channel_of, "q").await;
    channel_of.tx_select().await.expect("transaction mode");
    for committed in [true, false] {
        for _ in 0..20 {
            let options = BasicPublishOptions::default();
            let body = if committed { b"kept" } else { b"lost" };
            let published =
                channel_of.basic_publish("".into(), "q".into(), options, body, persistent()).await;
            published.expect("sent");
        }
        if committed {
            channel_of.tx_commit().await.expect("committed");
        }
    }
    broker.kill();
    let broker = start(&store);
    let connection = connect(&broker).await;
    let channel = channel(&connection).await;
    for left in (0..20).rev() {
        let got = channel.basic_get("q".into(), BasicGetOptions { no_ack: true }).await.expect("an answer");
        let got = got.expect("a message");
        assert_eq!((&got.delivery.data[..], got.message_count), (&b"kept"[..], left));
    }
}
