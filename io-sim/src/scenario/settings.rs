//! The broker's settings in a scenario.

use serde::{Deserialize, Serialize};
use vowmq_core::access::Access;
use vowmq_core::limits::{Limits, Overflow, Settings, SyncPolicy};

/// Settings of the broker that scenarios vary; all others are their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// Bytes of a segment, in KiB: at least 64.
    pub segment_kib: u64,
    /// `Limits::inflight`.
    pub inflight: usize,
    /// `Limits::horizon_block`.
    pub horizon_block: u64,
    /// `Limits::turn_work`.
    pub turn_work: usize,
    /// `Limits::lazy_sync_ms`.
    pub lazy_sync_ms: u64,
    /// `Limits::lazy_sync_bytes`.
    pub lazy_sync_bytes: usize,
    /// `Limits::unsent_bytes`.
    pub unsent_bytes: usize,
    /// `Limits::held_replies`.
    pub held_replies: usize,
    /// `Limits::parked_bytes`.
    pub parked_bytes: usize,
    /// `Limits::queue_messages`.
    pub queue_messages: u64,
    /// Refuse at the bound instead of dropping the oldest.
    pub queue_refuses: bool,
    /// Report what happens to every message.
    pub message_events: bool,
    /// `Limits::session_expiry_ms`.
    pub session_expiry_ms: u64,
    /// `Limits::cache_bytes`.
    pub cache_bytes: u64,
    /// `Limits::checkpoint_bytes`.
    pub checkpoint_bytes: u64,
    /// `Limits::disk_percent`.
    pub disk_percent: u64,
    /// `Limits::reserve_segments`.
    pub reserve_segments: u64,
    /// `Limits::received_ids`: what clients of MQTT 5 are told as Receive Maximum.
    pub received_ids: usize,
    /// `Limits::topic_aliases`.
    pub topic_aliases: usize,
    /// Clients have to prove who they are: `Settings::access`.
    pub users: bool,
    /// When written data is forced to the disk.
    pub sync: Sync,
}

/// `Settings::sync`. The checkers hold the broker to its promise under `always`, whatever it is, so that a scenario
/// shows what the others lose:
///
/// ```
/// use vowmq_sim::outcome::Checker;
///
/// let scenario = vowmq_sim::scenario::parse(
///     r#"
///     seed = 1
///     fault_phase_us = 300_000
///     broker = { sync = "never" } # or "always", or { every_ms = 50 }
///
///     [[clients]]
///     id = "subscriber"
///     operations = [{ at_us = 15_000, do = "subscribe", filter = "a", qos = 1 }, { at_us = 50_000, do = "disconnect" }]
///
///     [[clients]]
///     id = "publisher"
///     operations = [{ at_us = 60_000, do = "publish", topic = "a", qos = 1 }]
///
///     [[faults]]
///     kind = "power_cut"
///     when = { at_us = 100_000 }
///     down_us = 1_000
///     "#,
/// )?;
/// let broken = vowmq_sim::run(&scenario).violation.expect("what was acknowledged is gone");
/// assert_eq!(broken.checker, Checker::AckBeforeDisk);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Before every acknowledgement that depends on it.
    #[default]
    Always,
    /// So many milliseconds after it was written, at the latest.
    EveryMs(u64),
    /// Never.
    Never,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        BrokerSettings {
            segment_kib: 256,
            inflight: 20,
            horizon_block: 16,
            turn_work: 4096,
            lazy_sync_ms: 10,
            lazy_sync_bytes: 65_536,
            unsent_bytes: 1 << 20,
            held_replies: 1000,
            parked_bytes: 65_536,
            queue_messages: 0,
            queue_refuses: false,
            message_events: true,
            session_expiry_ms: 0,
            cache_bytes: 65_536,
            checkpoint_bytes: 65_536,
            disk_percent: 200,
            reserve_segments: 3,
            received_ids: 10_000,
            topic_aliases: 64,
            users: false,
            sync: Sync::Always,
        }
    }
}

impl BrokerSettings {
    /// As the core takes them.
    pub fn settings(&self) -> Settings {
        let segment_bytes = self.segment_kib * 1024;
        let packet_bytes = (segment_bytes / 2 - 8192) as usize;
        let overflow = if self.queue_refuses { Overflow::Refuse } else { Overflow::DropOldest };
        Settings {
            limits: Limits {
                packet_bytes,
                connect_bytes: packet_bytes.min(64 * 1024),
                inflight: self.inflight,
                horizon_block: self.horizon_block,
                turn_work: self.turn_work,
                lazy_sync_ms: self.lazy_sync_ms,
                lazy_sync_bytes: self.lazy_sync_bytes,
                unsent_bytes: self.unsent_bytes,
                held_replies: self.held_replies,
                parked_bytes: self.parked_bytes,
                queue_messages: self.queue_messages,
                queue_overflow: overflow,
                session_expiry_ms: self.session_expiry_ms,
                free_bytes: 0,
                cache_bytes: self.cache_bytes,
                checkpoint_bytes: self.checkpoint_bytes,
                disk_percent: self.disk_percent,
                reserve_segments: self.reserve_segments,
                received_ids: self.received_ids,
                topic_aliases: self.topic_aliases,
                ..Limits::default()
            },
            access: match self.users {
                true => Access::Users { or_anonymous: false },
                false => Access::Everybody,
            },
            sync: match self.sync {
                Sync::Always => SyncPolicy::Always,
                Sync::EveryMs(ms) => SyncPolicy::EveryMs(ms),
                Sync::Never => SyncPolicy::Never,
            },
            segment_bytes,
            message_events: self.message_events,
        }
    }
}
