//! What is left of a damaged store: for `check`, which tells of it, and `salvage`, which copies it into a new one.
//!
//! ```text
//! walk: every file, every whole batch ─► rebuild: the best checkpoint, then every record that fits ─► bodies: are they
//! readable? ─► copy: a new store, made by a broker's own log, compaction and checkpoint
//! ```
//!
//! Recovery refuses what it cannot vouch for. This vouches for nothing but single records: each stood in a batch with a
//! right checksum. What a record tells is taken, what is missing is told. Three rules decide where that is not enough: a
//! message is taken only if its own checksum is right; what a later recovery gave up stays given up; where a settlement is
//! lost, the message comes again rather than not at all.
//!
//! It runs at a stretch, on a device that answers at once: no broker serves meanwhile.

mod copy;
mod loss;
mod owners;
mod pieces;
mod rebuild;
mod seem;
mod unlisted;
mod walk;

pub use copy::{Copied, CopyError};
pub use loss::Loss;
pub use pieces::Pieces;

use crate::broker::Broker;
use crate::durable::state::State;
use crate::ids::{Lsn, MessageId, Seed, SegmentNumber};
use crate::input::{DiskError, DiskReply};
use crate::output::DiskRequest;
use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use rebuild::Rebuild;
use walk::Walk;

/// A device that carries out an order at once.
pub type Device<'a> = &'a mut dyn FnMut(DiskRequest) -> Result<DiskReply, DiskError>;

/// What is left of a store.
pub struct Salvage {
    state: State,
    last: Lsn,
    /// What is missing, as far as it has been looked for.
    pub losses: Vec<Loss>,
    /// Segment files.
    pub segments: u64,
    /// Whole batches that count.
    pub batches: u64,
}

/// How much of it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Durable sessions.
    pub sessions: u64,
    /// Messages.
    pub messages: u64,
    /// Retained messages.
    pub retained: u64,
}

impl Salvage {
    /// Reads all that can be read. `seed` keys hash maps.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn read(device: Device<'_>, seed: Seed) -> Result<Salvage, DiskError> {
        let files: BTreeMap<SegmentNumber, u64> = match device(DiskRequest::List)? {
            DiskReply::Listing(listing) => listing.into_iter().collect(),
            DiskReply::Done | DiskReply::Bytes(_) | DiskReply::FreeSpace(_) => BTreeMap::new(),
        };
        let segments = files.len() as u64;
        let mut walk = Walk::through(device, files);
        let mut losses = core::mem::take(&mut walk.losses);
        let batches = walk.batches.len() as u64;
        let (state, last, more) = Rebuild::new(&walk, seed.hash_key()).run(device);
        losses.extend(more);
        Ok(Salvage { state, last, losses, segments, batches })
    }

    /// The state of a store that recovery has found whole, to look at its messages.
    pub fn of(broker: Broker) -> Salvage {
        let last = broker.durable();
        Salvage { state: broker.state, last, losses: Vec::new(), segments: 0, batches: 0 }
    }

    /// How much there is.
    pub fn found(&self) -> Found {
        Found {
            sessions: self.state.durable_session_count() as u64,
            messages: self.state.messages.len() as u64,
            retained: self.state.vhosts.iter().map(|vhost| vhost.retained.len() as u64).sum(),
        }
    }

    /// Reads every message that is referred to. What cannot be read is lost, for everybody who refers to it.
    pub fn read_messages(&mut self, device: Device<'_>) {
        let mut unreadable = BTreeSet::new();
        let mut pieces = Pieces::default();
        let mut from = Some(0);
        while let Some(next) = from {
            let (messages, then) = self.state.messages.next_on_disk(next);
            for (message, place) in messages {
                if let Err(error) = pieces.message(device, place) {
                    self.unreadable(message, place, error, &mut unreadable);
                }
            }
            from = then;
        }
        self.forget(&unreadable);
    }

    fn unreadable(
        &mut self,
        message: MessageId,
        place: super::place::Place,
        error: Cow<'static, str>,
        unreadable: &mut BTreeSet<MessageId>,
    ) {
        unreadable.insert(message);
        self.losses.push(Loss::Body { segment: place.segment, offset: place.offset, error });
    }

    fn forget(&mut self, unreadable: &BTreeSet<MessageId>) {
        if !unreadable.is_empty() {
            let lost = self.state.referrers(|message| unreadable.contains(&message));
            rebuild::forget(&mut self.state, lost, &mut self.losses);
        }
    }
}
