//! What holds between a client of MQTT 5 and the broker on one connection: how many messages the broker takes at once, and
//! what aliases stand for. With MQTT 3.1.1 nothing of it does.

use crate::codec::{Publish, Terms};
use std::collections::BTreeMap;

/// An agreement, from CONNACK to the end of the connection.
pub(super) struct Agreement {
    /// QoS 1 and 2 messages that the broker takes before it has acknowledged one to the end.
    pub(super) broker_takes: usize,
    /// Aliases that the client uses for topics.
    used_maximum: usize,
    /// What each of its aliases stands for, counted from alias 1.
    used: Vec<String>,
    /// The alias that is given to another topic next, when there is none left.
    oldest: usize,
    /// Aliases that the client takes.
    taken_maximum: u16,
    taken: BTreeMap<u16, String>,
}

impl Agreement {
    /// One that allows everything and knows no alias.
    pub(super) fn none() -> Agreement {
        Agreement {
            broker_takes: usize::MAX,
            used_maximum: 0,
            used: Vec::new(),
            oldest: 0,
            taken_maximum: 0,
            taken: BTreeMap::new(),
        }
    }

    /// What the broker says of itself, to a client that wants to use and takes so many aliases.
    pub(super) fn new(broker: Terms, uses: u16, takes: u16) -> Agreement {
        Agreement {
            broker_takes: broker.receive_maximum.unwrap_or(u16::MAX).into(),
            used_maximum: uses.min(broker.topic_alias_maximum.unwrap_or(0)).into(),
            taken_maximum: takes,
            ..Agreement::none()
        }
    }

    /// Puts an alias in the place of the topic, or beside it where the broker does not know it yet.
    pub(super) fn shorten(&mut self, publish: &mut Publish) {
        if self.used_maximum == 0 {
            return;
        }
        if let Some(known) = self.used.iter().position(|topic| *topic == publish.topic) {
            publish.alias = Some(known as u16 + 1);
            publish.topic.clear();
        } else if self.used.len() < self.used_maximum {
            self.used.push(publish.topic.clone());
            publish.alias = Some(self.used.len() as u16);
        } else {
            let place = self.oldest % self.used_maximum;
            self.oldest += 1;
            self.used[place] = publish.topic.clone();
            publish.alias = Some(place as u16 + 1);
        }
    }

    /// Puts the topic in the place of the broker's alias.
    ///
    /// # Errors
    /// The rule that the broker breaks by it.
    pub(super) fn resolve(&mut self, publish: &mut Publish) -> Result<(), String> {
        let Some(alias) = publish.alias else {
            let named = !publish.topic.is_empty();
            return if named { Ok(()) } else { Err("a message without topic and alias".to_owned()) };
        };
        if !(1..=self.taken_maximum).contains(&alias) {
            let most = self.taken_maximum;
            return Err(format!("alias {alias}; it takes {most} ([MQTT-3.1.2-26], [MQTT-3.1.2-27])"));
        }
        if !publish.topic.is_empty() {
            self.taken.insert(alias, publish.topic.clone());
            return Ok(());
        }
        let Some(topic) = self.taken.get(&alias) else {
            return Err(format!(
                "alias {alias}, which stands for nothing on this connection ([MQTT-3.3.2-7])"
            ));
        };
        publish.topic.clone_from(topic);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn to(topic: &str) -> Publish {
        Publish {
            topic: topic.to_owned(),
            payload: Bytes::new(),
            qos: 0,
            packet_id: 0,
            dup: false,
            retain: false,
            alias: None,
            expiry_s: None,
            identifiers: Vec::new(),
        }
    }

    /// Were it to fail, topics would be mixed up by the client, not by the broker.
    #[test]
    fn what_is_shortened_is_resolved_to_the_same_topic() {
        let says = Terms { topic_alias_maximum: Some(2), ..Terms::default() };
        let mut here = Agreement::new(says, 9, 0);
        let mut there = Agreement::new(Terms::default(), 0, 2);
        for topic in ["a", "b", "a", "c", "b", "a", "a", "c"] {
            let mut publish = to(topic);
            here.shorten(&mut publish);
            there.resolve(&mut publish).expect("it keeps the rules");
            assert_eq!(publish.topic, topic);
        }
        assert!(Agreement::none().resolve(&mut to("")).is_err());
    }
}
