//! Drops at the bounds of queues: what the disk and the acknowledgements say was dropped has been counted.

use super::Model;
use crate::outcome::Checker;
use crate::payload::MessageKey;

impl Model {
    /// The message left the client's queue because of its bound, and the disk says so.
    pub(crate) fn dropped(&mut self, key: MessageKey, client: &str) {
        if let Some(client) = self.ids.iter().position(|known| known == client) {
            self.clients[client].owed.remove(&key);
            self.message_mut(key).dropped |= 1 << client;
            self.drops_known += 1;
        }
    }

    /// Notes who should have the message in a bounded queue and has not: it was dropped itself, and must be counted.
    pub(super) fn note_passed_by(&mut self, key: MessageKey) {
        while let Some(client) = self.not_queued(key) {
            self.message_mut(key).dropped |= 1 << client;
            self.drops_known += 1;
        }
    }

    /// Drops at bounds that the broker counted in a life of its process.
    pub(crate) fn drops_counted(&mut self, count: u64) {
        self.drops_counted += count;
    }

    /// A process ended before it served: what it dropped was counted, and nobody saw it.
    pub(crate) fn drops_counted_unseen(&mut self) {
        self.drops_unseen = true;
    }

    /// The broker serves, and what is known of the disk is all that is there.
    pub(crate) fn serves(&mut self) {
        self.serving_since = self.now;
        self.asleep = false;
        if std::mem::take(&mut self.drops_unseen) {
            self.drops_counted = self.drops_counted.max(self.drops_known);
        }
    }

    /// The run is over: every drop that is known of must have been counted.
    pub(crate) fn check_drops(&mut self) {
        if self.drops_known > self.drops_counted {
            let (known, counted) = (self.drops_known, self.drops_counted);
            let text =
                format!("{known} messages were dropped at the bounds of queues, and {counted} were counted");
            self.fail(Checker::Drop, "broker", text);
        }
    }
}
