//! The header of a segment: its first sector.
//!
//! ```text
//!  0  magic "VMQS"            4  format version: 1 to 3
//!  8  CRC-32C of [12..96)    12  recovery count
//! 16  store id (16 bytes)    32  segment number (8)
//! 40  first LSN (8)          48  checksum of the last batch before it
//! 52  0                      56  highest LSN known to be synced when it was written (8)
//! 64  wall time, ms (8)      72  bytes reserved for the segment (8), 0 where nobody knows
//! 80  where the batch stands that completes the last checkpoint: segment (8)   88  … and offset (8); both 0 for none
//! 96  zeros to the end of the sector
//! ```
//!
//! In format 1 the header ends at 80, and so do the bytes that its checksum covers: there are no checkpoints, and a
//! store has all its segments from the first on. A file that is used again keeps what stood in it behind what is
//! written: only batches of this segment's number that continue the chain count.
//!
//! All numbers are least byte first; 4 bytes where nothing else is said.

use super::batch::{u32_at, u64_at, u128_at};
use super::{SECTOR, checksum};
use crate::ids::{Lsn, RecoveryCount, SegmentNumber, StoreId};
use crate::time::WallTime;
use alloc::vec::Vec;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 4;

const MAGIC: [u8; 4] = *b"VMQS";
const LENGTH: usize = 96;
const LENGTH_1: usize = 80;

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store.
    pub store: StoreId,
    /// Its number, as in its file name.
    pub segment: SegmentNumber,
    /// The LSN of the first record in it.
    pub first: Lsn,
    /// The checksum of the last batch before it; 0 at the beginning of a store.
    pub previous: u32,
    /// The recovery that its writer had behind it.
    pub recovery_count: RecoveryCount,
    /// Known to be synced when it was written.
    pub synced: Lsn,
    /// When it was written.
    pub at: WallTime,
    /// Bytes reserved for the segment before the header was written: a shorter file has lost its end. 0 where nobody
    /// knows.
    pub reserved: u64,
    /// Where the batch stands that completes the last checkpoint.
    pub checkpoint: Option<(SegmentNumber, u64)>,
}

/// What the first sector of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSector {
    /// A header.
    Header(SegmentHeader),
    /// The header of a format that this version does not know.
    NewerFormat(u32),
    /// Nothing that can be read: never written, torn or damaged.
    Nothing,
}

/// The sector.
pub fn encode(header: &SegmentHeader) -> Vec<u8> {
    let mut sector = alloc::vec![0; SECTOR as usize];
    sector[0..4].copy_from_slice(&MAGIC);
    sector[4..8].copy_from_slice(&FORMAT.to_le_bytes());
    sector[12..16].copy_from_slice(&header.recovery_count.0.to_le_bytes());
    sector[16..32].copy_from_slice(&header.store.0.to_le_bytes());
    sector[32..40].copy_from_slice(&header.segment.0.to_le_bytes());
    sector[40..48].copy_from_slice(&header.first.0.to_le_bytes());
    sector[48..52].copy_from_slice(&header.previous.to_le_bytes());
    sector[56..64].copy_from_slice(&header.synced.0.to_le_bytes());
    sector[64..72].copy_from_slice(&header.at.0.to_le_bytes());
    sector[72..80].copy_from_slice(&header.reserved.to_le_bytes());
    let (segment, offset) = header.checkpoint.map_or((0, 0), |(segment, offset)| (segment.0, offset));
    sector[80..88].copy_from_slice(&segment.to_le_bytes());
    sector[88..96].copy_from_slice(&offset.to_le_bytes());
    let sum = checksum(&sector[12..LENGTH]);
    sector[8..12].copy_from_slice(&sum.to_le_bytes());
    sector
}

/// Reads the first sector of a file.
pub fn parse(sector: &[u8]) -> FirstSector {
    match (sector.starts_with(&MAGIC), u32_at(sector, 4)) {
        (true, Some(format @ 1..=FORMAT)) => {
            header(sector, format).map_or(FirstSector::Nothing, FirstSector::Header)
        }
        (true, Some(newer)) if newer > FORMAT => FirstSector::NewerFormat(newer),
        _ => FirstSector::Nothing,
    }
}

fn header(sector: &[u8], format: u32) -> Option<SegmentHeader> {
    let covered = sector.get(12..if format == 1 { LENGTH_1 } else { LENGTH })?;
    let checkpoint = match u64_at(sector, 80)? {
        0 => None,
        segment => Some((SegmentNumber(segment), u64_at(sector, 88)?)),
    };
    (u32_at(sector, 8)? == checksum(covered)).then_some(SegmentHeader {
        recovery_count: RecoveryCount(u32_at(sector, 12)?),
        store: StoreId(u128_at(sector, 16)?),
        segment: SegmentNumber(u64_at(sector, 32)?),
        first: Lsn(u64_at(sector, 40)?),
        previous: u32_at(sector, 48)?,
        synced: Lsn(u64_at(sector, 56)?),
        at: WallTime(u64_at(sector, 64)?),
        reserved: u64_at(sector, 72)?,
        checkpoint,
    })
}
