//! A disk that lies: it says that all is well, and a write is not there, or elsewhere, or a read is an old one.

use super::{Disk, SECTOR};
use bytes::Bytes;
use vowmq_core::durable::batch;
use vowmq_core::ids::{Lsn, OpId, SegmentNumber};
use vowmq_core::input::{DiskError, DiskReply};
use vowmq_core::output::DiskRequest;

/// What it lies about. The number decides what is left open.
#[derive(Clone, Copy)]
pub(crate) enum Lie {
    /// A batch is not written.
    Lost,
    /// A batch is written elsewhere.
    Misdirected(u64),
    /// A sector that is read is as it was before it was written.
    Stale(u64),
}

/// What a lie did.
pub(crate) struct Harm {
    /// What it is counted as.
    pub(crate) effect: &'static str,
    /// The first record of a batch that is not where it should be; the next one, if the batch has none.
    pub(crate) missing: Option<Lsn>,
    /// That batch has no records: only what was written behind it cannot be reached.
    pub(crate) gap: bool,
    /// The bytes that were written over, or were not as they are.
    pub(crate) place: Option<(SegmentNumber, u64, u64)>,
}

impl Disk {
    /// Makes an operation under way a lie.
    pub(crate) fn lie(&mut self, op: OpId, lie: Lie) {
        if let Some(operation) = self.in_flight.get_mut(&op) {
            operation.lie = Some(lie);
        }
    }

    /// What it lied about since the last call.
    pub(crate) fn take_harm(&mut self) -> Option<Harm> {
        self.harm.take()
    }

    pub(super) fn carry_out_lying(
        &mut self,
        request: &DiskRequest,
        lie: Lie,
    ) -> Result<DiskReply, DiskError> {
        match (request, lie) {
            (DiskRequest::Write { segment, offset, chunks, sync }, Lie::Lost | Lie::Misdirected(_)) => {
                let bytes = chunks.concat();
                let Some(header) = batch::parse(&bytes).map(|batch| batch.header) else {
                    return self.carry_out(request);
                };
                self.lied = true;
                let (effect, place) = match lie {
                    Lie::Misdirected(number) => {
                        ("write misdirected", self.misdirect(*segment, *offset, bytes, number)?)
                    }
                    Lie::Lost | Lie::Stale(_) => ("write lost", None),
                };
                let (missing, gap) = (Some(header.first), header.records == 0);
                self.harm = Some(Harm { effect, missing, gap, place });
                if *sync { self.sync(*segment) } else { Ok(DiskReply::Done) }
            }
            (DiskRequest::Read { segment, offset, .. }, Lie::Stale(number)) => {
                let reply = self.carry_out(request)?;
                let DiskReply::Bytes(read) = &reply else { return Ok(reply) };
                let sectors = (read.len() / SECTOR) as u64;
                if sectors == 0 {
                    return Ok(reply);
                }
                let at = (number % sectors) as usize * SECTOR;
                let place = *offset + at as u64;
                let mut bytes = read.to_vec();
                bytes[at..at + SECTOR].copy_from_slice(&self.file(*segment)?.stale(place as usize));
                let place = Some((*segment, place, SECTOR as u64));
                self.lied = true;
                self.harm = Some(Harm { effect: "read stale", missing: None, gap: false, place });
                Ok(DiskReply::Bytes(Bytes::from(bytes)))
            }
            _ => self.carry_out(request),
        }
    }

    /// Writes at some other place of the same segment.
    fn misdirect(
        &mut self,
        segment: SegmentNumber,
        right: u64,
        bytes: Vec<u8>,
        number: u64,
    ) -> Result<Option<(SegmentNumber, u64, u64)>, DiskError> {
        let length = bytes.len() as u64;
        let places = (self.file(segment)?.bytes().len() as u64 - length) / SECTOR as u64 + 1;
        let sector = number % places;
        let sector = if sector * SECTOR as u64 == right { (sector + 1) % places } else { sector };
        let offset = sector * SECTOR as u64;
        self.write(segment, offset, &[Bytes::from(bytes)])?;
        Ok(Some((segment, offset, length)))
    }
}
