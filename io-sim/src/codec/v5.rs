//! MQTT 5, by the codec of rumqttc.

use super::{
    Answer, Codes, ConnAck, Connect, Disconnect, LastWill, Options, Packet, Publish, Reason, Subscribe,
};
use super::{Terms, Unsubscribe, Verdict, Version};
use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::v5;
use rumqttc::v5::mqttbytes::{Error, QoS};

pub(super) fn write(packet: &Packet, out: &mut BytesMut) {
    let packet = match packet {
        Packet::Connect(connect) => of_connect(connect),
        Packet::Publish(publish) => v5::Packet::Publish(of_publish(publish)),
        Packet::PubAck(answer) => v5::Packet::PubAck(v5::PubAck::new(answer.packet_id, None)),
        Packet::PubRec(answer) => v5::Packet::PubRec(v5::PubRec::new(answer.packet_id, None)),
        Packet::PubRel(answer) => v5::Packet::PubRel(v5::PubRel::new(answer.packet_id, None)),
        Packet::PubComp(answer) => v5::Packet::PubComp(v5::PubComp::new(answer.packet_id, None)),
        Packet::Subscribe(subscribe) => {
            let options = subscribe.options.iter().copied().chain(std::iter::repeat(Options::default()));
            let filters = subscribe.filters.iter().zip(options);
            let filters = filters.map(|((filter, level), options)| of_filter(filter, *level, options));
            let properties = subscribe
                .identifier
                .map(|id| v5::SubscribeProperties { id: Some(id as usize), user_properties: Vec::new() });
            let mut packet = v5::Subscribe::new_many(filters, properties);
            packet.pkid = subscribe.packet_id;
            v5::Packet::Subscribe(packet)
        }
        Packet::Unsubscribe(Unsubscribe { packet_id, filters }) => {
            let (pkid, filters) = (*packet_id, filters.clone());
            v5::Packet::Unsubscribe(v5::Unsubscribe { pkid, filters, properties: None })
        }
        Packet::PingReq => v5::Packet::PingReq(v5::PingReq),
        Packet::Disconnect(disconnect) => v5::Packet::Disconnect(of_disconnect(disconnect)),
        Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
            unreachable!("only a broker sends it")
        }
    };
    packet.write(out, None).expect("the packet keeps the codec's bounds");
}

pub(super) fn read(bytes: &mut BytesMut, most: usize) -> Result<Option<Packet>, String> {
    let before = bytes.len();
    let packet = match v5::Packet::read(bytes, u32::try_from(most).ok()) {
        Ok(packet) => packet,
        // It says the same of a whole packet that is too short for what it says.
        Err(Error::InsufficientBytes(_)) if bytes.len() == before => return Ok(None),
        Err(error) => return Err(format!("{error:?}")),
    };
    Ok(Some(match packet {
        v5::Packet::Connect(connect, will, login) => Packet::Connect(to_connect(connect, will, login)),
        v5::Packet::ConnAck(ack) => Packet::ConnAck(to_connack(ack)),
        v5::Packet::Publish(publish) => Packet::Publish(to_publish(publish)?),
        v5::Packet::PubAck(ack) => {
            let reason = match ack.reason {
                v5::PubAckReason::Success => Reason::Success,
                v5::PubAckReason::NoMatchingSubscribers => Reason::NobodyHears,
                v5::PubAckReason::QuotaExceeded => Reason::QuotaExceeded,
                _ => Reason::Other,
            };
            Packet::PubAck(Answer { packet_id: ack.pkid, reason })
        }
        v5::Packet::PubRec(ack) => {
            let reason = match ack.reason {
                v5::PubRecReason::Success => Reason::Success,
                v5::PubRecReason::NoMatchingSubscribers => Reason::NobodyHears,
                v5::PubRecReason::QuotaExceeded => Reason::QuotaExceeded,
                _ => Reason::Other,
            };
            Packet::PubRec(Answer { packet_id: ack.pkid, reason })
        }
        v5::Packet::PubRel(ack) => {
            let found = ack.reason == v5::PubRelReason::Success;
            let reason = if found { Reason::Success } else { Reason::NotInUse };
            Packet::PubRel(Answer { packet_id: ack.pkid, reason })
        }
        v5::Packet::PubComp(ack) => {
            let found = ack.reason == v5::PubCompReason::Success;
            let reason = if found { Reason::Success } else { Reason::NotInUse };
            Packet::PubComp(Answer { packet_id: ack.pkid, reason })
        }
        v5::Packet::Subscribe(subscribe) => Packet::Subscribe(Subscribe {
            packet_id: subscribe.pkid,
            options: subscribe.filters.iter().map(to_options).collect(),
            identifier: subscribe.properties.and_then(|properties| properties.id).map(|id| id as u32),
            filters: subscribe.filters.into_iter().map(|filter| (filter.path, filter.qos as u8)).collect(),
        }),
        v5::Packet::SubAck(ack) => Packet::SubAck(to_suback(&ack)),
        v5::Packet::Unsubscribe(unsubscribe) => {
            Packet::Unsubscribe(Unsubscribe { packet_id: unsubscribe.pkid, filters: unsubscribe.filters })
        }
        v5::Packet::UnsubAck(ack) => {
            let code = |reason: &v5::UnsubAckReason| match reason {
                v5::UnsubAckReason::Success => Ok(0),
                v5::UnsubAckReason::NoSubscriptionExisted => Err(Reason::NotInUse),
                _ => Err(Reason::Other),
            };
            Packet::UnsubAck(Codes { packet_id: ack.pkid, codes: ack.reasons.iter().map(code).collect() })
        }
        v5::Packet::PingReq(_) => Packet::PingReq,
        v5::Packet::PingResp(_) => Packet::PingResp,
        v5::Packet::Disconnect(disconnect) => Packet::Disconnect(Disconnect {
            code: disconnect.reason_code as u8,
            session_expiry_s: disconnect.properties.and_then(|properties| properties.session_expiry_interval),
        }),
        v5::Packet::Auth(_) => return Err("an AUTH packet that nobody asked for".to_owned()),
    }))
}

fn of_connect(asked: &Connect) -> v5::Packet {
    let mut properties = v5::ConnectProperties::new();
    properties.session_expiry_interval = asked.terms.session_expiry_s;
    properties.receive_maximum = asked.terms.receive_maximum;
    properties.topic_alias_max = asked.terms.topic_alias_maximum;
    properties.max_packet_size = asked.terms.maximum_packet_bytes;
    let will = asked.will.as_ref().map(|will| v5::LastWill {
        topic: Bytes::copy_from_slice(will.topic.as_bytes()),
        message: will.payload.clone(),
        qos: qos(will.qos),
        retain: will.retain,
        properties: will.delay_s.map(|delay_s| v5::LastWillProperties {
            delay_interval: Some(delay_s),
            payload_format_indicator: None,
            message_expiry_interval: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            user_properties: Vec::new(),
        }),
    });
    let connect = v5::Connect {
        keep_alive: asked.keep_alive_s,
        client_id: asked.client_id.clone(),
        clean_start: asked.clean,
        properties: Some(properties),
    };
    let login = asked
        .password
        .as_ref()
        .map(|password| v5::Login { username: asked.client_id.clone(), password: password.clone() });
    v5::Packet::Connect(connect, will, login)
}

fn to_connect(connect: v5::Connect, will: Option<v5::LastWill>, login: Option<v5::Login>) -> Connect {
    let properties = connect.properties.unwrap_or_default();
    Connect {
        version: Version::V5,
        client_id: connect.client_id,
        keep_alive_s: connect.keep_alive,
        clean: connect.clean_start,
        password: login.map(|login| login.password),
        will: will.map(|will| LastWill {
            topic: String::from_utf8_lossy(&will.topic).into_owned(),
            payload: will.message,
            qos: will.qos as u8,
            retain: will.retain,
            delay_s: will.properties.and_then(|properties| properties.delay_interval),
        }),
        terms: Terms {
            session_expiry_s: properties.session_expiry_interval,
            receive_maximum: properties.receive_maximum,
            topic_alias_maximum: properties.topic_alias_max,
            maximum_packet_bytes: properties.max_packet_size,
        },
    }
}

fn to_connack(ack: v5::ConnAck) -> ConnAck {
    let properties = ack.properties;
    ConnAck {
        present: ack.session_present,
        verdict: match ack.code {
            v5::ConnectReturnCode::Success => Verdict::Accepted,
            v5::ConnectReturnCode::ServerUnavailable => Verdict::Unavailable,
            other => Verdict::Refused(format!("{other:?}")),
        },
        terms: properties.map_or(Terms::default(), |properties| Terms {
            session_expiry_s: properties.session_expiry_interval,
            receive_maximum: properties.receive_max,
            topic_alias_maximum: properties.topic_alias_max,
            maximum_packet_bytes: properties.max_packet_size,
        }),
    }
}

fn of_filter(filter: &str, level: u8, options: Options) -> v5::Filter {
    let retain_forward_rule = match options.retain_handling {
        0 => v5::RetainForwardRule::OnEverySubscribe,
        1 => v5::RetainForwardRule::OnNewSubscribe,
        _ => v5::RetainForwardRule::Never,
    };
    let (nolocal, preserve_retain) = (options.no_local, options.retain_as_published);
    v5::Filter { path: filter.to_owned(), qos: qos(level), nolocal, preserve_retain, retain_forward_rule }
}

fn to_options(filter: &v5::Filter) -> Options {
    let retain_handling = match filter.retain_forward_rule {
        v5::RetainForwardRule::OnEverySubscribe => 0,
        v5::RetainForwardRule::OnNewSubscribe => 1,
        v5::RetainForwardRule::Never => 2,
    };
    let (no_local, retain_as_published) = (filter.nolocal, filter.preserve_retain);
    Options { no_local, retain_as_published, retain_handling }
}

fn of_publish(publish: &Publish) -> v5::Publish {
    let says = publish.alias.is_some() || publish.expiry_s.is_some();
    let properties = says.then(|| v5::PublishProperties {
        topic_alias: publish.alias,
        message_expiry_interval: publish.expiry_s,
        ..v5::PublishProperties::default()
    });
    let mut packet =
        v5::Publish::new(publish.topic.clone(), qos(publish.qos), publish.payload.clone(), properties);
    (packet.pkid, packet.dup, packet.retain) = (publish.packet_id, publish.dup, publish.retain);
    packet
}

fn to_publish(publish: v5::Publish) -> Result<Publish, String> {
    let properties = publish.properties.unwrap_or_default();
    Ok(Publish {
        topic: String::from_utf8(publish.topic.to_vec()).map_err(|error| error.to_string())?,
        payload: publish.payload,
        qos: publish.qos as u8,
        packet_id: publish.pkid,
        dup: publish.dup,
        retain: publish.retain,
        alias: properties.topic_alias,
        expiry_s: properties.message_expiry_interval,
        identifiers: properties.subscription_identifiers.iter().map(|id| *id as u32).collect(),
    })
}

fn to_suback(ack: &v5::SubAck) -> Codes {
    let code = |code: &v5::SubscribeReasonCode| match code {
        v5::SubscribeReasonCode::Success(qos) => Ok(*qos as u8),
        v5::SubscribeReasonCode::QuotaExceeded => Err(Reason::QuotaExceeded),
        _ => Err(Reason::Other),
    };
    Codes { packet_id: ack.pkid, codes: ack.return_codes.iter().map(code).collect() }
}

fn of_disconnect(disconnect: &Disconnect) -> v5::Disconnect {
    let reason = match disconnect.code {
        0x04 => v5::DisconnectReasonCode::DisconnectWithWillMessage,
        _ => v5::DisconnectReasonCode::NormalDisconnection,
    };
    let mut packet = v5::Disconnect::new(reason);
    // The codec takes every packet of two bytes for one without a reason: words make it longer.
    let says = disconnect.code != 0 || disconnect.session_expiry_s.is_some();
    packet.properties = says.then(|| v5::DisconnectProperties {
        session_expiry_interval: disconnect.session_expiry_s,
        reason_string: (disconnect.code != 0).then(|| "publish my will".to_owned()),
        user_properties: Vec::new(),
        server_reference: None,
    });
    packet
}

fn qos(level: u8) -> QoS {
    match level {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, a client would say something else than its program has.
    #[test]
    fn a_goodbye_says_what_it_is_meant_to_say() {
        for (code, session_expiry_s) in [(0, None), (4, None), (0, Some(7)), (4, Some(0))] {
            let said = Packet::Disconnect(Disconnect { code, session_expiry_s });
            let mut bytes = BytesMut::new();
            write(&said, &mut bytes);
            if code == 0 && session_expiry_s.is_none() {
                assert_eq!(bytes[..], [0xe0, 0]);
            } else {
                assert_eq!(read(&mut bytes, 1000), Ok(Some(said)));
            }
        }
    }
}
