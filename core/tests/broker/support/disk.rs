//! A disk of the test's: what is durable and what is only written are kept apart.

use bytes::Bytes;
use std::collections::BTreeMap;
use vowmq_core::durable::codec;
use vowmq_core::durable::place::Place;
use vowmq_core::ids::SegmentNumber;
use vowmq_core::input::{DiskError, DiskErrorKind, DiskReply};
use vowmq_core::limits::Settings;
use vowmq_core::message::Message;
use vowmq_core::output::DiskRequest;

pub const SECTOR: usize = 4096;

#[derive(Clone, Default)]
pub struct File {
    /// As the page cache has it.
    pub written: Vec<u8>,
    /// As the platters have it.
    pub durable: Vec<u8>,
    /// Whether its entry in the directory is durable.
    pub entry: bool,
    /// What an earlier use of it has left, which may be written over.
    pub left: Vec<u8>,
}

/// Files, and faults to come.
#[derive(Clone, Default)]
pub struct Disk {
    pub files: BTreeMap<SegmentNumber, File>,
    /// Entries whose removal is not durable.
    removed: BTreeMap<SegmentNumber, File>,
    /// Orders carried out so far.
    pub operations: Vec<DiskRequest>,
    /// Bytes that may be allocated in all; none: as many as one likes.
    pub capacity: Option<u64>,
    /// The next order of this kind fails.
    pub fail_next: Option<Kind>,
    pub settings: Option<Settings>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Write,
    Read,
    SyncDirectory,
}

/// What of the unsynced survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    Nothing,
    Everything,
    /// The sectors whose bit is set, in the order of files and offsets.
    Sectors(u64),
    /// As `Sectors`, but the others are garbage.
    Garbage(u64),
}

impl Disk {
    /// The bytes that are allocated.
    pub fn allocated(&self) -> u64 {
        self.files.values().map(|file| file.written.len() as u64).sum()
    }

    pub fn execute(&mut self, request: &DiskRequest) -> Result<DiskReply, DiskError> {
        self.operations.push(request.clone());
        if let Some(kind) = self.fail_next
            && kind.fits(request)
        {
            self.fail_next = None;
            return Err(failed("the test says so"));
        }
        match request {
            DiskRequest::List => {
                let list = self.files.iter().map(|(segment, file)| (*segment, file.written.len() as u64));
                Ok(DiskReply::Listing(list.rev().collect()))
            }
            DiskRequest::Create { segment } => {
                let before = self.files.insert(*segment, File::default());
                assert!(before.is_none(), "segment {segment} is created twice");
                Ok(DiskReply::Done)
            }
            DiskRequest::Reserve { segment, length } => self.reserve(*segment, *length),
            DiskRequest::Write { segment, offset, chunks, sync } => {
                self.write(*segment, *offset, chunks);
                if *sync {
                    self.sync(*segment);
                }
                Ok(DiskReply::Done)
            }
            DiskRequest::Sync { segment } => {
                self.sync(*segment);
                Ok(DiskReply::Done)
            }
            DiskRequest::SyncDirectory => {
                self.files.values_mut().for_each(|file| file.entry = true);
                self.removed.clear();
                Ok(DiskReply::Done)
            }
            DiskRequest::Read { segment, offset, length } => {
                let file = &self.files[segment].written;
                let end = (*offset + *length).min(file.len() as u64) as usize;
                Ok(DiskReply::Bytes(Bytes::copy_from_slice(&file[*offset as usize..end])))
            }
            DiskRequest::Remove { segment } => {
                let file = self.files.remove(segment).expect("only files that exist are removed");
                self.removed.insert(*segment, file);
                Ok(DiskReply::Done)
            }
            DiskRequest::Rename { from, to } => {
                let file = self.files.remove(from).expect("only files that exist get another number");
                self.removed.insert(*from, file.clone());
                let left = file.written.clone();
                let before = self.files.insert(*to, File { entry: false, left, ..file });
                assert!(before.is_none(), "segment {to} is there already");
                Ok(DiskReply::Done)
            }
            DiskRequest::FreeSpace => Ok(DiskReply::FreeSpace(
                self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.allocated())),
            )),
        }
    }

    fn reserve(&mut self, segment: SegmentNumber, length: u64) -> Result<DiskReply, DiskError> {
        if self.capacity.is_some_and(|capacity| self.allocated() + length > capacity) {
            return Err(DiskError { kind: DiskErrorKind::Full, message: "no space left".into() });
        }
        let file = self.files.get_mut(&segment).expect("it was created");
        file.written.resize(length as usize, 0);
        file.durable = file.written.clone();
        Ok(DiskReply::Done)
    }

    fn write(&mut self, segment: SegmentNumber, offset: u64, chunks: &[Bytes]) {
        let file = self.files.get_mut(&segment).expect("it was created");
        let bytes = chunks.concat();
        let offset = offset as usize;
        assert!(offset.is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR), "whole sectors only");
        assert!(offset + bytes.len() <= file.written.len(), "inside the reserved length only");
        let range = offset..offset + bytes.len();
        let over = &file.durable[range.clone()];
        let left = file.left.get(range) == Some(over);
        assert!(
            left || over.iter().all(|&byte| byte == 0),
            "a sector that was synced is never written again"
        );
        file.written[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }

    fn sync(&mut self, segment: SegmentNumber) {
        let file = self.files.get_mut(&segment).expect("it was created");
        file.durable = file.written.clone();
    }

    /// The message that lies there.
    pub fn message(&self, place: Place) -> Message {
        let file = &self.files[&place.segment].written;
        let bytes = &file[place.offset as usize..place.offset as usize + place.length as usize];
        codec::read_message(bytes, place.checksum).expect("it is what was written")
    }

    /// Sectors that are written and not durable.
    pub fn unsynced(&self) -> Vec<(SegmentNumber, usize)> {
        let mut unsynced = Vec::new();
        for (segment, file) in &self.files {
            for sector in 0..file.written.len() / SECTOR {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                if file.durable.get(range.clone()) != Some(&file.written[range]) {
                    unsynced.push((*segment, sector));
                }
            }
        }
        unsynced
    }

    pub fn power_cut(&mut self, survival: Survival) {
        let unsynced = self.unsynced();
        for (number, (segment, sector)) in unsynced.into_iter().enumerate() {
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Sectors(bits) | Survival::Garbage(bits) => bits >> (number % 64) & 1 == 1,
            };
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            let file = self.files.get_mut(&segment).expect("it is in the list");
            if survives {
                file.durable.resize(file.written.len(), 0);
                file.durable[range.clone()].copy_from_slice(&file.written[range]);
            } else if matches!(survival, Survival::Garbage(_)) {
                file.durable[range].fill(0xa5);
            }
        }
        self.files.retain(|_, file| file.entry || survival == Survival::Everything);
        if survival == Survival::Nothing {
            self.files.append(&mut self.removed);
        }
        self.removed.clear();
        for file in self.files.values_mut() {
            file.written = file.durable.clone();
            file.entry = true;
        }
    }
}

impl Kind {
    fn fits(self, request: &DiskRequest) -> bool {
        matches!(
            (self, request),
            (Kind::Write, DiskRequest::Write { .. })
                | (Kind::Read, DiskRequest::Read { .. })
                | (Kind::SyncDirectory, DiskRequest::SyncDirectory)
        )
    }
}

pub fn failed(message: &str) -> DiskError {
    DiskError { kind: DiskErrorKind::Failed, message: message.into() }
}
