//! Properties of MQTT 5 packets (§2.2.2).
//!
//! ```text
//! | length of all: 1 to 4 bytes | (identifier: 1 byte | value)* |
//! ```

use super::frame::{put_binary, put_remaining_length};
use super::reader::Reader;
use super::violation::Violation;
use bytes::BufMut;

/// One property of a packet that a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// Whether the payload is UTF-8 (1).
    PayloadFormat(bool),
    /// Seconds after which the message is of no use (2).
    MessageExpiry(u32),
    /// What the payload is (3).
    ContentType(&'a str),
    /// Where an answer goes (8).
    ResponseTopic(&'a str),
    /// What an answer carries (9).
    CorrelationData(&'a [u8]),
    /// The number that deliveries carry for a subscription (11).
    SubscriptionIdentifier(u32),
    /// Seconds that the session outlives its connection (17).
    SessionExpiry(u32),
    /// How the client proves who it is (21).
    AuthenticationMethod(&'a str),
    /// What it proves it with (22).
    AuthenticationData(&'a [u8]),
    /// Whether reasons may be told in words (23).
    RequestProblemInformation(bool),
    /// Seconds before a will is published (24).
    WillDelay(u32),
    /// Whether the client asks where answers should go (25).
    RequestResponseInformation(bool),
    /// A reason in words (31).
    Reason(&'a str),
    /// Unacknowledged QoS 1 and 2 messages that the sender takes at once (33).
    ReceiveMaximum(u16),
    /// The highest topic alias that the sender takes (34).
    TopicAliasMaximum(u16),
    /// A number in place of the topic name (35).
    TopicAlias(u16),
    /// A name and a value of the user's (38).
    User(&'a str, &'a str),
    /// Bytes of the largest packet that the sender takes (39).
    MaximumPacketSize(u32),
}

/// The properties of one kind of packet: a set of identifiers.
#[derive(Clone, Copy)]
pub struct Allowed(u64);

impl Allowed {
    /// CONNECT (§3.1.2.11).
    pub const CONNECT: Allowed = Allowed::of(&[17, 21, 22, 23, 25, 33, 34, 38, 39]);
    /// The will of CONNECT (§3.1.3.2).
    pub const WILL: Allowed = Allowed::of(&[1, 2, 3, 8, 9, 24, 38]);
    /// PUBLISH (§3.3.2.3).
    pub const PUBLISH: Allowed = Allowed::of(&[1, 2, 3, 8, 9, 11, 35, 38]);
    /// PUBACK, PUBREC, PUBREL, PUBCOMP (§3.4.2.2 to §3.7.2.2).
    pub const ACK: Allowed = Allowed::of(&[31, 38]);
    /// SUBSCRIBE (§3.8.2.1).
    pub const SUBSCRIBE: Allowed = Allowed::of(&[11, 38]);
    /// UNSUBSCRIBE (§3.10.2.1).
    pub const UNSUBSCRIBE: Allowed = Allowed::of(&[38]);
    /// DISCONNECT (§3.14.2.2).
    pub const DISCONNECT: Allowed = Allowed::of(&[17, 31, 38]);
    /// AUTH (§3.15.2.2).
    pub const AUTH: Allowed = Allowed::of(&[21, 22, 31, 38]);

    /// All that there are (§2.2.2.2): those that only servers send as well.
    const KNOWN: Allowed = Allowed::of(&[
        1, 2, 3, 8, 9, 11, 17, 18, 19, 21, 22, 23, 24, 25, 26, 28, 31, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
    ]);

    const fn of(identifiers: &[u8]) -> Allowed {
        let mut set = 0;
        let mut at = 0;
        while at < identifiers.len() {
            set |= 1 << identifiers[at];
            at += 1;
        }
        Allowed(set)
    }

    /// Both.
    pub const fn and(self, other: Allowed) -> Allowed {
        Allowed(self.0 | other.0)
    }

    fn has(self, identifier: u8) -> bool {
        identifier < 64 && self.0 & (1 << identifier) != 0
    }
}

/// Reads the properties of one packet, and hands each to `take`; the bytes of all of them.
///
/// # Errors
/// The rule that they break.
pub fn read<'a>(
    reader: &mut Reader<'a>,
    allowed: Allowed,
    take: impl FnMut(Property<'a>),
) -> Result<&'a [u8], Violation> {
    let length = reader.variable()?;
    let bytes = reader.take(length as usize)?;
    read_all(&mut Reader::new(bytes), allowed, take)?;
    Ok(bytes)
}

/// Reads properties without a length before them, up to the end.
///
/// # Errors
/// The rule that they break.
pub fn read_all<'a>(
    reader: &mut Reader<'a>,
    allowed: Allowed,
    mut take: impl FnMut(Property<'a>),
) -> Result<(), Violation> {
    let mut seen = Allowed(0);
    while !reader.is_empty() {
        take(one(reader, allowed, &mut seen)?);
    }
    Ok(())
}

fn one<'a>(reader: &mut Reader<'a>, allowed: Allowed, seen: &mut Allowed) -> Result<Property<'a>, Violation> {
    let identifier = reader.byte()?;
    if !Allowed::KNOWN.has(identifier) {
        return Err(Violation::PropertyUnknown);
    }
    if !allowed.has(identifier) {
        return Err(Violation::PropertyMisplaced); // §2.2.2.2
    }
    if identifier != 38 && seen.has(identifier) {
        return Err(Violation::PropertyTwice);
    }
    seen.0 |= 1 << identifier;
    Ok(match identifier {
        1 => Property::PayloadFormat(flag(reader)?),
        2 => Property::MessageExpiry(reader.u32()?),
        3 => Property::ContentType(reader.string()?),
        8 => Property::ResponseTopic(reader.string()?),
        9 => Property::CorrelationData(reader.binary()?),
        11 => Property::SubscriptionIdentifier(nonzero(reader.variable()?)?),
        17 => Property::SessionExpiry(reader.u32()?),
        21 => Property::AuthenticationMethod(reader.string()?),
        22 => Property::AuthenticationData(reader.binary()?),
        23 => Property::RequestProblemInformation(flag(reader)?),
        24 => Property::WillDelay(reader.u32()?),
        25 => Property::RequestResponseInformation(flag(reader)?),
        31 => Property::Reason(reader.string()?),
        33 => Property::ReceiveMaximum(nonzero(reader.u16()?.into())? as u16),
        34 => Property::TopicAliasMaximum(reader.u16()?),
        35 => Property::TopicAlias(reader.u16()?),
        38 => Property::User(reader.string()?, reader.string()?),
        _ => Property::MaximumPacketSize(nonzero(reader.u32()?)?),
    })
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Violation> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Violation::PropertyValue),
    }
}

fn nonzero(number: u32) -> Result<u32, Violation> {
    if number == 0 { Err(Violation::PropertyValue) } else { Ok(number) }
}

/// Appends a property.
pub fn put(out: &mut impl BufMut, property: &Property<'_>) {
    match *property {
        Property::PayloadFormat(utf8) => put_byte(out, 1, utf8.into()),
        Property::MessageExpiry(seconds) => put_u32(out, 2, seconds),
        Property::ContentType(text) => put_bytes(out, 3, text.as_bytes()),
        Property::ResponseTopic(text) => put_bytes(out, 8, text.as_bytes()),
        Property::CorrelationData(bytes) => put_bytes(out, 9, bytes),
        Property::SubscriptionIdentifier(number) => {
            out.put_u8(11);
            put_remaining_length(out, number as usize);
        }
        Property::SessionExpiry(seconds) => put_u32(out, 17, seconds),
        Property::AuthenticationMethod(text) => put_bytes(out, 21, text.as_bytes()),
        Property::AuthenticationData(bytes) => put_bytes(out, 22, bytes),
        Property::RequestProblemInformation(flag) => put_byte(out, 23, flag.into()),
        Property::WillDelay(seconds) => put_u32(out, 24, seconds),
        Property::RequestResponseInformation(flag) => put_byte(out, 25, flag.into()),
        Property::Reason(text) => put_bytes(out, 31, text.as_bytes()),
        Property::ReceiveMaximum(number) => put_u16(out, 33, number),
        Property::TopicAliasMaximum(number) => put_u16(out, 34, number),
        Property::TopicAlias(number) => put_u16(out, 35, number),
        Property::User(name, value) => {
            put_bytes(out, 38, name.as_bytes());
            put_binary(out, value.as_bytes());
        }
        Property::MaximumPacketSize(bytes) => put_u32(out, 39, bytes),
    }
}

/// The longest reason that is told, in bytes: what a client sent may be quoted in it.
const REASON_MAX: usize = 1024;

/// Appends Reason String (§3.2.2.3.9), cut off where it is too long; nothing for no words.
pub fn put_reason(out: &mut impl BufMut, words: &str) {
    if !words.is_empty() {
        put(out, &Property::Reason(beginning(words, REASON_MAX)));
    }
}

/// At most so many bytes of the text, and whole characters.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends Assigned Client Identifier (§3.2.2.3.7).
pub fn put_assigned_client_id(out: &mut impl BufMut, id: &str) {
    put_bytes(out, 18, id.as_bytes());
}

/// Appends Server Keep Alive, in seconds (§3.2.2.3.14).
pub fn put_server_keep_alive(out: &mut impl BufMut, seconds: u16) {
    put_u16(out, 19, seconds);
}

/// Appends an authentication method, and data unless there is none (§3.2.2.3.17, §3.2.2.3.18).
pub fn put_authentication(out: &mut impl BufMut, method: &str, data: &[u8]) {
    put(out, &Property::AuthenticationMethod(method));
    if !data.is_empty() {
        put(out, &Property::AuthenticationData(data));
    }
}

/// Appends Response Information (§3.2.2.3.15).
pub fn put_response_information(out: &mut impl BufMut, text: &str) {
    put_bytes(out, 26, text.as_bytes());
}

fn put_byte(out: &mut impl BufMut, identifier: u8, byte: u8) {
    out.put_u8(identifier);
    out.put_u8(byte);
}

fn put_u16(out: &mut impl BufMut, identifier: u8, number: u16) {
    out.put_u8(identifier);
    out.put_u16(number);
}

fn put_u32(out: &mut impl BufMut, identifier: u8, number: u32) {
    out.put_u8(identifier);
    out.put_u32(number);
}

fn put_bytes(out: &mut impl BufMut, identifier: u8, bytes: &[u8]) {
    out.put_u8(identifier);
    put_binary(out, bytes);
}

/// Bytes that a length before so many bytes takes (§1.5.5).
pub fn variable_bytes(length: usize) -> usize {
    match length {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        _ => 4,
    }
}
