//! When a session may have expired: by the broker's wall clock, so long after its client was last connected for
//! certain.
//!
//! A client is connected from the moment its CONNACK leaves, even if the power goes at once, until the broker hears
//! or says that the connection is over. Its clock may start at any later moment (after a crash it starts at
//! recovery), and the wall clock may jump: so what counts is the least that it has shown since.

use super::Model;
use super::expiry::Away;
use super::subscription::Subscription;

/// How late the end of a connection may be heard of.
const DRAIN_MS: i64 = 1;

/// A client as far as expiry goes.
#[derive(Default)]
pub(super) struct Presence {
    /// The attempt that is connected for certain.
    connected: Option<usize>,
    /// The last one that was.
    proven: Option<usize>,
    /// The least that the wall clock has shown since then.
    least_ms: i64,
    /// Some time since then it showed so much more that the session may have expired.
    expired: bool,
    /// The CONNACK that left last may rightly say that there was no session.
    pub(super) absence_explained: bool,
    /// The session at hand may be another one than the client knows.
    pub(super) in_doubt: bool,
    /// Since when it is away, as the records on the disk say.
    pub(super) away: Option<Away>,
    /// By the records on the disk it has been back since, on a connection that is not known to have been accepted.
    pub(super) was_back: bool,
}

impl Presence {
    /// The attempt that is connected for certain.
    pub(super) fn connected(&self) -> Option<usize> {
        self.connected
    }

    /// The last attempt that was connected for certain.
    pub(super) fn proven(&self) -> Option<usize> {
        self.proven
    }
}

impl Model {
    /// The wall clock jumps.
    pub(crate) fn wall_jumps(&mut self, by_ms: i64) {
        self.note_wall();
        self.wall.jump(self.now, by_ms);
        self.asleep = true;
        self.note_wall();
        self.unheard_since_ms = self.unheard_since_ms.map(|since| since.min(self.wall_ms()));
    }

    /// From now on the broker does what nobody hears of.
    pub(crate) fn unheard(&mut self) {
        let wall_ms = self.wall_ms();
        self.unheard_since_ms.get_or_insert(wall_ms);
        self.unheard_since.get_or_insert(self.now);
    }

    /// All that the broker did has been heard of.
    pub(crate) fn heard(&mut self) {
        self.unheard_since_ms = None;
        self.unheard_since = None;
    }

    /// A CONNACK that accepts leaves the broker.
    pub(crate) fn connack_leaves(&mut self, client: usize, attempt: usize, present: bool) {
        let explained = self.may_have_expired(client);
        if present && self.clients[client].attempts[attempt].found_expired() {
            self.found_too_late(client);
        }
        if !present {
            self.clients[client].began = attempt;
        } else if !explained {
            self.cancel_delayed_wills(client, attempt);
        }
        self.stays_as_asked(client, attempt);
        let presence = &mut self.clients[client].presence;
        let only_attempt = presence.proven.is_some_and(|proven| attempt == proven + 1);
        *presence = Presence {
            connected: Some(attempt),
            proven: Some(attempt),
            least_ms: i64::MAX,
            expired: false,
            absence_explained: explained,
            in_doubt: presence.in_doubt,
            away: presence.away,
            was_back: false,
        };
        // A CONNECT whose answer never came may have begun another session since.
        if explained && !(present && only_attempt) {
            self.session_in_doubt(client);
        }
    }

    /// Whether the session at hand may be another one than the client knows.
    pub(crate) fn is_in_doubt(&self, client: usize) -> bool {
        self.clients[client].presence.in_doubt
    }

    /// A connection is over at the broker.
    pub(super) fn presence_ended(&mut self, client: usize, attempt: usize) {
        // It is heard of later than it was: the wall clock may have jumped in between, or the process have paused.
        let wall_ms = self.wall_ms().min(self.unheard_since_ms.unwrap_or(i64::MAX));
        let presence = &mut self.clients[client].presence;
        if presence.connected == Some(attempt) {
            presence.connected = None;
            presence.least_ms = wall_ms;
        }
    }

    /// Whether the client's session may have expired.
    pub(super) fn may_have_expired(&self, client: usize) -> bool {
        let presence = &self.clients[client].presence;
        let away = presence.connected.is_none() && presence.proven.is_some();
        let Some(least_ms) = self.stays_at_least_ms(client) else { return false };
        // A CONNACK under settings without expiry does not wait until the expiry has stopped.
        let passed = presence.expired
            || self.expiry_may_be_off(client)
            || self.has_passed(presence.least_ms, least_ms);
        away && passed
    }

    fn note_wall(&mut self) {
        let wall_ms = self.wall_ms();
        for client in 0..self.clients.len() {
            let expired = self.may_have_expired(client);
            let presence = &mut self.clients[client].presence;
            presence.expired |= expired;
            presence.least_ms = presence.least_ms.min(wall_ms);
        }
    }

    fn has_passed(&self, since_ms: i64, least_ms: i64) -> bool {
        // What the broker does may be heard of up to a drain later.
        self.wall_ms().saturating_sub(since_ms) + DRAIN_MS >= least_ms
    }

    fn wall_ms(&self) -> i64 {
        self.wall.now(self.now)
    }

    fn session_in_doubt(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.presence.in_doubt = true;
        state.owed.clear();
        state.retained_owed.clear();
        state.subscriptions.iter_mut().for_each(Subscription::doubt);
        self.review_groups(true);
    }
}
