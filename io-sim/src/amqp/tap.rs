//! Listens at the broker's end of each connection, and tells the model what it hears.

use super::bridge::MqttLine;
use super::model::{Delivery, How, Model, Publication};
use super::routes;
use super::scenario::Scenario;
use super::wire::Decoder;
use super::world::{how, key_of};
use crate::outcome::Checker;
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, channel, connection, tx};
use amq_protocol::types::AMQPValue;
use std::collections::{BTreeMap, VecDeque};

/// What it heard of each connection.
#[derive(Default)]
pub(super) struct Tap {
    lines: BTreeMap<u64, Line>,
    /// Those of clients that speak MQTT.
    mqtt_lines: BTreeMap<u64, MqttLine>,
}

#[derive(Default)]
struct Line {
    to_broker: Decoder,
    from_broker: Decoder,
    /// A message on its way to the broker, or from it.
    publish: Option<(basic::Publish, BasicProperties, Content)>,
    deliver: Option<(Delivered, Content)>,
    /// Consumers that do not acknowledge, by name.
    no_ack: Vec<String>,
    /// What was asked for by Basic.Get.
    gets: VecDeque<basic::Get>,
}

enum Delivered {
    /// To a consumer, which has the name of its queue.
    Deliver(basic::Deliver),
    /// To who asked for it.
    Got(basic::GetOk, basic::Get),
    Return,
}

#[derive(Default)]
struct Content {
    size: usize,
    body: Vec<u8>,
}

impl Tap {
    /// The connection is over at the broker.
    pub(super) fn forget(&mut self, link: u64) {
        self.lines.remove(&link);
        self.mqtt_lines.remove(&link);
    }

    /// The connection is one of MQTT.
    pub(super) fn opened_by_mqtt(&mut self, link: u64) {
        self.mqtt_lines.insert(link, MqttLine::default());
    }

    /// The broker receives these bytes.
    pub(super) fn received(&mut self, link: u64, bytes: &[u8], model: &mut Model<'_>, scenario: &Scenario) {
        if let Some(line) = self.mqtt_lines.get_mut(&link) {
            return line.received(link, bytes, model, scenario);
        }
        let line = self.lines.entry(link).or_default();
        line.to_broker.push(bytes);
        while let Ok(Some(frame)) = line.to_broker.next() {
            line.received(link, frame, model, scenario);
        }
    }

    /// The broker sends these bytes.
    pub(super) fn sent(&mut self, link: u64, bytes: &[u8], model: &mut Model<'_>, scenario: &Scenario) {
        if let Some(line) = self.mqtt_lines.get_mut(&link) {
            return line.sent(link, bytes, model, scenario);
        }
        let line = self.lines.entry(link).or_default();
        line.from_broker.push(bytes);
        loop {
            match line.from_broker.next() {
                Ok(Some(frame)) => line.sent(link, frame, model, scenario),
                Ok(None) => return,
                Err(error) => return model.fail(Checker::Codec, format!("connection {link}"), error),
            }
        }
    }
}

impl Line {
    fn received(&mut self, link: u64, frame: AMQPFrame, model: &mut Model<'_>, scenario: &Scenario) {
        use basic::AMQPMethod as B;
        match frame {
            AMQPFrame::Method(_, AMQPClass::Basic(method)) => match method {
                B::Publish(publish) => {
                    self.publish = Some((publish, BasicProperties::default(), Content::default()));
                }
                B::Ack(ack) => model.asked(link, ack.delivery_tag, ack.multiple, How::Acknowledged),
                B::Nack(nack) => model.asked(link, nack.delivery_tag, nack.multiple, how(nack.requeue)),
                B::Qos(qos) => model.link(link).prefetch = (qos.prefetch_count, qos.global),
                B::Get(get) => self.gets.push_back(get),
                B::Consume(consume) if consume.no_ack => {
                    self.no_ack.push(consume.consumer_tag.to_string());
                }
                _ => {}
            },
            AMQPFrame::Method(_, AMQPClass::Tx(method)) => match method {
                tx::AMQPMethod::Select(_) => model.link(link).transactional = true,
                tx::AMQPMethod::Commit(_) => model.transaction_ends(link, true),
                tx::AMQPMethod::Rollback(_) => model.transaction_ends(link, false),
                _ => {}
            },
            AMQPFrame::Header(_, header) => {
                if let Some((_, properties, content)) = &mut self.publish {
                    *properties = header.properties;
                    content.size = header.body_size as usize;
                }
            }
            AMQPFrame::Body(_, bytes) => {
                if let Some((_, _, content)) = &mut self.publish {
                    content.body.extend(bytes);
                }
                self.publish_if_whole(link, model, scenario);
            }
            _ => {}
        }
    }

    fn publish_if_whole(&mut self, link: u64, model: &mut Model<'_>, scenario: &Scenario) {
        let whole = self.publish.take_if(|(_, _, content)| content.body.len() == content.size);
        let Some((publish, properties, content)) = whole else { return };
        let Ok(key) = key_of(&content.body) else { return };
        let expiration = properties.expiration().as_ref().and_then(|text| text.as_str().parse().ok());
        let delay = properties.headers().as_ref().and_then(|headers| headers.inner().get("x-delay"));
        let delay_ms = match delay {
            Some(AMQPValue::LongInt(delay)) => *delay as u64,
            _ => 0,
        };
        let publication = Publication {
            queues: routes::queues_of(scenario, &publish, &properties),
            persistent: *properties.delivery_mode() == Some(2),
            mandatory: publish.mandatory,
            expires_ms: expiration,
            delay_ms: (publish.exchange.as_str() == routes::LATER).then_some(delay_ms),
        };
        model.published(link, key, publication);
    }

    fn sent(&mut self, link: u64, frame: AMQPFrame, model: &mut Model<'_>, scenario: &Scenario) {
        use basic::AMQPMethod as B;
        match frame {
            AMQPFrame::Method(_, AMQPClass::Basic(method)) => match method {
                B::Deliver(deliver) => self.deliver = Some((Delivered::Deliver(deliver), Content::default())),
                B::GetOk(ok) => {
                    let Some(get) = self.gets.pop_front() else {
                        let text = "it gives a message that nobody asked for".to_owned();
                        return model.fail(Checker::Protocol, format!("connection {link}"), text);
                    };
                    self.deliver = Some((Delivered::Got(ok, get), Content::default()));
                }
                B::GetEmpty(_) => drop(self.gets.pop_front()),
                B::Return(_) => self.deliver = Some((Delivered::Return, Content::default())),
                B::Ack(ack) => model.confirmed(link, ack.delivery_tag, ack.multiple, false),
                B::Nack(nack) => model.confirmed(link, nack.delivery_tag, nack.multiple, true),
                _ => {}
            },
            AMQPFrame::Method(_, AMQPClass::Tx(tx::AMQPMethod::CommitOk(_))) => model.committed(link),
            AMQPFrame::Method(_, AMQPClass::Channel(channel::AMQPMethod::Close(_))) => {
                model.channel_closed(link)
            }
            AMQPFrame::Method(_, AMQPClass::Connection(connection::AMQPMethod::Close(close)))
                if !model.stopping =>
            {
                let text = format!("a connection is closed for nothing: {}", close.reply_text);
                model.fail(Checker::Protocol, format!("connection {link}"), text)
            }
            AMQPFrame::Header(_, header) => {
                if let Some((_, content)) = &mut self.deliver {
                    content.size = header.body_size as usize;
                }
            }
            AMQPFrame::Body(_, bytes) => {
                if let Some((_, content)) = &mut self.deliver {
                    content.body.extend(bytes);
                }
                self.deliver_if_whole(link, model, scenario);
            }
            _ => {}
        }
    }

    fn deliver_if_whole(&mut self, link: u64, model: &mut Model<'_>, scenario: &Scenario) {
        let whole = self.deliver.take_if(|(_, content)| content.body.len() == content.size);
        let Some((delivered, content)) = whole else { return };
        let key = match key_of(&content.body) {
            Ok(key) => key,
            Err(text) => return model.fail(Checker::Invented, format!("connection {link}"), text),
        };
        let (tag, redelivered, name, asked) = match &delivered {
            Delivered::Return => return model.returned(link, key),
            Delivered::Deliver(sent) => (sent.delivery_tag, sent.redelivered, &sent.consumer_tag, None),
            Delivered::Got(ok, get) => (ok.delivery_tag, ok.redelivered, &get.queue, Some(get.no_ack)),
        };
        let name = name.as_str();
        let Some(queue) = scenario.queues.iter().position(|queue| queue.name == name) else {
            let text = format!("it is for a consumer {name:?} that there is not");
            return model.fail(Checker::Invented, key, text);
        };
        let no_ack = asked.unwrap_or_else(|| self.no_ack.iter().any(|its| its == name));
        let bounded = asked.is_none();
        model.sent(Delivery { link, tag, queue, key, redelivered, no_ack, bounded });
    }
}
