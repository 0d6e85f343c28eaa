//! The wire checker: no byte that asserts something leaves before that is in a synced record of the simulated disk.
//!
//! | leaves | must be in the ledger |
//! |---|---|
//! | PUBACK, PUBREC | the message, in every durable queue it is owed to; what its topic retains; for PUBREC the packet id |
//! | PUBCOMP | that the packet id is free again |
//! | PUBREL | the PUBREC that caused it |
//! | PUBLISH | a horizon above it; for QoS 2 its enqueueing |
//! | SUBACK, UNSUBACK | the subscription, or that it is gone |
//! | CONNACK | the session, or that it is gone; the will, or that it is gone; that its expiry has stopped |
//!
//! What concerns only clean sessions needs no record, and is let pass.

use super::World;
use crate::ledger::{Facts, SessionFacts};
use crate::model::Model;
use crate::outcome::Checker;
use crate::payload::MessageKey;
use crate::scenario::{Asked, ClientProgram};
use crate::tap::{Leaving, Message};
use vowmq_core::durable::record::SessionExpiry;
use vowmq_core::ids::ConnectionId;

impl World<'_> {
    /// A packet leaves the broker on a connection of this client.
    pub(super) fn leaves(&mut self, id: ConnectionId, client: usize, attempt: usize, leaving: Leaving) {
        if let Leaving::Accepted { present } = leaving {
            self.model.connack_leaves(client, attempt, present);
        }
        if let Leaving::Publish(message) = &leaving {
            let of_mqtt_5 = self.scenario.clients[client].mqtt5.is_some();
            self.model.message_leaves((client, of_mqtt_5), message);
        }
        // What leaves for a connection that its client has given up proves nothing to anybody.
        let Some(asked) = self.clients[client].asked_on(id) else { return };
        let Some(facts) = self.ledger.facts() else { return };
        if let Leaving::PubAck(packet_id) | Leaving::PubRec(packet_id) = leaving
            && let Some(key) = self.clients[client].awaits(packet_id)
        {
            self.model.answer_leaves(key, |topic| facts.retained(topic));
        }
        let program = &self.scenario.clients[client];
        let session = facts.session(&program.id);
        let missing = match (&leaving, asked.ends()) {
            (Leaving::Accepted { present }, _) => {
                accepted(facts, &self.model, (client, program), attempt, asked, *present)
            }
            (_, true) => None,
            // A second PUBREC for a PUBLISH that was sent twice: the first one was true, and is answered.
            (Leaving::PubRec(packet_id), _) if self.clients[client].has_released(*packet_id) => None,
            (_, false) => match session {
                None => Some("the session".to_owned()),
                Some(session) => promised(session, &leaving),
            },
        };
        let missing = missing.or_else(|| match (&leaving, session.filter(|_| !asked.ends())) {
            (Leaving::SubAck(packet_id, codes), Some(session)) => {
                self.subscribed(client, session, *packet_id, codes)
            }
            (Leaving::UnsubAck(packet_id), Some(session)) => self.unsubscribed(client, session, *packet_id),
            _ => None,
        });
        if let Some(missing) = missing {
            let text = format!(
                "{leaving} leaves for {:?}, and the records on the disk, the last of which is {}, do not have it: \
                 {missing}",
                program.id,
                self.ledger.synced()
            );
            self.model.fail(Checker::AckBeforeDisk, program.id.clone(), text);
        }
    }

    /// The records say that a client acknowledged the message with this packet id: it must have done so.
    pub(super) fn settled(&mut self, client: &str, packet_id: u16, key: Option<MessageKey>) {
        let client = self.scenario.clients.iter().position(|program| program.id == client);
        if let Some(client) = client.filter(|client| !self.clients[*client].has_settled(packet_id)) {
            let passed_by = match key {
                Some(key) => {
                    self.model.message_may_have_expired(key) || !self.model.certainly_fits(client, key)
                }
                None => self.model.an_empty_message_may_have_expired(),
            };
            if passed_by {
                return;
            }
            let text = format!(
                "by the records on the disk client {client} has acknowledged packet id {packet_id}{} to the end, which \
                 it never did",
                key.map_or(String::new(), |key| format!(" ({key})"))
            );
            self.model.fail(Checker::Loss, format!("client {client}"), text);
        }
    }

    fn subscribed(
        &self,
        client: usize,
        session: &SessionFacts,
        packet_id: u16,
        codes: &[u8],
    ) -> Option<String> {
        let asked = self.clients[client].asked(packet_id)?;
        let granted = asked.iter().zip(codes).filter(|(_, code)| **code <= 2);
        granted
            .filter(|(filter, code)| session.subscriptions.get(**filter) != Some(code))
            .map(|(filter, code)| format!("the subscription to {filter:?} with QoS {code}"))
            .next()
    }

    fn unsubscribed(&self, client: usize, session: &SessionFacts, packet_id: u16) -> Option<String> {
        let asked = self.clients[client].asked(packet_id)?;
        let there = asked.iter().find(|filter| session.subscriptions.contains_key(**filter));
        there.map(|filter| format!("the end of the subscription to {filter:?}"))
    }
}

/// What a CONNACK asserts and the ledger does not have.
fn accepted(
    facts: &Facts,
    model: &Model,
    (client, program): (usize, &ClientProgram),
    attempt: usize,
    asked: Asked,
    present: bool,
) -> Option<String> {
    let session = facts.session(&program.id);
    match session {
        Some(_) if asked.ends() && !present => {
            return Some("the end of the session that was there before".to_owned());
        }
        None if asked == Asked::Kept || present => return Some("the session".to_owned()),
        Some(session) if !present && !session.is_new() => {
            return Some("the end of the session that was there before".to_owned());
        }
        Some(session) if model.session_expires(client) && !session.attached => {
            return Some("that the session's expiry has stopped".to_owned());
        }
        Some(_) | None => {}
    }
    if let (Some(session), Some(seconds)) = (session, model.asked_to_stay_s(client, attempt))
        && session.expiry != Some(SessionExpiry::of_interval(seconds))
    {
        return Some(format!("that the session stays for {seconds} s"));
    }
    let durable = program.will.as_ref().is_some_and(|will| session.is_some() || will.qos > 0);
    match (model.will_of(client, attempt).filter(|_| durable), facts.will(&program.id)) {
        (Some(key), Some(Some(found))) if key == found => None,
        (Some(_), _) => Some("its will".to_owned()),
        (None, Some(_)) => Some("the end of the will it had before".to_owned()),
        (None, None) => None,
    }
}

/// What a packet other than CONNACK, SUBACK and UNSUBACK asserts and its session in the ledger does not have.
fn promised(session: &SessionFacts, leaving: &Leaving) -> Option<String> {
    match leaving {
        Leaving::PubRec(id) if !session.received.contains(id) => {
            Some(format!("that packet id {id} was received"))
        }
        Leaving::PubComp(id) if session.received.contains(id) => {
            Some(format!("that packet id {id} was released"))
        }
        Leaving::PubRel(id) if session.entry(*id).is_some_and(|entry| !entry.releasing) => {
            Some(format!("the PUBREC for packet id {id}"))
        }
        Leaving::Publish(Message { qos: 2, packet_id, .. }) if session.entry(*packet_id).is_none() => {
            Some(format!("the message in its queue under packet id {packet_id}"))
        }
        Leaving::Publish(Message { packet_id, .. }) if !session.allows(*packet_id) => {
            Some(format!("a delivery horizon above packet id {packet_id}"))
        }
        _ => None,
    }
}
