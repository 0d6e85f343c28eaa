//! Connections: what leaves on them, how they may end, and that what the broker holds for them is bounded.

use super::Ledger;
use crate::outcome::Checker;
use crate::payload::MessageKey;
use crate::tap::{Leaving, Tap};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What the two ends of a connection and the core have beyond the bounds: a packet begun, answers under way.
const SLACK_BYTES: u64 = 8 * 1024;

/// A connection, by the client's address.
#[derive(Default)]
pub(super) struct Line {
    client: Option<usize>,
    host: usize,
    open: bool,
    since_ms: u64,
    /// Something was done to it or to the broker for which it may end at any time and anywhere.
    disturbed: bool,
    /// The broker was asked to end while it was open.
    ending: bool,
    /// What the client did for which the broker shall close it.
    misdeed: Option<Misdeed>,
    /// The client reads slowly, or did not read for a while.
    slow: bool,
    tap: Tap,
    /// Messages without their PUBACK or PUBREC, by packet id.
    awaited: BTreeMap<u16, MessageKey>,
    /// Bytes that the broker has read less those that it has written, when the client began a flood.
    flood: Option<i64>,
    read: i64,
    written: i64,
    /// While and after the client did not read.
    backlog: Option<Backlog>,
}

/// Why the broker shall close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shell) enum Misdeed {
    /// Another connection took its session over.
    TakenOver,
    /// It sends nothing.
    Silent,
    /// It said goodbye.
    Goodbye,
}

/// What came of what was published while a client did not read: at QoS 0, it went through the broker's memory.
struct Backlog {
    from_ms: u64,
    /// None while it does not read.
    to_ms: Option<u64>,
    bytes: u64,
    disturbances: u64,
}

impl Ledger {
    /// A client or nobody in particular has connected.
    pub(in crate::shell) fn line_opened(&mut self, line: SocketAddr, host: usize, client: Option<usize>) {
        let now_ms = self.now_ms;
        let (disturbed, slowed) = (self.disturbed[host], self.slowed[host]);
        let known = self.lines.entry(line).or_default();
        known.client = client;
        known.host = host;
        known.open = true;
        known.since_ms = now_ms;
        known.disturbed |= disturbed;
        known.slow |= slowed;
    }

    /// The broker has accepted a connection; the number of it.
    pub(in crate::shell) fn wire_opened(&mut self, peer: SocketAddr) -> u64 {
        self.wires += 1;
        self.wires_open += 1;
        let number = self.wires;
        self.lines.entry(peer).or_default().ending = self.ending;
        self.note("broker", &[number], || format!("accepts {peer}"));
        number
    }

    /// The broker has let go of a connection.
    pub(in crate::shell) fn wire_closed(&mut self, peer: SocketAddr) {
        self.wires_open -= 1;
        self.note("broker", &[u64::from(peer.port())], || format!("lets go of {peer}"));
    }

    /// Connections that the broker holds.
    pub(in crate::shell) fn wires_open(&self) -> u64 {
        self.wires_open
    }

    /// The broker has read bytes.
    pub(in crate::shell) fn broker_read(&mut self, peer: SocketAddr, count: usize) {
        self.note("broker", &[count as u64], || format!("reads {count} bytes from {peer}"));
        let bound = (2 * self.unsent_bytes + 2 * self.window_bytes + SLACK_BYTES) as i64;
        let Some(line) = self.lines.get_mut(&peer) else { return };
        line.read += count as i64;
        // What a connection brings while it is being closed is thrown away.
        let Some(begun) = line.flood.filter(|_| !line.ending && line.misdeed.is_none()) else { return };
        let unanswered = line.read - line.written - begun;
        if unanswered > bound {
            let text = format!(
                "it reads on from a client that takes no answers: {unanswered} bytes of them, at most {bound}"
            );
            self.fail(Checker::Window, &peer.to_string(), text);
        }
    }

    /// Bytes leave the broker for good.
    pub(in crate::shell) fn leaves(&mut self, peer: SocketAddr, bytes: &[u8]) {
        self.note("broker", &[bytes.len() as u64], || format!("sends {} bytes to {peer}", bytes.len()));
        self.trace.bytes(bytes);
        let line = self.lines.entry(peer).or_default();
        line.written += bytes.len() as i64;
        let mut answered = Vec::new();
        let Line { tap, awaited, .. } = line;
        tap.take(bytes, |leaving| {
            if let Leaving::PubAck(packet_id) | Leaving::PubRec(packet_id) = leaving {
                answered.extend(awaited.remove(&packet_id));
            }
        });
        for key in answered {
            self.answer_leaves(key);
        }
    }

    /// A PUBLISH with this packet id goes out on a connection.
    pub(in crate::shell) fn awaits(&mut self, line: SocketAddr, packet_id: u16, key: MessageKey) {
        self.counts.packets += 1;
        if let Some(line) = self.lines.get_mut(&line) {
            line.awaited.insert(packet_id, key);
        }
    }

    pub(in crate::shell) fn misdeed(&mut self, line: SocketAddr, misdeed: Misdeed) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.misdeed = Some(misdeed);
        }
    }

    /// The client reads slowly on this connection.
    pub(in crate::shell) fn reads_slowly(&mut self, line: SocketAddr) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.slow = true;
        }
    }

    /// The client reads no more for a while, or again.
    pub(in crate::shell) fn set_reading(&mut self, line: SocketAddr, reading: bool) {
        let (now_ms, disturbances) = (self.now_ms, self.disturbances);
        let Some(line) = self.lines.get_mut(&line) else { return };
        line.slow = true;
        if !reading {
            line.backlog = Some(Backlog { from_ms: now_ms, to_ms: None, bytes: 0, disturbances });
        } else {
            line.flood = None;
            if let Some(backlog) = &mut line.backlog {
                backlog.to_ms = Some(now_ms);
            }
        }
    }

    /// The client begins to ask for far more answers than it takes.
    pub(in crate::shell) fn floods(&mut self, line: SocketAddr) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.flood = Some(line.read - line.written);
        }
    }

    /// Bytes of pings that overflow everything between a client and the broker.
    pub(in crate::shell) fn flood_bytes(&self) -> u64 {
        2 * (2 * self.unsent_bytes + 3 * self.window_bytes + SLACK_BYTES)
    }

    /// A message at QoS 0 came to a client that perhaps did not read when it was published.
    pub(super) fn backlog_arrived(&mut self, client: usize, line: SocketAddr, sent_ms: u64, size: u64) {
        let bound = self.unsent_bytes + 2 * self.window_bytes + SLACK_BYTES;
        // What was on its way to the broker when the reader went on does not count.
        let margin_ms = 500;
        let disturbances = self.disturbances;
        let Some(backlog) = self.lines.get_mut(&line).and_then(|line| line.backlog.as_mut()) else { return };
        let to_ms = backlog.to_ms.unwrap_or(u64::MAX).saturating_sub(margin_ms);
        if backlog.disturbances != disturbances || sent_ms < backlog.from_ms || sent_ms > to_ms {
            return;
        }
        backlog.bytes += size;
        if backlog.bytes > bound {
            let bytes = backlog.bytes;
            let text = format!("{bytes} bytes at QoS 0 were kept while it did not read, at most {bound}");
            self.fail(Checker::Window, &format!("c{client}"), text);
        }
    }

    /// A connection came to its end at the client: by FIN or by a reset, after whole packets or within one.
    pub(in crate::shell) fn line_ended(&mut self, line: SocketAddr, how: &str, whole: bool) {
        let now_ms = self.now_ms;
        let Some(known) = self.lines.get_mut(&line) else { return };
        known.open = false;
        let (disturbed, ending, slow, misdeed) = (known.disturbed, known.ending, known.slow, known.misdeed);
        let lasted_ms = now_ms - known.since_ms;
        let who = known.client.map_or_else(|| line.to_string(), |client| format!("c{client}"));
        self.note(&who, &[u64::from(line.port())], || {
            format!("finds {line} ended by {how} after {lasted_ms} ms")
        });
        if disturbed {
            return;
        }
        if misdeed.is_none() && !ending {
            let text = format!("its connection {line} has ended by {how}, and it has done nothing wrong");
            self.fail(Checker::Protocol, &who, text);
        } else if !whole && !slow {
            let text = format!("its connection {line} ended within a packet");
            self.fail(Checker::Codec, &who, text);
        }
    }

    /// The client gives a connection up.
    pub(in crate::shell) fn line_left(&mut self, line: SocketAddr, patience_is_over: bool) {
        let Some(known) = self.lines.get_mut(&line) else { return };
        known.open = false;
        let disturbed = known.disturbed || known.ending;
        let who = known.client.map_or_else(|| line.to_string(), |client| format!("c{client}"));
        self.note(&who, &[u64::from(line.port())], || format!("gives {line} up"));
        if patience_is_over && !disturbed {
            let text = format!("nothing comes on its connection {line} any more");
            self.fail(Checker::Progress, &who, text);
        }
    }

    /// The broker has not closed what it should have closed long ago.
    pub(in crate::shell) fn not_closed(&mut self, line: SocketAddr, why: &str) {
        let Some(known) = self.lines.get(&line) else { return };
        if !known.disturbed && !known.ending {
            let text = format!("it was not closed in time: {why}");
            self.fail(Checker::Progress, &line.to_string(), text);
        }
    }

    /// Something is done to the links of a machine.
    pub(in crate::shell) fn disturb(&mut self, host: usize) {
        self.disturbed[host] = true;
        self.disturbances += 1;
        self.lines.values_mut().filter(|line| line.host == host).for_each(|line| line.disturbed = true);
    }

    /// The link of a machine becomes slow: what is being closed may not get through in time.
    pub(in crate::shell) fn slow_down(&mut self, host: usize) {
        self.slowed[host] = true;
        self.disturbances += 1;
        self.lines.values_mut().filter(|line| line.host == host).for_each(|line| line.slow = true);
    }

    /// New connections of a machine are as they should be.
    pub(in crate::shell) fn calm_down(&mut self, host: usize) {
        self.disturbed[host] = false;
        self.slowed[host] = false;
    }

    /// Publishers may be held up.
    pub(in crate::shell) fn disturb_publishers(&mut self) {
        self.disturbances += 1;
    }

    /// The broker stops at once, or has ended: no connection can be held against it.
    pub(in crate::shell) fn broker_ended(&mut self) {
        self.counts.crashes += 1;
        self.ending = false;
        self.disturbances += 1;
        self.lines.values_mut().for_each(|line| line.disturbed = true);
    }

    /// The operator asks the broker to end.
    pub(in crate::shell) fn shutdown_asked(&mut self) {
        self.ending = true;
        self.disturbances += 1;
        self.lines.values_mut().for_each(|line| line.ending = true);
    }

    /// The broker has ended in order: what it stored it has answered, where somebody took the answers. Its
    /// connections end after whole packets.
    pub(in crate::shell) fn ended_in_order(&mut self) {
        self.counts.crashes += 1;
        self.ending = false;
        let mut unanswered: Vec<MessageKey> = Vec::new();
        for (address, line) in &self.lines {
            let answerable = line.open && !line.slow && !line.disturbed && line.misdeed.is_none();
            let keys = line.awaited.values().filter(|_| answerable);
            unanswered.extend(keys.filter(|key| {
                self.messages
                    .get(key)
                    .is_some_and(|message| message.stored && !message.answered && message.line == *address)
            }));
        }
        if let Some(key) = unanswered.first() {
            let text = "it was stored, and the broker ended in order without answering it";
            self.fail(Checker::Halt, &key.to_string(), text);
        }
    }
}
