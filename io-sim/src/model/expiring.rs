//! Messages that expire: none is delivered that was certain to have expired before it was sent for the first time; what a
//! subscriber is told is left of its time is right; and what may have expired need not arrive any more.
//!
//! The broker counts from when it takes a message: some time between the first PUBLISH and its answer. So there is an
//! earliest and a latest moment, by the wall clock, at which the message expires.

use super::{Model, NEVER};
use crate::outcome::Checker;
use crate::payload::MessageKey;
use crate::tap::Message as Leaving;

impl Model {
    /// A message that is going to be sent expires so many seconds after the broker takes it.
    pub(crate) fn expires(&mut self, key: MessageKey, seconds: u32) {
        self.message_mut(key).expiry_s = Some(seconds);
    }

    /// Whether a message may have expired by now, so that nobody is owed it any more.
    pub(crate) fn message_may_have_expired(&self, key: MessageKey) -> bool {
        let sent = self.message(key).sent;
        self.expires_earliest(key).is_some_and(|at| sent <= self.now && self.wall.most(sent, self.now) >= at)
    }

    /// Whether a message without payload, which cannot say whose it is, may have expired by now.
    pub(crate) fn an_empty_message_may_have_expired(&self) -> bool {
        let all = self.messages.iter().enumerate();
        let mut keys = all.flat_map(|(publisher, messages)| {
            let empty = (0..messages.len()).filter(|at| messages[*at].length == 0);
            empty.map(move |at| MessageKey { publisher: publisher as u32, sequence: at as u32 })
        });
        keys.any(|key| self.message_may_have_expired(key))
    }

    /// A PUBLISH with QoS 1 or 2 leaves the broker for a client.
    pub(crate) fn message_leaves(&mut self, (client, of_mqtt_5): (usize, bool), leaving: &Leaving) {
        let Some(key) = leaving.key.filter(|key| self.is_known(*key)) else { return };
        if self.message(key).expiry_s.is_none() && leaving.expiry_s.is_none() {
            return;
        }
        // It was made when the broker was last heard of, or later.
        let since = self.unheard_since.unwrap_or(self.now);
        let (least, most) = (self.wall.least(since, self.now), self.wall.most(since, self.now));
        let (earliest, latest) = (self.expires_earliest(key), self.expires_latest(key));
        if !leaving.dup && latest.is_some_and(|latest| latest < least) {
            let text =
                format!("{key} leaves for client {client} for the first time, and it had expired before");
            self.fail(Checker::Expiry, format!("client {client} {key}"), text);
        }
        if !of_mqtt_5 {
            return;
        }
        let seconds = |until: i64, from: i64| ((until - from).max(0) + 999) / 1000;
        let told = leaving.expiry_s.map(i64::from);
        let given = self.message(key).expiry_s.map_or(0, i64::from);
        let right = match (told, earliest) {
            (None, None) => true,
            // Never more than its publisher said, though the clock was set back.
            (Some(told), Some(earliest)) => {
                told >= seconds(earliest, most).min(given)
                    && told <= given
                    && latest.is_none_or(|latest| told <= seconds(latest, least))
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !right {
            let published = self.message(key).expiry_s;
            let text = format!(
                "{key}, published to expire in {published:?} s, leaves for client {client} saying {told:?} s \
                 ([MQTT-3.3.2-6])"
            );
            self.fail(Checker::Expiry, format!("client {client} {key}"), text);
        }
    }

    fn is_known(&self, key: MessageKey) -> bool {
        let messages = self.messages.get(key.publisher as usize);
        messages
            .and_then(|all| all.get(key.sequence as usize))
            .is_some_and(|message| message.will_of.is_none())
    }

    /// The earliest wall clock time at which it expires.
    fn expires_earliest(&self, key: MessageKey) -> Option<i64> {
        let message = self.message(key);
        let expiry_ms = i64::from(message.expiry_s?) * 1000;
        let until = message.acked.min(self.now);
        (message.sent < NEVER).then(|| self.wall.least(message.sent.min(until), until) + expiry_ms)
    }

    /// The latest; none as long as the broker may not have taken it.
    fn expires_latest(&self, key: MessageKey) -> Option<i64> {
        let message = self.message(key);
        let expiry_ms = i64::from(message.expiry_s?) * 1000;
        (message.acked < NEVER).then(|| self.wall.most(message.sent, message.acked) + expiry_ms)
    }
}
