//! The list of settings: the only place that knows their keys. The file, the environment, the flags, what
//! `vowmq config` prints and what a reload compares are all read off it.

use super::value::Place;

/// A setting.
pub(super) struct Setting {
    /// Its key in the file, with the table before a dot.
    pub(super) key: &'static str,
    /// What it means, with its unit and what 0 means.
    pub(super) what: &'static str,
    /// A change takes effect when the broker starts.
    pub(super) at_start_only: bool,
    pub(super) place: Place,
}

impl Setting {
    /// The environment variable that overrides it.
    pub(super) fn variable(&self) -> String {
        format!("VOWMQ_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// The name that the core gives it when it is outside its range.
    pub(super) fn core_name(&self) -> &'static str {
        match self.key {
            "limits.connect_time" => "connect_ms",
            "limits.keep_alive_max" => "keep_alive_max_ms",
            key => key.strip_prefix("limits.").unwrap_or(key),
        }
    }
}

/// The setting with this key.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const fn at_start(key: &'static str, place: Place, what: &'static str) -> Setting {
    Setting { key, what, at_start_only: true, place }
}

const fn setting(key: &'static str, place: Place, what: &'static str) -> Setting {
    Setting { key, what, at_start_only: false, place }
}

/// All settings, in the order in which they are shown: those without a table first.
pub(super) static SETTINGS: &[Setting] = &[
    at_start(
        "data_dir",
        Place::Path(|c| &mut c.data_dir),
        "The directory of the store, made if it is missing.",
    ),
    setting(
        "sync",
        Place::Sync(|c| &mut c.settings.sync),
        "When written data is forced to the disk: \"always\" before every acknowledgement that depends on it; a \
         span of time (\"200 ms\"): a power cut may lose what was acknowledged since; \"never\": it may lose anything.",
    ),
    at_start(
        "segment_bytes",
        Place::BytesLong(|c| &mut c.settings.segment_bytes),
        "Size of a segment file: 64 KiB to 4 GiB, a multiple of 4096.",
    ),
    setting(
        "allow_anonymous",
        Place::Flag(|c| &mut c.allow_anonymous),
        "Without [users]: whether everybody may connect from other machines. With them: whether MQTT clients without a \
         name and a password may connect as well.",
    ),
    setting(
        "log",
        Place::Text(|c| &mut c.log),
        "What is logged: error, warn, info, debug, trace, also by module.",
    ),
    setting(
        "message_events",
        Place::Flag(|c| &mut c.settings.message_events),
        "Report the way of every message, logged at trace. Costs time.",
    ),
    at_start(
        "listen.mqtt",
        Place::Addresses(|c| &mut c.listen_mqtt),
        "Addresses for MQTT; port 0 takes any free port.",
    ),
    at_start(
        "listen.amqp",
        Place::Addresses(|c| &mut c.listen_amqp),
        "Addresses for AMQP 0-9-1; port 0 takes any free port.",
    ),
    setting(
        "limits.connections",
        Place::Count(|c| &mut c.settings.limits.connections),
        "Open connections. One more is closed at once.",
    ),
    setting(
        "limits.packet_bytes",
        Place::Bytes(|c| &mut c.settings.limits.packet_bytes),
        "Size of one packet, its header included; at most half a segment less 8 KiB.",
    ),
    setting(
        "limits.connect_bytes",
        Place::Bytes(|c| &mut c.settings.limits.connect_bytes),
        "Size of the packet that opens a connection.",
    ),
    setting(
        "limits.connect_time",
        Place::Millis(|c| &mut c.settings.limits.connect_ms),
        "Time from the opening of a connection to its whole first packet.",
    ),
    setting(
        "limits.topic_bytes",
        Place::Bytes(|c| &mut c.settings.limits.topic_bytes),
        "Length of a topic name or filter; at most 65535 bytes.",
    ),
    setting(
        "limits.topic_levels",
        Place::Count(|c| &mut c.settings.limits.topic_levels),
        "Levels of a topic name or filter.",
    ),
    setting(
        "limits.client_id_bytes",
        Place::Bytes(|c| &mut c.settings.limits.client_id_bytes),
        "Length of a client identifier; 23 to 65535 bytes.",
    ),
    setting(
        "limits.sessions",
        Place::Count(|c| &mut c.settings.limits.sessions),
        "Sessions, durable and clean. A client that would need one more is refused.",
    ),
    setting(
        "limits.subscriptions",
        Place::Count(|c| &mut c.settings.limits.subscriptions),
        "Subscriptions of one client.",
    ),
    setting(
        "limits.inflight",
        Place::Count(|c| &mut c.settings.limits.inflight),
        "QoS 1 and 2 messages on their way to one subscriber; 1 to 65534.",
    ),
    setting(
        "limits.received_ids",
        Place::Count(|c| &mut c.settings.limits.received_ids),
        "QoS 2 packet identifiers that one publisher may leave unreleased, and Receive Maximum of MQTT 5; 1 to 65535.",
    ),
    setting(
        "limits.topic_aliases",
        Place::Count(|c| &mut c.settings.limits.topic_aliases),
        "Topic aliases of MQTT 5 that one connection may use, each way; at most 65535; 0: none.",
    ),
    setting(
        "limits.keep_alive_max",
        Place::Millis(|c| &mut c.settings.limits.keep_alive_max_ms),
        "The longest keep-alive of a client of MQTT 5, which is told of it; at most 65535 s; 0: any.",
    ),
    setting(
        "limits.queue_messages",
        Place::CountLong(|c| &mut c.settings.limits.queue_messages),
        "Messages in one MQTT session's queue; 0: bounded by the disk alone. AMQP: x-max-length.",
    ),
    setting(
        "limits.queue_bytes",
        Place::BytesLong(|c| &mut c.settings.limits.queue_bytes),
        "Payloads in one MQTT session's queue; 0: bounded by the disk alone. AMQP: x-max-length-bytes.",
    ),
    setting(
        "limits.queue_overflow",
        Place::Overflow(|c| &mut c.settings.limits.queue_overflow),
        "At either bound: \"drop-oldest\" (and count it) or \"refuse\" the new message.",
    ),
    setting(
        "limits.memory_bytes",
        Place::BytesLong(|c| &mut c.settings.limits.memory_bytes),
        "Memory that all messages held may take; beyond it publishers are held.",
    ),
    setting(
        "limits.cache_bytes",
        Place::BytesLong(|c| &mut c.settings.limits.cache_bytes),
        "Memory for messages that are on disk as well; more are read back when they are delivered.",
    ),
    setting(
        "limits.session_expiry",
        Place::Millis(|c| &mut c.settings.limits.session_expiry_ms),
        "Time until a durable session of MQTT 3.1.1 whose client stays away is removed; 0: never. Clients of MQTT 5 say it themselves.",
    ),
    setting(
        "limits.retained",
        Place::Count(|c| &mut c.settings.limits.retained),
        "Retained messages. A PUBLISH that would make one more is refused.",
    ),
    setting(
        "limits.unsent_bytes",
        Place::Bytes(|c| &mut c.settings.limits.unsent_bytes),
        "Bytes not yet taken by one connection, above which QoS 0 messages for it are dropped and counted.",
    ),
    setting(
        "limits.held_replies",
        Place::Count(|c| &mut c.settings.limits.held_replies),
        "Acknowledgements of one connection waiting for the disk, above which it is not read.",
    ),
    setting(
        "limits.parked_bytes",
        Place::Bytes(|c| &mut c.settings.limits.parked_bytes),
        "PUBLISH packets of one connection parked while the disk is full, above which it is not read.",
    ),
    setting(
        "limits.free_bytes",
        Place::BytesLong(|c| &mut c.settings.limits.free_bytes),
        "Free space of the file system below which publishers are held.",
    ),
    setting(
        "limits.reserve_segments",
        Place::CountLong(|c| &mut c.settings.limits.reserve_segments),
        "Segments for which space is kept free beside that, for acknowledgements, checkpoints and compaction.",
    ),
    setting(
        "limits.checkpoint_bytes",
        Place::BytesLong(|c| &mut c.settings.limits.checkpoint_bytes),
        "Bytes written to the log between two checkpoints; a restart reads about as many. 0: one segment.",
    ),
    setting(
        "limits.disk_percent",
        Place::CountLong(|c| &mut c.settings.limits.disk_percent),
        "Size of the store's files, four segments aside, in per cent of what is needed, above which mostly empty \
         segments are emptied and used again; at least 110.",
    ),
    setting(
        "limits.lazy_sync",
        Place::Millis(|c| &mut c.settings.limits.lazy_sync_ms),
        "Time that records which nobody waits for may stay unwritten.",
    ),
    setting(
        "limits.lazy_sync_bytes",
        Place::Bytes(|c| &mut c.settings.limits.lazy_sync_bytes),
        "Size of such records that starts a write.",
    ),
    setting(
        "limits.horizon_block",
        Place::CountLong(|c| &mut c.settings.limits.horizon_block),
        "Positions recorded ahead of what a queue has delivered; a crash repeats at most so many messages.",
    ),
    setting(
        "limits.turn_work",
        Place::Count(|c| &mut c.settings.limits.turn_work),
        "Pieces of work done at a stretch before others have their turn.",
    ),
];
