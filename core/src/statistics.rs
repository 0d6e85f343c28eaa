//! Counters: what was dropped, refused or expired is never silent.

/// What has happened since start, and what is held now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections open now.
    pub connections: u64,
    /// Sessions now, durable and clean.
    pub sessions: u64,
    /// Messages held now.
    pub messages: u64,
    /// Payload bytes held now.
    pub body_bytes: u64,
    /// Retained messages now.
    pub retained: u64,
    /// PUBLISH packets taken from publishers.
    pub received: u64,
    /// PUBLISH packets ordered to be sent.
    pub delivered: u64,
    /// QoS 0 messages dropped because their subscriber reads too slowly.
    pub dropped_slow_reader: u64,
    /// Messages dropped because their queue was at its bound.
    pub dropped_queue_full: u64,
    /// Messages that went with a session that expired or was cleaned.
    pub dropped_session_end: u64,
    /// PUBLISH packets refused because of a bound.
    pub refused: u64,
    /// PUBLISH packets that were parked because the disk is full.
    pub parked: u64,
    /// Messages that were held for want of room, and not to be sent again, when their connection ended.
    pub dropped_held: u64,
    /// Messages dropped because their subscriber takes no packet that is so large.
    pub dropped_too_large: u64,
    /// Messages that expired: in queues, or retained.
    pub expired: u64,
    /// Messages that consumers rejected and no exchange took.
    pub rejected: u64,
    /// Messages dropped because they came back more often than their queue's `x-delivery-limit`.
    pub dropped_delivery_limit: u64,
    /// Messages that went from a queue to its dead letter exchange.
    pub dead_lettered: u64,
    /// Delayed messages that no queue was bound for when they were due.
    pub unroutable: u64,
    /// Messages purged by clients.
    pub purged: u64,
    /// Messages that went with a declared queue.
    pub dropped_queue_end: u64,
    /// AMQP messages for `amq.topic` whose routing key cannot be an MQTT topic.
    pub unmappable: u64,
    /// Sessions that expired.
    pub sessions_expired: u64,
    /// Connections closed because the peer broke a rule.
    pub protocol_errors: u64,
    /// Clients that could not prove who they are.
    pub logins_refused: u64,
    /// Records appended to the log.
    pub records: u64,
    /// Batches written.
    pub batches: u64,
    /// Syncs ordered.
    pub syncs: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Bytes of messages in memory, about.
    pub cached_bytes: u64,
    /// Bytes of the store's files.
    pub file_bytes: u64,
    /// Bytes of the log that messages need.
    pub live_bytes: u64,
    /// Reads ordered for messages that were not in memory.
    pub reads: u64,
    /// Messages that could not be read back when they were wanted.
    pub unreadable: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Segments whose messages were moved.
    pub compactions: u64,
}
