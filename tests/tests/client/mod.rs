//! Clients for the SIGKILL loop: correct MQTT 3.1.1 clients with a memory of their own, over mqttbytes, a codec
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

/// What was acknowledged to publishers, and what arrived.
#[derive(Default)]
pub struct Audit {
    acknowledged: BTreeSet<(usize, u64)>,
    arrived: BTreeMap<(usize, u64), usize>,
    /// First arrivals, in their order, by publisher and QoS.
    order: BTreeMap<(usize, u64), Vec<u64>>,
}

/// QoS 2 for even numbers, QoS 1 for odd ones.
fn qos_of(number: u64) -> QoS {
    if number.is_multiple_of(2) { QoS::ExactlyOnce } else { QoS::AtLeastOnce }
}

impl Audit {
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    pub fn missing(&self) -> usize {
        self.acknowledged.iter().filter(|message| !self.arrived.contains_key(message)).count()
    }

    fn arrive(&mut self, publisher: usize, number: u64) {
        let times = self.arrived.entry((publisher, number)).or_default();
        *times += 1;
        if *times == 1 {
            self.order.entry((publisher, number % 2)).or_default().push(number);
        }
    }

    pub fn summary(&self) -> String {
        let again: usize = self.arrived.values().map(|times| times - 1).sum();
        let (acknowledged, arrived) = (self.acknowledged.len(), self.arrived.len());
        format!("{acknowledged} acknowledged, {arrived} arrived, {again} QoS 1 arrivals again")
    }

    pub fn check(&self) {
        let lost: Vec<_> = self.acknowledged.iter().filter(|m| !self.arrived.contains_key(m)).collect();
        assert!(lost.is_empty(), "acknowledged and lost (publisher, number): {lost:?}");
        let twice: Vec<_> = self.arrived.iter().filter(|((_, n), times)| n % 2 == 0 && **times > 1).collect();
        assert!(twice.is_empty(), "QoS 2 more than once: {twice:?}");
        for ((publisher, _), numbers) in &self.order {
            assert!(numbers.is_sorted(), "out of order from publisher {publisher}: {numbers:?}");
        }
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
    pub fn start(
        address: &str,
        number: usize,
        audit: &Arc<Mutex<Audit>>,
        stop: &Arc<AtomicBool>,
    ) -> Publisher {
        let (address, audit, stop) = (address.to_owned(), Arc::clone(audit), Arc::clone(stop));
        Publisher(std::thread::spawn(move || publish(&address, number, &audit, &stop)))
    }

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

fn publish(address: &str, publisher: usize, audit: &Mutex<Audit>, stop: &AtomicBool) {
    let id = format!("publisher-{publisher}");
    let mut number = 0;
    let mut stage = Stage::New;
    let (mut connection, _) = Connection::open(address, &id);
    loop {
        if stage == Stage::New && stop.load(Ordering::Relaxed) {
            return;
        }
        match exchange(&mut connection, publisher, number, &mut stage) {
            Some(()) => {
                audit.lock().expect("nobody panicked").acknowledged.insert((publisher, number));
                number += 1;
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
fn exchange(connection: &mut Connection, publisher: usize, number: u64, stage: &mut Stage) -> Option<()> {
    let packet_id = 1 + (number % 65_535) as u16;
    if *stage != Stage::Releasing {
        let mut packet =
            v4::Publish::new(format!("t/{publisher}"), qos_of(number), format!("{publisher} {number}"));
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

/// Takes everything, breaking off now and then of its own accord.
pub struct Subscriber {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Subscriber {
    /// Returns once it has subscribed.
    pub fn start(address: &str, audit: &Arc<Mutex<Audit>>) -> Subscriber {
        let (mut connection, _) = Connection::open(address, "subscriber");
        let mut packet = v4::Subscribe::new("t/#", QoS::ExactlyOnce);
        packet.pkid = 1;
        connection.send(|out| packet.write(out)).expect("it was just connected");
        let answer = connection.next_within(200);
        assert!(matches!(answer, Some(Packet::SubAck(_))), "{answer:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let (address, audit, stopped) = (address.to_owned(), Arc::clone(audit), Arc::clone(&stop));
        let thread = std::thread::spawn(move || take(&address, connection, &audit, &stopped));
        Subscriber { thread, stop }
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub fn join(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the subscriber came to its end");
    }
}

fn take(address: &str, mut connection: Connection, audit: &Mutex<Audit>, stop: &AtomicBool) {
    // QoS 2 identifiers that were received and not released yet (method B of §4.3.3).
    let mut received = BTreeSet::new();
    let mut taken = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let Some(()) = take_one(&mut connection, &mut received, audit) else {
            connection = Connection::open(address, "subscriber").0;
            continue;
        };
        taken += 1;
        if taken.is_multiple_of(997) {
            connection = Connection::open(address, "subscriber").0; // a take-over
        }
    }
}

fn take_one(connection: &mut Connection, received: &mut BTreeSet<u16>, audit: &Mutex<Audit>) -> Option<()> {
    match connection.next_within(2)? {
        Packet::Publish(publish) => {
            let text = std::str::from_utf8(&publish.payload).expect("payloads are text here");
            let (publisher, number) = text.split_once(' ').expect("two numbers");
            let (publisher, number) =
                (publisher.parse().expect("a number"), number.parse().expect("a number"));
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
