//! The wire format of MQTT 3.1, 3.1.1 and 5, one packet a file. Sections are those of MQTT 3.1.1, and of MQTT 5 where only it
//! has them.
//!
//! Decoding borrows from the packet's bytes and allocates nothing; what comes out is valid by its type. Encoding
//! appends to a buffer.

pub mod acknowledgement;
pub mod auth;
pub mod connack;
pub mod connect;
pub mod disconnect;
pub mod frame;
pub mod message_properties;
pub mod property;
pub mod publish;
pub mod reader;
pub mod reason;
pub mod subscribe;
pub mod unsubscribe;
pub mod violation;

pub use acknowledgement::AckKind;
pub use auth::Auth;
pub use connack::ConnectReturnCode;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use message_properties::MessageProperties;
pub use publish::Publish;
pub use reason::ReasonCode;
pub use subscribe::Subscribe;
pub use unsubscribe::Unsubscribe;
pub use violation::Violation;

use core::fmt;
use core::num::NonZeroU16;
use frame::Frame;

/// A packet identifier: 1 to 65,535 (MQTT 3.1.1 §2.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// The identifier; none for 0.
    pub fn new(number: u16) -> Option<PacketId> {
        NonZeroU16::new(number).map(PacketId)
    }

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Quality of service (MQTT 3.1.1 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0.
    AtMostOnce = 0,
    /// QoS 1.
    AtLeastOnce = 1,
    /// QoS 2.
    ExactlyOnce = 2,
}

impl QoS {
    /// From its two bits; none for 3.
    pub fn from_bits(bits: u8) -> Option<QoS> {
        match bits {
            0 => Some(QoS::AtMostOnce),
            1 => Some(QoS::AtLeastOnce),
            2 => Some(QoS::ExactlyOnce),
            _ => None,
        }
    }
}

/// The version a client speaks, from its CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolLevel {
    /// MQTT 3.1 ("MQIsdp", level 3).
    V3_1,
    /// MQTT 3.1.1 ("MQTT", level 4).
    V3_1_1,
    /// MQTT 5 ("MQTT", level 5).
    V5,
}

/// A packet from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNECT (§3.1).
    Connect(Connect<'a>),
    /// PUBLISH (§3.3).
    Publish(Publish<'a>),
    /// PUBACK, PUBREC, PUBREL or PUBCOMP (§3.4 to §3.7), and whether it says that something failed.
    Ack(AckKind, PacketId, bool),
    /// SUBSCRIBE (§3.8).
    Subscribe(Subscribe<'a>),
    /// UNSUBSCRIBE (§3.10).
    Unsubscribe(Unsubscribe<'a>),
    /// PINGREQ (§3.12).
    PingRequest,
    /// DISCONNECT (§3.14).
    Disconnect(Disconnect),
    /// AUTH (MQTT 5 §3.15).
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes one whole packet of a client that speaks `level`.
    ///
    /// # Errors
    /// The rule that the packet breaks.
    pub fn decode(frame: Frame<'a>, level: ProtocolLevel) -> Result<Packet<'a>, Violation> {
        let Frame { first, body } = frame;
        let flags = first & 0x0f;
        match first >> 4 {
            1 => reserved(flags, 0).and_then(|()| Connect::decode(body)).map(Packet::Connect),
            3 => Publish::decode(flags, body, level).map(Packet::Publish),
            4 => acknowledgement::decode(AckKind::PubAck, flags, body, level),
            5 => acknowledgement::decode(AckKind::PubRec, flags, body, level),
            6 => acknowledgement::decode(AckKind::PubRel, flags, body, level),
            7 => acknowledgement::decode(AckKind::PubComp, flags, body, level),
            8 => reserved_or_v3_1_dup(flags, level)
                .and_then(|()| Subscribe::decode(body, level))
                .map(Packet::Subscribe),
            10 => reserved_or_v3_1_dup(flags, level)
                .and_then(|()| Unsubscribe::decode(body, level))
                .map(Packet::Unsubscribe),
            12 => reserved(flags, 0).and_then(|()| empty(body)).map(|()| Packet::PingRequest),
            14 => reserved(flags, 0).and_then(|()| disconnect::decode(body, level)),
            15 => reserved(flags, 0).and_then(|()| auth::decode(body, level)),
            2 | 9 | 11 | 13 => Err(Violation::PacketOnlyServersSend),
            _ => Err(Violation::ReservedPacketType),
        }
    }
}

/// The flags of a packet's first byte must be as the table says. [MQTT-2.2.2-1], [MQTT-2.2.2-2]
fn reserved(flags: u8, expected: u8) -> Result<(), Violation> {
    if flags == expected { Ok(()) } else { Err(Violation::ReservedFlags) }
}

/// MQTT 3.1 sends PUBREL, SUBSCRIBE and UNSUBSCRIBE with QoS 1 and may set DUP (MQTT 3.1 §2.1).
fn reserved_or_v3_1_dup(flags: u8, level: ProtocolLevel) -> Result<(), Violation> {
    match level {
        ProtocolLevel::V3_1 => reserved(flags & !0x08, 0x02),
        ProtocolLevel::V3_1_1 | ProtocolLevel::V5 => reserved(flags, 0x02),
    }
}

fn empty(body: &[u8]) -> Result<(), Violation> {
    if body.is_empty() { Ok(()) } else { Err(Violation::TrailingBytes) }
}
