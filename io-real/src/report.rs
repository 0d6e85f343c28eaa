//! What the core reports, as log lines on standard error.

use std::net::SocketAddr;
use vowmq_core::event::Event;
use vowmq_core::ids::ConnectionId;
use vowmq_core::output::{CloseKind, CloseReason};
use vowmq_core::statistics::Statistics;
use vowmq_core::time::Now;

/// Lines of one kind that are written in one second; more are only counted. Otherwise a client that breaks the rules, or
/// comes and goes, in a loop would fill the log and keep the thread busy with writing it.
const LINES_MAX: u32 = 20;

/// Writes a line if its kind has not had its share of this second.
macro_rules! bounded {
    ($level:ident, $bound:expr, $now:expr, $($line:tt)+) => {{
        let (writes, left_out) = $bound.next($now);
        if left_out > 0 {
            tracing::$level!("{left_out} more lines of the kind that follows were left out ({LINES_MAX} a second are written)");
        }
        if writes {
            tracing::$level!($($line)+);
        }
    }};
}

/// Logs what happens. Each kind of line that clients, or a damaged disk, can bring about at will has a bound of its own.
#[derive(Debug, Default)]
pub(crate) struct Report {
    dismissals: Bound,
    losses: Bound,
    amqp_faults: Bound,
    expiries: Bound,
    unreadable: Bound,
}

impl Report {
    /// An event.
    pub(crate) fn event(&mut self, now: Now, event: &Event) {
        match event {
            Event::MessageUnreadable { .. } => bounded!(error, self.unreadable, now, "{event}"),
            Event::MessageReadable { .. } => bounded!(info, self.unreadable, now, "{event}"),
            Event::SessionExpired { .. } => bounded!(info, self.expiries, now, "{event}"),
            Event::AmqpFault { .. } => bounded!(info, self.amqp_faults, now, "{event}"),
            Event::DiskFull { .. } | Event::MemoryFull { .. } => tracing::warn!("{event}"),
            Event::DiskHasRoom | Event::MemoryHasRoom => tracing::info!("{event}"),
            Event::Connected { connection, .. } => tracing::debug!("connection {connection}: {event}"),
            Event::SegmentOpened { .. } | Event::CheckpointComplete { .. } => tracing::debug!("{event}"),
            Event::Received { .. }
            | Event::Requeued { .. }
            | Event::DeadLettered { .. }
            | Event::Stored { .. }
            | Event::Routed { .. }
            | Event::Delivered { .. }
            | Event::Acknowledged { .. }
            | Event::Dropped { .. } => tracing::trace!(target: "vowmq::message", "{event}"),
        }
    }

    /// Why a connection is closed.
    pub(crate) fn close(
        &mut self,
        now: Now,
        connection: ConnectionId,
        peer: SocketAddr,
        reason: &CloseReason,
    ) {
        match reason.kind {
            CloseKind::Normal => tracing::debug!("connection {connection} from {peer} closed: {reason}"),
            CloseKind::Lost | CloseKind::TakenOver => {
                bounded!(info, self.losses, now, "connection {connection} from {peer} closed: {reason}");
            }
            CloseKind::ProtocolError
            | CloseKind::Limit
            | CloseKind::Unauthorized
            | CloseKind::Unavailable => {
                bounded!(warn, self.dismissals, now, "connection {connection} from {peer} closed: {reason}");
            }
        }
    }
}

/// How much of one kind has been written in this second.
#[derive(Debug, Default)]
struct Bound {
    second: u64,
    lines: u32,
}

impl Bound {
    /// Whether one more line is to be written, and how many were left out in the second before.
    fn next(&mut self, now: Now) -> (bool, u32) {
        let second = now.monotonic.0 / 1_000_000;
        let mut left_out = 0;
        if second != self.second {
            left_out = self.lines.saturating_sub(LINES_MAX);
            *self = Bound { second, lines: 0 };
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= LINES_MAX, left_out)
    }
}

/// What went another way than to its receivers, and what was refused.
fn troubles(of: &Statistics) -> [(&'static str, u64); 19] {
    [
        ("dropped_slow_reader", of.dropped_slow_reader),
        ("dropped_queue_full", of.dropped_queue_full),
        ("dropped_held", of.dropped_held),
        ("dropped_session_end", of.dropped_session_end),
        ("dropped_queue_end", of.dropped_queue_end),
        ("dropped_too_large", of.dropped_too_large),
        ("dropped_delivery_limit", of.dropped_delivery_limit),
        ("expired", of.expired),
        ("rejected", of.rejected),
        ("dead_lettered", of.dead_lettered),
        ("unroutable", of.unroutable),
        ("unmappable", of.unmappable),
        ("purged", of.purged),
        ("refused", of.refused),
        ("parked", of.parked),
        ("unreadable", of.unreadable),
        ("sessions_expired", of.sessions_expired),
        ("protocol_errors", of.protocol_errors),
        ("logins_refused", of.logins_refused),
    ]
}

/// Those that are not 0.
fn in_words(troubles: &[(&'static str, u64)]) -> String {
    let some = troubles.iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" ")
}

/// Logs the counters: at info if something was lost or refused since the last time, otherwise at debug.
pub(crate) fn statistics_if_notable(before: &Statistics, now: &Statistics) {
    if troubles(before) != troubles(now) {
        statistics(now);
    } else {
        tracing::debug!(?now, "counters since start");
    }
}

/// Logs the counters.
pub(crate) fn statistics(now: &Statistics) {
    tracing::info!(
        connections = now.connections,
        sessions = now.sessions,
        messages = now.messages,
        body_bytes = now.body_bytes,
        retained = now.retained,
        received = now.received,
        delivered = now.delivered,
        records = now.records,
        batches = now.batches,
        syncs = now.syncs,
        log_bytes = now.log_bytes,
        file_bytes = now.file_bytes,
        live_bytes = now.live_bytes,
        cached_bytes = now.cached_bytes,
        reads = now.reads,
        checkpoints = now.checkpoints,
        compactions = now.compactions,
        "counters since start"
    );
    let troubles = in_words(&troubles(now));
    if !troubles.is_empty() {
        tracing::info!("not delivered, or refused, since start: {troubles}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vowmq_core::time::Monotonic;

    #[test]
    fn every_way_to_lose_a_message_is_told() {
        // If it failed, messages would be dropped and no operator would learn of it.
        let told = in_words(&troubles(&Statistics { expired: 2, unmappable: 1, ..Statistics::default() }));
        assert_eq!(told, "expired=2 unmappable=1");
        let counted = format!("{:?}", Statistics::default());
        let names = troubles(&Statistics::default()).map(|(name, _)| name);
        let of_losses = |field: &str| {
            field.starts_with("dropped_")
                || ["expired", "rejected", "unroutable", "unmappable", "purged"].contains(&field)
        };
        let fields =
            counted.split(['{', ',']).filter_map(|part| part.split_once(": ")).map(|(name, _)| name.trim());
        let (losses, missing): (Vec<&str>, Vec<&str>) =
            fields.filter(|f| of_losses(f)).partition(|f| names.contains(f));
        assert!(losses.len() >= 10 && missing.is_empty(), "{losses:?} are told, {missing:?} are not");
    }

    #[test]
    fn a_flood_of_lines_of_one_kind_is_not_written_whole() {
        // If it failed, one misbehaving client could fill the disk with log lines.
        let mut bound = Bound::default();
        let mut now = Now::default();
        let told = (0..1000).filter(|_| bound.next(now) == (true, 0)).count();
        assert_eq!(told, LINES_MAX as usize);
        now.monotonic = Monotonic(1_000_000);
        assert_eq!(
            bound.next(now),
            (true, 1000 - LINES_MAX),
            "the next second tells again, and what was left out"
        );
        assert_eq!(bound.next(now), (true, 0));
    }
}
