//! MQTT 3.1.1, by mqttbytes.

use super::{Answer, Codes, ConnAck, Connect, Disconnect, LastWill, Packet, Publish, Reason, Subscribe};
use super::{Terms, Unsubscribe, Verdict, Version};
use bytes::BytesMut;
use mqttbytes::QoS;
use mqttbytes::v4;

pub(super) fn write(packet: &Packet, out: &mut BytesMut) {
    write_plainly(&of_packet(packet), out);
}

/// Appends a packet of the codec's own that a client may send and that keeps its bounds.
pub(crate) fn write_plainly(packet: &v4::Packet, out: &mut BytesMut) {
    let written = match packet {
        v4::Packet::Connect(packet) => packet.write(out),
        v4::Packet::Publish(packet) => packet.write(out),
        v4::Packet::PubAck(packet) => packet.write(out),
        v4::Packet::PubRec(packet) => packet.write(out),
        v4::Packet::PubRel(packet) => packet.write(out),
        v4::Packet::PubComp(packet) => packet.write(out),
        v4::Packet::Subscribe(packet) => packet.write(out),
        v4::Packet::Unsubscribe(packet) => packet.write(out),
        v4::Packet::PingReq => v4::PingReq.write(out),
        v4::Packet::Disconnect => v4::Disconnect.write(out),
        v4::Packet::ConnAck(_) | v4::Packet::SubAck(_) | v4::Packet::UnsubAck(_) | v4::Packet::PingResp => {
            unreachable!("only a broker sends it")
        }
    };
    written.expect("the packet keeps the codec's bounds");
}

fn of_packet(packet: &Packet) -> v4::Packet {
    match packet {
        Packet::Connect(connect) => v4::Packet::Connect(of_connect(connect)),
        Packet::Publish(publish) => {
            let topic = publish.topic.clone();
            let mut packet = v4::Publish::from_bytes(topic, qos(publish.qos), publish.payload.clone());
            (packet.pkid, packet.dup, packet.retain) = (publish.packet_id, publish.dup, publish.retain);
            v4::Packet::Publish(packet)
        }
        Packet::PubAck(answer) => v4::Packet::PubAck(v4::PubAck::new(answer.packet_id)),
        Packet::PubRec(answer) => v4::Packet::PubRec(v4::PubRec::new(answer.packet_id)),
        Packet::PubRel(answer) => v4::Packet::PubRel(v4::PubRel::new(answer.packet_id)),
        Packet::PubComp(answer) => v4::Packet::PubComp(v4::PubComp::new(answer.packet_id)),
        Packet::Subscribe(subscribe) => {
            let filters = subscribe.filters.iter();
            let mut packet = v4::Subscribe::new_many(
                filters.map(|(filter, level)| v4::SubscribeFilter::new(filter.clone(), qos(*level))),
            );
            packet.pkid = subscribe.packet_id;
            v4::Packet::Subscribe(packet)
        }
        Packet::Unsubscribe(Unsubscribe { packet_id, filters }) => {
            v4::Packet::Unsubscribe(v4::Unsubscribe { pkid: *packet_id, topics: filters.clone() })
        }
        Packet::PingReq => v4::Packet::PingReq,
        Packet::Disconnect(_) => v4::Packet::Disconnect,
        Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
            unreachable!("only a broker sends it")
        }
    }
}

fn of_connect(connect: &Connect) -> v4::Connect {
    let mut packet = v4::Connect::new(connect.client_id.clone());
    packet.keep_alive = connect.keep_alive_s;
    packet.clean_session = connect.clean;
    packet.login = connect
        .password
        .as_ref()
        .map(|password| v4::Login { username: connect.client_id.clone(), password: password.clone() });
    packet.last_will = connect.will.as_ref().map(|will| v4::LastWill {
        topic: will.topic.clone(),
        message: will.payload.clone(),
        qos: qos(will.qos),
        retain: will.retain,
    });
    packet
}

pub(super) fn read(bytes: &mut BytesMut, most: usize) -> Result<Option<Packet>, String> {
    let packet = match v4::read(bytes, most) {
        Ok(packet) => packet,
        Err(mqttbytes::Error::InsufficientBytes(_)) => return Ok(None),
        Err(error) => return Err(format!("{error:?}")),
    };
    Ok(Some(match packet {
        v4::Packet::Connect(connect) => Packet::Connect(to_connect(connect)),
        v4::Packet::ConnAck(ack) => Packet::ConnAck(ConnAck {
            present: ack.session_present,
            verdict: match ack.code {
                v4::ConnectReturnCode::Success => Verdict::Accepted,
                v4::ConnectReturnCode::ServiceUnavailable => Verdict::Unavailable,
                other => Verdict::Refused(format!("{other:?}")),
            },
            terms: Terms::default(),
        }),
        v4::Packet::Publish(publish) => Packet::Publish(Publish {
            topic: publish.topic,
            payload: publish.payload,
            qos: publish.qos as u8,
            packet_id: publish.pkid,
            dup: publish.dup,
            retain: publish.retain,
            alias: None,
            expiry_s: None,
            identifiers: Vec::new(),
        }),
        v4::Packet::PubAck(ack) => Packet::PubAck(Answer::new(ack.pkid)),
        v4::Packet::PubRec(ack) => Packet::PubRec(Answer::new(ack.pkid)),
        v4::Packet::PubRel(ack) => Packet::PubRel(Answer::new(ack.pkid)),
        v4::Packet::PubComp(ack) => Packet::PubComp(Answer::new(ack.pkid)),
        v4::Packet::Subscribe(subscribe) => Packet::Subscribe(Subscribe {
            packet_id: subscribe.pkid,
            options: Vec::new(),
            identifier: None,
            filters: subscribe.filters.into_iter().map(|filter| (filter.path, filter.qos as u8)).collect(),
        }),
        v4::Packet::SubAck(ack) => {
            let code = |code: &v4::SubscribeReasonCode| match code {
                v4::SubscribeReasonCode::Success(qos) => Ok(*qos as u8),
                v4::SubscribeReasonCode::Failure => Err(Reason::QuotaExceeded),
            };
            Packet::SubAck(Codes { packet_id: ack.pkid, codes: ack.return_codes.iter().map(code).collect() })
        }
        v4::Packet::Unsubscribe(unsubscribe) => {
            Packet::Unsubscribe(Unsubscribe { packet_id: unsubscribe.pkid, filters: unsubscribe.topics })
        }
        v4::Packet::UnsubAck(ack) => Packet::UnsubAck(Codes { packet_id: ack.pkid, codes: Vec::new() }),
        v4::Packet::PingReq => Packet::PingReq,
        v4::Packet::PingResp => Packet::PingResp,
        v4::Packet::Disconnect => Packet::Disconnect(Disconnect::default()),
    }))
}

fn to_connect(connect: v4::Connect) -> Connect {
    Connect {
        version: Version::V3,
        client_id: connect.client_id,
        keep_alive_s: connect.keep_alive,
        clean: connect.clean_session,
        will: connect.last_will.map(|will| LastWill {
            topic: will.topic,
            payload: will.message,
            qos: will.qos as u8,
            retain: will.retain,
            delay_s: None,
        }),
        password: connect.login.map(|login| login.password),
        terms: Terms::default(),
    }
}

fn qos(level: u8) -> QoS {
    match level {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}
