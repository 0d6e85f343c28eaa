//! What a client of MQTT 5 asks for with its subscriptions: identifiers, No Local, RETAIN as published, Retain Handling; and the
//! packets that are too large for it. A client asks for the same as long as it lives, so that this needs no history.

use super::{Delivery, Model};
use crate::outcome::Checker;
use crate::payload::{HEADER_BYTES, MessageKey};
use crate::scenario::Mqtt5;

/// A packet has so many bytes more at the most than its topic and its payload: the header, aliases, expiry and identifiers.
const BESIDE_BYTES: usize = 64;

/// Identifiers begin here. Each takes four bytes: rumqttc counts a byte too many for each and would lose the last of a few short
/// ones.
const IDENTIFIERS_FROM: usize = 1 << 21;

/// Whether a SUBSCRIBE brings what its topics retain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Brings {
    Certainly,
    Perhaps,
    Never,
}

impl Model {
    /// The identifier of the client's subscription to this filter: no other has it.
    pub(crate) fn identifier(&mut self, client: usize, filter: &str) -> u32 {
        let number = self.topics.filter(filter);
        self.numbered(client, number)
    }

    fn numbered(&self, client: usize, filter: usize) -> u32 {
        (IDENTIFIERS_FROM + filter * self.clients.len() + client) as u32
    }

    /// Whether the client's subscriptions bring RETAIN as it was published.
    pub(crate) fn keeps_retain(&self, client: usize) -> bool {
        self.asks(client).is_some_and(|asks| asks.retain_as_published)
    }

    /// Whether a packet with the message is certainly not too large for the client. [MQTT-3.1.2-24]
    pub(crate) fn certainly_fits(&self, client: usize, key: MessageKey) -> bool {
        let takes = self.asks(client).map_or(0, |asks| asks.maximum_packet_bytes as usize);
        let message = self.message(key);
        let payload = (message.length as usize).max(HEADER_BYTES);
        takes == 0 || payload + self.topics.name(message.topic).len() + BESIDE_BYTES <= takes
    }

    /// Whether a subscription does not bring the message, because its client published it. [MQTT-3.8.3-3] of MQTT 5. A
    /// will is nobody's own.
    pub(super) fn is_deaf(&self, client: usize, filter: usize, key: MessageKey) -> bool {
        let deaf =
            self.asks(client).is_some_and(|asks| asks.is_deaf_to_itself(self.topics.filter_name(filter)));
        deaf && key.publisher as usize == client && self.message(key).will_of.is_none()
    }

    /// Whether some of the client's subscriptions do not bring what it publishes itself.
    pub(super) fn is_deaf_at_all(&self, client: usize) -> bool {
        self.asks(client).is_some_and(|asks| asks.no_local)
    }

    /// What a SUBSCRIBE for this filter that is sent now brings.
    pub(super) fn brings_retained(&self, client: usize, filter: usize) -> Brings {
        let subscription = &self.clients[client].subscriptions[filter];
        match self.asks(client).map_or(0, |asks| asks.retain_handling) {
            0 => Brings::Certainly,
            1 if subscription.certain_since(self.now).is_some() => Brings::Never,
            1 if subscription.possible_since(self.now) == 0 => Brings::Certainly,
            1 => Brings::Perhaps,
            _ => Brings::Never,
        }
    }

    /// A message carries the identifiers of the subscriptions that bring it, and no others. [MQTT-3.3.4-3] to [MQTT-3.3.4-5]
    pub(super) fn check_identifiers(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let client = delivery.client;
        let (sent, topic) = (self.message(key).sent, self.message(key).topic);
        let live = !delivery.retain || self.keeps_retain(client);
        let brings = |filter: &usize| {
            self.topics.matching(*filter, topic) && !(live && self.is_deaf(client, *filter, key))
        };
        let subscription = |filter: usize| &self.clients[client].subscriptions[filter];
        let identified = self.asks(client).is_some_and(|asks| asks.identifiers);
        let matching: Vec<usize> = (0..self.topics.filter_count()).filter(brings).collect();
        let possible: Vec<u32> = matching
            .iter()
            .filter(|filter| identified && subscription(**filter).possible_since(sent) != 0)
            .map(|filter| self.numbered(client, *filter))
            .collect();
        let given = delivery.identifiers;
        // What was there before it was sent, and since then, brings every live message.
        let certain = matching.iter().filter(|filter| {
            live && !self.may_have_expired(client) && subscription(**filter).certain_since(sent).is_some()
        });
        let missing = certain.map(|filter| self.numbered(client, *filter)).find(|id| !given.contains(id));
        let wrong = given
            .iter()
            .find(|id| !possible.contains(id) || given.iter().filter(|other| other == id).count() > 1);
        let rule = if let Some(wrong) = wrong {
            format!(
                "identifier {wrong}, once too often or of no subscription that brings it ([MQTT-3.3.4-5])"
            )
        } else if let Some(missing) = missing.filter(|_| identified) {
            format!("no identifier {missing}, which its subscription has ([MQTT-3.3.4-4])")
        } else if identified && given.is_empty() {
            "no identifier, and every subscription of the client has one ([MQTT-3.3.4-3])".to_owned()
        } else {
            return;
        };
        let text = format!("client {client} receives {key} with {rule}");
        self.fail(Checker::Protocol, format!("client {client} {key}"), text);
    }

    /// RETAIN is as it was published, for a client that asked for that. [MQTT-3.3.1-13]
    pub(super) fn check_retain_kept(&mut self, delivery: &Delivery<'_>, key: MessageKey) {
        let (client, published) = (delivery.client, self.message(key).retain);
        let shared = self.group_of(client, self.message(key).topic).is_some();
        if self.keeps_retain(client) && !shared && delivery.retain != published {
            let text = format!(
                "client {client} receives {key}, published with RETAIN = {published}, with RETAIN = {}, and asked for it as \
                 published ([MQTT-3.3.1-13])",
                delivery.retain
            );
            self.fail(Checker::Retained, format!("client {client} {key}"), text);
        }
    }

    fn asks(&self, client: usize) -> Option<&Mqtt5> {
        self.clients[client].asks.as_ref()
    }
}
