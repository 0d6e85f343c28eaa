//! What clients and the broker say to each other, whatever the version of MQTT: the packets that clients speak, and below
//! them two codecs that are not ours.
//!
//! | version | codec | what it leaves out |
//! |---|---|---|
//! | 3.1.1 | `mqttbytes::v4` | everything that only MQTT 5 has |
//! | 5 | `rumqttc::v5::mqttbytes::v5` | nothing that clients here say |

mod v3;
mod v5;

pub(crate) use v3::write_plainly;

use crate::payload;
use bytes::{Bytes, BytesMut};
use std::fmt;

/// The version that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// MQTT 3.1.1.
    V3,
    /// MQTT 5.
    V5,
}

/// A packet, either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Connect(Connect),
    ConnAck(ConnAck),
    Publish(Publish),
    PubAck(Answer),
    PubRec(Answer),
    PubRel(Answer),
    PubComp(Answer),
    Subscribe(Subscribe),
    SubAck(Codes),
    Unsubscribe(Unsubscribe),
    UnsubAck(Codes),
    PingReq,
    PingResp,
    Disconnect(Disconnect),
}

/// CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) version: Version,
    pub(crate) client_id: String,
    pub(crate) keep_alive_s: u16,
    /// Clean session, or clean start.
    pub(crate) clean: bool,
    pub(crate) will: Option<LastWill>,
    /// The password, if it gives one; its name is the client identifier then.
    pub(crate) password: Option<String>,
    /// What only MQTT 5 has.
    pub(crate) terms: Terms,
}

/// What one end lets the other know of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) session_expiry_s: Option<u32>,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) topic_alias_maximum: Option<u16>,
    pub(crate) maximum_packet_bytes: Option<u32>,
}

/// The will in a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastWill {
    pub(crate) topic: String,
    pub(crate) payload: Bytes,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) delay_s: Option<u32>,
}

/// CONNACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnAck {
    pub(crate) present: bool,
    pub(crate) verdict: Verdict,
    pub(crate) terms: Terms,
}

/// What CONNACK says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// The broker cannot serve now.
    Unavailable,
    /// Any other refusal, in the codec's words.
    Refused(String),
}

/// PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publish {
    /// Empty where an alias stands for it.
    pub(crate) topic: String,
    pub(crate) payload: Bytes,
    pub(crate) qos: u8,
    /// 0 with QoS 0.
    pub(crate) packet_id: u16,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    pub(crate) alias: Option<u16>,
    pub(crate) expiry_s: Option<u32>,
    pub(crate) identifiers: Vec<u32>,
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) packet_id: u16,
    pub(crate) reason: Reason,
}

/// What an answer says; in MQTT 3.1.1 always the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Success,
    /// 0x10: nobody has subscribed to it.
    NobodyHears,
    /// 0x92: the packet id is not in use.
    NotInUse,
    /// 0x97: a bound does not allow it.
    QuotaExceeded,
    /// Something else, that no broker has a reason for here.
    Other,
}

impl Answer {
    /// One that says that all is well.
    pub(crate) fn new(packet_id: u16) -> Answer {
        Answer { packet_id, reason: Reason::Success }
    }
}

impl Reason {
    /// Whether it refuses what it answers.
    pub(crate) fn refuses(self) -> bool {
        matches!(self, Reason::QuotaExceeded | Reason::Other)
    }
}

/// SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscribe {
    pub(crate) packet_id: u16,
    /// Each with its QoS.
    pub(crate) filters: Vec<(String, u8)>,
    /// What only MQTT 5 has, for each of them.
    pub(crate) options: Vec<Options>,
    /// The identifier of these subscriptions.
    pub(crate) identifier: Option<u32>,
}

/// The options of a subscription in MQTT 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) retain_handling: u8,
}

/// SUBACK or UNSUBACK: for each filter what was granted, or why not. In MQTT 3.1.1 UNSUBACK has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codes {
    pub(crate) packet_id: u16,
    pub(crate) codes: Vec<Result<u8, Reason>>,
}

/// UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsubscribe {
    pub(crate) packet_id: u16,
    pub(crate) filters: Vec<String>,
}

/// DISCONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disconnect {
    /// 0: in order.
    pub(crate) code: u8,
    pub(crate) session_expiry_s: Option<u32>,
}

/// Appends a packet that a client may send and that keeps the codec's bounds.
pub(crate) fn write(version: Version, packet: &Packet, out: &mut BytesMut) {
    match version {
        Version::V3 => v3::write(packet, out),
        Version::V5 => v5::write(packet, out),
    }
}

/// Takes the next packet off the bytes; none as long as it is not whole.
///
/// # Errors
/// What is wrong with the bytes, in the codec's words.
pub(crate) fn read(version: Version, bytes: &mut BytesMut, most: usize) -> Result<Option<Packet>, String> {
    match version {
        Version::V3 => v3::read(bytes, most),
        Version::V5 => v5::read(bytes, most),
    }
}

/// The version that a CONNECT at the beginning of these bytes is of; none where they are too few to tell. What does not
/// begin with CONNECT is taken for MQTT 3.1.1.
pub(crate) fn version_of_connect(bytes: &[u8]) -> Option<Version> {
    if *bytes.first()? >> 4 != 1 {
        return Some(Version::V3);
    }
    let length = bytes.iter().skip(1).position(|byte| byte & 0x80 == 0)?;
    // Behind the length: 00 04 "MQTT" and the level.
    let level = bytes.get(length + 8)?;
    Some(if *level == 5 { Version::V5 } else { Version::V3 })
}

impl fmt::Display for Packet {
    /// In words, a message by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet::Publish(publish) = self else { return write!(f, "{self:?}") };
        let key = payload::recognise(&publish.payload);
        let name = key.map_or_else(|| format!("{} bytes", publish.payload.len()), |key| key.to_string());
        let Publish { topic, qos, packet_id, .. } = publish;
        write!(f, "PUBLISH {name} to {topic:?} QoS {qos} id {packet_id}{}", publish.marks())
    }
}

impl Publish {
    /// What else there is to be said of it.
    pub(crate) fn marks(&self) -> String {
        let mut marks = String::new();
        marks.push_str(if self.dup { " DUP" } else { "" });
        marks.push_str(if self.retain { " RETAIN" } else { "" });
        marks.extend(self.alias.map(|alias| format!(" alias {alias}")));
        marks.extend(self.expiry_s.map(|seconds| format!(" expires in {seconds} s")));
        if !self.identifiers.is_empty() {
            marks.push_str(&format!(" for {:?}", self.identifiers));
        }
        marks
    }
}
