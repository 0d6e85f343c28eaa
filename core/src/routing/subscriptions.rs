//! The subscription trie: finds the subscribers of a topic (MQTT 3.1.1 §4.7).
//!
//! One node a level. A node keeps who subscribed exactly there, and who subscribed with `#` below it: `#` matches
//! the node's own level too (§4.7.1.2).

use super::name_tree::{NameTree, NodeId, ROOT};
use crate::durable::record::Subscription;
use crate::ids::SessionId;
use crate::mqtt::packet::QoS;
use crate::mqtt::topic::TopicFilter;
use alloc::vec::Vec;
use core::ops::Range;
use smallvec::SmallVec;

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
    levels: NameTree<Level>,
    count: usize,
}

/// What is kept with a level.
#[derive(Default)]
struct Level {
    /// The level below that is `+`.
    plus: Option<NodeId>,
    /// So many subscribers, the first ones, subscribed with `#` below this level; the others to this very level. Both
    /// are sorted by session.
    below: u32,
    subscribers: SmallVec<[Subscriber; 1]>,
}

/// Which of a level's subscribers.
#[derive(Clone, Copy)]
enum Place {
    /// Those to all below it, and itself.
    Below,
    /// Those to itself alone.
    Exact,
}

impl Level {
    fn range(&self, place: Place) -> Range<usize> {
        match place {
            Place::Below => 0..self.below as usize,
            Place::Exact => self.below as usize..self.subscribers.len(),
        }
    }

    fn list(&self, place: Place) -> &[Subscriber] {
        &self.subscribers[self.range(place)]
    }

    /// Whether the session is new there.
    fn put(&mut self, place: Place, subscriber: Subscriber) -> bool {
        let first = self.range(place).start;
        match self.list(place).binary_search_by_key(&subscriber.session, |s| s.session) {
            Ok(at) => {
                self.subscribers[first + at] = subscriber;
                false
            }
            Err(at) => {
                self.subscribers.insert(first + at, subscriber);
                self.below += u32::from(matches!(place, Place::Below));
                true
            }
        }
    }

    /// Whether the session was there.
    fn take(&mut self, place: Place, session: SessionId) -> bool {
        let found = self.list(place).binary_search_by_key(&session, |s| s.session);
        if let Ok(at) = found {
            self.subscribers.remove(self.range(place).start + at);
            if self.subscribers.len() == 1 {
                self.subscribers.shrink_to_fit(); // into the level itself
            }
            self.below -= u32::from(matches!(place, Place::Below));
        }
        found.is_ok()
    }
}

impl Subscriptions {
    /// No subscriptions; `hash_key` must not be known to clients.
    pub fn new(hash_key: u64) -> Subscriptions {
        Subscriptions { levels: NameTree::new(hash_key), count: 0 }
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
        let here = &self.levels[node];
        hand_out(here.list(Place::Below), take);
        let Some(rest) = rest else {
            return hand_out(here.list(Place::Exact), take);
        };
        if !self.levels.has_children(node) {
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
        if let Some(child) = self.levels.child(node, level.as_bytes())
            && self.levels[node].plus != Some(child)
        {
            self.walk(child, tail, take);
        }
    }

    /// Adds a subscription, or replaces its QoS. [MQTT-3.8.4-3]
    pub fn insert(&mut self, filter: TopicFilter<'_>, subscriber: Subscriber) {
        let (levels, place) = levels_of(filter);
        let mut node = ROOT;
        for level in levels {
            let child = self.levels.child_or_new(node, level.as_bytes());
            if level == "+" {
                self.levels[node].plus = Some(child);
            }
            node = child;
        }
        self.count += usize::from(self.levels[node].put(place, subscriber));
    }

    /// Takes a subscription away; whether it was there.
    pub fn remove(&mut self, filter: TopicFilter<'_>, session: SessionId) -> bool {
        let (mut levels, place) = levels_of(filter);
        let found = levels.try_fold(ROOT, |node, level| self.levels.child(node, level.as_bytes()));
        let Some(node) = found else { return false };
        let removed = self.levels[node].take(place, session);
        self.count -= usize::from(removed);
        self.prune(node);
        removed
    }

    /// Frees `node` and what leads to it, as far as nobody needs it.
    fn prune(&mut self, mut node: NodeId) {
        while self.levels[node].subscribers.is_empty() {
            let Some(parent) = self.levels.remove(node) else { return };
            let above = &mut self.levels[parent];
            if above.plus == Some(node) {
                above.plus = None;
            }
            node = parent;
        }
    }
}

/// The levels on the way to where a subscription is kept, and where it is kept there.
fn levels_of(filter: TopicFilter<'_>) -> (impl Iterator<Item = &str>, Place) {
    let text = filter.as_str();
    let (place, count) = match text.strip_suffix('#') {
        Some(above) => (Place::Below, above.matches('/').count()),
        None => (Place::Exact, usize::MAX),
    };
    (text.split('/').take(count), place)
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
            let identifier = subscriber.identifier.max(found[kept - 1].identifier);
            found[kept - 1] = Subscriber { retain_as_published, identifier, ..subscriber };
        } else {
            found[kept] = subscriber;
            kept += 1;
        }
    }
    found.truncate(kept);
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
            prop_assert_eq!(trie.levels.len(), 0, "nodes leak");
        }
    }
}
