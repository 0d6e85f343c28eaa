//! What a client of MQTT 5 asks for.

use super::ClientProgram;
use crate::codec::Version;
use serde::{Deserialize, Serialize};

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
}

impl Default for Mqtt5 {
    fn default() -> Self {
        Mqtt5 { session_expiry_s: u32::MAX, receive_maximum: u16::MAX, topic_alias_maximum: 0, aliases: 0 }
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

impl ClientProgram {
    /// The version that it speaks.
    pub(crate) fn version(&self) -> Version {
        if self.mqtt5.is_some() { Version::V5 } else { Version::V3 }
    }
}
