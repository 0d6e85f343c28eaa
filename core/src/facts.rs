//! The whole durable state as a list of facts, for `inspect` and for audits.

use crate::durable::place::Place;
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::message::Message;
use crate::mqtt::packet::{PacketId, QoS};
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::string::String;
use bytes::Bytes;

/// One durable fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A durable session.
    Session {
        /// Its number.
        session: SessionId,
        /// Its queue.
        queue: QueueId,
        /// Its virtual host.
        vhost: Box<str>,
        /// Its client's identifier.
        client: String,
        /// Since when its client is away; none while it is connected.
        away_since: Option<WallTime>,
        /// Positions below this one may have been delivered.
        horizon: QueuePosition,
        /// The position that the next message gets.
        next: QueuePosition,
        /// The record that last changed it.
        changed: Lsn,
    },
    /// A subscription of a durable session.
    Subscription {
        /// The session.
        session: SessionId,
        /// The topic filter.
        filter: String,
        /// The QoS granted.
        qos: QoS,
    },
    /// A message in a durable session's queue.
    Queued {
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
        /// The packet identifier it is sent under.
        packet_id: PacketId,
        /// The message.
        message: MessageId,
        /// The QoS it is delivered with.
        qos: QoS,
        /// Whether it may have been sent already.
        maybe_delivered: bool,
        /// What it is, if it is in memory; else it is to be read.
        content: Option<Message>,
        /// Where it lies in the log.
        place: Option<Place>,
    },
    /// A QoS 2 message whose PUBREC has come from the subscriber and whose PUBCOMP has not.
    Releasing {
        /// The queue.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
        /// The packet identifier.
        packet_id: PacketId,
    },
    /// A QoS 2 packet identifier that a publisher has not released yet.
    Received {
        /// The session.
        session: SessionId,
        /// The identifier.
        packet_id: PacketId,
    },
    /// A retained message.
    Retained {
        /// Virtual host.
        vhost: Box<str>,
        /// Topic name.
        topic: String,
        /// The message.
        message: MessageId,
        /// The QoS it was published with.
        qos: QoS,
        /// What it is, if it is in memory; else it is to be read.
        content: Option<Message>,
        /// Where it lies in the log.
        place: Option<Place>,
    },
    /// A will that is published when its client goes without saying goodbye.
    Will {
        /// Virtual host.
        vhost: Box<str>,
        /// Its client's identifier.
        client: String,
        /// Topic name.
        topic: String,
        /// QoS.
        qos: QoS,
        /// Whether it is retained.
        retain: bool,
        /// Payload bytes.
        payload: Bytes,
    },
}
