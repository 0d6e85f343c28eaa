//! What each record changes.
//!
//! Where a checkpoint is replayed, what a record names may be gone or be newer than the record already: every change
//! is such that doing it again, in the order of the log, comes to the same.

use super::{Owed, QueueOfSession, Session, State, VirtualHost};
use crate::durable::page::Page;
use crate::durable::place::Place;
use crate::durable::record::{
    ClientKey, Granted, Publication, Recipient, Record, Retain, SessionExpiry, Subscription, Will,
};
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::mqtt::packet::PacketId;
use crate::mqtt::topic::TopicFilter;
use crate::queue::{Delivery, Note, Queue, Stage};
use crate::routing::retained::{Progress, Retained};
use crate::routing::subscriptions::Subscriber;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;

impl State {
    /// Changes the state as the record says. `lsn` is its number, `Lsn::NONE` for one that is not written;
    /// `place` is where the message of it lies, once it is on disk.
    pub fn apply(&mut self, record: Record, lsn: Lsn, place: Option<Place>) {
        match record {
            Record::SessionOpened { session, queue, key, durable, at: _, horizon } => {
                self.open(session, queue, key, durable, horizon, lsn);
            }
            Record::SessionAttached { session, horizon } => {
                self.change_session(session, |session, queue| {
                    session.away_since = None;
                    session.changed = lsn;
                    queue.horizon.record(horizon, lsn);
                });
            }
            Record::SessionDetached { session, at, horizon } => {
                self.change_session(session, |session, queue| {
                    session.away_since = Some(at);
                    session.changed = lsn;
                    queue.horizon.record(horizon, lsn);
                });
            }
            Record::SessionRemoved { session, at: _ } => self.remove(session),
            Record::SessionExpirySet { session, expiry } => self.change_session(session, |session, _| {
                session.expiry = expiry;
                session.changed = lsn;
            }),
            Record::Subscribed { session, filters, before } => self.subscribe(session, filters, before, lsn),
            Record::Unsubscribed { session, filters } => self.unsubscribe(session, &filters, lsn),
            Record::RetainedQueued { session, entries, progress, identifier } => {
                self.queue_retained(session, &entries, progress, identifier, lsn);
            }
            Record::Published(publication) => self.publish(publication, lsn, place),
            Record::Moved { from, message, to } => {
                self.push((&to, &[]), message, self.messages.bytes_of_body(message), lsn);
                self.messages.retain(message);
                if let Some((queue, position)) = from {
                    self.settle(queue, position, lsn);
                }
            }
            Record::PacketIdReceived { session, packet_id } => {
                self.change_session(session, |session, _| session.take_packet_id(packet_id, lsn));
            }
            Record::PacketIdReleased { session, packet_id } => self.change_session(session, |session, _| {
                session.received.remove(&packet_id);
                session.released = lsn;
            }),
            Record::Releasing { queue, position } => self.release(queue, position, lsn),
            Record::Settled { queue, position } => self.settle(queue, position, lsn),
            Record::Returned { queue, position, returns } => {
                self.change_queue(queue, |queue| {
                    queue.note_more(position, Note { returns, ..Note::default() })
                });
            }
            Record::HorizonMoved { queue, position } => {
                self.change_queue(queue, |queue| queue.horizon.record(position, lsn));
            }
            Record::Topology(topology) => self.apply_topology(topology, lsn),
            Record::RangeSettled { queue, from, to } => self.settle_range(queue, from, to, lsn),
            Record::WillSet { key, will } => self.set_will(key, will),
            Record::WillRemoved { key } => self.remove_will(&key),
            Record::RetainedExpired { vhost, topic, message } => {
                self.expire_retained(&vhost, &topic, message, lsn)
            }
            Record::Relocated { message, content: _ } => {
                if let Some(place) = place {
                    self.messages.written(message, place);
                }
            }
            // They say again what other records said.
            Record::Image(_) | Record::Listing(_) | Record::Checkpoint(_) => {}
        }
    }

    fn open(
        &mut self,
        id: SessionId,
        queue_id: QueueId,
        key: ClientKey,
        durable: bool,
        horizon: QueuePosition,
        lsn: Lsn,
    ) {
        let (vhost, key) = self.share_name(key);
        let before = self.clients.insert(key.clone(), id);
        assert!(before.is_none() || self.restoring, "a client has one session");
        if self.sessions.contains_key(&id) {
            assert!(self.restoring, "a session is opened once");
            return;
        }
        let mut queue = Queue::new(durable);
        if durable {
            queue.horizon.record(horizon, lsn);
        }
        self.queues.insert(queue_id, Box::new(QueueOfSession { queue, durable, changed: true }));
        self.sessions.insert(id, Session::new(key, durable, queue_id, vhost, lsn));
        self.durable_sessions += usize::from(durable);
        self.next_session = self.next_session.max(SessionId(id.0 + 1));
        self.next_queue = self.next_queue.max(QueueId(queue_id.0 + 1));
    }

    fn remove(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else {
            return assert!(self.restoring, "only sessions that exist are removed");
        };
        if self.clients.get(&session.key) == Some(&id) {
            self.clients.remove(&session.key);
        }
        self.durable_sessions -= usize::from(session.durable);
        for filter in session.subscriptions.keys() {
            self.vhosts[session.vhost].drop_subscription(filter, id);
        }
        let home = self.queues.remove(&session.queue).expect("a session owns a queue");
        if !home.queue.is_empty() {
            self.doomed.push_back(home.queue);
        }
    }

    fn subscribe(&mut self, id: SessionId, filters: Vec<Granted>, before: MessageId, lsn: Lsn) {
        let Some(session) = self.session_for_subscribing(id, lsn) else { return };
        session.changed = lsn;
        let (vhost, is_group) = (session.vhost, session.key.group().is_some());
        let owing: BTreeSet<&str> = filters.iter().filter(|f| f.owes).map(|f| &*f.filter).collect();
        session.owed.retain(|owed| !owing.contains(&*owed.filter));
        for Granted { filter, subscription, owes } in filters {
            self.vhosts[vhost].take_subscription(&filter, Subscriber::new(id, &subscription, is_group));
            let session = self.sessions.get_mut(&id).expect("it was just there");
            if owes {
                let qos = subscription.qos;
                session.owed.push_back(Owed { filter: filter.clone(), qos, before, after: None });
            }
            session.keep(filter, subscription);
        }
    }

    fn unsubscribe(&mut self, id: SessionId, filters: &[Box<str>], lsn: Lsn) {
        let Some(session) = self.session_for_subscribing(id, lsn) else { return };
        session.changed = lsn;
        let (vhost, queue) = (session.vhost, session.queue);
        let left: Vec<_> = filters.iter().filter_map(|filter| session.identified_share(filter)).collect();
        filters.iter().for_each(|filter| session.forget(filter));
        let gone: BTreeSet<&str> = filters.iter().map(|filter| &**filter).collect();
        session.owed.retain(|owed| !gone.contains(&*owed.filter));
        for filter in filters {
            self.vhosts[vhost].drop_subscription(filter, id);
        }
        for (filter, identifier) in left {
            self.keep_identifier(queue, filter, identifier);
        }
    }

    /// A member leaves its group: what the group has lent to it carries the subscription's identifier all the same.
    /// [MQTT-3.3.4-3] of MQTT 5
    fn keep_identifier(&mut self, queue: QueueId, filter: &str, identifier: u32) {
        let Some(home) = self.queues.get(&queue) else { return };
        let lent = home.queue.notes_in(QueuePosition(0), home.queue.next());
        // One that is not known was replaced by another.
        let of_group = |group: SessionId| {
            self.sessions.get(&group).is_none_or(|group| group.key.group() == Some(filter))
        };
        let lent: Vec<QueuePosition> = lent
            .filter(|(_, note)| note.identifiers.is_empty() && note.group.is_some_and(of_group))
            .map(|(position, _)| position)
            .collect();
        for position in lent {
            let identifiers = [identifier].into();
            self.change_queue(queue, |queue| {
                queue.note_more(position, Note { identifiers, ..Note::default() });
            });
        }
    }

    /// The session whose subscriptions, or what they are owed, the record changes; none if its image has that.
    fn session_for_subscribing(&mut self, id: SessionId, lsn: Lsn) -> Option<&mut Session> {
        let restoring = self.restoring;
        let session = self.sessions.get_mut(&id);
        assert!(session.is_some() || restoring, "only sessions that exist are changed");
        let session = session.filter(|session| !restoring || lsn > session.subscriptions_image)?;
        session.subscriptions_changed = true;
        session.page.touch();
        Some(session)
    }

    fn queue_retained(
        &mut self,
        id: SessionId,
        entries: &[(QueuePosition, MessageId, Delivery)],
        progress: Progress,
        identifier: u32,
        lsn: Lsn,
    ) {
        let queue = self.sessions.get(&id).map(|session| session.queue);
        assert!(queue.is_some() || self.restoring, "only sessions that exist are owed");
        let Some(queue) = queue else { return };
        let identifiers = [identifier];
        let identifiers = if identifier > 0 { &identifiers[..] } else { &[] };
        for &(position, message, delivery) in entries {
            let to = Recipient { queue, position, delivery, durable: true, group: None };
            self.push((&to, identifiers), message, self.messages.bytes_of_body(message), lsn);
            self.messages.retain(message);
        }
        let Some(session) = self.session_for_subscribing(id, lsn) else { return };
        match progress {
            Progress::Done => drop(session.owed.pop_front()),
            Progress::After(topic) => {
                if let Some(owed) = session.owed.front_mut() {
                    owed.after = Some(topic);
                }
            }
        }
    }

    fn publish(&mut self, publication: Publication, lsn: Lsn, place: Option<Place>) {
        self.push_to_recipients(&publication, lsn);
        let Publication { message, vhost, content, recipients, retain, received, will_of, .. } = publication;
        self.next_message = self.next_message.max(MessageId(message.0 + 1));
        let references = recipients.len() as u32 + u32::from(retain == Retain::Set);
        if retain != Retain::Not {
            let vhost = self.vhost(&vhost);
            let topic = content.topic();
            let retained = &mut self.vhosts[vhost].retained;
            let before = match retain {
                Retain::Set => retained.set(&topic, Retained { message, changed: lsn }),
                Retain::Clear | Retain::Not => retained.clear(&topic, lsn),
            };
            if let Some(before) = before {
                self.messages.release(before.message);
            }
        }
        self.messages.insert(message, content, place, references);
        if let Some((session, packet_id)) = received {
            self.change_session(session, |session, _| session.take_packet_id(packet_id, lsn));
        }
        if let Some(client) = will_of {
            self.remove_will(&ClientKey { vhost, client });
        }
    }

    /// What it drops goes; then it gets its places.
    fn push_to_recipients(&mut self, publication: &Publication, lsn: Lsn) {
        for &(queue, position) in &publication.dropped {
            self.settle(queue, position, lsn);
            if let Some(home) = self.home(queue).filter(|home| position >= home.queue.sent_to()) {
                home.queue.mark_drop(lsn);
            }
        }
        let bytes = if self.restoring { 0 } else { publication.content.body().len() as u64 };
        for to in publication.recipients_with_identifiers() {
            self.push(to, publication.message, bytes, lsn);
        }
    }

    /// A recipient, with the identifiers of its subscriptions, gets the message.
    fn push(&mut self, (to, identifiers): (&Recipient, &[u32]), message: MessageId, bytes: u64, lsn: Lsn) {
        let Recipient { queue, position, delivery, group, .. } = *to;
        let restoring = self.restoring;
        let Some(home) = self.home(queue) else { return };
        let follows = match home.queue.is_sparse() {
            true => position >= home.queue.next(),
            false => position == home.queue.next(),
        };
        assert!(restoring || follows, "positions count every enqueue");
        home.changed = true;
        let pushed = home.queue.push(position, message, delivery, bytes, lsn);
        if pushed && (group.is_some() || !identifiers.is_empty()) {
            home.queue.note(position, Note { group, identifiers: identifiers.into(), ..Note::default() });
        }
        self.entries += u64::from(pushed);
    }

    fn release(&mut self, queue: QueueId, position: QueuePosition, lsn: Lsn) {
        let Some(message) =
            self.home(queue).and_then(|home| home.queue.find(position)).map(|entry| entry.message)
        else {
            return;
        };
        let bytes = self.messages.bytes_of_body(message);
        let released = self.home(queue).and_then(|home| home.queue.release(position, bytes, lsn));
        if let Some(message) = released {
            self.messages.release(message);
        }
    }

    pub(super) fn settle(&mut self, queue: QueueId, position: QueuePosition, lsn: Lsn) {
        let restoring = self.restoring;
        let home = self.queues.get_mut(&queue);
        assert!(home.is_some() || restoring, "only queues that exist settle");
        let messages = &mut self.messages;
        let Some(entry) =
            home.and_then(|home| home.queue.settle(position, |id| messages.bytes_of_body(id), lsn))
        else {
            return;
        };
        self.entries -= 1;
        if entry.stage == Stage::Queued {
            messages.release(entry.message);
        }
    }

    fn expire_retained(&mut self, vhost: &str, topic: &str, message: MessageId, lsn: Lsn) {
        let vhost = self.vhost(vhost);
        let retained = &mut self.vhosts[vhost].retained;
        if retained.find(topic).is_some_and(|found| found.message == message) {
            retained.clear(topic, lsn);
            self.messages.release(message);
        }
    }

    fn set_will(&mut self, key: ClientKey, will: Will) {
        if will.durable {
            let mut page = Page::default();
            page.touch();
            self.will_pages.insert(key.clone(), page);
        } else {
            self.will_pages.remove(&key);
        }
        self.wills.insert(key, will);
    }

    fn remove_will(&mut self, key: &ClientKey) {
        self.will_pages.remove(key);
        self.wills.remove(key);
    }

    fn change_queue(&mut self, id: QueueId, change: impl FnOnce(&mut Queue)) {
        if let Some(home) = self.home(id) {
            home.changed = true;
            change(&mut home.queue);
        }
    }

    fn home(&mut self, id: QueueId) -> Option<&mut QueueOfSession> {
        let home = self.queues.get_mut(&id);
        assert!(home.is_some() || self.restoring, "only queues that exist are changed");
        home.map(|home| &mut **home)
    }

    /// Changes the session and what of its queue's numbers is part of the session's image.
    fn change_session(&mut self, id: SessionId, change: impl FnOnce(&mut Session, &mut Queue)) {
        let session = self.sessions.get_mut(&id);
        assert!(session.is_some() || self.restoring, "only sessions that exist are changed");
        let Some(session) = session else { return };
        let home = self.queues.get_mut(&session.queue).expect("a session owns a queue");
        session.page.touch();
        change(session, &mut home.queue);
    }
}

impl VirtualHost {
    /// Routes what matches to the subscriber, or makes it a member of its group.
    pub(super) fn take_subscription(&mut self, filter: &str, subscriber: Subscriber) {
        let Ok(valid) = TopicFilter::new(filter) else { return };
        if valid.share().is_none() {
            return self.subscriptions.insert(valid, subscriber);
        }
        let members = self.groups.entry(filter.into()).or_default();
        if let Err(at) = members.binary_search(&subscriber.session) {
            members.insert(at, subscriber.session);
        }
    }

    fn drop_subscription(&mut self, filter: &str, session: SessionId) {
        let Ok(valid) = TopicFilter::new(filter) else { return };
        if valid.share().is_none() {
            self.subscriptions.remove(valid, session);
        } else if let Some(members) = self.groups.get_mut(filter) {
            members.retain(|member| *member != session);
            if members.is_empty() {
                self.groups.remove(filter);
            }
        }
    }
}

impl Session {
    /// Whether it goes on without its connection (MQTT 5 §3.1.2.11.2).
    pub fn outlives_its_connection(&self) -> bool {
        self.durable && self.expiry != SessionExpiry::After(0)
    }

    /// This filter with the identifier of its subscription, if that is a shared one and has an identifier.
    fn identified_share<'f>(&self, filter: &'f str) -> Option<(&'f str, u32)> {
        let identifier = self.subscriptions.get(filter)?.identifier;
        (identifier > 0 && filter.starts_with("$share/")).then_some((filter, identifier))
    }

    /// The filters of its shared subscriptions.
    pub fn shares(&self) -> Vec<Box<str>> {
        // "0" comes right behind "/".
        let of_groups = (Bound::Included("$share/"), Bound::Excluded("$share0"));
        self.subscriptions.range::<str, _>(of_groups).map(|(filter, _)| filter.clone()).collect()
    }

    pub(super) fn keep(&mut self, filter: Box<str>, subscription: Subscription) {
        self.identified += usize::from(subscription.identifier > 0);
        let before = self.subscriptions.insert(filter, subscription);
        self.identified -= usize::from(before.is_some_and(|before| before.identifier > 0));
    }

    fn forget(&mut self, filter: &str) {
        let before = self.subscriptions.remove(filter);
        self.identified -= usize::from(before.is_some_and(|before| before.identifier > 0));
    }

    fn take_packet_id(&mut self, packet_id: PacketId, lsn: Lsn) {
        self.received.insert(packet_id, lsn);
    }

    pub(super) fn new(
        key: ClientKey,
        durable: bool,
        queue: QueueId,
        vhost: usize,
        changed: Lsn,
    ) -> Box<Session> {
        let mut page = Page::default();
        page.touch();
        Box::new(Session {
            key,
            durable,
            queue,
            vhost,
            expiry: SessionExpiry::AsSet,
            subscriptions: BTreeMap::new(),
            identified: 0,
            received: BTreeMap::new(),
            away_since: None,
            owed: VecDeque::new(),
            changed,
            released: Lsn::NONE,
            page,
            subscription_pages: Vec::new(),
            subscriptions_changed: false,
            subscriptions_image: Lsn::NONE,
        })
    }
}
