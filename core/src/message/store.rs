//! One table of all messages: id → message, who refers to it, where it lies in the log.

use super::Message;
use crate::durable::place::Place;
use crate::ids::MessageId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// All messages that a queue or a retained topic refers to.
pub struct MessageStore {
    messages: HashMap<MessageId, Stored, FixedState>,
    body_bytes: u64,
    held_bytes: u64,
}

/// What keeping a message takes besides its parts: its entry in the table, with the table's room to grow.
const MESSAGE_BYTES: u64 = 256;

/// A message and what is known of it.
pub struct Stored {
    /// The message.
    pub message: Message,
    /// Where its body lies in the log; none while it is not written, or never will be.
    pub place: Option<Place>,
    references: u32,
}

impl MessageStore {
    /// No messages.
    pub fn new(hash_key: u64) -> MessageStore {
        MessageStore {
            messages: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            body_bytes: 0,
            held_bytes: 0,
        }
    }

    /// Messages held.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all bodies held.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Bytes that they take in memory, about.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// The message, if anybody refers to it.
    pub fn find(&self, id: MessageId) -> Option<&Stored> {
        self.messages.get(&id)
    }

    /// Takes a message that `references` places refer to; none: it is not kept.
    pub(crate) fn insert(&mut self, id: MessageId, message: Message, place: Option<Place>, references: u32) {
        if references == 0 {
            return;
        }
        self.body_bytes += message.body().len() as u64;
        self.held_bytes += message.bytes() + MESSAGE_BYTES;
        let before = self.messages.insert(id, Stored { message, place, references });
        assert!(before.is_none(), "message {id} inserted twice");
    }

    /// One more place refers to the message.
    pub(crate) fn retain(&mut self, id: MessageId) {
        let stored = self.messages.get_mut(&id).expect("a message that is referred to is held");
        stored.references += 1;
    }

    /// One place less refers to the message; the last one frees it.
    pub(crate) fn release(&mut self, id: MessageId) {
        let stored = self.messages.get_mut(&id).expect("a message that is referred to is held");
        stored.references -= 1;
        if stored.references == 0 {
            self.body_bytes -= stored.message.body().len() as u64;
            self.held_bytes -= stored.message.bytes() + MESSAGE_BYTES;
            self.messages.remove(&id);
        }
    }

    /// The message was written here.
    pub(crate) fn written(&mut self, id: MessageId, place: Place) {
        if let Some(stored) = self.messages.get_mut(&id) {
            stored.place = Some(place);
        }
    }
}
