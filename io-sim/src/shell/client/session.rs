//! What a client keeps of its session: messages it has sent and not seen through, ids it has received and not
//! released.

use super::link::Link;
use crate::outcome::Checker;
use crate::payload::{self, MessageKey};
use crate::shell::ledger::Arrival;
use crate::shell::stage::Stage;
use mqttbytes::QoS;
use mqttbytes::v4::{
    Packet, PubAck, PubComp, PubRec, PubRel, Publish, SubAck, Subscribe, SubscribeFilter, SubscribeReasonCode,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The packet id of the one SUBSCRIBE; messages have lower ones.
const SUBSCRIBE_ID: u16 = 60_000;

/// The session.
pub(super) struct Session {
    client: usize,
    clean: bool,
    window: usize,
    sequence: u32,
    todo: VecDeque<Planned>,
    /// In the order of first sending.
    outgoing: VecDeque<Outgoing>,
    /// QoS 2 ids received and not released.
    incoming: BTreeSet<u16>,
}

struct Planned {
    branch: u8,
    qos: u8,
    size: u32,
}

struct Outgoing {
    key: MessageKey,
    publish: Publish,
    released: bool,
}

impl Session {
    pub(super) fn new(client: usize, clean: bool, window: usize) -> Session {
        let (todo, outgoing) = (VecDeque::new(), VecDeque::new());
        Session { client, clean, window, sequence: 0, todo, outgoing, incoming: BTreeSet::new() }
    }

    pub(super) fn plan(&mut self, branch: u8, qos: u8, count: u32, size: u32) {
        self.todo.extend((0..count).map(|_| Planned { branch, qos, size }));
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.todo.is_empty() && self.outgoing.is_empty()
    }

    /// The clean session is gone.
    pub(super) fn abandon(&mut self) {
        self.outgoing.clear();
        self.incoming.clear();
    }

    pub(super) fn subscribe(&self, stage: &Stage, link: &mut Link, subscriptions: &[(String, u8)]) {
        if subscriptions.is_empty() {
            return stage.ledger.borrow_mut().granted(self.client);
        }
        let filters =
            subscriptions.iter().map(|(filter, qos)| SubscribeFilter::new(filter.clone(), level(*qos)));
        let mut subscribe = Subscribe::new_many(filters);
        subscribe.pkid = SUBSCRIBE_ID;
        link.send(&Packet::Subscribe(subscribe));
    }

    /// The session goes on: everything unanswered is sent again, in order.
    pub(super) fn resume(&mut self, stage: &Stage, link: &mut Link) {
        for outgoing in &mut self.outgoing {
            if outgoing.released {
                link.send(&Packet::PubRel(PubRel::new(outgoing.publish.pkid)));
                continue;
            }
            outgoing.publish.dup = true;
            let mut ledger = stage.ledger.borrow_mut();
            ledger.sent_again(outgoing.key);
            ledger.awaits(link.address, outgoing.publish.pkid, outgoing.key);
            link.send(&Packet::Publish(outgoing.publish.clone()));
        }
    }

    /// Publishes what the window allows.
    pub(super) fn pump(&mut self, stage: &Stage, link: &mut Link) {
        while let Some(next) = self.todo.front() {
            if next.qos > 0 && self.outgoing.len() >= self.window {
                return;
            }
            let Planned { branch, qos, size } = *next;
            self.todo.pop_front();
            self.publish(stage, link, branch, qos, size);
        }
    }

    fn publish(&mut self, stage: &Stage, link: &mut Link, branch: u8, qos: u8, size: u32) {
        self.sequence += 1;
        let key = MessageKey { publisher: self.client as u32, sequence: self.sequence };
        let topic = format!("t{}/{branch}", self.client);
        let payload = payload::build(key, size);
        let mut ledger = stage.ledger.borrow_mut();
        ledger.sent(key, &topic, qos, payload.len() as u64, link.address);
        ledger.note(&self.name(), &[u64::from(self.sequence)], || format!("publishes {key} at QoS {qos}"));
        let mut publish = Publish::from_bytes(topic, level(qos), payload);
        if qos > 0 {
            publish.pkid = self.free_id();
            ledger.awaits(link.address, publish.pkid, key);
        }
        link.send(&Packet::Publish(publish.clone()));
        if qos > 0 {
            self.outgoing.push_back(Outgoing { key, publish, released: false });
        }
    }

    /// A packet came, CONNACK and PINGRESP aside.
    pub(super) fn take(&mut self, stage: &Stage, link: &mut Link, packet: Packet) {
        match packet {
            Packet::Publish(publish) => self.publish_received(stage, link, &publish),
            Packet::PubAck(PubAck { pkid }) => {
                match self.find(pkid, QoS::AtLeastOnce).and_then(|at| self.outgoing.remove(at)) {
                    Some(outgoing) => self.acknowledged(stage, outgoing.key),
                    None => self.fail(stage, format!("PUBACK for packet id {pkid}, which it does not use")),
                }
            }
            Packet::PubRec(PubRec { pkid }) => match self.find(pkid, QoS::ExactlyOnce) {
                Some(at) => {
                    self.outgoing[at].released = true;
                    self.acknowledged(stage, self.outgoing[at].key);
                    link.send(&Packet::PubRel(PubRel::new(pkid)));
                }
                None => self.fail(stage, format!("PUBREC for packet id {pkid}, which it does not use")),
            },
            Packet::PubComp(PubComp { pkid }) => match self.find(pkid, QoS::ExactlyOnce) {
                Some(at) if self.outgoing[at].released => {
                    self.outgoing.remove(at);
                }
                _ => self.fail(stage, format!("PUBCOMP for packet id {pkid}, which it has not released")),
            },
            Packet::PubRel(PubRel { pkid }) => {
                self.incoming.remove(&pkid);
                link.send(&Packet::PubComp(PubComp::new(pkid)));
            }
            Packet::SubAck(SubAck { pkid: SUBSCRIBE_ID, return_codes }) => {
                let refused = return_codes.contains(&SubscribeReasonCode::Failure);
                if refused && stage.met_full_disk() {
                    stage.ledger.borrow_mut().count("refused at a full disk");
                    let subscriptions = &stage.scenario.clients[self.client].subscriptions;
                    self.subscribe(stage, link, subscriptions);
                } else if refused {
                    self.fail(stage, "its SUBSCRIBE is refused".to_owned());
                } else {
                    stage.ledger.borrow_mut().granted(self.client);
                }
            }
            other => self.fail(stage, format!("no broker may send this here: {other:?}")),
        }
    }

    fn publish_received(&mut self, stage: &Stage, link: &mut Link, publish: &Publish) {
        let Some(key) = payload::recognise(&publish.payload) else {
            let text = format!("{} bytes came that nobody published", publish.payload.len());
            return stage.fail(Checker::Invented, &self.name(), text);
        };
        let qos = publish.qos as u8;
        stage.ledger.borrow_mut().note(&self.name(), &[u64::from(key.sequence), u64::from(qos)], || {
            format!("gets {key} at QoS {qos}, packet id {}", publish.pkid)
        });
        let arrival = Arrival { key, topic: &publish.topic, qos };
        match publish.qos {
            QoS::AtMostOnce => self.arrived(stage, link.address, &arrival),
            QoS::AtLeastOnce => {
                self.arrived(stage, link.address, &arrival);
                link.send(&Packet::PubAck(PubAck::new(publish.pkid)));
            }
            QoS::ExactlyOnce => {
                if self.incoming.insert(publish.pkid) {
                    self.arrived(stage, link.address, &arrival);
                }
                link.send(&Packet::PubRec(PubRec::new(publish.pkid)));
            }
        }
    }

    fn arrived(&self, stage: &Stage, line: SocketAddr, arrival: &Arrival<'_>) {
        stage.ledger.borrow_mut().arrived(self.client, line, arrival);
    }

    fn acknowledged(&self, stage: &Stage, key: MessageKey) {
        stage
            .ledger
            .borrow_mut()
            .note(&self.name(), &[u64::from(key.sequence)], || format!("has {key} acknowledged"));
        stage.ledger.borrow_mut().acknowledged(key);
    }

    fn find(&self, packet_id: u16, qos: QoS) -> Option<usize> {
        self.outgoing.iter().position(|it| it.publish.pkid == packet_id && it.publish.qos == qos)
    }

    /// The lowest id that nothing uses: ids are used again as soon as they may be.
    fn free_id(&self) -> u16 {
        let used: BTreeSet<u16> = self.outgoing.iter().map(|outgoing| outgoing.publish.pkid).collect();
        (1..).find(|id| !used.contains(id)).expect("the window is far smaller than the ids")
    }

    fn name(&self) -> String {
        format!("c{}", self.client)
    }

    fn fail(&self, stage: &Stage, text: String) {
        let kind = if self.clean { "clean" } else { "durable" };
        stage.fail(Checker::Protocol, &format!("c{} ({kind})", self.client), text);
    }
}

fn level(qos: u8) -> QoS {
    match qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}
