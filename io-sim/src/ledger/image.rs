//! Whether the images of checkpoints say what the records before them say.

use super::facts::Facts;
use crate::payload;
use std::collections::{BTreeMap, BTreeSet};
use vowmq_core::durable::record::Image;
use vowmq_core::ids::MessageId;
use vowmq_core::queue::Stage;

impl Facts {
    /// The image was made right before this record, so it says what is so now. Else: what is wrong, in words.
    pub(super) fn agrees_with(&self, image: &Image) -> Result<(), String> {
        let holds = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {image:?}")) };
        match image {
            Image::Session { session, key, away_since, horizon, next, received, .. } => {
                let Some(facts) = self.session_of(*session) else {
                    return Err(format!("there is no such session: {image:?}"));
                };
                holds(*facts.client == *key.client, "the session is another client's")?;
                holds(facts.attached == away_since.is_none(), "its client is there or away, and not so")?;
                holds(facts.horizon == horizon.0, "its horizon is another")?;
                // What is only in clean sessions' records has no position here.
                holds(facts.next <= next.0, "its next position has been used")?;
                let said: BTreeSet<u16> = received.iter().map(|id| id.get()).collect();
                holds(facts.received == said, "its packet ids are others")
            }
            Image::Subscriptions { session, filters, .. } => {
                let facts = self.session_of(*session);
                let known = |(filter, qos): &(Box<str>, _)| {
                    facts.is_some_and(|facts| facts.subscriptions.get(filter) == Some(&(*qos as u8)))
                };
                holds(filters.iter().all(known), "a subscription is not there")
            }
            Image::Queue { queue, first, end, entries } => {
                let facts = self.session_of_queue(*queue);
                let there = facts.into_iter().flat_map(|facts| facts.entries.range(first.0..end.0));
                let there: BTreeMap<u64, (MessageId, bool)> =
                    there.map(|(position, entry)| (*position, (entry.message, entry.releasing))).collect();
                let said = entries.iter();
                let said: BTreeMap<u64, (MessageId, bool)> =
                    said.map(|e| (e.position.0, (e.message, e.stage == Stage::Releasing))).collect();
                let same = there.len() == said.len()
                    && there.iter().zip(&said).all(
                        |((at, (message, releasing)), (other_at, (other, other_releasing)))| {
                            // Of a message whose client has taken it over only the packet id is left.
                            at == other_at && releasing == other_releasing && (*releasing || message == other)
                        },
                    );
                holds(same, "the entries are others")
            }
            Image::Messages { .. } => Ok(()),
            Image::Retained { topics, .. } => {
                let mut others =
                    topics.iter().filter(|(topic, message, _)| self.retains(topic) != Some(*message));
                holds(others.next().is_none(), "a topic retains something else")
            }
            Image::Will { key, will } => {
                let left = payload::recognise(will.content.body());
                holds(self.will(&key.client) == Some(left), "the will is another")
            }
        }
    }
}
