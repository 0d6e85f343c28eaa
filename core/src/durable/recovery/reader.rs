//! Reads segments in pieces: keeps one piece, orders the next where more is wanted.

use super::refusal::Refusal;
use crate::durable::batch;
use crate::durable::{SECTOR, whole_sectors};
use crate::ids::SegmentNumber;
use crate::input::{DiskError, DiskReply};
use crate::outbox::Outbox;
use crate::output::DiskRequest;
use bytes::Bytes;

/// Bytes of a piece.
const PIECE: u64 = 1024 * 1024;

/// Something that is there, or has been ordered.
pub enum Wanted<T, W = T> {
    /// Here it is.
    Go(T),
    /// Ordered: come again when it has arrived.
    Wait(W),
}

/// The piece at hand.
#[derive(Default)]
pub struct Reader {
    segment: SegmentNumber,
    offset: u64,
    piece: Bytes,
}

impl Reader {
    /// `length` bytes at `offset`, or as many as the file has; orders them, and up to `ahead` bytes, if they are
    /// not at hand.
    pub fn want(
        &mut self,
        segment: SegmentNumber,
        offset: u64,
        length: u64,
        ahead: u64,
        outbox: &mut Outbox,
    ) -> Option<Bytes> {
        let end = self.offset + self.piece.len() as u64;
        if length == 0 {
            return Some(Bytes::new());
        }
        if self.segment == segment && offset >= self.offset && offset + length <= end {
            let from = (offset - self.offset) as usize;
            return Some(self.piece.slice(from..from + length as usize));
        }
        (self.segment, self.offset, self.piece) = (segment, offset, Bytes::new());
        outbox.disk(DiskRequest::Read { segment, offset, length: length.max(ahead) });
        None
    }

    /// What was ordered has arrived.
    pub fn arrived(&mut self, result: Result<DiskReply, DiskError>) -> Result<(), Refusal> {
        match result {
            Ok(DiskReply::Bytes(bytes)) if !bytes.is_empty() => {
                self.piece = bytes;
                Ok(())
            }
            Ok(_) => Err(Refusal::ReadFailed {
                segment: self.segment,
                offset: self.offset,
                error: "the file is shorter than the directory said".into(),
            }),
            Err(error) => Err(Refusal::read(self.segment, self.offset, error)),
        }
    }

    /// The bytes at `offset`: a whole batch if one seems to begin there, otherwise a sector or more, up to the next
    /// place where a batch could begin.
    pub fn batch(
        &mut self,
        segment: SegmentNumber,
        offset: u64,
        file_length: u64,
        outbox: &mut Outbox,
    ) -> Wanted<Bytes, ()> {
        let left = file_length.saturating_sub(offset);
        let Some(sector) = self.want(segment, offset, left.min(SECTOR), left.min(PIECE), outbox) else {
            return Wanted::Wait(());
        };
        // A length that goes beyond the file is none, so nothing is ordered or allocated for it.
        let claimed = batch::claimed_length(&sector).map_or(0, |length| whole_sectors(length as u64));
        if claimed <= SECTOR || claimed > left {
            return Wanted::Go(sector);
        }
        match self.want(segment, offset, claimed, left.min(claimed.max(PIECE)), outbox) {
            Some(bytes) => Wanted::Go(bytes),
            None => Wanted::Wait(()),
        }
    }
}
