//! Finds the frames in a stream of bytes, and puts frames around what is sent (§4.2.3).
//!
//! ```text
//! | kind: 1 | channel: 2 | size of the payload: 4 | payload | CE |
//! ```

use super::method::MethodId;
use super::violation::{Rule, Violation};
use super::writer::Writer;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use core::fmt;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 7;

/// Bytes of a frame beside its payload.
pub const FRAME_OVERHEAD: usize = FRAME_HEADER_BYTES + 1;

/// The last byte of every frame.
pub const FRAME_END: u8 = 0xce;

/// A heartbeat, whole.
pub const HEARTBEAT: [u8; FRAME_OVERHEAD] = [8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// The number of a channel; 0 is the connection itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelNumber(pub u16);

impl ChannelNumber {
    /// The connection itself.
    pub const CONNECTION: ChannelNumber = ChannelNumber(0);
}

impl fmt::Display for ChannelNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many bytes a frame may have, all in all: agreed on by Tune and Tune-Ok, at least 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FrameMax(u32);

impl FrameMax {
    /// The smallest, which holds until something was agreed on (§1.1, frame-min-size).
    pub const MIN: FrameMax = FrameMax(4096);

    /// So many bytes; none if that is less than every peer must take. A peer's 0 (no limit) is for the caller to replace.
    pub const fn new(bytes: u32) -> Option<FrameMax> {
        if bytes < FrameMax::MIN.0 { None } else { Some(FrameMax(bytes)) }
    }

    /// The bytes.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Bytes of payload that we put into a frame.
    pub const fn payload_max(self) -> usize {
        self.0 as usize - FRAME_OVERHEAD
    }
}

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A method.
    Method = 1,
    /// A content header.
    Header = 2,
    /// A piece of a content body.
    Body = 3,
    /// Nothing: a sign of life.
    Heartbeat = 8,
}

impl FrameKind {
    /// From its number.
    pub const fn from_number(number: u8) -> Option<FrameKind> {
        match number {
            1 => Some(FrameKind::Method),
            2 => Some(FrameKind::Header),
            3 => Some(FrameKind::Body),
            8 => Some(FrameKind::Heartbeat),
            _ => None,
        }
    }
}

/// One whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it carries.
    pub kind: FrameKind,
    /// Its channel; content frames are never on 0, heartbeats always.
    pub channel: ChannelNumber,
    /// What is between header and end.
    pub payload: Bytes,
}

impl Frame {
    /// Whether it carries this method.
    pub fn is_method(&self, method: MethodId) -> bool {
        self.kind == FrameKind::Method && self.payload.starts_with(&method.to_bytes())
    }
}

/// What the beginning of a stream holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Framed {
    /// A whole frame, now taken off the bytes.
    Whole(Frame),
    /// Part of a frame: this many bytes in all are needed, as far as one can see.
    Partial {
        /// Bytes of the frame; a lower bound while its header is not whole.
        needs: usize,
    },
}

/// Takes the first frame off `bytes`, without copying.
///
/// As with RabbitMQ, the payload alone may be as large as the frame: there are clients that count so.
///
/// # Errors
/// A frame of an unknown kind, larger than `frame_max`, without its end, or on a channel where its kind has no place. The
/// size is looked at as soon as it is there.
pub fn cut(bytes: &mut Bytes, frame_max: FrameMax) -> Result<Framed, Violation> {
    let refused = |rule| Err(Violation::outside(rule, "frame"));
    let Some(&[kind, c1, c0, s3, s2, s1, s0]) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(Framed::Partial { needs: FRAME_HEADER_BYTES });
    };
    let Some(kind) = FrameKind::from_number(kind) else { return refused(Rule::FrameKindUnknown) };
    let size = u32::from_be_bytes([s3, s2, s1, s0]);
    if size > frame_max.get() {
        return refused(Rule::FrameTooLarge);
    }
    let channel = ChannelNumber(u16::from_be_bytes([c1, c0]));
    match kind {
        FrameKind::Heartbeat if size > 0 => return refused(Rule::HeartbeatWithPayload),
        FrameKind::Heartbeat if channel != ChannelNumber::CONNECTION => {
            return refused(Rule::HeartbeatOnChannel);
        }
        FrameKind::Header | FrameKind::Body if channel == ChannelNumber::CONNECTION => {
            return refused(Rule::ContentOnChannelZero);
        }
        FrameKind::Method | FrameKind::Header | FrameKind::Body | FrameKind::Heartbeat => {}
    }
    let end = FRAME_HEADER_BYTES + size as usize;
    match bytes.get(end) {
        None => return Ok(Framed::Partial { needs: end + 1 }),
        Some(&FRAME_END) => {}
        Some(_) => return refused(Rule::FrameEndMissing),
    }
    bytes.advance(FRAME_HEADER_BYTES);
    let payload = bytes.split_to(size as usize);
    bytes.advance(1);
    Ok(Framed::Whole(Frame { kind, channel, payload }))
}

/// The bytes before a payload of `size` bytes.
pub(super) fn header(kind: FrameKind, channel: ChannelNumber, size: u32) -> [u8; FRAME_HEADER_BYTES] {
    let [c1, c0] = channel.0.to_be_bytes();
    let [s3, s2, s1, s0] = size.to_be_bytes();
    [kind as u8, c1, c0, s3, s2, s1, s0]
}

/// Appends a method's frame; `write` appends its fields.
pub(super) fn put_method(
    out: &mut BytesMut,
    channel: ChannelNumber,
    id: MethodId,
    write: impl FnOnce(&mut Writer<'_>),
) {
    let [c1, c0] = channel.0.to_be_bytes();
    let mut writer = Writer::new(out);
    writer.put(&[FrameKind::Method as u8, c1, c0]);
    writer.with_length(|writer| {
        writer.put(&id.to_bytes());
        write(writer);
    });
    out.put_u8(FRAME_END);
}
