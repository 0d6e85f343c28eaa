//! Clients of tests. What the broker sends is read by mqttbytes, a codec that this project did not write.

use super::Run;
use bytes::BytesMut;
use mqttbytes::QoS as Level;
use mqttbytes::v4::{self, Packet};

/// Everything that was sent to the connection, decoded.
pub fn received(run: &mut Run, connection: u64) -> Vec<Packet> {
    let mut bytes = BytesMut::from(&run.taken(connection)[..]);
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        packets.push(v4::read(&mut bytes, 1 << 28).expect("what the broker sends is MQTT"));
    }
    packets
}

pub fn connect_packet(client: &str, clean: bool) -> v4::Connect {
    let mut connect = v4::Connect::new(client);
    connect.clean_session = clean;
    connect.keep_alive = 0;
    connect
}

pub fn encode_connect(connect: &v4::Connect) -> Vec<u8> {
    let mut out = BytesMut::new();
    connect.write(&mut out).expect("a valid packet");
    out.to_vec()
}

/// Opens a connection and sends CONNECT; its number.
pub fn connect(run: &mut Run, client: &str, clean: bool) -> u64 {
    connect_as(run, &connect_packet(client, clean))
}

pub fn connect_as(run: &mut Run, packet: &v4::Connect) -> u64 {
    let id = run.open();
    run.send(id, &encode_connect(packet));
    id
}

/// Connects and expects to be accepted; the connection, and whether the session was present.
pub fn accepted(run: &mut Run, client: &str, clean: bool) -> (u64, bool) {
    let id = connect(run, client, clean);
    let packets = received(run, id);
    match packets.first() {
        Some(Packet::ConnAck(ack)) if ack.code == v4::ConnectReturnCode::Success => {
            put_back(run, id, &packets[1..]);
            (id, ack.session_present)
        }
        other => panic!("expected to be accepted, got {other:?}, {:?}", run.closed(id)),
    }
}

/// A client that is connected, its CONNACK read, deliveries left to be read.
fn put_back(run: &mut Run, id: u64, packets: &[Packet]) {
    let mut out = BytesMut::new();
    for packet in packets {
        match packet {
            Packet::Publish(publish) => publish.write(&mut out).map(drop),
            Packet::PubRel(release) => release.write(&mut out).map(drop),
            other => panic!("unexpected behind CONNACK: {other:?}"),
        }
        .expect("it was read");
    }
    run.sent.insert(id, out.to_vec());
}

pub fn subscribe_bytes(packet_id: u16, filters: &[(&str, u8)]) -> Vec<u8> {
    let mut body = packet_id.to_be_bytes().to_vec();
    for (filter, qos) in filters {
        body.extend((filter.len() as u16).to_be_bytes());
        body.extend(filter.as_bytes());
        body.push(*qos);
    }
    packet(0x82, &body)
}

/// A packet from its first byte and its body.
pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    let mut length = body.len();
    loop {
        let byte = (length % 128) as u8;
        length /= 128;
        out.push(if length > 0 { byte | 0x80 } else { byte });
        if length == 0 {
            break;
        }
    }
    out.extend(body);
    out
}

/// Subscribes and expects these return codes.
pub fn subscribe(run: &mut Run, id: u64, filters: &[(&str, u8)]) {
    run.send(id, &subscribe_bytes(77, filters));
    let packets = received(run, id);
    let Some(Packet::SubAck(ack)) = packets.first() else { panic!("no SUBACK: {packets:?}") };
    let codes: Vec<u8> = ack
        .return_codes
        .iter()
        .map(|code| match code {
            v4::SubscribeReasonCode::Success(qos) => *qos as u8,
            v4::SubscribeReasonCode::Failure => 0x80,
        })
        .collect();
    assert_eq!(codes, filters.iter().map(|f| f.1).collect::<Vec<_>>());
    put_back(run, id, &packets[1..]);
}

pub fn publish_bytes(
    topic: &str,
    qos: u8,
    packet_id: u16,
    payload: &[u8],
    dup: bool,
    retain: bool,
) -> Vec<u8> {
    let mut body = (topic.len() as u16).to_be_bytes().to_vec();
    body.extend(topic.as_bytes());
    if qos > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    body.extend(payload);
    packet(0x30 | u8::from(dup) << 3 | qos << 1 | u8::from(retain), &body)
}

/// Publishes, without reading the answer.
pub fn publish(run: &mut Run, id: u64, topic: &str, qos: u8, packet_id: u16, payload: &[u8]) {
    run.send(id, &publish_bytes(topic, qos, packet_id, payload, false, false));
}

pub fn retain(run: &mut Run, id: u64, topic: &str, qos: u8, packet_id: u16, payload: &[u8]) {
    run.send(id, &publish_bytes(topic, qos, packet_id, payload, false, true));
}

pub fn puback(id: u16) -> Vec<u8> {
    [&[0x40, 2][..], &id.to_be_bytes()].concat()
}

pub fn pubrec(id: u16) -> Vec<u8> {
    [&[0x50, 2][..], &id.to_be_bytes()].concat()
}

pub fn pubrel(id: u16) -> Vec<u8> {
    [&[0x62, 2][..], &id.to_be_bytes()].concat()
}

pub fn pubcomp(id: u16) -> Vec<u8> {
    [&[0x70, 2][..], &id.to_be_bytes()].concat()
}

pub const DISCONNECT: [u8; 2] = [0xe0, 0];

/// A PUBLISH as it was received, in short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: u8,
    pub packet_id: u16,
    pub dup: bool,
    pub retain: bool,
}

/// The PUBLISH packets among what was sent to the connection.
pub fn messages(run: &mut Run, id: u64) -> Vec<Got> {
    let packets = received(run, id);
    packets.into_iter().filter_map(as_message).collect()
}

pub fn as_message(packet: Packet) -> Option<Got> {
    let Packet::Publish(publish) = packet else { return None };
    let qos = match publish.qos {
        Level::AtMostOnce => 0,
        Level::AtLeastOnce => 1,
        Level::ExactlyOnce => 2,
    };
    Some(Got {
        topic: publish.topic,
        payload: publish.payload.to_vec(),
        qos,
        packet_id: publish.pkid,
        dup: publish.dup,
        retain: publish.retain,
    })
}

pub fn payloads(run: &mut Run, id: u64) -> Vec<Vec<u8>> {
    messages(run, id).into_iter().map(|got| got.payload).collect()
}

/// The acknowledgements among what was sent to the connection, as (first byte, packet id).
pub fn acknowledgements(run: &mut Run, id: u64) -> Vec<(u8, u16)> {
    let packets = received(run, id);
    packets
        .into_iter()
        .filter_map(|packet| match packet {
            Packet::PubAck(ack) => Some((0x40, ack.pkid)),
            Packet::PubRec(ack) => Some((0x50, ack.pkid)),
            Packet::PubRel(ack) => Some((0x62, ack.pkid)),
            Packet::PubComp(ack) => Some((0x70, ack.pkid)),
            Packet::SubAck(ack) => Some((0x90, ack.pkid)),
            Packet::UnsubAck(ack) => Some((0xb0, ack.pkid)),
            _ => None,
        })
        .collect()
}

/// What a client leaves with its CONNECT: topic, payload, QoS, RETAIN.
pub fn will(topic: &str, payload: &str, qos: u8, retain: bool) -> v4::LastWill {
    v4::LastWill::new(topic, payload, mqttbytes::qos(qos).expect("0 to 2"), retain)
}

/// Connects with a will and expects to be accepted.
pub fn accepted_with_will(run: &mut Run, client: &str, clean: bool, will: v4::LastWill) -> u64 {
    let mut packet = connect_packet(client, clean);
    packet.last_will = Some(will);
    let id = connect_as(run, &packet);
    let packets = received(run, id);
    assert!(
        matches!(packets.first(), Some(Packet::ConnAck(ack)) if ack.code == v4::ConnectReturnCode::Success)
    );
    put_back(run, id, &packets[1..]);
    id
}

/// A client of MQTT 3.1: its CONNECT.
pub fn connect_3_1(client: &str, clean: bool) -> Vec<u8> {
    let mut body = b"\0\x06MQIsdp\x03".to_vec();
    body.extend([u8::from(clean) << 1, 0, 0]);
    body.extend((client.len() as u16).to_be_bytes());
    body.extend(client.as_bytes());
    packet(0x10, &body)
}

pub fn unsubscribe_bytes(packet_id: u16, filters: &[&str]) -> Vec<u8> {
    let mut body = packet_id.to_be_bytes().to_vec();
    for filter in filters {
        body.extend((filter.len() as u16).to_be_bytes());
        body.extend(filter.as_bytes());
    }
    packet(0xa2, &body)
}

pub const PINGREQ: [u8; 2] = [0xc0, 0];

/// Takes everything that comes, as a subscriber that acknowledges to the end; the messages, in their order.
pub fn take_all(run: &mut Run, id: u64) -> Vec<Got> {
    let mut all = Vec::new();
    loop {
        let packets = received(run, id);
        if packets.is_empty() {
            return all;
        }
        for packet in packets {
            if let Packet::PubRel(release) = &packet {
                run.send(id, &pubcomp(release.pkid));
            }
            let Some(got) = as_message(packet) else { continue };
            match got.qos {
                1 => run.send(id, &puback(got.packet_id)),
                2 => run.send(id, &pubrec(got.packet_id)),
                _ => {}
            }
            all.push(got);
        }
    }
}

/// As `take_all`, the payloads as text.
pub fn take_texts(run: &mut Run, id: u64) -> Vec<String> {
    let text = |got: Got| String::from_utf8(got.payload).expect("text");
    take_all(run, id).into_iter().map(text).collect()
}
