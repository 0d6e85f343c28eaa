//! What a session is while its client is connected. What it is for ever is in `durable::state`.

mod deliveries;
pub mod departures;
mod owed;
pub(crate) mod sharing;

pub use deliveries::packet_id;

use crate::ids::{ConnectionId, Lsn, QueueId, QueuePosition};

/// A session's connection, and how far it was served.
pub struct Attachment {
    /// The connection.
    pub connection: ConnectionId,
    /// The session's queue.
    pub queue: QueueId,
    /// The next position to deliver on this connection; what lies below and is not settled is in flight.
    pub cursor: QueuePosition,
    /// Messages in flight.
    pub in_flight: usize,
    /// Nothing is delivered before this is durable.
    pub hold: Lsn,
    /// What the next delivery waits for; `Lsn::NONE`: nothing.
    pub waits_for: Lsn,
    /// Of what lies between the cursor and this, the client was told again to release what it has taken over.
    pub released_to: QueuePosition,
}

impl Attachment {
    /// Everything from `front` on is to be delivered, again or for the first time. [MQTT-4.4.0-1]
    pub fn new(connection: ConnectionId, queue: QueueId, front: QueuePosition) -> Attachment {
        Attachment {
            connection,
            queue,
            cursor: front,
            in_flight: 0,
            hold: Lsn::NONE,
            waits_for: Lsn::NONE,
            released_to: front,
        }
    }
}
