//! Packets in words, and what each is about.

use crate::codec::{Answer, Packet, Publish, Reason, Verdict, Version};
use crate::payload;
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
                let ends = connect.version == Version::V5 && connect.terms.session_expiry_s.unwrap_or(0) == 0;
                let session = match (connect.clean, ends) {
                    (true, _) => "clean session",
                    (false, true) => "session that ends with its connection",
                    (false, false) => "durable session",
                };
                let version = if connect.version == Version::V5 { "MQTT 5 " } else { "" };
                let key = connect.will.as_ref().and_then(|will| payload::recognise(&will.payload));
                let will = key.map(|key| format!(", will {key}")).unwrap_or_default();
                let about = [connection(id)].into_iter().chain(key.map(|key| key.to_string()));
                (format!("CONNECT {version}{:?} {session}{will}", connect.client_id), about.collect())
            }
            Packet::ConnAck(ack) => {
                let verdict = match &ack.verdict {
                    Verdict::Accepted => "accepted".to_owned(),
                    Verdict::Unavailable => "refused: Unavailable".to_owned(),
                    Verdict::Refused(words) => format!("refused: {words}"),
                };
                let present = if ack.present { ", session present" } else { ", new session" };
                (format!("CONNACK {verdict}{present}"), vec![connection(id)])
            }
            Packet::Publish(publish) => self.publish(chosen_here, publish),
            Packet::PubAck(ack) => self.acknowledged("PUBACK", chosen_there, *ack),
            Packet::PubRec(ack) => self.acknowledged("PUBREC", chosen_there, *ack),
            Packet::PubRel(ack) => self.acknowledged("PUBREL", chosen_here, *ack),
            Packet::PubComp(ack) => self.acknowledged("PUBCOMP", chosen_there, *ack),
            Packet::Subscribe(subscribe) => {
                let filters = subscribe.filters.iter();
                let filters = filters.map(|(filter, qos)| format!("{filter:?} QoS {qos}"));
                let name = self.request(chosen_here, subscribe.packet_id, "subscription");
                let filters = filters.collect::<Vec<_>>().join(", ");
                (format!("SUBSCRIBE {} {filters}", subscribe.packet_id), vec![name])
            }
            Packet::Unsubscribe(unsubscribe) => {
                let name = self.request(chosen_here, unsubscribe.packet_id, "unsubscription");
                (format!("UNSUBSCRIBE {} {:?}", unsubscribe.packet_id, unsubscribe.filters), vec![name])
            }
            Packet::SubAck(ack) => {
                let code = |code: &Result<u8, Reason>| match code {
                    Ok(qos) => format!("QoS {qos}"),
                    Err(_) => "refused".to_owned(),
                };
                let codes = ack.codes.iter().map(code).collect::<Vec<_>>().join(", ");
                let (words, about) = self.answer("SUBACK", chosen_there, ack.packet_id);
                (format!("{words}: {codes}"), about)
            }
            Packet::UnsubAck(ack) => self.answer("UNSUBACK", chosen_there, ack.packet_id),
            Packet::PingReq => ("PINGREQ".to_owned(), Vec::new()),
            Packet::PingResp => ("PINGRESP".to_owned(), Vec::new()),
            Packet::Disconnect(disconnect) => {
                let code = disconnect.code;
                let why = if code == 0 { String::new() } else { format!(" {code:#04x}") };
                (format!("DISCONNECT{why}"), vec![connection(id)])
            }
        }
    }

    /// The message that a client has in flight under a packet id of its own.
    pub(super) fn message(&self, client: usize, packet_id: u16) -> Option<&String> {
        self.of_id.get(&(client, true, packet_id)).filter(|name| name.starts_with('m'))
    }

    fn publish(&mut self, (client, chosen): (usize, bool), publish: &Publish) -> (String, Vec<String>) {
        let key = payload::recognise(&publish.payload).map(|key| key.to_string());
        let (qos, id) = (publish.qos, publish.packet_id);
        let name = key.clone().unwrap_or_else(|| format!("{} bytes", publish.payload.len()));
        if let (Some(key), true) = (&key, qos > 0) {
            self.of_id.insert((client, chosen, id), key.clone());
        } else if qos > 0 {
            self.of_id.remove(&(client, chosen, id));
        }
        let number = if qos > 0 { format!("{id} ") } else { String::new() };
        let text = format!("PUBLISH {number}{name} QoS {qos}{} to {:?}", publish.marks(), publish.topic);
        (text, key.into_iter().collect())
    }

    fn acknowledged(&self, kind: &str, chosen: (usize, bool), answer: Answer) -> (String, Vec<String>) {
        let (words, about) = self.answer(kind, chosen, answer.packet_id);
        let reason = match answer.reason {
            Reason::Success => "",
            Reason::NobodyHears => ": nobody hears it",
            Reason::NotInUse => ": not in use",
            Reason::QuotaExceeded => ": refused at a bound",
            Reason::Other => ": refused",
        };
        (format!("{words}{reason}"), about)
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
