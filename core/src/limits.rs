//! Every bound in one place, with its default. Each is a setting of the configuration file.

use crate::access::Access;

/// What the operator may set. Changing one at run time (`Input::Reload`) holds for what happens afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The bounds.
    pub limits: Limits,
    /// Who may connect.
    pub access: Access,
    /// When written data is forced to the disk.
    pub sync: SyncPolicy,
    /// Bytes of a segment file: 64 KiB to 4 GiB, a multiple of 4096. Read at start only.
    pub segment_bytes: u64,
    /// Report what happens to every message (`Event::is_about_a_message`). Costs time.
    pub message_events: bool,
}

/// When written data is forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before every acknowledgement that depends on it. The only policy under which an acknowledgement means
    /// "on disk".
    Always,
    /// At most this many milliseconds after it was written: a power cut loses what was acknowledged since.
    EveryMs(u64),
    /// Whenever the operating system likes: a power cut may lose anything. A crash of the broker alone does not.
    Never,
}

/// What happens to a message for a queue that is at its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest message that was never sent is dropped and counted.
    DropOldest,
    /// The new message is refused, for all its recipients. MQTT 3.1.1 has no word for that: its publisher is
    /// disconnected without an acknowledgement.
    Refuse,
}

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. One more is closed at once.
    pub connections: usize,
    /// Bytes of one packet, its header included: at most 268,435,460 (MQTT 3.1.1 §2.2.3).
    pub packet_bytes: usize,
    /// Bytes of the packet that opens a connection.
    pub connect_bytes: usize,
    /// Milliseconds from the connection's opening to its whole first packet.
    pub connect_ms: u64,
    /// Bytes of a topic name or filter: at most 65,535.
    pub topic_bytes: usize,
    /// Levels of a topic name or filter.
    pub topic_levels: usize,
    /// Bytes of a client identifier: at most 65,535.
    pub client_id_bytes: usize,
    /// Sessions, durable and clean. A client that would need one more is refused (CONNACK 3).
    pub sessions: usize,
    /// Subscriptions of one client.
    pub subscriptions: usize,
    /// QoS 1 and 2 messages that are on their way to one subscriber: 1 to 65,534.
    pub inflight: usize,
    /// QoS 2 packet ids that one publisher may leave unreleased: at most 65,535.
    pub received_ids: usize,
    /// Topic aliases of MQTT 5 that one connection may use, each way; 0 means none.
    pub topic_aliases: usize,
    /// Milliseconds of the longest keep-alive that a client of MQTT 5 may ask for, at most 65,535 s; 0 means any. One that
    /// asks for more, or for none, is told this one.
    pub keep_alive_max_ms: u64,
    /// Messages in one MQTT session's queue, or group's; 0 means bounded by the disk alone. Declared queues have
    /// `x-max-length`.
    pub queue_messages: u64,
    /// Payload bytes in one MQTT session's queue, or group's; 0 means bounded by the disk alone.
    pub queue_bytes: u64,
    /// What happens at either.
    pub queue_overflow: Overflow,
    /// Bytes that all messages held take in memory: those in memory, and a fixed charge for each message and for each
    /// queue that it stands in. Beyond it publishers are held as on a full disk.
    pub memory_bytes: u64,
    /// Bytes of messages that are on disk and are kept in memory as well; more are read back when they are delivered.
    pub cache_bytes: u64,
    /// Milliseconds until a durable session of MQTT 3.1.1 whose client stays away is removed; 0 means never.
    pub session_expiry_ms: u64,
    /// Retained messages. A PUBLISH that would make one more is refused as at a full queue.
    pub retained: usize,
    /// Bytes ordered to be sent to one connection and not taken yet, above which QoS 0 messages for it are
    /// dropped and counted, and QoS 1 and 2 stay in the queue; at twice as many it is not read.
    pub unsent_bytes: usize,
    /// Acknowledgements that one connection may have waiting for the disk, above which it is not read.
    pub held_replies: usize,
    /// Bytes of PUBLISH packets that one connection may have parked while the disk is full, above which it is
    /// not read.
    pub parked_bytes: usize,
    /// Free bytes of the file system below which publishers are held.
    pub free_bytes: u64,
    /// Segments for which space is kept free: for acknowledgements, checkpoints and compaction. Below it publishers
    /// are held.
    pub reserve_segments: u64,
    /// Bytes written to the log between two checkpoints; 0 means one segment.
    pub checkpoint_bytes: u64,
    /// Per cent of what is needed that the store's files may take, four segments aside, before what is still needed
    /// of mostly empty segments is written again: at least 110.
    pub disk_percent: u64,
    /// Milliseconds that records which nobody waits for may stay unwritten.
    pub lazy_sync_ms: u64,
    /// Bytes of such records that start a write.
    pub lazy_sync_bytes: usize,
    /// Positions that are recorded ahead of what a queue has delivered (the delivery horizon).
    pub horizon_block: u64,
    /// Pieces of work that one call of `handle` does before it puts the rest off.
    pub turn_work: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 100_000,
            packet_bytes: 16 * 1024 * 1024,
            connect_bytes: 256 * 1024,
            connect_ms: 10_000,
            topic_bytes: 4096,
            topic_levels: 128,
            client_id_bytes: 1024,
            sessions: 1_000_000,
            subscriptions: 10_000,
            inflight: 100,
            received_ids: 10_000,
            topic_aliases: 64,
            keep_alive_max_ms: 0,
            queue_messages: 0,
            queue_bytes: 0,
            queue_overflow: Overflow::DropOldest,
            memory_bytes: 4 * 1024 * 1024 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            session_expiry_ms: 30 * 24 * 3600 * 1000,
            retained: 1_000_000,
            unsent_bytes: 16 * 1024 * 1024,
            held_replies: 10_000,
            parked_bytes: 1024 * 1024,
            free_bytes: 64 * 1024 * 1024,
            reserve_segments: 3,
            checkpoint_bytes: 0,
            disk_percent: 200,
            lazy_sync_ms: 10,
            lazy_sync_bytes: 64 * 1024,
            horizon_block: 1024,
            turn_work: 4096,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            access: Access::default(),
            sync: SyncPolicy::Always,
            segment_bytes: 64 * 1024 * 1024,
            message_events: false,
        }
    }
}

/// A setting outside its range. Displays the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {rule}")]
pub struct OutOfRange {
    /// The setting's name.
    pub name: &'static str,
    /// What it must be.
    pub rule: &'static str,
    /// The other setting that the rule compares it with.
    pub beside: Option<&'static str>,
}

/// The largest packet MQTT can express: four length bytes, one byte before them (MQTT 3.1.1 §2.2.3).
pub const MQTT_PACKET_BYTES_MAX: usize = 268_435_455 + 5;

/// What one record adds to the packet that caused it, at the most, its recipients aside.
pub(crate) const RECORD_OVERHEAD_BYTES: u64 = 4096;

impl Settings {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is outside its range, with the rule.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let limits = &self.limits;
        let compared = |holds: bool, name, rule, beside| match holds {
            true => Ok(()),
            false => Err(OutOfRange { name, rule, beside }),
        };
        let rule = |holds: bool, name, rule| compared(holds, name, rule, None);
        let segment = self.segment_bytes;
        rule(
            (64 * 1024..=4 * 1024 * 1024 * 1024).contains(&segment) && segment.is_multiple_of(4096),
            "segment_bytes",
            "between 65536 (64 KiB) and 4294967296 (4 GiB), and a multiple of 4096",
        )?;
        rule(self.sync != SyncPolicy::EveryMs(0), "sync", "\"always\", \"never\" or at least 1 ms")?;
        rule(limits.connections >= 1, "connections", "at least 1")?;
        rule(
            (16..=MQTT_PACKET_BYTES_MAX).contains(&limits.packet_bytes),
            "packet_bytes",
            "between 16 and 268435460",
        )?;
        compared(
            limits.packet_bytes as u64 + 2 * RECORD_OVERHEAD_BYTES <= segment / 2,
            "packet_bytes",
            "at most half of segment_bytes less 8192, so that a message always fits into a segment",
            Some("segment_bytes"),
        )?;
        compared(
            (16..=limits.packet_bytes).contains(&limits.connect_bytes),
            "connect_bytes",
            "between 16 and packet_bytes",
            Some("packet_bytes"),
        )?;
        rule(limits.connect_ms >= 1, "connect_ms", "at least 1")?;
        rule((1..=65_535).contains(&limits.topic_bytes), "topic_bytes", "between 1 and 65535")?;
        rule(limits.topic_levels >= 1, "topic_levels", "at least 1")?;
        rule((23..=65_535).contains(&limits.client_id_bytes), "client_id_bytes", "between 23 and 65535")?;
        rule(limits.sessions >= 1, "sessions", "at least 1")?;
        rule(limits.subscriptions >= 1, "subscriptions", "at least 1")?;
        rule((1..=65_534).contains(&limits.inflight), "inflight", "between 1 and 65534")?;
        rule((1..=65_535).contains(&limits.received_ids), "received_ids", "between 1 and 65535")?;
        rule(limits.topic_aliases <= 65_535, "topic_aliases", "at most 65535")?;
        rule(
            limits.keep_alive_max_ms == 0 || (1000..=65_535_000).contains(&limits.keep_alive_max_ms),
            "keep_alive_max_ms",
            "0 or between 1 s and 65535 s",
        )?;
        let memory = limits.memory_bytes >= limits.packet_bytes as u64;
        compared(memory, "memory_bytes", "at least packet_bytes", Some("packet_bytes"))?;
        rule(limits.retained >= 1, "retained", "at least 1")?;
        rule(limits.disk_percent >= 110, "disk_percent", "at least 110")?;
        rule(limits.unsent_bytes >= 1, "unsent_bytes", "at least 1")?;
        rule(limits.held_replies >= 1, "held_replies", "at least 1")?;
        rule(limits.parked_bytes >= 1, "parked_bytes", "at least 1")?;
        rule(limits.horizon_block >= 1, "horizon_block", "at least 1")?;
        rule(limits.turn_work >= 1, "turn_work", "at least 1")
    }
}
