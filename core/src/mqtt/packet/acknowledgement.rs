//! PUBACK, PUBREC, PUBREL and PUBCOMP: a packet identifier, in MQTT 5 with a reason (§3.4 to §3.7).

use super::property::{self, Allowed};
use super::reader::Reader;
use super::reason::ReasonCode;
use super::violation::Violation;
use super::{Packet, PacketId, ProtocolLevel, reserved, reserved_or_v3_1_dup};

/// Which acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AckKind {
    /// PUBACK (§3.4).
    PubAck = 0x40,
    /// PUBREC (§3.5).
    PubRec = 0x50,
    /// PUBREL (§3.6), with its reserved flags [MQTT-3.6.1-1].
    PubRel = 0x62,
    /// PUBCOMP (§3.7).
    PubComp = 0x70,
    /// UNSUBACK of MQTT 3 (§3.11).
    UnsubAck = 0xb0,
}

impl AckKind {
    /// The packet, which says that all is well.
    pub fn encode(self, packet_id: PacketId) -> [u8; 4] {
        let [high, low] = packet_id.get().to_be_bytes();
        [self as u8, 2, high, low]
    }

    /// The packet of MQTT 5 with a reason.
    pub fn encode_with(self, packet_id: PacketId, reason: ReasonCode) -> [u8; 5] {
        let [high, low] = packet_id.get().to_be_bytes();
        [self as u8, 3, high, low, reason as u8]
    }

    /// Whether the packet may give this reason (§3.4.2.1, §3.5.2.1, §3.6.2.1, §3.7.2.1).
    fn has_reason(self, byte: u8) -> bool {
        match self {
            AckKind::PubAck | AckKind::PubRec => {
                matches!(byte, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
            }
            AckKind::PubRel | AckKind::PubComp => matches!(byte, 0x00 | 0x92),
            AckKind::UnsubAck => false,
        }
    }
}

pub(super) fn decode(
    kind: AckKind,
    flags: u8,
    body: &[u8],
    level: ProtocolLevel,
) -> Result<Packet<'_>, Violation> {
    match kind {
        AckKind::PubRel => reserved_or_v3_1_dup(flags, level)?, // [MQTT-3.6.1-1]
        AckKind::PubAck | AckKind::PubRec | AckKind::PubComp | AckKind::UnsubAck => reserved(flags, 0)?,
    }
    let mut reader = Reader::new(body);
    let packet_id = reader.packet_id()?;
    let mut failed = false;
    if level == ProtocolLevel::V5 && !reader.is_empty() {
        let reason = reader.byte()?;
        if !kind.has_reason(reason) {
            return Err(Violation::ReasonCodeUnknown);
        }
        failed = reason >= 0x80;
        if !reader.is_empty() {
            property::read(&mut reader, Allowed::ACK, |_| ())?;
        }
    }
    reader.end()?;
    Ok(Packet::Ack(kind, packet_id, failed))
}
