//! Wills: published once when a connection ends without goodbye, never after a goodbye that is on the disk,
//! never while the connection is there.

use super::Model;
use crate::outcome::Checker;
use crate::payload::MessageKey;

/// After so long at the most a goodbye is on the disk, if the disk is as usual.
const GOODBYE_US: u64 = 2_000_000;

/// A connection that a client tried to open.
pub(super) struct Attempt {
    sent: u64,
    will: Option<MessageKey>,
    accepted: bool,
    goodbye: bool,
    over: bool,
    ended: Option<(u64, Ending)>,
    /// Its session must have been gone when its CONNECT was written.
    found_expired: bool,
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
        self.ended.map(|(at, _)| at)
    }

    /// Whether its session must have been gone when its CONNECT was written.
    pub(super) fn found_expired(&self) -> bool {
        self.found_expired
    }
}

impl Model {
    /// A CONNECT was written; its will, if it has one, is a message of its own.
    pub(crate) fn connect_sent(&mut self, client: usize, will: Option<MessageKey>) {
        let now = self.now;
        let attempt = self.clients[client].attempts.len();
        if let Some(key) = will {
            let message = self.message_mut(key);
            (message.sent, message.sends, message.will_of) = (now, 1, Some(attempt));
            if message.retain {
                self.retained_tried(key);
            }
        }
        let found_expired = self.has_certainly_expired(client, attempt);
        let (accepted, goodbye, over, ended) = (false, false, false, None);
        let attempt = Attempt { sent: now, will, accepted, goodbye, over, ended, found_expired };
        self.clients[client].attempts.push(attempt);
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

    /// The client has no part in this connection any more.
    pub(crate) fn attempt_over(&mut self, client: usize, attempt: usize) {
        self.clients[client].attempts[attempt].over = true;
    }

    /// The broker was told, or said, that the connection is over.
    pub(crate) fn attempt_ended(&mut self, client: usize, attempt: usize, ending: Ending) {
        let now = self.now;
        self.presence_ended(client, attempt);
        if let Some(attempt) = self.clients[client].attempts.get_mut(attempt) {
            attempt.ended.get_or_insert((now, ending));
        }
    }

    /// A will was delivered.
    pub(super) fn will_delivered(&mut self, key: MessageKey) {
        let client = key.publisher as usize;
        let Some(number) = self.message(key).will_of else { return };
        let attempt = &self.clients[client].attempts[number];
        let subject = format!("client {client} connection {number}");
        match attempt.ended {
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

    /// Wills that must have reached somebody and have not.
    pub(super) fn missing_wills(&self) -> Vec<(usize, MessageKey)> {
        let mut missing = Vec::new();
        for client in &self.clients {
            for attempt in
                client.attempts.iter().filter(|attempt| attempt.accepted && attempt.over && !attempt.goodbye)
            {
                let Some(key) = attempt.will else { continue };
                let message = self.message(key);
                if message.qos == 0 || self.bounded {
                    continue;
                }
                let receivers = (0..self.clients.len()).filter(|receiver| {
                    let granted = self.certainly_granted(*receiver, message.topic, attempt.sent);
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
