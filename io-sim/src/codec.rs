//! Writes the packets that clients send, by a codec that is not ours.

use bytes::BytesMut;
use mqttbytes::v4::{Disconnect, Packet, PingReq};

/// Appends a packet that a client may send and that keeps the codec's bounds.
pub(crate) fn write(packet: &Packet, out: &mut BytesMut) {
    let written = match packet {
        Packet::Connect(packet) => packet.write(out),
        Packet::Publish(packet) => packet.write(out),
        Packet::PubAck(packet) => packet.write(out),
        Packet::PubRec(packet) => packet.write(out),
        Packet::PubRel(packet) => packet.write(out),
        Packet::PubComp(packet) => packet.write(out),
        Packet::Subscribe(packet) => packet.write(out),
        Packet::Unsubscribe(packet) => packet.write(out),
        Packet::PingReq => PingReq.write(out),
        Packet::Disconnect => Disconnect.write(out),
        Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
            unreachable!("only a broker sends it")
        }
    };
    written.expect("the packet keeps the codec's bounds");
}
