//! What the schedule of a run holds.

use vowmq_core::ids::{ConnectionId, OpId};

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A client comes to an operation of its program.
    Operation { client: usize, index: usize },
    /// A client's timer runs out; stale when its generation is not the client's any more.
    ClientTimer { client: usize, timer: Timer, generation: u64 },
    /// Something may have arrived at the broker.
    ToBroker(ConnectionId),
    /// Something may have arrived at the client.
    ToClient(ConnectionId),
    /// The broker hears how much of what it sent was taken.
    Taken(ConnectionId),
    /// The driver has closed a connection as ordered.
    ClosedAsOrdered(ConnectionId),
    /// A disk operation ends.
    DiskDone { epoch: u64, op: OpId },
    /// The broker's deadline comes.
    Wake { epoch: u64 },
    /// The driver fetches the broker's outputs.
    Drain { epoch: u64 },
    /// The driver has found out whether a client is who it says.
    Verified { epoch: u64, connection: ConnectionId, right: bool },
    /// The process is started.
    Start,
    /// A fault sets in.
    Fault(usize),
    /// A fault that lasts is over.
    FaultEnds(usize),
    /// All faults are over.
    Heal,
    /// A look whether all is quiet.
    Look,
}

impl Happening {
    /// Whether the broker's process must run for it.
    pub(crate) fn needs_process(self) -> bool {
        matches!(
            self,
            Happening::ToBroker(_)
                | Happening::Taken(_)
                | Happening::ClosedAsOrdered(_)
                | Happening::DiskDone { .. }
                | Happening::Wake { .. }
                | Happening::Drain { .. }
                | Happening::Verified { .. }
        )
    }
}

/// A client's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// It connects again.
    Reconnect,
    /// It gives up waiting for CONNACK.
    Handshake,
    /// It sends PINGREQ.
    Ping,
    /// It answers what it received.
    Answers,
}
