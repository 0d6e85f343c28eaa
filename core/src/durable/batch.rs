//! A batch: the unit of writing and of atomicity. Padded with zeros to whole sectors, so that a sector which was
//! synced is never written again and a torn write cannot reach an acknowledged record.
//!
//! ```text
//!  0  magic "VMQB"            4  length: header and records, in bytes
//!  8  CRC-32C of [12..length) 12  record count
//! 16  store id (16 bytes)    32  segment number (8)
//! 40  first LSN (8)          48  CRC-32C of the batch before it
//! 52  recovery count         56  highest LSN known to be synced when it was written (8)
//! 64  where the batch stands that completes the last checkpoint: segment (8)   72  … and offset (8); both 0 for none
//! 80  wall time, ms (8)      88  records
//! ```
//!
//! All numbers are least byte first; 4 bytes where nothing else is said.

use super::{checksum, whole_sectors};
use crate::ids::{Lsn, RecoveryCount, SegmentNumber, StoreId};
use crate::time::WallTime;
use alloc::vec::Vec;

/// Bytes before the first record.
pub const BATCH_HEADER: usize = 88;

const MAGIC: [u8; 4] = *b"VMQB";

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The store.
    pub store: StoreId,
    /// The segment it stands in.
    pub segment: SegmentNumber,
    /// The LSN of its first record, or of the next record if it has none (a witness).
    pub first: Lsn,
    /// Records.
    pub records: u32,
    /// The checksum of the batch before it.
    pub previous: u32,
    /// The recovery that its writer had behind it.
    pub recovery_count: RecoveryCount,
    /// Known to be synced when it was written.
    pub synced: Lsn,
    /// Where the batch stands that completes the last checkpoint known to be durable.
    pub checkpoint: Option<(SegmentNumber, u64)>,
    /// When it was written.
    pub at: WallTime,
}

/// A batch whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// What it says of itself.
    pub header: BatchHeader,
    /// Its own checksum, which the next batch repeats.
    pub checksum: u32,
    /// Header and records.
    pub bytes: &'a [u8],
}

impl Batch<'_> {
    /// Bytes that it takes in its segment.
    pub fn padded(&self) -> u64 {
        whole_sectors(self.bytes.len() as u64)
    }
}

/// Writes the header before the records in `batch` (which begins with `BATCH_HEADER` bytes of room) and pads it;
/// the batch's checksum.
pub fn seal(batch: &mut Vec<u8>, header: &BatchHeader) -> u32 {
    let length = batch.len();
    let (segment, offset) = header.checkpoint.map_or((0, 0), |(segment, offset)| (segment.0, offset));
    let short = u32::try_from(length).expect("a batch fits into a segment");
    batch[0..4].copy_from_slice(&MAGIC);
    batch[4..8].copy_from_slice(&short.to_le_bytes());
    batch[12..16].copy_from_slice(&header.records.to_le_bytes());
    batch[16..32].copy_from_slice(&header.store.0.to_le_bytes());
    batch[32..40].copy_from_slice(&header.segment.0.to_le_bytes());
    batch[40..48].copy_from_slice(&header.first.0.to_le_bytes());
    batch[48..52].copy_from_slice(&header.previous.to_le_bytes());
    batch[52..56].copy_from_slice(&header.recovery_count.0.to_le_bytes());
    batch[56..64].copy_from_slice(&header.synced.0.to_le_bytes());
    batch[64..72].copy_from_slice(&segment.to_le_bytes());
    batch[72..80].copy_from_slice(&offset.to_le_bytes());
    batch[80..88].copy_from_slice(&header.at.0.to_le_bytes());
    let sum = checksum(&batch[12..length]);
    batch[8..12].copy_from_slice(&sum.to_le_bytes());
    batch.resize(whole_sectors(length as u64) as usize, 0);
    sum
}

/// How many bytes a batch would have that begins with these at least 16 bytes; none where no batch begins. Says
/// nothing of whether it is whole.
pub fn claimed_length(bytes: &[u8]) -> Option<usize> {
    let length = u32_at(bytes, 4)? as usize;
    (bytes.starts_with(&MAGIC) && length >= BATCH_HEADER).then_some(length)
}

/// The batch at the beginning of `bytes`, if there is a whole one with a right checksum.
pub fn parse(bytes: &[u8]) -> Option<Batch<'_>> {
    let bytes = bytes.get(..claimed_length(bytes)?)?;
    let sum = u32_at(bytes, 8)?;
    if checksum(&bytes[12..]) != sum {
        return None;
    }
    let checkpoint_segment = u64_at(bytes, 64)?;
    let header = BatchHeader {
        records: u32_at(bytes, 12)?,
        store: StoreId(u128_at(bytes, 16)?),
        segment: SegmentNumber(u64_at(bytes, 32)?),
        first: Lsn(u64_at(bytes, 40)?),
        previous: u32_at(bytes, 48)?,
        recovery_count: RecoveryCount(u32_at(bytes, 52)?),
        synced: Lsn(u64_at(bytes, 56)?),
        checkpoint: match checkpoint_segment {
            0 => None,
            segment => Some((SegmentNumber(segment), u64_at(bytes, 72)?)),
        },
        at: WallTime(u64_at(bytes, 80)?),
    };
    Some(Batch { header, checksum: sum, bytes })
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

pub(super) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    bytes.get(at..at + 16)?.try_into().ok().map(u128::from_le_bytes)
}
