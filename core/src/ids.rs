//! Names for things: every number that crosses a file boundary has a type of its own.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A network connection. The driver numbers them and never uses a number twice in one run.
    ConnectionId(u64)
);
number!(
    /// A listener of the driver, by its place in the driver's list.
    ListenerId(u16)
);
number!(
    /// A disk operation that the core has ordered and the driver has not yet answered.
    OpId(u64)
);
number!(
    /// A question of the operator, numbered by the driver.
    QueryId(u64)
);
number!(
    /// A session, durable or clean. Never used twice in a store.
    SessionId(u64)
);
number!(
    /// A queue. Every session owns one; queues of other protocols stand beside them. Never used twice in a store.
    QueueId(u64)
);
number!(
    /// A message body, however many queues refer to it. Never used twice in a store.
    MessageId(u64)
);
number!(
    /// The place of an entry in its queue: counts every enqueue since the queue was made.
    QueuePosition(u64)
);
number!(
    /// Log sequence number: the number of a record, counting from 1 without gaps. 0 means "no record".
    Lsn(u64)
);
number!(
    /// The number of a segment file, counting from 1.
    SegmentNumber(u64)
);
number!(
    /// How many times a store has been recovered; part of every batch, so that survivors of an abandoned tail
    /// can be told from what was written after it.
    RecoveryCount(u32)
);

impl Lsn {
    /// "No record": what waits for it waits for nothing.
    pub const NONE: Lsn = Lsn(0);

    /// The number after this one.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl QueuePosition {
    /// The position `count` places further on.
    pub fn plus(self, count: u64) -> QueuePosition {
        QueuePosition(self.0 + count)
    }
}

impl SegmentNumber {
    /// The number after this one.
    pub fn next(self) -> SegmentNumber {
        SegmentNumber(self.0 + 1)
    }
}

/// The identity of a store, drawn when it is made and repeated in every batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreId(pub u128);

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// All the randomness that the core ever has: the store's identity, the key of its hash maps, the client
/// identifiers it assigns. Production draws it from the operating system, the simulator from its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    pub(crate) fn store_id(self) -> StoreId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[..16]);
        StoreId(u128::from_le_bytes(bytes))
    }

    pub(crate) fn hash_key(self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[16..24]);
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn client_id_key(self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[24..]);
        u64::from_le_bytes(bytes)
    }
}
