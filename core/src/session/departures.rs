//! What was lately taken away of clients: their sessions, their wills. An answer that says "there is none" waits
//! for the record that made it so, and only for that one: a clean session never waits for somebody else's.

use crate::durable::record::ClientKey;
use crate::ids::Lsn;
use alloc::collections::BTreeMap;

/// Entries from which on those that are durable are forgotten.
const FORGET_FROM: usize = 1024;

/// The last record that took something away, by client, as long as it may not be durable.
#[derive(Default)]
pub struct Departures {
    by_client: BTreeMap<ClientKey, Lsn>,
    forget_from: usize,
}

impl Departures {
    /// `lsn` took something of the client's away.
    pub fn note(&mut self, key: &ClientKey, lsn: Lsn, durable: Lsn) {
        if lsn <= durable {
            return;
        }
        self.by_client.insert(key.clone(), lsn);
        if self.by_client.len() >= self.forget_from.max(FORGET_FROM) {
            self.by_client.retain(|_, lsn| *lsn > durable);
            self.forget_from = 2 * self.by_client.len();
        }
    }

    /// What an answer to the client has to wait for.
    pub fn of(&self, key: &ClientKey) -> Lsn {
        self.by_client.get(key).copied().unwrap_or(Lsn::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn what_is_durable_is_forgotten_and_nothing_else() {
        // Broken: the list grows with every client that ever left; or an answer leaves before its record.
        let mut departures = Departures::default();
        let key = |n: u64| ClientKey { vhost: "/".into(), client: format!("client {n}").into() };
        (1..=10_000).for_each(|n| departures.note(&key(n), Lsn(n), Lsn(n.saturating_sub(100))));
        assert!(departures.by_client.len() <= FORGET_FROM);
        (9901..=10_000).for_each(|n| assert_eq!(departures.of(&key(n)), Lsn(n)));
        assert_eq!(departures.of(&key(1)), Lsn::NONE);
    }
}
