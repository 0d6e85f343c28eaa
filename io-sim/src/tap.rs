//! Reads packets off a stream as it leaves the broker: enough of MQTT's framing to tell what each promises, wherever
//! the bytes are cut.

use crate::codec::Version;
use crate::payload::{self, MessageKey};
use std::fmt;

/// Bytes of a packet that are kept: all of what a broker sends, long topics and all but the beginning of payloads aside.
const KEPT_MAX: usize = 128;

/// What leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// CONNACK with return code 0.
    Accepted { present: bool },
    /// A message with this packet id, QoS 1 or 2.
    Publish(Message),
    /// PUBACK.
    PubAck(u16),
    /// PUBREC.
    PubRec(u16),
    /// PUBREL.
    PubRel(u16),
    /// PUBCOMP.
    PubComp(u16),
    /// SUBACK with its return codes.
    SubAck(u16, Vec<u8>),
    /// UNSUBACK.
    UnsubAck(u16),
}

/// A message that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) qos: u8,
    pub(crate) packet_id: u16,
    pub(crate) dup: bool,
    /// Whose it is, if its payload says so near its beginning.
    pub(crate) key: Option<MessageKey>,
    /// Seconds until it expires, if it says so.
    pub(crate) expiry_s: Option<u32>,
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leaving::Accepted { present: true } => write!(f, "CONNACK (the session was there)"),
            Leaving::Accepted { present: false } => write!(f, "CONNACK (no session was there)"),
            Leaving::Publish(Message { qos, packet_id, .. }) => {
                write!(f, "PUBLISH with QoS {qos} and packet id {packet_id}")
            }
            Leaving::PubAck(id) => write!(f, "PUBACK {id}"),
            Leaving::PubRec(id) => write!(f, "PUBREC {id}"),
            Leaving::PubRel(id) => write!(f, "PUBREL {id}"),
            Leaving::PubComp(id) => write!(f, "PUBCOMP {id}"),
            Leaving::SubAck(id, codes) => write!(f, "SUBACK {id} with return codes {codes:?}"),
            Leaving::UnsubAck(id) => write!(f, "UNSUBACK {id}"),
        }
    }
}

/// Where in the stream we are.
pub(crate) struct Tap {
    version: Version,
    state: State,
    /// The first bytes of the packet's body.
    body: Vec<u8>,
    /// Of a PUBLISH: its packet id, as far as it was read.
    id: [u8; 2],
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    FirstByte,
    Length {
        first: u8,
        shift: u32,
        length: usize,
    },
    Body {
        first: u8,
        left: usize,
        read: usize,
    },
}

impl Default for Tap {
    fn default() -> Self {
        Tap::new(Version::V3)
    }
}

impl Tap {
    pub(crate) fn new(version: Version) -> Tap {
        Tap { version, state: State::default(), body: Vec::new(), id: [0; 2] }
    }

    /// Takes the next bytes; calls `leaves` with every packet that ends in them.
    pub(crate) fn take(&mut self, bytes: &[u8], mut leaves: impl FnMut(Leaving)) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::FirstByte => {
                    self.state = State::Length { first: bytes[at], shift: 0, length: 0 };
                    at += 1;
                }
                State::Length { first, shift, length } => {
                    let length = length | usize::from(bytes[at] & 0x7f) << shift;
                    let more = bytes[at] & 0x80 != 0 && shift < 21;
                    self.body.clear();
                    self.state = match (more, length) {
                        (true, _) => State::Length { first, shift: shift + 7, length },
                        (false, 0) => State::FirstByte,
                        (false, _) => State::Body { first, left: length, read: 0 },
                    };
                    at += 1;
                }
                State::Body { first, left, read } => {
                    let taken = left.min(bytes.len() - at);
                    self.keep(&bytes[at..at + taken], read);
                    at += taken;
                    if left > taken {
                        self.state = State::Body { first, left: left - taken, read: read + taken };
                        continue;
                    }
                    self.state = State::FirstByte;
                    self.leaving(first).into_iter().for_each(&mut leaves);
                }
            }
        }
    }

    /// Keeps of these bytes, which begin at `read` of the body, what may be asked for.
    fn keep(&mut self, bytes: &[u8], read: usize) {
        let room = KEPT_MAX.saturating_sub(self.body.len()).min(bytes.len());
        self.body.extend_from_slice(&bytes[..room]);
        let Some(topic) = self.body.get(..2) else { return };
        let id_at = 2 + usize::from(u16::from_be_bytes([topic[0], topic[1]]));
        for index in 0..2 {
            if let Some(byte) = (id_at + index).checked_sub(read).and_then(|at| bytes.get(at)) {
                self.id[index] = *byte;
            }
        }
    }

    /// Bytes of the properties behind a packet id, with their length, which takes one byte here.
    fn properties(&self) -> usize {
        match self.version {
            Version::V3 => 0,
            Version::V5 => 1 + usize::from(self.body[2]),
        }
    }

    fn message(&self, first: u8, qos: u8) -> Leaving {
        let topic_bytes = usize::from(u16::from_be_bytes([self.body[0], self.body[1]]));
        let mut rest = self.body.get(2 + topic_bytes + 2..).unwrap_or_default();
        let mut expiry_s = None;
        if self.version == Version::V5 && !rest.is_empty() {
            let length = 1 + usize::from(rest[0]); // one byte here
            let mut properties = rest.get(1..length).unwrap_or_default();
            while let [identifier, value @ ..] = properties {
                let length = match identifier {
                    2 if value.len() >= 4 => {
                        expiry_s = Some(u32::from_be_bytes([value[0], value[1], value[2], value[3]]));
                        4
                    }
                    0x23 => 2,
                    0x0b => 1 + value.iter().take_while(|byte| **byte >= 0x80).count(),
                    _ => value.len(),
                };
                properties = value.get(length..).unwrap_or_default();
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        let (packet_id, dup) = (u16::from_be_bytes(self.id), first & 8 != 0);
        Leaving::Publish(Message { qos, packet_id, dup, key: payload::name(rest), expiry_s })
    }

    fn leaving(&self, first: u8) -> Option<Leaving> {
        let id = u16::from_be_bytes([*self.body.first()?, *self.body.get(1)?]);
        match first >> 4 {
            2 if self.body[1] == 0 => Some(Leaving::Accepted { present: self.body[0] == 1 }),
            3 => {
                let qos = first >> 1 & 3;
                (qos > 0).then(|| self.message(first, qos))
            }
            // What refuses promises nothing.
            4 | 5 if self.body.get(2).is_some_and(|reason| *reason >= 0x80) => None,
            4 => Some(Leaving::PubAck(id)),
            5 => Some(Leaving::PubRec(id)),
            6 => Some(Leaving::PubRel(id)),
            7 => Some(Leaving::PubComp(id)),
            9 => Some(Leaving::SubAck(id, self.body[2 + self.properties()..].to_vec())),
            11 => Some(Leaving::UnsubAck(id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, answers to clients of MQTT 5 would leave unchecked, or refusals be taken for promises.
    #[test]
    fn reasons_and_properties_of_mqtt_5_are_understood() {
        let stream =
            [0x40, 3, 0, 7, 0x10, 0x50, 3, 0, 8, 0x97, 0x90, 5, 0, 3, 0, 1, 0x97, 0xb0, 4, 0, 4, 0, 0x11];
        let mut found = Vec::new();
        Tap::new(Version::V5).take(&stream, |leaving| found.push(leaving));
        let expected = [Leaving::PubAck(7), Leaving::SubAck(3, vec![1, 0x97]), Leaving::UnsubAck(4)];
        assert_eq!(found, expected);
    }

    /// Were it to fail, what has expired would leave unchecked.
    #[test]
    fn a_message_of_mqtt_5_says_whose_it_is_and_when_it_expires() {
        let key = MessageKey { publisher: 1, sequence: 2 };
        let mut body = vec![0, 1, b'a', 0, 7, 10, 0x0b, 5, 0x23, 0, 3, 2, 0, 0, 0, 9];
        body.extend(payload::build(key, 30));
        let mut found = Vec::new();
        let stream = [&[0x3a, body.len() as u8], &body[..]].concat();
        Tap::new(Version::V5).take(&stream, |leaving| found.push(leaving));
        let (key, expiry_s) = (Some(key), Some(9));
        assert_eq!(found, [Leaving::Publish(Message { qos: 1, packet_id: 7, dup: true, key, expiry_s })]);
    }

    /// Were it to fail, answers would leave unchecked.
    #[test]
    fn packets_are_found_wherever_the_bytes_are_cut() {
        let mut stream = vec![0x20, 2, 1, 0, 0x40, 2, 1, 2, 0x32, 0x85, 0x01, 0, 1, b'a', 7, 8];
        stream.extend([0; 128]);
        stream.extend([0xd0, 0, 0x50, 2, 0, 9, 0x90, 4, 0, 3, 2, 0x80]);
        for cut in 0..stream.len() {
            let mut found = Vec::new();
            let mut tap = Tap::default();
            tap.take(&stream[..cut], |leaving| found.push(leaving));
            tap.take(&stream[cut..], |leaving| found.push(leaving));
            let expected = [
                Leaving::Accepted { present: true },
                Leaving::PubAck(0x102),
                Leaving::Publish(Message { qos: 1, packet_id: 0x708, dup: false, key: None, expiry_s: None }),
                Leaving::PubRec(9),
                Leaving::SubAck(3, vec![2, 0x80]),
            ];
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
}
