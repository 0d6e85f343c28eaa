//! Messages in memory: what was published lately, what was read back. What is not on disk yet, or never will be, stays;
//! of the rest the oldest goes when there is too much.

use super::Message;
use crate::ids::MessageId;
use alloc::collections::VecDeque;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What keeping a message takes besides its parts: its entry in the table, with the table's room to grow.
const MESSAGE_BYTES: u64 = 160;

/// Messages, by id.
pub struct Cache {
    messages: HashMap<MessageId, Message, FixedState>,
    /// Those that may go, oldest first; some have gone already.
    order: VecDeque<MessageId>,
    bytes: u64,
}

impl Cache {
    /// Nothing.
    pub fn new(hash_key: u64) -> Cache {
        let messages = HashMap::with_hasher(FixedState::with_seed(hash_key));
        Cache { messages, order: VecDeque::new(), bytes: 0 }
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The message, if it is here.
    pub fn find(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// Takes a message, which stays until it is `release`d or removed.
    pub fn insert(&mut self, id: MessageId, message: Message) {
        self.bytes += message.bytes() + MESSAGE_BYTES;
        if let Some(before) = self.messages.insert(id, message) {
            self.bytes -= before.bytes() + MESSAGE_BYTES;
        }
    }

    /// The message is on disk: it may go from memory.
    pub fn release(&mut self, id: MessageId) {
        if self.messages.contains_key(&id) {
            self.order.push_back(id);
        }
        if self.order.len() > 1024 + 2 * self.messages.len() {
            let messages = &self.messages;
            self.order.retain(|id| messages.contains_key(id));
        }
    }

    /// The message is needed no more.
    pub fn remove(&mut self, id: MessageId) {
        if let Some(message) = self.messages.remove(&id) {
            self.bytes -= message.bytes() + MESSAGE_BYTES;
        }
    }

    /// Lets the oldest go until the rest takes at most `most` bytes, or all that is left has to stay.
    pub fn shrink(&mut self, most: u64) {
        while self.bytes > most
            && let Some(id) = self.order.pop_front()
        {
            self.remove(id);
        }
        if self.messages.capacity() > 1024 + 8 * self.messages.len() {
            self.messages.shrink_to(2 * self.messages.len());
        }
    }
}
