//! Records on disk. Format 1 has the types up to 15, format 2 those up to 33, format 3 those up to 40.
//!
//! ```text
//! | type (1 byte) | body length (4 bytes, least first) | body |
//! ```
//!
//! In bodies, numbers are LEB128 (7 bits a byte, least first, the top bit says that more follow); strings and
//! lists have their length before them. The types, for ever:
//!
//! | type | record | body |
//! |---|---|---|
//! | 1 | session opened | session, queue, vhost, client, at, horizon |
//! | 2 | session attached | session, horizon |
//! | 3 | session detached | session, at, horizon |
//! | 4 | session removed | session, at |
//! | 5 | subscribed | session, before, list of (filter, subscription) |
//! | 6 | unsubscribed | session, list of filter |
//! | 7 | retained queued | session, list of (position, message, delivery byte), progress: 0, or 1 and topic |
//! | 8 | published | see `put_publication` |
//! | 9 | packet id received | session, packet id |
//! | 10 | packet id released | session, packet id |
//! | 11 | releasing | queue, position |
//! | 12 | settled | queue, position |
//! | 13 | horizon moved | queue, position |
//! | 14 | will set | vhost, client, retain byte, message |
//! | 15 | will removed | vhost, client |
//! | 16 | relocated | message, message's content |
//! | 17 … 24 | checkpoints | see `image` |
//! | 25 … 33 | what AMQP clients declare | see `topology` |
//! | 34 | session expiry set | session, expiry |
//! | 35, 37 | images with what only MQTT 5 has | see `image` |
//! | 36 | will set, with what only MQTT 5 has | vhost, client, retain byte, delay, expiry, message |
//! | 38 | retained expired | vhost, topic, message |
//! | 39 | moved | from: 0, or 1 and queue and position; message, recipient |
//! | 40 (no longer written), 42, 43 | images of queues and messages of which more is to be said | see `image` |
//! | 41 | returned | queue, position, how often |
//! | 44 | retained queued by a subscription with an identifier | identifier, then as 7 |
//! | 45 | published to subscriptions with identifiers | list of (queue, list of identifier), then as 8 |
//!
//! A recipient: queue, position, delivery byte, with 32 in it the session of the group.
//!
//! A subscription: a byte (QoS, then no local 4, retain as published 8, owed nothing 16, has an identifier 32), the identifier.
//! A session's expiry: 0 as the setting has it, else seconds + 1. A will's expiry: 0 none, else seconds + 1.
//!
//! A message: origin byte, level byte, published at, expires at, address, properties, body length, CRC-32C of the
//! body (4 bytes, least first), body. It can be read back and checked by its place alone: the checksum kept there
//! covers everything before the body, and with it the body's own.

mod image;
mod session;
mod topology;

use self::session::{is_of_mqtt_3, put_expiry, put_identifiers, put_subscription, put_will};
use super::checksum;
use super::record::{ClientKey, Granted, Publication, Recipient, Record, Retain};
use crate::ids::{MessageId, QueueId, QueuePosition, SessionId};
use crate::message::{Message, MessageParts, Origin};
use crate::mqtt::packet::PacketId;
use crate::queue::Delivery;
use crate::routing::retained::Progress;
use crate::time::WallTime;
use alloc::vec::Vec;

/// Bytes before a record's body.
pub const RECORD_HEADER: usize = 5;

/// Where something that is read back by its place stands in what was encoded: a message, or a whole image or listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub offset: usize,
    /// Bytes.
    pub length: u32,
    /// Of a message: CRC-32C of what stands before its body. Of a record: CRC-32C of all of it.
    pub checksum: u32,
}

/// Why a record cannot be read although its batch's checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Written by a newer version.
    #[error("record type {0} is unknown to this version of vowmq")]
    UnknownType(u8),
    /// Not as this version writes it.
    #[error("a record of type {0} does not have the form that its type demands")]
    Malformed(u8),
    /// The list of records ends within a record.
    #[error("a record goes beyond the end of its batch")]
    Truncated,
}

/// Appends `record`, without what of it need not survive; where it, or its message, stands, if that is read back.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> Option<Span> {
    let start = out.len();
    out.extend_from_slice(&[type_of(record), 0, 0, 0, 0]);
    let span = put_body(record, out);
    let length = u32::try_from(out.len() - start - RECORD_HEADER).expect("a record fits into a segment");
    out[start + 1..start + RECORD_HEADER].copy_from_slice(&length.to_le_bytes());
    match record {
        Record::Image(_) | Record::Listing(_) => {
            let checksum = checksum(&out[start..]);
            Some(Span { offset: start, length: length + RECORD_HEADER as u32, checksum })
        }
        _ => span,
    }
}

fn type_of(record: &Record) -> u8 {
    match record {
        Record::SessionOpened { .. } => 1,
        Record::SessionAttached { .. } => 2,
        Record::SessionDetached { .. } => 3,
        Record::SessionRemoved { .. } => 4,
        Record::Subscribed { .. } => 5,
        Record::Unsubscribed { .. } => 6,
        Record::RetainedQueued { identifier: 0, .. } => 7,
        Record::RetainedQueued { .. } => 44,
        Record::Published(publication) if publication.recorded_identifiers().next().is_none() => 8,
        Record::Published(_) => 45,
        Record::PacketIdReceived { .. } => 9,
        Record::PacketIdReleased { .. } => 10,
        Record::Releasing { .. } => 11,
        Record::Settled { .. } => 12,
        Record::HorizonMoved { .. } => 13,
        Record::WillSet { will, .. } if is_of_mqtt_3(will) => 14,
        Record::WillSet { .. } => 36,
        Record::WillRemoved { .. } => 15,
        Record::Relocated { .. } => 16,
        Record::Image(image) => image::type_of(image),
        Record::Listing(_) => 23,
        Record::Checkpoint(_) => 24,
        Record::Topology(topology) => topology::type_of(topology),
        Record::RangeSettled { .. } => 31,
        Record::SessionExpirySet { .. } => 34,
        Record::RetainedExpired { .. } => 38,
        Record::Moved { .. } => 39,
        Record::Returned { .. } => 41,
    }
}

fn put_body(record: &Record, out: &mut Vec<u8>) -> Option<Span> {
    match record {
        Record::SessionOpened { session, queue, key, durable: _, at, horizon } => {
            put_numbers(out, &[session.0, queue.0]);
            put_key(out, key);
            put_numbers(out, &[at.0, horizon.0]);
        }
        Record::SessionAttached { session, horizon } => put_numbers(out, &[session.0, horizon.0]),
        Record::SessionDetached { session, at, horizon } => put_numbers(out, &[session.0, at.0, horizon.0]),
        Record::SessionRemoved { session, at } => put_numbers(out, &[session.0, at.0]),
        Record::Subscribed { session, filters, before } => {
            put_numbers(out, &[session.0, before.0, filters.len() as u64]);
            for Granted { filter, subscription, owes } in filters {
                put_bytes(out, filter.as_bytes());
                put_subscription(out, subscription, *owes);
            }
        }
        Record::Unsubscribed { session, filters } => {
            put_numbers(out, &[session.0, filters.len() as u64]);
            filters.iter().for_each(|filter| put_bytes(out, filter.as_bytes()));
        }
        Record::RetainedQueued { session, entries, progress, identifier } => {
            if *identifier > 0 {
                put_number(out, (*identifier).into());
            }
            session::put_retained_queued(out, *session, entries, progress);
        }
        Record::Published(publication) => return Some(put_publication(out, publication)),
        Record::PacketIdReceived { session, packet_id } | Record::PacketIdReleased { session, packet_id } => {
            put_numbers(out, &[session.0, packet_id.get().into()]);
        }
        Record::Releasing { queue, position }
        | Record::Settled { queue, position }
        | Record::HorizonMoved { queue, position } => put_numbers(out, &[queue.0, position.0]),
        Record::WillSet { key, will } => {
            put_key(out, key);
            put_will(out, will);
        }
        Record::WillRemoved { key } => put_key(out, key),
        Record::Relocated { message, content } => {
            put_number(out, message.0);
            return Some(put_message(out, content));
        }
        Record::Image(image) => image::put(out, image),
        Record::Listing(places) => image::put_places(out, places),
        Record::Checkpoint(checkpoint) => image::put_checkpoint(out, checkpoint),
        Record::Topology(topology) => topology::put(out, topology),
        Record::RangeSettled { queue, from, to } => put_numbers(out, &[queue.0, from.0, to.0]),
        Record::Returned { queue, position, returns } => {
            put_numbers(out, &[queue.0, position.0, u64::from(*returns)]);
        }
        Record::SessionExpirySet { session, expiry } => {
            put_number(out, session.0);
            put_expiry(out, *expiry);
        }
        Record::Moved { from, message, to } => put_moved(out, *from, *message, to),
        Record::RetainedExpired { vhost, topic, message } => {
            put_bytes(out, vhost.as_bytes());
            put_bytes(out, topic.as_bytes());
            put_number(out, message.0);
        }
    }
    None
}

fn put_moved(out: &mut Vec<u8>, from: Option<(QueueId, QueuePosition)>, message: MessageId, to: &Recipient) {
    match from {
        None => out.push(0),
        Some((queue, position)) => {
            out.push(1);
            put_numbers(out, &[queue.0, position.0]);
        }
    }
    put_number(out, message.0);
    put_recipient(out, to);
}

/// In a recipient's delivery byte: the group's session follows.
const OF_GROUP: u8 = 32;

fn put_recipient(out: &mut Vec<u8>, recipient: &Recipient) {
    put_numbers(out, &[recipient.queue.0, recipient.position.0]);
    let byte = recipient.delivery.to_byte();
    match recipient.group {
        None => out.push(byte),
        Some(group) => {
            out.push(byte | OF_GROUP);
            put_number(out, group.0);
        }
    }
}

/// Message id, vhost, retain byte, received (0, or 1 and session and packet id), will of (0, or 1 and client), list
/// of dropped (queue, position), list of recipient, message.
fn put_publication(out: &mut Vec<u8>, publication: &Publication) -> Span {
    let identified = publication.recorded_identifiers().count();
    if identified > 0 {
        put_number(out, identified as u64);
        publication.recorded_identifiers().for_each(|(queue, identifiers)| {
            put_number(out, queue.0);
            put_identifiers(out, identifiers);
        });
    }
    put_number(out, publication.message.0);
    put_bytes(out, publication.vhost.as_bytes());
    out.push(publication.retain as u8);
    match publication.received {
        None => out.push(0),
        Some((session, packet_id)) => {
            out.push(1);
            put_numbers(out, &[session.0, packet_id.get().into()]);
        }
    }
    put_optional_text(out, publication.will_of.as_deref());
    put_number(out, publication.dropped.len() as u64);
    publication.dropped.iter().for_each(|(queue, position)| put_numbers(out, &[queue.0, position.0]));
    put_number(out, publication.recipients.iter().filter(|recipient| recipient.durable).count() as u64);
    let durable = publication.recipients.iter().filter(|recipient| recipient.durable);
    durable.for_each(|recipient| put_recipient(out, recipient));
    put_message(out, &publication.content)
}

fn put_message(out: &mut Vec<u8>, message: &Message) -> Span {
    let offset = out.len();
    out.extend_from_slice(&[message.origin as u8, message.level]);
    put_numbers(out, &[message.published_at.0, message.expires_at.0]);
    put_bytes(out, message.address());
    put_bytes(out, message.properties());
    let body = message.body();
    let length = u32::try_from(body.len()).expect("packets are shorter than 2^28 bytes");
    put_number(out, length.into());
    out.extend_from_slice(&checksum(body).to_le_bytes());
    let checksum = checksum(&out[offset..]);
    out.extend_from_slice(body);
    let length = u32::try_from(out.len() - offset).expect("a record fits into a segment");
    Span { offset, length, checksum }
}

fn put_key(out: &mut Vec<u8>, key: &ClientKey) {
    put_bytes(out, key.vhost.as_bytes());
    put_bytes(out, key.client.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_number(out, *number));
}

fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(text.is_some().into());
    text.iter().for_each(|text| put_bytes(out, text.as_bytes()));
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The message that was written as these bytes, if they are all of it and nothing else, and `checksum` is that of its
/// place.
pub fn read_message(bytes: &[u8], checksum: u32) -> Option<Message> {
    let mut fields = Fields { bytes, at: 0, span: None, body: None };
    let message = fields.message()?;
    let (span, body) = (fields.span?, fields.body?);
    let whole = fields.at == bytes.len() && span.checksum == checksum;
    (whole && super::checksum(message.body()) == body).then_some(message)
}

/// The record, read back by its place, that was written as these bytes.
pub fn read_record(bytes: &[u8], checksum: u32) -> Option<Record> {
    let (record, _, end) = decode(bytes, 0).ok()?;
    (end == bytes.len() && super::checksum(bytes) == checksum).then_some(record)
}

/// The type and the end of the record at `offset`, whatever is in it.
pub fn peek(bytes: &[u8], offset: usize) -> Option<(u8, usize)> {
    let header = bytes.get(offset..offset + RECORD_HEADER)?;
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let end = offset + RECORD_HEADER + length;
    (end <= bytes.len()).then_some((header[0], end))
}

/// Reads the record at `offset` in `bytes`; it, where what is read back of it stands in `bytes`, and where the next
/// record begins.
///
/// # Errors
/// Why it cannot be read.
pub fn decode(bytes: &[u8], offset: usize) -> Result<(Record, Option<Span>, usize), CodecError> {
    let header = bytes.get(offset..offset + RECORD_HEADER).ok_or(CodecError::Truncated)?;
    let kind = header[0];
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let end = offset + RECORD_HEADER + length;
    if end > bytes.len() {
        return Err(CodecError::Truncated);
    }
    if !(1..=45).contains(&kind) {
        return Err(CodecError::UnknownType(kind));
    }
    let mut fields = Fields { bytes: &bytes[..end], at: offset + RECORD_HEADER, span: None, body: None };
    let record = fields.record(kind).ok_or(CodecError::Malformed(kind))?;
    if fields.at != end {
        return Err(CodecError::Malformed(kind));
    }
    let span = match record {
        Record::Image(_) | Record::Listing(_) => {
            let whole = &bytes[offset..end];
            Some(Span { offset, length: whole.len() as u32, checksum: checksum(whole) })
        }
        _ => fields.span,
    };
    Ok((record, span, end))
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    span: Option<Span>,
    /// The checksum that the message's body should have.
    body: Option<u32>,
}

impl Fields<'_> {
    fn record(&mut self, kind: u8) -> Option<Record> {
        Some(match kind {
            1 => {
                let (session, queue) = (self.session()?, self.queue()?);
                let key = self.key()?;
                let (at, horizon) = (self.wall()?, self.position()?);
                Record::SessionOpened { session, queue, key, durable: true, at, horizon }
            }
            2 => Record::SessionAttached { session: self.session()?, horizon: self.position()? },
            3 => {
                let (session, at, horizon) = (self.session()?, self.wall()?, self.position()?);
                Record::SessionDetached { session, at, horizon }
            }
            4 => Record::SessionRemoved { session: self.session()?, at: self.wall()? },
            5 => {
                let (session, before) = (self.session()?, MessageId(self.number()?));
                let filters = self.list(|f| {
                    let filter = f.text()?;
                    let (subscription, owes) = f.subscription()?;
                    Some(Granted { filter, subscription, owes })
                })?;
                Record::Subscribed { session, filters, before }
            }
            6 => Record::Unsubscribed { session: self.session()?, filters: self.list(Fields::text)? },
            7 => self.retained_queued(0)?,
            44 => {
                let identifier = self.identifier()?;
                self.retained_queued(identifier)?
            }
            8 => Record::Published(self.publication(Vec::new())?),
            45 => {
                let identifiers = self.list(|f| Some((f.queue()?, f.list(Fields::identifier)?)))?;
                Record::Published(self.publication(identifiers)?)
            }
            9 => Record::PacketIdReceived { session: self.session()?, packet_id: self.packet_id()? },
            10 => Record::PacketIdReleased { session: self.session()?, packet_id: self.packet_id()? },
            11 => Record::Releasing { queue: self.queue()?, position: self.position()? },
            12 => Record::Settled { queue: self.queue()?, position: self.position()? },
            13 => Record::HorizonMoved { queue: self.queue()?, position: self.position()? },
            14 | 36 => Record::WillSet { key: self.key()?, will: self.will(kind == 36)? },
            15 => Record::WillRemoved { key: self.key()? },
            16 => Record::Relocated { message: MessageId(self.number()?), content: self.message()? },
            23 => Record::Listing(self.list(Fields::place)?),
            24 => Record::Checkpoint(self.checkpoint()?),
            25..=30 => Record::Topology(self.topology(kind)?),
            31 => {
                let (queue, from, to) = (self.queue()?, self.position()?, self.position()?);
                Record::RangeSettled { queue, from, to }
            }
            41 => {
                let (queue, position) = (self.queue()?, self.position()?);
                Record::Returned { queue, position, returns: u32::try_from(self.number()?).ok()? }
            }
            34 => Record::SessionExpirySet { session: self.session()?, expiry: self.expiry()? },
            39 => {
                let from = if self.flag()? { Some((self.queue()?, self.position()?)) } else { None };
                Record::Moved { from, message: MessageId(self.number()?), to: self.recipient()? }
            }
            38 => {
                let (vhost, topic, message) = (self.text()?, self.text()?, MessageId(self.number()?));
                Record::RetainedExpired { vhost, topic, message }
            }
            kind => Record::Image(self.image(kind)?),
        })
    }

    fn retained_queued(&mut self, identifier: u32) -> Option<Record> {
        let session = self.session()?;
        let entries =
            self.list(|f| Some((f.position()?, MessageId(f.number()?), Delivery::from_byte(f.byte()?)?)))?;
        let progress = if self.flag()? { Progress::After(self.text()?) } else { Progress::Done };
        Some(Record::RetainedQueued { session, entries, progress, identifier })
    }

    fn publication(&mut self, identifiers: Vec<(QueueId, Vec<u32>)>) -> Option<Publication> {
        let message = MessageId(self.number()?);
        let vhost = self.text()?;
        let retain = match self.byte()? {
            0 => Retain::Not,
            1 => Retain::Set,
            2 => Retain::Clear,
            _ => return None,
        };
        let received = if self.flag()? { Some((self.session()?, self.packet_id()?)) } else { None };
        let will_of = if self.flag()? { Some(self.text()?) } else { None };
        let dropped = self.list(|f| Some((f.queue()?, f.position()?)))?;
        let recipients = self.list(Fields::recipient)?;
        let content = self.message()?;
        Some(Publication {
            message,
            vhost,
            content,
            recipients,
            dropped,
            retain,
            received,
            will_of,
            identifiers,
        })
    }

    fn recipient(&mut self) -> Option<Recipient> {
        let (queue, position, byte) = (self.queue()?, self.position()?, self.byte()?);
        let group = if byte & OF_GROUP != 0 { Some(self.session()?) } else { None };
        let delivery = Delivery::from_byte(byte & !OF_GROUP)?;
        Some(Recipient { queue, position, delivery, durable: true, group })
    }

    fn message(&mut self) -> Option<Message> {
        let from = self.at;
        let origin = Origin::from_byte(self.byte()?)?;
        let level = self.byte()?;
        let (published_at, expires_at) = (self.wall()?, self.wall()?);
        let address = self.span()?;
        let properties = self.span()?;
        let length = usize::try_from(self.number()?).ok()?;
        let sum = self.take(4)?;
        let sum = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
        let offset = self.at;
        self.take(length)?;
        let body = &self.bytes[offset..offset + length];
        let whole = u32::try_from(self.at - from).ok()?;
        self.span = Some(Span { offset: from, length: whole, checksum: checksum(&self.bytes[from..offset]) });
        self.body = Some(sum);
        let parts = MessageParts { address: &self.bytes[address], properties: &self.bytes[properties], body };
        if origin != Origin::Amqp {
            core::str::from_utf8(parts.address).ok()?;
        }
        let mut message = Message::new(origin, level, published_at, parts);
        message.expires_at = expires_at;
        Some(message)
    }

    fn key(&mut self) -> Option<ClientKey> {
        Some(ClientKey { vhost: self.text()?, client: self.text()? })
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok()?;
        // An item takes a byte at least: a false count is noticed before memory is taken for it.
        if count > self.bytes.len() - self.at {
            return None;
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    fn session(&mut self) -> Option<SessionId> {
        self.number().map(SessionId)
    }

    fn queue(&mut self) -> Option<QueueId> {
        self.number().map(QueueId)
    }

    fn position(&mut self) -> Option<QueuePosition> {
        self.number().map(QueuePosition)
    }

    fn wall(&mut self) -> Option<WallTime> {
        self.number().map(WallTime)
    }

    fn packet_id(&mut self) -> Option<PacketId> {
        PacketId::new(u16::try_from(self.number()?).ok()?)
    }

    fn text<T: for<'t> From<&'t str>>(&mut self) -> Option<T> {
        let span = self.span()?;
        core::str::from_utf8(&self.bytes[span]).ok().map(T::from)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn span(&mut self) -> Option<core::ops::Range<usize>> {
        let length = usize::try_from(self.number()?).ok()?;
        let from = self.at;
        self.take(length)?;
        Some(from..from + length)
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if byte & 0x80 == 0 {
                // The tenth byte has room for one bit, and no number ends in a byte that adds nothing.
                return (bits << shift >> shift == bits && (shift == 0 || byte != 0)).then_some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
