//! The simulated disk: one directory of segments, with what is durable kept apart from what is only written.
//!
//! An operation is ordered, takes its time, and is carried out when it ends. A power cut finds those under way
//! done, half done or not begun, then decides the fate of every unsynced sector and directory entry.

mod cut;
mod file;
mod left;
mod lie;

use crate::chance::{Chance, Domain, Draws};
use crate::fault::{Pages, UnderWay};
use crate::scenario::DiskSettings;
pub(crate) use cut::Cut;
pub use cut::CutSize;
use file::{File, SECTOR};
pub(crate) use left::Left;
pub(crate) use lie::{Harm, Lie};
use std::collections::{BTreeMap, BTreeSet};
use vowmq_core::ids::{OpId, SegmentNumber};
use vowmq_core::input::{DiskError, DiskErrorKind, DiskReply};
use vowmq_core::output::DiskRequest;

/// The directory and its files.
pub(crate) struct Disk {
    settings: DiskSettings,
    latency: Draws,
    /// Names as the operating system shows them.
    entries: BTreeMap<SegmentNumber, u64>,
    /// Names as they are on the platter.
    durable_entries: BTreeMap<SegmentNumber, u64>,
    files: BTreeMap<u64, File>,
    in_flight: BTreeMap<OpId, Operation>,
    counts: Counts,
    /// It has lied: what stands where proves nothing about who wrote it.
    lied: bool,
    /// What it lied about since it was last asked.
    harm: Option<Harm>,
    /// What was written since it was last asked: segment, from, to.
    written: Vec<(SegmentNumber, u64, u64)>,
    extra_us: u64,
    full: bool,
    /// A write that no broker may order, in words.
    overwrite: Option<String>,
}

struct Operation {
    request: DiskRequest,
    failing: Option<Pages>,
    lie: Option<Lie>,
}

/// Which operation it is, by all counts that a fault may name.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    pub(crate) recovery_operations: u64,
    pub(crate) syncs: u64,
    pub(crate) writes: u64,
    pub(crate) reads: u64,
}

impl Disk {
    pub(crate) fn new(settings: DiskSettings, chance: Chance) -> Disk {
        Disk {
            settings,
            latency: chance.draws(Domain::DiskLatency, 0),
            entries: BTreeMap::new(),
            durable_entries: BTreeMap::new(),
            files: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            counts: Counts::default(),
            lied: false,
            harm: None,
            written: Vec::new(),
            extra_us: 0,
            full: false,
            overwrite: None,
        }
    }

    /// Takes an order; tells how long it takes.
    pub(crate) fn submit(&mut self, op: OpId, request: DiskRequest, recovering: bool) -> u64 {
        self.counts.operations += 1;
        self.counts.recovery_operations += u64::from(recovering);
        match &request {
            DiskRequest::Write { sync, .. } => {
                self.counts.writes += 1;
                self.counts.syncs += u64::from(*sync);
            }
            DiskRequest::Sync { .. } | DiskRequest::SyncDirectory => self.counts.syncs += 1,
            DiskRequest::Read { .. } => self.counts.reads += 1,
            DiskRequest::List
            | DiskRequest::Create { .. }
            | DiskRequest::Reserve { .. }
            | DiskRequest::Remove { .. }
            | DiskRequest::Rename { .. }
            | DiskRequest::FreeSpace => {}
        }
        let before = self.in_flight.insert(op, Operation { request, failing: None, lie: None });
        assert!(before.is_none(), "operation {op} was ordered while it was under way");
        self.latency.between(self.settings.latency_min_us, self.settings.latency_max_us) + self.extra_us
    }

    /// The numbers of the operation that was ordered last.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Makes an operation under way fail; tells whether it is a write, which is cut short then.
    pub(crate) fn fail(&mut self, op: OpId, pages: Pages) -> bool {
        let Some(operation) = self.in_flight.get_mut(&op) else { return false };
        operation.failing = Some(pages);
        matches!(operation.request, DiskRequest::Write { .. })
    }

    /// Whether the operation under way only reads.
    pub(crate) fn is_read(&self, op: OpId) -> bool {
        self.in_flight.get(&op).is_some_and(|o| matches!(o.request, DiskRequest::Read { .. }))
    }

    /// Carries an operation out.
    pub(crate) fn complete(&mut self, op: OpId) -> Result<DiskReply, DiskError> {
        let operation = self.in_flight.remove(&op).expect("an operation completes once");
        let Operation { request, failing, lie } = operation;
        match (failing, lie) {
            (Some(pages), _) => Err(self.carry_out_failing(&request, pages)),
            (None, Some(lie)) => self.carry_out_lying(&request, lie),
            (None, None) => self.carry_out(&request),
        }
    }

    /// The process is gone; operations under way end as the operating system likes.
    pub(crate) fn process_crash(&mut self, draws: &mut Draws, mut tell: impl FnMut(Left)) {
        for (op, operation) in std::mem::take(&mut self.in_flight) {
            let under_way = cut::under_way(draws, 4);
            tell(Left::Operation(op, under_way));
            self.carry_out_partly(operation, under_way);
        }
        self.files.values_mut().for_each(File::seal);
    }

    /// The power is gone; tells what became of unsynced sectors, lengths and names.
    pub(crate) fn power_cut(&mut self, cut: &mut Cut<'_>, mut tell: impl FnMut(Left)) {
        for (op, operation) in std::mem::take(&mut self.in_flight) {
            let under_way = cut.under_way();
            tell(Left::Operation(op, under_way));
            self.carry_out_partly(operation, under_way);
        }
        self.cut_entries(cut, &mut tell);
        self.files.retain(|inode, _| self.durable_entries.values().any(|named| named == inode));
        for (inode, file) in &mut self.files {
            let named = self.durable_entries.iter().find(|(_, of_name)| *of_name == inode);
            let segment = named.map_or(SegmentNumber(0), |(name, _)| *name);
            file.power_cut(*inode, cut, |at, fate| tell(Left::Place(segment, at, fate)));
        }
    }

    /// Turns a bit over in some durable sector.
    pub(crate) fn rot(&mut self, draws: &mut Draws) -> Option<(SegmentNumber, usize)> {
        let names: Vec<(SegmentNumber, u64)> =
            self.durable_entries.iter().map(|(name, inode)| (*name, *inode)).collect();
        if names.is_empty() {
            return None;
        }
        let (segment, inode) = *draws.pick(&names);
        let at = self.files.get_mut(&inode)?.rot(draws)?;
        Some((segment, at))
    }

    /// From now on every operation takes so much longer.
    pub(crate) fn set_extra_us(&mut self, extra_us: u64) {
        self.extra_us = extra_us;
    }

    /// Whether new space can be had.
    pub(crate) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    /// What is on the platter there; none where anything of it is not synced.
    pub(crate) fn platter(&self, segment: SegmentNumber, offset: u64, length: u64) -> Option<&[u8]> {
        let inode = self.durable_entries.get(&segment)?;
        self.files.get(inode)?.platter(offset as usize, length as usize)
    }

    /// The names on the platter that are higher, in order.
    pub(crate) fn names_behind(&self, segment: SegmentNumber) -> impl Iterator<Item = SegmentNumber> + '_ {
        self.durable_entries.keys().copied().skip_while(move |name| *name <= segment)
    }

    /// A write that was ordered and that no broker may order, in words.
    pub(crate) fn take_overwrite(&mut self) -> Option<String> {
        self.overwrite.take()
    }

    /// What was written since the last call: segment, from, to.
    pub(crate) fn take_written(&mut self) -> Vec<(SegmentNumber, u64, u64)> {
        std::mem::take(&mut self.written)
    }

    fn carry_out(&mut self, request: &DiskRequest) -> Result<DiskReply, DiskError> {
        match request {
            DiskRequest::List => {
                let length = |inode| self.files.get(inode).map_or(0, |file: &File| file.bytes().len() as u64);
                Ok(DiskReply::Listing(
                    self.entries.iter().map(|(name, inode)| (*name, length(inode))).collect(),
                ))
            }
            DiskRequest::Create { segment } => self.create(*segment),
            DiskRequest::Reserve { segment, length } => {
                if self.full {
                    return Err(error(DiskErrorKind::Full, *segment, "no space left on device"));
                }
                self.file(*segment)?.reserve(*length as usize);
                Ok(DiskReply::Done)
            }
            DiskRequest::Write { segment, offset, chunks, sync } => {
                self.write(*segment, *offset, chunks)?;
                if *sync { self.sync(*segment) } else { Ok(DiskReply::Done) }
            }
            DiskRequest::Sync { segment } => {
                let reply = self.sync(*segment)?;
                // What is read afterwards comes from the device.
                self.file(*segment)?.drop_forgotten();
                Ok(reply)
            }
            DiskRequest::SyncDirectory => {
                self.durable_entries = self.entries.clone();
                Ok(DiskReply::Done)
            }
            DiskRequest::Read { segment, offset, length } => {
                let bytes = self.file(*segment)?.bytes();
                let from = (*offset as usize).min(bytes.len());
                let to = from.saturating_add(*length as usize).min(bytes.len());
                Ok(DiskReply::Bytes(bytes::Bytes::copy_from_slice(&bytes[from..to])))
            }
            DiskRequest::Remove { segment } => match self.entries.remove(segment) {
                Some(_) => Ok(DiskReply::Done),
                None => Err(error(DiskErrorKind::NotFound, *segment, "no such file or directory")),
            },
            DiskRequest::Rename { from, to } => self.rename(*from, *to),
            DiskRequest::FreeSpace => Ok(DiskReply::FreeSpace(if self.full { 0 } else { 1 << 40 })),
        }
    }

    fn carry_out_failing(&mut self, request: &DiskRequest, pages: Pages) -> DiskError {
        let segment = match request {
            DiskRequest::Write { segment, offset, chunks, .. } => {
                // A short write: the front of it is in the page cache.
                let bytes = chunks.concat();
                let written = bytes.len() / SECTOR / 2 * SECTOR;
                let _ = self.write(*segment, *offset, &[bytes::Bytes::copy_from_slice(&bytes[..written])]);
                self.fail_sync(*segment, pages);
                *segment
            }
            DiskRequest::Sync { segment } => {
                self.fail_sync(*segment, pages);
                *segment
            }
            DiskRequest::Create { segment }
            | DiskRequest::Reserve { segment, .. }
            | DiskRequest::Read { segment, .. }
            | DiskRequest::Rename { from: segment, .. }
            | DiskRequest::Remove { segment } => *segment,
            DiskRequest::List | DiskRequest::SyncDirectory | DiskRequest::FreeSpace => SegmentNumber(0),
        };
        error(DiskErrorKind::Failed, segment, "input/output error")
    }

    /// What a dying process or machine leaves of an operation under way.
    fn carry_out_partly(&mut self, operation: Operation, under_way: UnderWay) {
        match under_way {
            UnderWay::NotBegun => {}
            UnderWay::Done => {
                let _ = self.carry_out(&operation.request);
            }
            UnderWay::Written => match operation.request {
                DiskRequest::Write { segment, offset, chunks, .. } => {
                    let _ = self.write(segment, offset, &chunks);
                }
                DiskRequest::Create { .. }
                | DiskRequest::Reserve { .. }
                | DiskRequest::Rename { .. }
                | DiskRequest::Remove { .. } => {
                    let _ = self.carry_out(&operation.request);
                }
                DiskRequest::List
                | DiskRequest::Sync { .. }
                | DiskRequest::SyncDirectory
                | DiskRequest::Read { .. }
                | DiskRequest::FreeSpace => {}
            },
        }
    }

    fn create(&mut self, segment: SegmentNumber) -> Result<DiskReply, DiskError> {
        if self.entries.contains_key(&segment) {
            return Err(error(DiskErrorKind::AlreadyExists, segment, "file exists"));
        }
        let inode = self.files.last_key_value().map_or(1, |(inode, _)| inode + 1);
        self.files.insert(inode, File::default());
        self.entries.insert(segment, inode);
        Ok(DiskReply::Done)
    }

    /// What is in the file may be written over from now on.
    fn rename(&mut self, from: SegmentNumber, to: SegmentNumber) -> Result<DiskReply, DiskError> {
        if self.entries.contains_key(&to) {
            return Err(error(DiskErrorKind::AlreadyExists, to, "file exists"));
        }
        self.file(from)?.give_up();
        if let Some(inode) = self.entries.remove(&from) {
            self.entries.insert(to, inode);
        }
        Ok(DiskReply::Done)
    }

    fn write(
        &mut self,
        segment: SegmentNumber,
        offset: u64,
        chunks: &[bytes::Bytes],
    ) -> Result<(), DiskError> {
        let bytes = chunks.concat();
        let file = self.file(segment)?;
        let aligned = (offset as usize).is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR);
        let fits = offset as usize + bytes.len() <= file.bytes().len();
        assert!(
            aligned && fits,
            "a write of {} bytes at {offset} of segment {segment} breaks the rule",
            bytes.len()
        );
        let forbidden = file.forbids(offset as usize, bytes.len());
        file.write(offset as usize, &bytes);
        self.written.push((segment, offset, offset + bytes.len() as u64));
        if let Some(why) = forbidden.filter(|_| !self.lied) {
            let text = format!("a write of {} bytes at {offset} of segment {segment}: {why}", bytes.len());
            self.overwrite.get_or_insert(text);
        }
        Ok(())
    }

    fn sync(&mut self, segment: SegmentNumber) -> Result<DiskReply, DiskError> {
        self.file(segment)?.sync();
        Ok(DiskReply::Done)
    }

    fn fail_sync(&mut self, segment: SegmentNumber, pages: Pages) {
        let Ok(file) = self.file(segment) else { return };
        match pages {
            Pages::Dropped => file.drop_dirty(),
            Pages::KeptClean => file.forget_dirty(),
        }
    }

    /// Every change of a name that was not synced survives or is undone.
    fn cut_entries(&mut self, cut: &mut Cut<'_>, tell: &mut impl FnMut(Left)) {
        let mut names: BTreeSet<SegmentNumber> =
            self.entries.keys().chain(self.durable_entries.keys()).copied().collect();
        while let Some(name) = names.pop_first() {
            let (now, durable) = (self.entries.get(&name).copied(), self.durable_entries.get(&name).copied());
            if now == durable {
                continue;
            }
            // A rename is one change: the file has the one name or the other.
            let inode = now.or(durable);
            let other = names.iter().copied().find(|other| {
                let (now, durable) = (self.entries.get(other), self.durable_entries.get(other));
                now != durable && [now, durable].contains(&inode.as_ref())
            });
            other.map(|other| names.remove(&other));
            let kept = cut.keeps_name();
            tell(Left::Name(name, kept));
            for changed in [Some(name), other].into_iter().flatten().filter(|_| kept) {
                match self.entries.get(&changed) {
                    Some(inode) => self.durable_entries.insert(changed, *inode),
                    None => self.durable_entries.remove(&changed),
                };
            }
        }
        self.entries = self.durable_entries.clone();
    }

    fn file(&mut self, segment: SegmentNumber) -> Result<&mut File, DiskError> {
        let inode = self.entries.get(&segment);
        let file = inode.and_then(|inode| self.files.get_mut(inode));
        file.ok_or_else(|| error(DiskErrorKind::NotFound, segment, "no such file or directory"))
    }
}

fn error(kind: DiskErrorKind, segment: SegmentNumber, words: &str) -> DiskError {
    DiskError { kind, message: format!("segment {segment}: {words} (simulated)") }
}

/// An order, for a trace.
pub(crate) fn in_words(request: &DiskRequest) -> String {
    match request {
        DiskRequest::Write { segment, offset, chunks, sync } => {
            let length: usize = chunks.iter().map(bytes::Bytes::len).sum();
            let and_sync = if *sync { " and sync" } else { "" };
            format!("write{and_sync} {length} bytes at {offset} of segment {segment}")
        }
        DiskRequest::List
        | DiskRequest::Create { .. }
        | DiskRequest::Reserve { .. }
        | DiskRequest::Sync { .. }
        | DiskRequest::SyncDirectory
        | DiskRequest::Read { .. }
        | DiskRequest::Remove { .. }
        | DiskRequest::Rename { .. }
        | DiskRequest::FreeSpace => format!("{request:?}"),
    }
}
