//! A store in plain files that are never synced: in memory where the system has a file system there, else in the
//! directory for temporary files. So the store takes no part in the memory of the process.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;
use vowmq_core::ids::SegmentNumber;
use vowmq_core::input::{DiskError, DiskErrorKind, DiskReply};
use vowmq_core::output::DiskRequest;

/// The store. Removed when dropped.
pub struct Disk {
    directory: TempDir,
    files: BTreeMap<SegmentNumber, File>,
}

impl Disk {
    /// An empty store.
    pub fn new() -> Disk {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Disk { directory: directory.expect("a directory can be made"), files: BTreeMap::new() }
    }

    /// Carries out one order.
    pub fn execute(&mut self, request: &DiskRequest) -> Result<DiskReply, DiskError> {
        self.perform(request)
            .map_err(|error| DiskError { kind: DiskErrorKind::Failed, message: error.to_string() })
    }

    fn perform(&mut self, request: &DiskRequest) -> io::Result<DiskReply> {
        match request {
            DiskRequest::List => {
                let length =
                    |(segment, file): (&SegmentNumber, &File)| Ok((*segment, file.metadata()?.len()));
                return self.files.iter().map(length).collect::<io::Result<_>>().map(DiskReply::Listing);
            }
            DiskRequest::Create { segment } => {
                let path = self.directory.path().join(segment.to_string());
                let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
                self.files.insert(*segment, file);
            }
            DiskRequest::Reserve { segment, length } => self.files[segment].set_len(*length)?,
            DiskRequest::Write { segment, offset, chunks, sync: _ } => {
                let mut at = *offset;
                for chunk in chunks {
                    self.files[segment].write_all_at(chunk, at)?;
                    at += chunk.len() as u64;
                }
            }
            DiskRequest::Sync { .. } | DiskRequest::SyncDirectory => {}
            DiskRequest::Read { segment, offset, length } => {
                let file = &self.files[segment];
                let there = file.metadata()?.len().saturating_sub(*offset).min(*length);
                let mut bytes = vec![0; usize::try_from(there).map_err(io::Error::other)?];
                file.read_exact_at(&mut bytes, *offset)?;
                return Ok(DiskReply::Bytes(Bytes::from(bytes)));
            }
            DiskRequest::Remove { segment } => {
                self.files.remove(segment);
                std::fs::remove_file(self.directory.path().join(segment.to_string()))?;
            }
            DiskRequest::Rename { from, to } => {
                let path = |segment: &SegmentNumber| self.directory.path().join(segment.to_string());
                std::fs::rename(path(from), path(to))?;
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(*to, file);
                }
            }
            DiskRequest::FreeSpace => return Ok(DiskReply::FreeSpace(u64::MAX)),
        }
        Ok(DiskReply::Done)
    }
}
