//! What the core reports, as log lines on standard error.

use std::net::SocketAddr;
use vowmq_core::event::Event;
use vowmq_core::ids::ConnectionId;
use vowmq_core::output::{CloseKind, CloseReason};
use vowmq_core::statistics::Statistics;
use vowmq_core::time::Now;

/// Logs an event.
pub(crate) fn event(event: &Event) {
    match event {
        Event::MessageUnreadable { .. } => tracing::error!("{event}"),
        Event::DiskFull { .. } | Event::MemoryFull { .. } => tracing::warn!("{event}"),
        Event::SessionExpired { .. }
        | Event::DiskHasRoom
        | Event::MemoryHasRoom
        | Event::MessageReadable { .. } => tracing::info!("{event}"),
        Event::Connected { connection, .. } => tracing::debug!("connection {connection}: {event}"),
        Event::SegmentOpened { .. } | Event::CheckpointComplete { .. } => tracing::debug!("{event}"),
        Event::AmqpFault { .. } => tracing::info!("{event}"),
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

/// Warnings about closed connections in one second; more are only counted. Otherwise a client that breaks the
/// rules in a loop would fill the log and keep the thread busy with writing it.
const CLOSE_WARNINGS_MAX: u32 = 20;

/// Logs why connections are closed.
#[derive(Debug, Default)]
pub(crate) struct CloseLog {
    second: u64,
    warnings: u32,
}

impl CloseLog {
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
                tracing::info!("connection {connection} from {peer} closed: {reason}");
            }
            CloseKind::ProtocolError | CloseKind::Limit | CloseKind::Unavailable => {
                if self.may_warn(now) {
                    tracing::warn!("connection {connection} from {peer} closed: {reason}");
                }
            }
        }
    }

    fn may_warn(&mut self, now: Now) -> bool {
        let second = now.monotonic.0 / 1_000_000;
        if second != self.second {
            let untold = self.warnings.saturating_sub(CLOSE_WARNINGS_MAX);
            if untold > 0 {
                tracing::warn!("{untold} more connections were closed for such reasons and not listed");
            }
            *self = CloseLog { second, warnings: 0 };
        }
        self.warnings = self.warnings.saturating_add(1);
        self.warnings <= CLOSE_WARNINGS_MAX
    }
}

/// Logs the counters: at info if something was lost or refused since the last time, otherwise at debug.
pub(crate) fn statistics_if_notable(before: &Statistics, now: &Statistics) {
    let troubles = |of: &Statistics| {
        [
            of.dropped_slow_reader,
            of.dropped_queue_full,
            of.dropped_session_end,
            of.refused,
            of.parked,
            of.sessions_expired,
            of.protocol_errors,
            of.unreadable,
        ]
    };
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
        dropped_slow_reader = now.dropped_slow_reader,
        dropped_queue_full = now.dropped_queue_full,
        dropped_session_end = now.dropped_session_end,
        refused = now.refused,
        parked = now.parked,
        sessions_expired = now.sessions_expired,
        protocol_errors = now.protocol_errors,
        records = now.records,
        batches = now.batches,
        syncs = now.syncs,
        log_bytes = now.log_bytes,
        file_bytes = now.file_bytes,
        live_bytes = now.live_bytes,
        cached_bytes = now.cached_bytes,
        reads = now.reads,
        unreadable = now.unreadable,
        checkpoints = now.checkpoints,
        compactions = now.compactions,
        "counters since start"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use vowmq_core::time::Monotonic;

    #[test]
    fn a_flood_of_closes_is_not_listed_whole() {
        // If it failed, one misbehaving client could fill the disk with log lines.
        let mut log = CloseLog::default();
        let mut now = Now::default();
        assert_eq!((0..1000).filter(|_| log.may_warn(now)).count(), CLOSE_WARNINGS_MAX as usize);
        now.monotonic = Monotonic(1_000_000);
        assert!(log.may_warn(now), "the next second tells again");
    }
}
