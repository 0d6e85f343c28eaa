//! For salvage: a queue of whose entries some are lost.

use super::{Chunk, Entry, Queue};
use crate::ids::QueuePosition;
use alloc::vec::Vec;

impl Queue {
    /// Leaves positions out, as if they had been settled, so that an entry can be put at this one; the first of those
    /// that nothing has told of.
    pub(crate) fn leave_out(&mut self, position: QueuePosition) -> Option<QueuePosition> {
        let mut left_out = (position > self.next).then_some(self.next);
        if let Ok(at) = self.chunk_at(position) {
            let chunk = &mut self.chunks[at];
            if chunk.end() < position {
                left_out = left_out.or(Some(chunk.end()));
                chunk.page.touch();
            }
            chunk.fill_to(position);
        }
        self.next = self.next.max(position);
        left_out
    }

    /// Puts entries back, all of one stretch and in their order, of which an image is lost; how many. What stands in
    /// the stretch already, or has been settled since, stays as it is.
    pub(crate) fn put_back(&mut self, entries: &[Entry]) -> u64 {
        let Some(first) = entries.first() else { return 0 };
        let before = self.chunk_at(first.position).ok().and_then(|at| self.chunks.remove(at));
        let known = before.as_ref().map_or(0..0, |chunk| chunk.first().0..chunk.end().0);
        let mut all: Vec<Entry> = entries.to_vec();
        all.retain(|entry| !known.contains(&entry.position.0));
        let added = all.len() as u64;
        all.extend(before.iter().flat_map(Chunk::iter));
        all.sort_unstable_by_key(|entry| entry.position);
        let start = all.first().map_or(first.position, |entry| entry.position);
        let mut chunk =
            Chunk::new(if known.is_empty() { start } else { start.min(QueuePosition(known.start)) });
        for entry in &all {
            chunk.fill_to(entry.position);
            chunk.push(entry.message, entry.delivery, entry.stage);
        }
        chunk.fill_to(QueuePosition(known.end));
        chunk.page.touch();
        self.live -= before.map_or(0, |chunk| chunk.live());
        self.restore_chunk(chunk);
        added
    }
}
