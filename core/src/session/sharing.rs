//! Shared subscriptions (MQTT 5 §4.8.2): a group has a session of its own, whose queue is the group's backlog, and gives each
//! message to one of its members.
//!
//! ```text
//!              ┌─ a durable session: the entry moves into its queue, in one record
//!   group ─────┤
//!              └─ a clean session: the entry is lent; it leaves the group's queue when the member has it
//! ```
//!
//! The group is durable if a member is, or was. Members take turns; who has no room in its window is passed by. When a member
//! goes, what it has not acknowledged with QoS 1 goes back, to the end of the group's queue if it had moved; what was sent
//! with QoS 2 stays with the member's session, and ends with it. [MQTT-4.8.2-4], [MQTT-4.8.2-5]

use crate::broker::fanning_out::{Hearer, Told};
use crate::broker::{Broker, Work};
use crate::durable::gate::Waiter;
use crate::durable::record::{
    ClientKey, Granted, Publication, Recipient, Record, Retain, SessionExpiry, Subscription,
};
use crate::event::{DropReason, Event};
use crate::ids::{Lsn, QueueId, QueuePosition, SessionId};
use crate::marks::reached;
use crate::message::Message;
use crate::mqtt::packet::QoS;
use crate::mqtt::presenting::Outgoing;
use crate::mqtt::topic::TopicFilter;
use crate::queue::{Delivery, Entry, Queue, Stage};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What groups have given out and not got back. In memory alone: after a crash nothing is lent.
#[derive(Default)]
pub(crate) struct Sharing {
    groups: BTreeMap<SessionId, Group>,
    /// Entries of members' queues that are lent, with their group and their place there.
    borrowed: BTreeMap<(QueueId, QueuePosition), (SessionId, QueuePosition)>,
    /// Groups that have something, and no member has room for it.
    waiting: BTreeSet<SessionId>,
    /// Groups that were replaced by durable ones.
    replaced: BTreeMap<SessionId, SessionId>,
}

#[derive(Default)]
struct Group {
    /// The member that was served last.
    last: SessionId,
    /// Everything before it has been given out.
    cursor: QueuePosition,
    lent: BTreeSet<QueuePosition>,
    /// Nothing is given out before this is durable.
    hold: Lsn,
}

/// A member that can take a message.
pub(crate) struct Member {
    /// Its session.
    pub session: SessionId,
    /// What it was granted.
    pub subscription: Subscription,
}

impl Broker {
    /// Makes sure of the group's session before `member` joins; what its SUBACK waits for.
    pub(crate) fn join_group(&mut self, member: SessionId, granted: &Granted) -> Lsn {
        let Some(filter) = TopicFilter::new(&granted.filter).ok().and_then(TopicFilter::share) else {
            return Lsn::NONE;
        };
        let session = self.state.session(member).expect("who joins has a session");
        let (durable, vhost) = (session.durable, session.key.vhost.clone());
        let key = ClientKey::of_group(&vhost, &granted.filter);
        let found = self.state.session_of(&key);
        // What its members have been granted so far holds for one that takes its place as well. [MQTT-4.8.2-3]
        let known = found.and_then(|id| self.state.session(id)?.subscriptions.get(filter.as_str()).copied());
        let too_weak = found.filter(|id| durable && !self.state.is_durable_session(*id));
        let left = too_weak.map_or(Vec::new(), |id| self.entries_of_group(id));
        if let Some(id) = too_weak {
            reached!("group turned durable");
            self.remove_session(id);
        }
        let (group, wait) = match found.filter(|_| too_weak.is_none()) {
            Some(id) => (id, self.state.session(id).map_or(Lsn::NONE, |group| group.changed)),
            None => self.open_session(key, durable.then_some(SessionExpiry::Never)),
        };
        if let Some(id) = too_weak {
            self.sharing.replaced.insert(id, group);
        }
        let qos = granted.subscription.qos.max(known.map_or(QoS::AtMostOnce, |known| known.qos));
        if too_weak.is_none() && known.is_some_and(|known| known.qos == qos) {
            return wait;
        }
        let subscription = Subscription { retain_as_published: true, ..Subscription::of_qos(qos) };
        let filters = Vec::from([Granted { filter: filter.as_str().into(), subscription, owes: false }]);
        let before = self.state.next_message();
        let lsn = self.commit(Record::Subscribed { session: group, filters, before });
        for (content, delivery) in left {
            self.publish_to_group(group, content, delivery);
        }
        wait.max(lsn)
    }

    /// What a group that is replaced by a durable one has: the messages in memory.
    fn entries_of_group(&self, group: SessionId) -> Vec<(Message, Delivery)> {
        let queue = self.state.session(group).and_then(|session| self.state.queue(session.queue));
        let entries = queue.into_iter().flat_map(Queue::iter);
        let found = entries
            .filter_map(|entry| Some((self.state.messages.message(entry.message)?.clone(), entry.delivery)));
        found.collect()
    }

    /// A message that nothing durable has yet comes into a group's queue.
    fn publish_to_group(&mut self, group: SessionId, content: Message, delivery: Delivery) {
        let session = self.state.session(group).expect("the group has a session");
        let (queue, durable, vhost) = (session.queue, session.durable, session.key.vhost.clone());
        let position = self.state.queue(queue).expect("a session owns a queue").next();
        let recipient = Recipient { queue, position, delivery, durable, group: None };
        let publication = Publication {
            message: self.state.next_message(),
            vhost,
            content,
            recipients: Vec::from([recipient]),
            dropped: Vec::new(),
            retain: Retain::Not,
            received: None,
            will_of: None,
            identifiers: Vec::new(),
        };
        self.commit(Record::Published(publication));
    }

    /// A member has left: without members the group ends, with what it has.
    pub(crate) fn left_group(&mut self, vhost: usize, filter: &str) {
        let key = ClientKey::of_group(&self.state.vhosts[vhost].name, filter);
        let Some(group) = self.state.session_of(&key) else { return };
        if self.state.vhosts[vhost].groups.contains_key(filter) {
            return self.wake_group(group);
        }
        self.forget_group(group);
        self.remove_session(group);
    }

    fn forget_group(&mut self, group: SessionId) {
        self.sharing.groups.remove(&group);
        self.sharing.waiting.remove(&group);
        self.sharing.replaced.retain(|_, by| *by != group);
    }

    /// After a crash: every group has what it needs, and what members have not acknowledged is back.
    pub(crate) fn mend_groups(&mut self) {
        for vhost in 0..self.state.vhosts.len() {
            let name = self.state.vhosts[vhost].name.clone();
            let groups: Vec<_> = self.state.vhosts[vhost].groups.clone().into_iter().collect();
            for (filter, members) in groups {
                for member in members {
                    let session = self.state.session(member).expect("members have sessions");
                    let Some(subscription) = session.subscriptions.get(&filter).copied() else { continue };
                    self.join_group(member, &Granted { filter: filter.clone(), subscription, owes: false });
                    self.give_back(member);
                }
            }
            let sessions = self.state.clients.iter().filter(|(key, _)| key.vhost == name);
            let groups = sessions.filter_map(|(key, id)| Some((Box::from(key.group()?), *id)));
            let groups: Vec<(Box<str>, SessionId)> = groups.collect();
            for (filter, group) in groups {
                match self.state.vhosts[vhost].groups.contains_key(&filter) {
                    true => {
                        self.sharing.waiting.insert(group);
                    }
                    false => {
                        self.remove_session(group);
                    }
                }
            }
        }
    }

    /// Whether the session is a group's.
    pub(crate) fn is_group(&self, session: SessionId) -> bool {
        self.state.session(session).is_some_and(|session| session.key.group().is_some())
    }

    /// The next member that can take a message of this QoS.
    pub(crate) fn next_member(&self, group: SessionId, qos: QoS) -> Option<Member> {
        let session = self.state.session(group)?;
        let filter = session.key.group()?;
        let members = self.state.vhosts[session.vhost].groups.get(filter)?;
        let last = self.sharing.groups.get(&group).map_or(SessionId(0), |group| group.last);
        let from = members.partition_point(|member| *member <= last);
        let mut in_turn = members[from..].iter().chain(&members[..from]);
        let found = *in_turn.find(|member| self.can_take(**member, qos))?;
        let subscription = *self.state.session(found)?.subscriptions.get(filter)?;
        Some(Member { session: found, subscription })
    }

    /// The member gets a message of the group: others are next.
    pub(crate) fn end_turn(&mut self, group: SessionId, member: &Member) {
        self.sharing.groups.entry(group).or_default().last = member.session;
    }

    /// Whether a member is there and has room in its window, beside what waits in its queue.
    fn can_take(&self, member: SessionId, qos: QoS) -> bool {
        let Some(attachment) = self.attachments.get(&member) else { return false };
        let connection = &self.connections[&attachment.connection];
        let limits = &self.settings.limits;
        let accepted = connection.client.as_ref().is_some_and(|client| client.accepted);
        if !accepted || connection.send.unsent() >= limits.unsent_bytes {
            return false;
        }
        if qos == QoS::AtMostOnce {
            return true;
        }
        let queue = self.state.queue(attachment.queue).expect("an attached session has a queue");
        let waiting = queue.next().0.saturating_sub(attachment.cursor.0) as usize;
        attachment.in_flight + waiting < connection.window(limits)
    }

    /// The member that a message may go straight to: nothing waits, and its queue keeps what the group's would.
    pub(crate) fn goes_straight_to(&self, group: SessionId, qos: QoS) -> Option<Member> {
        let session = self.state.session(group)?;
        let (durable, queue) = (session.durable, self.state.queue(session.queue)?);
        let lent = self.sharing.groups.get(&group).map_or(0, |group| group.lent.len());
        if queue.len() > lent {
            return None;
        }
        let member = self.next_member(group, qos)?;
        let keeps = !durable || self.state.is_durable_session(member.session);
        (keeps && member.subscription.qos > QoS::AtMostOnce).then_some(member)
    }

    /// Gives out what the group has, as far as members have room.
    pub(crate) fn serve_group(&mut self, group: SessionId) {
        let hold = self.sharing.groups.get(&group).map_or(Lsn::NONE, |group| group.hold);
        if hold > self.log.durable() {
            self.log.want(hold);
            return self.gate.wait(hold, Waiter::Deliveries(group));
        }
        for _ in 0..self.settings.limits.turn_work {
            let Some(entry) = self.next_of_group(group) else { return };
            let qos = entry.delivery.qos;
            let Some(member) = self.next_member(group, qos) else {
                reached!("group waits");
                self.sharing.waiting.insert(group);
                return;
            };
            self.end_turn(group, &member);
            self.pieces += 1;
            if !self.give_to_member(group, &entry, &member) {
                return;
            }
        }
        self.work.push_back(Work::Pump(group));
    }

    fn next_of_group(&mut self, group: SessionId) -> Option<Entry> {
        let queue = self.state.queue(self.state.session(group)?.queue)?;
        let sharing = self.sharing.groups.entry(group).or_default();
        let mut entries = queue.iter_from(sharing.cursor);
        let found = entries.find(|entry| !sharing.lent.contains(&entry.position));
        sharing.cursor = found.map_or(queue.next(), |entry| entry.position);
        found
    }

    /// False: the message has to be read first.
    fn give_to_member(&mut self, group: SessionId, entry: &Entry, member: &Member) -> bool {
        let queue = self.state.session(group).expect("the group has a session").queue;
        let qos = entry.delivery.qos.min(member.subscription.qos);
        let retain = entry.delivery.retain && member.subscription.retain_as_published;
        if qos == QoS::AtMostOnce {
            return self.send_to_member(group, entry, member, retain);
        }
        let session = self.state.session(member.session).expect("members have sessions");
        let (to, durable) = (session.queue, session.durable);
        let moves = durable || !self.state.is_durable_session(group);
        let position = self.state.queue(to).expect("a session owns a queue").next();
        let delivery = Delivery { qos, retain, ..entry.delivery };
        let recipient = Recipient { queue: to, position, delivery, durable, group: Some(group) };
        let from = moves.then_some((queue, entry.position));
        self.commit(Record::Moved { from, message: entry.message, to: recipient });
        if !moves {
            reached!("lent to a clean member");
            self.sharing.borrowed.insert((to, position), (group, entry.position));
            self.sharing.groups.entry(group).or_default().lent.insert(entry.position);
            // What may have been sent neither expires nor is dropped.
            if let Some(queue) = self.state.queue_mut(queue) {
                queue.mark_sent_to(entry.position.plus(1));
            }
        }
        let (message, queue) = (entry.message, to);
        self.message_event(|| Event::Routed { message, queue, position });
        self.pump(member.session);
        true
    }

    fn send_to_member(&mut self, group: SessionId, entry: &Entry, member: &Member, retain: bool) -> bool {
        let queue = self.state.session(group).expect("the group has a session").queue;
        if let Some(message) = self.state.messages.message(entry.message).cloned() {
            let topic = message.topic();
            let outgoing = Outgoing::of(&message, &topic);
            if !outgoing.has_expired(self.now.wall) {
                let hearer = Hearer {
                    session: member.session,
                    retain,
                    told: Told::One(member.subscription.identifier),
                    own: false,
                };
                self.deliver_at_most_once(&hearer, &outgoing, || message.body_shared());
            }
        } else if !self.fetches.is_unreadable(entry.message) {
            self.fetch_for_queue(group, entry.position);
            return false;
        }
        self.commit(Record::Settled { queue, position: entry.position });
        true
    }

    /// A session is done with an entry of its queue.
    pub(crate) fn settle_entry(&mut self, queue: QueueId, position: QueuePosition) {
        self.commit(Record::Settled { queue, position });
        self.return_loan(queue, position);
    }

    /// A session's client has taken an entry over (PUBREC); the record that says so to the session and, if it was lent,
    /// to the group. Were only the first of them to be waited for:
    ///
    /// 1. PUBREC of a clean member. 2. PUBREL leaves, PUBCOMP comes. 3. Crash: the clean session is gone, and the group's
    ///    queue has the message still. 4. Another member gets it.
    pub(crate) fn release_entry(&mut self, queue: QueueId, position: QueuePosition) -> Lsn {
        let lsn = self.commit(Record::Releasing { queue, position });
        lsn.max(self.return_loan(queue, position))
    }

    /// What the member has, or is done with, leaves the group's queue as well, if it was lent; the record of that.
    fn return_loan(&mut self, queue: QueueId, position: QueuePosition) -> Lsn {
        let Some((group, at)) = self.sharing.borrowed.remove(&(queue, position)) else { return Lsn::NONE };
        let Some(sharing) = self.sharing.groups.get_mut(&group) else { return Lsn::NONE };
        sharing.lent.remove(&at);
        let Some(queue) = self.state.session(group).map(|session| session.queue) else { return Lsn::NONE };
        self.commit(Record::Settled { queue, position: at })
    }

    /// A member has room again: its groups go on.
    pub(crate) fn wake_groups_of(&mut self, member: SessionId) {
        if self.sharing.waiting.is_empty() {
            return;
        }
        let Some(session) = self.state.session(member) else { return };
        let keys =
            session.shares().into_iter().map(|filter| ClientKey::of_group(&session.key.vhost, &filter));
        let keys: Vec<_> = keys.collect();
        let groups: Vec<_> = keys.iter().filter_map(|key| self.state.session_of(key)).collect();
        for group in groups {
            if self.sharing.waiting.contains(&group) {
                self.wake_group(group);
            }
        }
    }

    fn wake_group(&mut self, group: SessionId) {
        self.sharing.waiting.remove(&group);
        self.work.push_back(Work::Pump(group));
    }

    /// What was just published to the group is part of a transaction.
    pub(crate) fn hold_group(&mut self, group: SessionId) {
        self.sharing.groups.entry(group).or_default().hold = self.log.last();
        self.work.push_back(Work::Pump(group));
    }

    /// A member has joined the group with this filter.
    pub(crate) fn joined_group(&mut self, vhost: usize, filter: &str) {
        let key = ClientKey::of_group(&self.state.vhosts[vhost].name, filter);
        if let Some(group) = self.state.session_of(&key) {
            self.wake_group(group);
        }
    }

    /// The identifiers of the subscriptions that brought an entry into a session's queue. [MQTT-3.3.4-3..5]
    pub(crate) fn identifiers_of_entry(
        &self,
        session: SessionId,
        queue: QueueId,
        position: QueuePosition,
    ) -> Vec<u32> {
        let Some(queue) = self.state.queue(queue) else { return Vec::new() };
        match (queue.identifiers_of(position), queue.group_of(position)) {
            ([], Some(group)) => self.identifier_in_group(session, group),
            (identifiers, _) => identifiers.to_vec(),
        }
    }

    fn identifier_in_group(&self, member: SessionId, group: SessionId) -> Vec<u32> {
        let group = self.sharing.replaced.get(&group).copied().unwrap_or(group);
        let filter = self.state.session(group).and_then(|group| group.key.group());
        let member = self.state.session(member);
        let subscription = member.zip(filter).and_then(|(member, filter)| member.subscriptions.get(filter));
        subscription.map_or(Vec::new(), |subscription| subscription.identifiers().to_vec())
    }

    /// A member goes: what it has not acknowledged goes back to its groups, but for what was sent with QoS 2.
    pub(crate) fn give_back(&mut self, member: SessionId) {
        let Some(session) = self.state.session(member) else { return };
        let queue_id = session.queue;
        let Some(queue) = self.state.queue(queue_id) else { return };
        let sent_to = queue.sent_to();
        let shared: Vec<_> = queue.notes_in(QueuePosition(0), queue.next()).collect();
        for (position, note) in shared {
            let Some(group) = note.group else { continue };
            let queue = self.state.queue(queue_id).expect("it was just there");
            let Some(entry) = queue.find(position).filter(|entry| entry.stage == Stage::Queued) else {
                continue;
            };
            let stays = entry.delivery.qos == QoS::ExactlyOnce && position < sent_to;
            if !stays {
                reached!("back to its group");
                self.give_entry_back(queue_id, &entry, group);
            }
        }
    }

    fn give_entry_back(&mut self, queue: QueueId, entry: &Entry, group: SessionId) {
        let position = entry.position;
        if let Some((group, at)) = self.sharing.borrowed.remove(&(queue, position)) {
            self.commit(Record::Settled { queue, position });
            let sharing = self.sharing.groups.entry(group).or_default();
            sharing.lent.remove(&at);
            sharing.cursor = sharing.cursor.min(at);
            return self.wake_group(group);
        }
        let group = self.sharing.replaced.get(&group).copied().unwrap_or(group);
        let Some(session) = self.state.session(group).filter(|session| session.key.group().is_some()) else {
            return;
        };
        let (to, durable) = (session.queue, session.durable);
        let granted = session.subscriptions.values().next().map_or(entry.delivery.qos, |s| s.qos);
        let published = self.state.messages.find(entry.message).and_then(|known| known.qos());
        let qos = published.map_or(entry.delivery.qos, |qos| qos.min(granted)).max(QoS::AtLeastOnce);
        let delivery = Delivery { qos, ..entry.delivery };
        if durable && !self.state.is_durable_entry(queue, position) {
            // Its group was not durable when it came.
            if let Some(content) = self.state.messages.message(entry.message).cloned() {
                self.publish_to_group(group, content, delivery);
            }
            self.commit(Record::Settled { queue, position });
            return self.wake_group(group);
        }
        let next = self.state.queue(to).expect("a session owns a queue").next();
        let to = Recipient { queue: to, position: next, delivery, durable, group: None };
        let message = entry.message;
        self.commit(Record::Moved { from: Some((queue, position)), message, to });
        self.message_event(|| Event::Requeued { message, queue: to.queue, position: next });
        self.wake_group(group);
    }

    /// What a member that ends has borrowed and keeps goes with it. [MQTT-4.8.2-5]
    pub(crate) fn forget_loans(&mut self, member: SessionId) {
        let Some(queue) = self.state.session(member).map(|session| session.queue) else { return };
        let (from, to) = ((queue, QueuePosition(0)), (queue, QueuePosition(u64::MAX)));
        let kept: Vec<_> = self.sharing.borrowed.range(from..=to).map(|(place, _)| *place).collect();
        for (queue, position) in kept {
            let message = self.state.queue(queue).and_then(|queue| queue.find(position)).map(|e| e.message);
            self.counters.dropped_session_end += 1;
            let reason = DropReason::SessionEnded;
            self.message_event(|| Event::Dropped { message, queue, reason });
            self.return_loan(queue, position);
        }
    }
}
