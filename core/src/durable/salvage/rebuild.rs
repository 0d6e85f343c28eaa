//! From what the walk has found to a state: the best checkpoint's images, then every record behind its beginning, as far
//! as they fit.

use super::Device;
use super::loss::Loss;
use super::owners::{self, Said};
use super::pieces::Pieces;
use super::seem;
use super::unlisted;
use super::walk::{Found, Walk};
use crate::durable::batch::{self, BATCH_HEADER};
use crate::durable::codec;
use crate::durable::place::Place;
use crate::durable::record::{Checkpoint, Image, Record};
use crate::durable::state::State;
use crate::durable::state::salvage::Referrer;
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::time::WallTime;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Types of records that hold messages.
const MESSAGE_TYPES: [u8; 3] = [8, 16, 45];

/// A state that is being built.
pub(super) struct Rebuild<'a> {
    walk: &'a Walk,
    pieces: Pieces,
    state: State,
    losses: Vec<Loss>,
    /// Every session that came up.
    sessions: BTreeSet<SessionId>,
    /// Sessions of which an image says what they subscribed to.
    subscribed: BTreeSet<SessionId>,
    /// What was said since the checkpoint.
    said: Said,
}

/// A checkpoint, as far as it can be read.
struct Readable {
    checkpoint: Option<Checkpoint>,
    images: Vec<(Image, Place)>,
    losses: Vec<Loss>,
}

impl<'a> Rebuild<'a> {
    pub fn new(walk: &'a Walk, hash_key: u64) -> Rebuild<'a> {
        let (state, losses, sessions) = (State::new(hash_key), Vec::new(), BTreeSet::new());
        let (pieces, subscribed, said) = (Pieces::default(), BTreeSet::new(), Said::default());
        Rebuild { walk, pieces, state, losses, sessions, subscribed, said }
    }

    /// All of it: the state, the last record, what is missing.
    pub fn run(mut self, device: Device<'_>) -> (State, Lsn, Vec<Loss>) {
        let base = self.best_checkpoint(device);
        let begin = base.checkpoint.as_ref().map_or(Lsn(1), |checkpoint| checkpoint.begin.first);
        self.said.matters = base.losses.iter().any(|loss| matches!(loss, Loss::Image { .. }));
        self.losses.extend(base.losses);
        match &base.checkpoint {
            Some(checkpoint) => self.state.begin_restoring(checkpoint),
            None => self.state.begin_salvage(),
        }
        base.images.into_iter().for_each(|(image, place)| self.restore(image, place));
        if self.said.matters {
            self.put_subscriptions_back();
        }
        self.state.images_restored();
        self.tell_gaps(device, begin);
        let walk = self.walk;
        let mut expected = begin;
        for found in walk.batches.iter().filter(|found| found.end() > begin && found.records > 0) {
            // What has been seen already is a copy that the disk put elsewhere.
            if found.first >= expected || expected == begin {
                self.replay(device, found, begin);
                expected = expected.max(found.end());
            }
        }
        self.state.remove_replaced(&self.sessions);
        if self.said.matters {
            let found = owners::find(device, &mut self.pieces, walk, &mut self.state, &self.said);
            self.losses.extend(found);
        }
        self.find_messages(device);
        self.state.finish_restoring();
        let last = Lsn(expected.0.max(self.walk.synced.0 + 1) - 1);
        (self.state, last, self.losses)
    }

    /// The newest checkpoint of which nothing is missing, nor of what follows it; else the one with the fewest losses.
    fn best_checkpoint(&mut self, device: Device<'_>) -> Readable {
        let mut best: Option<(usize, Readable)> = None;
        for (end, checkpoint) in self.walk.checkpoints.iter().rev() {
            let readable = self.read(device, checkpoint, *end);
            let missing = readable.losses.len() + self.walk.gaps(checkpoint.begin.first).len();
            if missing == 0 {
                return readable;
            }
            if best.as_ref().is_none_or(|(fewest, _)| missing < *fewest) {
                best = Some((missing, readable));
            }
        }
        let nothing = Readable { checkpoint: None, images: Vec::new(), losses: Vec::new() };
        best.map_or(nothing, |(_, readable)| readable)
    }

    fn read(&mut self, device: Device<'_>, checkpoint: &Checkpoint, end: Lsn) -> Readable {
        let missing = checkpoint.needed.iter().filter(|segment| !self.walk.files.contains_key(segment));
        let mut losses: Vec<Loss> = missing.map(|segment| Loss::Segment { segment: *segment }).collect();
        let damaged = |place: &Place, listing| {
            let (segment, offset) = (place.segment, place.offset);
            Loss::Image { segment, offset, listing }
        };
        let mut places = Vec::new();
        for place in &checkpoint.listings {
            match self.record_at(device, place) {
                Some(Record::Listing(listed)) => places.extend(listed),
                _ => losses.push(damaged(place, true)),
            }
        }
        places.sort_unstable_by_key(|place| (place.segment, place.offset));
        let mut images = Vec::new();
        for place in places {
            match self.record_at(device, &place) {
                Some(Record::Image(image)) => images.push((image, place)),
                _ => losses.push(damaged(&place, false)),
            }
        }
        if losses.iter().any(|loss| matches!(loss, Loss::Image { listing: true, .. })) {
            images.extend(unlisted::images(device, &mut self.pieces, self.walk, end, &images));
        }
        // Who owns queues comes before all that belongs to them.
        let owns = |image: &Image| {
            matches!(image, Image::Session { .. } | Image::Exchange(_) | Image::DeclaredQueue(_))
        };
        images.sort_by_key(|(image, _)| !owns(image));
        Readable { checkpoint: Some(checkpoint.clone()), images, losses }
    }

    fn record_at(&mut self, device: Device<'_>, place: &Place) -> Option<Record> {
        let bytes = self.pieces.read(device, place.segment, place.offset, place.length.into()).ok()?;
        codec::read_record(&bytes, place.checksum)
    }

    fn restore(&mut self, image: Image, place: Place) {
        match &image {
            Image::Session { session, .. } => drop(self.sessions.insert(*session)),
            Image::Subscriptions { session, .. } if self.state.session(*session).is_none() => {
                self.piece_together(*session, Loss::Session { session: *session });
            }
            Image::Queue { queue, .. } if !self.state.has_queue(*queue) => {
                let owner = self.walk.sessions.iter().find(|(_, (owned, _))| owned == queue);
                let session = owner.map_or(SessionId::default(), |(session, _)| *session);
                self.piece_together(session, Loss::Queue { queue: *queue });
            }
            _ => {}
        }
        if let Image::Subscriptions { session, .. } = &image {
            self.subscribed.insert(*session);
        }
        if !self.state.restore(image, place) {
            let (segment, offset) = (place.segment, place.offset);
            self.losses.push(Loss::Image { segment, offset, listing: false });
        }
    }

    /// A session whose image is lost, from what else is known of it. All of its queue may have been delivered.
    fn piece_together(&mut self, session: SessionId, unknown: Loss) {
        let Some((queue, key)) = self.walk.sessions.get(&session).cloned() else {
            if !self.losses.contains(&unknown) {
                self.losses.push(unknown);
            }
            return;
        };
        self.losses.push(Loss::SessionPiecedTogether { client: key.clone() });
        self.sessions.insert(session);
        let at = WallTime::default();
        let horizon = QueuePosition(0);
        let opened = Record::SessionOpened { session, queue, key, durable: true, at, horizon };
        self.state.apply(opened, Lsn::NONE, None);
    }

    /// A piece of the checkpoint is damaged: what it may have said of subscriptions is taken from older records.
    fn put_subscriptions_back(&mut self) {
        for (session, filters) in &self.walk.subscriptions {
            let known = self.state.session(*session).map(|known| known.key.clone());
            let lost = !self.subscribed.contains(session) && !filters.is_empty();
            let Some(client) = known.filter(|_| lost) else { continue };
            let filters: Vec<_> = filters.iter().map(|(filter, qos)| (filter.clone(), *qos)).collect();
            self.losses.push(Loss::SubscriptionsPutBack { client, count: filters.len() as u64 });
            let (as_of, owed) = (Lsn::NONE, Vec::new());
            let image = Image::Subscriptions { session: *session, part: 0, as_of, filters, owed };
            let nowhere = Place { segment: Default::default(), offset: 0, length: 0, checksum: 0 };
            self.state.restore(image, nowhere);
        }
    }

    fn tell_gaps(&mut self, device: Device<'_>, begin: Lsn) {
        for (first, last, behind) in self.walk.gaps(begin) {
            let seem = seem::records(device, &mut self.pieces, behind, &self.walk.sessions);
            self.losses.push(Loss::Records { first, last, behind, seem });
        }
    }

    fn replay(&mut self, device: Device<'_>, found: &Found, begin: Lsn) {
        let Ok(bytes) = self.pieces.read(device, found.segment, found.offset, found.length) else { return };
        let Some(batch) = batch::parse(&bytes) else { return };
        let (mut at, mut lsn) = (BATCH_HEADER, found.first);
        for _ in 0..found.records {
            let (record, span, next) = match codec::decode(batch.bytes, at) {
                Ok(decoded) => decoded,
                Err(error) => return self.losses.push(Loss::Record { lsn, error }),
            };
            let place = span.map(|span| Place {
                segment: found.segment,
                offset: found.offset + span.offset as u64,
                length: span.length,
                checksum: span.checksum,
            });
            if lsn >= begin {
                self.apply(record, lsn, place);
            }
            (at, lsn) = (next, lsn.next());
        }
    }

    fn apply(&mut self, record: Record, lsn: Lsn, place: Option<Place>) {
        match &record {
            Record::SessionOpened { session, .. } => drop(self.sessions.insert(*session)),
            Record::Published(publication) => {
                publication.recipients.iter().for_each(|r| self.leave_out(r.queue, r.position));
                if self.said.matters {
                    self.said.published.insert(publication.message);
                    self.said.settled.extend(&publication.dropped);
                }
            }
            Record::RetainedQueued { session, entries, .. } => {
                let queue = self.state.session(*session).map(|session| session.queue);
                if let (Some(queue), Some((first, ..))) = (queue, entries.first()) {
                    self.leave_out(queue, *first);
                }
                if entries.windows(2).any(|two| two[1].0 != two[0].0.plus(1)) {
                    return self.losses.push(Loss::Unfitting { lsn });
                }
            }
            Record::Settled { queue, position } if self.said.matters => {
                self.said.settled.extend([(*queue, *position)])
            }
            Record::Releasing { queue, position } if self.said.matters => {
                self.said.releasing.extend([(*queue, *position)])
            }
            _ => {}
        }
        if self.state.admits(&record) {
            self.state.apply(record, lsn, place);
            self.state.bury(usize::MAX);
        } else {
            self.losses.push(Loss::Unfitting { lsn });
        }
    }

    fn leave_out(&mut self, queue: QueueId, position: QueuePosition) {
        if let Some(from) = self.state.leave_out(queue, position)
            && let Some(owner) = self.state.owner(queue)
        {
            self.losses.push(Loss::Entries { owner, from, to: position });
        }
    }

    /// Messages of which only their place is lost are found by the records that hold them; who refers to others
    /// refers to nothing.
    fn find_messages(&mut self, device: Device<'_>) {
        let missing = self.state.referrers(|message| self.state.messages.find(message).is_none());
        if missing.is_empty() {
            return;
        }
        let wanted: BTreeSet<MessageId> = missing.iter().map(|(message, _)| *message).collect();
        let walk = self.walk;
        for found in &walk.batches {
            let Ok(bytes) = self.pieces.read(device, found.segment, found.offset, found.length) else {
                continue;
            };
            let Some(batch) = batch::parse(&bytes) else { continue };
            let mut at = BATCH_HEADER;
            while let Some((kind, end)) = codec::peek(batch.bytes, at) {
                let decoded = MESSAGE_TYPES.contains(&kind).then(|| codec::decode(batch.bytes, at).ok());
                let (message, content) = match decoded.flatten() {
                    Some((Record::Published(publication), span, _)) => {
                        (publication.message, Some(publication.content).zip(span))
                    }
                    Some((Record::Relocated { message, content }, span, _)) => {
                        (message, Some(content).zip(span))
                    }
                    _ => (MessageId(0), None),
                };
                if let Some((content, span)) = content.filter(|_| wanted.contains(&message)) {
                    let offset = found.offset + span.offset as u64;
                    let (segment, length, checksum) = (found.segment, span.length, span.checksum);
                    self.state.found(message, content, Place { segment, offset, length, checksum });
                }
                at = end;
            }
        }
        let lost: Vec<_> =
            missing.into_iter().filter(|(m, _)| self.state.messages.find(*m).is_none()).collect();
        forget(&mut self.state, lost, &mut self.losses);
    }
}

/// Has everybody forget what is lost, and tells of it, queue by queue.
pub(super) fn forget(state: &mut State, lost: Vec<(MessageId, Referrer)>, losses: &mut Vec<Loss>) {
    let mut queues: BTreeMap<_, (QueuePosition, QueuePosition, u64)> = BTreeMap::new();
    for (message, referrer) in lost {
        state.forget(message, &referrer);
        match referrer {
            Referrer::Entry(owner, _, position) => {
                let entry = queues.entry(owner).or_insert((position, position.plus(1), 0));
                *entry = (entry.0.min(position), entry.1.max(position.plus(1)), entry.2 + 1);
            }
            Referrer::Topic(vhost, topic) => {
                let vhost = (&*state.vhosts[vhost].name).into();
                losses.push(Loss::Retained { vhost, topic });
            }
        }
    }
    for (owner, (from, to, count)) in queues {
        losses.push(Loss::Messages { owner, from, to, count });
    }
}
