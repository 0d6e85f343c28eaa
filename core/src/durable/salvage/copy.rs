//! A new store from what is left of an old one. A broker that serves nobody writes it: each message is moved into its
//! log as compaction moves messages, and then it makes a checkpoint. Until that is complete the new store does not open.

use super::{Device, Pieces, Salvage};
use crate::broker::Broker;
use crate::durable::log::{Log, Opening};
use crate::durable::record::Record;
use crate::durable::segment::{self, SegmentHeader};
use crate::event::Event;
use crate::ids::{RecoveryCount, Seed, SegmentNumber};
use crate::input::{DiskError, Input};
use crate::limits::{Settings, SyncPolicy};
use crate::message::Message;
use crate::outbox::Outbox;
use crate::output::{DiskRequest, Output};
use crate::time::Now;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// Bytes that gather before they are written.
const GATHERED: usize = 1024 * 1024;

/// The only segment at the beginning.
const FIRST: SegmentNumber = SegmentNumber(1);

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Messages.
    pub messages: u64,
    /// Their bytes in the log.
    pub bytes: u64,
}

/// Why the new store was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// An operation failed.
    #[error("{0}")]
    Disk(String),
    /// There is no room for it.
    #[error("there is not enough room for the new store: {0}")]
    Full(String),
    /// A fault of this program.
    #[error("the new store was not completed: this is a fault of vowmq, please report it")]
    Stalled,
}

impl From<DiskError> for CopyError {
    fn from(error: DiskError) -> Self {
        CopyError::Disk(error.message)
    }
}

/// The broker that writes.
struct Writer<'a> {
    broker: Broker,
    device: Device<'a>,
    now: Now,
}

impl Salvage {
    /// Writes a new store to the empty directory of `new`, with what can be read from the directory of `old`. Of
    /// `settings` only the size of segments and what is kept free count. `losses` grows by what cannot be read.
    ///
    /// # Errors
    /// The new store cannot be written. What is there of it is of no use.
    pub fn copy(
        mut self,
        old: Device<'_>,
        new: Device<'_>,
        now: Now,
        settings: Settings,
        seed: Seed,
    ) -> Result<(Copied, Vec<super::Loss>), CopyError> {
        let opening = self.open(&mut *new, now, settings.segment_bytes, seed)?;
        self.state.forget_images();
        let state = core::mem::replace(&mut self.state, crate::durable::state::State::new(0));
        let mut settings = Settings { sync: SyncPolicy::Always, message_events: false, ..settings };
        settings.limits.checkpoint_bytes = 1;
        settings.limits.reserve_segments = 0;
        let log = Log::new(opening, settings.segment_bytes);
        let broker = Broker::recovered(now, settings, seed, state, log, Outbox::default());
        let mut writer = Writer { broker, device: new, now };
        let copied = self.move_messages(old, &mut writer)?;
        writer.complete()?;
        Ok((copied, self.losses))
    }

    /// The first segment, with a header that goes on where the old store ended: what is known of sessions and topics
    /// names records of that.
    fn open(
        &self,
        device: Device<'_>,
        now: Now,
        segment_bytes: u64,
        seed: Seed,
    ) -> Result<Opening, DiskError> {
        let (store, last, recovery_count) = (seed.store_id(), self.last, RecoveryCount(1));
        device(DiskRequest::Create { segment: FIRST })?;
        device(DiskRequest::Reserve { segment: FIRST, length: segment_bytes })?;
        let header = Bytes::from(segment::encode(&SegmentHeader {
            store,
            segment: FIRST,
            first: last.next(),
            previous: 0,
            recovery_count,
            synced: last,
            at: now.wall,
            reserved: segment_bytes,
            checkpoint: None,
        }));
        device(DiskRequest::Write { segment: FIRST, offset: 0, chunks: Vec::from([header]), sync: true })?;
        device(DiskRequest::SyncDirectory)?;
        let files = BTreeMap::from([(FIRST, segment_bytes)]);
        Ok(Opening { store, recovery_count, segment: FIRST, previous: 0, last, checkpoint: None, files })
    }

    fn move_messages(&mut self, old: Device<'_>, writer: &mut Writer<'_>) -> Result<Copied, CopyError> {
        let mut copied = Copied::default();
        let mut unreadable = BTreeSet::new();
        let mut pieces = Pieces::default();
        let mut from = Some(0);
        while let Some(next) = from {
            let (messages, then) = writer.broker.state.messages.next_on_disk(next);
            for (message, place) in messages {
                match pieces.message(old, place) {
                    Ok(content) => {
                        writer.add(Record::Relocated { message, content: Message::clone(&content) })?;
                        copied.messages += 1;
                        copied.bytes += u64::from(place.length);
                    }
                    Err(error) => self.unreadable(message, place, error, &mut unreadable),
                }
            }
            from = then;
        }
        writer.write()?;
        if !unreadable.is_empty() {
            let lost = writer.broker.state.referrers(|message| unreadable.contains(&message));
            super::rebuild::forget(&mut writer.broker.state, lost, &mut self.losses);
        }
        Ok(copied)
    }
}

impl Writer<'_> {
    fn add(&mut self, record: Record) -> Result<(), CopyError> {
        self.broker.commit(record);
        if self.broker.log.unwritten_bytes() >= GATHERED { self.write() } else { Ok(()) }
    }

    /// Until all that was added is on disk.
    fn write(&mut self) -> Result<(), CopyError> {
        while !self.broker.is_durable() {
            let last = self.broker.log.last();
            self.broker.log.want(last);
            self.turn()?;
        }
        Ok(())
    }

    /// The checkpoint with which the store opens.
    fn complete(&mut self) -> Result<(), CopyError> {
        // A checkpoint follows what has been written.
        self.add(Record::Listing(Vec::new()))?;
        self.write()?;
        self.broker.enable_upkeep();
        while self.broker.log.named_checkpoint().is_none() {
            self.turn()?;
        }
        Ok(())
    }

    /// What is due, and all the orders that come of it.
    fn turn(&mut self) -> Result<(), CopyError> {
        let due = self.broker.next_deadline().is_some_and(|deadline| deadline.at <= self.now.monotonic);
        if self.broker.log.is_stuck() {
            return Err(CopyError::Full("the disk is full".into()));
        }
        if !due {
            return Err(CopyError::Stalled);
        }
        self.broker.handle(self.now, Input::DeadlineReached);
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Disk { op, request } => {
                    let result = (self.device)(request);
                    self.broker.handle(self.now, Input::DiskDone { op, result });
                }
                Output::Report(Event::DiskFull { why }) => return Err(CopyError::Full(why)),
                Output::Halt { fault } => return Err(CopyError::Disk(alloc::format!("{fault}"))),
                _ => {}
            }
        }
        Ok(())
    }
}
