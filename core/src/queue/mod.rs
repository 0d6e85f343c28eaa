//! Queues: entries that refer to messages, in the order of their positions, whatever the protocol of their consumer.
//!
//! Every enqueue takes the next position and no position is used twice. An entry is settled (removed) by its
//! position. Entries lie in chunks of fixed stretches of positions; a chunk goes when all of it is settled, and is
//! what a checkpoint writes when something of it has changed.
//!
//! ```text
//!   front                      sent_to            next
//!     |  sent, not settled        |   never sent    |
//!     +---------------------------+-----------------+
//! ```

pub mod chunk;
pub mod entry;
pub mod horizon;
mod pushes;
mod salvage;

use crate::ids::{Lsn, MessageId, QueuePosition, SessionId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
pub use chunk::{CHUNK, Chunk};
pub use entry::{Delivery, Entry, Stage};
pub use horizon::Horizon;
use pushes::Pushes;

/// A queue.
pub struct Queue {
    chunks: VecDeque<Chunk>,
    /// Entries that are not settled.
    live: usize,
    /// The position of the next enqueue.
    next: QueuePosition,
    /// Positions below it may have been sent to a consumer.
    sent_to: QueuePosition,
    /// Body bytes of the entries in stage `Queued`.
    bytes: u64,
    /// How far deliveries may go without a new record.
    pub horizon: Horizon,
    pushes: Pushes,
    /// Entries in stage `Releasing`, with the record that put them there.
    releasing: BTreeMap<QueuePosition, Lsn>,
    /// Where the front was when which settlement was the last, for the reuse of packet identifiers.
    fronts: VecDeque<(QueuePosition, Lsn)>,
    durable_front: QueuePosition,
    last_settlement: Lsn,
    /// The last record that dropped an entry which was never sent.
    last_drop: Lsn,
    /// Positions may be left out.
    sparse: bool,
    /// What is known of some entries beside what a chunk holds. Boxed, because most queues have none.
    notes: Option<Box<Notes>>,
}

type Notes = BTreeMap<QueuePosition, Note>;

/// What is known of an entry beside what a chunk holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The session of the shared subscription's group that it came from.
    pub group: Option<SessionId>,
    /// How often it was delivered and came back, where its queue counts that.
    pub returns: u32,
    /// Identifiers of the subscriptions that it came by.
    pub identifiers: Box<[u32]>,
}

/// Positions between two marks of the front.
const FRONT_MARK_EVERY: u64 = 1024;

/// A chunk without a live entry is kept up to this length, so that a queue that is filled and emptied all the time
/// does not make one for each message.
const EMPTY_CHUNK_MAX: u64 = 32;

impl Queue {
    /// An empty queue. One that is not `durable` needs no horizon.
    pub fn new(durable: bool) -> Queue {
        Queue {
            chunks: VecDeque::new(),
            live: 0,
            next: QueuePosition(0),
            sent_to: QueuePosition(0),
            bytes: 0,
            horizon: if durable { Horizon::at(QueuePosition(0)) } else { Horizon::unbounded() },
            pushes: Pushes::default(),
            releasing: BTreeMap::new(),
            fronts: VecDeque::new(),
            durable_front: QueuePosition(0),
            last_settlement: Lsn::NONE,
            last_drop: Lsn::NONE,
            sparse: false,
            notes: None,
        }
    }

    /// An empty queue in which positions may be left out after a crash: of entries that did not survive.
    pub fn sparse(durable: bool) -> Queue {
        Queue { sparse: true, ..Queue::new(durable) }
    }

    /// Whether positions may be left out.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Entries that are not settled.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether all is settled.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Body bytes of the entries whose message is still needed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The position that the next entry gets.
    pub fn next(&self) -> QueuePosition {
        self.next
    }

    /// Positions below this one may have been sent.
    pub fn sent_to(&self) -> QueuePosition {
        self.sent_to
    }

    /// The last record that settled an entry.
    pub fn last_settlement(&self) -> Lsn {
        self.last_settlement
    }

    /// The last record that dropped an entry. Until it is durable nothing new is delivered: after a crash the
    /// dropped entry would come back behind messages that it stands before.
    pub fn last_drop(&self) -> Lsn {
        self.last_drop
    }

    /// The oldest position that is not settled, or `next`.
    pub fn front(&self) -> QueuePosition {
        let mut firsts = self.chunks.iter().filter_map(|chunk| chunk.first_from(chunk.first()));
        firsts.next().map_or(self.next, |entry| entry.position)
    }

    /// The entries that are not settled, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    /// The first entry at `from` or behind it that is not settled.
    pub fn first_from(&self, from: QueuePosition) -> Option<Entry> {
        let at = self.chunk_at(from).unwrap_or_else(|behind| behind);
        self.chunks.range(at..).find_map(|chunk| chunk.first_from(from))
    }

    /// The entries from `from` on that are not settled, in order.
    pub fn iter_from(&self, from: QueuePosition) -> impl Iterator<Item = Entry> {
        let at = self.chunk_at(from).unwrap_or_else(|behind| behind);
        self.chunks.range(at..).flat_map(Chunk::iter).filter(move |entry| entry.position >= from)
    }

    /// The entry at `position`, if it is not settled.
    pub fn find(&self, position: QueuePosition) -> Option<Entry> {
        let at = self.chunk_at(position).ok()?;
        self.chunks[at].entry(position).filter(|entry| entry.stage != Stage::Settled)
    }

    /// The record to wait for before the entry is sure to be in its stage on disk.
    pub fn recorded_by(&self, entry: &Entry) -> Lsn {
        match entry.stage {
            Stage::Queued => self.pushes.by(entry.position),
            Stage::Releasing => self.releasing.get(&entry.position).copied().unwrap_or(Lsn::NONE),
            Stage::Settled => self.last_settlement,
        }
    }

    /// A front that is sure to be on disk: every settlement below it is.
    pub fn durable_front(&mut self, durable: Lsn) -> QueuePosition {
        while let Some(&(front, lsn)) = self.fronts.front()
            && lsn <= durable
        {
            self.durable_front = front;
            self.fronts.pop_front();
        }
        if self.last_settlement <= durable {
            self.durable_front = self.front();
        }
        self.durable_front
    }

    /// What has to be durable before `durable_front` can go on.
    pub fn next_front_mark(&self) -> Lsn {
        self.fronts.front().map_or(self.last_settlement, |&(_, lsn)| lsn)
    }

    /// What is durable by now need not be remembered.
    pub fn forget_pushes(&mut self, durable: Lsn) {
        self.pushes.forget(durable);
    }

    /// The chunk of this number.
    pub(crate) fn chunk(&self, number: u64) -> Option<&Chunk> {
        self.chunks.get(self.chunk_of(number).ok()?)
    }

    /// The chunks from this number on.
    pub(crate) fn chunks_from(&self, number: u64) -> impl Iterator<Item = &Chunk> {
        self.chunks.range(self.chunk_of(number).unwrap_or_else(|behind| behind)..)
    }

    /// The chunk of this number.
    pub(crate) fn chunk_mut(&mut self, number: u64) -> Option<&mut Chunk> {
        let at = self.chunk_of(number).ok()?;
        self.chunks.get_mut(at)
    }

    /// Whether an entry can be pushed at `position`, or has been: live it is `next`, in a replay perhaps an earlier one.
    pub(crate) fn can_push(&self, position: QueuePosition) -> bool {
        self.sparse || self.chunk_at(position).map_or(true, |at| position <= self.chunks[at].end())
    }

    /// Adds the entry that `lsn` put at `position`. False: it is, or was, there already.
    pub(crate) fn push(
        &mut self,
        position: QueuePosition,
        message: MessageId,
        delivery: Delivery,
        body_bytes: u64,
        lsn: Lsn,
    ) -> bool {
        let at = match self.chunk_at(position) {
            Ok(at) if position < self.chunks[at].end() => return false,
            Ok(at) => at,
            Err(at) => {
                self.chunks.insert(at, Chunk::new(position));
                at
            }
        };
        let chunk = &mut self.chunks[at];
        if self.sparse {
            chunk.fill_to(position);
        }
        assert_eq!(chunk.end(), position, "no position is left out");
        chunk.push(message, delivery, Stage::Queued);
        chunk.page.touch();
        self.next = self.next.max(position.plus(1));
        self.live += 1;
        self.bytes += body_bytes;
        self.pushes.note(position, lsn);
        true
    }

    /// Adds to what is known of the entry, if it is still there.
    pub(crate) fn note_more(&mut self, position: QueuePosition, more: Note) {
        if self.find(position).is_some() {
            self.note(position, more);
            let at = self.chunk_at(position).expect("it was just found");
            self.chunks[at].page.touch();
        }
    }

    /// Adds to what is known of the entry.
    pub(crate) fn note(&mut self, position: QueuePosition, more: Note) {
        let note = self.notes.get_or_insert_default().entry(position).or_default();
        note.group = note.group.or(more.group);
        note.returns = note.returns.max(more.returns);
        if !more.identifiers.is_empty() {
            note.identifiers = more.identifiers;
        }
    }

    fn note_of(&self, position: QueuePosition) -> Option<&Note> {
        self.notes.as_ref()?.get(&position)
    }

    /// The identifiers of the subscriptions that the entry came by.
    pub fn identifiers_of(&self, position: QueuePosition) -> &[u32] {
        self.note_of(position).map_or(&[], |note| &note.identifiers)
    }

    /// The group that the entry came from.
    pub fn group_of(&self, position: QueuePosition) -> Option<SessionId> {
        self.note_of(position)?.group
    }

    /// How often the entry was delivered and came back, where that is counted.
    pub fn returns_of(&self, position: QueuePosition) -> u32 {
        self.note_of(position).map_or(0, |note| note.returns)
    }

    /// The entries from here up to there of which more is known than a chunk holds.
    pub fn notes_in(
        &self,
        from: QueuePosition,
        to: QueuePosition,
    ) -> impl Iterator<Item = (QueuePosition, Note)> {
        let found = self.notes.iter().flat_map(move |notes| notes.range(from..to));
        found.map(|(position, note)| (*position, note.clone()))
    }

    /// Everything up to here may have been sent.
    pub(crate) fn mark_sent_to(&mut self, position: QueuePosition) {
        self.sent_to = self.sent_to.max(position);
    }

    /// The subscriber has taken the message over (PUBREC); its body is not needed any more.
    pub(crate) fn release(
        &mut self,
        position: QueuePosition,
        body_bytes: u64,
        lsn: Lsn,
    ) -> Option<MessageId> {
        let at = self.chunk_at(position).ok()?;
        let entry = self.chunks[at].entry(position).filter(|entry| entry.stage == Stage::Queued)?;
        self.advance(at, position, Stage::Releasing, lsn);
        self.bytes -= body_bytes;
        Some(entry.message)
    }

    /// Removes an entry; what it was.
    pub(crate) fn settle(
        &mut self,
        position: QueuePosition,
        body_bytes: impl FnOnce(MessageId) -> u64,
        lsn: Lsn,
    ) -> Option<Entry> {
        let at = self.chunk_at(position).ok()?;
        let entry = self.chunks[at].entry(position).filter(|entry| entry.stage != Stage::Settled)?;
        if entry.stage == Stage::Queued {
            self.bytes -= body_bytes(entry.message);
        }
        self.advance(at, position, Stage::Settled, lsn);
        if let Some(notes) = &mut self.notes {
            notes.remove(&position);
        }
        self.live -= 1;
        self.drop_if_empty(at);
        self.mark_front();
        Some(entry)
    }

    /// An entry that was never sent is dropped by this record.
    pub(crate) fn mark_drop(&mut self, lsn: Lsn) {
        self.last_drop = self.last_drop.max(lsn);
    }

    /// Takes a chunk off the front, for a queue that is going away.
    pub(crate) fn dismantle(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.live -= chunk.live();
        Some(chunk)
    }

    /// The entry, which is in the chunk at that index, goes to a later stage.
    fn advance(&mut self, at: usize, position: QueuePosition, stage: Stage, lsn: Lsn) {
        let chunk = &mut self.chunks[at];
        chunk.advance(position, stage);
        chunk.page.touch();
        match stage {
            Stage::Releasing => drop(self.releasing.insert(position, lsn)),
            Stage::Settled => {
                self.releasing.remove(&position);
                self.last_settlement = self.last_settlement.max(lsn);
            }
            Stage::Queued => {}
        }
    }

    fn drop_if_empty(&mut self, at: usize) {
        let chunk = &self.chunks[at];
        let long = chunk.end().0 - chunk.first().0 >= EMPTY_CHUNK_MAX;
        if chunk.live() == 0 && (long || chunk.is_full()) {
            self.chunks.remove(at);
            if self.chunks.capacity() > 64 + 8 * self.chunks.len() {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        }
    }

    fn mark_front(&mut self) {
        let front = self.front();
        let marked = self.fronts.back().map_or(self.durable_front, |&(front, _)| front);
        if front.0 >= marked.0 + FRONT_MARK_EVERY {
            self.fronts.push_back((front, self.last_settlement));
        }
    }

    /// The index of the chunk that `position` belongs to, or where it would stand.
    fn chunk_at(&self, position: QueuePosition) -> Result<usize, usize> {
        self.chunk_of(position.0 / CHUNK)
    }

    fn chunk_of(&self, number: u64) -> Result<usize, usize> {
        // Without gaps the distance from the front is the index.
        let front = self.chunks.front().map_or(0, Chunk::number);
        let guess = number.wrapping_sub(front) as usize;
        match self.chunks.get(guess) {
            Some(chunk) if chunk.number() == number => Ok(guess),
            _ => self.chunks.binary_search_by_key(&number, Chunk::number),
        }
    }
}

/// Taking images of a checkpoint.
impl Queue {
    /// Puts an image's chunk where it belongs; false: there is one already.
    pub(crate) fn restore_chunk(&mut self, chunk: Chunk) -> bool {
        let Err(at) = self.chunk_of(chunk.number()) else { return false };
        self.next = self.next.max(chunk.end());
        self.live += chunk.live();
        let releasing = chunk.iter().filter(|entry| entry.stage == Stage::Releasing);
        self.releasing.extend(releasing.map(|entry| (entry.position, Lsn::NONE)));
        self.chunks.insert(at, chunk);
        true
    }

    /// The image says that the next position is this.
    pub(crate) fn restore_next(&mut self, next: QueuePosition) {
        self.next = self.next.max(next);
    }

    /// All images are taken, everything is durable; its messages' bodies have so many bytes.
    pub(crate) fn restored(&mut self, bytes: u64) {
        self.chunks.retain(|chunk| chunk.live() > 0);
        self.bytes = bytes;
        self.pushes = Pushes::default();
        self.fronts.clear();
        self.durable_front = self.front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn delivery() -> Delivery {
        Delivery::from_byte(1).expect("QoS 1")
    }

    fn push(queue: &mut Queue, bytes: u64) -> u64 {
        let position = queue.next();
        queue.push(position, MessageId(position.0), delivery(), bytes, Lsn(position.0 + 1));
        position.0
    }

    proptest! {
        // Broken: an acknowledgement removes another message than its own, or one is lost or comes back.
        #[test]
        fn behaves_like_an_ordered_map(steps in prop::collection::vec((0u8..4, 0u64..1200), 1..2400)) {
            let mut queue = Queue::new(true);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        let position = push(&mut queue, 10);
                        model.insert(position, position);
                    }
                    2 => {
                        let settled = queue.settle(QueuePosition(number), |_| 10, Lsn(1)).map(|e| e.position.0);
                        prop_assert_eq!(settled, model.remove(&number));
                    }
                    _ => {
                        let found = queue.first_from(QueuePosition(number)).map(|e| e.position.0);
                        prop_assert_eq!(found, model.range(number..).next().map(|(&p, _)| p));
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.bytes(), 10 * model.len() as u64);
                let first = model.keys().next().copied().unwrap_or(queue.next().0);
                prop_assert_eq!(queue.front().0, first);
            }
            prop_assert!(queue.iter().map(|e| e.position.0).eq(model.keys().copied()));
        }
    }

    #[test]
    fn durable_front_waits_for_the_settlements_below_it() {
        // Broken: a packet identifier is used again before its first message is settled on disk.
        let mut queue = Queue::new(true);
        (0..3000).for_each(|p| assert_eq!(push(&mut queue, 0), p));
        (0..2500).for_each(|p| assert!(queue.settle(QueuePosition(p), |_| 0, Lsn(10_000 + p)).is_some()));
        assert_eq!(queue.durable_front(Lsn(10_000)), QueuePosition(0));
        assert_eq!(queue.durable_front(Lsn(10_000 + 1023)), QueuePosition(1024));
        assert_eq!(queue.next_front_mark(), Lsn(10_000 + 2047));
        assert_eq!(queue.durable_front(Lsn(10_000 + 2499)), QueuePosition(2500));
    }
}
