//! What damaged bytes seem to have been about: for people to read, never to be believed.

use super::Device;
use super::pieces::Pieces;
use crate::durable::batch::{self, BATCH_HEADER};
use crate::durable::codec;
use crate::durable::record::{ClientKey, Recipient, Record};
use crate::durable::topology::Topology;
use crate::ids::{QueueId, SegmentNumber, SessionId};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes that are looked at.
const BYTES: u64 = 1024 * 1024;

/// Things that are named.
const NAMED_MAX: usize = 8;

type Sessions = BTreeMap<SessionId, (QueueId, ClientKey)>;

/// What the records of the batch that stood there seem to have been about.
pub(super) fn records(
    device: Device<'_>,
    pieces: &mut Pieces,
    (segment, offset): (SegmentNumber, u64),
    sessions: &Sessions,
) -> Vec<String> {
    let (bytes, _) = pieces.read_what_can_be(device, segment, offset, BYTES);
    let mut seem = Vec::new();
    let Some(length) = batch::claimed_length(&bytes) else { return seem };
    let bytes = &bytes[..bytes.len().min(length)];
    let mut at = BATCH_HEADER;
    while let Some((_, end)) = codec::peek(bytes, at) {
        if let Ok((record, ..)) = codec::decode(bytes, at)
            && let Some(words) = words(&record, sessions)
            && !seem.contains(&words)
        {
            if seem.len() == NAMED_MAX {
                seem.push("more".into());
                break;
            }
            seem.push(words);
        }
        at = end;
    }
    seem
}

fn words(record: &Record, sessions: &Sessions) -> Option<String> {
    let client = |session: &SessionId| {
        sessions.get(session).map_or_else(|| format!("session {session}"), |(_, key)| name(key))
    };
    let owner = |queue: &QueueId| {
        let owned = sessions.values().find(|(owned, _)| owned == queue);
        owned.map_or_else(|| format!("queue {queue}"), |(_, key)| name(key))
    };
    Some(match record {
        Record::Published(publication) => {
            let topic = String::from_utf8_lossy(publication.content.address()).into_owned();
            match &publication.recipients[..] {
                [] => format!("a message for topic {topic:?}"),
                [one] => format!("a message for topic {topic:?} to {}", owner(&one.queue)),
                many => format!(
                    "a message for topic {topic:?} to {} and {} more",
                    owner(&many[0].queue),
                    many.len() - 1
                ),
            }
        }
        Record::SessionOpened { key, .. } => format!("the session of {}", name(key)),
        Record::SessionRemoved { session, .. } => format!("the end of the session of {}", client(session)),
        Record::SessionAttached { session, .. }
        | Record::SessionDetached { session, .. }
        | Record::SessionExpirySet { session, .. } => {
            format!("coming and going of {}", client(session))
        }
        Record::Subscribed { session, .. } => format!("subscriptions of {}", client(session)),
        Record::Unsubscribed { session, .. } => format!("unsubscriptions of {}", client(session)),
        Record::RetainedQueued { session, .. } => format!("retained messages owed to {}", client(session)),
        Record::PacketIdReceived { session, .. } | Record::PacketIdReleased { session, .. } => {
            format!("QoS 2 packet identifiers of {}", client(session))
        }
        Record::Releasing { queue, .. }
        | Record::Settled { queue, .. }
        | Record::Returned { queue, .. }
        | Record::Moved { to: Recipient { queue, .. }, .. }
        | Record::HorizonMoved { queue, .. } => {
            format!("deliveries to {}", owner(queue))
        }
        Record::WillSet { key, .. } | Record::WillRemoved { key } => format!("the will of {}", name(key)),
        Record::RetainedExpired { topic, .. } => format!("the end of what topic {topic:?} retained"),
        Record::Topology(topology) => declared(topology),
        Record::RangeSettled { queue, .. } => format!("messages of queue {queue}"),
        Record::Relocated { .. } | Record::Image(_) | Record::Listing(_) | Record::Checkpoint(_) => {
            return None;
        }
    })
}

fn declared(topology: &Topology) -> String {
    match topology {
        Topology::ExchangeDeclared { name, .. } | Topology::ExchangeDeleted { name, .. } => {
            format!("exchange {name:?}")
        }
        Topology::QueueDeclared { name, .. } => format!("queue {name:?}"),
        Topology::QueueDeleted { queue } => format!("the end of queue {queue}"),
        Topology::Bound { binding, .. } | Topology::Unbound { binding, .. } => {
            format!("a binding to exchange {:?}", binding.source)
        }
    }
}

fn name(key: &ClientKey) -> String {
    format!("client {:?}", key.name())
}
