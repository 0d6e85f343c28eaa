//! For salvage: the state built from what is left of a store.

use super::image::{Cursor, Spot};
use super::topology::lanes;
use super::{DeclaredQueue, Session, State};
use crate::durable::owner::Owner;
use crate::durable::page::Page;
use crate::durable::place::Place;
use crate::durable::record::Record;
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::queue::{Entry, Stage};
use crate::routing::retained::Retained;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// Entities looked at at once.
const SPOTS: usize = 1024;

/// Who refers to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Referrer {
    /// An entry of a queue.
    Entry(Owner, QueueId, QueuePosition),
    /// A topic of a virtual host.
    Topic(usize, String),
}

impl State {
    /// From here on everything is taken as it comes, as while a checkpoint is replayed, without one.
    pub(crate) fn begin_salvage(&mut self) {
        self.restoring = true;
        self.messages.begin_restoring();
    }

    /// Whether the queue is there.
    pub(crate) fn has_queue(&self, id: QueueId) -> bool {
        self.queues.contains_key(&id)
    }

    /// Leaves positions out, so that an entry can be put at this one; the first that was left out.
    pub(crate) fn leave_out(&mut self, queue: QueueId, position: QueuePosition) -> Option<QueuePosition> {
        self.queues.get_mut(&queue)?.queue.leave_out(position)
    }

    /// Whose queue it is.
    pub(crate) fn owner(&self, queue: QueueId) -> Option<Owner> {
        let owns = |id: &&SessionId| self.sessions.get(*id).is_some_and(|session| session.queue == queue);
        if let Some(session) = self.clients.values().find(owns) {
            return self.sessions.get(session).map(|session| Owner::Session(session.key.clone()));
        }
        let its =
            |(id, declared): &(QueueId, &DeclaredQueue)| lanes(*id, &declared.spec).any(|lane| lane == queue);
        let all = self.vhosts.iter().flat_map(|vhost| vhost.queues.values());
        let (_, declared) = all.filter_map(|id| Some((*id, self.declared(*id)?))).find(its)?;
        Some(self.owner_of_declared(declared))
    }

    /// The same, of one that was declared.
    pub(crate) fn owner_of_declared(&self, declared: &DeclaredQueue) -> Owner {
        let vhost = self.vhosts[declared.vhost].name.clone();
        Owner::Declared { vhost, name: (&*declared.name).into() }
    }

    /// Sessions whose client has another one by now: the records that ended them are missing.
    pub(crate) fn remove_replaced(&mut self, sessions: &BTreeSet<SessionId>) {
        let held = |id: &SessionId, session: &Session| self.clients.get(&session.key) == Some(id);
        let replaced = |id: &&SessionId| self.sessions.get(*id).is_some_and(|session| !held(id, session));
        let replaced: Vec<SessionId> = sessions.iter().filter(replaced).copied().collect();
        for session in replaced {
            self.apply(Record::SessionRemoved { session, at: Default::default() }, Lsn::NONE, None);
        }
        self.bury(usize::MAX);
    }

    /// Everybody who refers to a message that `is_missing`.
    pub(crate) fn referrers(&self, is_missing: impl Fn(MessageId) -> bool) -> Vec<(MessageId, Referrer)> {
        let mut found = Vec::new();
        for lane in self.all_lanes() {
            let Some(home) = self.queues.get(&lane) else { continue };
            let queued = home.queue.iter().filter(|entry| entry.stage == Stage::Queued);
            let mut missing = queued.filter(|entry| is_missing(entry.message)).peekable();
            let Some(owner) = missing.peek().and_then(|_| self.owner(lane)) else { continue };
            found.extend(
                missing.map(|entry| (entry.message, Referrer::Entry(owner.clone(), lane, entry.position))),
            );
        }
        for (number, vhost) in self.vhosts.iter().enumerate() {
            for (topic, retained) in vhost.retained.iter().filter(|(_, r)| is_missing(r.message)) {
                found.push((retained.message, Referrer::Topic(number, topic.into())));
            }
        }
        found
    }

    /// Forgets a reference to a message.
    pub(crate) fn forget(&mut self, message: MessageId, referrer: &Referrer) {
        match referrer {
            Referrer::Entry(_, queue, position) => {
                let (queue, position) = (*queue, *position);
                self.apply(Record::Settled { queue, position }, Lsn::NONE, None);
            }
            Referrer::Topic(vhost, topic) => {
                if self.vhosts[*vhost].retained.clear(topic, Lsn::NONE).is_some() {
                    self.messages.release(message);
                }
            }
        }
    }

    /// Every message that a queue or a topic refers to.
    pub(crate) fn referred(&self) -> BTreeSet<MessageId> {
        let queues = self.all_lanes().filter_map(|lane| self.queues.get(&lane));
        let entries = queues.flat_map(|home| home.queue.iter()).filter(|entry| entry.stage == Stage::Queued);
        let retained = self.vhosts.iter().flat_map(|vhost| vhost.retained.iter());
        entries.map(|entry| entry.message).chain(retained.map(|(_, retained)| retained.message)).collect()
    }

    /// Puts entries of a stretch of a queue back, in their order; how many.
    pub(crate) fn put_back(&mut self, queue: QueueId, entries: &[Entry]) -> u64 {
        let Some(home) = self.queues.get_mut(&queue) else { return 0 };
        let added = home.queue.put_back(entries);
        self.entries += added;
        added
    }

    /// A topic retains the message, if nothing says that it retains another one.
    pub(crate) fn retain_again(&mut self, vhost: &str, topic: &str, message: MessageId) -> bool {
        let vhost = self.vhost(vhost);
        let retained = &mut self.vhosts[vhost].retained;
        if retained.find(topic).is_some() {
            return false;
        }
        retained.set(topic, Retained { message, changed: Lsn::NONE });
        true
    }

    /// The message lies there, as a record says that was found elsewhere.
    pub(crate) fn found(&mut self, message: MessageId, content: crate::message::Message, place: Place) {
        self.messages.insert(message, content, Some(place), 0);
    }

    /// Nothing of it has an image: the next checkpoint makes them all.
    pub(crate) fn forget_images(&mut self) {
        let mut cursor = Cursor::START;
        while cursor != Cursor::End {
            let (spots, next) = self.next_spots(cursor, SPOTS);
            spots.iter().for_each(|spot| self.forget_image(spot));
            cursor = next;
        }
    }

    fn forget_image(&mut self, spot: &Spot) {
        if let Spot::Subscriptions(id) = spot {
            if let Some(session) = self.sessions.get_mut(id) {
                session.subscription_pages = Vec::new();
                session.subscriptions_changed = true;
            }
        } else if let Some(page) = self.page_mut(spot) {
            *page = Page::default();
            page.touch();
        }
    }
}
