//! A channel: a conversation within a connection.

use super::ConsumerId;
use super::deliveries::Deliveries;
use super::fault::Fault;
use super::publishing::Content;
use super::transaction::Transaction;
use super::wire::{ContentHeader, Frame, FrameKind, Properties, ReplyCode};
use crate::ids::{QueueId, QueuePosition};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
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
    pub deliveries: Deliveries,
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
    /// Bytes of the message's body.
    pub body_bytes: u64,
    /// None: it was got by Basic.Get.
    pub consumer: Option<ConsumerId>,
}

/// A message on its way in.
pub(crate) struct Incoming {
    /// The payload of the frame with Basic.Publish.
    method: Bytes,
    /// The size of the body and the properties, once the header is there.
    header: Option<(usize, Properties)>,
    body: Body,
}

impl Channel {
    /// Takes the deliveries that a method names: one, or all up to it; 0 with `multiple` names all.
    pub fn take_deliveries(&mut self, tag: u64, multiple: bool) -> Result<Vec<(u64, Unsettled)>, Fault> {
        let taken = match (multiple, tag) {
            (false, _) => self.deliveries.take(tag).map(|unsettled| Vec::from([(tag, unsettled)])),
            (true, 0) => Some(core::mem::take(&mut self.deliveries).into_all().collect()),
            (true, _) => self.deliveries.take_to(tag),
        };
        taken.ok_or_else(|| Fault::precondition(format!("unknown delivery tag {tag}")))
    }
}

impl Incoming {
    /// What follows a Basic.Publish; `method` is the payload of its frame.
    pub fn of(method: Bytes) -> Incoming {
        Incoming { method, header: None, body: Body::default() }
    }

    /// Adds a frame of its content; whether that is all. A body has at most `most` bytes.
    pub fn add(&mut self, frame: Frame, most: usize) -> Result<bool, Fault> {
        match (frame.kind, &self.header) {
            (FrameKind::Header, None) => {
                let ContentHeader { body_size, properties } = ContentHeader::decode(frame.payload)?;
                if body_size > most as u64 {
                    let text =
                        format!("message size {body_size} is larger than limits.packet_bytes ({most})");
                    return Err(Fault::precondition(text));
                }
                self.header = Some((body_size as usize, properties));
                Ok(body_size == 0)
            }
            (FrameKind::Header, Some(_)) => {
                let text = "a content header that follows no basic.publish";
                Err(Fault::new(ReplyCode::UnexpectedFrame, text))
            }
            (_, None) => {
                let text = "a content body that follows no content header";
                Err(Fault::new(ReplyCode::UnexpectedFrame, text))
            }
            (_, &Some((whole, _))) => {
                self.body.push(frame.payload, whole);
                if self.body.len() > whole {
                    let text =
                        format!("the body frames are longer than the {whole} bytes of the content header");
                    return Err(Fault::new(ReplyCode::UnexpectedFrame, text));
                }
                Ok(self.body.len() == whole)
            }
        }
    }

    /// All of it is there.
    pub fn into_content(self) -> Content {
        let (_, properties) = self.header.expect("the header comes before the end");
        Content { method: self.method, properties, body: self.body.take() }
    }
}

/// A body on its way in: one frame is shared, several are put together.
#[derive(Default)]
struct Body {
    first: Bytes,
    all: BytesMut,
}

impl Body {
    /// Bytes so far.
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    /// Adds a frame's payload; `whole` is what there will be.
    fn push(&mut self, piece: Bytes, whole: usize) {
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
    fn take(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}
