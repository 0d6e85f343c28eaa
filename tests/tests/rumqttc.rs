//! rumqttc, a client that this project did not write, against the real binary.

use rumqttc::{AsyncClient, Event, EventLoop, LastWill, MqttOptions, Packet, Publish, QoS};
use std::time::Duration;
use vowmq_tests::Vowmq;

const PATIENCE: Duration = Duration::from_secs(10);

fn client(broker: &Vowmq, id: &str, clean: bool) -> (AsyncClient, EventLoop) {
    AsyncClient::new(options(broker, id, clean), 100)
}

fn options(broker: &Vowmq, id: &str, clean: bool) -> MqttOptions {
    let mut options = MqttOptions::new(id, "127.0.0.1", broker.address.port());
    options.set_clean_session(clean).set_keep_alive(Duration::from_secs(30));
    options.set_max_packet_size(2_000_000, 2_000_000);
    options
}

/// The next packet from the broker that `pick` takes.
async fn next<T>(events: &mut EventLoop, mut pick: impl FnMut(Packet) -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Event::Incoming(packet) = events.poll().await.expect("the connection stands")
                && let Some(picked) = pick(packet)
            {
                return picked;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("in time")
}

fn publish(packet: Packet) -> Option<Publish> {
    match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    }
}

async fn connected(events: &mut EventLoop) -> bool {
    next(events, |packet| match packet {
        Packet::ConnAck(ack) => Some(ack.session_present),
        _ => None,
    })
    .await
}

async fn subscribed(client: &AsyncClient, events: &mut EventLoop, filter: &str, qos: QoS) {
    client.subscribe(filter, qos).await.expect("queued");
    next(events, |packet| matches!(packet, Packet::SubAck(_)).then_some(())).await;
}

#[tokio::test]
async fn every_qos_carries_every_payload() {
    // Broken: payloads are changed or cut on their way, or a QoS does not work with a real client.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = Vowmq::start(directory.path(), &[]);
    let (subscriber, mut incoming) = client(&broker, "sub", false);
    connected(&mut incoming).await;
    subscribed(&subscriber, &mut incoming, "t/#", QoS::ExactlyOnce).await;
    let (publisher, mut outgoing) = client(&broker, "pub", true);
    let polling = tokio::spawn(async move { while outgoing.poll().await.is_ok() {} });
    let all_bytes: Vec<u8> = (0..=255).collect();
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for size in [0, 1, 127, 128, 65_535, 65_536, 65_537, 1_048_576] {
            let payload: Vec<u8> = all_bytes.iter().copied().cycle().take(size).collect();
            publisher.publish(format!("t/{size}"), qos, false, payload.clone()).await.expect("queued");
            let got = next(&mut incoming, publish).await;
            assert_eq!((got.qos, got.payload.len(), got.retain), (qos, size, false));
            assert!(got.payload == payload, "{size} bytes with {qos:?} were changed");
        }
    }
    polling.abort();
}

#[tokio::test]
async fn a_session_and_retained_messages_survive_sigkill() {
    // Broken: what a client was told is on disk is gone after kill -9.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = Vowmq::start(directory.path(), &[]);
    let (subscriber, mut incoming) = client(&broker, "sub", false);
    assert!(!connected(&mut incoming).await);
    subscribed(&subscriber, &mut incoming, "t", QoS::AtLeastOnce).await;
    drop((subscriber, incoming));
    let (publisher, mut outgoing) = client(&broker, "pub", true);
    for retain in [false, true] {
        publisher.publish("t", QoS::AtLeastOnce, retain, format!("retain {retain}")).await.expect("queued");
        next(&mut outgoing, |packet| matches!(packet, Packet::PubAck(_)).then_some(())).await;
    }
    broker.kill();
    let broker = Vowmq::start(directory.path(), &[]);
    let (_subscriber, mut incoming) = client(&broker, "sub", false);
    assert!(connected(&mut incoming).await, "session present");
    for retain in [false, true] {
        let got = next(&mut incoming, publish).await;
        assert_eq!((got.payload, got.retain), (format!("retain {retain}").into(), false));
    }
    let (late, mut late_incoming) = client(&broker, "late", true);
    late.subscribe("t", QoS::AtLeastOnce).await.expect("queued");
    let got = next(&mut late_incoming, publish).await;
    assert_eq!((&got.payload[..], got.retain), (&b"retain true"[..], true));
}

#[tokio::test]
async fn a_will_is_published_when_its_client_breaks_off() {
    // Broken: nobody learns that a device is gone.
    let directory = tempfile::tempdir().expect("a directory");
    let broker = Vowmq::start(directory.path(), &[]);
    let (watcher, mut incoming) = client(&broker, "watcher", true);
    subscribed(&watcher, &mut incoming, "gone/+", QoS::AtLeastOnce).await;
    let mut options = options(&broker, "device", true);
    options.set_last_will(LastWill::new("gone/device", "lost", QoS::AtLeastOnce, false));
    let (device, mut events) = AsyncClient::new(options, 10);
    connected(&mut events).await;
    drop((device, events));
    let got = next(&mut incoming, publish).await;
    assert_eq!((&got.topic[..], &got.payload[..]), ("gone/device", &b"lost"[..]));
}

#[test]
fn sigterm_ends_it_in_order() {
    // Broken: a service manager kills it after a time-out, or takes an orderly end for a failure.
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(Vowmq::start(directory.path(), &[]).terminate(), Some(0));
}
