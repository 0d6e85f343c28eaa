//! For salvage: a queue of whose entries some are lost.

use super::{Delivery, Queue, Stage};
use crate::ids::{MessageId, QueuePosition};

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
            let settled = Delivery::from_byte(0).expect("QoS 0");
            while chunk.end() < position {
                chunk.push(MessageId(0), settled, Stage::Settled);
            }
        }
        self.next = self.next.max(position);
        left_out
    }
}
