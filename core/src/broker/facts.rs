//! What the broker tells of itself: its durable state as facts, its counters.

use super::Broker;
use crate::durable::state::{Session, VirtualHost, topology};
use crate::facts::Fact;
use crate::ids::{QueueId, SessionId};
use crate::mqtt::packet::QoS;
use crate::queue::{Entry, Stage};
use crate::routing::exchange::Binding;
use crate::session::packet_id;
use crate::statistics::Statistics;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

impl Broker {
    /// The whole durable state, in a fixed order: sessions by client, retained messages by topic, wills by client.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        let Ok(()) = self.try_for_each_fact(|fact| {
            facts.push(fact);
            Ok::<(), Infallible>(())
        });
        facts
    }

    /// As `facts`, one after the other: there may be more than the memory holds.
    ///
    /// # Errors
    /// The first one of `take`, which ends it.
    pub fn try_for_each_fact<E>(&self, mut take: impl FnMut(Fact) -> Result<(), E>) -> Result<(), E> {
        for &id in self.state.clients.values() {
            let session = self.state.session(id).expect("clients have sessions");
            if session.durable {
                self.session_facts(id, session, &mut take)?;
            }
        }
        for vhost in &self.state.vhosts {
            self.declared_facts(vhost, &mut take)?;
        }
        for vhost in &self.state.vhosts {
            for (topic, retained) in vhost.retained.iter() {
                let known = self.state.messages.find(retained.message).expect("a retained message is held");
                take(Fact::Retained {
                    vhost: vhost.name.clone(),
                    topic: topic.into(),
                    message: retained.message,
                    qos: known.qos().unwrap_or(QoS::AtMostOnce),
                    content: self.state.messages.message(retained.message).cloned(),
                    place: known.place,
                })?;
            }
        }
        for (key, will) in self.state.wills.iter().filter(|(_, will)| will.durable) {
            take(Fact::Will {
                vhost: key.vhost.clone(),
                client: (&*key.client).into(),
                topic: String::from_utf8_lossy(will.content.address()).into_owned(),
                qos: QoS::from_bits(will.content.level).unwrap_or(QoS::AtMostOnce),
                retain: will.retain,
                delay_s: will.delay_s,
                payload: will.content.body_shared(),
            })?;
        }
        Ok(())
    }

    /// What of a virtual host AMQP clients have declared, as far as it survives.
    fn declared_facts<E>(
        &self,
        vhost: &VirtualHost,
        take: &mut impl FnMut(Fact) -> Result<(), E>,
    ) -> Result<(), E> {
        let declared = vhost.exchanges.iter().filter(|(name, _)| !name.starts_with("amq."));
        for (name, exchange) in declared.filter(|(_, exchange)| exchange.spec.durable) {
            let (kind, spec) = (exchange.spec.kind.name(), &exchange.spec);
            let (vhost, name) = (vhost.name.clone(), Arc::clone(name));
            let (auto_delete, internal) = (spec.auto_delete, spec.internal);
            take(Fact::Exchange { vhost, name, kind, auto_delete, internal })?;
        }
        for (to, exchange) in vhost.exchanges.iter().filter(|(_, exchange)| exchange.spec.durable) {
            self.binding_facts(vhost, &exchange.bindings, to, true, take)?;
        }
        for (name, &queue) in &vhost.queues {
            let Some(declared) = self.state.declared(queue).filter(|_| self.state.is_durable_queue(queue))
            else {
                continue;
            };
            let (lanes, auto_delete) = (declared.spec.lanes, declared.spec.auto_delete);
            let messages = self.state.message_count(queue);
            let (host, its_name) = (vhost.name.clone(), Arc::clone(name));
            take(Fact::DeclaredQueue { vhost: host, name: its_name, queue, lanes, messages, auto_delete })?;
            self.binding_facts(vhost, &declared.bindings, name, false, take)?;
            for lane in topology::lanes(queue, &declared.spec) {
                self.lane_facts(name, lane, take)?;
            }
        }
        Ok(())
    }

    fn binding_facts<E>(
        &self,
        vhost: &VirtualHost,
        bindings: &BTreeSet<Binding>,
        to: &Arc<str>,
        to_exchange: bool,
        take: &mut impl FnMut(Fact) -> Result<(), E>,
    ) -> Result<(), E> {
        let survives = |binding: &&Binding| {
            vhost.exchanges.get(&binding.source).is_some_and(|source| source.spec.durable)
        };
        for binding in bindings.iter().filter(survives) {
            let (vhost, source, to) = (vhost.name.clone(), Arc::clone(&binding.source), Arc::clone(to));
            take(Fact::Binding { vhost, source, to, to_exchange, key: binding.key.clone() })?;
        }
        Ok(())
    }

    fn lane_facts<E>(
        &self,
        name: &Arc<str>,
        queue: QueueId,
        take: &mut impl FnMut(Fact) -> Result<(), E>,
    ) -> Result<(), E> {
        let lane = self.state.queue(queue).expect("a declared queue has its lanes");
        let horizon = lane.horizon.recorded();
        for entry in lane.iter().filter(|entry| !entry.delivery.transient) {
            let known = self.state.messages.find(entry.message).expect("a queued message is held");
            take(Fact::InQueue {
                name: Arc::clone(name),
                queue,
                position: entry.position,
                message: entry.message,
                maybe_delivered: entry.position < horizon,
                content: self.state.messages.message(entry.message).cloned(),
                place: known.place,
            })?;
        }
        Ok(())
    }

    fn session_facts<E>(
        &self,
        id: SessionId,
        session: &Session,
        take: &mut impl FnMut(Fact) -> Result<(), E>,
    ) -> Result<(), E> {
        let queue = self.state.queue(session.queue).expect("a session owns a queue");
        take(Fact::Session {
            session: id,
            queue: session.queue,
            vhost: session.key.vhost.clone(),
            client: session.key.name().into(),
            is_group: session.key.group().is_some(),
            expiry: session.expiry,
            away_since: session.away_since,
            horizon: queue.horizon.recorded(),
            next: queue.next(),
            changed: session.changed,
        })?;
        for (filter, &subscription) in &session.subscriptions {
            take(Fact::Subscription { session: id, filter: (&**filter).into(), subscription })?;
        }
        for &packet_id in session.received.keys() {
            take(Fact::Received { session: id, packet_id })?;
        }
        for entry in queue.iter() {
            take(self.entry_fact(session, &entry))?;
        }
        Ok(())
    }

    fn entry_fact(&self, session: &Session, entry: &Entry) -> Fact {
        let (queue, position) = (session.queue, entry.position);
        let packet_id = packet_id(position);
        if entry.stage != Stage::Queued {
            return Fact::Releasing { queue, position, packet_id };
        }
        let known = self.state.messages.find(entry.message).expect("a queued message is held");
        let horizon = self.state.queue(queue).expect("a session owns a queue").horizon.recorded();
        Fact::Queued {
            queue,
            position,
            packet_id,
            message: entry.message,
            qos: entry.delivery.qos,
            maybe_delivered: position < horizon,
            content: self.state.messages.message(entry.message).cloned(),
            place: known.place,
        }
    }

    /// The counters since start, and the sizes of what is held now.
    pub fn statistics(&self) -> Statistics {
        let written = self.log.written;
        Statistics {
            connections: self.connections.len() as u64,
            sessions: self.state.session_count() as u64,
            messages: self.state.messages.len() as u64,
            body_bytes: self.state.messages.body_bytes(),
            retained: self.state.vhosts.iter().map(|vhost| vhost.retained.len() as u64).sum(),
            records: written.records,
            batches: written.batches,
            syncs: written.syncs,
            log_bytes: written.bytes,
            cached_bytes: self.state.messages.cached_bytes(),
            file_bytes: self.log.file_bytes(),
            live_bytes: self.state.messages.usage().total(),
            ..self.counters
        }
    }

    /// Queues of sessions that hold something, and declared queues.
    pub(crate) fn queues_in_use(&self) -> u64 {
        let ids = self.state.clients.values();
        let in_use = ids.filter(|id| {
            let queue = self.state.session(**id).and_then(|session| self.state.queue(session.queue));
            queue.is_some_and(|queue| !queue.is_empty())
        });
        let declared: usize = self.state.vhosts.iter().map(|vhost| vhost.queues.len()).sum();
        (in_use.count() + declared) as u64
    }

    /// Wills held.
    pub(crate) fn will_count(&self) -> u64 {
        self.state.wills.len() as u64
    }
}
