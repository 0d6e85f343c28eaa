//! What happens, told once: operators read it as a log and as message traces, checkers as the truth.

use crate::durable::owner::Owner;
use crate::ids::{ConnectionId, Lsn, MessageId, QueueId, QueuePosition, SegmentNumber};
use crate::output::CloseReason;
use alloc::string::String;
use bytes::Bytes;
use core::fmt;

/// Something that happened. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client's session was attached to a connection.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The client's identifier.
        client: String,
        /// Whether the session outlives the connection.
        durable: bool,
        /// Whether there was a session before.
        present: bool,
    },
    /// A durable session was removed because its client stayed away.
    SessionExpired {
        /// The client's identifier.
        client: String,
        /// Messages that went with it.
        messages: u64,
    },
    /// The disk has no room for another segment: publishers are held.
    DiskFull {
        /// The system's words, or the watermark.
        why: String,
    },
    /// There is room again: publishers go on.
    DiskHasRoom,
    /// All messages together reached their bound: publishers are held.
    MemoryFull {
        /// Whose queue holds most, and how many messages that is.
        largest: Option<(Owner, u64)>,
    },
    /// Bodies are below their bound again: publishers go on.
    MemoryHasRoom,
    /// The log goes on in this segment.
    SegmentOpened {
        /// The segment.
        segment: SegmentNumber,
    },
    /// A checkpoint is complete.
    CheckpointComplete {
        /// The segment that it begins in.
        segment: SegmentNumber,
        /// Segments that are not needed any more.
        freed: u64,
    },
    /// A message cannot be read back; it is not delivered.
    MessageUnreadable {
        /// The message.
        message: MessageId,
        /// The segment it lies in.
        segment: SegmentNumber,
        /// Its first byte there.
        offset: u64,
        /// What is wrong.
        error: String,
        /// It was tried often enough: it is passed by.
        given_up: bool,
    },
    /// A message could be read after all.
    MessageReadable {
        /// The message.
        message: MessageId,
    },
    /// A message was taken from a publisher.
    Received {
        /// The message.
        message: MessageId,
        /// Where it came from; none for a will at recovery.
        connection: Option<ConnectionId>,
        /// Topic name or routing key.
        address: Bytes,
    },
    /// A message was appended to the log.
    Stored {
        /// The message.
        message: MessageId,
        /// Its record.
        lsn: Lsn,
    },
    /// A message was put into a queue.
    Routed {
        /// The message.
        message: MessageId,
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
    },
    /// A message of a queue was ordered to be sent.
    Delivered {
        /// The message.
        message: MessageId,
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
        /// To this connection.
        connection: ConnectionId,
        /// Whether it was sent before.
        redelivered: bool,
    },
    /// A message left a queue because its consumer acknowledged it.
    Acknowledged {
        /// The message.
        message: MessageId,
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
    },
    /// A message came back to its place in a queue.
    Requeued {
        /// The message.
        message: MessageId,
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
    },
    /// A message went from a queue to its dead letter exchange.
    DeadLettered {
        /// The message.
        message: MessageId,
        /// The queue that it left.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
    },
    /// An AMQP client broke a rule: its channel, or its connection (channel 0), is closed.
    AmqpFault {
        /// The connection.
        connection: ConnectionId,
        /// The channel; 0: all of it.
        channel: u16,
        /// What the client was told.
        reason: CloseReason,
    },
    /// A message did not reach, or left, a queue without having been acknowledged.
    Dropped {
        /// The message; none where it was never given a number (QoS 0).
        message: Option<MessageId>,
        /// The queue.
        queue: QueueId,
        /// Why.
        reason: DropReason,
    },
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Its subscriber reads too slowly (QoS 0 only).
    SlowReader,
    /// Its queue was at its bound.
    QueueFull,
    /// Its session ended.
    SessionEnded,
    /// Its queue was deleted.
    QueueDeleted,
    /// It expired.
    Expired,
    /// Its consumer rejected it.
    Rejected,
    /// It came back too often.
    DeliveryLimit,
    /// It had waited, and there was nowhere to go.
    NoRoute,
    /// Its subscriber takes no packet that is so large (Maximum Packet Size).
    TooLarge,
}

impl Event {
    /// Whether this tells the way of one message (only reported with `Settings::message_events`).
    pub fn is_about_a_message(&self) -> bool {
        match self {
            Event::Received { .. }
            | Event::Stored { .. }
            | Event::Routed { .. }
            | Event::Delivered { .. }
            | Event::Acknowledged { .. }
            | Event::Requeued { .. }
            | Event::DeadLettered { .. }
            | Event::Dropped { .. } => true,
            Event::Connected { .. }
            | Event::AmqpFault { .. }
            | Event::SessionExpired { .. }
            | Event::DiskFull { .. }
            | Event::DiskHasRoom
            | Event::MemoryFull { .. }
            | Event::MemoryHasRoom
            | Event::SegmentOpened { .. }
            | Event::CheckpointComplete { .. }
            | Event::MessageUnreadable { .. }
            | Event::MessageReadable { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected { client, durable, present, .. } => {
                let kind = if *durable { "durable" } else { "clean" };
                let found = if *present { "resumed" } else { "new" };
                write!(f, "client {client:?} connected ({found} {kind} session)")
            }
            Event::SessionExpired { client, messages } => {
                write!(
                    f,
                    "session of client {client:?} expired: it stayed away too long; {messages} messages went with it"
                )
            }
            Event::DiskFull { why } => write!(
                f,
                "the disk is full ({why}): publishers are held until there is room; consumers and acknowledgements go on"
            ),
            Event::DiskHasRoom => f.write_str("the disk has room again: publishers go on"),
            Event::MemoryFull { largest } => fmt_memory_full(f, largest.as_ref()),
            Event::MemoryHasRoom => {
                f.write_str("messages in memory are below their bound again: publishers go on")
            }
            Event::SegmentOpened { segment } => write!(f, "the log goes on in segment {segment}"),
            Event::CheckpointComplete { segment, freed } => {
                write!(f, "checkpoint complete: recovery begins in segment {segment}; {freed} segments freed")
            }
            Event::MessageUnreadable { message, segment, offset, error, given_up } => {
                let then = if *given_up {
                    "It is passed by and stays where it is; `vowmq check` tells whose it is"
                } else {
                    "It is tried again"
                };
                write!(
                    f,
                    "message {message} cannot be read from segment {segment} at offset {offset}: {error}. {then}"
                )
            }
            Event::MessageReadable { message } => {
                write!(f, "message {message} could be read after all")
            }
            Event::AmqpFault { connection, channel: 0, reason } => {
                write!(f, "connection {connection} is closed: {reason}")
            }
            Event::AmqpFault { connection, channel, reason } => {
                write!(f, "channel {channel} of connection {connection} is closed: {reason}")
            }
            _ => self.fmt_of_a_message(f),
        }
    }
}

impl Event {
    /// What happened to a message, in words.
    fn fmt_of_a_message(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Received { message, address, .. } => {
                write!(f, "message {message} received for {:?}", String::from_utf8_lossy(address))
            }
            Event::Stored { message, lsn } => {
                write!(f, "message {message} appended to the log as record {lsn}")
            }
            Event::Routed { message, queue, position } => {
                write!(f, "message {message} put into queue {queue} at {position}")
            }
            Event::Delivered { message, queue, position, connection, redelivered } => {
                let again = if *redelivered { " again" } else { "" };
                write!(
                    f,
                    "message {message} of queue {queue} at {position} sent{again} to connection {connection}"
                )
            }
            Event::Acknowledged { message, queue, position } => {
                write!(f, "message {message} of queue {queue} at {position} acknowledged")
            }
            Event::Requeued { message, queue, position } => {
                write!(f, "message {message} of queue {queue} back at {position}")
            }
            Event::DeadLettered { message, queue, position } => {
                write!(f, "message {message} of queue {queue} at {position} went to the dead letter exchange")
            }
            Event::Dropped { message, queue, reason } => match message {
                Some(message) => write!(f, "message {message} dropped from queue {queue}: {reason}"),
                None => write!(f, "a QoS 0 message for queue {queue} dropped: {reason}"),
            },
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropReason::SlowReader => "its subscriber reads too slowly",
            DropReason::QueueFull => "the queue is at its bound",
            DropReason::SessionEnded => "its session ended",
            DropReason::QueueDeleted => "its queue was deleted",
            DropReason::Expired => "it expired",
            DropReason::Rejected => "its consumer rejected it",
            DropReason::NoRoute => "it had waited, and no queue is bound for it",
            DropReason::TooLarge => "its subscriber takes no packet of that size (Maximum Packet Size)",
            DropReason::DeliveryLimit => "it came back more often than x-delivery-limit",
        })
    }
}

fn fmt_memory_full(f: &mut fmt::Formatter<'_>, largest: Option<&(Owner, u64)>) -> fmt::Result {
    f.write_str("messages held take limits.memory_bytes: publishers are held until consumers catch up")?;
    match largest {
        Some((owner, count)) => write!(f, "; {owner} holds most, {count} messages"),
        None => Ok(()),
    }
}
