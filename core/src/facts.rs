//! The whole durable state as a list of facts, for `inspect` and for audits.

use crate::durable::place::Place;
use crate::durable::record::{SessionExpiry, Subscription};
use crate::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
use crate::message::Message;
use crate::mqtt::packet::{PacketId, QoS};
use crate::time::WallTime;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
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
        vhost: Arc<str>,
        /// Its client's identifier; of a group that shares a subscription, its whole filter.
        client: String,
        /// Whether it is a group's.
        is_group: bool,
        /// How long it outlives its connection.
        expiry: SessionExpiry,
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
        /// What was granted.
        subscription: Subscription,
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
    /// An exchange that survives, other than those that every virtual host has.
    Exchange {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its type, as clients name it.
        kind: &'static str,
        /// Whether it goes with the last thing bound to it.
        auto_delete: bool,
        /// Whether clients may not publish to it.
        internal: bool,
    },
    /// A declared queue that survives.
    DeclaredQueue {
        /// Its virtual host.
        vhost: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its number: that of its lane of the lowest priority.
        queue: QueueId,
        /// Lanes, one a priority.
        lanes: u16,
        /// Messages that it holds.
        messages: u64,
        /// Whether it goes with its last consumer.
        auto_delete: bool,
    },
    /// A binding that survives.
    Binding {
        /// Its virtual host.
        vhost: Arc<str>,
        /// The exchange that it leads from.
        source: Arc<str>,
        /// The queue or exchange that it leads to.
        to: Arc<str>,
        /// Whether that is an exchange.
        to_exchange: bool,
        /// The binding key.
        key: Box<[u8]>,
    },
    /// A message in a declared queue.
    InQueue {
        /// The queue's name.
        name: Arc<str>,
        /// The lane.
        queue: QueueId,
        /// Its place there.
        position: QueuePosition,
        /// The message.
        message: MessageId,
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
        vhost: Arc<str>,
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
        vhost: Arc<str>,
        /// Its client's identifier.
        client: String,
        /// Topic name.
        topic: String,
        /// QoS.
        qos: QoS,
        /// Whether it is retained.
        retain: bool,
        /// Seconds between the end of the connection and its publishing.
        delay_s: u32,
        /// Payload bytes.
        payload: Bytes,
    },
}
