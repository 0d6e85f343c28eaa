//! What is still missing, when everything should have arrived.

use super::Model;
use crate::outcome::Checker;
use crate::payload::MessageKey;

impl Model {
    /// Whether the broker owes anybody anything.
    pub(crate) fn is_settled(&self) -> bool {
        let settled = |client: usize| {
            self.first_owed(client).is_none() && self.clients[client].retained_owed.is_empty()
        };
        (0..self.clients.len()).all(settled)
            && self.first_owed_by_a_group().is_none()
            && self.missing_wills().is_empty()
    }

    /// The first message that a client is owed, but for what may have expired.
    fn first_owed(&self, client: usize) -> Option<MessageKey> {
        let mut owed = self.clients[client].owed.iter().copied();
        owed.find(|key| !self.message_may_have_expired(*key))
    }

    /// Names the first message that was acknowledged before this time and has not reached somebody it is owed to who has
    /// been connected and received nothing ever since. (Who publishes to its own full queue is refused before it can read.)
    pub(crate) fn fail_on_old_debts(&mut self, before: u64) {
        for client in 0..self.clients.len() {
            let state = &self.clients[client];
            let since = state.presence.connected().map(|attempt| state.attempts[attempt].sent());
            let old = |key: &&MessageKey| {
                self.message(**key).acked < before
                    && !self.message_may_have_expired(**key)
                    && since.is_some_and(|since| since.max(state.received_at) < before)
            };
            if let Some(key) = self.clients[client].owed.iter().find(old).copied() {
                self.fail_on_loss(client, key);
            }
        }
    }

    /// Time is up: names the first thing that is missing.
    pub(crate) fn fail_on_missing(&mut self) {
        self.fail_on_group_loss();
        for client in 0..self.clients.len() {
            if let Some(key) = self.first_owed(client) {
                self.fail_on_loss(client, key);
            }
            let missing = self.clients[client].retained_owed.first_key_value();
            if let Some((topic, asked)) = missing.map(|(topic, asked)| (*topic, *asked)) {
                let name = self.topics.name(topic).to_owned();
                let text = format!(
                    "client {client} subscribed at {asked} µs and has not received the retained message of {name:?}"
                );
                self.fail(Checker::Retained, format!("client {client} {name:?}"), text);
            }
        }
        if let Some((receiver, key)) = self.missing_wills().first().copied() {
            let text = format!(
                "the connection of client {} was lost and its will {key} has not reached client {receiver}",
                key.publisher
            );
            self.fail(Checker::Will, format!("client {} {key}", key.publisher), text);
        }
    }

    fn fail_on_loss(&mut self, client: usize, key: MessageKey) {
        let message = self.message(key);
        let text = format!(
            "{key} to {:?} was acknowledged at {} µs and has not reached client {client}, which had an acknowledged \
             subscription; {} messages are missing there",
            self.topics.name(message.topic),
            message.acked,
            self.clients[client].owed.len()
        );
        self.fail(Checker::Loss, format!("client {client} {key}"), text);
    }
}
