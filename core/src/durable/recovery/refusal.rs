//! Why a store is not opened. Each says what was found, where, and what to do.

use crate::durable::codec::CodecError;
use crate::ids::{Lsn, SegmentNumber, StoreId};
use crate::input::DiskError;
use alloc::string::String;

/// Why recovery refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Acknowledged data is damaged or missing.
    #[error(
        "acknowledged data is damaged: segment {segment} cannot be read at offset {offset}, and {witness} says that \
         records {first} to {last} were on disk. vowmq does not start, because it would forget them. Restore the \
         data directory from a backup or another copy; `vowmq check` shows what is readable and changes nothing"
    )]
    Damaged {
        /// The segment.
        segment: SegmentNumber,
        /// The byte at which the chain of batches breaks.
        offset: u64,
        /// The first record missing.
        first: Lsn,
        /// The last record missing, as far as anything says.
        last: Lsn,
        /// What says so.
        witness: String,
    },
    /// Something of the checkpoint is damaged.
    #[error(
        "acknowledged data is damaged: what a checkpoint needs cannot be read in segment {segment} at offset {offset}. \
         vowmq does not start, because it would forget what stood there. Restore the data directory from a backup or \
         another copy; `vowmq check` shows what is readable and changes nothing"
    )]
    CheckpointDamaged {
        /// The segment.
        segment: SegmentNumber,
        /// Where what is damaged begins.
        offset: u64,
    },
    /// A segment is not there.
    #[error(
        "acknowledged data is missing: segment {segment} is not there, and the last checkpoint needs it. vowmq does \
         not start, because it would forget what stood there. Put the file back, or restore the data directory from a \
         backup or another copy"
    )]
    SegmentMissing {
        /// The segment.
        segment: SegmentNumber,
    },
    /// A file has lost its end.
    #[error(
        "acknowledged data may be missing: segment {segment} has {length} bytes, and {reserved} were reserved for it \
         before anything was written to it. vowmq does not start, because it would forget what stood there. Restore \
         the data directory from a backup or another copy"
    )]
    Shortened {
        /// The segment.
        segment: SegmentNumber,
        /// Bytes that are there.
        length: u64,
        /// Bytes that were reserved.
        reserved: u64,
    },
    /// A read failed: an error is not an end.
    #[error(
        "segment {segment} cannot be read at offset {offset}: {error}. vowmq does not start, because what cannot be \
         read may hold acknowledged messages. Check the disk, then start again"
    )]
    ReadFailed {
        /// The segment.
        segment: SegmentNumber,
        /// The byte.
        offset: u64,
        /// The system's words.
        error: String,
    },
    /// The directory could not be listed, or the new segment could not be made.
    #[error("{doing} failed: {error}. vowmq does not start; mend that and start again, nothing was changed")]
    DiskFailed {
        /// What was being done.
        doing: &'static str,
        /// The system's words.
        error: String,
    },
    /// Written by a newer version.
    #[error(
        "segment {segment} has format {format}, and this version of vowmq reads up to format {newest}. Start the \
         version that wrote it"
    )]
    NewerFormat {
        /// The segment.
        segment: SegmentNumber,
        /// Its format.
        format: u32,
        /// The newest format known.
        newest: u32,
    },
    /// Two stores in one directory.
    #[error(
        "segment {segment} belongs to store {found}, the segments before it to store {expected}. Two stores are \
         mixed in one directory: move the files of one of them elsewhere"
    )]
    OtherStore {
        /// The segment.
        segment: SegmentNumber,
        /// Its store.
        found: StoreId,
        /// The store of those before.
        expected: StoreId,
    },
    /// A record whose batch is whole cannot be understood.
    #[error(
        "record {lsn} in segment {segment} at offset {offset} cannot be understood: {error}. The store was written by \
         another version of vowmq: start that one"
    )]
    Unreadable {
        /// The segment.
        segment: SegmentNumber,
        /// The batch's offset.
        offset: u64,
        /// The record.
        lsn: Lsn,
        /// Why.
        error: CodecError,
    },
    /// A record contradicts those before it.
    #[error(
        "record {lsn} in segment {segment} at offset {offset} contradicts the records before it. This is a fault of \
         the program that wrote it: keep the data directory and report it"
    )]
    Contradiction {
        /// The segment.
        segment: SegmentNumber,
        /// The batch's offset.
        offset: u64,
        /// The record.
        lsn: Lsn,
    },
}

impl Refusal {
    pub(super) fn read(segment: SegmentNumber, offset: u64, error: DiskError) -> Refusal {
        Refusal::ReadFailed { segment, offset, error: error.message }
    }
}
