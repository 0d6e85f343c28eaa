//! The state as images, entity by entity, and back: what a checkpoint writes, and where it finds it.
//!
//! A checkpoint walks through all entities twice (`next_spots`): it makes the images of those that have changed, and,
//! when these are on disk, lists where all of them lie. Entities that come into being in between have no image: the
//! records that made them stand behind the checkpoint's beginning.

use super::{Owed, QueueOfSession, Session, State};
use crate::durable::page::Page;
use crate::durable::place::Place;
use crate::durable::record::{Checkpoint, ClientKey, Image, Subscription};
use crate::ids::{Lsn, QueueId, SessionId};
use crate::message::table;
use crate::mqtt::topic::TopicFilter;
use crate::queue::{Chunk, Queue, Stage};
use crate::routing::retained::Retained;
use crate::routing::subscriptions::Subscriber;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

/// Bytes of filters in one image, about.
const PART_BYTES: usize = 8 * 1024;

/// An entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A session.
    Session(SessionId),
    /// A session's subscriptions.
    Subscriptions(SessionId),
    /// An exchange of a virtual host.
    Exchange(usize, Arc<str>),
    /// A declared queue, without its entries.
    DeclaredQueue(QueueId),
    /// A stretch of a queue.
    Queue(QueueId, u64),
    /// A stretch of the message table.
    Messages(u64),
    /// A page of the retained topics of a virtual host.
    Retained(usize, usize),
    /// A will.
    Will(ClientKey),
}

/// How far a walk through all entities is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Sessions themselves, behind this client's: they come before all that belongs to them.
    Sessions(Option<ClientKey>),
    /// Exchanges of a virtual host, behind this one.
    Exchanges(usize, Option<Arc<str>>),
    /// Declared queues of a virtual host, behind this one.
    Declared(usize, Option<Arc<str>>),
    /// The lanes of declared queues of a virtual host: queue, lane, from this chunk on.
    Lanes(usize, Arc<str>, u64, u64),
    /// The lanes of the declared queues behind this one.
    LanesBehind(usize, Option<Arc<str>>),
    /// What sessions have, behind this client's.
    Contents(Option<ClientKey>),
    /// The queue of this client's session, from this chunk on.
    Queue(ClientKey, QueueId, u64),
    /// Messages, from this chunk on.
    Messages(u64),
    /// Retained topics: virtual host and page.
    Retained(usize, usize),
    /// Wills, behind this client's.
    Wills(Option<ClientKey>),
    /// All seen.
    End,
}

impl Cursor {
    /// At the beginning.
    pub const START: Cursor = Cursor::Sessions(None);
}

impl State {
    /// The next entities, up to `most`, and where to go on.
    pub fn next_spots(&self, cursor: Cursor, most: usize) -> (Vec<Spot>, Cursor) {
        let mut spots = Vec::new();
        let mut cursor = cursor;
        for _ in 0..most {
            if spots.len() >= most || cursor == Cursor::End {
                break;
            }
            cursor = self.step(cursor, most, &mut spots);
        }
        (spots, cursor)
    }

    fn step(&self, cursor: Cursor, most: usize, spots: &mut Vec<Spot>) -> Cursor {
        let room = most.saturating_sub(spots.len());
        match cursor {
            Cursor::Sessions(after) => match first_behind(&self.clients, after) {
                Some((key, &id)) => {
                    spots.extend(self.is_durable_session(id).then_some(Spot::Session(id)));
                    Cursor::Sessions(Some(key.clone()))
                }
                None => Cursor::Exchanges(0, None),
            },
            Cursor::Exchanges(..) | Cursor::Declared(..) | Cursor::LanesBehind(..) | Cursor::Lanes(..) => {
                self.step_declared(cursor, room, spots)
            }
            Cursor::Contents(after) => match first_behind(&self.clients, after) {
                Some((key, id)) if self.is_durable_session(*id) => {
                    spots.push(Spot::Subscriptions(*id));
                    Cursor::Queue(key.clone(), self.sessions[id].queue, 0)
                }
                Some((key, _)) => Cursor::Contents(Some(key.clone())),
                None => Cursor::LanesBehind(0, None),
            },
            Cursor::Queue(key, id, from) => {
                let chunks = self.queue(id).into_iter().flat_map(|queue| queue.chunks_from(from));
                let numbers: Vec<u64> = chunks.map(Chunk::number).take(room).collect();
                spots.extend(numbers.iter().map(|number| Spot::Queue(id, *number)));
                match numbers.last() {
                    Some(last) if numbers.len() == room => Cursor::Queue(key, id, last + 1),
                    _ => Cursor::Contents(Some(key)),
                }
            }
            Cursor::Messages(from) => {
                let numbers: Vec<u64> = self.messages.table.numbers_from(from).take(room).collect();
                spots.extend(numbers.iter().map(|number| Spot::Messages(*number)));
                match numbers.last() {
                    Some(last) if numbers.len() == room => Cursor::Messages(last + 1),
                    _ => Cursor::Retained(0, 0),
                }
            }
            Cursor::Retained(vhost, from) => match self.vhosts.get(vhost) {
                Some(host) => {
                    let end = host.retained.page_count().min(from + room);
                    spots.extend((from..end).map(|page| Spot::Retained(vhost, page)));
                    let all = end == host.retained.page_count();
                    if all { Cursor::Retained(vhost + 1, 0) } else { Cursor::Retained(vhost, end) }
                }
                None => Cursor::Wills(None),
            },
            Cursor::Wills(after) => match first_behind(&self.will_pages, after) {
                Some((key, _)) => {
                    spots.push(Spot::Will(key.clone()));
                    Cursor::Wills(Some(key.clone()))
                }
                None => Cursor::End,
            },
            Cursor::End => Cursor::End,
        }
    }

    fn step_declared(&self, cursor: Cursor, room: usize, spots: &mut Vec<Spot>) -> Cursor {
        let host = |vhost: usize| self.vhosts.get(vhost);
        match cursor {
            Cursor::Exchanges(vhost, after) => match host(vhost).map(|h| first_behind(&h.exchanges, after)) {
                Some(Some((name, exchange))) => {
                    let spot = Spot::Exchange(vhost, Arc::clone(name));
                    spots.extend(exchange.spec.durable.then_some(spot));
                    Cursor::Exchanges(vhost, Some(Arc::clone(name)))
                }
                Some(None) => Cursor::Exchanges(vhost + 1, None),
                None => Cursor::Declared(0, None),
            },
            Cursor::Declared(vhost, after) => match host(vhost).map(|h| first_behind(&h.queues, after)) {
                Some(Some((name, id))) => {
                    spots.extend(self.is_durable_queue(*id).then_some(Spot::DeclaredQueue(*id)));
                    Cursor::Declared(vhost, Some(Arc::clone(name)))
                }
                Some(None) => Cursor::Declared(vhost + 1, None),
                None => Cursor::Contents(None),
            },
            Cursor::LanesBehind(vhost, after) => match host(vhost).map(|h| first_behind(&h.queues, after)) {
                Some(Some((name, id))) if self.is_durable_queue(*id) => {
                    Cursor::Lanes(vhost, Arc::clone(name), 0, 0)
                }
                Some(Some((name, _))) => Cursor::LanesBehind(vhost, Some(Arc::clone(name))),
                Some(None) => Cursor::LanesBehind(vhost + 1, None),
                None => Cursor::Messages(0),
            },
            Cursor::Lanes(vhost, name, lane, from) => {
                let declared = host(vhost).and_then(|host| host.queues.get(&name));
                let declared = declared.and_then(|id| Some((*id, self.declared(*id)?)));
                let Some((id, declared)) = declared.filter(|(_, d)| lane < u64::from(d.spec.lanes)) else {
                    return Cursor::LanesBehind(vhost, Some(name));
                };
                debug_assert!(declared.spec.durable, "only durable queues are walked through");
                let lane_id = QueueId(id.0 + lane);
                let chunks = self.queue(lane_id).into_iter().flat_map(|queue| queue.chunks_from(from));
                let numbers: Vec<u64> = chunks.map(Chunk::number).take(room).collect();
                spots.extend(numbers.iter().map(|number| Spot::Queue(lane_id, *number)));
                match numbers.last() {
                    Some(last) if numbers.len() == room => Cursor::Lanes(vhost, name, lane, last + 1),
                    _ => Cursor::Lanes(vhost, name, lane + 1, 0),
                }
            }
            other => other,
        }
    }

    /// The images of the entity, if it has changed since its last one or `moves` says that that one has to move.
    /// `last` is the last record.
    pub fn images(&mut self, spot: &Spot, moves: &dyn Fn(Place) -> bool, last: Lsn) -> Vec<Image> {
        let due = |page: &Page| page.is_changed() || page.place().is_some_and(moves);
        let image = match spot {
            Spot::Session(id) => self.session_image(*id, &due),
            Spot::Exchange(vhost, name) => self.exchange_image(*vhost, name, &due).map(Image::Exchange),
            Spot::DeclaredQueue(id) => self.declared_image(*id, &due).map(Image::DeclaredQueue),
            Spot::Subscriptions(id) => return self.subscription_images(*id, moves, last),
            Spot::Queue(id, number) => {
                let queue = self.queues.get_mut(id).map(|home| &mut home.queue);
                queue.and_then(|queue| {
                    let chunk = queue.chunk_mut(*number).filter(|chunk| due(&chunk.page))?;
                    chunk.page.imaged();
                    let (first, end) = (chunk.first(), chunk.end());
                    let entries = chunk.iter().filter(|entry| !entry.delivery.transient).collect();
                    let notes = queue.notes_in(first, end).collect();
                    Some(Image::Queue { queue: *id, first, end, entries, notes })
                })
            }
            Spot::Messages(number) => self.messages_image(*number, &due),
            Spot::Retained(vhost, number) => {
                let vhost = &mut self.vhosts[*vhost];
                let page = vhost.retained.page_mut(*number).filter(|page| due(page));
                page.map(Page::imaged).and_then(|()| {
                    let topics = vhost.retained.of_page(*number);
                    let topics: Vec<_> =
                        topics.map(|(topic, r)| (Arc::clone(topic), r.message, r.changed)).collect();
                    if topics.is_empty() {
                        *vhost.retained.page_mut(*number)? = Page::default();
                        return None;
                    }
                    Some(Image::Retained { vhost: vhost.name.clone(), page: *number as u64, topics })
                })
            }
            Spot::Will(key) => {
                let page = self.will_pages.get_mut(key).filter(|page| due(page));
                page.map(Page::imaged).and_then(|()| {
                    let will = self.wills.get(key)?.clone();
                    Some(Image::Will { key: key.clone(), will })
                })
            }
        };
        image.into_iter().collect()
    }

    fn messages_image(&mut self, number: u64, due: &dyn Fn(&Page) -> bool) -> Option<Image> {
        let table = &mut self.messages.table;
        let chunk = table.chunk_mut(number).filter(|chunk| due(&chunk.page))?;
        let on_disk = chunk.iter(number).filter(|(_, known)| known.place.is_some());
        let uncounted = |(id, known)| (id, table::Known { references: 0, ..known });
        let messages: Vec<_> = on_disk.map(uncounted).collect();
        if messages.is_empty() {
            chunk.page = Page::default();
            chunk.page.touch();
            return None;
        }
        chunk.page.imaged();
        Some(Image::Messages { chunk: number, messages, expiries: table.expiries_of(number).collect() })
    }

    fn session_image(&mut self, id: SessionId, due: &dyn Fn(&Page) -> bool) -> Option<Image> {
        let session = self.sessions.get_mut(&id)?;
        let home = self.queues.get_mut(&session.queue)?;
        if !due(&session.page) && !home.changed {
            return None;
        }
        session.page.imaged();
        home.changed = false;
        Some(Image::Session {
            session: id,
            queue: session.queue,
            key: session.key.clone(),
            expiry: session.expiry,
            away_since: session.away_since,
            horizon: home.queue.horizon.recorded(),
            next: home.queue.next(),
            changed: session.changed,
            received: session.received.keys().copied().collect(),
        })
    }

    fn subscription_images(
        &mut self,
        id: SessionId,
        moves: &dyn Fn(Place) -> bool,
        as_of: Lsn,
    ) -> Vec<Image> {
        let Some(session) = self.sessions.get_mut(&id) else { return Vec::new() };
        let moved = session.subscription_pages.iter().flatten().any(|place| moves(*place));
        if !session.subscriptions_changed && !moved {
            return Vec::new();
        }
        session.subscriptions_changed = false;
        let mut images = Vec::new();
        let mut piece = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let part = |piece: &mut (Vec<_>, Vec<_>), part: usize| {
            let (filters, owed) = core::mem::take(piece);
            Image::Subscriptions { session: id, part: part as u32, as_of, filters, owed }
        };
        for (filter, subscription) in &session.subscriptions {
            bytes += filter.len() + 12;
            piece.0.push((filter.clone(), *subscription));
            if bytes >= PART_BYTES {
                images.push(part(&mut piece, images.len()));
                bytes = 0;
            }
        }
        for owed in &session.owed {
            bytes += owed.filter.len() + owed.after.as_ref().map_or(0, |after| after.len()) + 16;
            piece.1.push(owed.clone());
            if bytes >= PART_BYTES {
                images.push(part(&mut piece, images.len()));
                bytes = 0;
            }
        }
        if bytes > 0 {
            images.push(part(&mut piece, images.len()));
        }
        session.subscription_pages = alloc::vec![None; images.len()];
        images
    }

    /// Where the entity's images lie.
    pub fn image_places(&self, spot: &Spot, places: &mut Vec<Place>) {
        let page = match spot {
            Spot::Session(id) => self.sessions.get(id).map(|session| session.page),
            Spot::Exchange(vhost, name) => self.exchange(*vhost, name).map(|exchange| exchange.page),
            Spot::DeclaredQueue(id) => self.declared(*id).map(|declared| declared.page),
            Spot::Subscriptions(id) => {
                let pages = self.sessions.get(id).map(|session| &session.subscription_pages);
                return places.extend(pages.into_iter().flatten().flatten());
            }
            Spot::Queue(id, number) => self.queue(*id).and_then(|queue| queue.chunk(*number)).map(|c| c.page),
            Spot::Messages(number) => self.messages.table.chunk(*number).map(|chunk| chunk.page),
            Spot::Retained(vhost, page) => Some(*self.vhosts[*vhost].retained.page(*page)),
            Spot::Will(key) => self.will_pages.get(key).copied(),
        };
        places.extend(page.and_then(|page| page.place()));
    }

    /// The image is on disk, there. The entity may be gone by now, or another of its name may have come: then it
    /// has changed since.
    pub fn image_written(&mut self, image: &ImageKey, place: Place) {
        if let Spot::Subscriptions(id) = &image.spot {
            let pages = self.sessions.get_mut(id).map(|session| &mut session.subscription_pages);
            if let Some(page) = pages.and_then(|pages| pages.get_mut(image.part)) {
                *page = Some(place);
            }
        } else if let Some(page) = self.page_mut(&image.spot) {
            page.written(place);
        }
    }

    /// What is known of the entity's image. Subscriptions have several, and keep them themselves.
    pub(super) fn page_mut(&mut self, spot: &Spot) -> Option<&mut Page> {
        match spot {
            Spot::Session(id) => self.sessions.get_mut(id).map(|session| &mut session.page),
            Spot::Exchange(vhost, name) => {
                let exchange = self.vhosts[*vhost].exchanges.get_mut(name);
                exchange.map(|exchange| &mut exchange.page)
            }
            Spot::DeclaredQueue(id) => self.declared.get_mut(id).map(|declared| &mut declared.page),
            Spot::Subscriptions(_) => None,
            Spot::Queue(id, number) => {
                self.queue_mut(*id).and_then(|queue| queue.chunk_mut(*number)).map(|chunk| &mut chunk.page)
            }
            Spot::Messages(number) => self.messages.table.chunk_mut(*number).map(|chunk| &mut chunk.page),
            Spot::Retained(vhost, page) => self.vhosts[*vhost].retained.page_mut(*page),
            Spot::Will(key) => self.will_pages.get_mut(key),
        }
    }

    /// From here on a checkpoint is restored: first its images, then the records from its beginning to its end.
    pub fn begin_restoring(&mut self, checkpoint: &Checkpoint) {
        self.restoring = true;
        self.messages.begin_restoring();
        self.next_session = checkpoint.next_session;
        self.next_queue = checkpoint.next_queue;
        self.next_message = checkpoint.next_message;
    }

    /// Takes an image, which lies there. False: it contradicts another.
    pub fn restore(&mut self, image: Image, place: Place) -> bool {
        match image {
            Image::Session {
                session: id,
                queue: queue_id,
                key,
                expiry,
                away_since,
                horizon,
                next,
                changed,
                received,
            } => {
                let (vhost, key) = self.share_name(key);
                let mut session = Session::new(key, true, queue_id, vhost, changed);
                session.away_since = away_since;
                session.expiry = expiry;
                session.received = received.into_iter().map(|id| (id, Lsn::NONE)).collect();
                session.page = Page::at(place);
                let mut queue = Queue::new(true);
                queue.horizon.record(horizon, Lsn::NONE);
                queue.restore_next(next);
                let home = Box::new(QueueOfSession { queue, durable: true, changed: false });
                let another = self.clients.insert(session.key.clone(), id);
                // While the checkpoint was made a client's session may have been replaced by another.
                if let Some(newer) = another.filter(|another| *another > id) {
                    self.clients.insert(session.key.clone(), newer);
                }
                self.durable_sessions += 1;
                self.sessions.insert(id, session).is_none() && self.queues.insert(queue_id, home).is_none()
            }
            Image::Subscriptions { session, part, as_of, filters, owed } => {
                self.restore_subscriptions(session, part as usize, as_of, filters, owed, place);
                true
            }
            Image::Queue { queue, first, end, entries, notes } => {
                let Some(home) = self.queues.get_mut(&queue) else { return true };
                let mut chunk = Chunk::new(first);
                for entry in entries {
                    chunk.fill_to(entry.position);
                    chunk.push(entry.message, entry.delivery, entry.stage);
                }
                chunk.fill_to(end);
                chunk.page = Page::at(place);
                self.entries += chunk.live() as u64;
                notes.into_iter().for_each(|(position, note)| home.queue.note(position, note));
                home.queue.restore_chunk(chunk)
            }
            Image::Messages { chunk, messages, expiries } => {
                self.messages.table.restore(chunk, Page::at(place), messages, expiries)
            }
            Image::Retained { vhost, page, topics } => {
                let vhost = self.vhost(&vhost);
                let topics = topics
                    .into_iter()
                    .map(|(topic, message, changed)| (topic, Retained { message, changed }));
                self.vhosts[vhost].retained.restore(page as usize, Page::at(place), topics.collect())
            }
            Image::Will { key, will } => {
                self.will_pages.insert(key.clone(), Page::at(place));
                self.wills.insert(key, will);
                true
            }
            Image::Exchange(image) => {
                self.restore_exchange(image, place);
                true
            }
            Image::DeclaredQueue(image) => self.restore_declared(image, place),
        }
    }

    fn restore_subscriptions(
        &mut self,
        id: SessionId,
        part: usize,
        as_of: Lsn,
        filters: Vec<(Box<str>, Subscription)>,
        owed: Vec<Owed>,
        place: Place,
    ) {
        // Listed without its session, which went while the checkpoint was made.
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let vhost = &mut self.vhosts[session.vhost];
        let is_group = session.key.group().is_some();
        session.subscriptions_image = as_of;
        if session.subscription_pages.len() <= part {
            session.subscription_pages.resize(part + 1, None);
        }
        session.subscription_pages[part] = Some(place);
        for (filter, subscription) in filters {
            if TopicFilter::new(&filter).is_ok() {
                vhost.take_subscription(&filter, Subscriber::new(id, &subscription, is_group));
                session.keep(filter, subscription);
            }
        }
        session.owed.extend(owed);
    }

    /// All images are taken; records follow.
    pub fn images_restored(&mut self) {
        self.vhosts.iter_mut().for_each(|vhost| vhost.retained.restored());
    }

    /// The records up to the checkpoint's end are applied: references are counted. False: a message is referred to
    /// that is nowhere.
    pub fn finish_restoring(&mut self) -> bool {
        self.restoring = false;
        self.messages.begin_counting();
        let mut whole = true;
        self.fill_routers();
        let lanes: Vec<QueueId> = self.all_lanes().collect();
        for lane in lanes {
            let Some(home) = self.queues.get_mut(&lane) else { continue };
            let mut bytes = 0;
            for entry in home.queue.iter().filter(|entry| entry.stage == Stage::Queued) {
                match self.messages.find(entry.message) {
                    Some(known) => {
                        bytes += u64::from(known.body_bytes);
                        self.messages.retain(entry.message);
                    }
                    None => whole = false,
                }
            }
            home.queue.restored(bytes);
        }
        for vhost in &self.vhosts {
            for (_, retained) in vhost.retained.iter() {
                match self.messages.find(retained.message) {
                    Some(_) => self.messages.retain(retained.message),
                    None => whole = false,
                }
            }
        }
        self.messages.restored();
        whole
    }
}

/// Which image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageKey {
    /// The entity.
    pub spot: Spot,
    /// Which of its images, where it has several.
    pub part: usize,
}

fn first_behind<K: Ord, V>(map: &BTreeMap<K, V>, after: Option<K>) -> Option<(&K, &V)> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    map.range((from, Bound::Unbounded)).next()
}
