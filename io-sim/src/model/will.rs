//! Wills: published once when a connection ends without goodbye, never after a goodbye that is on the disk,
//! never while the connection is there. One with a delay: not before the delay is over by the wall clock or the session
//! has ended, and not at all if its client is back in its session before.

use super::Model;
use crate::outcome::Checker;
use crate::payload::MessageKey;
use crate::scenario::Asked;

/// After so long at the most a goodbye is on the disk, if the disk is as usual.
const GOODBYE_US: u64 = 2_000_000;

/// A connection that a client tried to open.
pub(super) struct Attempt {
    sent: u64,
    will: Option<MessageKey>,
    accepted: bool,
    goodbye: bool,
    over: bool,
    ended: Option<Ended>,
    /// Its session must have been gone when its CONNECT was written.
    found_expired: bool,
    /// Its session ends with it.
    ends: bool,
    /// Seconds for which it asked that its session stays, with MQTT 5.
    stays_s: Option<u32>,
    delay_ms: i64,
    /// The client was back before the delay was over.
    cancelled: bool,
    /// The delay was over before the client was back.
    due: bool,
}

/// A connection's end.
#[derive(Clone, Copy)]
struct Ended {
    at: u64,
    /// It may have ended since then, unheard of: the process had paused.
    since: u64,
    how: Ending,
}

/// How the broker saw a connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order: with DISCONNECT, if the client sent one.
    InOrder,
    /// Any other way.
    Abnormal,
}

impl Attempt {
    /// When its CONNECT was written.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// When the broker was told, or said, that its connection is over.
    pub(super) fn ended(&self) -> Option<u64> {
        self.ended.map(|ended| ended.at)
    }

    /// Seconds for which it asked that its session stays, with MQTT 5.
    pub(super) fn stays_s(&self) -> Option<u32> {
        self.stays_s
    }

    /// Whether its session must have been gone when its CONNECT was written.
    pub(super) fn found_expired(&self) -> bool {
        self.found_expired
    }
}

impl Model {
    /// A CONNECT was written; its will, if it has one, is a message of its own, with its delay in seconds. With MQTT 5 it
    /// asks that the session stays for so many seconds.
    pub(crate) fn connect_sent(
        &mut self,
        client: usize,
        will: Option<(MessageKey, u32)>,
        asked: Asked,
        stays_s: Option<u32>,
    ) {
        let now = self.now;
        let attempt = self.clients[client].attempts.len();
        if asked.ends() {
            self.session_may_end(client);
        }
        if let Some((key, _)) = will {
            let message = self.message_mut(key);
            (message.sent, message.sends, message.will_of) = (now, 1, Some(attempt));
            if message.retain {
                self.retained_tried(key);
            }
        }
        let found_expired = self.has_certainly_expired(client, attempt);
        self.note_will_due(client, attempt);
        self.stay_asked_for(client, asked, stays_s);
        let (accepted, goodbye, over, ended) = (false, false, false, None);
        let delay_ms = will.map_or(0, |(_, delay_s)| i64::from(delay_s) * 1000);
        let (cancelled, due) = (false, false);
        self.clients[client].attempts.push(Attempt {
            sent: now,
            will: will.map(|(key, _)| key),
            accepted,
            goodbye,
            over,
            ended,
            found_expired,
            ends: asked.ends(),
            stays_s,
            delay_ms,
            cancelled,
            due,
        });
    }

    /// A CONNECT is written: the will that its client left last has certainly been published, or not yet.
    fn note_will_due(&mut self, client: usize, attempt: usize) {
        let Some(last) = self.clients[client].presence.proven() else { return };
        let delay_ms = self.clients[client].attempts[last].delay_ms;
        let known = !self.clients[client].presence.was_back;
        if delay_ms > 0 && known && self.has_certainly_been_away(client, attempt, delay_ms) {
            self.clients[client].attempts[last].due = true;
        }
    }

    /// A client is back in its session: wills that it left with a delay that is not over are void. [MQTT-3.1.3-9]
    pub(super) fn cancel_delayed_wills(&mut self, client: usize, attempt: usize) {
        // Those of an earlier session were published when that ended.
        let attempts = &self.clients[client].attempts;
        let begun = attempts[..=attempt].iter().rposition(|attempt| attempt.ends);
        for number in begun.unwrap_or(0).max(self.clients[client].began).min(attempt)..attempt {
            let left = &self.clients[client].attempts[number];
            let Some(passed) = self.away_at_most_ms(left).filter(|_| left.delay_ms > 0) else { continue };
            if passed < left.delay_ms {
                self.clients[client].attempts[number].cancelled = true;
            }
        }
    }

    /// The will that a CONNECT left, if it left one.
    pub(crate) fn will_of(&self, client: usize, attempt: usize) -> Option<MessageKey> {
        self.clients[client].attempts.get(attempt).and_then(|attempt| attempt.will)
    }

    /// Its CONNACK came.
    pub(crate) fn connect_accepted(&mut self, client: usize, attempt: usize) {
        self.clients[client].attempts[attempt].accepted = true;
    }

    /// A DISCONNECT was written.
    pub(crate) fn goodbye_sent(&mut self, client: usize, attempt: usize) {
        self.clients[client].attempts[attempt].goodbye = true;
    }

    /// The broker closed the connection before it came to the DISCONNECT behind what it was closed for.
    pub(crate) fn goodbye_unheard(&mut self, client: usize, attempt: usize) {
        if let Some(attempt) = self.clients[client].attempts.get_mut(attempt) {
            attempt.goodbye = false;
        }
    }

    /// The client has no part in this connection any more.
    pub(crate) fn attempt_over(&mut self, client: usize, attempt: usize) {
        self.clients[client].attempts[attempt].over = true;
    }

    /// The broker was told, or said, that the connection is over.
    pub(crate) fn attempt_ended(&mut self, client: usize, attempt: usize, ending: Ending) {
        let ended = Ended { at: self.now, since: self.unheard_since.unwrap_or(self.now), how: ending };
        self.presence_ended(client, attempt);
        if let Some(attempt) = self.clients[client].attempts.get_mut(attempt) {
            attempt.ended.get_or_insert(ended);
        }
        let attempts = &self.clients[client].attempts;
        if attempts.get(attempt).is_some_and(|attempt| attempt.ends) {
            self.review_groups(true);
        }
    }

    /// A will was delivered.
    pub(super) fn will_delivered(&mut self, key: MessageKey) {
        let client = key.publisher as usize;
        let Some(number) = self.message(key).will_of else { return };
        let attempt = &self.clients[client].attempts[number];
        let subject = format!("client {client} connection {number}");
        if attempt.cancelled {
            let text = format!(
                "the will {key} of client {client} is published, and it was back before its delay was over"
            );
            return self.fail(Checker::Will, subject, text);
        }
        if self.is_too_early(client, number) {
            let text = format!("the will {key} of client {client} is published before its delay is over");
            return self.fail(Checker::Will, subject, text);
        }
        match attempt.ended.map(|ended| (ended.at, ended.how)) {
            None => {
                let text =
                    format!("the will {key} of client {client} is published while its connection is there");
                self.fail(Checker::Will, subject, text);
            }
            // Who came back before the goodbye arrived may have taken the connection over first.
            Some((at, Ending::InOrder))
                if attempt.goodbye
                    && !self.slow_disk
                    && self.clients[client].attempts.get(number + 1).is_none_or(|next| next.sent >= at) =>
            {
                let crashed = |crash: &u64| (at..at + GOODBYE_US).contains(crash);
                if !self.crashes.iter().any(crashed) {
                    let text =
                        format!("the will {key} of client {client} is published although it said goodbye");
                    self.fail(Checker::Will, subject, text);
                }
            }
            Some((_, Ending::InOrder | Ending::Abnormal)) => {}
        }
    }

    /// Milliseconds that the broker's clock may have shown to pass since the connection ended, at the most.
    fn away_at_most_ms(&self, attempt: &Attempt) -> Option<i64> {
        let Ended { at, since, .. } = attempt.ended?;
        Some(self.wall.most(at, self.now) - self.wall.least(since, self.now) + 1)
    }

    /// Whether the delay of a will cannot be over, nor its session have ended.
    fn is_too_early(&self, client: usize, number: usize) -> bool {
        let state = &self.clients[client];
        let attempt = &state.attempts[number];
        let Some(passed) = self.away_at_most_ms(attempt).filter(|_| attempt.delay_ms > 0) else {
            return false;
        };
        let begun_anew = state.began > number || state.attempts[number + 1..].iter().any(|later| later.ends);
        let expired = self.stays_at_least_ms(client).is_some_and(|least_ms| passed >= least_ms);
        passed < attempt.delay_ms && !begun_anew && !expired
    }

    /// Wills that must have reached somebody and have not.
    pub(super) fn missing_wills(&self) -> Vec<(usize, MessageKey)> {
        let mut missing = Vec::new();
        for client in &self.clients {
            for attempt in
                client.attempts.iter().filter(|attempt| attempt.accepted && attempt.over && !attempt.goodbye)
            {
                let Some(key) = attempt.will else { continue };
                let message = self.message(key);
                let waits = attempt.delay_ms > 0 && !attempt.due;
                if message.qos == 0 || self.bounded || waits || attempt.cancelled {
                    continue;
                }
                let receivers = (0..self.clients.len()).filter(|receiver| {
                    let granted = self.certainly_granted(*receiver, key, attempt.sent);
                    self.clients[*receiver].session_durable
                        && granted.is_some_and(|qos| qos > 0)
                        && self.record(*receiver, key).live == 0
                });
                missing.extend(receivers.map(|receiver| (receiver, key)));
            }
        }
        missing
    }
}
