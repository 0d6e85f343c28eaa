//! Retained messages: whoever subscribes gets the last acknowledged one, or one that was tried after it.
//!
//! A topic is a register with concurrent writes. A value may be read unless another write came wholly after it
//! and was acknowledged before the read began.

use super::options::Brings;
use super::{Delivery, Model};
use crate::outcome::Checker;
use crate::payload::MessageKey;

impl Model {
    /// A SUBACK came for a SUBSCRIBE: notes the topics that owe a retained message.
    pub(super) fn owe_retained(&mut self, client: usize, filter: usize, granted: u8, sent: u64) {
        if granted == 0 || self.bounded {
            return;
        }
        for topic in 0..self.topics.topic_count() {
            let seen = self.clients[client].retained_seen.get(&topic).is_some_and(|seen| *seen >= sent);
            let fits = self.retained[topic].iter().all(|key| self.certainly_fits(client, *key));
            let replaced_it = self.retained[topic]
                .iter()
                .any(|key| self.is_deaf(client, filter, *key) && self.message(*key).ended >= sent);
            if !seen
                && fits
                && !replaced_it
                && self.topics.matching(filter, topic)
                && self.has_retained(topic, sent)
            {
                self.clients[client].retained_owed.insert(topic, sent);
            }
        }
    }

    /// A retained message, or an empty one that takes it away, is on its way to the broker.
    pub(super) fn retained_tried(&mut self, key: MessageKey) {
        let message = self.message(key);
        let topic = message.topic;
        let may_be_lost = message.qos == 0 || message.length == 0 || message.expiry_s.is_some();
        self.retained[topic].push(key);
        for client in 0..self.clients.len() {
            // Whoever is still owed what was there may get nothing instead; so may who replaces it and does not hear itself.
            let hears_nothing = key.publisher as usize == client && self.is_deaf_at_all(client);
            if may_be_lost || hears_nothing {
                self.clients[client].retained_owed.remove(&topic);
            }
        }
    }

    /// A retained message came as such.
    pub(super) fn retained_delivered(&mut self, delivery: &Delivery<'_>, topic: usize, key: MessageKey) {
        let now = self.now;
        let state = &mut self.clients[delivery.client];
        state.retained_seen.insert(topic, now);
        state.retained_owed.remove(&topic);
        let asked = state.subscribes.iter().filter(|attempt| {
            self.topics.matching(attempt.filter, topic) && attempt.brings_retained != Brings::Never
        });
        let windows: Vec<(u64, u64)> = asked.map(|attempt| (attempt.sent, attempt.answered)).collect();
        let message = self.message(key);
        let subject = format!("client {} {:?}", delivery.client, delivery.topic);
        if !message.retain {
            let text = format!(
                "client {} receives {key} as retained, which it was not published as",
                delivery.client
            );
            self.fail(Checker::Retained, subject, text);
        } else if !windows.iter().any(|(sent, answered)| self.may_be_current(topic, key, *sent, *answered)) {
            let text = format!(
                "client {} receives {key} as the retained message of {:?}, and it was replaced before",
                delivery.client, delivery.topic
            );
            self.fail(Checker::Retained, subject, text);
        }
    }

    /// Whether a read between these times may have found this write.
    fn may_be_current(&self, topic: usize, key: MessageKey, from: u64, until: u64) -> bool {
        let message = self.message(key);
        let replaces = |other: &MessageKey| {
            let other = self.message(*other);
            other.sent > message.ended && other.acked < from
        };
        message.sent <= until && !self.retained[topic].iter().any(replaces)
    }

    /// Whether there is a retained message for certain from this time until now, and one that is not lost with
    /// a connection.
    fn has_retained(&self, topic: usize, from: u64) -> bool {
        let writes = &self.retained[topic];
        if writes.iter().any(|key| self.message(*key).qos == 0) {
            return false;
        }
        let set = |key: &&MessageKey| self.message(**key).length > 0 && self.message(**key).acked < from;
        writes.iter().filter(set).any(|key| {
            let set_at = self.message(*key).sent;
            // What expires takes away what was there before, in the end.
            let clears = |other: &MessageKey| {
                let other = self.message(*other);
                (other.length == 0 || other.expiry_s.is_some()) && other.ended >= set_at
            };
            !writes.iter().any(clears)
        })
    }
}
