//! SUBSCRIBE and UNSUBSCRIBE (§3.8, §3.10).

use super::packet::frame::put_suback;
use super::packet::{AckKind, ProtocolLevel, Subscribe, Unsubscribe};
use crate::broker::Broker;
use crate::connection::Reply;
use crate::durable::record::Record;
use crate::ids::{ConnectionId, SessionId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The return code of a filter that was refused (§3.9.3).
const FAILURE: u8 = 0x80;

impl Broker {
    pub(super) fn on_subscribe(&mut self, id: ConnectionId, session: SessionId, subscribe: &Subscribe<'_>) {
        for (filter, _) in &subscribe.filters {
            if !self.topic_is_within_limits(id, filter.as_str()) {
                return;
            }
        }
        let held = &self.state.session(session).expect("a client has a session").subscriptions;
        let full = self.log.is_full() && self.state.is_durable_session(session);
        let mut count = held.len();
        let mut granted: Vec<(Box<str>, _)> = Vec::new();
        let mut codes = Vec::with_capacity(subscribe.filters.len());
        for (filter, qos) in &subscribe.filters {
            let known =
                held.contains_key(filter.as_str()) || granted.iter().any(|(g, _)| **g == *filter.as_str());
            if full || (!known && count >= self.settings.limits.subscriptions) {
                codes.push(FAILURE); // [MQTT-3.9.3-1]
                continue;
            }
            count += usize::from(!known);
            granted.push((filter.as_str().into(), *qos));
            codes.push(*qos as u8); // [MQTT-3.8.4-5], [MQTT-3.8.4-6]
        }
        if codes.contains(&FAILURE) && self.speaks(id, ProtocolLevel::V3_1) {
            return self
                .over_limit(id, "a subscription was refused, and MQTT 3.1 has no word for that".into());
        }
        let before = self.state.next_message();
        let wait = match granted.is_empty() {
            true => self.state.session(session).map_or(crate::ids::Lsn::NONE, |session| session.changed),
            false => self.commit(Record::Subscribed { session, filters: granted, before }),
        };
        let mut suback = Vec::with_capacity(4 + codes.len());
        put_suback(&mut suback, subscribe.packet_id, &codes); // [MQTT-3.8.4-1], [MQTT-3.8.4-2]
        self.reply(id, wait, Reply::Long(suback.into()));
        self.serve_owed(session); // [MQTT-3.3.1-6], [MQTT-3.8.4-3]
    }

    pub(super) fn on_unsubscribe(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        unsubscribe: &Unsubscribe<'_>,
    ) {
        let held = self.state.session(session).expect("a client has a session");
        let mut wait = held.changed;
        let filters: Vec<Box<str>> = unsubscribe
            .filters
            .iter()
            .map(|filter| filter.as_str().into())
            .filter(|filter| held.subscriptions.contains_key(filter))
            .collect();
        if !filters.is_empty() {
            wait = self.commit(Record::Unsubscribed { session, filters }); // [MQTT-3.10.4-1..3]
        }
        // Also where nothing was taken away. [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        self.acknowledge(id, AckKind::UnsubAck, unsubscribe.packet_id, wait);
    }

    fn speaks(&self, id: ConnectionId, level: ProtocolLevel) -> bool {
        self.connections.get(&id).and_then(|c| c.client.as_ref()).is_some_and(|client| client.level == level)
    }
}
