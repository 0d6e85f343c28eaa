//! The subscription trie: finds the subscribers of a topic (MQTT 3.1.1 §4.7).
//!
//! One node a level. A node keeps who subscribed exactly there, and who subscribed with `#` below it: `#` matches
//! the node's own level too (§4.7.1.2). Subscriber lists are sorted by session. The edges of all nodes are one
//! hash table, keyed from the broker's seed because clients choose the level names.

use crate::durable::record::Subscription;
use crate::ids::SessionId;
use crate::mqtt::packet::QoS;
use crate::mqtt::topic::TopicFilter;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use foldhash::quality::FixedState;
use hashbrown::{Equivalent, HashMap};

/// A session that subscribed, and what it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// The session.
    pub session: SessionId,
    /// The QoS granted.
    pub qos: QoS,
    /// Not what it published itself.
    pub no_local: bool,
    /// RETAIN is sent as it was published.
    pub retain_as_published: bool,
    /// The subscription's identifier; 0 for none.
    pub identifier: u32,
    /// It is the session of a group that shares the subscription.
    pub is_group: bool,
}

impl Subscriber {
    /// A session with one of its subscriptions.
    pub fn new(session: SessionId, subscription: &Subscription, is_group: bool) -> Subscriber {
        let Subscription { qos, no_local, retain_as_published, identifier } = *subscription;
        Subscriber { session, qos, no_local, retain_as_published, identifier, is_group }
    }
}

/// All subscriptions of one virtual host.
pub struct Subscriptions {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    edges: HashMap<Edge, NodeId, FixedState>,
    count: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct NodeId(u32);

const ROOT: NodeId = NodeId(0);

#[derive(Default)]
struct Node {
    /// The edge that leads here; none for the root.
    edge: Option<Edge>,
    plus: Option<NodeId>,
    /// Edges that lead on, `plus` included.
    children: u32,
    exact: Vec<Subscriber>,
    below: Vec<Subscriber>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Edge {
    parent: NodeId,
    level: Box<str>,
}

struct EdgeRef<'a> {
    parent: NodeId,
    level: &'a str,
}

impl Hash for Edge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        EdgeRef { parent: self.parent, level: &self.level }.hash(state);
    }
}

impl Hash for EdgeRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.parent.0);
        state.write(self.level.as_bytes());
    }
}

impl Equivalent<Edge> for EdgeRef<'_> {
    fn equivalent(&self, edge: &Edge) -> bool {
        self.parent == edge.parent && self.level == &*edge.level
    }
}

impl Subscriptions {
    /// No subscriptions; `hash_key` must not be known to clients.
    pub fn new(hash_key: u64) -> Subscriptions {
        Subscriptions {
            nodes: Vec::from([Node::default()]),
            free: Vec::new(),
            edges: HashMap::with_hasher(FixedState::with_seed(hash_key)),
            count: 0,
        }
    }

    /// Subscriptions held.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts every subscriber of `topic` into `found`, which is empty: once a session, with the highest QoS of its matching
    /// subscriptions [MQTT-3.3.5-1], in the order of the sessions. `publisher` is the session that published it.
    pub fn find(&self, topic: &str, publisher: Option<SessionId>, found: &mut Vec<Subscriber>) {
        let mut lists = 0;
        self.walk_all(topic, &mut |list| {
            found.extend_from_slice(list);
            lists += 1;
        });
        // [MQTT-3.8.3-3] of MQTT 5: No Local.
        if publisher.is_some() {
            found.retain(|subscriber| !(subscriber.no_local && publisher == Some(subscriber.session)));
        }
        if lists > 1 {
            merge(found);
        }
    }

    /// Appends the identifiers of the session's subscriptions that match `topic`, in ascending order; of its `own` message
    /// without those with No Local. [MQTT-3.3.4-4], [MQTT-3.8.3-3]
    pub fn identifiers(&self, topic: &str, session: SessionId, own: bool, found: &mut Vec<u32>) {
        self.walk_all(topic, &mut |list| {
            if let Ok(at) = list.binary_search_by_key(&session, |subscriber| subscriber.session) {
                let Subscriber { identifier, no_local, .. } = list[at];
                found.extend(Some(identifier).filter(|_| identifier > 0 && !(own && no_local)));
            }
        });
        found.sort_unstable(); // one that stands for several subscriptions comes as often (§3.3.4)
    }

    /// Hands out every list of subscribers that match.
    fn walk_all(&self, topic: &str, take: &mut impl FnMut(&[Subscriber])) {
        // Wildcards in the first level do not match topics that begin with "$". [MQTT-4.7.2-1]
        if topic.starts_with('$') {
            self.walk_literal(ROOT, topic, take);
        } else {
            self.walk(ROOT, Some(topic), take);
        }
    }

    fn walk(&self, node: NodeId, rest: Option<&str>, take: &mut impl FnMut(&[Subscriber])) {
        let here = self.node(node);
        hand_out(&here.below, take);
        let Some(rest) = rest else {
            return hand_out(&here.exact, take);
        };
        if here.children == 0 {
            return;
        }
        if let Some(plus) = here.plus {
            let tail = rest.split_once('/').map(|(_, tail)| tail);
            self.walk(plus, tail, take);
        }
        self.walk_literal(node, rest, take);
    }

    fn walk_literal(&self, node: NodeId, rest: &str, take: &mut impl FnMut(&[Subscriber])) {
        let (level, tail) = split_level(rest);
        if let Some(&child) = self.edges.get(&EdgeRef { parent: node, level }) {
            self.walk(child, tail, take);
        }
    }

    /// Adds a subscription, or replaces its QoS. [MQTT-3.8.4-3]
    pub fn insert(&mut self, filter: TopicFilter<'_>, subscriber: Subscriber) {
        let mut node = ROOT;
        let mut rest = Some(filter.as_str());
        while let Some(text) = rest {
            let (level, tail) = split_level(text);
            if level == "#" {
                self.count += usize::from(put(&mut self.node_mut(node).below, subscriber));
                return;
            }
            node = self.child_or_new(node, level);
            rest = tail;
        }
        self.count += usize::from(put(&mut self.node_mut(node).exact, subscriber));
    }

    /// Takes a subscription away; whether it was there.
    pub fn remove(&mut self, filter: TopicFilter<'_>, session: SessionId) -> bool {
        let mut node = ROOT;
        let mut rest = Some(filter.as_str());
        let mut below = false;
        while let Some(text) = rest {
            let (level, tail) = split_level(text);
            if level == "#" {
                below = true;
                break;
            }
            match self.child(node, level) {
                Some(child) => node = child,
                None => return false,
            }
            rest = tail;
        }
        let found = self.node_mut(node);
        let removed = take(if below { &mut found.below } else { &mut found.exact }, session);
        self.count -= usize::from(removed);
        self.prune(node);
        removed
    }

    fn child(&self, parent: NodeId, level: &str) -> Option<NodeId> {
        if level == "+" {
            self.node(parent).plus
        } else {
            self.edges.get(&EdgeRef { parent, level }).copied()
        }
    }

    fn child_or_new(&mut self, parent: NodeId, level: &str) -> NodeId {
        if let Some(child) = self.child(parent, level) {
            return child;
        }
        let edge = Edge { parent, level: level.into() };
        let node = Node { edge: Some(edge.clone()), ..Node::default() };
        let child = match self.free.pop() {
            Some(id) => {
                *self.node_mut(id) = node;
                id
            }
            None => {
                let id = u32::try_from(self.nodes.len()).expect("memory ends long before 2^32 nodes");
                self.nodes.push(node);
                NodeId(id)
            }
        };
        self.node_mut(parent).children += 1;
        if level == "+" {
            self.node_mut(parent).plus = Some(child);
        } else {
            self.edges.insert(edge, child);
        }
        child
    }

    /// Frees `node` and what leads to it, as far as nobody needs it.
    fn prune(&mut self, mut node: NodeId) {
        loop {
            let here = self.node_mut(node);
            if here.children > 0 || !here.exact.is_empty() || !here.below.is_empty() {
                return;
            }
            let Some(edge) = here.edge.take() else { return };
            if &*edge.level == "+" {
                self.node_mut(edge.parent).plus = None;
            } else {
                self.edges.remove(&EdgeRef { parent: edge.parent, level: &edge.level });
            }
            self.node_mut(edge.parent).children -= 1;
            self.free.push(node);
            node = edge.parent;
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }
}

fn split_level(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((level, tail)) => (level, Some(tail)),
        None => (text, None),
    }
}

fn hand_out(list: &[Subscriber], take: &mut impl FnMut(&[Subscriber])) {
    if !list.is_empty() {
        take(list);
    }
}

/// Leaves one entry of each session: with the highest QoS, with RETAIN as published if any of them wants that.
fn merge(found: &mut Vec<Subscriber>) {
    found.sort_unstable_by_key(|subscriber| (subscriber.session, subscriber.qos));
    let mut kept = 0;
    for index in 0..found.len() {
        let subscriber = found[index];
        if kept > 0 && found[kept - 1].session == subscriber.session {
            let retain_as_published = found[kept - 1].retain_as_published || subscriber.retain_as_published;
            found[kept - 1] = Subscriber { retain_as_published, ..subscriber };
        } else {
            found[kept] = subscriber;
            kept += 1;
        }
    }
    found.truncate(kept);
}

/// Whether the session is new in the list.
fn put(list: &mut Vec<Subscriber>, subscriber: Subscriber) -> bool {
    match list.binary_search_by_key(&subscriber.session, |s| s.session) {
        Ok(at) => {
            list[at] = subscriber;
            false
        }
        Err(at) => {
            list.insert(at, subscriber);
            true
        }
    }
}

fn take(list: &mut Vec<Subscriber>, session: SessionId) -> bool {
    let found = list.binary_search_by_key(&session, |s| s.session);
    if let Ok(at) = found {
        list.remove(at);
    }
    found.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::string::String;
    use proptest::prelude::*;

    fn level() -> impl Strategy<Value = String> {
        prop_oneof![Just(""), Just("a"), Just("b"), Just("$s"), Just("é")].prop_map(String::from)
    }

    fn topic() -> impl Strategy<Value = String> {
        prop::collection::vec(level(), 1..5).prop_map(|levels| levels.join("/"))
    }

    fn filter() -> impl Strategy<Value = String> {
        let level = prop_oneof![3 => level(), 1 => Just(String::from("+"))];
        (prop::collection::vec(level, 0..4), any::<bool>()).prop_map(|(mut levels, hash)| {
            if hash || levels.is_empty() {
                levels.push("#".into());
            }
            levels.join("/")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        // Broken: a subscriber gets what its filters do not match, or misses what they do, or gets it twice.
        #[test]
        fn finds_what_a_naive_matcher_finds(
            steps in prop::collection::vec((filter(), 0u64..6, 0u8..3, prop::bool::weighted(0.7)), 1..40),
            topics in prop::collection::vec(topic(), 1..20),
        ) {
            let mut trie = Subscriptions::new(7);
            let mut model: BTreeMap<(String, SessionId), QoS> = BTreeMap::new();
            for (filter, session, qos, insert) in &steps {
                let (Ok(valid), session) = (TopicFilter::new(filter), SessionId(*session)) else { continue };
                let qos = QoS::from_bits(*qos).expect("0 to 2");
                if *insert {
                    trie.insert(valid, Subscriber::new(session, &Subscription::of_qos(qos), false));
                    model.insert((filter.clone(), session), qos);
                } else {
                    let was_there = model.remove(&(filter.clone(), session)).is_some();
                    prop_assert_eq!(trie.remove(valid, session), was_there);
                }
            }
            prop_assert_eq!(trie.len(), model.len());
            for topic in topics.iter().filter(|topic| !topic.is_empty()) {
                let mut expected: BTreeMap<SessionId, QoS> = BTreeMap::new();
                for ((filter, session), qos) in &model {
                    if TopicFilter::new(filter).expect("it was valid").matches(topic) {
                        let best = expected.entry(*session).or_insert(*qos);
                        *best = (*best).max(*qos);
                    }
                }
                let mut found = Vec::new();
                trie.find(topic, None, &mut found);
                let found: Vec<_> = found.iter().map(|s| (s.session, s.qos)).collect();
                prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "topic {}", topic);
            }
            for (filter, session) in model.keys() {
                trie.remove(TopicFilter::new(filter).expect("it was valid"), *session);
            }
            prop_assert_eq!((trie.edges.len(), trie.free.len() + 1), (0, trie.nodes.len()), "nodes leak");
        }
    }
}
