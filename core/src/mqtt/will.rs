//! Wills (§3.1.2.5): left with CONNECT, void with DISCONNECT, published when the connection ends in any other way.

use super::packet::Connect;
use crate::broker::Broker;
use crate::broker::publishing::{Published, Publishing};
use crate::durable::record::{ClientKey, Record, Will};
use crate::ids::{Lsn, SessionId};
use crate::marks::reached;
use crate::message::{Message, MessageParts, Origin};
use crate::mqtt::packet::QoS;
use crate::time::WallTime;

impl Broker {
    /// Keeps the client's will, or makes sure that there is none; what its CONNACK waits for.
    pub(super) fn leave_will(&mut self, key: ClientKey, connect: &Connect<'_>, session: SessionId) -> Lsn {
        let Some(will) = &connect.will else {
            self.remove_will(&key);
            return self.departures.of(&key);
        };
        let properties = will.properties.forwarded();
        let address = will.topic.as_str().as_bytes();
        let parts = MessageParts { address, properties: &properties, body: will.payload };
        let origin = Origin::of_mqtt(&properties);
        let content = Message::new(origin, will.qos as u8, self.now.wall, parts);
        // A will with QoS 0 of a session that is in no record promises nothing: it costs no sync.
        let durable = will.qos != QoS::AtMostOnce || self.state.is_durable_session(session);
        let (delay_s, expiry_s) = (will.properties.delay_s, will.properties.expiry_s);
        self.forget_delay(&key);
        let will = Will { content, retain: will.retain, durable, delay_s, expiry_s };
        self.commit(Record::WillSet { key, will })
    }

    /// The client said goodbye. [MQTT-3.1.2-10]
    pub(crate) fn void_will(&mut self, session: SessionId) {
        let Some(session) = self.state.session(session) else { return };
        let key = session.key.clone();
        if self.state.wills.contains_key(&key) {
            reached!("will void");
        }
        self.remove_will(&key);
    }

    fn remove_will(&mut self, key: &ClientKey) {
        if self.state.wills.contains_key(key) {
            self.forget_delay(key);
            let lsn = self.commit(Record::WillRemoved { key: key.clone() });
            self.note_departure(key, lsn);
        }
    }

    /// Publishes the client's will, if there is one [MQTT-3.1.2-8]. On a full disk it waits for room.
    pub(crate) fn publish_will(&mut self, key: &ClientKey) {
        let Some(will) = self.state.wills.get(key).cloned() else { return };
        let topic = will.content.topic();
        let qos = QoS::from_bits(will.content.level).expect("a will has a QoS");
        let vhost = self.state.vhost(&key.vhost);
        let published = self.publish(Publishing {
            retain: will.retain, // [MQTT-3.1.2-16], [MQTT-3.1.2-17]
            will_of: Some(key),
            expires_at: will.expiry_s.map_or(WallTime(0), |s| self.now.wall.plus_ms(u64::from(s) * 1000)),
            ..Publishing::of_mqtt(vhost, &topic, will.content.properties(), will.content.body(), qos)
        });
        match published {
            Published::Stored { lsn, .. } => {
                reached!("will published");
                self.held_wills.remove(key);
                self.note_departure(key, lsn);
            }
            Published::Held => {
                reached!("will held");
                self.held_wills.insert(key.clone());
            }
            Published::Refused(_) => {
                self.held_wills.remove(key);
                self.remove_will(key);
            }
        }
    }
}
