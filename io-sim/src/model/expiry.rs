//! How long sessions stay whose client is away: by the settings for clients of MQTT 3.1.1, by what the client asked for with
//! MQTT 5. A session that has certainly expired must be gone.
//!
//! ```text
//!            DISCONNECT or break          recorded, synced                       CONNECT
//!  ──────────────┬──────────────────────────────┬──────────────────────────────────┬────
//!                └─ the clock of the broker began in between: at the latest with the most that it showed there
//! ```
//!
//! The ledger tells from when on a client counts as away. What a later process makes of it has to begin there too, unless
//! the records say that the client had come back.

use super::{Model, NEVER};
use crate::outcome::Checker;
use crate::scenario::{Asked, Scenario};

/// The broker has looked at its clock so long after anything that kept it from that.
const AWAKE_US: u64 = 20_000;
const AWAKE_MS: i64 = 20;

/// What the settings of a scenario say.
pub(super) struct Expiry {
    /// Milliseconds by the shortest setting; 0 means never.
    least_ms: i64,
    /// By the longest; none where some settings have none.
    most_ms: Option<i64>,
    /// Whether the settings in force have one.
    pub(super) in_force: bool,
}

/// How long a session of MQTT 5 stays, in milliseconds; none means for ever. Both are possible, and what is between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stay {
    least_ms: Option<i64>,
    most_ms: Option<i64>,
}

/// A client that is away, as the records on the disk say.
#[derive(Clone, Copy)]
pub(super) struct Away {
    /// The latest wall clock time at which that may have begun.
    latest_ms: i64,
    /// The last attempt that was connected for certain.
    proven: Option<usize>,
}

impl Expiry {
    pub(super) fn by_settings(scenario: &Scenario) -> Expiry {
        let all: Vec<i64> =
            scenario.all_settings().map(|settings| settings.limits.session_expiry_ms as i64).collect();
        let least = all.iter().filter(|expiry_ms| **expiry_ms > 0).min();
        Expiry {
            least_ms: least.copied().unwrap_or(0),
            most_ms: if all.contains(&0) { None } else { all.iter().max().copied() },
            in_force: false,
        }
    }
}

impl Stay {
    /// What a client asks for with CONNECT, in seconds.
    pub(super) fn asked(seconds: Option<u32>) -> Stay {
        Stay::exactly(seconds.unwrap_or(u32::MAX))
    }

    fn exactly(seconds: u32) -> Stay {
        let ms = (seconds < u32::MAX).then_some(i64::from(seconds) * 1000);
        Stay { least_ms: ms, most_ms: ms }
    }

    /// It may have been changed.
    fn or(self, seconds: u32) -> Stay {
        let other = Stay::exactly(seconds);
        let least_ms = match (self.least_ms, other.least_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        };
        Stay { least_ms, most_ms: self.most_ms.zip(other.most_ms).map(|(a, b)| a.max(b)) }
    }
}

impl Model {
    /// The least milliseconds after which the client's session may be gone when it is away; none: never.
    pub(super) fn stays_at_least_ms(&self, client: usize) -> Option<i64> {
        match self.clients[client].asks {
            Some(_) => self.clients[client].stays.least_ms,
            None => Some(self.expiry.least_ms).filter(|ms| *ms > 0),
        }
    }

    /// Whether a CONNACK does not have to wait until the expiry has stopped, by some settings.
    pub(super) fn expiry_may_be_off(&self, client: usize) -> bool {
        self.clients[client].asks.is_none() && self.expiry.most_ms.is_none()
    }

    /// Whether the session of this client, when it is away, expires, whatever settings were in force.
    pub(crate) fn session_expires(&self, client: usize) -> bool {
        match self.clients[client].asks {
            Some(_) => self.clients[client].stays.most_ms.is_some(),
            None => self.expiry.in_force && self.expiry.most_ms.is_some(),
        }
    }

    /// Seconds that the records must say that the client's session stays, if it is of MQTT 5.
    pub(crate) fn asked_to_stay_s(&self, client: usize, attempt: usize) -> Option<u32> {
        self.clients[client].attempts.get(attempt).and_then(|attempt| attempt.stays_s())
    }

    /// A CONNECT was written that asks the session to stay so long.
    pub(super) fn stay_asked_for(&mut self, client: usize, asked: Asked, seconds: Option<u32>) {
        if let Some(seconds) = seconds.filter(|_| asked != Asked::Clean) {
            self.clients[client].stays = self.clients[client].stays.or(seconds);
        }
    }

    /// The CONNACK of this attempt has left: what it asked for holds.
    pub(super) fn stays_as_asked(&mut self, client: usize, attempt: usize) {
        self.clients[client].stays = Stay::asked(self.asked_to_stay_s(client, attempt));
    }

    /// A DISCONNECT was written that changes how long the session stays.
    pub(crate) fn stay_changed(&mut self, client: usize, seconds: u32) {
        self.clients[client].stays = self.clients[client].stays.or(seconds);
        if seconds == 0 {
            // It ends now, if the DISCONNECT comes through.
            let state = &mut self.clients[client];
            state.maybe_absent = true;
            state.owed.clear();
            state.retained_owed.clear();
            state.subscriptions.iter_mut().for_each(super::Subscription::doubt);
            self.review_groups(true);
        }
    }

    /// Something kept the broker from looking at its clock until then.
    pub(crate) fn sleeps_until(&mut self, until: u64) {
        self.awake_since = self.awake_since.max(until);
    }

    /// The broker is told the time.
    pub(crate) fn stirs(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.sleeps_until(self.now);
        }
    }

    /// By the records on the disk, the client is there, or away, or its session gone.
    pub(crate) fn recorded(&mut self, client: &str, away: bool) {
        let Some(client) = self.ids.iter().position(|known| known == client) else { return };
        let proven = self.clients[client].presence.proven();
        let ended = proven.and_then(|attempt| self.clients[client].attempts[attempt].ended());
        let presence = &mut self.clients[client].presence;
        if !away {
            presence.away = None;
            // It was back on a connection that it never heard of, and has left another will perhaps.
            presence.was_back |= ended.is_some();
        } else if presence.away.is_none() {
            // Where that is recorded again, the clock does not begin again.
            presence.away = ended.map(|ended| Away { latest_ms: self.wall.most(ended, self.now), proven });
        }
    }

    /// Whether the session must be gone for a CONNECT that is sent now, the `attempt`-th.
    pub(super) fn has_certainly_expired(&self, client: usize, attempt: usize) -> bool {
        let state = &self.clients[client];
        let most_ms = match state.asks {
            Some(_) => state.stays.most_ms,
            None => self.expiry.most_ms,
        };
        most_ms.is_some_and(|most_ms| self.has_certainly_been_away(client, attempt, most_ms))
    }

    /// Whether the broker must have noticed, before a CONNECT that is sent now, that the client has been away for so long.
    pub(super) fn has_certainly_been_away(&self, client: usize, attempt: usize, for_ms: i64) -> bool {
        let state = &self.clients[client];
        let Some(away) = state.presence.away else { return false };
        let serving = self.serving_since;
        // Another CONNECT that may have arrived has begun its time anew.
        let between = away.proven.map_or(0, |proven| proven + 1)..attempt;
        let alone = state.attempts[between].iter().all(|other| other.sent() < serving);
        let awake = !self.asleep && self.now >= self.awake_since.max(serving).saturating_add(AWAKE_US);
        serving < NEVER
            && alone
            && awake
            && self.wall.now(self.now) - AWAKE_MS >= away.latest_ms.saturating_add(for_ms)
    }

    /// A session that must be gone is said to be present.
    pub(super) fn found_too_late(&mut self, client: usize) {
        let text = format!("client {client} is told that its session is there, and it had expired before");
        self.fail(Checker::SessionPresent, format!("client {client}"), text);
    }
}
