//! The clients' codec: that of the crate `amq-protocol`, which this project did not write.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic};
use bytes::BytesMut;

/// The channel that clients use.
pub(super) const CHANNEL: u16 = 1;

/// Frames out of bytes that come in pieces.
#[derive(Default)]
pub(super) struct Decoder {
    bytes: BytesMut,
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of a frame that is not whole.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// The next whole frame; an error: the bytes are none.
    pub(super) fn next(&mut self) -> Result<Option<AMQPFrame>, String> {
        // Their parser asks for no more bytes by itself where a frame is cut.
        let is_header = self.bytes.first() == Some(&b'A');
        let length = match self.bytes.get(3..7) {
            _ if is_header => 8,
            Some(size) => 8 + u32::from_be_bytes(size.try_into().expect("four bytes")) as usize,
            None => return Ok(None),
        };
        if self.bytes.len() < length {
            return Ok(None);
        }
        let whole = self.bytes.split_to(length);
        match parse_frame(&*whole) {
            Ok((&[], frame)) => Ok(Some(frame)),
            other => Err(format!("{other:?} of {whole:02x?}")),
        }
    }
}

/// Frames as bytes.
pub(super) fn encode(frames: &[AMQPFrame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        let written = gen_frame(frame)(WriteContext::from(Vec::new()));
        bytes.extend(written.expect("a vector takes all").write);
    }
    bytes
}

/// A method on the clients' channel.
pub(super) fn method(class: AMQPClass) -> AMQPFrame {
    AMQPFrame::Method(CHANNEL, class)
}

/// A message, its body in pieces of so many bytes.
pub(super) fn publish(
    exchange: &str,
    key: &str,
    mandatory: bool,
    properties: BasicProperties,
    body: &[u8],
    piece: usize,
) -> Vec<AMQPFrame> {
    let publish =
        basic::Publish { exchange: exchange.into(), routing_key: key.into(), mandatory, immediate: false };
    let header = AMQPContentHeader { class_id: 60, body_size: body.len() as u64, properties };
    let mut frames = vec![
        method(AMQPClass::Basic(basic::AMQPMethod::Publish(publish))),
        AMQPFrame::Header(CHANNEL, header),
    ];
    frames.extend(body.chunks(piece.max(1)).map(|piece| AMQPFrame::Body(CHANNEL, piece.to_vec())));
    frames
}
