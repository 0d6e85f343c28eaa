//! Finds the packets in a stream of bytes.
//!
//! ```text
//! | type (4 bits) flags (4 bits) | remaining length: 1 to 4 bytes, 7 bits each, least first | body |
//! ```

use super::violation::Violation;
use alloc::vec::Vec;
use bytes::BufMut;

/// One whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Packet type and flags.
    pub first: u8,
    /// What follows the remaining length.
    pub body: &'a [u8],
}

/// What the beginning of a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A whole packet, and how many bytes it took.
    Whole(Frame<'a>, usize),
    /// Part of a packet: this many bytes in all are needed, as far as one can see.
    Partial {
        /// The packet's first byte, if it is there.
        first: Option<u8>,
        /// Bytes of the packet, header included; a lower bound while the length is not whole.
        needs: usize,
    },
}

/// Looks at the beginning of `bytes`.
///
/// # Errors
/// `RemainingLengthTooLong` (§2.2.3).
pub fn parse(bytes: &[u8]) -> Result<Framed<'_>, Violation> {
    let mut length = 0usize;
    for index in 0..4 {
        let Some(&byte) = bytes.get(1 + index) else {
            return Ok(Framed::Partial { first: bytes.first().copied(), needs: 2 + index });
        };
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let header = 2 + index;
            let total = header + length;
            return Ok(match bytes.get(header..total) {
                Some(body) => Framed::Whole(Frame { first: bytes[0], body }, total),
                None => Framed::Partial { first: Some(bytes[0]), needs: total },
            });
        }
    }
    Err(Violation::RemainingLengthTooLong)
}

/// Bytes of a packet with a body of so many bytes, if its length is written as short as can be.
pub fn whole_bytes(body: usize) -> usize {
    1 + super::property::variable_bytes(body) + body
}

/// Appends the remaining length of a packet.
pub fn put_remaining_length(out: &mut impl BufMut, mut length: usize) {
    debug_assert!(length <= 268_435_455, "[MQTT §2.2.3] four bytes hold no more");
    loop {
        let byte = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            out.put_u8(byte);
            return;
        }
        out.put_u8(byte | 0x80);
    }
}

/// Appends a string or binary with its length before it.
pub fn put_binary(out: &mut impl BufMut, bytes: &[u8]) {
    let length =
        u16::try_from(bytes.len()).expect("what came from a packet or was checked has at most 65535 bytes");
    out.put_u16(length);
    out.put_slice(bytes);
}

/// Appends SUBACK (§3.9), or UNSUBACK of MQTT 5 (§3.11): the codes in the order of the filters [MQTT-3.8.4-5].
pub fn put_codes(
    out: &mut Vec<u8>,
    first: u8,
    packet_id: super::PacketId,
    codes: &[u8],
    level: super::ProtocolLevel,
) {
    let properties: &[u8] = if level == super::ProtocolLevel::V5 { &[0] } else { &[] };
    out.put_u8(first);
    put_remaining_length(out, 2 + properties.len() + codes.len());
    out.put_u16(packet_id.get());
    out.put_slice(properties);
    out.put_slice(codes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_length_at_every_boundary() {
        // Broken: the length of a packet is misread where its encoding grows by a byte.
        for length in [0usize, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455] {
            let mut out = Vec::from([0x30]);
            put_remaining_length(&mut out, length);
            let header = out.len();
            match parse(&out).expect("a valid header") {
                Framed::Whole(frame, used) => assert!(length == 0 && frame.body.is_empty() && used == header),
                Framed::Partial { needs, .. } => assert_eq!(needs, header + length),
            }
        }
        assert_eq!(parse(&[0x30, 0xff, 0xff, 0xff, 0xff, 0x01]), Err(Violation::RemainingLengthTooLong));
    }
}
