//! The pieces of a checkpoint of which its lists do not tell, because one of these is damaged: of each entity the newest
//! piece that stands before the checkpoint's end. Some may be of entities that had gone by then, so what was settled or
//! ended may come back: that is told.

use super::Device;
use super::pieces::Pieces;
use super::walk::Walk;
use crate::durable::batch::{self, BATCH_HEADER};
use crate::durable::codec;
use crate::durable::place::Place;
use crate::durable::record::{ClientKey, Image, Record};
use crate::ids::{Lsn, QueueId, SessionId};
use crate::queue::CHUNK;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// Types of images.
const IMAGES: RangeInclusive<u8> = 17..=22;

/// An entity, or one of the pieces that it has several of.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Entity {
    Session(u64),
    Subscriptions(SessionId, u32),
    Queue(u64, u64),
    Messages(u64),
    Retained(Arc<str>, u64),
    Will(ClientKey),
    Exchange(Arc<str>, Arc<str>),
    DeclaredQueue(QueueId),
}

impl Entity {
    fn of(image: &Image) -> Entity {
        match image {
            Image::Session { session, .. } => Entity::Session(session.0),
            Image::Subscriptions { session, part, .. } => Entity::Subscriptions(*session, *part),
            Image::Queue { queue, first, .. } => Entity::Queue(queue.0, first.0 / CHUNK),
            Image::Messages { chunk, .. } => Entity::Messages(*chunk),
            Image::Retained { vhost, page, .. } => Entity::Retained(vhost.clone(), *page),
            Image::Will { key, .. } => Entity::Will(key.clone()),
            Image::Exchange(image) => Entity::Exchange(image.vhost.clone(), Arc::clone(&image.name)),
            Image::DeclaredQueue(image) => Entity::DeclaredQueue(image.queue),
        }
    }
}

/// Pieces that stand before `end`, of entities that `listed` has none of.
pub(super) fn images(
    device: Device<'_>,
    pieces: &mut Pieces,
    walk: &Walk,
    end: Lsn,
    listed: &[(Image, Place)],
) -> Vec<(Image, Place)> {
    let known: BTreeSet<Entity> = listed.iter().map(|(image, _)| Entity::of(image)).collect();
    let mut newest: BTreeMap<Entity, (Image, Place)> = BTreeMap::new();
    for at in walk.batches.iter().filter(|batch| batch.first < end) {
        let Ok(bytes) = pieces.read(device, at.segment, at.offset, at.length) else { continue };
        let Some(batch) = batch::parse(&bytes) else { continue };
        let mut offset = BATCH_HEADER;
        while let Some((kind, next)) = codec::peek(batch.bytes, offset) {
            if IMAGES.contains(&kind)
                && let Ok((Record::Image(image), Some(span), _)) = codec::decode(batch.bytes, offset)
            {
                let offset = at.offset + span.offset as u64;
                let (segment, length, checksum) = (at.segment, span.length, span.checksum);
                newest.insert(Entity::of(&image), (image, Place { segment, offset, length, checksum }));
            }
            offset = next;
        }
    }
    let mut made_at: BTreeMap<SessionId, Lsn> = BTreeMap::new();
    for (image, _) in newest.values() {
        if let Image::Subscriptions { session, as_of, .. } = image {
            let at = made_at.entry(*session).or_insert(*as_of);
            *at = *as_of.max(at);
        }
    }
    // The pieces of a session's subscriptions are made together.
    newest.retain(|_, (image, _)| match image {
        Image::Subscriptions { session, as_of, .. } => made_at.get(session) == Some(as_of),
        _ => true,
    });
    newest.retain(|entity, _| !known.contains(entity));
    newest.into_values().collect()
}
