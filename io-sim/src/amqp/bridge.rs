//! MQTT clients beside those of AMQP: sensors, whose PUBACK means that the copy in a durable queue is on the disk, and a
//! listener, whose session survives. Their codec is that of the crate `mqttbytes`.
//!
//! Names change at the bridge: `/` and `.` change places, `+` is `*`.

use super::model::{Delivery, How, Model, Publication};
use super::routes;
use super::scenario::{ListenerPlan, SUBJECT_WORDS, Scenario, SensorPlan};
use super::world::key_of;
use crate::chance::Draws;
use crate::outcome::Checker;
use amq_protocol::protocol::{BasicProperties, basic};
use bytes::BytesMut;
use mqttbytes::QoS;
use mqttbytes::v4::{Connect, ConnectReturnCode, Packet, PubAck, Publish, Subscribe, read};

/// Bytes of a packet at the most.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// A client of MQTT.
pub(super) struct Bridged {
    who: Who,
    incoming: BytesMut,
    out: BytesMut,
    up: bool,
}

enum Who {
    Sensor {
        plan: SensorPlan,
        /// As a publisher among all.
        number: u32,
        next: u32,
        /// Sent, and answered, on this connection.
        sent: u32,
        acknowledged: u32,
        at_us: u64,
    },
    Listener {
        plan: ListenerPlan,
        subscribed: bool,
        /// What it has not answered yet, and when it does.
        thinking: Vec<(u64, u16)>,
    },
}

impl Bridged {
    pub(super) fn sensor(plan: SensorPlan, number: u32) -> Bridged {
        let who = Who::Sensor { plan, number, next: 0, sent: 0, acknowledged: 0, at_us: 0 };
        Bridged { who, incoming: BytesMut::new(), out: BytesMut::new(), up: false }
    }

    pub(super) fn listener(plan: ListenerPlan) -> Bridged {
        let who = Who::Listener { plan, subscribed: false, thinking: Vec::new() };
        Bridged { who, incoming: BytesMut::new(), out: BytesMut::new(), up: false }
    }

    /// Whether it has published all that it is to.
    pub(super) fn is_done(&self) -> bool {
        match &self.who {
            Who::Sensor { plan, next, sent, acknowledged, .. } => *next >= plan.count && sent == acknowledged,
            Who::Listener { .. } => false,
        }
    }

    /// Whether it publishes.
    pub(super) fn publishes(&self) -> bool {
        matches!(self.who, Who::Sensor { .. })
    }

    /// Its connection is there.
    pub(super) fn connected(&mut self) {
        self.incoming.clear();
        self.out.clear();
        self.up = false;
        let (name, clean) = match &mut self.who {
            Who::Sensor { number, sent, acknowledged, .. } => {
                (*sent, *acknowledged) = (0, 0);
                (format!("sensor-{number}"), true)
            }
            Who::Listener { thinking, .. } => {
                thinking.clear();
                ("listener".to_owned(), false)
            }
        };
        let mut connect = Connect::new(name);
        (connect.clean_session, connect.keep_alive) = (clean, 0);
        self.write(&Packet::Connect(connect));
    }

    /// Bytes came; an error: they should not have.
    pub(super) fn receive(&mut self, bytes: &[u8], now_us: u64) -> Result<(), String> {
        self.incoming.extend_from_slice(bytes);
        while let Some(packet) = next_packet(&mut self.incoming)? {
            self.of_broker(packet, now_us)?;
        }
        Ok(())
    }

    fn of_broker(&mut self, packet: Packet, now_us: u64) -> Result<(), String> {
        match (packet, &mut self.who) {
            (Packet::ConnAck(ack), who) if ack.code == ConnectReturnCode::Success => {
                self.up = true;
                match who {
                    Who::Sensor { at_us, .. } => *at_us = now_us,
                    Who::Listener { plan, subscribed: false, .. } => {
                        let mut subscribe = Subscribe::new(plan.filter.clone(), QoS::AtLeastOnce);
                        subscribe.pkid = u16::MAX;
                        self.write(&Packet::Subscribe(subscribe));
                    }
                    Who::Listener { .. } => {}
                }
            }
            (Packet::SubAck(_), Who::Listener { subscribed, .. }) => *subscribed = true,
            (Packet::PubAck(ack), Who::Sensor { acknowledged, .. }) => {
                *acknowledged = (*acknowledged).max(ack.pkid.into());
            }
            (Packet::Publish(publish), Who::Listener { plan, thinking, .. }) => {
                if publish.qos == QoS::AtLeastOnce {
                    thinking.push((now_us + plan.think_us, publish.pkid));
                }
            }
            (other, _) => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    /// What it does by itself: bytes to send, and when it wants to be woken.
    pub(super) fn go_on(&mut self, draws: &mut Draws, now_us: u64) -> (Vec<u8>, Option<u64>) {
        let mut packets = Vec::new();
        let mut wake_us = None;
        match &mut self.who {
            Who::Sensor { plan, number, next, sent, acknowledged, at_us } => {
                while self.up && *next < plan.count && *sent - *acknowledged < plan.window && *at_us <= now_us
                {
                    let key = super::model::Key { publisher: *number, number: *next };
                    let words = draws.between(1, 3);
                    let words: Vec<&str> = (0..words).map(|_| *draws.pick(&SUBJECT_WORDS)).collect();
                    let mut publish = Publish::new(words.join("/"), QoS::AtLeastOnce, key.body(plan.size));
                    (*next, *sent) = (*next + 1, *sent + 1);
                    publish.pkid = *sent as u16;
                    *at_us += plan.gap_us;
                    packets.push(Packet::Publish(publish));
                }
                if self.up && *next < plan.count && *at_us > now_us {
                    wake_us = Some(*at_us);
                }
            }
            Who::Listener { thinking, .. } => {
                let due = thinking.partition_point(|(at, _)| *at <= now_us);
                packets.extend(thinking.drain(..due).map(|(_, id)| Packet::PubAck(PubAck::new(id))));
                wake_us = thinking.first().map(|(at, _)| *at);
            }
        }
        packets.iter().for_each(|packet| self.write(packet));
        (self.out.split().to_vec(), wake_us)
    }

    fn write(&mut self, packet: &Packet) {
        crate::codec::write_plainly(packet, &mut self.out);
    }
}

fn next_packet(bytes: &mut BytesMut) -> Result<Option<Packet>, String> {
    match read(bytes, PACKET_BYTES_MAX) {
        Ok(packet) => Ok(Some(packet)),
        Err(mqttbytes::Error::InsufficientBytes(_)) => Ok(None),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Listens at the broker's end of a connection of MQTT.
#[derive(Default)]
pub(super) struct MqttLine {
    to_broker: BytesMut,
    from_broker: BytesMut,
}

impl MqttLine {
    /// The broker receives these bytes.
    pub(super) fn received(&mut self, link: u64, bytes: &[u8], model: &mut Model<'_>, scenario: &Scenario) {
        self.to_broker.extend_from_slice(bytes);
        while let Ok(Some(packet)) = next_packet(&mut self.to_broker) {
            match packet {
                Packet::Publish(publish) => {
                    let Ok(key) = key_of(&publish.payload) else { continue };
                    let to = basic::Publish {
                        exchange: routes::BRIDGE.into(),
                        routing_key: publish.topic.replace('/', ".").into(),
                        mandatory: false,
                        immediate: false,
                    };
                    let publication = Publication {
                        queues: routes::queues_of(scenario, &to, &BasicProperties::default()),
                        persistent: true,
                        mandatory: false,
                        expires_ms: None,
                        delay_ms: None,
                    };
                    model.published(link, key, publication);
                }
                Packet::PubAck(ack) => model.asked(link, ack.pkid.into(), false, How::Acknowledged),
                _ => {}
            }
        }
    }

    /// The broker sends these bytes.
    pub(super) fn sent(&mut self, link: u64, bytes: &[u8], model: &mut Model<'_>, scenario: &Scenario) {
        self.from_broker.extend_from_slice(bytes);
        loop {
            match next_packet(&mut self.from_broker) {
                Ok(Some(Packet::PubAck(ack))) => model.confirmed(link, ack.pkid.into(), false, false),
                Ok(Some(Packet::SubAck(_))) => model.listens(),
                Ok(Some(Packet::Publish(publish))) => match key_of(&publish.payload) {
                    Ok(key) => model.sent(Delivery {
                        link,
                        tag: publish.pkid.into(),
                        queue: scenario.queues.len(),
                        key,
                        redelivered: publish.dup,
                        no_ack: publish.qos == QoS::AtMostOnce,
                        bounded: false,
                    }),
                    Err(text) => model.fail(Checker::Invented, format!("connection {link}"), text),
                },
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return model.fail(Checker::Codec, format!("connection {link}"), error),
            }
        }
    }
}
