//! Whose a message is where the checkpoint's piece that said so is damaged: the record that published it says it too.
//!
//! A checkpoint lists only messages that somebody refers to. So a message that is listed, and that nobody refers to as
//! far as the readable pieces tell, belongs to a piece that is damaged: of its recipients, those who have not settled it
//! since. With several recipients some may have settled it before; they get it again.

use super::Device;
use super::loss::Loss;
use super::pieces::Pieces;
use super::walk::Walk;
use crate::durable::batch::{self, BATCH_HEADER};
use crate::durable::codec;
use crate::durable::record::{Publication, Record, Retain};
use crate::durable::state::State;
use crate::ids::{MessageId, QueueId, QueuePosition};
use crate::queue::{CHUNK, Entry, Stage};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The types of the records of publications.
const PUBLISHED: [u8; 2] = [8, 45];

/// What has been said since the checkpoint, if something of that is damaged.
#[derive(Default)]
pub(super) struct Said {
    /// Whether it is noted.
    pub matters: bool,
    pub published: BTreeSet<MessageId>,
    pub settled: BTreeSet<(QueueId, QueuePosition)>,
    pub releasing: BTreeSet<(QueueId, QueuePosition)>,
}

/// What is put back.
#[derive(Default)]
struct Found {
    /// By queue and stretch.
    entries: BTreeMap<(QueueId, u64), Vec<Entry>>,
    /// By virtual host and topic: the newest.
    retained: BTreeMap<(Arc<str>, String), MessageId>,
}

/// Finds the owners of messages that have none, and tells of it.
pub(super) fn find(
    device: Device<'_>,
    pieces: &mut Pieces,
    walk: &Walk,
    state: &mut State,
    said: &Said,
) -> Vec<Loss> {
    let mut unowned = unowned(state);
    // What was published since is where it was put, or settled.
    unowned.retain(|message| !said.published.contains(message));
    let mut found = Found::default();
    for at in walk.batches.iter().filter(|_| !unowned.is_empty()) {
        let Ok(bytes) = pieces.read(device, at.segment, at.offset, at.length) else { continue };
        let Some(batch) = batch::parse(&bytes) else { continue };
        let mut offset = BATCH_HEADER;
        while let Some((kind, end)) = codec::peek(batch.bytes, offset) {
            if PUBLISHED.contains(&kind)
                && let Ok((Record::Published(publication), ..)) = codec::decode(batch.bytes, offset)
                && unowned.contains(&publication.message)
            {
                found.note(&publication, state, said);
            }
            offset = end;
        }
    }
    let mut losses = Vec::new();
    let mut put_back: BTreeMap<_, u64> = BTreeMap::new();
    for ((queue, _), mut entries) in found.entries {
        entries.sort_unstable_by_key(|entry| entry.position);
        entries.dedup_by_key(|entry| entry.position);
        let count = state.put_back(queue, &entries);
        if let Some(owner) = state.owner(queue).filter(|_| count > 0) {
            *put_back.entry(owner).or_default() += count;
        }
        for entry in &entries {
            unowned.remove(&entry.message);
        }
    }
    for ((vhost, topic), message) in found.retained {
        if unowned.contains(&message) && state.retain_again(&vhost, &topic, message) {
            unowned.remove(&message);
        }
    }
    losses.extend(put_back.into_iter().map(|(owner, count)| Loss::EntriesPutBack { owner, count }));
    let count = unowned.len() as u64;
    losses.extend((count > 0).then_some(Loss::Unowned { count }));
    losses
}

fn unowned(state: &State) -> BTreeSet<MessageId> {
    let referred = state.referred();
    let mut unowned = BTreeSet::new();
    let mut from = Some(0);
    while let Some(next) = from {
        let (messages, then) = state.messages.next_on_disk(next);
        unowned.extend(messages.into_iter().map(|(message, _)| message).filter(|m| !referred.contains(m)));
        from = then;
    }
    unowned
}

impl Found {
    fn note(&mut self, publication: &Publication, state: &State, said: &Said) {
        let message = publication.message;
        for recipient in &publication.recipients {
            let (queue, position, delivery) = (recipient.queue, recipient.position, recipient.delivery);
            if said.settled.contains(&(queue, position)) || !state.has_queue(queue) {
                continue;
            }
            let releasing = said.releasing.contains(&(queue, position));
            let stage = if releasing { Stage::Releasing } else { Stage::Queued };
            let entry = Entry { position, message, delivery, stage };
            self.entries.entry((queue, position.0 / CHUNK)).or_default().push(entry);
        }
        if publication.retain == Retain::Set {
            let topic = String::from_utf8_lossy(publication.content.address()).into_owned();
            let newest = self.retained.entry((publication.vhost.clone(), topic)).or_insert(message);
            *newest = message.max(*newest);
        }
    }
}
