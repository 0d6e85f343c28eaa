//! The retained message of each topic of one virtual host (MQTT 3.1.1 §3.3.1.3).

use crate::durable::page::Page;
use crate::ids::{Lsn, MessageId};
use crate::mqtt::topic::TopicFilter;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

/// Topics of a page.
const PAGE: usize = 64;

/// What a topic retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The message.
    pub message: MessageId,
    /// The record that put it there.
    pub changed: Lsn,
}

/// Retained messages, by topic. Each topic keeps its slot as long as it retains something; a page is a stretch of
/// slots, which a checkpoint writes when something of it has changed.
#[derive(Default)]
pub struct RetainedTopics {
    topics: BTreeMap<Arc<str>, (Retained, usize)>,
    slots: Vec<Option<Arc<str>>>,
    free: Vec<usize>,
    pages: Vec<Page>,
    /// The last record that took a message away. Whoever says that a topic retains nothing waits for it.
    last_removal: Lsn,
}

/// How far a walk through the retained topics got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// On behind this topic.
    After(Box<str>),
    /// All seen.
    Done,
}

impl RetainedTopics {
    /// Topics that retain a message.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether no topic retains a message.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// What `topic` retains.
    pub fn find(&self, topic: &str) -> Option<Retained> {
        self.topics.get(topic).map(|(retained, _)| *retained)
    }

    /// The record that made what `topic` retains, or does not retain, what it is.
    pub fn changed(&self, topic: &str) -> Lsn {
        self.find(topic).map_or(self.last_removal, |retained| retained.changed)
    }

    /// All, in the order of their topics.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Retained)> {
        self.topics.iter().map(|(topic, (retained, _))| (&**topic, *retained))
    }

    /// Replaces what `topic` retains; what it retained before.
    pub fn set(&mut self, topic: &str, retained: Retained) -> Option<Retained> {
        if let Some((found, slot)) = self.topics.get_mut(topic) {
            self.pages[*slot / PAGE].touch();
            return Some(core::mem::replace(found, retained));
        }
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.insert(topic.into(), retained, slot);
        self.pages[slot / PAGE].touch();
        None
    }

    /// Takes away what `topic` retains; what it was.
    pub fn clear(&mut self, topic: &str, lsn: Lsn) -> Option<Retained> {
        self.last_removal = self.last_removal.max(lsn);
        let (retained, slot) = self.topics.remove(topic)?;
        self.slots[slot] = None;
        self.free.push(slot);
        self.pages[slot / PAGE].touch();
        Some(retained)
    }

    fn insert(&mut self, topic: Arc<str>, retained: Retained, slot: usize) {
        while self.slots.len() <= slot {
            self.slots.push(None);
        }
        while self.pages.len() <= slot / PAGE {
            self.pages.push(Page::default());
        }
        self.slots[slot] = Some(Arc::clone(&topic));
        self.topics.insert(topic, (retained, slot));
    }

    /// How many pages there are.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The page of this number.
    pub(crate) fn page(&self, number: usize) -> &Page {
        &self.pages[number]
    }

    /// The page of this number.
    pub(crate) fn page_mut(&mut self, number: usize) -> Option<&mut Page> {
        self.pages.get_mut(number)
    }

    /// What the topics of a page retain.
    pub(crate) fn of_page(&self, number: usize) -> impl Iterator<Item = (&Arc<str>, Retained)> {
        let slots = self.slots.iter().skip(number * PAGE).take(PAGE).flatten();
        slots.map(|topic| (topic, self.topics[topic].0))
    }

    /// Takes the image of a page. Two images may have the same topic, which moved from one page to another in
    /// between: the newer one is right, and the other page has changed. False: that many topics do not fit, or the
    /// page is there already.
    pub(crate) fn restore(&mut self, number: usize, page: Page, topics: Vec<(Arc<str>, Retained)>) -> bool {
        let there = self.slots.iter().skip(number * PAGE).take(PAGE).flatten().next().is_some();
        if there || topics.len() > PAGE || number >= u32::MAX as usize {
            return false;
        }
        while self.pages.len() <= number {
            self.pages.push(Page::default());
        }
        self.pages[number] = page;
        for (index, (topic, retained)) in topics.into_iter().enumerate() {
            match self.topics.get(&topic) {
                Some((newer, _)) if newer.changed >= retained.changed => self.pages[number].touch(),
                found => {
                    if let Some(&(_, slot)) = found {
                        self.pages[slot / PAGE].touch();
                        self.slots[slot] = None;
                    }
                    self.insert(topic, retained, number * PAGE + index);
                }
            }
        }
        true
    }

    /// All images are taken: the slots between are free.
    pub(crate) fn restored(&mut self) {
        let free = self.slots.iter().enumerate().filter(|(_, topic)| topic.is_none());
        self.free = free.map(|(slot, _)| slot).rev().collect();
    }

    /// Calls `found` for the retained messages that `filter` matches and that are older than `before`, beginning
    /// behind `after`, looking at `budget` topics at the most; `found` may end the walk by returning false, and
    /// the topic it was called for counts as not seen. How far it got, and how many topics it looked at.
    pub fn walk(
        &self,
        filter: TopicFilter<'_>,
        before: MessageId,
        after: Option<&str>,
        budget: usize,
        mut found: impl FnMut(&str, MessageId) -> bool,
    ) -> (Progress, usize) {
        let prefix = filter.literal_prefix();
        let from = match after {
            // The empty topic, which none is, stands for "nothing seen yet".
            None | Some("") => Bound::Included(prefix),
            Some(topic) => Bound::Excluded(topic),
        };
        let mut last: Option<&str> = after;
        let mut seen = 0;
        for (topic, (retained, _)) in self.topics.range::<str, _>((from, Bound::Unbounded)) {
            if !topic.starts_with(prefix) {
                break;
            }
            let fits = retained.message < before && filter.matches(topic);
            if seen >= budget || (fits && !found(topic, retained.message)) {
                return (Progress::After(last.unwrap_or_default().into()), seen);
            }
            seen += 1;
            last = Some(topic);
        }
        (Progress::Done, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        // Broken: a new subscriber gets retained messages that do not match, misses some, or gets some twice.
        #[test]
        fn walks_exactly_the_matching_topics(
            topics in prop::collection::btree_set("[ab!]{0,2}(/[ab]{0,2}){0,3}", 1..60),
            filter in "([ab+]/|/){0,3}([ab]{1,2}|[+#])",
            budget in 1usize..9,
        ) {
            let Ok(filter) = TopicFilter::new(&filter) else { return Ok(()) };
            let mut retained = RetainedTopics::default();
            let topics: Vec<String> = topics.into_iter().filter(|t| !t.is_empty()).collect();
            for (number, topic) in topics.iter().enumerate() {
                retained.set(topic, Retained { message: MessageId(number as u64), changed: Lsn(1) });
            }
            let before = MessageId(topics.len() as u64 / 2);
            let (mut found, mut after) = (Vec::new(), None::<Box<str>>);
            loop {
                let (progress, _) = retained.walk(filter, before, after.as_deref(), budget, |topic, _| {
                    found.push(String::from(topic));
                    true
                });
                match progress {
                    Progress::After(topic) => after = Some(topic),
                    Progress::Done => break,
                }
            }
            let expected: Vec<String> =
                topics[..before.0 as usize].iter().filter(|topic| filter.matches(topic)).cloned().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
