//! A run as typed entries, for a page that shows it: packets from their sending to their arrival, disk operations from
//! order to end, crashes with what they left.
//!
//! An entry stands where something began; when that ends, or is cut off, its end is written into it. What an entry is
//! about (a message, a subscription, a connection) is named alike wherever it turns up: in PUBLISH, in the record on
//! the disk, in the answers, in the delivery.

mod flights;
mod packet;
mod records;

use crate::disk::Left;
use crate::fault::UnderWay;
use crate::outcome::Violation;
use flights::{Flights, Told};
use records::{Content, Records};
use serde::Serialize;
use std::collections::BTreeMap;
use vowmq_core::ids::{ConnectionId, Lsn, OpId};
use vowmq_core::output::DiskRequest;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// When it happened or began, in simulated microseconds.
    pub at_us: u64,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
    /// The same in words.
    pub text: String,
    /// The messages, subscriptions and connections that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
}

/// What an entry tells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// A packet, or the opening or the end of a connection, on its way.
    Flight {
        /// Whose connection, as an index.
        client: usize,
        /// Which.
        connection: u64,
        /// Whether it goes to the broker, else to the client.
        to_broker: bool,
        /// How it ended.
        fate: Fate,
        /// When.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_us: Option<u64>,
    },
    /// An operation of the disk.
    Operation {
        /// Its number in this life of the broker.
        op: u64,
        /// `write`, `sync`, `read` and so on.
        verb: &'static str,
        /// The segment, if it concerns one.
        #[serde(skip_serializing_if = "Option::is_none")]
        segment: Option<u64>,
        /// Whether it ends with a sync.
        sync: bool,
        /// The first and the last record of a batch.
        #[serde(skip_serializing_if = "Option::is_none")]
        records: Option<(u64, u64)>,
        /// What else is to be said of it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        details: Vec<String>,
        /// How it ended.
        fate: Fate,
        /// When.
        #[serde(skip_serializing_if = "Option::is_none")]
        end_us: Option<u64>,
    },
    /// The records on the disk now end with this one.
    Synced {
        /// Its LSN.
        lsn: u64,
    },
    /// The process or the machine is gone.
    Crash {
        /// The machine too.
        power: bool,
        /// What became of what was not durable.
        details: Vec<String>,
    },
    /// The process begins to recover.
    Recovering,
    /// The process has recovered and serves.
    Serving {
        /// The recovery's report.
        details: Vec<String>,
    },
    /// A fault sets in.
    Fault {
        /// Which of the scenario's.
        index: usize,
    },
    /// A client does something, or something happens to it.
    Client {
        /// Which, as an index.
        client: usize,
    },
    /// The broker, or what drives it, does something.
    Broker,
    /// The broker reports something.
    Event,
    /// The disk is not what it seems.
    Disk,
    /// The run goes into another phase.
    Phase,
    /// A promise is broken.
    Violation {
        /// The entry that breaks it, where one does: a packet that leaves too early, or one that should not have come.
        #[serde(skip_serializing_if = "Option::is_none")]
        culprit: Option<usize>,
    },
}

/// How something ended that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It has not, when the run is over.
    UnderWay,
    /// It arrived, or was done.
    Done,
    /// It was lost, or cut off by a crash.
    Lost,
    /// It failed.
    Failed,
}

/// The entries of a run, while it goes on.
pub(crate) struct Recording {
    now_us: u64,
    clients: Vec<String>,
    entries: Vec<Entry>,
    flights: Flights,
    operations: BTreeMap<OpId, usize>,
    records: Records,
    /// The last record that was written.
    written: u64,
    synced: Lsn,
    crash: Option<usize>,
}

impl Recording {
    pub(crate) fn new(clients: Vec<String>) -> Recording {
        Recording {
            now_us: 0,
            clients,
            entries: Vec::new(),
            flights: Flights::default(),
            operations: BTreeMap::new(),
            records: Records::default(),
            written: 0,
            synced: Lsn(0),
            crash: None,
        }
    }

    pub(crate) fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// What a line of the trace says.
    pub(crate) fn note(&mut self, who: &str, number: Option<u64>, text: String) {
        let what = match who {
            "client" => What::Client { client: number.unwrap_or_default() as usize },
            "event" => What::Event,
            "disk" => What::Disk,
            "phase" => What::Phase,
            _ => What::Broker,
        };
        self.push(what, text, Vec::new());
    }

    /// A fault sets in.
    pub(crate) fn fault(&mut self, index: usize, text: String) {
        self.push(What::Fault { index }, text, Vec::new());
    }

    /// The process begins to recover, or has recovered and serves: what it reports then.
    pub(crate) fn process(&mut self, report: Option<&vowmq_core::RecoveryReport>) {
        let Some(report) = report else {
            self.push(What::Recovering, "the broker is started and recovers".to_owned(), Vec::new());
            return;
        };
        let mut details = vec![
            format!("recovery {} of the store", report.recovery_count),
            format!("{} records in {} segments", report.records, report.segments),
            format!(
                "{} sessions, {} queues, {} messages, {} retained, {} wills",
                report.sessions, report.queues, report.messages, report.retained, report.wills
            ),
        ];
        let torn = |(segment, at)| format!("an unfinished write was cut off at {at} of segment {segment}");
        details.extend(report.torn_tail.map(torn));
        let text = format!("the broker serves; its last record is {}", report.last_lsn);
        self.push(What::Serving { details }, text, Vec::new());
    }

    /// The process or the machine is gone. What becomes of the disk is told by `left`.
    pub(crate) fn crash(&mut self, power: bool, text: &str) {
        self.crash = Some(self.entries.len());
        self.push(What::Crash { power, details: Vec::new() }, text.to_owned(), Vec::new());
        self.flights.broker_died(&mut self.entries, self.now_us);
    }

    /// What the crash at hand makes of something that was not durable.
    pub(crate) fn left(&mut self, left: Left) {
        if let Left::Operation(op, under_way) = left
            && let Some(index) = self.operations.remove(&op)
        {
            self.end(index, if under_way == UnderWay::Done { Fate::Done } else { Fate::Lost });
        }
        let crash = self.crash.and_then(|index| self.entries.get_mut(index));
        if let Some(Entry { what: What::Crash { details, .. }, .. }) = crash {
            details.push(left.to_string());
        }
    }

    /// The connection speaks AMQP; others speak MQTT.
    pub(crate) fn speaks_amqp(&mut self, id: ConnectionId) {
        self.flights.speaks_amqp(id);
    }

    /// Bytes are on their way on a connection of this client. What they say, in words.
    pub(crate) fn sent(
        &mut self,
        id: ConnectionId,
        client: usize,
        to_broker: bool,
        bytes: &[u8],
    ) -> Vec<String> {
        let mut texts = Vec::new();
        for Told { text, about, end } in self.flights.told(id, client, to_broker, bytes) {
            texts.push(text.clone());
            self.take_off(id, (client, to_broker), end, (text, about));
        }
        texts
    }

    /// A connection is opened, or ends in order after all that was sent before.
    pub(crate) fn signalled(&mut self, id: ConnectionId, client: usize, to_broker: bool, text: String) {
        let end = self.flights.signal(id, to_broker);
        self.take_off(id, (client, to_broker), end, (text, vec![packet::connection(id)]));
    }

    /// So many bytes have arrived; a signal counts as one.
    pub(crate) fn arrived(&mut self, id: ConnectionId, to_broker: bool, bytes: usize) {
        for index in self.flights.arrived(id, to_broker, bytes) {
            self.end(index, Fate::Done);
        }
    }

    /// What is on its way there does not arrive any more.
    pub(crate) fn lost(&mut self, id: ConnectionId, to_broker: bool) {
        for index in self.flights.lost(id, to_broker) {
            self.end(index, Fate::Lost);
        }
    }

    /// Nothing arrives any more on this connection, either way.
    pub(crate) fn broken(&mut self, id: ConnectionId) {
        self.lost(id, true);
        self.lost(id, false);
    }

    /// The broker orders something of the disk; `number` counts all such orders of the run.
    pub(crate) fn ordered(&mut self, op: OpId, number: u64, request: &DiskRequest) {
        let mut details = vec![format!("operation {op} of this process, {number} of the run")];
        let mut about = Vec::new();
        let mut records = None;
        let (verb, segment, text) = match request {
            DiskRequest::Write { segment, offset, chunks, sync } => {
                let bytes = chunks.concat();
                let and_sync = if *sync { " and sync" } else { "" };
                let mut content = self.records.read(&bytes);
                self.name_packet_ids(&mut content);
                details.push(format!("{} bytes at {offset} of segment {segment}", bytes.len()));
                details.extend(content.details);
                (about, records) = (content.about, content.span);
                ("write", Some(*segment), format!("write{and_sync} {}", content.text))
            }
            DiskRequest::List => ("list", None, "list the directory".to_owned()),
            DiskRequest::Create { segment } => {
                ("create", Some(*segment), format!("create segment {segment}"))
            }
            DiskRequest::Reserve { segment, length } => {
                ("reserve", Some(*segment), format!("reserve {length} bytes of segment {segment}"))
            }
            DiskRequest::Sync { segment } => ("sync", Some(*segment), format!("sync segment {segment}")),
            DiskRequest::SyncDirectory => ("sync", None, "sync the directory".to_owned()),
            DiskRequest::Read { segment, offset, length } => {
                ("read", Some(*segment), format!("read {length} bytes at {offset} of segment {segment}"))
            }
            DiskRequest::Remove { segment } => {
                ("remove", Some(*segment), format!("remove segment {segment}"))
            }
            DiskRequest::Rename { from, to } => {
                ("rename", Some(*to), format!("use segment {from} again as segment {to}"))
            }
            DiskRequest::FreeSpace => ("free space", None, "ask for free space".to_owned()),
        };
        let sync = verb == "sync" || matches!(request, DiskRequest::Write { sync: true, .. });
        let (op, segment, index) = (op, segment.map(|segment| segment.0), self.entries.len());
        let (fate, end_us) = (Fate::UnderWay, None);
        self.operations.insert(op, index);
        let what = What::Operation { op: op.0, verb, segment, sync, records, details, fate, end_us };
        self.push(what, text, about);
    }

    /// A record of a packet id names no message: what its client has in flight under it is meant.
    fn name_packet_ids(&self, content: &mut Content) {
        for (client, packet_id, line) in std::mem::take(&mut content.packet_ids) {
            let index = self.clients.iter().position(|id| *id == client);
            let Some(name) = index.and_then(|index| self.flights.names.message(index, packet_id)) else {
                continue;
            };
            content.details[line].push_str(&format!(", under which {name} came"));
            content.about.push(name.clone());
        }
    }

    /// An operation of the disk has ended; with an error in words, it failed.
    pub(crate) fn ended(&mut self, op: OpId, error: Option<&str>) {
        let Some(index) = self.operations.remove(&op) else { return };
        self.end(index, if error.is_some() { Fate::Failed } else { Fate::Done });
        if let (What::Operation { details, .. }, Some(error)) = (&mut self.entries[index].what, error) {
            details.push(format!("failed: {error}"));
        }
    }

    /// As `ended`, where nobody reads the platter: what was written before a sync is taken for synced.
    pub(crate) fn ended_as_ordered(&mut self, op: OpId, error: Option<&str>) {
        let ordered = self.operations.get(&op).map(|index| &self.entries[*index].what);
        let (sync, last) = match ordered {
            Some(What::Operation { sync, records, .. }) => (*sync, records.map_or(0, |(_, last)| last)),
            _ => (false, 0),
        };
        self.ended(op, error);
        if error.is_none() {
            self.written = self.written.max(last);
            if sync {
                self.synced(Lsn(self.written));
            }
        }
    }

    /// The synced records end with this one.
    pub(crate) fn synced(&mut self, lsn: Lsn) {
        if lsn != self.synced {
            self.synced = lsn;
            let text = format!("the synced records now end with {lsn}");
            self.push(What::Synced { lsn: lsn.0 }, text, Vec::new());
        }
    }

    /// A promise is broken.
    pub(crate) fn violated(&mut self, violation: &Violation) {
        let culprit = self.culprit(violation);
        let mut about: Vec<String> = names_in(violation).filter(|name| self.is_known(name)).collect();
        about.extend(culprit.into_iter().flat_map(|index| self.entries[index].about.clone()));
        about.dedup();
        self.push(What::Violation { culprit }, violation.to_string(), about);
    }

    /// The run is over.
    pub(crate) fn finish(self) -> Vec<Entry> {
        self.entries
    }

    /// The packet of that moment which the violation speaks of.
    fn culprit(&self, violation: &Violation) -> Option<usize> {
        let now = violation.at_us;
        let moment = self.entries.iter().enumerate().filter(|(_, entry)| match &entry.what {
            What::Flight { end_us, .. } => entry.at_us == now || *end_us == Some(now),
            _ => false,
        });
        let letters = |text: &str| text.to_lowercase().replace(|letter: char| !letter.is_alphanumeric(), "");
        let said = letters(&violation.text);
        let (leaves, answer) = (violation.text.contains(" leaves"), said.starts_with("theanswer"));
        let receives = violation.text.contains(" receives ");
        let names: Vec<String> = names_in(violation).collect();
        let concerns = |entry: &Entry| match &entry.what {
            What::Flight { client, .. } => {
                let id = &self.clients[*client];
                violation.subject == *id || violation.subject.contains(&format!("client {client}"))
            }
            _ => false,
        };
        let fits = |entry: &Entry| {
            // `PubAck(3) leaves` is the packet `PUBACK 3`.
            let packet = letters(&entry.text.split(' ').take(2).collect::<String>());
            let is_answer = answer && (packet.starts_with("puback") || packet.starts_with("pubrec"));
            let named = entry.about.iter().any(|name| names.contains(name));
            let left = matches!(entry.what, What::Flight { to_broker: false, .. }) && entry.at_us == now;
            let score = u32::from(concerns(entry))
                + 2 * u32::from(named)
                + 4 * u32::from(is_answer || said.starts_with(&packet));
            // What a client receives is the broker's packet, not the answer that it gives in the same moment.
            let came =
                matches!(entry.what, What::Flight { to_broker: false, end_us: Some(end), .. } if end == now);
            let is_it = (leaves && left) || (receives && came);
            if score > 0 && is_it { score + 8 } else { score }
        };
        moment
            .max_by_key(|(_, entry)| fits(entry))
            .filter(|(_, entry)| fits(entry) > 0)
            .map(|(index, _)| index)
    }

    fn is_known(&self, name: &String) -> bool {
        self.entries.iter().any(|entry| entry.about.contains(name))
    }

    fn take_off(
        &mut self,
        id: ConnectionId,
        (client, to_broker): (usize, bool),
        end: u64,
        (text, about): (String, Vec<String>),
    ) {
        self.flights.take_off(id, to_broker, end, self.entries.len());
        let (connection, fate) = (id.0, Fate::UnderWay);
        self.push(What::Flight { client, connection, to_broker, fate, end_us: None }, text, about);
    }

    fn end(&mut self, index: usize, ended: Fate) {
        self.entries[index].end(self.now_us, ended);
    }

    fn push(&mut self, what: What, text: String, about: Vec<String>) {
        self.entries.push(Entry { at_us: self.now_us, what, text, about });
    }
}

impl Entry {
    fn end(&mut self, now_us: u64, ended: Fate) {
        if let What::Flight { fate, end_us, .. } | What::Operation { fate, end_us, .. } = &mut self.what {
            (*fate, *end_us) = (ended, Some(now_us));
        }
    }
}

/// The names of messages in a violation's words.
fn names_in(violation: &Violation) -> impl Iterator<Item = String> {
    let words = format!("{} {}", violation.subject, violation.text);
    let is_name = |word: &&str| {
        let numbers = word.strip_prefix('m').and_then(|rest| rest.split_once('.'));
        numbers.is_some_and(|(left, right)| left.parse::<u32>().is_ok() && right.parse::<u32>().is_ok())
    };
    let trim = |word: &'_ str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned();
    let words: Vec<String> = words.split_whitespace().map(trim).collect();
    words.into_iter().filter(move |word| is_name(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{self, Answer, Packet, Publish, Version};
    use crate::outcome::Checker;
    use crate::payload::{self, MessageKey};
    use bytes::BytesMut;

    fn exchanged() -> Recording {
        let mut recording = Recording::new(vec!["pump".to_owned(), "tank".to_owned()]);
        let (pump, tank) = (ConnectionId(1), ConnectionId(2));
        let publish = Publish {
            topic: "a".to_owned(),
            payload: payload::build(MessageKey { publisher: 0, sequence: 7 }, 32),
            qos: 1,
            packet_id: 1,
            dup: false,
            retain: false,
            alias: None,
            expiry_s: None,
            identifiers: Vec::new(),
        };
        let (mut bytes, mut ack) = (BytesMut::new(), BytesMut::new());
        codec::write(Version::V3, &Packet::Publish(publish), &mut bytes);
        codec::write(Version::V3, &Packet::PubAck(Answer::new(1)), &mut ack);
        recording.signalled(pump, 0, true, "opens".to_owned());
        recording.arrived(pump, true, 1);
        recording.set_now(10);
        recording.sent(pump, 0, true, &bytes[..9]);
        recording.sent(pump, 0, true, &bytes[9..]);
        recording.arrived(pump, true, bytes.len() - 1);
        recording.set_now(20);
        recording.arrived(pump, true, 1);
        recording.sent(pump, 0, false, &ack);
        recording.sent(tank, 1, false, &bytes);
        recording
    }

    fn fate(recording: &Recording, index: usize) -> (Fate, Option<u64>) {
        match recording.entries[index].what {
            What::Flight { fate, end_us, .. } => (fate, end_us),
            _ => panic!("it is none: {:?}", recording.entries[index]),
        }
    }

    /// Were it to fail, an arrow would end before the last byte has come, or point at a packet that was lost.
    #[test]
    fn a_packet_arrives_with_its_last_byte_or_is_lost() {
        let mut recording = exchanged();
        assert_eq!(fate(&recording, 1), (Fate::Done, Some(20)));
        recording.set_now(30);
        recording.broken(ConnectionId(1));
        assert_eq!(
            (fate(&recording, 2), fate(&recording, 3)),
            ((Fate::Lost, Some(30)), (Fate::UnderWay, None))
        );
    }

    /// Were it to fail, the page would point at the wrong packet.
    #[test]
    fn a_violation_is_tied_to_its_packet() {
        for (subject, text, packet) in [
            ("m0.7", "the answer to m0.7 leaves, and the message is not there", "PUBACK 1 for m0.7"),
            ("pump", "PubAck(1) leaves for \"pump\", and the records do not have it", "PUBACK 1 for m0.7"),
            ("client 1 m0.7", "it was delivered already", "PUBLISH 1 m0.7 QoS 1 to \"a\""),
        ] {
            let mut recording = exchanged();
            let (subject, text) = (subject.to_owned(), text.to_owned());
            recording.violated(&Violation { checker: Checker::Loss, subject, text, at_us: 20 });
            let entries = recording.finish();
            let What::Violation { culprit: Some(culprit) } = entries[4].what else {
                panic!("{:?}", entries[4])
            };
            assert_eq!(entries[culprit].text, packet);
            assert_eq!(entries[4].about, ["m0.7"]);
        }
    }

    /// Were it to fail, the page would paint a client's answer red, which is right, and not what it answers.
    #[test]
    fn what_a_client_receives_is_not_its_answer_to_that() {
        let mut recording = exchanged();
        let tank = ConnectionId(2);
        recording.set_now(40);
        recording.arrived(tank, false, usize::MAX);
        let mut ack = BytesMut::new();
        codec::write(Version::V3, &Packet::PubAck(Answer::new(1)), &mut ack);
        recording.sent(tank, 1, true, &ack);
        let (subject, text) = ("client 1 m0.7".to_owned(), "client 1 receives m0.7 with QoS 1".to_owned());
        recording.violated(&Violation { checker: Checker::Duplicate, subject, text, at_us: 40 });
        let entries = recording.finish();
        let Some(What::Violation { culprit: Some(culprit) }) = entries.last().map(|last| &last.what) else {
            panic!("{:?}", entries.last())
        };
        assert_eq!(entries[*culprit].text, "PUBLISH 1 m0.7 QoS 1 to \"a\"");
    }
}
