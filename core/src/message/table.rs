//! Where each message lies and how many places refer to it: 28 bytes a message, in chunks of fixed stretches of ids.

use crate::durable::page::Page;
use crate::durable::place::Place;
use crate::ids::{MessageId, SegmentNumber};
use crate::message::Message;
use crate::mqtt::packet::QoS;
use crate::time::WallTime;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Ids of a chunk.
pub const CHUNK: u64 = 256;

/// What the table knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it lies in the log; none while it is not on disk, or never will be.
    pub place: Option<Place>,
    /// Bytes of its body.
    pub body_bytes: u32,
    /// The publisher's QoS, or delivery mode; `EXPIRES` where it has an expiry.
    pub level: u8,
    /// Places that refer to it.
    pub references: u32,
}

/// In `Known::level`: the message expires.
const EXPIRES: u8 = 0x80;

impl Known {
    /// What a table keeps of the message.
    pub fn of(message: &Message, place: Option<Place>, body_bytes: u32, references: u32) -> Known {
        let expires = if message.expires_at > WallTime(0) { EXPIRES } else { 0 };
        Known { place, body_bytes, level: message.level | expires, references }
    }

    /// The publisher's QoS.
    pub fn qos(&self) -> Option<QoS> {
        QoS::from_bits(self.level & !EXPIRES)
    }

    /// Whether it expires.
    pub fn expires(&self) -> bool {
        self.level & EXPIRES != 0
    }
}

/// Segment 0 is none.
#[derive(Clone, Copy)]
struct Slot {
    segment: u32,
    offset: u32,
    length: u32,
    checksum: u32,
    body_bytes: u32,
    references: u32,
    index: u8,
    level: u8,
    /// Still there; otherwise only its gap is.
    live: bool,
}

/// A stretch of the table. Its slots are in the order of their ids.
pub struct Chunk {
    slots: Vec<Slot>,
    live: usize,
    /// Its image in the log.
    pub page: Page,
}

/// The table.
#[derive(Default)]
pub struct Table {
    chunks: BTreeMap<u64, Chunk>,
    live: usize,
    /// When those that expire do.
    expiries: BTreeMap<MessageId, WallTime>,
}

impl Table {
    /// Messages known.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// What is known of the message.
    pub fn find(&self, id: MessageId) -> Option<Known> {
        let chunk = self.chunks.get(&(id.0 / CHUNK))?;
        chunk.index(id).map(|at| chunk.slots[at].known())
    }

    /// When the message expires, if it does and that is known: images of the formats before 4 do not say it.
    pub fn expires_at(&self, id: MessageId) -> Option<WallTime> {
        self.expiries.get(&id).copied()
    }

    /// Whether of no message it is known that it expires.
    pub fn nothing_expires(&self) -> bool {
        self.expiries.is_empty()
    }

    /// When the messages of a chunk expire, of those that do.
    pub fn expiries_of(&self, number: u64) -> impl Iterator<Item = (MessageId, WallTime)> {
        let ids = MessageId(number * CHUNK)..MessageId((number + 1) * CHUNK);
        self.expiries.range(ids).map(|(id, at)| (*id, *at))
    }

    /// The messages expire then.
    pub fn note_expiries(&mut self, expiries: impl IntoIterator<Item = (MessageId, WallTime)>) {
        self.expiries.extend(expiries);
    }

    /// Adds a message, which must not be known.
    pub fn insert(&mut self, id: MessageId, known: Known) {
        let chunk = self.chunks.entry(id.0 / CHUNK).or_insert_with(Chunk::new);
        chunk.insert(id, known);
        self.live += 1;
    }

    /// The message lies there; what was known before, unless nobody refers to it.
    pub fn place(&mut self, id: MessageId, place: Place) -> Option<Known> {
        let chunk = self.chunks.get_mut(&(id.0 / CHUNK))?;
        let at = chunk.index(id)?;
        chunk.page.touch();
        let before = chunk.slots[at].known();
        chunk.slots[at].put(Some(place));
        Some(before)
    }

    /// One more place refers to the message.
    pub fn retain(&mut self, id: MessageId) {
        self.slot_mut(id).references += 1;
    }

    /// One place less refers to the message; the last one frees it: what was known.
    pub fn release(&mut self, id: MessageId) -> Option<Known> {
        let slot = self.slot_mut(id);
        slot.references -= 1;
        if slot.references > 0 {
            return None;
        }
        let known = slot.known();
        slot.live = false;
        self.live -= 1;
        if known.expires() {
            self.expiries.remove(&id);
        }
        let number = id.0 / CHUNK;
        let chunk = self.chunks.get_mut(&number).expect("its slot was just there");
        if chunk.freed_one() {
            self.chunks.remove(&number);
        }
        Some(known)
    }

    /// The numbers of the chunks, from this one on.
    pub fn numbers_from(&self, number: u64) -> impl Iterator<Item = u64> {
        self.chunks.range(number..).map(|(number, _)| *number)
    }

    /// The chunk of this number.
    pub fn chunk(&self, number: u64) -> Option<&Chunk> {
        self.chunks.get(&number)
    }

    /// The chunk of this number.
    pub fn chunk_mut(&mut self, number: u64) -> Option<&mut Chunk> {
        self.chunks.get_mut(&number)
    }

    /// The chunk of an image; false: there is one already.
    pub fn restore(
        &mut self,
        number: u64,
        page: Page,
        messages: Vec<(MessageId, Known)>,
        expiries: Vec<(MessageId, WallTime)>,
    ) -> bool {
        self.note_expiries(expiries);
        if self.chunks.contains_key(&number) {
            return false;
        }
        let mut chunk = Chunk::new();
        messages.into_iter().for_each(|(id, known)| chunk.insert(id, known));
        self.live += chunk.live;
        chunk.page = page;
        self.chunks.insert(number, chunk);
        true
    }

    /// Forgets what nobody refers to; calls `kept` with what stays.
    pub fn restored(&mut self, mut kept: impl FnMut(MessageId, Known)) {
        self.chunks.retain(|number, chunk| {
            chunk.slots.retain(|slot| slot.references > 0);
            chunk.slots.shrink_to_fit();
            chunk.live = chunk.slots.len();
            chunk.iter(*number).for_each(|(id, known)| kept(id, known));
            !chunk.slots.is_empty()
        });
        self.live = self.chunks.values().map(|chunk| chunk.live).sum();
        let mut expiries = core::mem::take(&mut self.expiries);
        expiries.retain(|id, _| self.find(*id).is_some());
        self.expiries = expiries;
    }

    fn slot_mut(&mut self, id: MessageId) -> &mut Slot {
        let chunk = self.chunks.get_mut(&(id.0 / CHUNK));
        let slot = chunk.and_then(|chunk| chunk.index(id).map(|at| &mut chunk.slots[at]));
        slot.expect("a message that is referred to is known")
    }
}

impl Chunk {
    fn new() -> Chunk {
        Chunk { slots: Vec::new(), live: 0, page: Page::default() }
    }

    /// Its messages, in the order of their ids; `number` is its own.
    pub fn iter(&self, number: u64) -> impl Iterator<Item = (MessageId, Known)> {
        let live = self.slots.iter().filter(|slot| slot.live);
        live.map(move |slot| (MessageId(number * CHUNK + u64::from(slot.index)), slot.known()))
    }

    fn insert(&mut self, id: MessageId, known: Known) {
        let index = (id.0 % CHUNK) as u8;
        let Known { place, body_bytes, level, references } = known;
        let mut slot = Slot {
            segment: 0,
            offset: 0,
            length: 0,
            checksum: 0,
            body_bytes,
            references,
            index,
            level,
            live: true,
        };
        slot.put(place);
        // New ones mostly come behind all others.
        let at = match self.slots.last() {
            Some(last) if last.index >= index => self.slots.partition_point(|slot| slot.index < index),
            Some(_) | None => self.slots.len(),
        };
        match self.slots.get_mut(at).filter(|slot| slot.index == index) {
            Some(gap) => {
                assert!(!gap.live, "message {id} inserted twice");
                *gap = slot;
            }
            None => self.slots.insert(at, slot),
        }
        self.live += 1;
        self.page.touch();
        if u64::from(index) == CHUNK - 1 {
            self.slots.shrink_to_fit();
        }
    }

    /// A slot was freed. True: nothing is left.
    fn freed_one(&mut self) -> bool {
        self.live -= 1;
        if self.live > 0 && self.slots.len() > 16 && self.live * 2 < self.slots.len() {
            self.slots.retain(|slot| slot.live);
            self.slots.shrink_to_fit();
        }
        self.live == 0
    }

    fn index(&self, id: MessageId) -> Option<usize> {
        let index = (id.0 % CHUNK) as u8;
        // Without gaps the distance from the first is the place.
        let guess = usize::from(index.wrapping_sub(self.slots.first()?.index));
        let at = match self.slots.get(guess) {
            Some(slot) if slot.index == index => guess,
            _ => self.slots.binary_search_by_key(&index, |slot| slot.index).ok()?,
        };
        self.slots[at].live.then_some(at)
    }
}

impl Slot {
    fn known(&self) -> Known {
        let place = Place {
            segment: SegmentNumber(self.segment.into()),
            offset: self.offset.into(),
            length: self.length,
            checksum: self.checksum,
        };
        Known {
            place: (self.segment > 0).then_some(place),
            body_bytes: self.body_bytes,
            level: self.level,
            references: self.references,
        }
    }

    fn put(&mut self, place: Option<Place>) {
        let Some(Place { segment, offset, length, checksum }) = place else { return };
        self.segment = u32::try_from(segment.0).expect("a store has fewer than 2^32 segments in its life");
        self.offset = u32::try_from(offset).expect("a segment has at most 4 GiB");
        (self.length, self.checksum) = (length, checksum);
    }
}
