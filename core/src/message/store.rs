//! All messages that a queue or a retained topic refers to: what is known of each, and those in memory.

use super::Message;
use super::cache::Cache;
use super::table::{Known, Table};
use crate::durable::place::Place;
use crate::durable::usage::Usage;
use crate::ids::MessageId;
use crate::time::WallTime;
use alloc::vec::Vec;

/// Bytes that the table takes for one message.
const SLOT_BYTES: u64 = 32;

/// All messages.
pub struct MessageStore {
    /// Where they are.
    pub(crate) table: Table,
    cache: Cache,
    body_bytes: u64,
    /// Bytes of the log that they need.
    usage: Usage,
    /// References are not counted: a checkpoint is replayed, and they are counted afterwards.
    restoring: bool,
}

impl MessageStore {
    /// No messages.
    pub fn new(hash_key: u64) -> MessageStore {
        MessageStore {
            table: Table::default(),
            cache: Cache::new(hash_key),
            body_bytes: 0,
            usage: Usage::default(),
            restoring: false,
        }
    }

    /// Messages held.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all bodies held, in memory or not.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Bytes that they take in memory, about.
    pub fn held_bytes(&self) -> u64 {
        self.cache.bytes() + SLOT_BYTES * self.len() as u64
    }

    /// Bytes of the messages in memory, about.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Bytes of the log that messages need, by segment.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// What is known of the message, if anybody refers to it.
    pub fn find(&self, id: MessageId) -> Option<Known> {
        self.table.find(id)
    }

    /// Bytes of the message's body; 0 if nobody refers to it, or while a checkpoint is replayed.
    pub fn bytes_of_body(&self, id: MessageId) -> u64 {
        self.find(id).filter(|_| !self.restoring).map_or(0, |known| known.body_bytes.into())
    }

    /// The message, if it is in memory.
    pub fn message(&self, id: MessageId) -> Option<&Message> {
        self.cache.find(id)
    }

    /// Takes a message that `references` places refer to; none: it is not kept.
    pub(crate) fn insert(&mut self, id: MessageId, message: Message, place: Option<Place>, references: u32) {
        let body_bytes = u32::try_from(message.body().len()).expect("packets are shorter than 2^28 bytes");
        if self.restoring {
            // Where an image has it already, it knows better where it lies.
            if self.find(id).is_none() {
                self.add(id, &message, place, body_bytes, 0);
            }
            return;
        }
        if references == 0 {
            return;
        }
        self.body_bytes += u64::from(body_bytes);
        self.add(id, &message, place, body_bytes, references);
        self.cache.insert(id, message);
        if let Some(place) = place {
            self.usage.add(place);
            self.cache.release(id);
        }
    }

    fn add(
        &mut self,
        id: MessageId,
        message: &Message,
        place: Option<Place>,
        body_bytes: u32,
        references: u32,
    ) {
        self.table.insert(id, Known::of(message, place, body_bytes, references));
        let expiry = (message.expires_at > WallTime(0)).then_some((id, message.expires_at));
        self.table.note_expiries(expiry);
    }

    /// The messages on disk of the next stretch of the table, from this one on, with their places; where to go on.
    pub(crate) fn next_on_disk(&self, from: u64) -> (Vec<(MessageId, Place)>, Option<u64>) {
        let Some(number) = self.table.numbers_from(from).next() else { return (Vec::new(), None) };
        let messages = self.table.chunk(number).into_iter().flat_map(|chunk| chunk.iter(number));
        (messages.filter_map(|(id, known)| Some((id, known.place?))).collect(), Some(number + 1))
    }

    /// One more place refers to the message.
    pub(crate) fn retain(&mut self, id: MessageId) {
        if !self.restoring {
            self.table.retain(id);
        }
    }

    /// One place less refers to the message; the last one frees it.
    pub(crate) fn release(&mut self, id: MessageId) {
        if self.restoring {
            return;
        }
        let Some(known) = self.table.release(id) else { return };
        self.body_bytes -= u64::from(known.body_bytes);
        self.cache.remove(id);
        if let Some(place) = known.place {
            self.usage.remove(place);
        }
    }

    /// The message is on disk, there.
    pub(crate) fn written(&mut self, id: MessageId, place: Place) {
        let Some(known) = self.table.place(id, place) else { return };
        if self.restoring {
            return;
        }
        if let Some(before) = known.place {
            self.usage.remove(before);
        }
        self.usage.add(place);
        self.cache.release(id);
    }

    /// The message was read back from where it lies.
    pub(crate) fn read(&mut self, id: MessageId, message: Message) {
        if self.table.find(id).is_some() && self.cache.find(id).is_none() {
            self.cache.insert(id, message);
            self.cache.release(id);
        }
    }

    /// Lets messages go from memory that are on disk, the oldest first, until the rest takes so many bytes.
    pub(crate) fn shrink_cache(&mut self, most: u64) {
        self.cache.shrink(most);
    }

    /// From here on a checkpoint is replayed.
    pub(crate) fn begin_restoring(&mut self) {
        self.restoring = true;
    }

    /// From here on references are counted.
    pub(crate) fn begin_counting(&mut self) {
        self.restoring = false;
    }

    /// All references are counted: what nobody refers to goes.
    pub(crate) fn restored(&mut self) {
        let (body_bytes, usage) = (&mut self.body_bytes, &mut self.usage);
        self.table.restored(|_, known| {
            *body_bytes += u64::from(known.body_bytes);
            if let Some(place) = known.place {
                usage.add(place);
            }
        });
    }
}
