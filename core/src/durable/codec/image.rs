//! The records of a checkpoint.
//!
//! | type | record | body |
//! |---|---|---|
//! | 17 | image of a session | session, queue, vhost, client, away (0, or 1 and since when), horizon, next position, record that last changed it, list of packet id |
//! | 18 | image of subscriptions | session, part, as of which record, list of (filter, subscription), list of owed (filter, QoS byte, before, 0, or 1 and topic) |
//! | 19 | image of a stretch of a queue | queue, first, end, list of (position less the one before, message, delivery byte, releasing byte) |
//! | 20 | image of a stretch of messages | stretch, list of (message, place, body length, level byte) |
//! | 21 | image of retained topics | vhost, page, list of (topic, message, record) |
//! | 22 | image of a will | vhost, client, retain byte, message |
//! | 35 | image of a session with an expiry of its own | expiry, then as 17 |
//! | 37 | image of a will with what only MQTT 5 has | vhost, client, retain byte, delay, expiry, message |
//! | 40 | image of a stretch of a queue with entries of groups | list of (position, session of the group), then as 19 |
//! | 42 | image of a stretch of a queue with notes | list of (position, 0 or 1 and the session of the group, returns, list of identifier), then as 19 |
//! | 43 | image of a stretch of messages, some of which expire | list of (message, when), then as 20 |
//! | 23 | listing | list of place |
//! | 24 | checkpoint | begin: segment, offset, first record, checksum before (4), recovery count; list of place of listing; images of sessions; list of segment (less the one before); next session, queue, message |
//!
//! A place: segment, offset, length, checksum (4 bytes, least first).

use super::session::{is_of_mqtt_3, put_expiry, put_identifiers, put_subscription, put_will};
use super::{Fields, put_bytes, put_key, put_number, put_numbers, put_optional_text, topology};
use crate::durable::place::Place;
use crate::durable::record::{Begin, Checkpoint, Image, SessionExpiry};
use crate::durable::state::Owed;
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, RecoveryCount, SegmentNumber, SessionId};
use crate::message::table::{self, Known};
use crate::mqtt::packet::QoS;
use crate::queue::{self, Delivery, Entry, Note, Stage};
use crate::time::WallTime;
use alloc::vec::Vec;

pub(super) fn type_of(image: &Image) -> u8 {
    match image {
        Image::Session { expiry: SessionExpiry::AsSet, .. } => 17,
        Image::Session { .. } => 35,
        Image::Subscriptions { .. } => 18,
        Image::Queue { notes, .. } if notes.is_empty() => 19,
        Image::Queue { .. } => 42,
        Image::Messages { expiries, .. } if expiries.is_empty() => 20,
        Image::Messages { .. } => 43,
        Image::Retained { .. } => 21,
        Image::Will { will, .. } if is_of_mqtt_3(will) => 22,
        Image::Will { .. } => 37,
        Image::Exchange(_) => 32,
        Image::DeclaredQueue(_) => 33,
    }
}

pub(super) fn put(out: &mut Vec<u8>, image: &Image) {
    match image {
        Image::Session { session, queue, key, expiry, away_since, horizon, next, changed, received } => {
            if *expiry != SessionExpiry::AsSet {
                put_expiry(out, *expiry);
            }
            put_numbers(out, &[session.0, queue.0]);
            put_key(out, key);
            put_optional(out, away_since.map(|at| at.0));
            put_numbers(out, &[horizon.0, next.0, changed.0, received.len() as u64]);
            received.iter().for_each(|id| put_number(out, id.get().into()));
        }
        Image::Subscriptions { session, part, as_of, filters, owed } => {
            put_numbers(out, &[session.0, (*part).into(), as_of.0, filters.len() as u64]);
            for (filter, subscription) in filters {
                put_bytes(out, filter.as_bytes());
                put_subscription(out, subscription, true);
            }
            put_number(out, owed.len() as u64);
            owed.iter().for_each(|owed| put_owed(out, owed));
        }
        Image::Queue { queue, first, end, entries, notes } => {
            if !notes.is_empty() {
                put_number(out, notes.len() as u64);
                notes.iter().for_each(|(position, note)| put_note(out, *position, note));
            }
            put_numbers(out, &[queue.0, first.0, end.0, entries.len() as u64]);
            let mut last = first.0;
            for Entry { position, message, delivery, stage } in entries {
                put_numbers(out, &[position.0 - last, message.0]);
                out.extend_from_slice(&[delivery.to_byte(), u8::from(*stage == Stage::Releasing)]);
                last = position.0;
            }
        }
        Image::Messages { chunk, messages, expiries } => {
            if !expiries.is_empty() {
                put_number(out, expiries.len() as u64);
                expiries.iter().for_each(|(message, at)| put_numbers(out, &[message.0, at.0]));
            }
            put_numbers(out, &[*chunk, messages.len() as u64]);
            for (message, known) in messages {
                put_number(out, message.0);
                put_place(out, &known.place.expect("images have what is on disk"));
                put_number(out, known.body_bytes.into());
                out.push(known.level);
            }
        }
        Image::Retained { vhost, page, topics } => {
            put_bytes(out, vhost.as_bytes());
            put_numbers(out, &[*page, topics.len() as u64]);
            for (topic, message, changed) in topics {
                put_bytes(out, topic.as_bytes());
                put_numbers(out, &[message.0, changed.0]);
            }
        }
        Image::Will { key, will } => {
            put_key(out, key);
            put_will(out, will);
        }
        Image::Exchange(image) => topology::put_exchange_image(out, image),
        Image::DeclaredQueue(image) => topology::put_queue_image(out, image),
    }
}

pub(super) fn put_places(out: &mut Vec<u8>, places: &[Place]) {
    put_number(out, places.len() as u64);
    places.iter().for_each(|place| put_place(out, place));
}

pub(super) fn put_checkpoint(out: &mut Vec<u8>, checkpoint: &Checkpoint) {
    let Begin { segment, offset, first, previous, recovery_count } = checkpoint.begin;
    put_numbers(out, &[segment.0, offset, first.0]);
    out.extend_from_slice(&previous.to_le_bytes());
    put_number(out, recovery_count.0.into());
    put_places(out, &checkpoint.listings);
    put_numbers(out, &[checkpoint.sessions, checkpoint.needed.len() as u64]);
    let mut last = 0;
    for segment in &checkpoint.needed {
        put_number(out, segment.0 - last);
        last = segment.0;
    }
    put_numbers(out, &[checkpoint.next_session.0, checkpoint.next_queue.0, checkpoint.next_message.0]);
}

fn put_owed(out: &mut Vec<u8>, owed: &Owed) {
    let Owed { filter, qos, before, after } = owed;
    put_bytes(out, filter.as_bytes());
    out.push(*qos as u8);
    put_number(out, before.0);
    put_optional_text(out, after.as_deref());
}

fn put_note(out: &mut Vec<u8>, position: QueuePosition, note: &Note) {
    put_number(out, position.0);
    put_optional(out, note.group.map(|group| group.0));
    put_number(out, u64::from(note.returns));
    put_identifiers(out, &note.identifiers);
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_numbers(out, &[place.segment.0, place.offset, place.length.into()]);
    out.extend_from_slice(&place.checksum.to_le_bytes());
}

fn put_optional(out: &mut Vec<u8>, number: Option<u64>) {
    match number {
        None => out.push(0),
        Some(number) => {
            out.push(1);
            put_number(out, number);
        }
    }
}

impl Fields<'_> {
    pub(super) fn image(&mut self, kind: u8) -> Option<Image> {
        Some(match kind {
            17 | 35 => {
                let expiry = if kind == 35 { self.expiry()? } else { SessionExpiry::AsSet };
                let (session, queue, key) = (self.session()?, self.queue()?, self.key()?);
                let away_since = if self.flag()? { Some(self.wall()?) } else { None };
                let (horizon, next) = (self.position()?, self.position()?);
                let changed = Lsn(self.number()?);
                let received = self.list(Fields::packet_id)?;
                Image::Session { session, queue, key, expiry, away_since, horizon, next, changed, received }
            }
            18 => {
                let (session, part) = (self.session()?, u32::try_from(self.number()?).ok()?);
                let as_of = Lsn(self.number()?);
                let filters = self.list(|f| Some((f.text()?, f.subscription()?.0)))?;
                Image::Subscriptions { session, part, as_of, filters, owed: self.list(Fields::owed)? }
            }
            19 => self.queue_image(Vec::new())?,
            40 => {
                let of_group = |f: &mut Self| {
                    Some((f.position()?, Note { group: Some(f.session()?), ..Note::default() }))
                };
                let notes = self.list(of_group)?;
                self.queue_image(notes)?
            }
            42 => {
                let notes = self.list(Self::note)?;
                self.queue_image(notes)?
            }
            20 => self.messages_image(Vec::new())?,
            43 => {
                let expiries = self.list(|f| Some((MessageId(f.number()?), WallTime(f.number()?))))?;
                self.messages_image(expiries)?
            }
            21 => {
                let (vhost, page) = (self.text()?, self.number()?);
                let topics = self.list(|f| Some((f.text()?, MessageId(f.number()?), Lsn(f.number()?))))?;
                Image::Retained { vhost, page, topics }
            }
            22 | 37 => Image::Will { key: self.key()?, will: self.will(kind == 37)? },
            32 => Image::Exchange(self.exchange_image()?),
            33 => Image::DeclaredQueue(self.declared_queue_image()?),
            _ => return None,
        })
    }

    fn owed(&mut self) -> Option<Owed> {
        let (filter, qos) = (self.text()?, QoS::from_bits(self.byte()?)?);
        let before = MessageId(self.number()?);
        let after = if self.flag()? { Some(self.text()?) } else { None };
        Some(Owed { filter, qos, before, after })
    }

    fn note(&mut self) -> Option<(QueuePosition, Note)> {
        let position = self.position()?;
        let group = if self.flag()? { Some(self.session()?) } else { None };
        let returns = u32::try_from(self.number()?).ok()?;
        let identifiers = self.list(Fields::identifier)?.into();
        Some((position, Note { group, returns, identifiers }))
    }

    fn queue_image(&mut self, notes: Vec<(QueuePosition, Note)>) -> Option<Image> {
        let queue = QueueId(self.number()?);
        let (first, end) = (self.position()?, self.position()?);
        let mut next = first.0;
        let mut last = first.0;
        let entries = self.list(|f| {
            let position = last.checked_add(f.number()?)?;
            let message = MessageId(f.number()?);
            let delivery = Delivery::from_byte(f.byte()?)?;
            let stage = if f.flag()? { Stage::Releasing } else { Stage::Queued };
            if position < next || message.0 >= 1 << 56 {
                return None;
            }
            (last, next) = (position, position.checked_add(1)?);
            Some(Entry { position: QueuePosition(position), message, delivery, stage })
        })?;
        let stretch = (first.0 / queue::CHUNK + 1).checked_mul(queue::CHUNK)?;
        (next <= end.0 && end.0 <= stretch).then_some(Image::Queue { queue, first, end, entries, notes })
    }

    fn messages_image(&mut self, expiries: Vec<(MessageId, WallTime)>) -> Option<Image> {
        let chunk = self.number()?;
        let mut next = 0;
        let messages = self.list(|f| {
            let message = f.number()?;
            let place = f.place()?;
            let body_bytes = u32::try_from(f.number()?).ok()?;
            if message < next || message / table::CHUNK != chunk {
                return None;
            }
            next = message.checked_add(1)?;
            let level = f.byte()?;
            Some((MessageId(message), Known { place: Some(place), body_bytes, level, references: 0 }))
        })?;
        Some(Image::Messages { chunk, messages, expiries })
    }

    pub(super) fn place(&mut self) -> Option<Place> {
        let segment = self.number().filter(|segment| (1..1 << 32).contains(segment))?;
        let offset = self.number().filter(|offset| *offset < 1 << 32)?;
        let length = u32::try_from(self.number()?).ok()?;
        let checksum = self.four()?;
        Some(Place { segment: SegmentNumber(segment), offset, length, checksum })
    }

    pub(super) fn checkpoint(&mut self) -> Option<Checkpoint> {
        let (segment, offset) = (SegmentNumber(self.number()?), self.number()?);
        let (first, previous) = (Lsn(self.number()?), self.four()?);
        let recovery_count = RecoveryCount(u32::try_from(self.number()?).ok()?);
        let mut last = 0u64;
        Some(Checkpoint {
            begin: Begin { segment, offset, first, previous, recovery_count },
            listings: self.list(Fields::place)?,
            sessions: self.number()?,
            needed: self.list(|f| {
                last = last.checked_add(f.number()?)?;
                Some(SegmentNumber(last))
            })?,
            next_session: SessionId(self.number()?),
            next_queue: QueueId(self.number()?),
            next_message: MessageId(self.number()?),
        })
    }

    fn four(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}
