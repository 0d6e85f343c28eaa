//! Opening the segment in which a recovered log goes on: the one that was prepared, one that is not needed any more, or
//! a new one. It is above every file present.

use super::{Open, Recovered, Recovery, Refusal, Step};
use crate::durable::log::Opening;
use crate::durable::segment::{self, SegmentHeader};
use crate::ids::SegmentNumber;
use crate::input::{DiskError, DiskReply};
use crate::marks::reached;
use crate::output::DiskRequest;
use crate::time::Now;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;

impl Recovery {
    /// Segments that the checkpoint does not need, and those that were never written to under their numbers.
    pub(super) fn unneeded(&self) -> impl Iterator<Item = SegmentNumber> {
        let checkpoint = self.restored.as_ref().and_then(|restored| restored.checkpoint.as_ref());
        let files = self.files.iter().filter(move |file| {
            let gone = checkpoint.is_some_and(|checkpoint| {
                file.segment < checkpoint.begin.segment && !checkpoint.needed.contains(&file.segment)
            });
            !file.blank && (gone || file.unwritten)
        });
        files.map(|file| file.segment)
    }

    /// A restart needs no space as long as there is a segment that is not needed.
    pub(super) fn use_again(&mut self, from: SegmentNumber, mut opening: Opening) -> Step {
        reached!("leftover segment");
        opening.files.remove(&from);
        self.files.retain(|file| file.segment != from);
        self.outbox.disk(DiskRequest::Rename { from, to: opening.segment });
        Step::Open(opening, Open::Rename)
    }

    /// The segment that was prepared and never written to, if it is above all others: it serves as the new one, so
    /// that a restart needs no space.
    pub(super) fn prepared_segment(&mut self) -> Option<SegmentNumber> {
        let bytes = self.settings.segment_bytes;
        let file = self.files.last_mut().filter(|file| file.blank && file.length == bytes)?;
        (file.blank, file.unwritten) = (false, false);
        reached!("prepared segment used");
        Some(file.segment)
    }

    pub(super) fn write_header(&mut self, now: Now, opening: Opening) -> Step {
        let sector = Bytes::from(segment::encode(&SegmentHeader {
            store: opening.store,
            segment: opening.segment,
            first: opening.last.next(),
            previous: opening.previous,
            recovery_count: opening.recovery_count,
            synced: opening.last,
            at: now.wall,
            reserved: self.settings.segment_bytes,
            checkpoint: opening.checkpoint,
        }));
        let (segment, chunks) = (opening.segment, Vec::from([sector]));
        self.outbox.disk(DiskRequest::Write { segment, offset: 0, chunks, sync: true });
        Step::Open(opening, Open::Header)
    }

    pub(super) fn looked(&mut self, now: Now, opening: Opening) -> Step {
        let broker = self.make_broker(now, opening);
        self.describe(&broker);
        Step::Done(Box::new(Ok(Recovered { broker, report: self.report.clone() })))
    }

    pub(super) fn opened(
        &mut self,
        now: Now,
        opening: Opening,
        open: Open,
        result: Result<DiskReply, DiskError>,
    ) -> Result<Step, Refusal> {
        let segment = opening.segment;
        let failed = |error| Refusal::DiskFailed { doing: "opening a new log segment", error };
        if let Err(error) = result {
            return match open {
                Open::Reserve => {
                    // Else every attempt would leave a file behind, and take what little space there is.
                    self.outbox.disk(DiskRequest::Remove { segment });
                    Ok(Step::Open(opening, Open::GivenBack(error.message)))
                }
                Open::GivenBack(before) => Err(failed(before)),
                _ => Err(failed(error.message)),
            };
        }
        let next = match open {
            Open::Create => {
                self.outbox.disk(DiskRequest::Reserve { segment, length: self.settings.segment_bytes });
                Open::Reserve
            }
            // A name is durable before anything is written under it: else the header could stay when the name is undone,
            // and tell of another log once the file has that name again.
            Open::Rename => {
                self.outbox.disk(DiskRequest::SyncDirectory);
                Open::Named
            }
            Open::GivenBack(error) => return Err(failed(error)),
            Open::Reserve | Open::Named => return Ok(self.write_header(now, opening)),
            Open::Header => {
                self.outbox.disk(DiskRequest::SyncDirectory);
                Open::Directory
            }
            Open::Directory => return Ok(self.remove_unused(now, opening)),
            Open::Remove(mut unused) => match unused.pop_front() {
                Some(segment) => {
                    self.outbox.disk(DiskRequest::Remove { segment });
                    Open::Remove(unused)
                }
                None => {
                    self.outbox.disk(DiskRequest::SyncDirectory);
                    Open::RemovalDirectory
                }
            },
            Open::RemovalDirectory => return Ok(self.begin_settling(now, opening)),
        };
        Ok(Step::Open(opening, next))
    }

    /// Segments that were prepared and never written to give their space back. The new segment is durable by now
    /// and numbered above them, so nothing depends on whether their entries come back in a power cut.
    pub(super) fn remove_unused(&mut self, now: Now, opening: Opening) -> Step {
        let mut unused: VecDeque<_> =
            self.files.iter().filter(|file| file.blank).map(|file| file.segment).collect();
        match unused.pop_front() {
            Some(segment) => {
                reached!("unused segment removed");
                self.outbox.disk(DiskRequest::Remove { segment });
                Step::Open(opening, Open::Remove(unused))
            }
            None => self.begin_settling(now, opening),
        }
    }
}
