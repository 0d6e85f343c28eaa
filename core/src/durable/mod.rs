//! What survives: records, the log they are kept in, the state they build, the gate that holds what waits for
//! them, and recovery.
//!
//! A fact that must survive is a `Record`. Only `State::apply` changes durable state, live and in recovery alike.

pub mod batch;
pub mod codec;
pub mod gate;
pub mod log;
pub mod opening;
pub mod owner;
pub mod page;
pub mod place;
pub mod preparation;
pub mod record;
pub mod recovery;
pub mod salvage;
pub mod segment;
pub mod state;
pub mod topology;
pub mod usage;

/// Bytes of a sector: the unit in which a disk writes or tears, as far as the log relies on one.
pub const SECTOR: u64 = 4096;

/// CRC-32C, by the processor's instructions.
#[cfg(feature = "processor-checksums")]
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C, by tables.
#[cfg(not(feature = "processor-checksums"))]
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    use crc::{CRC_32_ISCSI, Crc, Table};
    static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    CASTAGNOLI.checksum(bytes)
}

/// `bytes` rounded up to whole sectors.
pub(crate) fn whole_sectors(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR)
}
