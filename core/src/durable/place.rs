//! Where something lies in the log that is read back by its place: a message, an image, a listing.

use super::state::image::ImageKey;
use crate::ids::{MessageId, SegmentNumber};

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

/// Something of which the log tells where it lies, once it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// A message.
    Message(MessageId),
    /// An image.
    Image(ImageKey),
    /// The listing of this number of the checkpoint that is made.
    Listing(usize),
}
