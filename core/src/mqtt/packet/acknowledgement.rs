//! PUBACK, PUBREC, PUBREL, PUBCOMP and UNSUBACK: a packet identifier and nothing else (§3.4 to §3.7, §3.11).

use super::reader::Reader;
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
    /// UNSUBACK (§3.11).
    UnsubAck = 0xb0,
}

impl AckKind {
    /// The packet.
    pub fn encode(self, packet_id: PacketId) -> [u8; 4] {
        let [high, low] = packet_id.get().to_be_bytes();
        [self as u8, 2, high, low]
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
    reader.end()?;
    Ok(Packet::Ack(kind, packet_id))
}
