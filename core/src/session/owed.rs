//! The retained messages that a new subscription is owed, in bounded pieces (MQTT 3.1.1 §3.3.1.3).

use crate::broker::fanning_out::{Hearer, Told};
use crate::broker::fetching::Reader;
use crate::broker::{Broker, Work};
use crate::durable::record::Record;
use crate::ids::{MessageId, SessionId};
use crate::marks::reached;
use crate::mqtt::packet::QoS;
use crate::mqtt::presenting::Outgoing;
use crate::mqtt::topic::TopicFilter;
use crate::queue::Delivery;
use crate::routing::retained::Progress;
use alloc::vec::Vec;

/// Retained messages that one piece queues at the most: its record has to fit into a segment.
const PIECE: usize = 512;

/// Retained messages that are read together, if they are not in memory.
const READ_AHEAD: usize = 64;

impl Broker {
    /// Goes on with what the session is owed first.
    pub(crate) fn serve_owed(&mut self, id: SessionId) {
        if self.waits_for_connack(id) {
            return; // goes on behind it: QoS 0 would be lost before
        }
        if self.reads_too_slowly_for_owed(id) {
            return; // goes on when its connection has sent something
        }
        let Some((messages, progress)) = self.next_owed(id) else { return };
        let session = self.state.session(id).expect("it is owed something");
        let owed = session.owed.front().expect("it is owed something");
        let granted = owed.qos;
        let identifier = session.subscriptions.get(&owed.filter).map_or(0, |found| found.identifier);
        let mut next = self.state.queue(session.queue).expect("a session owns a queue").next();
        let mut entries = Vec::new();
        for message in messages {
            let qos = self.qos_of_retained(message, granted);
            if qos == QoS::AtMostOnce {
                // Nobody is connected to whom it could be sent, or it is in memory.
                let Some(content) = self.state.messages.message(message).cloned() else { continue };
                let topic = content.topic();
                let outgoing = Outgoing::of(&content, &topic);
                if !outgoing.has_expired(self.now.wall) {
                    let hearer =
                        Hearer { session: id, retain: true, told: Told::One(identifier), own: false };
                    self.deliver_at_most_once(&hearer, &outgoing, || content.body_shared());
                }
            } else {
                let expires = self.state.messages.find(message).is_some_and(|known| known.expires());
                entries.push((next, message, Delivery::to_subscriber(qos, true, expires))); // [MQTT-3.3.1-8]
                next = next.plus(1);
            }
        }
        if matches!(progress, Progress::After(_)) {
            reached!("retained in pieces");
        }
        self.commit(Record::RetainedQueued { session: id, entries, progress, identifier });
        if self.state.session(id).is_some_and(|session| !session.owed.is_empty()) {
            self.work.push_back(Work::Owed(id));
        }
        self.pump(id);
    }

    fn qos_of_retained(&self, message: MessageId, granted: QoS) -> QoS {
        let known = self.state.messages.find(message).expect("a retained message is held");
        known.qos().map_or(granted, |qos| qos.min(granted))
    }

    /// The next retained messages that the session is owed, and how far that gets. None: nothing is owed, or the
    /// first of them have to be read, and then this goes on.
    fn next_owed(&mut self, id: SessionId) -> Option<(Vec<MessageId>, Progress)> {
        let session = self.state.session(id)?;
        let owed = session.owed.front()?;
        let filter = TopicFilter::new(&owed.filter).expect("it was valid when it was subscribed");
        let (granted, connected) = (owed.qos, self.attachments.contains_key(&id));
        let limits = &self.settings.limits;
        let mut absent = Vec::new();
        let (count_max, bytes_max) = (PIECE.min(limits.turn_work), limits.unsent_bytes / 2);
        let mut messages = Vec::new();
        let mut bytes = 0;
        let retained = &self.state.vhosts[session.vhost].retained;
        let (progress, seen) =
            retained.walk(filter, owed.before, owed.after.as_deref(), limits.turn_work, |_, message| {
                let known = self.state.messages.find(message).expect("a retained message is held");
                let sent = connected && self.qos_of_retained(message, granted) == QoS::AtMostOnce;
                if sent && self.state.messages.message(message).is_none() {
                    if self.fetches.is_unreadable(message) {
                        return true;
                    }
                    if messages.is_empty() {
                        absent.extend(known.place.map(|place| (message, place)));
                    }
                    return messages.is_empty() && absent.len() < READ_AHEAD;
                }
                if !absent.is_empty() {
                    return false;
                }
                bytes += known.body_bytes as usize;
                let fits = messages.is_empty() || (messages.len() < count_max && bytes <= bytes_max);
                if fits {
                    messages.push(message);
                }
                fits
            });
        self.pieces += seen as u64;
        if let Some((first, _)) = absent.first() {
            if !self.fetches.is_waiting(Reader::Owed(id), *first) {
                reached!("retained message waits for a read");
                self.fetch(Reader::Owed(id), absent);
            }
            return None;
        }
        Some((messages, progress))
    }

    /// What comes with a CONNACK: deliveries, and the retained messages that are owed.
    pub(crate) fn begin_deliveries(&mut self, id: SessionId) {
        self.pump(id);
        if self.state.session(id).is_some_and(|session| !session.owed.is_empty()) {
            self.work.push_back(Work::Owed(id));
        }
    }

    fn waits_for_connack(&self, id: SessionId) -> bool {
        let connection = self.attachments.get(&id).and_then(|a| self.connections.get(&a.connection));
        let client = connection.and_then(|connection| connection.client.as_ref());
        client.is_some_and(|client| !client.accepted)
    }

    fn reads_too_slowly_for_owed(&self, id: SessionId) -> bool {
        let connection = self.attachments.get(&id).and_then(|a| self.connections.get(&a.connection));
        connection.is_some_and(|connection| connection.send.unsent() > self.settings.limits.unsent_bytes / 2)
    }
}
