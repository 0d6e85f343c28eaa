//! Whether the images of checkpoints say what the records before them say.

use super::facts::Facts;
use crate::payload;
use std::collections::{BTreeMap, BTreeSet};
use vowmq_core::durable::record::{Image, Record};
use vowmq_core::durable::state::Owed;
use vowmq_core::ids::{Lsn, MessageId, SessionId};
use vowmq_core::queue::Stage;

/// The images of a session's subscriptions: several, one behind the other, that say it all together.
pub(super) struct Pieces {
    session: SessionId,
    parts: u32,
    /// The record before the first, and the one that they name as that.
    behind: (Lsn, Lsn),
    subscriptions: BTreeMap<Box<str>, u8>,
    owed: Vec<Owed>,
}

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
            // Held against the records when the last piece is there: see `end_pieces`.
            Image::Subscriptions { .. } => Ok(()),
            Image::Queue { queue, first, end, entries, .. } => {
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
            Image::Messages { .. } | Image::Exchange(_) | Image::DeclaredQueue(_) => Ok(()),
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

    /// Takes in an image of subscriptions.
    pub(super) fn gather(&mut self, image: Image, lsn: Lsn) {
        let Image::Subscriptions { session, as_of, filters, owed, .. } = image else { return };
        let behind = (Lsn(lsn.0 - 1), as_of);
        let (subscriptions, none) = (BTreeMap::new(), Vec::new());
        let first = Pieces { session, parts: 0, behind, subscriptions, owed: none };
        let pieces = self.pieces.get_or_insert(first);
        pieces.parts += 1;
        pieces
            .subscriptions
            .extend(filters.into_iter().map(|(filter, subscription)| (filter, subscription.qos as u8)));
        pieces.owed.extend(owed);
    }

    /// If this record is not another piece, those so far are all there are. Else: what is wrong with them, in words.
    pub(super) fn end_pieces(&mut self, record: &Record) -> Result<(), String> {
        let goes_on = |pieces: &mut Pieces| match record {
            Record::Image(Image::Subscriptions { session, part, .. }) => {
                *session == pieces.session && *part == pieces.parts
            }
            _ => false,
        };
        let Some(pieces) = self.pieces.take_if(|pieces| !goes_on(pieces)) else { return Ok(()) };
        let Some(facts) = self.session_of(pieces.session) else {
            return Err(format!(
                "there are subscriptions of session {}, and no such session",
                pieces.session
            ));
        };
        let (client, said) = (&facts.client, &pieces.subscriptions);
        if pieces.behind.0 != pieces.behind.1 {
            return Err(format!("the subscriptions of {client} stand behind another record than they say"));
        }
        if *said != facts.subscriptions {
            return Err(format!("{client} has the subscriptions {:?}, not {said:?}", facts.subscriptions));
        }
        if facts.owed != pieces.owed {
            return Err(format!("{client} is owed {:?}, not {:?}", facts.owed, pieces.owed));
        }
        Ok(())
    }
}
