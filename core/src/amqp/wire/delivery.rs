//! Basic.Deliver with its content header in one go: what the broker sends most.

use super::content;
use super::frame::{self, ChannelNumber, FRAME_END, FRAME_OVERHEAD, FrameKind};
use super::method::basic::Deliver;
use super::properties::Properties;
use bytes::{BufMut, BytesMut};
use core::ops::Deref;

/// Bytes of the fields of Basic.Deliver beside its three short strings: class, method, their lengths, tag, bits.
const FIXED_BYTES: usize = 4 + 3 + 8 + 1;

/// Appends Basic.Deliver and its content header, as `PutMethod::put` and `put_content_header` do, with room made once. A
/// body of `body_size` bytes must follow.
pub fn put_delivery<B: Deref<Target = [u8]>>(
    out: &mut BytesMut,
    channel: ChannelNumber,
    deliver: &Deliver<'_>,
    properties: &Properties<B>,
    body_size: u64,
) {
    let Deliver { consumer_tag, delivery_tag, redelivered, exchange, routing_key } = deliver;
    let properties = properties.as_bytes();
    let strings = [consumer_tag, exchange, routing_key].map(|text| text.as_bytes().len());
    let method = FIXED_BYTES + strings.iter().sum::<usize>();
    let header = content::FIXED_BYTES + properties.len();
    out.reserve(method + header + 2 * FRAME_OVERHEAD);

    let mut start = [0; 12];
    start[..7].copy_from_slice(&frame::header(FrameKind::Method, channel, method as u32)); // under 1 KiB
    start[7..11].copy_from_slice(&Deliver::ID.to_bytes());
    start[11] = consumer_tag.length();
    out.put_slice(&start);
    out.put_slice(consumer_tag.as_bytes());

    let mut middle = [0; 10];
    middle[..8].copy_from_slice(&delivery_tag.0.to_be_bytes());
    middle[8] = u8::from(*redelivered);
    middle[9] = exchange.length();
    out.put_slice(&middle);
    out.put_slice(exchange.as_bytes());
    out.put_u8(routing_key.length());
    out.put_slice(routing_key.as_bytes());

    let size = u32::try_from(header).expect("properties came in one frame or are ours");
    let mut next = [FRAME_END; 20];
    next[1..8].copy_from_slice(&frame::header(FrameKind::Header, channel, size));
    next[8..].copy_from_slice(&content::fixed(body_size));
    out.put_slice(&next);
    out.put_slice(properties);
    out.put_u8(FRAME_END);
}
