//! Messages: who is owed them, and that they arrive as they should.

use super::Ledger;
use crate::outcome::Checker;
use crate::payload::MessageKey;
use crate::shell::scenario::ShellClient;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A message that was sent to the broker.
pub(super) struct Message {
    topic: String,
    qos: u8,
    size: u64,
    sent_ms: u64,
    /// The connection that carried it first.
    pub(super) line: SocketAddr,
    /// Subscribers that had their SUBACK before it was sent, with the session that they had.
    recipients: Vec<(usize, u64)>,
    /// One of them has a durable session.
    durable: bool,
    /// It was sent more than once: who was away the first time may get it after later ones.
    resent: bool,
    /// All of it is on the disk.
    pub(super) stored: bool,
    /// Its PUBACK or PUBREC has left the broker.
    pub(super) answered: bool,
}

/// A client as a subscriber.
pub(super) struct Recipient {
    clean: bool,
    subscriptions: Vec<(String, u8)>,
    /// Its SUBACKs have come.
    granted: bool,
    /// Counts its sessions.
    session: u64,
    arrived: BTreeMap<MessageKey, u32>,
    /// The number of the last message that came for the first time, by topic and both QoS.
    last: BTreeMap<(String, u8, u8), u32>,
}

/// A message as it came.
pub(in crate::shell) struct Arrival<'a> {
    pub(in crate::shell) key: MessageKey,
    pub(in crate::shell) topic: &'a str,
    pub(in crate::shell) qos: u8,
}

impl Recipient {
    pub(super) fn new(client: &ShellClient) -> Recipient {
        Recipient {
            clean: client.clean,
            subscriptions: client.subscriptions.clone(),
            granted: false,
            session: 0,
            arrived: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// The highest QoS that it asked for on a topic.
    fn asked(&self, topic: &str) -> Option<u8> {
        self.subscriptions.iter().filter(|(filter, _)| matches(filter, topic)).map(|(_, qos)| *qos).max()
    }
}

impl Ledger {
    /// A subscriber has its SUBACKs.
    pub(in crate::shell) fn granted(&mut self, client: usize) {
        self.recipients[client].granted = true;
    }

    pub(in crate::shell) fn is_granted(&self, client: usize) -> bool {
        self.recipients[client].granted
    }

    /// A clean session ends with its connection.
    pub(in crate::shell) fn clean_session_over(&mut self, client: usize) {
        let recipient = &mut self.recipients[client];
        recipient.granted = false;
        recipient.session += 1;
        recipient.last.clear();
        self.owed.retain(|(owed_to, _)| *owed_to != client);
    }

    /// A message is sent for the first time, on this connection.
    pub(in crate::shell) fn sent(
        &mut self,
        key: MessageKey,
        topic: &str,
        qos: u8,
        size: u64,
        line: SocketAddr,
    ) {
        let mut recipients = Vec::new();
        let mut durable = false;
        for (client, recipient) in self.recipients.iter().enumerate().filter(|(_, it)| it.granted) {
            if recipient.asked(topic).is_some_and(|asked| asked.min(qos) > 0) {
                recipients.push((client, recipient.session));
                durable |= !recipient.clean;
            }
        }
        let (sent_ms, topic) = (self.now_ms, topic.to_owned());
        let message = Message {
            topic,
            qos,
            size,
            sent_ms,
            line,
            recipients,
            durable,
            resent: false,
            stored: false,
            answered: false,
        };
        self.messages.insert(key, message);
    }

    /// A message is sent again.
    pub(in crate::shell) fn sent_again(&mut self, key: MessageKey) {
        if let Some(message) = self.messages.get_mut(&key) {
            message.resent = true;
        }
    }

    /// PUBACK or PUBREC is about to leave for the publisher.
    pub(super) fn answer_leaves(&mut self, key: MessageKey) {
        let Some(message) = self.messages.get_mut(&key) else { return };
        message.answered = true;
        if message.durable && !message.stored {
            let text = "its answer leaves, and it is not on the disk";
            self.fail(Checker::AckBeforeDisk, &key.to_string(), text);
        }
    }

    /// The publisher has its PUBACK or PUBREC.
    pub(in crate::shell) fn acknowledged(&mut self, key: MessageKey) {
        let Some(message) = self.messages.get(&key) else { return };
        for (client, session) in &message.recipients {
            let recipient = &self.recipients[*client];
            if recipient.session == *session && !recipient.arrived.contains_key(&key) {
                self.owed.insert((*client, key));
            }
        }
    }

    /// A subscriber has got a message: the first time that this packet id brings it.
    pub(in crate::shell) fn arrived(&mut self, client: usize, line: SocketAddr, arrival: &Arrival<'_>) {
        self.counts.deliveries += 1;
        let Arrival { key, topic, qos } = *arrival;
        self.owed.remove(&(client, key));
        let recipient = &mut self.recipients[client];
        let times = recipient.arrived.entry(key).or_default();
        *times += 1;
        let times = *times;
        let asked = recipient.asked(topic);
        let subject = format!("{key} at c{client}");
        let Some(message) = self.messages.get(&key).filter(|message| message.topic == topic) else {
            return self.fail(Checker::Invented, &subject, format!("nobody published it to {topic:?}"));
        };
        if asked.map(|asked| asked.min(message.qos)) != Some(qos) {
            let text = format!("it came at QoS {qos}, and {asked:?} was asked for {topic:?}");
            return self.fail(Checker::Invented, &subject, text);
        }
        // Its first copy may have found no subscription, or nobody there.
        let was_there = !recipient.clean && message.recipients.iter().any(|(of, _)| *of == client);
        let may_be_late = message.resent && (qos == 0 || !was_there);
        if times == 1 && !may_be_late {
            let place = (topic.to_owned(), message.qos, qos);
            if let Some(last) = recipient.last.insert(place, key.sequence)
                && last > key.sequence
            {
                let text = format!("it came after number {last} of its topic");
                return self.fail(Checker::Order, &subject, text);
            }
        } else if times > 1 && qos == 2 {
            return self.fail(Checker::Duplicate, &subject, format!("it came {times} times at QoS 2"));
        }
        let (sent_ms, size) = (message.sent_ms, message.size);
        if qos == 0 {
            self.backlog_arrived(client, line, sent_ms, size);
        }
    }
}

/// Whether a filter of these scenarios matches a topic: they end in `#` or have no wildcard.
fn matches(filter: &str, topic: &str) -> bool {
    match filter.strip_suffix('#') {
        Some(start) => topic.starts_with(start),
        None => filter == topic,
    }
}
