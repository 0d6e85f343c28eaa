//! Packets in words, and what each is about.

use crate::payload;
use mqttbytes::v4::{ConnectReturnCode, Packet, Publish, SubscribeReasonCode};
use std::collections::BTreeMap;
use vowmq_core::ids::ConnectionId;

/// What packet ids stand for at the moment.
#[derive(Default)]
pub(super) struct Names {
    /// By client, whether the client chose the id, and the id.
    of_id: BTreeMap<(usize, bool, u16), String>,
    /// Subscriptions and their ends asked for so far.
    requests: u64,
}

/// A connection's name.
pub(super) fn connection(id: ConnectionId) -> String {
    format!("connection {id}")
}

impl Names {
    /// A packet on its way, in words that begin with its type and its id; and what it is about.
    pub(super) fn describe(
        &mut self,
        client: usize,
        to_broker: bool,
        id: ConnectionId,
        packet: &Packet,
    ) -> (String, Vec<String>) {
        let chosen_here = (client, to_broker);
        let chosen_there = (client, !to_broker);
        match packet {
            Packet::Connect(connect) => {
                let session = if connect.clean_session { "clean session" } else { "durable session" };
                let key = connect.last_will.as_ref().and_then(|will| payload::recognise(&will.message));
                let will = key.map(|key| format!(", will {key}")).unwrap_or_default();
                let about = [connection(id)].into_iter().chain(key.map(|key| key.to_string()));
                (format!("CONNECT {:?} {session}{will}", connect.client_id), about.collect())
            }
            Packet::ConnAck(ack) => {
                let code = match ack.code {
                    ConnectReturnCode::Success => "accepted".to_owned(),
                    other => format!("refused: {other:?}"),
                };
                let present = if ack.session_present { ", session present" } else { ", new session" };
                (format!("CONNACK {code}{present}"), vec![connection(id)])
            }
            Packet::Publish(publish) => self.publish(chosen_here, publish),
            Packet::PubAck(ack) => self.answer("PUBACK", chosen_there, ack.pkid),
            Packet::PubRec(ack) => self.answer("PUBREC", chosen_there, ack.pkid),
            Packet::PubRel(ack) => self.answer("PUBREL", chosen_here, ack.pkid),
            Packet::PubComp(ack) => self.answer("PUBCOMP", chosen_there, ack.pkid),
            Packet::Subscribe(subscribe) => {
                let filters = subscribe.filters.iter();
                let filters = filters.map(|filter| format!("{:?} QoS {}", filter.path, filter.qos as u8));
                let name = self.request(chosen_here, subscribe.pkid, "subscription");
                let filters = filters.collect::<Vec<_>>().join(", ");
                (format!("SUBSCRIBE {} {filters}", subscribe.pkid), vec![name])
            }
            Packet::Unsubscribe(unsubscribe) => {
                let name = self.request(chosen_here, unsubscribe.pkid, "unsubscription");
                (format!("UNSUBSCRIBE {} {:?}", unsubscribe.pkid, unsubscribe.topics), vec![name])
            }
            Packet::SubAck(ack) => {
                let code = |code: &SubscribeReasonCode| match code {
                    SubscribeReasonCode::Success(qos) => format!("QoS {}", *qos as u8),
                    SubscribeReasonCode::Failure => "refused".to_owned(),
                };
                let codes = ack.return_codes.iter().map(code).collect::<Vec<_>>().join(", ");
                let (words, about) = self.answer("SUBACK", chosen_there, ack.pkid);
                (format!("{words}: {codes}"), about)
            }
            Packet::UnsubAck(ack) => self.answer("UNSUBACK", chosen_there, ack.pkid),
            Packet::PingReq => ("PINGREQ".to_owned(), Vec::new()),
            Packet::PingResp => ("PINGRESP".to_owned(), Vec::new()),
            Packet::Disconnect => ("DISCONNECT".to_owned(), vec![connection(id)]),
        }
    }

    /// The message that a client has in flight under a packet id of its own.
    pub(super) fn message(&self, client: usize, packet_id: u16) -> Option<&String> {
        self.of_id.get(&(client, true, packet_id)).filter(|name| name.starts_with('m'))
    }

    fn publish(&mut self, (client, chosen): (usize, bool), publish: &Publish) -> (String, Vec<String>) {
        let key = payload::recognise(&publish.payload).map(|key| key.to_string());
        let (qos, id) = (publish.qos as u8, publish.pkid);
        let name = key.clone().unwrap_or_else(|| format!("{} bytes", publish.payload.len()));
        if let (Some(key), true) = (&key, qos > 0) {
            self.of_id.insert((client, chosen, id), key.clone());
        } else if qos > 0 {
            self.of_id.remove(&(client, chosen, id));
        }
        let number = if qos > 0 { format!("{id} ") } else { String::new() };
        let dup = if publish.dup { " DUP" } else { "" };
        let retain = if publish.retain { " RETAIN" } else { "" };
        let text = format!("PUBLISH {number}{name} QoS {qos}{dup}{retain} to {:?}", publish.topic);
        (text, key.into_iter().collect())
    }

    fn answer(&self, kind: &str, (client, chosen): (usize, bool), id: u16) -> (String, Vec<String>) {
        match self.of_id.get(&(client, chosen, id)) {
            Some(name) if name.starts_with('m') => (format!("{kind} {id} for {name}"), vec![name.clone()]),
            Some(name) => (format!("{kind} {id}"), vec![name.clone()]),
            None => (format!("{kind} {id}"), Vec::new()),
        }
    }

    fn request(&mut self, (client, chosen): (usize, bool), id: u16, what: &str) -> String {
        self.requests += 1;
        let name = format!("{what} {}", self.requests);
        self.of_id.insert((client, chosen, id), name.clone());
        name
    }
}
