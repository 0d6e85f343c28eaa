//! Topic names and topic filters (§4.7). Whoever holds one holds a valid one.

use super::packet::Violation;

/// What the filter of a shared subscription begins with (MQTT 5 §4.8.2).
const SHARE: &str = "$share/";

/// A topic name: one character or more, no wildcard, no null character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicName<'a>(&'a str);

/// A topic filter: `+` and `#` stand alone in their levels, `#` only in the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicFilter<'a>(&'a str);

impl<'a> TopicName<'a> {
    /// Checks `text`, which has no null character.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &'a str) -> Result<TopicName<'a>, Violation> {
        if text.is_empty() {
            return Err(Violation::TopicEmpty); // [MQTT-4.7.3-1]
        }
        if text.bytes().any(|byte| byte == b'+' || byte == b'#') {
            return Err(Violation::TopicNameWildcard); // [MQTT-3.3.2-2], [MQTT-4.7.1-1]
        }
        Ok(TopicName(text))
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl<'a> TopicFilter<'a> {
    /// Checks `text`, which has no null character.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &'a str) -> Result<TopicFilter<'a>, Violation> {
        if text.is_empty() {
            return Err(Violation::TopicEmpty); // [MQTT-4.7.3-1]
        }
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            if level.contains('#') && (level != "#" || levels.peek().is_some()) {
                return Err(Violation::HashNotLast); // [MQTT-4.7.1-2]
            }
            if level.contains('+') && level != "+" {
                return Err(Violation::PlusNotAlone); // [MQTT-4.7.1-3]
            }
        }
        Ok(TopicFilter(text))
    }

    /// Checks `text` of a SUBSCRIBE or UNSUBSCRIBE: what begins as a shared subscription has to be one.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn asked_for(text: &'a str) -> Result<TopicFilter<'a>, Violation> {
        if let Some(share) = text.strip_prefix(SHARE) {
            let (name, filter) = share.split_once('/').unwrap_or((share, ""));
            if name.is_empty() || filter.is_empty() {
                return Err(Violation::SharedName); // [MQTT-4.8.2-1]
            }
            if name.contains(['+', '#']) {
                return Err(Violation::SharedNameWildcard); // [MQTT-4.8.2-2]
            }
        }
        TopicFilter::new(text)
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Of a shared subscription, the filter that the group has.
    pub fn share(self) -> Option<TopicFilter<'a>> {
        let (_, filter) = self.0.strip_prefix(SHARE)?.split_once('/')?;
        Some(TopicFilter(filter))
    }

    /// Whether `topic` matches, by the rules read one after the other: byte for byte [MQTT-4.7.3-4].
    pub fn matches(self, topic: &str) -> bool {
        if topic.starts_with('$') && (self.0.starts_with('+') || self.0.starts_with('#')) {
            return false; // [MQTT-4.7.2-1]
        }
        let mut topic_levels = topic.split('/');
        for level in self.0.split('/') {
            match (level, topic_levels.next()) {
                ("#", _) => return true, // the parent level included (§4.7.1.2)
                ("+", Some(_)) => {}
                (literal, Some(found)) if literal == found => {}
                _ => return false,
            }
        }
        topic_levels.next().is_none()
    }

    /// What every matching topic begins with.
    pub fn literal_prefix(self) -> &'a str {
        match self.0.find(['+', '#']) {
            // "a/#" also matches "a": the separator before "#" is not part of what must be there.
            Some(at) if self.0.as_bytes()[at] == b'#' => {
                self.0[..at].strip_suffix('/').unwrap_or(&self.0[..at])
            }
            Some(at) => &self.0[..at],
            None => self.0,
        }
    }
}

/// Levels of a topic name or filter.
pub fn levels(text: &str) -> usize {
    1 + text.bytes().filter(|&byte| byte == b'/').count()
}
