//! Clients for the SIGKILL loop and the soak: correct MQTT 3.1.1 clients with a memory of their own, over mqttbytes, a codec
//! that this project did not write. They come back whenever their connection breaks.

use bytes::BytesMut;
use mqttbytes::QoS;
use mqttbytes::v4::{self, Packet};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages with numbers that leave this rest when divided by `KEPT_EVERY` go to a topic of their own.
pub const KEPT_EVERY: u64 = 100;

/// What was acknowledged to publishers, and what arrived. Each publisher sends its numbers one after the other, so it is
/// enough to know how far each stream is.
pub struct Audit {
    /// Each subscriber gets every number that is one of two in so many: all with 2.
    every: u64,
    /// Numbers below this one are acknowledged, by publisher.
    acknowledged: BTreeMap<usize, u64>,
    /// The number that comes next, by publisher and QoS.
    next: BTreeMap<(usize, u64), u64>,
    arrived: u64,
    again: u64,
    wrong: Vec<String>,
}

/// QoS 2 for even numbers, QoS 1 for odd ones.
fn qos_of(number: u64) -> QoS {
    if number.is_multiple_of(2) { QoS::ExactlyOnce } else { QoS::AtLeastOnce }
}

impl Audit {
    /// Of a subscriber that gets all messages.
    pub fn of_all() -> Audit {
        Audit::new(2)
    }

    /// Of a subscriber that gets the messages of the topic for those that are kept.
    pub fn of_kept() -> Audit {
        Audit::new(KEPT_EVERY)
    }

    fn new(every: u64) -> Audit {
        let (acknowledged, next, wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Audit { every, acknowledged, next, arrived: 0, again: 0, wrong }
    }

    /// The same was acknowledged as `other` says.
    pub fn acknowledged_as(&mut self, other: &Audit) {
        self.acknowledged.clone_from(&other.acknowledged);
    }

    /// Messages that are acknowledged, to whomever they go.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.values().sum()
    }

    /// Of those that go to this subscriber, how many have not arrived.
    pub fn missing(&self) -> u64 {
        let missing = self.acknowledged.iter().map(|(publisher, count)| {
            // Of the numbers below `count` those of this QoS, less those that have come.
            let of = |parity| {
                let next = self.next.get(&(*publisher, parity)).copied().unwrap_or(parity);
                let sent = count.saturating_sub(parity).div_ceil(self.every);
                sent.saturating_sub((next - parity) / self.every)
            };
            of(0) + of(1)
        });
        missing.sum()
    }

    /// Messages that arrived, each counted once.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    fn arrive(&mut self, publisher: usize, number: u64) {
        let next = self.next.entry((publisher, number % 2)).or_insert(number % 2);
        if number < *next {
            self.again += 1;
            if qos_of(number) == QoS::ExactlyOnce {
                self.wrong.push(format!("QoS 2 more than once: publisher {publisher}, number {number}"));
            }
            return;
        }
        if number > *next {
            let next = *next;
            self.wrong
                .push(format!("publisher {publisher}: {number} came, and {next} was to come before it"));
        }
        self.arrived += 1;
        *next = number + self.every;
    }

    /// In one line.
    pub fn summary(&self) -> String {
        let (acknowledged, arrived, again) = (self.acknowledged(), self.arrived, self.again);
        format!("{acknowledged} acknowledged, {arrived} arrived, {again} QoS 1 arrivals again")
    }

    /// What went wrong: the first things.
    pub fn wrong(&self) -> &[String] {
        &self.wrong[..self.wrong.len().min(20)]
    }

    /// Fails if something was lost, doubled or out of order.
    pub fn check(&self) {
        assert!(self.wrong.is_empty(), "{:?}", self.wrong());
        assert_eq!(self.missing(), 0, "acknowledged and lost: {}", self.summary());
    }
}

/// A connection that decodes.
struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Connection {
    /// Connects with a durable session, as often as it takes; whether the session was present.
    fn open(address: &str, id: &str) -> (Connection, bool) {
        loop {
            if let Ok(stream) = TcpStream::connect(address) {
                stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
                let mut connection = Connection { stream, buffer: BytesMut::new() };
                let mut connect = v4::Connect::new(id);
                connect.clean_session = false;
                connect.keep_alive = 60;
                if connection.send(|out| connect.write(out)).is_some()
                    && let Some(Packet::ConnAck(ack)) = connection.next_within(200)
                {
                    assert_eq!(ack.code, v4::ConnectReturnCode::Success);
                    return (connection, ack.session_present);
                }
            }
            std::thread::sleep(Duration::from_millis(5)); // until the broker is back
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut BytesMut) -> Result<usize, mqttbytes::Error>) -> Option<()> {
        let mut out = BytesMut::new();
        write(&mut out).expect("a valid packet");
        self.stream.write_all(&out).ok()
    }

    /// The next packet; none when the connection is broken or nothing came within so many time-outs.
    fn next_within(&mut self, time_outs: usize) -> Option<Packet> {
        let mut silent = 0;
        loop {
            match v4::read(&mut self.buffer, 1 << 20) {
                Ok(packet) => return Some(packet),
                Err(mqttbytes::Error::InsufficientBytes(_)) => {}
                Err(error) => panic!("the broker sent what is not MQTT: {error}"),
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    silent += 1;
                    if silent >= time_outs {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }
}

/// Publishes one message after the other, each until it is acknowledged to the end.
pub struct Publisher(JoinHandle<()>);

impl Publisher {
    /// Starts the publisher of this number. Each message is filled up with so many bytes.
    pub fn start(
        address: &str,
        number: usize,
        filling: usize,
        audit: &Arc<Mutex<Audit>>,
        stop: &Arc<AtomicBool>,
    ) -> Publisher {
        let (address, audit, stop) = (address.to_owned(), Arc::clone(audit), Arc::clone(stop));
        Publisher(std::thread::spawn(move || publish(&address, number, filling, &audit, &stop)))
    }

    /// Waits for its end, which `stop` has ordered.
    pub fn join(self) {
        self.0.join().expect("the publisher came to its end");
    }
}

/// How far a message is.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    New,
    Sent,
    Releasing,
}

fn publish(address: &str, publisher: usize, filling: usize, audit: &Mutex<Audit>, stop: &AtomicBool) {
    let id = format!("publisher-{publisher}");
    let filling = "x".repeat(filling);
    let mut number = 0;
    let mut stage = Stage::New;
    let (mut connection, _) = Connection::open(address, &id);
    loop {
        if stage == Stage::New && stop.load(Ordering::Relaxed) {
            return;
        }
        match exchange(&mut connection, publisher, number, &filling, &mut stage) {
            Some(()) => {
                number += 1;
                audit.lock().expect("nobody panicked").acknowledged.insert(publisher, number);
                stage = Stage::New;
            }
            None => {
                let present;
                (connection, present) = Connection::open(address, &id);
                assert!(present, "a durable session is gone");
            }
        }
    }
}

/// Brings one message to its last acknowledgement; none when the connection broke.
fn exchange(
    connection: &mut Connection,
    publisher: usize,
    number: u64,
    filling: &str,
    stage: &mut Stage,
) -> Option<()> {
    let packet_id = 1 + (number % 65_535) as u16;
    if *stage != Stage::Releasing {
        let kept = if number % KEPT_EVERY < 2 { "/kept" } else { "" };
        let topic = format!("t/{publisher}{kept}");
        let mut packet = v4::Publish::new(topic, qos_of(number), format!("{publisher} {number} {filling}"));
        packet.pkid = packet_id;
        packet.dup = *stage == Stage::Sent;
        *stage = Stage::Sent;
        connection.send(|out| packet.write(out))?;
        match connection.next_within(200)? {
            Packet::PubAck(ack) if ack.pkid == packet_id => return Some(()),
            Packet::PubRec(ack) if ack.pkid == packet_id => *stage = Stage::Releasing,
            other => panic!("unexpected: {other:?}"),
        }
    }
    connection.send(|out| v4::PubRel::new(packet_id).write(out))?;
    match connection.next_within(200)? {
        Packet::PubComp(ack) if ack.pkid == packet_id => Some(()),
        other => panic!("unexpected: {other:?}"),
    }
}

/// QoS 2 identifiers that a subscriber has received and that were not released yet (method B of §4.3.3).
pub type Received = BTreeSet<u16>;

/// Takes everything, breaking off now and then of its own accord.
pub struct Subscriber {
    thread: JoinHandle<Received>,
    stop: Arc<AtomicBool>,
}

impl Subscriber {
    /// Makes the durable session of `id`, and leaves it.
    pub fn prepare(address: &str, id: &str, filter: &str) {
        let (mut connection, _) = Connection::open(address, id);
        let mut packet = v4::Subscribe::new(filter, QoS::ExactlyOnce);
        packet.pkid = 1;
        connection.send(|out| packet.write(out)).expect("it was just connected");
        let answer = connection.next_within(200);
        assert!(matches!(answer, Some(Packet::SubAck(_))), "{answer:?}");
    }

    /// Starts to take what the session gets. `received` is what its last subscriber came back with.
    pub fn start(address: &str, id: &str, received: Received, audit: &Arc<Mutex<Audit>>) -> Subscriber {
        let stop = Arc::new(AtomicBool::new(false));
        let (address, id) = (address.to_owned(), id.to_owned());
        let (audit, stopped) = (Arc::clone(audit), Arc::clone(&stop));
        let thread = std::thread::spawn(move || take(&address, &id, received, &audit, &stopped));
        Subscriber { thread, stop }
    }

    /// Whether it has given up.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops it.
    pub fn join(self) -> Received {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the subscriber came to its end")
    }
}

fn take(
    address: &str,
    id: &str,
    mut received: Received,
    audit: &Mutex<Audit>,
    stop: &AtomicBool,
) -> Received {
    let mut connection = Connection::open(address, id).0;
    let mut taken = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let Some(()) = take_one(&mut connection, &mut received, audit) else {
            connection = Connection::open(address, id).0;
            continue;
        };
        taken += 1;
        if taken.is_multiple_of(997) {
            connection = Connection::open(address, id).0; // a take-over
        }
    }
    received
}

fn take_one(connection: &mut Connection, received: &mut Received, audit: &Mutex<Audit>) -> Option<()> {
    match connection.next_within(2)? {
        Packet::Publish(publish) => {
            let text = std::str::from_utf8(&publish.payload).expect("payloads are text here");
            let mut words = text.split(' ');
            let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
            let (publisher, number) = (number() as usize, number());
            assert_eq!(publish.qos, qos_of(number));
            let id = publish.pkid;
            if publish.qos == QoS::AtLeastOnce || received.insert(id) {
                audit.lock().expect("nobody panicked").arrive(publisher, number);
            }
            match publish.qos {
                QoS::AtLeastOnce => connection.send(|out| v4::PubAck::new(id).write(out)),
                _ => connection.send(|out| v4::PubRec::new(id).write(out)),
            }
        }
        Packet::PubRel(release) => {
            received.remove(&release.pkid);
            connection.send(|out| v4::PubComp::new(release.pkid).write(out))
        }
        other => panic!("unexpected: {other:?}"),
    }
}
