//! Where something lies in the log that is read back by its place: a message, an image, a listing.

use crate::ids::SegmentNumber;

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment: below 2^32.
    pub segment: SegmentNumber,
    /// The first byte, counted from the beginning of the file: below 2^32.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// Of a message: CRC-32C of what stands before its body. Of an image or a listing: CRC-32C of all of it.
    pub checksum: u32,
}
