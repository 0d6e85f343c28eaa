//! A connection, as far as it does not depend on its protocol: what came in, what goes out, and what waits.

use crate::access::Proving;
use crate::amqp::{self, ConsumerId};
use crate::ids::{ConnectionId, ListenerId, Lsn, SessionId};
use crate::input::{Peer, Protocol};
use crate::limits::Limits;
use crate::mqtt::connection::Client;
use crate::mqtt::packet::AckKind;
use crate::mqtt::terms::Terms;
use crate::send_queue::SendQueue;
use crate::time::{Monotonic, Why};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// An open connection.
pub struct Connection {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// Who is at the other end.
    pub peer: Peer,
    /// Received and not used yet.
    pub input: BytesMut,
    /// Bytes that `input` must have before it is worth a look.
    pub needs: usize,
    /// What is to be sent.
    pub send: SendQueue,
    /// Whether it is in the list of those with something to send.
    pub listed: bool,
    /// Replies that wait for the disk, in their order; an unheld one waits behind a held one.
    pub(crate) replies: VecDeque<(Lsn, Reply)>,
    /// Packets that wait for room on the disk.
    pub parked: VecDeque<Bytes>,
    /// Their bytes.
    pub parked_bytes: usize,
    /// Those of them with QoS 0.
    pub parked_at_most_once: usize,
    /// Whether the driver was told to pause reading.
    pub paused: bool,
    /// The peer is gone: what it sent is handled to the end, whatever stands in the way.
    pub closing: bool,
    /// When something was last received.
    pub last_received: Monotonic,
    /// The rest of its input is put off: `Work::Parse` is in the list.
    pub put_off: bool,
    /// Its timer.
    pub timer: Option<(Monotonic, Why)>,
    /// The MQTT client, once its CONNECT was accepted.
    pub client: Option<Box<Client>>,
    /// It is about to prove who it is.
    pub(crate) proving: Option<Box<Proving>>,
    /// What is known of the AMQP client.
    pub(crate) amqp: Option<Box<amqp::connection::Peer>>,
}

/// A reply, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A short one.
    Short([u8; 4]),
    /// The one that accepts the connection: deliveries may begin behind it.
    Opening(Box<[u8]>),
    /// A longer one.
    Long(Box<[u8]>),
    /// AMQP: the consumer may have deliveries behind it.
    Consuming(Box<[u8]>, ConsumerId),
    /// AMQP: the last one; the connection ends behind it.
    Goodbye(Box<[u8]>),
    /// AMQP: a publish is confirmed, or refused.
    Confirm {
        /// The channel.
        channel: u16,
        /// The number of the publish there.
        tag: u64,
        /// It was refused.
        nack: bool,
    },
}

impl Connection {
    /// A connection that was opened at `now`.
    pub fn new(listener: ListenerId, protocol: Protocol, peer: Peer, now: Monotonic) -> Connection {
        let amqp = (protocol == Protocol::Amqp).then(|| Box::new(amqp::connection::Peer::new()));
        Connection {
            listener,
            peer,
            input: BytesMut::new(),
            needs: 0,
            send: SendQueue::default(),
            listed: false,
            replies: VecDeque::new(),
            parked: VecDeque::new(),
            parked_bytes: 0,
            parked_at_most_once: 0,
            paused: false,
            closing: false,
            put_off: false,
            last_received: now,
            timer: None,
            client: None,
            proving: None,
            amqp,
        }
    }

    /// Whether its input has to wait: it is not known yet who it is, its turn is over, too many replies are held, too much is
    /// parked, or its peer asks for more and more answers that it does not read. Deliveries alone stop at the first
    /// `unsent_bytes`.
    pub fn is_blocked(&self, limits: &Limits) -> bool {
        if self.awaits_verdict() {
            return true;
        }
        !self.closing
            && (self.put_off
                || self.replies.len() >= limits.held_replies
                || self.parked_bytes >= limits.parked_bytes
                || self.send.unsent() / 2 >= limits.unsent_bytes)
    }

    /// Whether the driver has been asked who it is, before it may do anything.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.proving.as_ref().is_some_and(|proving| proving.blocks())
    }

    /// Whether what came in has at least one whole packet, as far as one can see.
    pub fn has_whole_packet(&self) -> bool {
        !self.input.is_empty() && self.input.len() >= self.needs
    }

    /// Its session, once it has one.
    pub fn session(&self) -> Option<SessionId> {
        self.client.as_ref().map(|client| client.session)
    }

    /// What was agreed on with its client, if that speaks MQTT 5.
    pub(crate) fn terms(&self) -> Option<&Terms> {
        self.client.as_ref()?.terms.as_deref()
    }

    /// What was agreed on with its client, if that speaks MQTT 5.
    pub(crate) fn terms_mut(&mut self) -> Option<&mut Terms> {
        self.client.as_mut()?.terms.as_deref_mut()
    }

    /// QoS 1 and 2 messages that may be on their way to its client at once. [MQTT-3.3.4-9]
    pub(crate) fn window(&self, limits: &Limits) -> usize {
        self.terms().map_or(limits.inflight, |terms| terms.receive_maximum.min(limits.inflight))
    }

    /// Adds a confirm to the bytes to be sent; `multiple`: of all before it as well.
    pub(crate) fn put_confirm(&mut self, channel: u16, tag: u64, multiple: bool, nack: bool) {
        self.send.write(24, |out| amqp::serving::put_confirm(out, channel, tag, multiple, nack));
    }

    /// Notes in the list that it has something to send; `id` is its own.
    pub(crate) fn list(&mut self, id: ConnectionId, to_send: &mut Vec<ConnectionId>) {
        if !core::mem::replace(&mut self.listed, true) {
            to_send.push(id);
        }
    }

    /// A client of MQTT 5 may publish one more once one is acknowledged to the end. [MQTT-3.3.4-7]
    fn settle_publish(&mut self, reply: &[u8]) {
        let Some(terms) = self.terms_mut() else { return };
        let refused = reply[0] == AckKind::PubRec as u8 && reply.get(4).is_some_and(|reason| *reason >= 0x80);
        if refused || reply[0] == AckKind::PubAck as u8 || reply[0] == AckKind::PubComp as u8 {
            terms.unacknowledged = terms.unacknowledged.saturating_sub(1);
        }
    }

    /// Adds a reply to the bytes to be sent.
    pub(crate) fn put_reply(&mut self, reply: &Reply) {
        let bytes: &[u8] = match reply {
            Reply::Short(bytes) => bytes,
            Reply::Opening(bytes) | Reply::Long(bytes) => bytes,
            Reply::Consuming(bytes, _) | Reply::Goodbye(bytes) => bytes,
            Reply::Confirm { channel, tag, nack } => {
                return self.put_confirm(*channel, *tag, false, *nack);
            }
        };
        self.settle_publish(bytes);
        self.send.put(bytes);
        if matches!(reply, Reply::Opening(_))
            && let Some(client) = &mut self.client
        {
            client.accepted = true;
        }
    }
}
