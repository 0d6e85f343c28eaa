//! SUBSCRIBE and UNSUBSCRIBE (§3.8, §3.10).

use super::packet::frame::{put_codes, whole_bytes};
use super::packet::subscribe::{Options, RetainHandling};
use super::packet::{AckKind, ProtocolLevel, ReasonCode, Subscribe, Unsubscribe};
use crate::broker::Broker;
use crate::connection::Reply;
use crate::durable::record::{Granted, Record, Subscription};
use crate::ids::{ConnectionId, Lsn, SessionId};
use crate::mqtt::topic::TopicFilter;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

/// First byte of SUBACK (§3.9) and UNSUBACK (§3.11).
const SUBACK: u8 = 0x90;
const UNSUBACK: u8 = 0xb0;

impl Broker {
    pub(super) fn on_subscribe(&mut self, id: ConnectionId, session: SessionId, subscribe: &Subscribe<'_>) {
        if !self.answer_fits(id, subscribe.filters.len()) {
            return;
        }
        let level = self.level_of(id);
        let held = &self.state.session(session).expect("a client has a session").subscriptions;
        let full = self.log.is_full() && self.state.is_durable_session(session);
        let mut count = held.len();
        let mut granted: Vec<Granted> = Vec::new();
        let mut new: BTreeSet<&str> = BTreeSet::new();
        let mut codes = Vec::with_capacity(subscribe.filters.len());
        let refusal = |reason: ReasonCode| match level {
            ProtocolLevel::V5 => reason as u8,
            // MQTT 3.1.1 has one code for every refusal. [MQTT-3.9.3-1]
            ProtocolLevel::V3_1 | ProtocolLevel::V3_1_1 => ReasonCode::UnspecifiedError as u8,
        };
        for (filter, options) in &subscribe.filters {
            let filter = filter.as_ref().map(|filter| filter.as_str());
            let Some(filter) = filter.ok().filter(|filter| self.topic_beyond_limits(filter).is_none()) else {
                codes.push(refusal(ReasonCode::TopicFilterInvalid));
                continue;
            };
            let known = held.contains_key(filter) || new.contains(filter);
            let most = self.settings.limits.subscriptions;
            if full || (!known && count >= most) || granted.len() >= 2 * most {
                codes.push(refusal(ReasonCode::QuotaExceeded));
                continue;
            }
            if !known {
                new.insert(filter);
                count += 1;
            }
            granted.push(grant(filter, options, subscribe.identifier, known));
            codes.push(options.qos as u8); // [MQTT-3.8.4-5], [MQTT-3.8.4-6]
        }
        if codes.iter().any(|code| *code >= 0x80) && level == ProtocolLevel::V3_1 {
            let text = "a subscription was refused, and MQTT 3.1 has no word for that";
            return self.over_limit(id, ReasonCode::QuotaExceeded, text.into());
        }
        let before = self.state.next_message();
        let vhost = self.state.session(session).expect("a client has a session").vhost;
        let shared: Vec<Box<str>> =
            granted.iter().filter(|g| is_shared(&g.filter)).map(|g| g.filter.clone()).collect();
        // A group's session is there before its member is.
        let mut wait = Lsn::NONE;
        for granted in granted.iter().filter(|granted| is_shared(&granted.filter)) {
            wait = wait.max(self.join_group(session, granted));
        }
        wait = wait.max(match granted.is_empty() {
            true => self.state.session(session).map_or(Lsn::NONE, |session| session.changed),
            false => self.commit(Record::Subscribed { session, filters: granted, before }),
        });
        shared.iter().for_each(|filter| self.joined_group(vhost, filter));
        let mut suback = Vec::with_capacity(8 + codes.len());
        put_codes(&mut suback, SUBACK, subscribe.packet_id, &codes, level); // [MQTT-3.8.4-1], [MQTT-3.8.4-2]
        self.reply(id, wait, Reply::Long(suback.into()));
        self.serve_owed(session); // [MQTT-3.3.1-6], [MQTT-3.8.4-3]
    }

    pub(super) fn on_unsubscribe(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        unsubscribe: &Unsubscribe<'_>,
    ) {
        if self.level_of(id) == ProtocolLevel::V5 && !self.answer_fits(id, unsubscribe.filters.len()) {
            return;
        }
        let held = self.state.session(session).expect("a client has a session");
        let mut wait = held.changed;
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        let mut filters: Vec<Box<str>> = Vec::new();
        let mut codes = Vec::with_capacity(unsubscribe.filters.len());
        for filter in &unsubscribe.filters {
            let reason = match filter {
                Err(_) => ReasonCode::TopicFilterInvalid,
                // As one after the other. [MQTT-3.10.4-6] of MQTT 5
                Ok(filter)
                    if held.subscriptions.contains_key(filter.as_str()) && gone.insert(filter.as_str()) =>
                {
                    filters.push(filter.as_str().into());
                    ReasonCode::Success
                }
                Ok(_) => ReasonCode::NoSubscriptionExisted,
            };
            codes.push(reason as u8); // [MQTT-3.11.3-1]
        }
        if !filters.is_empty() {
            let vhost = held.vhost;
            let shared: Vec<Box<str>> = filters.iter().filter(|filter| is_shared(filter)).cloned().collect();
            wait = self.commit(Record::Unsubscribed { session, filters }); // [MQTT-3.10.4-1..3]
            shared.iter().for_each(|filter| self.left_group(vhost, filter));
        }
        // Also where nothing was taken away. [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        if self.level_of(id) != ProtocolLevel::V5 {
            return self.acknowledge(id, AckKind::UnsubAck, unsubscribe.packet_id, wait);
        }
        let mut unsuback = Vec::with_capacity(8 + codes.len());
        put_codes(&mut unsuback, UNSUBACK, unsubscribe.packet_id, &codes, ProtocolLevel::V5);
        self.reply(id, wait, Reply::Long(unsuback.into()));
    }

    /// Whether SUBACK, or UNSUBACK of MQTT 5, with so many codes is not larger than the client takes; otherwise the
    /// connection has been closed, and nothing done. [MQTT-3.1.2-24] of MQTT 5
    fn answer_fits(&mut self, id: ConnectionId, codes: usize) -> bool {
        let bytes = whole_bytes(codes + 3);
        let most = self.connections.get(&id).and_then(|c| c.terms()).map(|terms| terms.maximum_packet_bytes);
        let fits = most.is_none_or(|most| bytes <= most);
        if !fits {
            let most = most.unwrap_or(0);
            let text = format!("the answer takes {bytes} bytes; the client's Maximum Packet Size is {most}");
            self.over_limit(id, ReasonCode::PacketTooLarge, text.into());
        }
        fits
    }
}

fn is_shared(filter: &str) -> bool {
    TopicFilter::new(filter).is_ok_and(|filter| filter.share().is_some())
}

/// What is granted of what was asked for: all of it.
fn grant(filter: &str, options: &Options, identifier: u32, known: bool) -> Granted {
    let Options { qos, no_local, retain_as_published, retained } = *options;
    let owes = match retained {
        RetainHandling::Always => true,  // [MQTT-3.3.1-9] of MQTT 5
        RetainHandling::IfNew => !known, // [MQTT-3.3.1-10] of MQTT 5
        RetainHandling::Never => false,  // [MQTT-3.3.1-11] of MQTT 5
    };
    let owes = owes && !is_shared(filter); // §4.8.2 of MQTT 5
    let subscription = Subscription { qos, no_local, retain_as_published, identifier };
    Granted { filter: filter.into(), subscription, owes }
}
