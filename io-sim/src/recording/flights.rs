//! What is on its way on each connection, each way: the network keeps the order, so that counting bytes tells when a
//! packet has arrived as a whole.

use super::packet::Names;
use super::{Entry, Fate};
use crate::amqp::Talk;
use crate::codec::{self, Packet, Version};
use bytes::BytesMut;
use std::collections::{BTreeMap, VecDeque};
use vowmq_core::ids::ConnectionId;

/// Larger packets nobody sends in a simulation.
const PACKET_BYTES_MAX: usize = 1 << 24;

/// All that is on its way.
#[derive(Default)]
pub(super) struct Flights {
    /// By connection and whether it goes to the broker.
    streams: BTreeMap<(ConnectionId, bool), Stream>,
    /// What each connection's CONNECT says that it speaks.
    versions: BTreeMap<ConnectionId, Version>,
    /// Connections that speak AMQP; the others speak MQTT.
    talks: BTreeMap<ConnectionId, Talk>,
    pub(super) names: Names,
}

/// Something that is whole with the bytes that were sent last.
pub(super) struct Told {
    /// In words.
    pub(super) text: String,
    /// What it is about.
    pub(super) about: Vec<String>,
    /// Where it ends in its stream.
    pub(super) end: u64,
}

/// One direction of a connection.
#[derive(Default)]
struct Stream {
    /// Of a packet that was not sent as a whole yet.
    buffer: BytesMut,
    /// Bytes of whole packets, and signals.
    framed: u64,
    arrived: u64,
    /// Where each ends in the stream, and its entry.
    pending: VecDeque<(u64, usize)>,
}

impl Flights {
    /// The connection speaks AMQP.
    pub(super) fn speaks_amqp(&mut self, id: ConnectionId) {
        self.talks.insert(id, Talk::default());
    }

    /// What is whole with these bytes of a client's connection. Bytes that are none of its protocol are let pass: a
    /// checker complains of them.
    pub(super) fn told(
        &mut self,
        id: ConnectionId,
        client: usize,
        to_broker: bool,
        bytes: &[u8],
    ) -> Vec<Told> {
        let Some(talk) = self.talks.get_mut(&id) else {
            let packets = self.packets(id, to_broker, bytes).into_iter();
            let told = packets.map(|(packet, end)| {
                let (text, about) = self.names.describe(client, to_broker, id, &packet);
                Told { text, about, end }
            });
            return told.collect();
        };
        let stream = self.streams.entry((id, to_broker)).or_default();
        let said = talk.said(to_broker, bytes).into_iter();
        let told = said.map(|said| {
            stream.framed += said.bytes as u64;
            Told { text: said.text, about: said.about, end: stream.framed }
        });
        told.collect()
    }

    /// The packets that are whole with these bytes, and where each ends in its stream.
    fn packets(&mut self, id: ConnectionId, to_broker: bool, bytes: &[u8]) -> Vec<(Packet, u64)> {
        let stream = self.streams.entry((id, to_broker)).or_default();
        stream.buffer.extend_from_slice(bytes);
        let mut packets = Vec::new();
        if to_broker
            && !self.versions.contains_key(&id)
            && let Some(version) = codec::version_of_connect(&stream.buffer)
        {
            self.versions.insert(id, version);
        }
        let version = match (self.versions.get(&id), to_broker) {
            (Some(version), _) => *version,
            (None, false) => Version::V3,
            (None, true) => return packets,
        };
        loop {
            let before = stream.buffer.len();
            match codec::read(version, &mut stream.buffer, PACKET_BYTES_MAX) {
                Ok(Some(packet)) => {
                    stream.framed += (before - stream.buffer.len()) as u64;
                    packets.push((packet, stream.framed));
                }
                Ok(None) => return packets,
                Err(_) => {
                    stream.framed += stream.buffer.len() as u64;
                    stream.buffer.clear();
                    return packets;
                }
            }
        }
    }

    /// Something that is no bytes follows what was sent before: where it ends in its stream.
    pub(super) fn signal(&mut self, id: ConnectionId, to_broker: bool) -> u64 {
        let stream = self.streams.entry((id, to_broker)).or_default();
        stream.framed += 1;
        stream.framed
    }

    pub(super) fn take_off(&mut self, id: ConnectionId, to_broker: bool, end: u64, entry: usize) {
        self.streams.entry((id, to_broker)).or_default().pending.push_back((end, entry));
    }

    /// The entries that have arrived with these bytes.
    pub(super) fn arrived(&mut self, id: ConnectionId, to_broker: bool, bytes: usize) -> Vec<usize> {
        let Some(stream) = self.streams.get_mut(&(id, to_broker)) else { return Vec::new() };
        stream.arrived += bytes as u64;
        let here = stream.pending.iter().take_while(|(end, _)| *end <= stream.arrived).count();
        stream.pending.drain(..here).map(|(_, entry)| entry).collect()
    }

    /// The entries that do not arrive any more.
    pub(super) fn lost(&mut self, id: ConnectionId, to_broker: bool) -> Vec<usize> {
        let stream = self.streams.remove(&(id, to_broker));
        stream.into_iter().flat_map(|stream| stream.pending).map(|(_, entry)| entry).collect()
    }

    /// What was on its way to the broker on connections that it had is lost.
    pub(super) fn broker_died(&mut self, entries: &mut [Entry], now_us: u64) {
        let had = |((_, to_broker), stream): (&(ConnectionId, bool), &mut Stream)| {
            if *to_broker && stream.arrived > 0 {
                std::mem::take(&mut stream.pending)
            } else {
                VecDeque::new()
            }
        };
        for (_, entry) in self.streams.iter_mut().flat_map(had) {
            entries[entry].end(now_us, Fate::Lost);
        }
    }
}
