//! Content: a header frame and as many body frames as it takes (§4.2.6).
//!
//! ```text
//! header: | class id: 2 | weight: 2, always 0 | body size: 8 | properties |      body: | bytes |
//! ```

use super::frame::{self, ChannelNumber, FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD, FrameKind, FrameMax};
use super::method::basic;
use super::properties::Properties;
use super::reader::Reader;
use super::violation::{Rule, Violation};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use core::ops::{Deref, Range};

/// Bytes of a content header before its properties.
pub(super) const FIXED_BYTES: usize = 12;

/// A content header of the class basic, the only one with content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentHeader {
    /// Bytes of the body that follows.
    pub body_size: u64,
    /// The properties.
    pub properties: Properties,
}

impl ContentHeader {
    /// Decodes the payload of a header frame; the properties share its memory.
    ///
    /// # Errors
    /// `ContentClass`, `ContentWeight`, or what is wrong with the properties.
    pub fn decode(mut payload: Bytes) -> Result<ContentHeader, Violation> {
        let refused = |rule| Violation::outside(rule, "content header");
        let mut reader = Reader::new(&payload);
        let (class, weight) = (reader.u16().map_err(refused)?, reader.u16().map_err(refused)?);
        let body_size = reader.u64().map_err(refused)?;
        if class != basic::CLASS {
            return Err(refused(Rule::ContentClass));
        }
        if weight != 0 {
            return Err(refused(Rule::ContentWeight));
        }
        payload.advance(FIXED_BYTES);
        let properties = Properties::decode(payload)?;
        Ok(ContentHeader { body_size, properties })
    }
}

/// Appends a header frame. A body of `body_size` bytes must follow.
pub fn put_content_header<B: Deref<Target = [u8]>>(
    out: &mut BytesMut,
    channel: ChannelNumber,
    body_size: u64,
    properties: &Properties<B>,
) {
    out.reserve(content_header_bytes(properties));
    let properties = properties.as_bytes();
    let size =
        u32::try_from(FIXED_BYTES + properties.len()).expect("properties came in one frame or are ours");
    out.put_slice(&frame::header(FrameKind::Header, channel, size));
    out.put_slice(&fixed(body_size));
    out.put_slice(properties);
    out.put_u8(FRAME_END);
}

/// Bytes of the frame that `put_content_header` appends: a header cannot be split, so whoever adds properties sees to it
/// that this is within the receiver's frame-max.
pub fn content_header_bytes<B: Deref<Target = [u8]>>(properties: &Properties<B>) -> usize {
    FRAME_OVERHEAD + FIXED_BYTES + properties.as_bytes().len()
}

/// What stands before the properties.
pub(super) fn fixed(body_size: u64) -> [u8; FIXED_BYTES] {
    let mut fixed = [0; FIXED_BYTES];
    fixed[..2].copy_from_slice(&basic::CLASS.to_be_bytes());
    fixed[4..].copy_from_slice(&body_size.to_be_bytes());
    fixed
}

/// The pieces of a body of `body_size` bytes, one a frame: for bodies that are shared. Around each go
/// `body_frame_header` and `FRAME_END`. No body, no frame.
pub fn body_pieces(body_size: usize, frame_max: FrameMax) -> impl Iterator<Item = Range<usize>> {
    let step = frame_max.payload_max();
    (0..body_size).step_by(step).map(move |start| start..body_size.min(start + step))
}

/// What stands before a piece of a body of `size` bytes, at most `FrameMax::payload_max`.
pub fn body_frame_header(channel: ChannelNumber, size: usize) -> [u8; FRAME_HEADER_BYTES] {
    let size = u32::try_from(size).expect("a piece fits into a frame");
    frame::header(FrameKind::Body, channel, size)
}

/// Appends the frames of a body, copied: for small ones.
pub fn put_body(out: &mut BytesMut, channel: ChannelNumber, body: &[u8], frame_max: FrameMax) {
    for piece in body_pieces(body.len(), frame_max) {
        out.put_slice(&body_frame_header(channel, piece.len()));
        out.put_slice(&body[piece]);
        out.put_u8(FRAME_END);
    }
}
