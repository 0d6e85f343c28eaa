//! What passes on a connection, in words that begin with the method's name, and which messages it is about.

use super::model::Key;
use super::wire::Decoder;
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, exchange, queue};
use std::collections::BTreeMap;

/// One connection, both ways.
#[derive(Default)]
pub(crate) struct Talk {
    to_broker: Way,
    to_client: Way,
    /// Delivered under a tag, and not settled since.
    delivered: BTreeMap<u64, String>,
    /// Published, in order: the first is number 1.
    published: Vec<String>,
    confirmed: u64,
}

/// One direction.
#[derive(Default)]
struct Way {
    decoder: Decoder,
    /// Bytes since the end of what was said last.
    bytes: usize,
    /// A message whose body is not whole: the method, and what has come of it.
    content: Option<(AMQPClass, Content)>,
}

#[derive(Default)]
struct Content {
    persistent: bool,
    size: usize,
    body: Vec<u8>,
}

/// A method, with its message if it has one.
pub(crate) struct Said {
    pub(crate) text: String,
    /// The messages' names.
    pub(crate) about: Vec<String>,
    /// Its length.
    pub(crate) bytes: usize,
}

impl Talk {
    /// What is whole with these bytes. Bytes that are not AMQP are let pass: a checker complains of them.
    pub(crate) fn said(&mut self, to_broker: bool, bytes: &[u8]) -> Vec<Said> {
        let way = if to_broker { &mut self.to_broker } else { &mut self.to_client };
        way.decoder.push(bytes);
        let mut found = Vec::new();
        loop {
            let before = way.decoder.waiting();
            let frame = way.decoder.next();
            way.bytes += before - way.decoder.waiting();
            match frame {
                Ok(Some(frame)) => {
                    if let Some((method, content)) = way.whole(frame) {
                        found.push((method, content, std::mem::take(&mut way.bytes)));
                    }
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        let tell = |(method, content, bytes)| {
            let (text, about) = self.tell(to_broker, method, content);
            Said { text, about, bytes }
        };
        found.into_iter().map(tell).collect()
    }

    fn tell(
        &mut self,
        to_broker: bool,
        method: Option<AMQPClass>,
        content: Option<Content>,
    ) -> (String, Vec<String>) {
        use basic::AMQPMethod as B;
        let Some(class) = method else { return ("protocol header".to_owned(), Vec::new()) };
        let name = name(&class);
        let content = content.unwrap_or_default();
        let message = Key::of(&content.body).map(|key| key.to_string());
        let what = message.clone().unwrap_or_else(|| format!("{} bytes", content.body.len()));
        let about = message.into_iter().collect();
        match class {
            AMQPClass::Basic(B::Publish(publish)) => {
                self.published.push(what.clone());
                let lasting = if content.persistent { "persistent" } else { "transient" };
                let (exchange, key) = (publish.exchange.as_str(), publish.routing_key.as_str());
                (format!("{name} {what} {lasting} to {exchange:?} {key:?}"), about)
            }
            AMQPClass::Basic(B::Deliver(deliver)) => {
                let text = self.delivered(&name, deliver.delivery_tag, &what, deliver.redelivered);
                (format!("{text} to {:?}", deliver.consumer_tag.as_str()), about)
            }
            AMQPClass::Basic(B::GetOk(ok)) => {
                (self.delivered(&name, ok.delivery_tag, &what, ok.redelivered), about)
            }
            AMQPClass::Basic(B::Return(back)) => (format!("{name} {what}: {}", back.reply_text), about),
            AMQPClass::Basic(B::Ack(ack)) => {
                self.answered(&name, to_broker, ack.delivery_tag, ack.multiple, "")
            }
            AMQPClass::Basic(B::Nack(nack)) => {
                let back = if to_broker { back(nack.requeue) } else { "" };
                self.answered(&name, to_broker, nack.delivery_tag, nack.multiple, back)
            }
            AMQPClass::Basic(B::Reject(reject)) => {
                self.answered(&name, true, reject.delivery_tag, false, back(reject.requeue))
            }
            other => (name + &object(&other), Vec::new()),
        }
    }

    fn delivered(&mut self, name: &str, tag: u64, what: &str, redelivered: bool) -> String {
        self.delivered.insert(tag, what.to_owned());
        format!("{name} {tag} {what}{}", if redelivered { " redelivered" } else { "" })
    }

    /// An answer to deliveries, or a confirmation of what was published.
    fn answered(
        &mut self,
        name: &str,
        to_broker: bool,
        tag: u64,
        multiple: bool,
        back: &str,
    ) -> (String, Vec<String>) {
        let about: Vec<String> = if to_broker {
            // Tag 0 stands for all that is there (§1.8.3.13.1).
            let last = if tag == 0 { u64::MAX } else { tag };
            let first = if multiple { 0 } else { tag };
            let tags: Vec<u64> = self.delivered.range(first..=last).map(|(tag, _)| *tag).collect();
            tags.iter().filter_map(|tag| self.delivered.remove(tag)).collect()
        } else {
            let first = if multiple { self.confirmed.min(tag) } else { tag.saturating_sub(1) };
            self.confirmed = self.confirmed.max(tag);
            let of = self.published.get(first as usize..tag as usize);
            of.unwrap_or_default().to_vec()
        };
        let whole = if multiple { " and all before" } else { "" };
        let told: Vec<&str> = about.iter().take(4).map(String::as_str).collect();
        let more = if about.len() > told.len() { ", …" } else { "" };
        let of = if told.is_empty() { String::new() } else { format!(" for {}{more}", told.join(", ")) };
        (format!("{name} {tag}{whole}{of}{back}"), about)
    }
}

impl Way {
    /// The method that is whole with this frame, and its message if it has one; no method: the protocol header.
    fn whole(&mut self, frame: AMQPFrame) -> Option<(Option<AMQPClass>, Option<Content>)> {
        use basic::AMQPMethod as B;
        match frame {
            AMQPFrame::ProtocolHeader(_) => return Some((None, None)),
            AMQPFrame::Method(
                _,
                class @ AMQPClass::Basic(B::Publish(_) | B::Deliver(_) | B::GetOk(_) | B::Return(_)),
            ) => {
                self.content = Some((class, Content::default()));
                return None;
            }
            AMQPFrame::Method(_, class) => return Some((Some(class), None)),
            AMQPFrame::Header(_, header) => {
                let (_, content) = self.content.as_mut()?;
                content.size = header.body_size as usize;
                content.persistent = *header.properties.delivery_mode() == Some(2);
            }
            AMQPFrame::Body(_, bytes) => self.content.as_mut()?.1.body.extend(bytes),
            AMQPFrame::Heartbeat | AMQPFrame::InvalidHeartbeat(_) => return None,
        }
        let (class, content) = self.content.take_if(|(_, content)| content.body.len() == content.size)?;
        Some((Some(class), Some(content)))
    }
}

fn back(requeue: bool) -> &'static str {
    if requeue { ", back into the queue" } else { ", away" }
}

/// The method as the specification writes it, as in `Queue.DeclareOk`.
fn name(class: &AMQPClass) -> String {
    let debug = format!("{class:?}");
    debug.split('(').take(2).collect::<Vec<_>>().join(".")
}

/// The queue or exchange that a method names.
fn object(class: &AMQPClass) -> String {
    let name = match class {
        AMQPClass::Queue(queue::AMQPMethod::Declare(declare)) => &declare.queue,
        AMQPClass::Queue(queue::AMQPMethod::Bind(bind)) => &bind.queue,
        AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)) => &declare.exchange,
        AMQPClass::Basic(basic::AMQPMethod::Consume(consume)) => &consume.queue,
        AMQPClass::Basic(basic::AMQPMethod::Get(get)) => &get.queue,
        _ => return String::new(),
    };
    format!(" {:?}", name.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::wire::{encode, method, publish};
    use super::*;
    use amq_protocol::protocol::BasicProperties;

    fn texts(said: &[Said]) -> Vec<&str> {
        said.iter().map(|said| said.text.as_str()).collect()
    }

    /// Were it to fail, whoever reads a failing run would see bytes in the place of what was said.
    #[test]
    fn a_conversation_is_told_with_its_messages_however_it_is_cut() {
        let keys = [0, 1, 2].map(|number| Key { publisher: 7, number });
        let properties = BasicProperties::default().with_delivery_mode(2);
        let published: Vec<AMQPFrame> = keys
            .iter()
            .flat_map(|key| publish("", "q", false, properties.clone(), &key.body(40), 16))
            .collect();
        let deliver = basic::Deliver {
            consumer_tag: "q".into(),
            delivery_tag: 1,
            redelivered: true,
            exchange: "".into(),
            routing_key: "q".into(),
        };
        let mut delivered = publish("", "q", false, properties, &keys[1].body(40), 40);
        delivered[0] = method(AMQPClass::Basic(basic::AMQPMethod::Deliver(deliver)));
        let ack = |delivery_tag, multiple| {
            method(AMQPClass::Basic(basic::AMQPMethod::Ack(basic::Ack { delivery_tag, multiple })))
        };
        for piece in [1, 5, 4096] {
            let mut talk = Talk::default();
            let (mut there, mut bytes) = (Vec::new(), 0);
            for part in encode(&published).chunks(piece) {
                there.extend(talk.said(true, part));
                bytes += part.len();
            }
            assert_eq!(there.iter().map(|said| said.bytes).sum::<usize>(), bytes);
            let words =
                ["m7.0", "m7.1", "m7.2"].map(|key| format!("Basic.Publish {key} persistent to \"\" \"q\""));
            assert_eq!(texts(&there), words);
            assert_eq!(there[2].about, ["m7.2"]);
            let here = talk.said(false, &encode(&[ack(2, true), ack(3, false)]));
            assert_eq!(texts(&here), ["Basic.Ack 2 and all before for m7.0, m7.1", "Basic.Ack 3 for m7.2"]);
            let here = talk.said(false, &encode(&delivered));
            assert_eq!(texts(&here), ["Basic.Deliver 1 m7.1 redelivered to \"q\""]);
            let there = talk.said(true, &encode(&[ack(1, false)]));
            assert_eq!(texts(&there), ["Basic.Ack 1 for m7.1"]);
        }
    }
}
