//! The name of a message, which stands in its body.

use std::fmt;

/// A message: its publisher and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::amqp) struct Key {
    pub(in crate::amqp) publisher: u32,
    pub(in crate::amqp) number: u32,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}.{}", self.publisher, self.number)
    }
}

impl Key {
    /// A body of so many bytes that says which message it is.
    pub(in crate::amqp) fn body(self, size: usize) -> Vec<u8> {
        let mut body = format!("{self} ").into_bytes();
        let fill = body.len()..size;
        body.extend(fill.map(|at| at as u8));
        body
    }

    /// The message of a body, if it is one of ours, whole.
    pub(in crate::amqp) fn of(body: &[u8]) -> Option<Key> {
        let name = body.split(|byte| *byte == b' ').next()?;
        let (publisher, number) = std::str::from_utf8(name).ok()?.strip_prefix('m')?.split_once('.')?;
        let key = Key { publisher: publisher.parse().ok()?, number: number.parse().ok()? };
        (key.body(body.len()) == body).then_some(key)
    }
}
