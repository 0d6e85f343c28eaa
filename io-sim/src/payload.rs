//! Payloads that say who they are, so that a checker recognises a message wherever it turns up: in a PUBLISH
//! or in a record on the disk.
//!
//! ```text
//! 0        8            12           16         20
//! | magic  | publisher  | sequence   | length   | filler …
//! ```

use bytes::Bytes;

/// Bytes of the smallest payload that says who it is.
pub(crate) const HEADER_BYTES: usize = 20;

const MAGIC: [u8; 8] = *b"\xa7vowmsg\x01";

/// A message by its publisher and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageKey {
    pub(crate) publisher: u32,
    pub(crate) sequence: u32,
}

impl std::fmt::Display for MessageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "m{}.{}", self.publisher, self.sequence)
    }
}

/// The payload of a message; at least `HEADER_BYTES` long.
pub(crate) fn build(key: MessageKey, length: u32) -> Bytes {
    let length = length.max(HEADER_BYTES as u32);
    let mut payload = Vec::with_capacity(length as usize);
    payload.extend_from_slice(&MAGIC);
    payload.extend_from_slice(&key.publisher.to_le_bytes());
    payload.extend_from_slice(&key.sequence.to_le_bytes());
    payload.extend_from_slice(&length.to_le_bytes());
    payload.extend((HEADER_BYTES as u32..length).map(|at| filler(key, at)));
    Bytes::from(payload)
}

/// Whose payload this is; none if a single byte is not as it was built.
pub(crate) fn recognise(payload: &[u8]) -> Option<MessageKey> {
    let (key, length) = header(payload)?;
    let filled =
        payload[HEADER_BYTES..].iter().zip(HEADER_BYTES as u32..).all(|(byte, at)| *byte == filler(key, at));
    (length as usize == payload.len() && filled).then_some(key)
}

/// Whose payload begins with these bytes, whatever comes behind them.
pub(crate) fn name(beginning: &[u8]) -> Option<MessageKey> {
    header(beginning).map(|(key, _)| key)
}

fn header(bytes: &[u8]) -> Option<(MessageKey, u32)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let key = MessageKey { publisher: number(8), sequence: number(12) };
    (header[..8] == MAGIC && number(16) as usize >= HEADER_BYTES).then(|| (key, number(16)))
}

fn filler(key: MessageKey, at: u32) -> u8 {
    (key.sequence.wrapping_mul(31).wrapping_add(key.publisher).wrapping_add(at) & 0x7f) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, a torn payload on the disk would count as stored.
    #[test]
    fn a_changed_byte_is_noticed() {
        let key = MessageKey { publisher: 3, sequence: 9 };
        let payload = build(key, 100);
        assert_eq!(recognise(&payload), Some(key));
        let mut torn = payload.to_vec();
        torn[60] ^= 1;
        assert_eq!(recognise(&torn), None);
    }
}
