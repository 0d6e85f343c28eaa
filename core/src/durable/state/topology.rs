//! Exchanges, declared queues and bindings: what each record of them changes, their images and back.
//!
//! A binding is remembered by its destination; routers are made from that. While a checkpoint is replayed only the
//! destinations' lists are kept, and the routers are filled when it is over.

use super::{QueueOfSession, State};
use crate::amqp::arguments::{ExchangeArguments, QueueArguments};
use crate::durable::page::Page;
use crate::durable::place::Place;
use crate::durable::topology::{ExchangeImage, QueueImage, QueueSpec, Topology};
use crate::ids::{Lsn, QueueId, QueuePosition};
use crate::queue::{Queue, Stage};
use crate::routing::exchange::{Binding, Destination, Exchange, ExchangeKind, ExchangeSpec};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A queue that was declared.
pub struct DeclaredQueue {
    /// Its virtual host, as an index of `State::vhosts`.
    pub vhost: usize,
    /// Its name.
    pub name: Arc<str>,
    /// What it was declared as.
    pub spec: QueueSpec,
    /// What its arguments say.
    pub arguments: QueueArguments,
    /// What it is bound to; the default exchange aside.
    pub bindings: BTreeSet<Binding>,
    /// The record that last changed it.
    pub changed: Lsn,
    /// Its image in the log.
    pub(super) page: Page,
}

impl DeclaredQueue {
    /// The lane of messages of this priority.
    pub fn lane(&self, queue: QueueId, priority: u8) -> QueueId {
        QueueId(queue.0 + u64::from(u16::from(priority).min(self.spec.lanes - 1)))
    }
}

/// The lanes of a queue, the one of the highest priority first.
pub fn lanes(queue: QueueId, spec: &QueueSpec) -> impl Iterator<Item = QueueId> + use<> {
    let first = queue.0;
    (first..first + u64::from(spec.lanes)).rev().map(QueueId)
}

/// The exchange that MQTT's topics are routed by as well.
pub const TOPIC_EXCHANGE: &str = "amq.topic";

/// What every virtual host has (§3.1.3; `amq.match` is an older name of `amq.headers`).
const PREDECLARED: [(&str, ExchangeKind); 5] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    (TOPIC_EXCHANGE, ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
];

impl State {
    /// A declared queue.
    pub fn declared(&self, id: QueueId) -> Option<&DeclaredQueue> {
        self.declared.get(&id)
    }

    /// The exchange of that name.
    pub fn exchange(&self, vhost: usize, name: &str) -> Option<&Exchange> {
        self.vhosts[vhost].exchanges.get(name)
    }

    /// The number that the next queue gets.
    pub fn next_queue(&self) -> QueueId {
        self.next_queue
    }

    /// Whether the record of the change must survive.
    pub fn is_durable_topology(&self, topology: &Topology) -> bool {
        match topology {
            Topology::ExchangeDeclared { spec, .. } => spec.durable,
            Topology::QueueDeclared { spec, .. } => spec.survives(),
            Topology::ExchangeDeleted { vhost, name } => self.is_durable_exchange(vhost, name),
            Topology::QueueDeleted { queue } => self.is_durable_queue(*queue),
            Topology::Bound { vhost, to, binding } | Topology::Unbound { vhost, to, binding } => {
                self.is_durable_binding(vhost, to, binding)
            }
        }
    }

    fn is_durable_exchange(&self, vhost: &str, name: &str) -> bool {
        let vhost = self.vhosts.iter().find(|host| &*host.name == vhost);
        vhost.and_then(|host| host.exchanges.get(name)).is_some_and(|exchange| exchange.spec.durable)
    }

    fn is_durable_binding(&self, vhost: &str, to: &Destination, binding: &Binding) -> bool {
        self.is_durable_exchange(vhost, &binding.source)
            && match to {
                Destination::Queue(queue) => self.is_durable_queue(*queue),
                Destination::Exchange(name) => self.is_durable_exchange(vhost, name),
            }
    }

    /// Whether what the record names is there.
    pub(super) fn admits_topology(&self, topology: &Topology) -> bool {
        match topology {
            _ if self.restoring => true,
            Topology::QueueDeclared { queue, spec, .. } => {
                lanes(*queue, spec).all(|lane| !self.queues.contains_key(&lane))
            }
            Topology::QueueDeleted { queue } => self.declared.contains_key(queue),
            Topology::Bound { vhost, to, binding } => self.is_durable_binding(vhost, to, binding),
            Topology::ExchangeDeclared { .. }
            | Topology::ExchangeDeleted { .. }
            | Topology::Unbound { .. } => true,
        }
    }

    pub(super) fn apply_topology(&mut self, topology: Topology, lsn: Lsn) {
        match topology {
            Topology::ExchangeDeclared { vhost, name, spec } => {
                let vhost = self.vhost(&vhost);
                self.declare_exchange(vhost, name, spec, lsn);
            }
            Topology::ExchangeDeleted { vhost, name } => {
                let vhost = self.vhost(&vhost);
                self.delete_exchange(vhost, &name, lsn);
            }
            Topology::QueueDeclared { vhost, name, queue, spec } => {
                let vhost = self.vhost(&vhost);
                self.declare_queue(vhost, name, queue, spec, lsn);
            }
            Topology::QueueDeleted { queue } => self.delete_queue(queue),
            Topology::Bound { vhost, to, binding } => {
                let vhost = self.vhost(&vhost);
                self.bind(vhost, to, binding, lsn);
            }
            Topology::Unbound { vhost, to, binding } => {
                let vhost = self.vhost(&vhost);
                self.unbind(vhost, &to, &binding, lsn);
            }
        }
    }

    fn declare_exchange(&mut self, vhost: usize, name: Arc<str>, spec: ExchangeSpec, lsn: Lsn) {
        if self.restoring && self.vhosts[vhost].exchanges.contains_key(&name) {
            return; // its image has it
        }
        let alternate = ExchangeArguments::of(&spec.arguments).alternate;
        let exchange = Exchange::new(spec, alternate, lsn, self.hash_key);
        self.vhosts[vhost].exchanges.insert(name, exchange);
    }

    fn delete_exchange(&mut self, vhost: usize, name: &str, lsn: Lsn) {
        let removed = self.vhosts[vhost].exchanges.remove(name);
        let its_own = removed.iter().filter(|_| !self.restoring).flat_map(|exchange| &exchange.bindings);
        for binding in its_own {
            if let Some(source) = self.vhosts[vhost].exchanges.get_mut(&binding.source) {
                let to = Destination::Exchange(name.into());
                source.router.unbind(&binding.key, &binding.arguments, &to);
            }
        }
        // While a checkpoint is replayed images may remember what had no image itself any more.
        if !self.restoring && removed.is_none_or(|exchange| exchange.router.is_empty()) {
            return;
        }
        // What was bound to it remembers that.
        let of_exchange = |binding: &Binding| &*binding.source != name;
        let host = &mut self.vhosts[vhost];
        for queue in host.queues.values() {
            let Some(declared) = self.declared.get_mut(queue) else { continue };
            forget_bindings(&mut declared.bindings, &mut declared.page, of_exchange);
            declared.changed = lsn.max(declared.changed);
        }
        for other in host.exchanges.values_mut() {
            forget_bindings(&mut other.bindings, &mut other.page, of_exchange);
        }
    }

    fn declare_queue(&mut self, vhost: usize, name: Arc<str>, queue: QueueId, spec: QueueSpec, lsn: Lsn) {
        self.next_queue = self.next_queue.max(QueueId(queue.0 + u64::from(spec.lanes)));
        if self.declared.contains_key(&queue) {
            return assert!(self.restoring, "a queue is declared once");
        }
        self.name_queue(vhost, &name, queue);
        let durable = spec.survives();
        for lane in lanes(queue, &spec) {
            let home = QueueOfSession { queue: Queue::sparse(durable), durable, changed: true };
            self.queues.insert(lane, Box::new(home));
        }
        let arguments = QueueArguments::of(&spec.arguments);
        let mut page = Page::default();
        page.touch();
        let bindings = BTreeSet::new();
        let declared = DeclaredQueue { vhost, name, spec, arguments, bindings, changed: lsn, page };
        self.declared.insert(queue, declared);
    }

    /// While a checkpoint is replayed there may be a newer one of that name.
    fn name_queue(&mut self, vhost: usize, name: &Arc<str>, queue: QueueId) {
        let named = self.vhosts[vhost].queues.entry(Arc::clone(name)).or_insert(queue);
        *named = queue.max(*named);
    }

    fn delete_queue(&mut self, queue: QueueId) {
        let Some(declared) = self.declared.remove(&queue) else {
            return assert!(self.restoring, "only queues that exist are deleted");
        };
        let host = &mut self.vhosts[declared.vhost];
        if host.queues.get(&declared.name) == Some(&queue) {
            host.queues.remove(&declared.name);
        }
        for binding in &declared.bindings {
            if let Some(source) = host.exchanges.get_mut(&binding.source).filter(|_| !self.restoring) {
                source.router.unbind(&binding.key, &binding.arguments, &Destination::Queue(queue));
            }
        }
        for lane in lanes(queue, &declared.spec) {
            let home = self.queues.remove(&lane).expect("a declared queue has its lanes");
            if !home.queue.is_empty() {
                self.doomed.push_back(home.queue);
            }
        }
    }

    fn bind(&mut self, vhost: usize, to: Destination, binding: Binding, lsn: Lsn) {
        let Some((bindings, page)) = self.bindings_of(vhost, &to, lsn) else { return };
        if !bindings.insert(binding.clone()) {
            return;
        }
        page.touch();
        if self.restoring {
            return;
        }
        if let Some(source) = self.vhosts[vhost].exchanges.get_mut(&binding.source) {
            source.router.bind(&binding.key, &binding.arguments, to);
            source.changed = lsn.max(source.changed);
        }
    }

    fn unbind(&mut self, vhost: usize, to: &Destination, binding: &Binding, lsn: Lsn) {
        let Some((bindings, page)) = self.bindings_of(vhost, to, lsn) else { return };
        if !bindings.remove(binding) {
            return;
        }
        page.touch();
        if self.restoring {
            return;
        }
        if let Some(source) = self.vhosts[vhost].exchanges.get_mut(&binding.source) {
            source.router.unbind(&binding.key, &binding.arguments, to);
            source.changed = lsn.max(source.changed);
        }
    }

    fn bindings_of(
        &mut self,
        vhost: usize,
        to: &Destination,
        lsn: Lsn,
    ) -> Option<(&mut BTreeSet<Binding>, &mut Page)> {
        match to {
            Destination::Queue(queue) => self.declared.get_mut(queue).map(|declared| {
                declared.changed = lsn.max(declared.changed);
                (&mut declared.bindings, &mut declared.page)
            }),
            Destination::Exchange(name) => self.vhosts[vhost].exchanges.get_mut(name).map(|exchange| {
                exchange.changed = lsn.max(exchange.changed);
                (&mut exchange.bindings, &mut exchange.page)
            }),
        }
    }

    pub(super) fn settle_range(&mut self, queue: QueueId, from: QueuePosition, to: QueuePosition, lsn: Lsn) {
        let Some(home) = self.queues.get(&queue) else {
            return assert!(self.restoring, "only queues that exist settle");
        };
        let stretch = home.queue.iter_from(from).take_while(|entry| entry.position < to);
        let positions: Vec<QueuePosition> = stretch.map(|entry| entry.position).collect();
        positions.into_iter().for_each(|position| self.settle(queue, position, lsn));
    }

    /// The exchanges that a new virtual host has.
    pub(super) fn predeclared(hash_key: u64) -> BTreeMap<Arc<str>, Exchange> {
        let exchange = |(name, kind): (&str, ExchangeKind)| {
            let (durable, auto_delete, internal, delays) = (true, false, false, false);
            let spec =
                ExchangeSpec { kind, durable, auto_delete, internal, delays, arguments: Box::default() };
            let mut exchange = Exchange::new(spec, None, Lsn::NONE, hash_key);
            // It needs no image before something changes.
            exchange.page = Page::default();
            (Arc::from(name), exchange)
        };
        PREDECLARED.into_iter().map(exchange).collect()
    }

    pub(super) fn exchange_image(
        &mut self,
        vhost: usize,
        name: &str,
        due: &dyn Fn(&Page) -> bool,
    ) -> Option<ExchangeImage> {
        let bindings = self.durable_bindings(vhost, |host| host.exchanges.get(name).map(|e| &e.bindings))?;
        let host = &mut self.vhosts[vhost];
        let exchange = host.exchanges.get_mut(name).filter(|exchange| due(&exchange.page))?;
        exchange.page.imaged();
        let spec = exchange.spec.clone();
        Some(ExchangeImage { vhost: host.name.clone(), name: name.into(), spec, bindings })
    }

    pub(super) fn declared_image(
        &mut self,
        queue: QueueId,
        due: &dyn Fn(&Page) -> bool,
    ) -> Option<QueueImage> {
        let declared = self.declared.get(&queue)?;
        let numbers_changed = lanes(queue, &declared.spec).any(|lane| self.queues[&lane].changed);
        if !due(&declared.page) && !numbers_changed {
            return None;
        }
        let vhost = declared.vhost;
        let bindings = self.durable_bindings(vhost, |_| Some(&declared.bindings))?;
        let declared = self.declared.get_mut(&queue)?;
        declared.page.imaged();
        let spec = declared.spec.clone();
        let name = Arc::clone(&declared.name);
        let mut of_lanes = Vec::with_capacity(spec.lanes.into());
        for number in 0..u64::from(spec.lanes) {
            let home = self.queues.get_mut(&QueueId(queue.0 + number))?;
            home.changed = false;
            of_lanes.push((home.queue.horizon.recorded(), home.queue.next()));
        }
        let vhost = self.vhosts[vhost].name.clone();
        Some(QueueImage { vhost, name, queue, spec, bindings, lanes: of_lanes })
    }

    fn durable_bindings<'a>(
        &'a self,
        vhost: usize,
        of: impl FnOnce(&'a super::VirtualHost) -> Option<&'a BTreeSet<Binding>>,
    ) -> Option<Vec<Binding>> {
        let host = &self.vhosts[vhost];
        let durable = |binding: &&Binding| {
            host.exchanges.get(&binding.source).is_some_and(|source| source.spec.durable)
        };
        Some(of(host)?.iter().filter(durable).cloned().collect())
    }

    pub(super) fn restore_exchange(&mut self, image: ExchangeImage, place: Place) {
        let ExchangeImage { vhost, name, spec, bindings } = image;
        let vhost = self.vhost(&vhost);
        let alternate = ExchangeArguments::of(&spec.arguments).alternate;
        let mut exchange = Exchange::new(spec, alternate, Lsn::NONE, self.hash_key);
        exchange.bindings = bindings.into_iter().collect();
        exchange.page = Page::at(place);
        self.vhosts[vhost].exchanges.insert(name, exchange);
    }

    /// False: it contradicts another.
    pub(super) fn restore_declared(&mut self, image: QueueImage, place: Place) -> bool {
        let QueueImage { vhost, name, queue, spec, bindings, lanes: of_lanes } = image;
        let vhost = self.vhost(&vhost);
        self.name_queue(vhost, &name, queue);
        for (lane, (horizon, next)) in (queue.0..).map(QueueId).zip(of_lanes) {
            let mut its = Queue::sparse(true);
            its.horizon.record(horizon, Lsn::NONE);
            its.restore_next(next);
            let home = QueueOfSession { queue: its, durable: true, changed: false };
            if self.queues.insert(lane, Box::new(home)).is_some() {
                return false;
            }
        }
        let arguments = QueueArguments::of(&spec.arguments);
        let bindings = bindings.into_iter().collect();
        let page = Page::at(place);
        let declared = DeclaredQueue { vhost, name, spec, arguments, bindings, changed: Lsn::NONE, page };
        self.declared.insert(queue, declared).is_none()
    }

    /// The routers are made from what destinations remember; bindings to what is not there go.
    pub(super) fn fill_routers(&mut self) {
        for host in &mut self.vhosts {
            let mut all: Vec<(Destination, Binding)> = Vec::new();
            for queue in host.queues.values() {
                let Some(declared) = self.declared.get_mut(queue) else { continue };
                let known = |binding: &Binding| host.exchanges.contains_key(&binding.source);
                forget_bindings(&mut declared.bindings, &mut declared.page, known);
                all.extend(declared.bindings.iter().map(|b| (Destination::Queue(*queue), b.clone())));
            }
            let names: BTreeSet<Arc<str>> = host.exchanges.keys().cloned().collect();
            for (name, exchange) in &mut host.exchanges {
                let known = |binding: &Binding| names.contains(&binding.source);
                forget_bindings(&mut exchange.bindings, &mut exchange.page, known);
                let to = Destination::Exchange(Arc::clone(name));
                all.extend(exchange.bindings.iter().map(|b| (to.clone(), b.clone())));
            }
            for (to, binding) in all {
                if let Some(source) = host.exchanges.get_mut(&binding.source) {
                    source.router.bind(&binding.key, &binding.arguments, to);
                }
            }
        }
    }

    /// The queues of all lanes, whoever's they are, in a fixed order.
    pub(super) fn all_lanes(&self) -> impl Iterator<Item = QueueId> {
        let of_sessions = self.clients.values().filter_map(|id| self.sessions.get(id)).map(|s| s.queue);
        let declared = self.vhosts.iter().flat_map(|host| host.queues.values());
        let of_declared = declared.filter_map(|id| Some((*id, self.declared.get(id)?)));
        of_sessions.chain(of_declared.flat_map(|(id, declared)| lanes(id, &declared.spec)))
    }

    /// Whether the entry survives.
    pub fn is_durable_entry(&self, queue: QueueId, position: QueuePosition) -> bool {
        self.queues.get(&queue).is_some_and(|home| {
            home.durable && home.queue.find(position).is_none_or(|entry| !entry.delivery.transient)
        })
    }

    /// Entries of all lanes that are not settled.
    pub fn message_count(&self, queue: QueueId) -> u64 {
        let Some(declared) = self.declared.get(&queue) else { return 0 };
        lanes(queue, &declared.spec).filter_map(|lane| self.queue(lane)).map(|lane| lane.len() as u64).sum()
    }

    /// Body bytes of all lanes.
    pub fn message_bytes(&self, queue: QueueId) -> u64 {
        let Some(declared) = self.declared.get(&queue) else { return 0 };
        lanes(queue, &declared.spec).filter_map(|lane| self.queue(lane)).map(Queue::bytes).sum()
    }

    /// Whether the message is still to be delivered from this place.
    pub fn is_queued(&self, queue: QueueId, position: QueuePosition) -> bool {
        let entry = self.queue(queue).and_then(|queue| queue.find(position));
        entry.is_some_and(|entry| entry.stage == Stage::Queued)
    }
}

fn forget_bindings(bindings: &mut BTreeSet<Binding>, page: &mut Page, stays: impl Fn(&Binding) -> bool) {
    let before = bindings.len();
    bindings.retain(|binding| stays(binding));
    if bindings.len() < before {
        page.touch();
    }
}
