//! What a client of MQTT 5 and the broker have agreed on for one connection: windows, sizes, topic aliases.

use super::packet::connack;
use super::packet::connect;
use crate::limits::Limits;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

/// The agreement.
pub struct Terms {
    /// Unacknowledged QoS 1 and 2 messages that the client takes at once. [MQTT-3.3.4-9]
    pub receive_maximum: usize,
    /// Bytes of the largest packet that it takes. [MQTT-3.1.2-24]
    pub maximum_packet_bytes: usize,
    /// Whether it wants reasons in words. [MQTT-3.1.2-29]
    pub wants_problem_information: bool,
    /// QoS 1 and 2 messages of the client that are not acknowledged to the end.
    pub unacknowledged: usize,
    /// The most that there may be of them: what CONNACK said, whatever the setting is since. [MQTT-3.3.4-7]
    pub unacknowledged_maximum: usize,
    /// What the client's aliases stand for. [MQTT-3.3.2-7]
    aliases_in: BTreeMap<u16, Arc<str>>,
    aliases_in_maximum: u16,
    /// The aliases that the broker has given to topics.
    aliases_out: BTreeMap<Arc<str>, u16>,
    aliases_out_maximum: u16,
}

impl Terms {
    /// What holds for a client that asks for this.
    pub fn new(asked: &connect::Terms<'_>, limits: &Limits) -> Terms {
        Terms {
            receive_maximum: asked.receive_maximum.into(),
            maximum_packet_bytes: usize::try_from(asked.maximum_packet_bytes).unwrap_or(usize::MAX),
            wants_problem_information: asked.wants_problem_information,
            unacknowledged: 0,
            unacknowledged_maximum: taken_at_once(limits).into(),
            aliases_in: BTreeMap::new(),
            aliases_in_maximum: aliases(limits),
            aliases_out: BTreeMap::new(),
            aliases_out_maximum: asked.topic_alias_maximum.min(aliases(limits)),
        }
    }

    /// Whether the client may use this alias. [MQTT-3.2.2-17]
    pub fn takes_alias(&self, alias: u16) -> bool {
        (1..=self.aliases_in_maximum).contains(&alias)
    }

    /// From now on the client's alias, one that it may use, stands for this topic.
    pub fn set_alias(&mut self, alias: u16, topic: &str) {
        self.aliases_in.insert(alias, topic.into());
    }

    /// What the client's alias stands for.
    pub fn topic_of(&self, alias: u16) -> Option<Arc<str>> {
        self.aliases_in.get(&alias).cloned()
    }

    /// The alias of a topic, and whether the client knows it already: the first topics of a connection get one, as
    /// long as there are any. [MQTT-3.1.2-26], [MQTT-3.1.2-27]
    pub fn alias_of(&mut self, topic: &str) -> Option<(u16, bool)> {
        if let Some(alias) = self.aliases_out.get(topic) {
            return Some((*alias, true));
        }
        let next = u16::try_from(self.aliases_out.len() + 1).ok()?;
        if next > self.aliases_out_maximum {
            return None;
        }
        self.aliases_out.insert(topic.into(), next);
        Some((next, false))
    }
}

fn aliases(limits: &Limits) -> u16 {
    u16::try_from(limits.topic_aliases).unwrap_or(u16::MAX)
}

fn taken_at_once(limits: &Limits) -> u16 {
    u16::try_from(limits.received_ids).unwrap_or(u16::MAX)
}

/// What CONNACK says of the broker's limits.
pub(super) fn of_broker(limits: &Limits) -> connack::Terms<'static> {
    let bytes = u32::try_from(limits.packet_bytes).unwrap_or(u32::MAX);
    connack::Terms {
        receive_maximum: taken_at_once(limits),
        maximum_packet_bytes: Some(bytes),
        topic_alias_maximum: aliases(limits),
        ..connack::Terms::default()
    }
}
