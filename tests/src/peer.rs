//! One client in the hands of a test, which decides what is sent when; over mqttbytes, a codec that this project did not
//! write.

use bytes::BytesMut;
use mqttbytes::QoS;
use mqttbytes::v4::{self, Packet};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connected client.
pub struct Peer {
    stream: TcpStream,
    buffer: BytesMut,
    /// Whether the broker had its session.
    pub session_present: bool,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its QoS.
    pub qos: QoS,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Its packet identifier.
    pub packet_id: u16,
}

impl Peer {
    /// Connects, and waits for the answer.
    pub fn connect(address: impl Display, id: &str, clean: bool) -> Peer {
        Peer::try_connect(address, id, clean).expect("the broker accepts the client")
    }

    /// As `connect`; none if the broker is not there or does not answer.
    pub fn try_connect(address: impl Display, id: &str, clean: bool) -> Option<Peer> {
        let stream = TcpStream::connect(address.to_string()).ok()?;
        stream.set_nodelay(true).ok()?;
        let buffer = BytesMut::new();
        let mut peer = Peer { stream, buffer, session_present: false };
        let mut connect = v4::Connect::new(id);
        connect.clean_session = clean;
        connect.keep_alive = 60;
        peer.send(|out| connect.write(out))?;
        match peer.next(Duration::from_secs(30))? {
            Packet::ConnAck(ack) if ack.code == v4::ConnectReturnCode::Success => {
                peer.session_present = ack.session_present;
                Some(peer)
            }
            _ => None,
        }
    }

    /// Subscribes, and waits for the answer.
    pub fn subscribe(&mut self, filter: &str, qos: QoS) {
        let mut packet = v4::Subscribe::new(filter, qos);
        packet.pkid = 1;
        self.send(|out| packet.write(out)).expect("connected");
        let answer = self.next(Duration::from_secs(30));
        assert!(matches!(answer, Some(Packet::SubAck(_))), "{answer:?}");
    }

    /// Unsubscribes, and waits for the answer.
    pub fn unsubscribe(&mut self, filter: &str) {
        let mut packet = v4::Unsubscribe::new(filter);
        packet.pkid = 2;
        self.send(|out| packet.write(out)).expect("connected");
        let answer = self.next(Duration::from_secs(30));
        assert!(matches!(answer, Some(Packet::UnsubAck(_))), "{answer:?}");
    }

    /// Sends a PUBLISH, and waits for nothing; none if the connection is broken.
    pub fn publish(
        &mut self,
        topic: &str,
        qos: QoS,
        packet_id: u16,
        retain: bool,
        payload: &[u8],
    ) -> Option<()> {
        let mut packet = v4::Publish::new(topic, qos, payload);
        (packet.pkid, packet.retain) = (packet_id, retain);
        self.send(|out| packet.write(out))
    }

    /// Publishes with QoS 1 or 2 to the last acknowledgement.
    pub fn publish_and_wait(&mut self, topic: &str, qos: QoS, packet_id: u16, retain: bool, payload: &[u8]) {
        self.publish(topic, qos, packet_id, retain, payload).expect("connected");
        if qos == QoS::ExactlyOnce {
            let answer = self.next(Duration::from_secs(30));
            assert!(matches!(&answer, Some(Packet::PubRec(ack)) if ack.pkid == packet_id), "{answer:?}");
            self.send(|out| v4::PubRel::new(packet_id).write(out)).expect("connected");
        }
        match self.next(Duration::from_secs(30)) {
            Some(Packet::PubAck(ack)) if ack.pkid == packet_id => {}
            Some(Packet::PubComp(ack)) if ack.pkid == packet_id => {}
            other => panic!("not an acknowledgement: {other:?}"),
        }
    }

    /// Publishes numbers with QoS 1, so many at a time, until the broker is silent for `patience` or `more` says no.
    /// Those that were acknowledged are added to `acknowledged`; those on their way stay in `flying`.
    pub fn publish_numbers(
        &mut self,
        topic: &str,
        flying: &mut BTreeMap<u16, u64>,
        window: usize,
        patience: Duration,
        mut more: impl FnMut() -> Option<(u64, Vec<u8>)>,
        mut acknowledged: impl FnMut(u64),
    ) -> Option<()> {
        let mut ended = false;
        loop {
            while !ended && flying.len() < window {
                let Some((number, payload)) = more() else {
                    ended = true;
                    break;
                };
                let packet_id = 1 + (number % 60_000) as u16;
                self.publish(topic, QoS::AtLeastOnce, packet_id, false, &payload)?;
                flying.insert(packet_id, number);
            }
            if flying.is_empty() {
                return Some(());
            }
            match self.next(patience) {
                Some(Packet::PubAck(ack)) => {
                    let number = flying.remove(&ack.pkid).expect("only what was sent is acknowledged");
                    acknowledged(number);
                }
                Some(other) => panic!("not an acknowledgement: {other:?}"),
                None => return Some(()),
            }
        }
    }

    /// The next message, acknowledged to the end; none if nothing comes within `patience`. What belongs to earlier
    /// messages is answered on the way.
    pub fn take(&mut self, patience: Duration) -> Option<Came> {
        loop {
            match self.next(patience)? {
                Packet::Publish(publish) => {
                    let id = publish.pkid;
                    match publish.qos {
                        QoS::AtMostOnce => {}
                        QoS::AtLeastOnce => self.send(|out| v4::PubAck::new(id).write(out))?,
                        QoS::ExactlyOnce => self.send(|out| v4::PubRec::new(id).write(out))?,
                    }
                    return Some(came(publish));
                }
                Packet::PubRel(release) => {
                    self.send(|out| v4::PubComp::new(release.pkid).write(out))?;
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// The next message, not acknowledged; what belongs to earlier messages is answered on the way.
    pub fn look(&mut self, patience: Duration) -> Option<Came> {
        loop {
            match self.next(patience)? {
                Packet::Publish(publish) => return Some(came(publish)),
                Packet::PubRel(release) => {
                    self.send(|out| v4::PubComp::new(release.pkid).write(out))?;
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// Whether the broker answers a PINGREQ within `patience`.
    pub fn ping(&mut self, patience: Duration) -> bool {
        self.send(|out| v4::PingReq.write(out)).is_some()
            && matches!(self.next(patience), Some(Packet::PingResp))
    }

    /// DISCONNECT.
    pub fn disconnect(mut self) {
        self.send(|out| v4::Disconnect.write(out)).expect("connected");
        // The broker closes when it has taken it.
        let _ = self.next(Duration::from_secs(30));
    }

    /// The next packet; none if the connection is broken or nothing comes within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Packet> {
        let until = Instant::now() + patience;
        loop {
            match v4::read(&mut self.buffer, 1 << 26) {
                Ok(packet) => return Some(packet),
                Err(mqttbytes::Error::InsufficientBytes(_)) => {}
                Err(error) => panic!("the broker sent what is not MQTT: {error}"),
            }
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).ok()?;
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut BytesMut) -> Result<usize, mqttbytes::Error>) -> Option<()> {
        let mut out = BytesMut::new();
        write(&mut out).expect("a valid packet");
        self.stream.write_all(&out).ok()
    }
}

fn came(publish: v4::Publish) -> Came {
    let v4::Publish { dup, qos, topic, pkid, payload, .. } = publish;
    Came { topic, payload: payload.to_vec(), qos, dup, packet_id: pkid }
}
