//! Which filters match which topics, written as plainly as MQTT 3.1.1 §4.7 says it.

use crate::scenario::shared_filter;
use std::collections::BTreeMap;

/// All topics and filters of a scenario, numbered.
#[derive(Default)]
pub(crate) struct Topics {
    topics: Vec<String>,
    filters: Vec<String>,
    topic_numbers: BTreeMap<String, usize>,
    filter_numbers: BTreeMap<String, usize>,
    /// By filter, then by topic.
    matching: Vec<Vec<bool>>,
}

impl Topics {
    pub(crate) fn topic(&mut self, name: &str) -> usize {
        if let Some(number) = self.topic_numbers.get(name) {
            return *number;
        }
        self.topics.push(name.to_owned());
        self.topic_numbers.insert(name.to_owned(), self.topics.len() - 1);
        for (filter, row) in self.filters.iter().zip(&mut self.matching) {
            row.push(matches(shared_filter(filter).unwrap_or(filter), name));
        }
        self.topics.len() - 1
    }

    pub(crate) fn filter(&mut self, filter: &str) -> usize {
        if let Some(number) = self.filter_numbers.get(filter) {
            return *number;
        }
        self.filters.push(filter.to_owned());
        self.filter_numbers.insert(filter.to_owned(), self.filters.len() - 1);
        let filter = shared_filter(filter).unwrap_or(filter);
        self.matching.push(self.topics.iter().map(|topic| matches(filter, topic)).collect());
        self.filters.len() - 1
    }

    pub(crate) fn number(&self, topic: &str) -> Option<usize> {
        self.topic_numbers.get(topic).copied()
    }

    pub(crate) fn name(&self, topic: usize) -> &str {
        &self.topics[topic]
    }

    /// Whether the filter is of a shared subscription.
    pub(crate) fn is_shared(&self, filter: usize) -> bool {
        shared_filter(&self.filters[filter]).is_some()
    }

    /// The filter in full.
    pub(crate) fn filter_name(&self, filter: usize) -> &str {
        &self.filters[filter]
    }

    pub(crate) fn matching(&self, filter: usize, topic: usize) -> bool {
        self.matching[filter][topic]
    }

    pub(crate) fn topic_count(&self) -> usize {
        self.topics.len()
    }

    pub(crate) fn filter_count(&self) -> usize {
        self.filters.len()
    }
}

/// Whether the filter matches the topic name.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    // [MQTT-4.7.2-1]: a wildcard at the beginning matches no topic that begins with $.
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for part in filter.split('/') {
        if part == "#" {
            return true;
        }
        match levels.next() {
            Some(level) if part == "+" || part == level => {}
            Some(_) | None => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// Were it to fail, the checkers would expect deliveries that the specification forbids.
    #[test]
    fn filters_match_as_the_specification_says() {
        for (filter, topic, expected) in [
            ("a/b", "a/b", true),
            ("a/+", "a/b", true),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("#", "a/b", true),
            ("+/+", "/a", true),
            ("+", "/a", false),
            ("a/+", "a", false),
            ("a", "a/b", false),
            ("#", "$a", false),
            ("$a/#", "$a/b", true),
        ] {
            assert_eq!(matches(filter, topic), expected, "{filter} and {topic}");
        }
    }
}
