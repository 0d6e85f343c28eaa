//! Reading messages back: for deliveries, for retained messages, for compaction. Several that lie near one another are
//! read at once; whoever waits goes on when they arrive, and nobody else waits.
//!
//! What is read is held against its checksum. What cannot be read is reported and tried again; an error of the disk
//! may pass, but bytes that are wrong every time stay wrong: such a message is passed by, never delivered, and stays
//! where it is for `inspect` and `salvage`.

use super::Broker;
use crate::durable::codec;
use crate::durable::place::Place;
use crate::event::Event;
use crate::ids::{MessageId, OpId, QueueId, QueuePosition, SegmentNumber, SessionId};
use crate::input::{DiskError, DiskReply};
use crate::marks::reached;
use crate::message::Message;
use crate::output::DiskRequest;
use crate::queue::Stage;
use crate::time::Monotonic;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes read at once, about; a larger message is read whole.
const PIECE_BYTES: u64 = 256 * 1024;

/// Bytes between two messages that are read with them rather than passed by.
const GAP_BYTES: u64 = 16 * 1024;

/// Messages looked at for one read ahead.
const AHEAD: usize = 2048;

/// Times that wrong bytes are read before they are believed to be so.
const TRIES: u32 = 3;

/// Milliseconds between two tries.
const RETRY_MS: u64 = 1000;

/// Who waits for a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reader {
    /// The deliveries of a session.
    Deliveries(SessionId),
    /// The deliveries of a declared queue.
    Queue(QueueId),
    /// What a session is owed of the retained messages.
    Owed(SessionId),
    /// Compaction.
    Compaction,
}

/// Messages on their way.
#[derive(Default)]
pub(crate) struct Fetches {
    jobs: BTreeMap<OpId, Job>,
    waiting: BTreeMap<MessageId, Waiting>,
    /// To be tried again at this time.
    retries: BTreeSet<(Monotonic, MessageId)>,
    /// Wrong every time.
    unreadable: BTreeSet<MessageId>,
}

struct Job {
    segment: SegmentNumber,
    offset: u64,
    messages: Vec<(MessageId, Place)>,
}

#[derive(Default)]
struct Waiting {
    readers: BTreeSet<Reader>,
    tries: u32,
    reported: bool,
}

impl Fetches {
    /// Whether the message is wrong every time it is read.
    pub(crate) fn is_unreadable(&self, message: MessageId) -> bool {
        self.unreadable.contains(&message)
    }

    /// Whether the reader waits for the message.
    pub(crate) fn is_waiting(&self, reader: Reader, message: MessageId) -> bool {
        self.waiting.get(&message).is_some_and(|waiting| waiting.readers.contains(&reader))
    }

    /// Whether something of the segment is being read.
    pub(crate) fn reads(&self, segment: SegmentNumber) -> bool {
        self.jobs.values().any(|job| job.segment == segment)
    }

    /// When something is to be tried again.
    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        self.retries.first().map(|(at, _)| *at)
    }
}

impl Broker {
    /// Has the message at `position` of the session's queue read, and those behind it that lie near.
    pub(crate) fn fetch_for_queue(&mut self, session: SessionId, position: QueuePosition) {
        let queue = self.state.session(session).map(|session| session.queue);
        if let Some(queue) = queue {
            self.fetch_entries(Reader::Deliveries(session), queue, position);
        }
    }

    /// Has the message at `position` of a queue or lane read, and those behind it that lie near.
    pub(crate) fn fetch_entries(&mut self, reader: Reader, queue: QueueId, position: QueuePosition) {
        let Some(queue) = self.state.queue(queue) else { return };
        let most = PIECE_BYTES.min(self.settings.limits.cache_bytes / 4);
        let mut bytes = 0;
        let mut wanted = Vec::new();
        for entry in queue.iter_from(position).take(AHEAD).filter(|entry| entry.stage == Stage::Queued) {
            if self.state.messages.message(entry.message).is_some()
                || self.fetches.is_unreadable(entry.message)
            {
                continue;
            }
            let place = self.state.messages.find(entry.message).and_then(|known| known.place);
            let Some(place) = place else { continue };
            bytes += u64::from(place.length);
            if !wanted.is_empty() && bytes > most {
                break;
            }
            wanted.push((entry.message, place));
        }
        self.fetch(reader, wanted);
    }

    /// Has the messages read; `reader` goes on when the first of them is there, or known to be unreadable.
    pub(crate) fn fetch(&mut self, reader: Reader, wanted: Vec<(MessageId, Place)>) {
        let first = wanted.first().map(|(message, _)| *message);
        self.order_reads(wanted, |message| (Some(message) == first).then_some(reader));
    }

    /// Has the messages read; `reader` waits for all of them.
    pub(crate) fn fetch_all(&mut self, reader: Reader, wanted: Vec<(MessageId, Place)>) {
        self.order_reads(wanted, |_| Some(reader));
    }

    fn order_reads(
        &mut self,
        mut wanted: Vec<(MessageId, Place)>,
        reader: impl Fn(MessageId) -> Option<Reader>,
    ) {
        let waiting = &mut self.fetches.waiting;
        wanted.retain(|(message, _)| {
            let is_new = !waiting.contains_key(message);
            waiting.entry(*message).or_default().readers.extend(reader(*message));
            is_new
        });
        wanted.sort_unstable_by_key(|(_, place)| (place.segment, place.offset));
        let mut wanted = wanted.into_iter().peekable();
        while let Some(one) = wanted.next() {
            let mut job = Job { segment: one.1.segment, offset: one.1.offset, messages: Vec::from([one]) };
            let mut end = one.1.offset + u64::from(one.1.length);
            while let Some(next) = wanted.next_if(|(_, place)| {
                place.segment == job.segment
                    && place.offset <= end + GAP_BYTES
                    && place.offset + u64::from(place.length) - job.offset <= 2 * PIECE_BYTES
            }) {
                end = end.max(next.1.offset + u64::from(next.1.length));
                job.messages.push(next);
            }
            reached!("message read back");
            self.counters.reads += 1;
            let Job { segment, offset, .. } = job;
            let op = self.outbox.disk(DiskRequest::Read { segment, offset, length: end - offset });
            self.fetches.jobs.insert(op, job);
        }
    }

    /// A disk operation ended; true: it was one of these.
    pub(super) fn fetched(&mut self, op: OpId, result: &Result<DiskReply, DiskError>) -> bool {
        let Some(job) = self.fetches.jobs.remove(&op) else { return false };
        let mut readers = BTreeSet::new();
        for (message, place) in job.messages {
            let outcome = match result {
                Ok(DiskReply::Bytes(bytes)) => {
                    let from = (place.offset - job.offset) as usize;
                    let bytes = bytes.get(from..from + place.length as usize);
                    let read = bytes.and_then(|bytes| codec::read_message(bytes, place.checksum));
                    read.ok_or(Wrong::Bytes)
                }
                Ok(_) => Err(Wrong::Bytes),
                Err(error) => Err(Wrong::Disk(error.message.clone())),
            };
            match outcome {
                Ok(content) => self.read_back(message, content, &mut readers),
                Err(wrong) => self.not_read(message, place, wrong, &mut readers),
            }
        }
        self.wake_readers(readers);
        true
    }

    fn wake_readers(&mut self, readers: BTreeSet<Reader>) {
        for reader in readers {
            match reader {
                Reader::Deliveries(session) => self.pump(session),
                Reader::Queue(queue) => self.serve_queue(queue),
                Reader::Owed(session) => self.serve_owed(session),
                Reader::Compaction => {}
            }
        }
    }

    /// Tries again what could not be read.
    pub(super) fn fetch_again(&mut self) {
        let mut readers = BTreeSet::new();
        while let Some(&(at, message)) = self.fetches.retries.first()
            && at <= self.now.monotonic
        {
            self.fetches.retries.pop_first();
            let place = self.state.messages.find(message).and_then(|known| known.place);
            let Some(place) = place else {
                // It has gone meanwhile: expired, or dropped. Who waits for it goes on without it.
                readers.extend(self.fetches.waiting.remove(&message).unwrap_or_default().readers);
                continue;
            };
            let (segment, offset, length) = (place.segment, place.offset, place.length.into());
            let op = self.outbox.disk(DiskRequest::Read { segment, offset, length });
            let messages = Vec::from([(message, place)]);
            self.fetches.jobs.insert(op, Job { segment, offset, messages });
        }
        self.wake_readers(readers);
    }

    fn read_back(&mut self, message: MessageId, content: Message, readers: &mut BTreeSet<Reader>) {
        let waiting = self.fetches.waiting.remove(&message).unwrap_or_default();
        if waiting.reported {
            self.event(|| Event::MessageReadable { message });
        }
        if waiting.readers.contains(&Reader::Compaction) {
            self.relocate(message, content.clone());
        }
        self.state.messages.read(message, content);
        readers.extend(waiting.readers);
    }

    fn not_read(&mut self, message: MessageId, place: Place, wrong: Wrong, readers: &mut BTreeSet<Reader>) {
        if self.state.messages.find(message).is_none() {
            // Nobody needs it any more.
            readers.extend(self.fetches.waiting.remove(&message).unwrap_or_default().readers);
            return;
        }
        let waiting = self.fetches.waiting.entry(message).or_default();
        let first = !core::mem::replace(&mut waiting.reported, true);
        let mut given_up = false;
        if wrong == Wrong::Bytes {
            waiting.tries += 1;
            given_up = waiting.tries >= TRIES;
        }
        let compaction = waiting.readers.remove(&Reader::Compaction);
        if given_up {
            reached!("message unreadable");
            let waiting = self.fetches.waiting.remove(&message).unwrap_or_default();
            readers.extend(waiting.readers);
            self.fetches.unreadable.insert(message);
        } else {
            self.fetches.retries.insert((self.now.monotonic.plus_ms(RETRY_MS), message));
        }
        if compaction {
            self.upkeep.cannot_move(place.segment);
        }
        if first || given_up {
            self.counters.unreadable += u64::from(first);
            let error = match wrong {
                Wrong::Bytes => String::from("its bytes are not those that were written"),
                Wrong::Disk(error) => error,
            };
            let (segment, offset) = (place.segment, place.offset);
            self.event(|| Event::MessageUnreadable { message, segment, offset, error, given_up });
        }
    }
}

/// Why a message was not read.
#[derive(PartialEq, Eq)]
enum Wrong {
    /// The bytes do not have their checksum.
    Bytes,
    /// The disk failed.
    Disk(String),
}
