//! Where a log stands when it is opened.

use crate::ids::{Lsn, RecoveryCount, SegmentNumber, StoreId};
use alloc::collections::BTreeMap;

/// Where the log stands when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The store.
    pub store: StoreId,
    /// The recoveries behind it.
    pub recovery_count: RecoveryCount,
    /// The segment that is open: its header is durable, nothing follows.
    pub segment: SegmentNumber,
    /// The checksum of the last batch.
    pub previous: u32,
    /// The last record, which is durable.
    pub last: Lsn,
    /// Where the batch stands that completes the last checkpoint, if there is one.
    pub checkpoint: Option<(SegmentNumber, u64)>,
    /// All segments that are there, the open one included, with their lengths.
    pub files: BTreeMap<SegmentNumber, u64>,
}
