//! What is written to the log, in words. Records name sessions and queues by numbers; what came before tells whose.

use crate::{amqp, payload};
use std::collections::BTreeMap;
use vowmq_core::durable::batch::{self, BATCH_HEADER};
use vowmq_core::durable::codec;
use vowmq_core::durable::record::{Image, Publication, Record, Retain};
use vowmq_core::durable::segment::{self, FirstSector};
use vowmq_core::durable::topology::Topology;
use vowmq_core::ids::{MessageId, QueueId, QueuePosition, SessionId};

/// Records that are told one by one; of the others only the number.
const TOLD_MAX: usize = 64;

/// Who is meant by which number.
#[derive(Default)]
pub(super) struct Records {
    clients: BTreeMap<SessionId, String>,
    queues: BTreeMap<QueueId, String>,
    entries: BTreeMap<(QueueId, QueuePosition), String>,
    messages: BTreeMap<MessageId, String>,
}

/// What a write holds.
#[derive(Default)]
pub(super) struct Content {
    pub(super) text: String,
    /// One line a record.
    pub(super) details: Vec<String>,
    pub(super) about: Vec<String>,
    /// Packet ids that are taken or freed, each with its client and the line that tells it.
    pub(super) packet_ids: Vec<(String, u16, usize)>,
    /// The first and the last record.
    pub(super) span: Option<(u64, u64)>,
}

impl Records {
    /// Reads what is about to be written.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Content {
        let mut content = Content::default();
        let mut rest = bytes;
        let mut witness = None;
        while let Some(batch) = batch::parse(rest) {
            let first = batch.header.first.0;
            let behind = first + u64::from(batch.header.records);
            if behind > first {
                content.span = Some((content.span.map_or(first, |(first, _)| first), behind - 1));
            }
            witness = Some(batch.header.synced);
            let mut at = BATCH_HEADER;
            for lsn in first..behind {
                let Ok((record, _, next)) = codec::decode(batch.bytes, at) else { break };
                let words = self.describe(&record, &mut content.about);
                if content.details.len() < TOLD_MAX {
                    let line = content.details.len();
                    content.packet_ids.extend(self.packet_id(&record).map(|(client, id)| (client, id, line)));
                    content.details.push(format!("record {lsn}: {words}"));
                }
                at = next;
            }
            rest = &rest[(batch.padded() as usize).min(rest.len())..];
        }
        content.text = match content.span {
            Some((first, last)) if first == last => format!("record {first}"),
            Some((first, last)) => {
                let untold = (last - first + 1).saturating_sub(TOLD_MAX as u64);
                content.details.extend((untold > 0).then(|| format!("and {untold} more")));
                format!("records {first} to {last}")
            }
            None if witness.is_some() => "a batch without records".to_owned(),
            None => match segment::parse(bytes) {
                FirstSector::Header(header) => format!("the header of segment {}", header.segment),
                FirstSector::NewerFormat(_) | FirstSector::Nothing => format!("{} bytes", bytes.len()),
            },
        };
        content.details.extend(witness.map(|lsn| format!("it says that what is synced ends with {lsn}")));
        content.about.sort();
        content.about.dedup();
        content
    }

    /// The packet id that a record takes or frees without naming a message.
    fn packet_id(&self, record: &Record) -> Option<(String, u16)> {
        match record {
            Record::PacketIdReceived { session, packet_id }
            | Record::PacketIdReleased { session, packet_id } => {
                Some((self.client(*session), packet_id.get()))
            }
            _ => None,
        }
    }

    fn describe(&mut self, record: &Record, about: &mut Vec<String>) -> String {
        match record {
            Record::SessionOpened { session, queue, key, .. } => {
                self.clients.insert(*session, key.client.to_string());
                self.queues.insert(*queue, key.client.to_string());
                format!("a session for {} is opened", key.client)
            }
            Record::SessionAttached { session, .. } => format!("{} is back", self.client(*session)),
            Record::SessionExpirySet { session, expiry } => {
                format!("the session of {} stays from now on: {expiry:?}", self.client(*session))
            }
            Record::SessionDetached { session, .. } => format!("{} has gone", self.client(*session)),
            Record::SessionRemoved { session, .. } => format!("{}: session removed", self.client(*session)),
            Record::Subscribed { session, filters, .. } => {
                let words =
                    filters.iter().map(|g| format!("{:?} QoS {}", g.filter, g.subscription.qos as u8));
                let words = words.collect::<Vec<_>>().join(", ");
                format!("{} subscribes to {words}", self.client(*session))
            }
            Record::Unsubscribed { session, filters } => {
                format!("{} unsubscribes from {filters:?}", self.client(*session))
            }
            Record::RetainedQueued { session, entries, .. } => {
                let names = entries.iter().filter_map(|(_, message, _)| self.messages.get(message));
                let names: Vec<String> = names.cloned().collect();
                about.extend(names.iter().cloned());
                format!("retained for {}: {}", self.client(*session), names.join(", "))
            }
            Record::Published(publication) => self.published(publication, about),
            Record::PacketIdReceived { session, packet_id } => {
                format!("packet id {} of {} is taken", packet_id.get(), self.client(*session))
            }
            Record::PacketIdReleased { session, packet_id } => {
                format!("packet id {} of {} is free again", packet_id.get(), self.client(*session))
            }
            Record::Releasing { queue, position } => {
                format!("{} has taken over (PUBREC)", self.entry(*queue, *position, about))
            }
            Record::Settled { queue, position } => {
                format!("{} is settled", self.entry(*queue, *position, about))
            }
            Record::Returned { queue, position, returns } => {
                format!("{} came back, {returns} times by now", self.entry(*queue, *position, about))
            }
            Record::HorizonMoved { queue, position } => {
                format!("the queue of {} may deliver below {position}", self.owner(*queue))
            }
            Record::WillSet { key, will } => {
                let message = named(will.content.body());
                about.extend(message.clone());
                format!("{} leaves a will: {}", key.client, message.unwrap_or_default())
            }
            Record::WillRemoved { key } => format!("the will of {} is void", key.client),
            Record::Moved { message, to, .. } => {
                let name = self.messages.get(message).cloned();
                about.extend(name.clone());
                format!("{} goes to {} by its group", name.unwrap_or_default(), self.owner(to.queue))
            }
            Record::RetainedExpired { topic, .. } => format!("what {topic:?} retained has expired"),
            Record::Topology(topology) => declared(topology),
            Record::RangeSettled { queue, from, to } => format!("queue {queue}: {from} to {to} are purged"),
            Record::Relocated { message, .. } => format!("message {message} is written again"),
            Record::Image(image) => self.image(image),
            Record::Listing(places) => format!("{} images are listed", places.len()),
            Record::Checkpoint(checkpoint) => {
                format!("a checkpoint is complete: recovery begins in segment {}", checkpoint.begin.segment)
            }
        }
    }

    fn image(&self, image: &Image) -> String {
        match image {
            Image::Session { key, .. } => format!("image of the session of {}", key.client),
            Image::Subscriptions { session, filters, .. } => {
                format!("image of {} subscriptions of {}", filters.len(), self.client(*session))
            }
            Image::Queue { queue, entries, .. } => {
                format!("image of {} entries in the queue of {}", entries.len(), self.owner(*queue))
            }
            Image::Messages { messages, .. } => format!("image of where {} messages lie", messages.len()),
            Image::Retained { topics, .. } => format!("image of what {} topics retain", topics.len()),
            Image::Will { key, .. } => format!("image of the will of {}", key.client),
            Image::Exchange(image) => format!("image of exchange {}", image.name),
            Image::DeclaredQueue(image) => format!("image of queue {}", image.name),
        }
    }

    fn published(&mut self, publication: &Publication, about: &mut Vec<String>) -> String {
        let found = named(publication.content.body());
        let name = found.clone().unwrap_or_else(|| "a message".to_owned());
        about.extend(found);
        let mut words = format!("{name} is published");
        let mut owners = Vec::new();
        for recipient in &publication.recipients {
            self.entries.insert((recipient.queue, recipient.position), name.clone());
            owners.push(self.owner(recipient.queue));
        }
        if !owners.is_empty() {
            words.push_str(&format!(" into the queue of {}", owners.join(", ")));
        }
        match publication.retain {
            Retain::Set => {
                self.messages.insert(publication.message, name);
                words.push_str(", and retained");
            }
            Retain::Clear => words.push_str(", and its topic retains nothing"),
            Retain::Not => {}
        }
        if let Some((session, packet_id)) = publication.received {
            let client = self.client(session);
            words.push_str(&format!(", packet id {} of {client} is taken", packet_id.get()));
        }
        for (queue, position) in &publication.dropped {
            let dropped = self.entry(*queue, *position, about);
            words.push_str(&format!(", {dropped} dropped"));
        }
        words
    }

    fn client(&self, session: SessionId) -> String {
        self.clients.get(&session).cloned().unwrap_or_else(|| format!("session {session}"))
    }

    fn owner(&self, queue: QueueId) -> String {
        self.queues.get(&queue).cloned().unwrap_or_else(|| format!("queue {queue}"))
    }

    fn entry(&self, queue: QueueId, position: QueuePosition, about: &mut Vec<String>) -> String {
        let owner = self.owner(queue);
        match self.entries.get(&(queue, position)) {
            Some(name) => {
                about.push(name.clone());
                format!("{owner}: {name}")
            }
            None => format!("{owner}: entry {position}"),
        }
    }
}

/// The name of the message with this body, as the clients of either protocol build them.
fn named(body: &[u8]) -> Option<String> {
    payload::recognise(body).map(|key| key.to_string()).or_else(|| amqp::message_of(body))
}

fn declared(topology: &Topology) -> String {
    match topology {
        Topology::ExchangeDeclared { name, .. } => format!("exchange {name} is declared"),
        Topology::ExchangeDeleted { name, .. } => format!("exchange {name} is deleted"),
        Topology::QueueDeclared { name, .. } => format!("queue {name} is declared"),
        Topology::QueueDeleted { queue } => format!("queue {queue} is deleted"),
        Topology::Bound { binding, .. } => format!("something is bound to exchange {}", binding.source),
        Topology::Unbound { binding, .. } => format!("a binding to exchange {} goes", binding.source),
    }
}
