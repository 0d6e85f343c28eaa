//! What publishers send and what they are answered: from then on it is owed.

use super::{Message, Model, NEVER};
use crate::outcome::Checker;
use crate::payload::MessageKey;

impl Model {
    /// A message that its publisher is going to send.
    pub(crate) fn new_message(
        &mut self,
        publisher: usize,
        topic: &str,
        qos: u8,
        retain: bool,
        length: u32,
    ) -> MessageKey {
        let topic = self.topics.topic(topic);
        let messages = &mut self.messages[publisher];
        messages.push(Message {
            topic,
            qos,
            retain,
            length,
            expiry_s: None,
            sent: NEVER,
            sends: 0,
            acked: NEVER,
            ended: NEVER,
            on_disk: false,
            refused: false,
            queued: 0,
            queued_in_groups: 0,
            dropped: 0,
            will_of: None,
        });
        MessageKey { publisher: publisher as u32, sequence: messages.len() as u32 - 1 }
    }

    /// A PUBLISH was written. `again` tells that it was written on this connection before.
    pub(crate) fn publish_sent(&mut self, key: MessageKey, again: bool) {
        let now = self.now;
        let message = self.message_mut(key);
        message.sends += 1;
        if again && message.qos == 1 {
            // Its copies may take effect one after the other, the last one long after the first answer.
            message.ended = NEVER - 1;
        }
        if message.sent == NEVER {
            message.sent = now;
            if message.retain {
                self.retained_tried(key);
            }
        }
    }

    /// The PUBACK or PUBREC came.
    pub(crate) fn publish_acked(&mut self, key: MessageKey) {
        let now = self.now;
        let message = self.message_mut(key);
        message.acked = now;
        if message.ended == NEVER {
            message.ended = now;
        }
        let (sent, qos, length) = (message.sent, message.qos, message.length);
        if length == 0 || qos == 0 {
            return;
        }
        self.owe_to_groups(key);
        for client in 0..self.clients.len() {
            let granted = self.certainly_granted(client, key, sent);
            if granted.is_none_or(|qos| qos == 0) || (self.bounded && !self.is_still_queued(client, key)) {
                continue;
            }
            if self.record(client, key).live == 0 {
                self.clients[client].owed.insert(key);
                self.debts += 1;
            }
        }
    }

    /// The disk is not to be believed from now on, so nobody can tell what was dropped at bounds, or since
    /// when a client has been away.
    pub(crate) fn disk_lies(&mut self) {
        self.clients.iter_mut().for_each(|client| client.presence.away = None);
        self.groups_owe_nothing();
        if self.bounded {
            self.drops_unknown = true;
            self.clients.iter_mut().for_each(|client| client.owed.clear());
        }
    }

    /// Whether the disk has put the message into the client's queue and not taken it out at its bound.
    pub(super) fn is_still_queued(&self, client: usize, key: MessageKey) -> bool {
        let message = self.message(key);
        !self.drops_unknown && message.queued & !message.dropped & 1 << client != 0
    }

    /// The publisher will not send it again, and nothing of it is on its way.
    pub(crate) fn publish_abandoned(&mut self, key: MessageKey) {
        let now = self.now;
        let message = self.message_mut(key);
        if message.ended == NEVER {
            message.ended = now;
        }
    }

    /// The broker does not take it: nothing may come of it.
    pub(crate) fn publish_refused(&mut self, key: MessageKey) {
        self.publish_abandoned(key);
        let message = self.message_mut(key);
        message.refused = message.sends == 1;
    }

    /// The broker says that nobody has subscribed to the topic of this message.
    pub(crate) fn nobody_hears(&mut self, key: MessageKey) {
        let sent = self.message(key).sent;
        // A clean session may be gone without its client knowing it.
        let hears = |client: &usize| {
            let state = &self.clients[*client];
            let there = state.session_durable || state.presence.connected().is_some();
            there && self.certainly_granted(*client, key, sent).is_some()
        };
        if let Some(client) = (0..self.clients.len()).find(hears) {
            let text =
                format!("the answer to {key} says that nobody hears it, and client {client} has subscribed");
            self.fail(Checker::Protocol, key.to_string(), text);
        }
    }

    /// Whether the answer to this message waits for the disk.
    pub(crate) fn waits_for_disk(&self, key: MessageKey) -> bool {
        let message = self.message(key);
        let routed = |client: &usize| {
            self.clients[*client].session_durable
                && self.certainly_granted(*client, key, message.sent).is_some_and(|qos| qos > 0)
        };
        message.retain
            || (message.qos > 0 && (0..self.clients.len()).any(|client| routed(&client)))
            || self.some_group_needs(key).is_some()
    }

    /// Whether its answer proves that everything its publisher wrote before is on the disk.
    pub(crate) fn proves_disk(&self, key: MessageKey) -> bool {
        self.message(key).length > 0
            && self.message(key).sends == 1
            && !self.bounded
            && self.waits_for_disk(key)
    }

    /// The answer to this message leaves the broker; `retained` tells what a topic retains on the disk.
    pub(crate) fn answer_leaves(&mut self, key: MessageKey, retained: impl Fn(&str) -> Option<MessageKey>) {
        let message = self.message(key);
        let missing = if message.length == 0 {
            // Nothing that was acknowledged before this was sent may still be there.
            let there = retained(self.topics.name(message.topic)).filter(|_| message.retain);
            there
                .filter(|there| self.message(*there).ended < message.sent)
                .map(|there| format!("{there} is still retained there"))
        } else if !message.on_disk && self.waits_for_disk(key) && (message.retain || !self.bounded) {
            Some(
                "the message is not there, though a durable session or the retained store needs it"
                    .to_owned(),
            )
        } else {
            self.missing_in_queue(key)
        };
        if let Some(missing) = missing {
            let text = format!("the answer to {key} leaves, and by the records on the disk {missing}");
            self.fail(Checker::AckBeforeDisk, key.to_string(), text);
        }
    }

    /// A durable session that must have the message in its queue and has not, in words.
    pub(super) fn missing_in_queue(&mut self, key: MessageKey) -> Option<String> {
        if self.bounded {
            self.note_passed_by(key);
            return None;
        }
        if let Some(filter) = self.not_in_group(key) {
            return Some(format!("neither {filter:?} nor a member of that group has it in its queue"));
        }
        let client = self.not_queued(key)?;
        Some(format!("it is not in the queue of client {client}, which has an acknowledged subscription"))
    }

    /// A client with a durable session that must have the message in its queue and has not, for all that is known.
    pub(super) fn not_queued(&self, key: MessageKey) -> Option<usize> {
        let message = self.message(key);
        if message.qos == 0 {
            return None;
        }
        let owed = |client: &usize| {
            self.clients[*client].session_durable
                && (message.queued | message.dropped) & 1 << client == 0
                && self.certainly_granted(*client, key, message.sent).is_some_and(|qos| qos > 0)
        };
        (0..self.clients.len()).find(owed)
    }

    /// The message was seen on the disk, in the queues of these clients.
    pub(crate) fn stored(&mut self, key: MessageKey, clients: &[Box<str>]) {
        let queued = clients.iter().filter_map(|id| self.ids.iter().position(|known| **known == **id));
        let queued = queued.fold(0, |queued, client| queued | 1 << client);
        let groups = clients.iter().filter_map(|name| self.group_called(name));
        let groups = groups.fold(0, |groups, group| groups | 1 << group);
        let found =
            self.messages.get_mut(key.publisher as usize).and_then(|all| all.get_mut(key.sequence as usize));
        if let Some(message) = found {
            message.on_disk = true;
            message.queued |= queued;
            message.queued_in_groups |= groups;
        }
    }
}
