//! The ledger: what the log on the platter says, record by record, as far as it is synced.
//!
//! It reads the simulated disk itself, follows the chain of batches by its own rule (next LSN, predecessor's checksum,
//! recovery count) and never looks at unsynced sectors. So it knows, without asking the broker, what would be there
//! if the power went now; `world/wire.rs` holds every byte that leaves against it.

mod facts;
mod image;

use crate::disk::Disk;
use crate::payload::MessageKey;
pub(crate) use facts::{Facts, SessionFacts};
use std::collections::BTreeMap;
use vowmq_core::durable::SECTOR;
use vowmq_core::durable::batch::{self, BATCH_HEADER};
use vowmq_core::durable::codec;
use vowmq_core::durable::place::Place;
use vowmq_core::durable::record::{Checkpoint, Record};
use vowmq_core::durable::segment::{self, FirstSector, SegmentHeader};
use vowmq_core::ids::{Lsn, RecoveryCount, SegmentNumber, StoreId};

/// Bytes of a segment's header that mean something.
pub(crate) const HEADER_BYTES: u64 = 96;

/// What a place on the disk is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// This record, and those behind it: recovery reads them.
    Record(Lsn),
    /// The checkpoint that recovery begins with.
    Checkpoint,
    /// Nothing that recovery reads: at the most a message.
    Message,
}

/// A checkpoint as its record says.
struct Point {
    /// Where replay begins.
    begin: (SegmentNumber, u64),
    /// Its own record, its listings and images: segment, offset, end.
    parts: Vec<(SegmentNumber, u64, u64)>,
}

/// What is on the platter.
pub(crate) struct Ledger {
    store: Option<StoreId>,
    /// Where the next batch of the chain would stand.
    place: (SegmentNumber, u64),
    /// The LSN of the next record.
    expected: Lsn,
    previous: u32,
    recovery_count: RecoveryCount,
    facts: Facts,
    news: News,
    /// Where each batch stands: its end, padding aside, and its first record.
    extents: BTreeMap<(SegmentNumber, u64), (u64, Lsn)>,
    /// Checkpoints that are complete, by the batch that completes them.
    points: BTreeMap<(SegmentNumber, u64), Point>,
    /// The one that recovery would begin with.
    in_force: Option<(SegmentNumber, u64)>,
    /// The disk has lied: what it says proves nothing any more.
    blind: bool,
}

/// What became durable since it was last taken.
#[derive(Default)]
pub(crate) struct News {
    /// Messages, each with the clients whose durable queues it is in.
    pub(crate) stored: Vec<(MessageKey, Vec<Box<str>>)>,
    /// Messages that left a client's queue because of its bound.
    pub(crate) dropped: Vec<(MessageKey, Box<str>)>,
    /// Clients with durable sessions that came, or went, or whose sessions went: whether they are away.
    pub(crate) presence: Vec<(Box<str>, bool)>,
    /// Packet ids whose messages left a client's queue because it had acknowledged them, or they had expired.
    pub(crate) settled: Vec<(Box<str>, u16, Option<MessageKey>)>,
    /// An image of a checkpoint that does not say what the records before it say, in words.
    pub(crate) wrong_image: Option<String>,
    /// The longest queue that a message was put into, and its client.
    pub(crate) longest: Option<(usize, Box<str>)>,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger {
            store: None,
            place: (SegmentNumber(0), 0),
            expected: Lsn(1),
            previous: 0,
            recovery_count: RecoveryCount(0),
            facts: Facts::default(),
            news: News::default(),
            extents: BTreeMap::new(),
            points: BTreeMap::new(),
            in_force: None,
            blind: false,
        }
    }

    /// From now on the disk is not to be believed.
    pub(crate) fn blind(&mut self) {
        self.blind = true;
    }

    /// What the records say; none when the disk is not to be believed.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        (!self.blind).then_some(&self.facts)
    }

    /// The LSN of the last record that is synced.
    pub(crate) fn synced(&self) -> Lsn {
        Lsn(self.expected.0 - 1)
    }

    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Reads on as far as the platter has a chain.
    pub(crate) fn read(&mut self, disk: &Disk) {
        if !self.blind {
            while self.read_batch(disk) || self.next_segment(disk) {}
        }
    }

    /// Whether the broker's last recovery went on where the platter's records end; else where it went on, in words.
    pub(crate) fn is_continued_by(&self, recovery_count: RecoveryCount, last: Lsn) -> Result<(), String> {
        if self.blind || self.recovery_count == recovery_count {
            return Ok(());
        }
        Err(format!(
            "recovery {recovery_count} goes on after record {last}, and no synced segment on the disk does so; the records \
             there end with {}",
            self.synced()
        ))
    }

    /// What these bytes of a segment are needed for.
    pub(crate) fn need(&self, segment: SegmentNumber, from: u64, to: u64) -> Need {
        let point = self.in_force.and_then(|at| self.points.get(&at));
        let begin = point.map_or((SegmentNumber(0), 0), |point| point.begin);
        let batches = self.extents.range((segment, 0)..(SegmentNumber(segment.0 + 1), 0));
        let mut replayed = batches.filter(|(at, _)| **at >= begin);
        if from < HEADER_BYTES {
            // What is yet to be written there needs it as well.
            let coming = (segment == self.place.0).then_some(self.expected);
            let chain = segment > begin.0 || segment == self.place.0;
            let first = replayed.next().map(|(_, (_, first))| *first).or(coming).filter(|_| chain);
            return first.map_or(Need::Message, Need::Record);
        }
        if let Some((_, (_, first))) = replayed.find(|((_, begin), (end, _))| *begin < to && *end > from) {
            return Need::Record(*first);
        }
        let parts = point.into_iter().flat_map(|point| &point.parts);
        let mut parts = parts.filter(|(of, begin, end)| *of == segment && *begin < to && *end > from);
        if parts.next().is_some() { Need::Checkpoint } else { Need::Message }
    }

    /// Whether the last record lies in this segment.
    pub(crate) fn is_newest(&self, segment: SegmentNumber) -> bool {
        segment == self.place.0
    }

    /// The first record that recovery reads.
    pub(crate) fn replay_begins(&self) -> Lsn {
        let point = self.in_force.and_then(|at| self.points.get(&at));
        let begin = point.map_or((SegmentNumber(0), 0), |point| point.begin);
        self.extents.range(begin..).next().map_or(self.expected, |(_, (_, first))| *first)
    }

    fn note_checkpoint(&mut self, disk: &Disk, at: (SegmentNumber, u64), end: u64, checkpoint: &Checkpoint) {
        let part = |place: &Place| (place.segment, place.offset, place.offset + u64::from(place.length));
        let mut parts: Vec<_> = checkpoint.listings.iter().map(part).collect();
        for place in &checkpoint.listings {
            let sectors = (place.offset / SECTOR, (place.offset + u64::from(place.length)).div_ceil(SECTOR));
            let bytes = disk.platter(place.segment, sectors.0 * SECTOR, (sectors.1 - sectors.0) * SECTOR);
            let from = (place.offset % SECTOR) as usize;
            let record = bytes.and_then(|bytes| codec::decode(bytes, from).ok());
            if let Some((Record::Listing(places), ..)) = record {
                parts.extend(places.iter().map(part));
            }
        }
        parts.push((at.0, at.1, end));
        let begin = (checkpoint.begin.segment, checkpoint.begin.offset);
        self.points.insert(at, Point { begin, parts });
    }

    /// A batch says that recovery would begin with this checkpoint.
    fn enforce(&mut self, at: (SegmentNumber, u64)) {
        if self.in_force == Some(at) {
            return;
        }
        self.in_force = Some(at);
        self.points.retain(|other, _| *other >= at);
        if let Some(point) = self.points.get(&at) {
            let begin = point.begin;
            self.extents.retain(|place, _| *place >= begin);
        }
    }

    fn read_batch(&mut self, disk: &Disk) -> bool {
        let (number, offset) = self.place;
        let Some(head) = disk.platter(number, offset, SECTOR) else { return false };
        let Some(length) = batch::claimed_length(head) else { return false };
        let Some(batch) = disk.platter(number, offset, length as u64).and_then(batch::parse) else {
            return false;
        };
        let header = &batch.header;
        let follows = Some(header.store) == self.store
            && header.segment == number
            && header.first == self.expected
            && header.previous == self.previous
            && header.recovery_count == self.recovery_count;
        if !follows {
            return false;
        }
        let mut at = BATCH_HEADER;
        let end = offset + batch.bytes.len() as u64;
        let names = header.checkpoint;
        let mut completes = None;
        for _ in 0..header.records {
            let Ok((record, _, next)) = codec::decode(batch.bytes, at) else { return false };
            if let Record::Checkpoint(checkpoint) = &record {
                completes = Some(checkpoint.clone());
            }
            self.facts.apply(record, self.expected, &mut self.news);
            self.expected = self.expected.next();
            at = next;
        }
        self.extents.insert(self.place, (end, header.first));
        self.previous = batch.checksum;
        let (place, padded) = (self.place, batch.padded());
        if let Some(checkpoint) = completes {
            self.note_checkpoint(disk, place, end, &checkpoint);
        }
        names.into_iter().for_each(|at| self.enforce(at));
        self.place.1 += padded;
        true
    }

    /// Goes to the next segment whose header continues the chain.
    fn next_segment(&mut self, disk: &Disk) -> bool {
        // A store without a record is as good as none: another may begin in its place.
        let begins = self.expected == Lsn(1);
        let continues = |header: &SegmentHeader| {
            let same = self.store == Some(header.store) && header.recovery_count >= self.recovery_count;
            (begins || same) && header.first == self.expected && header.previous == self.previous
        };
        let next = disk.names_behind(self.place.0).find_map(|number| {
            match segment::parse(disk.platter(number, 0, SECTOR)?) {
                FirstSector::Header(header) if header.segment == number && continues(&header) => Some(header),
                FirstSector::Header(_) | FirstSector::NewerFormat(_) | FirstSector::Nothing => None,
            }
        });
        let Some(header) = next else { return false };
        self.store = Some(header.store);
        if header.recovery_count > self.recovery_count {
            // What its writer had not finished when it was gone stays unfinished.
            self.facts.pieces = None;
        }
        self.recovery_count = header.recovery_count;
        self.place = (header.segment, SECTOR);
        true
    }
}

/// Whether any whole batch or header on the platter that was written before this recovery says that the record was synced.
pub(crate) fn is_witnessed(disk: &Disk, lsn: Lsn, recovery: RecoveryCount) -> bool {
    let says = |number: SegmentNumber| {
        let header = match disk.platter(number, 0, SECTOR).map(segment::parse) {
            Some(FirstSector::Header(header)) => header.synced >= lsn && header.recovery_count < recovery,
            _ => false,
        };
        let batch_at = |offset: u64| {
            let length = batch::claimed_length(disk.platter(number, offset, SECTOR)?)?;
            let batch = batch::parse(disk.platter(number, offset, length as u64)?)?;
            Some(batch.header.synced).filter(|_| batch.header.recovery_count < recovery)
        };
        let offsets = (1..).map(|sector| sector * SECTOR);
        let mut offsets = offsets.take_while(|offset| disk.platter(number, *offset, SECTOR).is_some());
        header || offsets.any(|offset| batch_at(offset).is_some_and(|synced| synced >= lsn))
    };
    disk.names_behind(SegmentNumber(0)).any(says)
}
