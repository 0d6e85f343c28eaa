//! One message in one queue.

use crate::ids::{MessageId, QueuePosition};
use crate::mqtt::packet::QoS;

/// A message in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub position: QueuePosition,
    /// The message.
    pub message: MessageId,
    /// How it is delivered.
    pub delivery: Delivery,
    /// How far it got.
    pub stage: Stage,
}

/// How far an entry got. Which entries were sent is the queue's matter (`sent_to`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// To be delivered, or delivered and not acknowledged.
    Queued,
    /// QoS 2: the consumer has it (PUBREC) and is told to release its identifier until it says so (PUBCOMP).
    Releasing,
    /// Done; only its gap is left.
    Settled,
}

/// How an entry is delivered, in one byte of its record: QoS in bits 0 and 1, then RETAIN, `expires`, `transient`; the
/// rest is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The QoS.
    pub qos: QoS,
    /// Whether it is sent because a topic retained it.
    pub retain: bool,
    /// Whether its message has an expiry of its own.
    pub expires: bool,
    /// Whether it goes with the broker although its queue stays: nothing of it is recorded.
    pub transient: bool,
}

impl Delivery {
    /// For the subscriber of a topic.
    pub fn to_subscriber(qos: QoS, retain: bool, expires: bool) -> Delivery {
        Delivery { qos, retain, expires, transient: false }
    }

    pub(crate) fn to_byte(self) -> u8 {
        let flags = [self.retain, self.expires, self.transient];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
        self.qos as u8 | (flags << 2)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Delivery> {
        let qos = QoS::from_bits(byte & 0x03)?;
        let [retain, expires, transient] = [2, 3, 4].map(|bit| byte & (1 << bit) != 0);
        (byte < 32).then_some(Delivery { qos, retain, expires, transient })
    }
}
