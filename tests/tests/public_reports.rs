//! What went wrong in other brokers' stores, as their users reported it, against the real binary.

use mqttbytes::QoS;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use vowmq_tests::peer::{Came, Peer};
use vowmq_tests::{Vowmq, store_place};

const SMALL: [&str; 6] = [
    "--set",
    "segment_bytes=64 KiB",
    "--set",
    "limits.packet_bytes=16 KiB",
    "--set",
    "limits.connect_bytes=4 KiB",
];
const PATIENCE: Duration = Duration::from_millis(500);

fn restarted(broker: Vowmq, store: &Path) -> Vowmq {
    broker.kill();
    Vowmq::start(store, &SMALL)
}

fn rest(peer: &mut Peer) -> Vec<Came> {
    std::iter::from_fn(|| peer.take(PATIENCE)).collect()
}

/// Publishes so much that the log goes through several segments.
fn roll(broker: &Vowmq) {
    let mut publisher = Peer::connect(broker.address, "roller", false);
    for number in 1..=200 {
        publisher.publish_and_wait("roll", QoS::AtLeastOnce, number, true, &[b'r'; 1500]);
    }
    publisher.disconnect();
}

#[test]
fn b85_what_was_delivered_and_completed_does_not_come_again() {
    // https://github.com/eclipse-mosquitto/mosquitto/issues/1726: deliveries were not persisted, a crash repeated them.
    let (_place, store) = store_place();
    let broker = Vowmq::start(&store, &SMALL);
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    subscriber.subscribe("b/#", QoS::ExactlyOnce);
    subscriber.disconnect();
    let mut publisher = Peer::connect(broker.address, "publisher", false);
    for number in 1..=40 {
        publisher.publish_and_wait("b/2", QoS::ExactlyOnce, number, false, b"exactly once");
    }
    for number in 1..=40_u16 {
        publisher.publish_and_wait("b/1", QoS::AtLeastOnce, number, false, number.to_string().as_bytes());
    }
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    let came: Vec<Came> = (0..60).map(|_| subscriber.take(Duration::from_secs(10)).expect("comes")).collect();
    assert_eq!(came.iter().filter(|message| message.qos == QoS::ExactlyOnce).count(), 40);
    // The last ones are seen and not acknowledged; every handshake before is completed by what comes between.
    while subscriber.look(PATIENCE).is_some() {}
    // A settlement rides on the next sync; a PUBLISH that is acknowledged is one.
    publisher.publish_and_wait("elsewhere", QoS::AtLeastOnce, 100, true, b"sync");
    let broker = restarted(broker, &store);
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    assert!(subscriber.session_present);
    let again = rest(&mut subscriber);
    assert!(again.iter().all(|message| message.qos == QoS::AtLeastOnce), "QoS 2 again: {again:?}");
    let numbers: Vec<String> =
        again.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect();
    let unacknowledged: Vec<String> = (21..=40).map(|number: u16| number.to_string()).collect();
    assert_eq!(numbers, unacknowledged);
    assert!(again.iter().all(|message| message.dup), "they may have been delivered before, and say so");
}

#[test]
fn b87_a_crash_while_a_segment_is_made_blocks_no_start() {
    // https://github.com/rabbitmq/ra/pull/138: an empty segment file kept the broker from starting.
    let (_place, store) = store_place();
    let broker = Vowmq::start(&store, &SMALL);
    let mut subscriber = Peer::connect(broker.address, "subscriber", false);
    subscriber.subscribe("t", QoS::AtLeastOnce);
    subscriber.disconnect();
    let mut publisher = Peer::connect(broker.address, "publisher", false);
    publisher.publish_and_wait("t", QoS::AtLeastOnce, 1, false, b"kept");
    broker.kill();
    // What a crash can leave of a segment that was being made: nothing, some zeros, all of them.
    for length in [0, 1, 4096, 10_000, 64 * 1024] {
        let next = last_segment(&store) + 1;
        fs::write(store.join(format!("{next:020}.log")), vec![0; length]).expect("writes");
        let broker = Vowmq::start(&store, &SMALL);
        let mut reader = Peer::connect(broker.address, "subscriber", false);
        let came = reader.look(Duration::from_secs(10)).expect("what was acknowledged is there");
        assert_eq!(came.payload, b"kept", "after {length} bytes of a segment");
        broker.kill();
    }
}

fn last_segment(store: &Path) -> u64 {
    let names = fs::read_dir(store)
        .expect("the store")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).max().expect("a segment")
}

#[test]
fn b89_the_broker_goes_on_while_it_makes_checkpoints_and_compacts() {
    // https://github.com/eclipse-mosquitto/mosquitto/issues/172: the whole broker hung while its store was rewritten.
    // `B89_MIB` (default 96): the size of the backlog.
    let (_place, store) = store_place();
    let settings = ["--set", "segment_bytes=4 MiB", "--set", "limits.packet_bytes=1 MiB"];
    let broker = Vowmq::start(&store, &settings);
    for client in ["backlog", "half"] {
        let mut peer = Peer::connect(broker.address, client, false);
        peer.subscribe(&format!("{client}/#"), QoS::AtLeastOnce);
        peer.disconnect();
    }
    let mut probe = Peer::connect(broker.address, "probe", false);
    let mib: u64 = std::env::var("B89_MIB").map_or(96, |text| text.parse().expect("a number"));
    let (stop, address) = (std::sync::atomic::AtomicBool::new(false), broker.address);
    let mut latencies = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // Half of the messages are settled, so that segments get half empty and what is left of them moves.
            let mut publisher = Peer::connect(address, "publisher", false);
            for topic in ["backlog/t", "half/t"] {
                let mut flying = std::collections::BTreeMap::new();
                let mut numbers = 0..mib * 1024 / 16;
                let more = || Some((numbers.next()?, vec![b'x'; 16 * 1024]));
                let patience = Duration::from_secs(60);
                publisher.publish_numbers(topic, &mut flying, 100, patience, more, |_| {}).expect("serves");
            }
            let mut half = Peer::connect(address, "half", false);
            while half.take(Duration::from_secs(1)).is_some() {}
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut latencies = Vec::new();
        let mut packet_id = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            packet_id = packet_id % 60_000 + 1;
            let begun = Instant::now();
            probe.publish_and_wait("probe", QoS::AtLeastOnce, packet_id, true, b"probe");
            latencies.push(begun.elapsed());
        }
        worker.join().expect("no panic");
        latencies
    });
    latencies.sort();
    let p99 = latencies[latencies.len() * 99 / 100];
    eprintln!(
        "{} acknowledgements, p99 {p99:?}, longest {:?}",
        latencies.len(),
        latencies[latencies.len() - 1]
    );
    assert!(latencies.len() > 100, "too few to say anything");
    // Shared machines stall by themselves; a broker that hangs does so for seconds with a backlog like this.
    assert!(p99 < Duration::from_secs(1), "p99 of an acknowledgement: {p99:?}");
    assert!(probe.ping(Duration::from_secs(10)));
}

#[test]
fn b90_what_was_taken_away_does_not_come_back() {
    // LavinMQ 1.0.0-alpha.25: deleted queues could reappear after a crash; mosquitto #389: unreferenced messages saved.
    let (_place, store) = store_place();
    let mut broker = Vowmq::start(&store, &SMALL);
    for round in 0..3 {
        let mut peer = Peer::connect(broker.address, "client", false);
        peer.subscribe("gone/#", QoS::AtLeastOnce);
        peer.subscribe("stays/#", QoS::AtLeastOnce);
        let mut publisher = Peer::connect(broker.address, "publisher", false);
        publisher.publish_and_wait("gone/retained", QoS::AtLeastOnce, 1, true, b"old");
        assert_eq!(peer.take(Duration::from_secs(10)).expect("comes").payload, b"old");
        roll(&broker);
        broker = restarted(broker, &store);
        let mut peer = Peer::connect(broker.address, "client", false);
        let mut publisher = Peer::connect(broker.address, "publisher", false);
        rest(&mut peer);
        peer.unsubscribe("gone/#");
        publisher.publish_and_wait("gone/retained", QoS::AtLeastOnce, 2, true, b"");
        let mut doomed = Peer::connect(broker.address, "doomed", false);
        doomed.subscribe("doomed", QoS::AtLeastOnce);
        doomed.disconnect();
        publisher.publish_and_wait("doomed", QoS::AtLeastOnce, 3, false, b"for nobody");
        Peer::connect(broker.address, "doomed", true).disconnect();
        if round % 2 == 0 {
            roll(&broker);
        }
        broker = restarted(broker, &store);
        assert!(!Peer::connect(broker.address, "doomed", false).session_present, "a removed session is back");
        let mut publisher = Peer::connect(broker.address, "publisher", false);
        publisher.publish_and_wait("gone/live", QoS::AtLeastOnce, 4, false, b"to nobody");
        publisher.publish_and_wait("stays/live", QoS::AtLeastOnce, 5, false, b"to somebody");
        let mut peer = Peer::connect(broker.address, "client", false);
        assert!(peer.session_present);
        let topics: Vec<String> = rest(&mut peer).into_iter().map(|came| came.topic).collect();
        assert_eq!(topics, ["stays/live"], "a subscription that was taken away is back");
        let mut reader = Peer::connect(broker.address, "reader", true);
        reader.subscribe("gone/#", QoS::AtLeastOnce);
        assert_eq!(rest(&mut reader), [], "a cleared retained message is back");
    }
}
