//! Shared subscriptions (MQTT 5 §4.8.2): each message to a group goes to one of its members at a time.
//!
//! | rule | checker |
//! |---|---|
//! | a message is with one member, until the connection that brought it is over at the broker | `Duplicate` |
//! | sent with QoS 2, it stays with that member, and ends with its session | `Duplicate` |
//! | acknowledged, and that on the disk, it comes to nobody again | `CameBack` |
//! | retained messages do not come to a group | `Retained` |
//! | what was acknowledged to its publisher comes to a member, as long as the group has a durable one | `Loss` |
//!
//! Limits of the broker that are allowed here, and no others: a group that turns durable keeps only what is in memory, so
//! it owes what was published after its first durable member had its SUBACK; what was lent with QoS 2 to a member whose
//! session is clean may go to another after the broker crashed; a lone member's unacknowledged messages go behind the
//! backlog, so that no order is checked.

use super::subscription::Subscription;
use super::{Delivery, Model};
use crate::outcome::Checker;
use crate::payload::MessageKey;
use std::collections::{BTreeMap, BTreeSet};

/// A group.
pub(super) struct Group {
    /// Its whole filter, by number.
    filter: usize,
    /// Messages that it was acknowledged to have and no member has received.
    owed: BTreeSet<MessageKey>,
    /// Who has received each message.
    holders: BTreeMap<MessageKey, Vec<Holder>>,
    /// Messages whose acknowledgement by a member is on the disk.
    settled: BTreeSet<MessageKey>,
    /// Memberships of sessions that have ended.
    former: Vec<Former>,
}

/// What a client was to the group with a session that has ended.
struct Former {
    client: usize,
    /// Until when it may have counted.
    until: u64,
    membership: Subscription,
}

/// A member that received a message, once.
#[derive(Clone, Copy)]
struct Holder {
    client: usize,
    attempt: usize,
    incarnation: u32,
    qos: u8,
    /// Whether its session outlives its connection.
    durable: bool,
    at: u64,
}

impl Group {
    pub(super) fn new(filter: usize) -> Group {
        Group {
            filter,
            owed: BTreeSet::new(),
            holders: BTreeMap::new(),
            settled: BTreeSet::new(),
            former: Vec::new(),
        }
    }
}

impl Model {
    /// The group that brings messages of this topic to the client, if it has been a member of one.
    pub(super) fn group_of(&self, client: usize, topic: usize) -> Option<usize> {
        self.groups.iter().position(|group| {
            let subscription = &self.clients[client].subscriptions[group.filter];
            self.topics.matching(group.filter, topic) && subscription.was_ever_possible()
        })
    }

    /// Bits of the QoS with which the group may have taken a message since it was sent: that of the member that was granted
    /// most, whoever gets it.
    pub(super) fn granted_to_group(&self, group: usize, sent: u64) -> u8 {
        let Group { filter, former, .. } = &self.groups[group];
        let filter = *filter;
        let (mut possible, mut least) = (0, 0);
        for former in former.iter().filter(|former| former.until >= sent) {
            possible |= former.membership.possible_since(sent);
        }
        for (client, state) in self.clients.iter().enumerate() {
            let subscription = &state.subscriptions[filter];
            possible |= subscription.possible_since(sent);
            // A session may be gone without its client knowing it.
            let kept = state.session_durable && !self.may_have_expired(client);
            let there = kept || state.presence.connected().is_some();
            least = least.max(subscription.certain_since(sent).filter(|_| there).unwrap_or(0));
        }
        (possible | 1 << least) & (7 << least)
    }

    /// The client has another session: what its group took while it was a member of it before is as it was.
    pub(super) fn member_begins_afresh(&mut self, client: usize) {
        for group in &mut self.groups {
            let membership = &self.clients[client].subscriptions[group.filter];
            if membership.was_ever_possible() {
                group.former.push(Former { client, until: self.now, membership: membership.clone() });
            }
        }
    }

    /// A member received a message of its group.
    pub(super) fn shared_delivered(&mut self, group: usize, delivery: &Delivery<'_>, key: MessageKey) {
        let client = delivery.client;
        let subject = format!("client {client} {key}");
        if delivery.retain {
            let text = format!(
                "client {client} receives {key} with RETAIN for a shared subscription ([MQTT-3.3.1-9])"
            );
            return self.fail(Checker::Retained, subject, text);
        }
        let message = self.message(key);
        let sends = message.sends.max(1);
        // What was on its way when its connection ended may have come to another member in the meantime.
        let late = self.clients[client].attempts[delivery.attempt].ended().is_some();
        if !late && self.groups[group].settled.contains(&key) && (sends == 1 || message.qos == 2) {
            let text = format!(
                "client {client} receives {key}, which a member of its group had acknowledged on the disk"
            );
            return self.fail(Checker::CameBack, subject, text);
        }
        let found = self.groups[group].holders.get(&key).cloned().unwrap_or_default();
        let kept = found.iter().find(|holder| message.qos == 2 && !late && self.keeps(holder, client));
        if let Some(holder) = kept {
            let other = holder.client;
            let text = format!("client {client} receives {key}, which was sent to client {other} with QoS 2");
            return self.fail(Checker::Duplicate, subject, text);
        }
        let live = found.iter().filter(|holder| self.holds(holder)).count() as u32;
        if live >= sends && !late {
            let others: Vec<usize> =
                found.iter().filter(|holder| self.holds(holder)).map(|holder| holder.client).collect();
            let text = format!(
                "client {client} receives {key}, which clients {others:?} of its group have; it was sent {sends} times"
            );
            return self.fail(Checker::Duplicate, subject, text);
        }
        let state = &self.clients[client];
        let holder = Holder {
            client,
            attempt: delivery.attempt,
            incarnation: state.incarnation,
            qos: delivery.qos,
            durable: state.session_durable,
            at: self.now,
        };
        let group = &mut self.groups[group];
        group.owed.remove(&key);
        group.holders.entry(key).or_default().push(holder);
    }

    /// Whether a message that was sent with QoS 2 stays with this member, whoever else is to have it now.
    fn keeps(&self, holder: &Holder, receiver: usize) -> bool {
        // What was on its way when the broker crashed may have come later.
        let ended = self.clients[holder.client].attempts[holder.attempt].ended().unwrap_or(holder.at);
        let crashed = self.crashes.iter().any(|crash| *crash >= holder.at.min(ended));
        let same = holder.client == receiver && holder.incarnation == self.clients[receiver].incarnation;
        holder.qos == 2 && (same || holder.durable || !crashed)
    }

    /// Whether the connection that brought a message to this member is there, as far as the broker is concerned.
    fn holds(&self, holder: &Holder) -> bool {
        self.clients[holder.client].attempts[holder.attempt].ended().is_none()
    }

    /// A member's acknowledgement is on the disk.
    pub(super) fn shared_settled(&mut self, client: usize, key: MessageKey) {
        if let Some(group) = self.group_of(client, self.message(key).topic) {
            self.groups[group].settled.insert(key);
        }
    }

    /// A publisher was told that the broker has its message: groups that are certain to have had a durable member since it
    /// was sent owe it to somebody.
    pub(super) fn owe_to_groups(&mut self, key: MessageKey) {
        if self.bounded || self.drops_unknown {
            return;
        }
        for group in 0..self.groups.len() {
            // With QoS 2 it may have been sent to a member whose session has ended since, and have ended with it.
            let may_be_gone = self.message(key).qos == 2 && self.session_ended >= self.message(key).sent;
            let unheld = !self.groups[group].holders.contains_key(&key);
            if unheld && !may_be_gone && self.group_needs(group, key) {
                self.groups[group].owed.insert(key);
                self.debts += 1;
            }
        }
    }

    /// Whether a group is certain to need the message on the disk.
    fn group_needs(&self, group: usize, key: MessageKey) -> bool {
        let (filter, message) = (self.groups[group].filter, self.message(key));
        message.qos > 0
            && self.topics.matching(filter, message.topic)
            && (0..self.clients.len()).all(|client| self.certainly_fits(client, key))
            && self.has_durable_member(group, message.sent)
    }

    /// Whether the group has had a durable member for certain since then.
    fn has_durable_member(&self, group: usize, since: u64) -> bool {
        let filter = self.groups[group].filter;
        (0..self.clients.len()).any(|client| {
            let state = &self.clients[client];
            let granted = state.subscriptions[filter].certain_since(since);
            state.session_durable && granted.is_some_and(|qos| qos > 0) && !self.may_have_expired(client)
        })
    }

    /// A group that needs the message on the disk, if one does.
    pub(super) fn some_group_needs(&self, key: MessageKey) -> Option<usize> {
        (0..self.groups.len()).find(|group| self.group_needs(*group, key))
    }

    /// A group that must have the message, itself or in a member's queue, and has not; its filter.
    pub(super) fn not_in_group(&self, key: MessageKey) -> Option<String> {
        let message = self.message(key);
        let missing = |group: &usize| {
            let members = (0..self.clients.len())
                .filter(|client| self.group_of(*client, message.topic) == Some(*group));
            // It may have come from the queue of a session that has ended since.
            let former = self.groups[*group].former.iter().map(|former| former.client);
            let queues = members.chain(former).fold(0, |queues, client| queues | 1 << client);
            self.group_needs(*group, key)
                && message.queued & queues == 0
                && message.queued_in_groups & 1 << *group == 0
        };
        let group = (0..self.groups.len()).find(missing)?;
        Some(self.topics.filter_name(self.groups[group].filter).to_owned())
    }

    /// The group whose backlog the records call so.
    pub(super) fn group_called(&self, name: &str) -> Option<usize> {
        // The broker puts a NUL before the filter, which no client identifier has.
        let filter = name.strip_prefix('\0')?;
        self.groups.iter().position(|group| self.topics.filter_name(group.filter) == filter)
    }

    /// Something became uncertain, or a session may have ended: what the groups do not owe any more.
    pub(super) fn review_groups(&mut self, a_session_may_have_ended: bool) {
        if a_session_may_have_ended {
            self.session_ended = self.now;
        }
        for group in 0..self.groups.len() {
            if !self.has_durable_member(group, self.now) {
                self.groups[group].owed.clear(); // it may have ended with its last member
            } else if a_session_may_have_ended {
                // What was sent to that session with QoS 2 has ended with it.
                let owed = std::mem::take(&mut self.groups[group].owed);
                self.groups[group].owed = owed.into_iter().filter(|key| self.message(*key).qos < 2).collect();
            }
        }
    }

    /// The first message that a group owes, but for what may have expired.
    pub(super) fn first_owed_by_a_group(&self) -> Option<(String, MessageKey)> {
        self.groups.iter().find_map(|group| {
            let key = group.owed.iter().copied().find(|key| !self.message_may_have_expired(*key))?;
            Some((self.topics.filter_name(group.filter).to_owned(), key))
        })
    }

    /// Names the first message that a group owes.
    pub(super) fn fail_on_group_loss(&mut self) {
        let Some((filter, key)) = self.first_owed_by_a_group() else { return };
        let message = self.message(key);
        let text = format!(
            "{key} to {:?} was acknowledged at {} µs and has reached no member of {filter:?}, which had a durable one",
            self.topics.name(message.topic),
            message.acked
        );
        self.fail(Checker::Loss, format!("group {filter} {key}"), text);
    }

    /// The disk is not to be believed from now on.
    pub(super) fn groups_owe_nothing(&mut self) {
        self.groups.iter_mut().for_each(|group| group.owed.clear());
    }
}
