//! What a client of MQTT 5 asks for.

use super::ClientProgram;
use crate::codec::{Options, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a client says of itself in MQTT 5, beside what clients of both versions say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mqtt5 {
    /// Seconds that its session outlives its connection, unless it is clean; 4,294,967,295 means for ever. With 0 it ends
    /// with the connection as a clean one does, though nobody asks to begin it anew.
    pub session_expiry_s: u32,
    /// QoS 1 and 2 messages that it takes before it has acknowledged one to the end.
    pub receive_maximum: u16,
    /// Topic aliases that it takes of the broker.
    pub topic_alias_maximum: u16,
    /// Topic aliases that it uses itself, as far as the broker takes them.
    pub aliases: u16,
    /// The largest packet that it takes, in bytes; 0 means any.
    pub maximum_packet_bytes: u32,
    /// Whether each of its subscriptions carries an identifier of its own. It asks for one subscription at a time then.
    pub identifiers: bool,
    /// Whether its subscriptions, shared ones aside, do not bring what it publishes itself.
    pub no_local: bool,
    /// Whether they bring RETAIN as it was published. Retained messages could not be told from others then:
    /// `retain_handling` has to be 2.
    pub retain_as_published: bool,
    /// When they bring retained messages: 0 always, 1 if they are new, 2 never.
    pub retain_handling: u8,
}

impl Default for Mqtt5 {
    fn default() -> Self {
        Mqtt5 {
            session_expiry_s: u32::MAX,
            receive_maximum: u16::MAX,
            topic_alias_maximum: 0,
            aliases: 0,
            maximum_packet_bytes: 0,
            identifiers: false,
            no_local: false,
            retain_as_published: false,
            retain_handling: 0,
        }
    }
}

/// The least that a client of a simulation takes: answers of the broker, with what they say of it, are not larger.
const PACKET_BYTES_MIN: u32 = 200;

impl Mqtt5 {
    /// The rule that it breaks, if it breaks one.
    fn broken_rule(&self) -> Option<String> {
        if self.receive_maximum == 0 {
            Some("receive_maximum is at least 1 ([MQTT-3.1.2-26])".to_owned())
        } else if self.retain_handling > 2 {
            Some("retain_handling is 0, 1 or 2 (MQTT 5 §3.8.3.1)".to_owned())
        } else if self.retain_as_published && self.retain_handling != 2 {
            Some("retain_as_published needs retain_handling = 2 in a simulation".to_owned())
        } else if (1..PACKET_BYTES_MIN).contains(&self.maximum_packet_bytes) {
            Some(format!("maximum_packet_bytes is 0 or at least {PACKET_BYTES_MIN} in a simulation"))
        } else {
            None
        }
    }

    /// The options of its subscription to this filter.
    pub(crate) fn options(&self, filter: &str) -> Options {
        let shared = super::shared_filter(filter).is_some();
        Options {
            no_local: self.is_deaf_to_itself(filter),
            retain_as_published: self.retain_as_published && !shared,
            retain_handling: self.retain_handling,
        }
    }

    /// Whether a subscription to this filter does not bring what its client publishes itself. [MQTT-3.8.3-4]: never a
    /// shared one.
    pub(crate) fn is_deaf_to_itself(&self, filter: &str) -> bool {
        self.no_local && super::shared_filter(filter).is_none()
    }
}

/// What a CONNECT asks of its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// To begin anew and to end with the connection.
    Clean,
    /// To go on, if it is there, and to end with the connection: Session Expiry Interval 0 without Clean Start.
    Last,
    /// To go on, and to stay.
    Kept,
}

impl Asked {
    /// Whether the session ends with the connection.
    pub(crate) fn ends(self) -> bool {
        self != Asked::Kept
    }
}

/// The filters of a client whose subscriptions have identifiers, at the most: rumqttc reads no more of them in one message.
const IDENTIFIED_MAX: usize = 5;

impl ClientProgram {
    /// The rule that it breaks as a client of MQTT 5, if it breaks one.
    pub(super) fn broken_rule(&self) -> Option<String> {
        let asks = self.mqtt5.as_ref()?;
        if asks.identifiers && self.has_many_filters() {
            return Some(format!("with identifiers it subscribes to {IDENTIFIED_MAX} filters at the most"));
        }
        asks.broken_rule()
    }

    /// Gives its subscriptions no identifiers, if they are too many for that.
    pub(crate) fn drop_identifiers_of_many(&mut self) {
        let many = self.has_many_filters();
        if let Some(asks) = &mut self.mqtt5 {
            asks.identifiers &= !many;
        }
    }

    fn has_many_filters(&self) -> bool {
        self.filters().collect::<BTreeSet<&str>>().len() > IDENTIFIED_MAX
    }

    /// The version that it speaks.
    pub(crate) fn version(&self) -> Version {
        if self.mqtt5.is_some() { Version::V5 } else { Version::V3 }
    }
}
