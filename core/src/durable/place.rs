//! Where a message body lies in the log.

use crate::ids::SegmentNumber;

/// The place of a body in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment.
    pub segment: SegmentNumber,
    /// The body's first byte, counted from the beginning of the file.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// CRC-32C of the body.
    pub checksum: u32,
}
