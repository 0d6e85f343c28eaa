//! What is missing from a damaged store, in words.

use crate::durable::codec::CodecError;
use crate::durable::owner::Owner;
use crate::durable::record::ClientKey;
use crate::ids::{Lsn, QueueId, QueuePosition, SegmentNumber, SessionId};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Something that is missing. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The device does not give the bytes.
    ReadFailed {
        /// The segment.
        segment: SegmentNumber,
        /// The first byte of the piece.
        offset: u64,
        /// The system's words.
        error: String,
    },
    /// A newer version wrote the segment.
    NewerFormat {
        /// The segment.
        segment: SegmentNumber,
        /// Its format.
        format: u32,
    },
    /// The segment has batches and no header that can be read.
    Header {
        /// The segment.
        segment: SegmentNumber,
    },
    /// The last checkpoint needs a segment that is not there.
    Segment {
        /// The segment.
        segment: SegmentNumber,
    },
    /// Records that something says were on disk.
    Records {
        /// The first.
        first: Lsn,
        /// The last.
        last: Lsn,
        /// Behind the batch that ends there.
        behind: (SegmentNumber, u64),
        /// What they seem to have been about, as far as the damaged bytes tell.
        seem: Vec<String>,
    },
    /// A record of a whole batch cannot be understood, and so are those behind it in the batch.
    Record {
        /// The record.
        lsn: Lsn,
        /// Why.
        error: CodecError,
    },
    /// A record does not fit to those before it.
    Unfitting {
        /// The record.
        lsn: Lsn,
    },
    /// A piece of the checkpoint.
    Image {
        /// The segment it lies in.
        segment: SegmentNumber,
        /// Where it begins there.
        offset: u64,
        /// Whether it is a list of other pieces.
        listing: bool,
    },
    /// There are entries of a queue, and nothing says whose it is.
    Queue {
        /// The queue.
        queue: QueueId,
    },
    /// There is something of a session, and nothing says whose it is.
    Session {
        /// The session.
        session: SessionId,
    },
    /// A session was pieced together: its QoS 2 identifiers are not known.
    SessionPiecedTogether {
        /// Its client.
        client: ClientKey,
    },
    /// Subscriptions of a client were found by older records: some may have ended since.
    SubscriptionsPutBack {
        /// The client.
        client: ClientKey,
        /// How many.
        count: u64,
    },
    /// Entries of a queue whose place in it was found by the messages' own records.
    EntriesPutBack {
        /// Whose queue.
        owner: Owner,
        /// How many.
        count: u64,
    },
    /// Messages that can be read, and nothing says whose they are.
    Unowned {
        /// How many.
        count: u64,
    },
    /// Entries of a queue of which no record tells: they may have been settled.
    Entries {
        /// Whose queue.
        owner: Owner,
        /// The first position.
        from: QueuePosition,
        /// The position behind the last.
        to: QueuePosition,
    },
    /// Messages in a queue that cannot be read.
    Messages {
        /// Whose queue.
        owner: Owner,
        /// The first position.
        from: QueuePosition,
        /// The position behind the last.
        to: QueuePosition,
        /// How many of these.
        count: u64,
    },
    /// A retained message that cannot be read.
    Retained {
        /// Virtual host.
        vhost: String,
        /// Topic name.
        topic: String,
    },
    /// A message that cannot be read; who it is for is told elsewhere.
    Body {
        /// The segment.
        segment: SegmentNumber,
        /// Where it begins there.
        offset: u64,
        /// Why.
        error: Cow<'static, str>,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::ReadFailed { segment, offset, error } => {
                write!(f, "segment {segment} cannot be read at offset {offset}: {error}")
            }
            Loss::NewerFormat { segment, format } => {
                write!(
                    f,
                    "segment {segment} has format {format}, which this version does not know: passed by"
                )
            }
            Loss::Header { segment } => {
                write!(f, "segment {segment}: its header is damaged; its batches are readable all the same")
            }
            Loss::Segment { segment } => {
                write!(f, "segment {segment} is not there, and the last checkpoint needs it")
            }
            Loss::Records { first, last, behind: (segment, offset), seem } => {
                write!(f, "records {first} to {last} are missing, at segment {segment}, offset {offset}")?;
                for (index, each) in seem.iter().enumerate() {
                    f.write_str(if index == 0 { "; they seem to have been: " } else { ", " })?;
                    f.write_str(each)?;
                }
                Ok(())
            }
            Loss::Record { lsn, error } => write!(f, "record {lsn} cannot be understood: {error}"),
            Loss::Unfitting { lsn } => {
                write!(f, "record {lsn} does not fit to those before it and is left out")
            }
            Loss::Image { segment, offset, listing } => {
                let what = if *listing { "a list of the pieces" } else { "a piece" };
                write!(f, "{what} of the checkpoint is damaged, in segment {segment} at offset {offset}")?;
                if *listing {
                    f.write_str(
                        "; pieces found elsewhere are taken in its place, so what was settled or ended may come back",
                    )?;
                }
                Ok(())
            }
            Loss::Queue { .. }
            | Loss::Session { .. }
            | Loss::SessionPiecedTogether { .. }
            | Loss::SubscriptionsPutBack { .. }
            | Loss::EntriesPutBack { .. }
            | Loss::Unowned { .. }
            | Loss::Entries { .. }
            | Loss::Messages { .. }
            | Loss::Retained { .. }
            | Loss::Body { .. } => self.fmt_of_clients(f),
        }
    }
}

impl Loss {
    /// What concerns clients and their messages rather than the files.
    fn fmt_of_clients(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Queue { queue } => {
                write!(f, "queue {queue}: nothing says whose it is; its entries are lost")
            }
            Loss::Session { session } => {
                write!(f, "session {session}: nothing says whose it is; its subscriptions are lost")
            }
            Loss::SessionPiecedTogether { client } => write!(
                f,
                "client {:?}: its session is pieced together; which QoS 2 packet identifiers it has left open as a \
                 publisher is lost, and it may be sent again what it has",
                client.client
            ),
            Loss::SubscriptionsPutBack { client, count } => write!(
                f,
                "client {:?}: what it subscribed to is damaged; {count} subscriptions were found by older records, and \
                 some may have ended since",
                client.client
            ),
            Loss::EntriesPutBack { owner, count } => write!(
                f,
                "{owner}: a piece of its queue is damaged; {count} messages of it were found by their own records, and \
                 those that were acknowledged already may be delivered again"
            ),
            Loss::Unowned { count } => {
                write!(f, "{count} messages can be read, and nothing says whose they are")
            }
            Loss::Entries { owner, from, to } => {
                let to = to.0 - 1;
                write!(f, "{owner}: nothing tells of positions {from} to {to} of its queue")
            }
            Loss::Messages { owner, from, to, count } => {
                let to = to.0 - 1;
                write!(f, "{owner}: {count} messages, at positions {from} to {to}, cannot be read")
            }
            Loss::Retained { vhost: _, topic } => {
                write!(f, "topic {topic:?}: its retained message cannot be read")
            }
            Loss::Body { segment, offset, error } => {
                write!(f, "a message cannot be read, in segment {segment} at offset {offset}: {error}")
            }
            Loss::ReadFailed { .. }
            | Loss::NewerFormat { .. }
            | Loss::Header { .. }
            | Loss::Segment { .. }
            | Loss::Records { .. }
            | Loss::Record { .. }
            | Loss::Unfitting { .. }
            | Loss::Image { .. } => Ok(()),
        }
    }
}
