//! What is still missing, when everything should have arrived.

use super::Model;
use crate::outcome::Checker;

impl Model {
    /// Whether the broker owes anybody anything.
    pub(crate) fn is_settled(&self) -> bool {
        self.clients.iter().all(|client| client.owed.is_empty() && client.retained_owed.is_empty())
            && self.missing_wills().is_empty()
    }

    /// Time is up: names the first thing that is missing.
    pub(crate) fn fail_on_missing(&mut self) {
        for client in 0..self.clients.len() {
            let state = &self.clients[client];
            if let Some(key) = state.owed.first().copied() {
                let message = self.message(key);
                let text = format!(
                    "{key} to {:?} was acknowledged at {} µs and has not reached client {client}, which had an \
                     acknowledged subscription; {} messages are missing there",
                    self.topics.name(message.topic),
                    message.acked,
                    state.owed.len()
                );
                self.fail(Checker::Loss, format!("client {client} {key}"), text);
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
}
