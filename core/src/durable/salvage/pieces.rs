//! Reads a store that may be damaged: in large pieces, and where the device fails, sector by sector.

use super::Device;
use crate::durable::place::Place;
use crate::durable::{SECTOR, codec};
use crate::ids::SegmentNumber;
use crate::input::{DiskError, DiskReply};
use crate::message::Message;
use crate::output::DiskRequest;
use bytes::{Bytes, BytesMut};

/// Bytes of a piece.
const PIECE: u64 = 1024 * 1024;

/// The piece at hand.
#[derive(Default)]
pub struct Pieces {
    segment: SegmentNumber,
    offset: u64,
    piece: Bytes,
}

impl Pieces {
    /// So many bytes from there on, or as many as the file has.
    ///
    /// # Errors
    /// What the device says.
    pub fn read(
        &mut self,
        device: Device<'_>,
        segment: SegmentNumber,
        offset: u64,
        length: u64,
    ) -> Result<Bytes, DiskError> {
        let end = self.offset + self.piece.len() as u64;
        if self.segment != segment || offset < self.offset || offset + length > end {
            self.piece = Bytes::new();
            let whole = read(device, segment, offset, length.max(PIECE));
            self.piece = match whole {
                Ok(bytes) => bytes,
                // What was read ahead may be what cannot be read.
                Err(_) if length < PIECE => read(device, segment, offset, length)?,
                Err(error) => return Err(error),
            };
            (self.segment, self.offset) = (segment, offset);
        }
        let from = (offset - self.offset) as usize;
        let to = self.piece.len().min(from + length as usize);
        Ok(self.piece.slice(from.min(to)..to))
    }

    /// As `read`, with zeros where the device fails; its first words, if it does.
    pub(super) fn read_what_can_be(
        &mut self,
        device: Device<'_>,
        segment: SegmentNumber,
        offset: u64,
        length: u64,
    ) -> (Bytes, Option<DiskError>) {
        let failed = match self.read(device, segment, offset, length) {
            Ok(bytes) => return (bytes, None),
            Err(error) => error,
        };
        let mut bytes = BytesMut::new();
        while (bytes.len() as u64) < length {
            let at = offset + bytes.len() as u64;
            let wanted = (length - bytes.len() as u64).min(SECTOR);
            match read(device, segment, at, wanted) {
                Ok(sector) if sector.is_empty() => break,
                Ok(sector) => bytes.extend_from_slice(&sector),
                Err(_) => bytes.resize(bytes.len() + wanted as usize, 0),
            }
        }
        (bytes.freeze(), Some(failed))
    }

    /// The message that lies there.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn message(
        &mut self,
        device: Device<'_>,
        place: Place,
    ) -> Result<Message, alloc::borrow::Cow<'static, str>> {
        match self.read(device, place.segment, place.offset, place.length.into()) {
            Ok(bytes) => codec::read_message(&bytes, place.checksum)
                .ok_or("its bytes are not those that were written".into()),
            Err(error) => Err(error.message.into()),
        }
    }
}

fn read(device: Device<'_>, segment: SegmentNumber, offset: u64, length: u64) -> Result<Bytes, DiskError> {
    match device(DiskRequest::Read { segment, offset, length })? {
        DiskReply::Bytes(bytes) => Ok(bytes),
        DiskReply::Done | DiskReply::Listing(_) | DiskReply::FreeSpace(_) => Ok(Bytes::new()),
    }
}
