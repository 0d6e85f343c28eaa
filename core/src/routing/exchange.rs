//! Exchanges: where a published message goes (AMQP 0-9-1 §3.1.3). What is bound is remembered by what it is bound *to* a
//! source (`Binding`, a queue's or an exchange's own list); an exchange's router is made from that and only finds.

use super::headers::HeadersRouter;
use super::topic_trie::TopicTrie;
use crate::durable::page::Page;
use crate::ids::{Lsn, QueueId};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use foldhash::quality::FixedState;
use hashbrown::HashMap;

/// How an exchange routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExchangeKind {
    /// By the routing key as it is.
    Direct = 1,
    /// To everything bound.
    Fanout = 2,
    /// By the words of the routing key.
    Topic = 3,
    /// By the headers of the message.
    Headers = 4,
}

impl ExchangeKind {
    /// All, with the names that clients use.
    const NAMES: [(ExchangeKind, &'static str); 4] = [
        (ExchangeKind::Direct, "direct"),
        (ExchangeKind::Fanout, "fanout"),
        (ExchangeKind::Topic, "topic"),
        (ExchangeKind::Headers, "headers"),
    ];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<ExchangeKind> {
        ExchangeKind::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = ExchangeKind::NAMES.iter().find(|(kind, _)| *kind == self);
        known.map_or("", |(_, name)| name)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<ExchangeKind> {
        ExchangeKind::NAMES.iter().map(|(kind, _)| *kind).find(|kind| *kind as u8 == byte)
    }
}

/// What an exchange was declared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSpec {
    /// How it routes.
    pub kind: ExchangeKind,
    /// Whether it survives the broker.
    pub durable: bool,
    /// Whether it goes with the last thing bound to it.
    pub auto_delete: bool,
    /// Whether clients may not publish to it.
    pub internal: bool,
    /// Whether it delays what is published to it (`x-delayed-message`).
    pub delays: bool,
    /// The arguments it was declared with, an AMQP field table as it came.
    pub arguments: Box<[u8]>,
}

/// What can be bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// A queue, by its first lane.
    Queue(QueueId),
    /// An exchange of the same virtual host.
    Exchange(Arc<str>),
}

/// A binding, as its destination remembers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// The exchange that it leads from.
    pub source: Arc<str>,
    /// The binding key.
    pub key: Box<[u8]>,
    /// Its arguments, a field table as it came.
    pub arguments: Box<[u8]>,
}

/// An exchange.
pub struct Exchange {
    /// What it is.
    pub spec: ExchangeSpec,
    /// Where unroutable messages go (`alternate-exchange`).
    pub alternate: Option<Arc<str>>,
    /// What it is itself bound to.
    pub bindings: BTreeSet<Binding>,
    /// What is bound to it.
    pub router: Router,
    /// The record that last changed it.
    pub changed: Lsn,
    /// Its image in the log.
    pub page: Page,
}

/// Finds the destinations of a message.
pub enum Router {
    /// See `ExchangeKind::Direct`.
    Direct(HashMap<Box<[u8]>, Bound, FixedState>),
    /// See `ExchangeKind::Fanout`.
    Fanout(Bound),
    /// See `ExchangeKind::Topic`.
    Topic(TopicTrie),
    /// See `ExchangeKind::Headers`.
    Headers(HeadersRouter),
}

/// Destinations in their order, with how many bindings lead to each.
#[derive(Clone, Debug, Default)]
pub struct Bound(Vec<(Destination, u32)>);

impl Bound {
    /// One binding more.
    pub fn add(&mut self, destination: Destination) {
        match self.0.binary_search_by(|(known, _)| known.cmp(&destination)) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (destination, 1)),
        }
    }

    /// One binding less.
    pub fn remove(&mut self, destination: &Destination) {
        if let Ok(at) = self.0.binary_search_by(|(known, _)| known.cmp(destination)) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    /// Whether nothing is bound.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `found` with each destination, once.
    pub fn each(&self, found: &mut impl FnMut(&Destination)) {
        self.0.iter().for_each(|(destination, _)| found(destination));
    }
}

impl Router {
    /// A router without bindings; `hash_key` must not be known to clients.
    pub fn new(kind: ExchangeKind, hash_key: u64) -> Router {
        match kind {
            ExchangeKind::Direct => Router::Direct(HashMap::with_hasher(FixedState::with_seed(hash_key))),
            ExchangeKind::Fanout => Router::Fanout(Bound::default()),
            ExchangeKind::Topic => Router::Topic(TopicTrie::new(hash_key)),
            ExchangeKind::Headers => Router::Headers(HeadersRouter::default()),
        }
    }

    /// Something is bound.
    pub fn bind(&mut self, key: &[u8], arguments: &[u8], destination: Destination) {
        match self {
            Router::Direct(keys) => keys.entry(key.into()).or_default().add(destination),
            Router::Fanout(bound) => bound.add(destination),
            Router::Topic(trie) => trie.bind(key, destination),
            Router::Headers(headers) => headers.bind(arguments, destination),
        }
    }

    /// A binding goes, which was bound.
    pub fn unbind(&mut self, key: &[u8], arguments: &[u8], destination: &Destination) {
        match self {
            Router::Direct(keys) => {
                if let Some(bound) = keys.get_mut(key) {
                    bound.remove(destination);
                    if bound.is_empty() {
                        keys.remove(key);
                    }
                }
            }
            Router::Fanout(bound) => bound.remove(destination),
            Router::Topic(trie) => trie.unbind(key, destination),
            Router::Headers(headers) => headers.unbind(arguments, destination),
        }
    }

    /// Whether nothing is bound.
    pub fn is_empty(&self) -> bool {
        match self {
            Router::Direct(keys) => keys.is_empty(),
            Router::Fanout(bound) => bound.is_empty(),
            Router::Topic(trie) => trie.is_empty(),
            Router::Headers(headers) => headers.is_empty(),
        }
    }

    /// Calls `found` with the destinations of a message; with some more than once, where several bindings match.
    /// `headers` is the message's table of headers, encoded, if it has one.
    pub fn route(&self, key: &[u8], headers: Option<&[u8]>, found: &mut impl FnMut(&Destination)) {
        match self {
            Router::Direct(keys) => keys.get(key).into_iter().for_each(|bound| bound.each(found)),
            Router::Fanout(bound) => bound.each(found),
            Router::Topic(trie) => trie.route(key, found),
            Router::Headers(router) => router.route(headers, found),
        }
    }
}

impl Exchange {
    /// An exchange to which nothing is bound.
    pub fn new(spec: ExchangeSpec, alternate: Option<Arc<str>>, changed: Lsn, hash_key: u64) -> Exchange {
        let router = Router::new(spec.kind, hash_key);
        let mut page = Page::default();
        page.touch();
        Exchange { spec, alternate, bindings: BTreeSet::new(), router, changed, page }
    }
}
