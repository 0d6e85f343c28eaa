//! A channel: a conversation within a connection.

use super::ConsumerId;
use super::publishing::Content;
use super::transaction::Transaction;
use super::wire::Properties;
use crate::ids::{QueueId, QueuePosition};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// A channel.
#[derive(Default)]
pub(crate) struct Channel {
    /// The broker has closed it and waits for Close-Ok: what comes until then is passed by.
    pub closing: bool,
    /// What is being published.
    pub incoming: Option<Incoming>,
    /// A message for which there was no room.
    pub held: Option<Content>,
    /// The queue that was declared last, for methods that do not name one.
    pub last_queue: Option<Box<str>>,
    /// Unsettled messages of each consumer begun from now on; 0: no limit.
    pub prefetch: u16,
    /// Unsettled messages of all its consumers; 0: no limit.
    pub prefetch_all: u16,
    /// Unsettled messages of all its consumers now.
    pub unsettled: u32,
    /// By name.
    pub consumers: BTreeMap<Box<[u8]>, ConsumerId>,
    /// The last delivery's number.
    pub last_tag: u64,
    /// Deliveries that are not settled, by number.
    pub deliveries: BTreeMap<u64, Unsettled>,
    /// In confirm mode: messages published since.
    pub confirms: Option<u64>,
    /// In transaction mode.
    pub transaction: Option<Transaction>,
    /// The consumer of direct replies, by name, and the address of it.
    pub replies: Option<Replies>,
    /// Queues that it has asked for a message, and has no answer yet.
    pub gets: Vec<QueueId>,
    /// The client wants no deliveries now.
    pub stopped: bool,
}

/// A consumer's name, and the address under which it gets direct replies.
pub(crate) type Replies = (Box<[u8]>, Box<[u8]>);

/// A delivery that the client has not settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsettled {
    pub queue: QueueId,
    /// The lane of the queue.
    pub lane: QueueId,
    pub position: QueuePosition,
    /// None: it was got by Basic.Get.
    pub consumer: Option<ConsumerId>,
}

/// A message on its way in.
pub(crate) struct Incoming {
    /// The payload of the frame with Basic.Publish.
    pub method: Bytes,
    /// The header, once it is there.
    pub header: Option<(usize, Properties)>,
    pub body: Body,
}

/// A body on its way in: one frame is shared, several are put together.
#[derive(Default)]
pub(crate) struct Body {
    first: Bytes,
    all: BytesMut,
}

impl Body {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    /// Adds a frame's payload; `whole` is what there will be.
    pub fn push(&mut self, piece: Bytes, whole: usize) {
        if self.len() == 0 && piece.len() == whole {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(whole.min(1 << 20));
        }
        self.all.extend_from_slice(&piece);
    }

    /// All of it.
    pub fn take(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}
