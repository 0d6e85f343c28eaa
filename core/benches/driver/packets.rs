//! What the clients of measurements send.

use vowmq_core::mqtt::packet::frame::{Frame, put_binary, put_remaining_length};

/// DISCONNECT.
pub const DISCONNECT: &[u8] = &[0xe0, 0];

/// CONNECT without keep-alive.
pub fn connect(client: &str, clean: bool) -> Vec<u8> {
    let mut body = b"\0\x04MQTT\x04".to_vec();
    body.extend([if clean { 2 } else { 0 }, 0, 0]);
    put_binary(&mut body, client.as_bytes());
    packet(0x10, &body)
}

/// SUBSCRIBE, every filter with the same QoS.
pub fn subscribe(filters: &[String], qos: u8) -> Vec<u8> {
    let mut body = vec![0, 1];
    for filter in filters {
        put_binary(&mut body, filter.as_bytes());
        body.push(qos);
    }
    packet(0x82, &body)
}

/// PUBLISH. The packet identifier counts for QoS 1 and 2.
pub fn publish(topic: &str, qos: u8, retain: bool, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + topic.len() + payload.len());
    put_binary(&mut body, topic.as_bytes());
    if qos > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    body.extend(payload);
    packet(0x30 | qos << 1 | u8::from(retain), &body)
}

/// What an MQTT client answers to a packet, if anything.
pub fn answer(packet: Frame<'_>) -> Option<[u8; 4]> {
    let id = |at: usize| [packet.body[at], packet.body[at + 1]];
    let ([high, low], first) = match packet.first >> 4 {
        3 => {
            let after_topic = 2 + usize::from(u16::from_be_bytes(id(0)));
            match packet.first >> 1 & 3 {
                1 => (id(after_topic), 0x40),
                2 => (id(after_topic), 0x50),
                _ => return None,
            }
        }
        5 => (id(0), 0x62),
        6 => (id(0), 0x70),
        _ => return None,
    };
    Some([first, 2, high, low])
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    put_remaining_length(&mut out, body.len());
    out.extend(body);
    out
}
