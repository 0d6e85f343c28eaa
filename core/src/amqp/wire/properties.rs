//! The properties of a message (§4.2.6.1, §1.8): kept as the bytes they came as, read one by one.
//!
//! ```text
//! | flags: 2, the first property highest, the lowest two unused | the values of those that are there, in their order |
//! ```

use super::field::Field;
use super::reader::Reader;
use super::short_str::ShortStr;
use super::table::Table;
use super::value::Value;
use super::violation::{Rule, Violation};
use super::writer::Writer;
use alloc::borrow::Cow;
use bytes::{Bytes, BytesMut};
use core::ops::Deref;

/// Says that more flags follow, which no class of AMQP 0-9-1 needs.
const CONTINUED: u16 = 1;

/// Flags that belong to no property.
const UNUSED: u16 = 3;

/// How a property's value is written.
#[derive(Clone, Copy)]
enum Shape {
    ShortString,
    Table,
    Octet,
    Timestamp,
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident = $index:literal $shape:ident, $get:ident -> $type:ty, $set:ident;)*) => {
        /// One of the fourteen.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Property {
            $($(#[$doc])* $name = $index,)*
        }

        /// The shapes, in the order of the wire.
        const SHAPES: [Shape; 14] = [$(Shape::$shape),*];

        impl<B: Deref<Target = [u8]>> Properties<B> {
            $(
                $(#[$doc])*
                pub fn $get(&self) -> Option<$type> {
                    self.find(Property::$name).and_then(|bytes| Field::read(&mut Reader::new(bytes)).ok())
                }
            )*
        }

        impl PropertiesBuilder {
            $(
                $(#[$doc])*
                pub fn $set(mut self, value: $type) -> PropertiesBuilder {
                    let mut out = BytesMut::new();
                    value.write(&mut Writer::new(&mut out));
                    self.values[Property::$name as usize] = Some(out.freeze());
                    self
                }
            )*
        }
    };
}

properties! {
    /// MIME type of the body.
    ContentType = 0 ShortString, content_type -> ShortStr<'_>, set_content_type;
    /// MIME encoding of the body.
    ContentEncoding = 1 ShortString, content_encoding -> ShortStr<'_>, set_content_encoding;
    /// Headers: the application's, and those that the broker looks at. Decoded anew with every call.
    Headers = 2 Table, headers -> Table, set_headers;
    /// 2 is persistent, anything else is not.
    DeliveryMode = 3 Octet, delivery_mode -> u8, set_delivery_mode;
    /// Higher goes first.
    Priority = 4 Octet, priority -> u8, set_priority;
    /// What it belongs to.
    CorrelationId = 5 ShortString, correlation_id -> ShortStr<'_>, set_correlation_id;
    /// Where the answer is to go.
    ReplyTo = 6 ShortString, reply_to -> ShortStr<'_>, set_reply_to;
    /// Milliseconds to live, in decimal digits; not checked here.
    Expiration = 7 ShortString, expiration -> ShortStr<'_>, set_expiration;
    /// The application's name for it.
    MessageId = 8 ShortString, message_id -> ShortStr<'_>, set_message_id;
    /// Seconds since 1970.
    Timestamp = 9 Timestamp, timestamp -> u64, set_timestamp;
    /// The application's kind of message.
    Type = 10 ShortString, message_type -> ShortStr<'_>, set_message_type;
    /// Who published it.
    UserId = 11 ShortString, user_id -> ShortStr<'_>, set_user_id;
    /// What published it.
    AppId = 12 ShortString, app_id -> ShortStr<'_>, set_app_id;
    /// Unused.
    ClusterId = 13 ShortString, cluster_id -> ShortStr<'_>, set_cluster_id;
}

impl Property {
    fn flag(self) -> u16 {
        flag(self as usize)
    }
}

fn flag(index: usize) -> u16 {
    0x8000 >> index
}

/// Index and shape of each property that the flags say is there.
fn there(flags: u16) -> impl Iterator<Item = (usize, Shape)> {
    let mut left = flags & !UNUSED;
    core::iter::from_fn(move || {
        let index = left.leading_zeros() as usize;
        let shape = *SHAPES.get(index)?; // none left: 16
        left &= !flag(index);
        Some((index, shape))
    })
}

/// The properties of a message, encoded and valid; `B` has the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties<B = Bytes> {
    bytes: B,
}

impl Properties {
    /// None at all.
    pub const EMPTY: Properties = Properties { bytes: Bytes::from_static(&[0, 0]) };

    /// Checks `bytes` once, from their flags on, and keeps them. Headers too are looked through to their end.
    ///
    /// # Errors
    /// `PropertyFlagsContinued`, or what is wrong with a value.
    pub fn decode(bytes: Bytes) -> Result<Properties, Violation> {
        match check(&bytes) {
            Ok(()) => Ok(Properties { bytes }),
            Err(rule) => Err(Violation::outside(rule, "properties")),
        }
    }
}

impl<B: Deref<Target = [u8]>> Properties<B> {
    /// Bytes that `decode` has checked before.
    pub(crate) fn checked_before(bytes: B) -> Properties<B> {
        Properties { bytes }
    }

    /// The bytes: flags and values.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, which may be borrowed.
    pub fn as_cow(&self) -> Properties<Cow<'_, [u8]>> {
        Properties { bytes: Cow::Borrowed(&self.bytes) }
    }

    /// To change some of them. The others stay as they are, byte for byte.
    pub fn edit(&self) -> PropertiesBuilder {
        let mut values = [const { None }; 14];
        self.walk(|index, start, end| {
            values[index] = Some(Bytes::copy_from_slice(&self.bytes[start..end]));
            true
        });
        PropertiesBuilder { values }
    }

    /// The first header of that name. Nothing else is decoded.
    pub fn header(&self, name: &str) -> Option<Value> {
        Table::find(self.encoded_headers()?, ShortStr::new(name.as_bytes())?).ok().flatten()
    }

    /// The headers as they came, an encoded table without its length.
    pub(crate) fn encoded_headers(&self) -> Option<&[u8]> {
        Reader::new(self.find(Property::Headers)?).long_str().ok()
    }

    /// The encoded value of a property, if it is there. Most are not.
    #[inline]
    fn find(&self, property: Property) -> Option<&[u8]> {
        if self.flags() & property.flag() == 0 { None } else { self.value(property) }
    }

    fn value(&self, property: Property) -> Option<&[u8]> {
        let mut found = None;
        self.walk(|index, start, end| {
            found = (index == property as usize).then_some(start..end);
            found.is_none()
        });
        self.bytes.get(found?)
    }

    fn flags(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    /// Calls `value` with the index of each property that is there and where its value is, until it says that it has enough.
    #[inline]
    fn walk(&self, mut value: impl FnMut(usize, usize, usize) -> bool) {
        let mut start = 2;
        for (index, shape) in there(self.flags()) {
            let end = start + length(shape, &self.bytes[start..]);
            if !value(index, start, end) {
                return;
            }
            start = end;
        }
    }
}

impl Properties<Cow<'_, [u8]>> {
    /// The same, with its own bytes.
    pub fn into_owned(self) -> Properties {
        Properties { bytes: self.bytes.into_owned().into() }
    }
}

impl From<Properties> for Properties<Cow<'_, [u8]>> {
    fn from(properties: Properties) -> Self {
        Properties { bytes: Cow::Owned(properties.bytes.into()) }
    }
}

/// How long a valid value is that `bytes` begins with.
fn length(shape: Shape, bytes: &[u8]) -> usize {
    match shape {
        Shape::ShortString => 1 + usize::from(bytes[0]),
        Shape::Table => 4 + u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize,
        Shape::Octet => 1,
        Shape::Timestamp => 8,
    }
}

fn check(bytes: &[u8]) -> Result<(), Rule> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u16()?;
    if flags & CONTINUED != 0 {
        return Err(Rule::PropertyFlagsContinued);
    }
    for (_, shape) in there(flags) {
        match shape {
            Shape::ShortString => reader.short_str().map(drop)?,
            Shape::Table => Table::check(reader.long_str()?, 1)?,
            Shape::Octet => reader.u8().map(drop)?,
            Shape::Timestamp => reader.u64().map(drop)?,
        }
    }
    reader.end()
}

/// Properties in the making, each as its bytes.
#[derive(Clone, Debug, Default)]
pub struct PropertiesBuilder {
    values: [Option<Bytes>; 14],
}

impl PropertiesBuilder {
    /// Without any.
    pub fn new() -> PropertiesBuilder {
        PropertiesBuilder::default()
    }

    /// Takes one away.
    pub fn remove(mut self, property: Property) -> PropertiesBuilder {
        self.values[property as usize] = None;
        self
    }

    /// Puts them together. Their headers must not be nested deeper than a decoder takes.
    pub fn build(&self) -> Properties {
        let there = || self.values.iter().enumerate().filter_map(|(i, v)| v.as_ref().map(|v| (i, v)));
        let flags = there().fold(0, |flags, (index, _)| flags | flag(index));
        let mut out = BytesMut::with_capacity(2 + there().map(|(_, value)| value.len()).sum::<usize>());
        out.extend_from_slice(&u16::to_be_bytes(flags));
        there().for_each(|(_, value)| out.extend_from_slice(value));
        Properties { bytes: out.freeze() }
    }
}
