//! Where a message goes: from an exchange by its bindings to queues, once each, whatever leads there.

use super::bridge;
use super::delaying::{delay_ms, is_hidden};
use super::wire::{Properties, ShortStr, Value};
use crate::broker::Broker;
use crate::durable::state::topology::TOPIC_EXCHANGE;
use crate::ids::QueueId;
use crate::routing::exchange::Destination;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Where a message goes.
#[derive(Default)]
pub(crate) struct Routed {
    /// Queues, in the order of their numbers.
    pub queues: Vec<QueueId>,
    /// It came to the exchange whose routing keys are topics, under these keys.
    pub topics: Vec<Vec<u8>>,
}

/// A message as routing sees it.
struct Sought<'a> {
    vhost: usize,
    key: &'a [u8],
    /// The routing keys of the headers CC and BCC.
    copies: &'a [Vec<u8>],
    /// None of a message of an MQTT client.
    properties: Option<&'a Properties>,
}

impl<'a> Sought<'a> {
    fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        core::iter::once(self.key).chain(self.copies.iter().map(|key| &key[..]))
    }
}

impl Broker {
    /// Where a message goes that is published to the exchange of that name; none if there is none.
    pub(super) fn route_amqp(
        &self,
        vhost: usize,
        exchange: &str,
        key: &[u8],
        properties: &Properties,
    ) -> Option<Routed> {
        let copies = copies(properties);
        let sought = Sought { vhost, key, copies: &copies, properties: Some(properties) };
        let mut routed = Routed::default();
        if exchange.is_empty() {
            let queues = &self.state.vhosts[vhost].queues;
            let named = sought.keys().filter_map(|key| core::str::from_utf8(key).ok());
            let named = named.filter(|name| !is_hidden(name));
            routed.queues.reserve_exact(1 + copies.len());
            routed.queues.extend(named.filter_map(|name| queues.get(name)));
        } else {
            self.state.exchange(vhost, exchange)?;
            self.follow(&sought, exchange, &mut routed);
        }
        routed.queues.sort_unstable();
        routed.queues.dedup();
        Some(routed)
    }

    /// The declared queues that a topic leads to. None, if it is longer than a routing key can be: that is counted.
    pub(crate) fn queues_of_topic(&mut self, vhost: usize, topic: &str) -> Vec<QueueId> {
        let bound = self.state.exchange(vhost, TOPIC_EXCHANGE).filter(|exchange| !exchange.router.is_empty());
        if bound.is_none() {
            return Vec::new();
        }
        let key = bridge::key_of(topic);
        if ShortStr::new(&key).is_none() {
            self.counters.unmappable += 1;
            return Vec::new();
        }
        let sought = Sought { vhost, key: &key, copies: &[], properties: None };
        let mut routed = Routed::default();
        self.follow(&sought, TOPIC_EXCHANGE, &mut routed);
        routed.queues.sort_unstable();
        routed.queues.dedup();
        routed.queues
    }

    /// Follows the bindings from an exchange on; each exchange is visited once.
    fn follow(&self, sought: &Sought<'_>, first: &str, routed: &mut Routed) {
        let exchanges = &self.state.vhosts[sought.vhost].exchanges;
        let headers = sought.properties.and_then(Properties::encoded_headers);
        let mut pending: Vec<Arc<str>> = Vec::new();
        let mut seen: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut at = exchanges.get_key_value(first);
        while let Some((name, exchange)) = at {
            let waits = exchange.spec.delays && sought.properties.and_then(delay_ms).is_some();
            let is_topics = &**name == TOPIC_EXCHANGE;
            if is_topics {
                routed.topics.extend(sought.keys().map(<[u8]>::to_vec));
            }
            let mut any = is_topics || waits;
            if waits {
                routed.queues.extend(self.delay_queue(sought.vhost, name));
            }
            let mut lead_on = |to: &Arc<str>| {
                if **to != *first && seen.insert(Arc::clone(to)) {
                    pending.push(Arc::clone(to));
                }
            };
            for key in sought.keys().filter(|_| !waits) {
                exchange.router.route(key, headers, &mut |destination| {
                    any = true;
                    match destination {
                        Destination::Queue(queue) => routed.queues.push(*queue),
                        Destination::Exchange(to) => lead_on(to),
                    }
                });
            }
            if !any {
                exchange.alternate.iter().for_each(lead_on);
            }
            at = None;
            while at.is_none()
                && let Some(name) = pending.pop()
            {
                at = exchanges.get_key_value(&*name);
            }
        }
    }
}

/// The routing keys of the headers CC and BCC.
fn copies(properties: &Properties) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for list in ["CC", "BCC"].into_iter().filter_map(|name| properties.header(name)) {
        let texts = list.as_array().into_iter().flatten().filter_map(Value::as_long_string);
        keys.extend(texts.map(<[u8]>::to_vec));
    }
    keys
}
