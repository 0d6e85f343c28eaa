//! Room: on the disk, in memory, in the log's buffer. Without it publishers are held; everybody else goes on.

use super::{Broker, Work};
use crate::durable::owner::Owner;
use crate::durable::record::ClientKey;
use crate::durable::state::DeclaredQueue;
use crate::event::Event;
use alloc::vec::Vec;

/// Bytes of records on their way to the disk, above which publishers are held.
const UNWRITTEN_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Sessions, and as many declared queues, looked at for the one that fills the memory.
const QUEUES_LOOKED_AT: usize = 100_000;

impl Broker {
    /// Whether what has to be recorded has to wait.
    pub(super) fn has_no_room_on_disk(&self) -> bool {
        self.log.is_full() || self.log.unwritten_bytes() > UNWRITTEN_BYTES_MAX
    }

    /// Whether what has to be kept has to wait.
    pub(super) fn has_no_room_in_memory(&self) -> bool {
        self.memory_full
    }

    /// Whether publishers are held.
    pub(crate) fn are_publishers_held(&self) -> bool {
        self.publishers_held
    }

    /// Notes when there is no room, or room again; then publishers go on.
    pub(super) fn check_room(&mut self) {
        self.state.messages.shrink_cache(self.settings.limits.cache_bytes);
        let bytes = self.state.held_bytes();
        let most = self.settings.limits.memory_bytes;
        if !self.memory_full && bytes >= most {
            self.memory_full = true;
            let largest = self.largest_queue();
            self.event(|| Event::MemoryFull { largest });
        } else if self.memory_full && bytes < most / 8 * 7 {
            self.memory_full = false;
            self.event(|| Event::MemoryHasRoom);
        }
        let held = self.has_no_room_on_disk() || self.has_no_room_in_memory();
        let before = core::mem::replace(&mut self.publishers_held, held);
        if before != held {
            self.tell_all_blocked(held);
        }
        if before && !held {
            let leaving = core::mem::take(&mut self.amqp.held_dead_letters);
            self.work.extend(leaving.into_iter().map(Work::Serve));
            self.work.extend(self.parked.iter().map(|&id| Work::Unpark(id)));
            let wills: Vec<_> = self.held_wills.iter().cloned().collect();
            wills.iter().for_each(|key| self.publish_will(key));
        }
    }

    /// Whose queue holds most bytes, with its messages; of so many as may be looked at at once.
    fn largest_queue(&self) -> Option<(Owner, u64)> {
        let state = &self.state;
        let declared = state.vhosts.iter().flat_map(|vhost| vhost.queues.values()).take(QUEUES_LOOKED_AT);
        let declared = declared.filter_map(|id| {
            let its = state.declared(*id)?;
            Some((state.message_bytes(*id), state.message_count(*id), Largest::Declared(its)))
        });
        let sessions = state.clients.iter().take(QUEUES_LOOKED_AT).filter_map(|(key, id)| {
            let queue = state.queue(state.session(*id)?.queue)?;
            Some((queue.bytes(), queue.len() as u64, Largest::Session(key)))
        });
        let largest = declared.chain(sessions).max_by_key(|(bytes, count, _)| (*bytes, *count));
        let (_, count, whose) = largest.filter(|(bytes, ..)| *bytes > 0)?;
        let owner = match whose {
            Largest::Session(key) => Owner::Session(key.clone()),
            Largest::Declared(declared) => state.owner_of_declared(declared),
        };
        Some((owner, count))
    }
}

/// Whose queue is the largest so far: only the winner's names are copied.
enum Largest<'a> {
    Session(&'a ClientKey),
    Declared(&'a DeclaredQueue),
}
