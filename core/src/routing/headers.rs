//! The bindings of a headers exchange (AMQP 0-9-1 §3.1.3.4): by the headers of the message, not by its routing key.

use super::exchange::Destination;
use crate::amqp::wire::{ShortString, Table, Value};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What must match (`x-match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    All,
    Any,
}

/// When a binding matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    rule: Rule,
    fields: Vec<(ShortString, Value)>,
}

/// All bindings, in the order they were made.
#[derive(Default)]
pub struct HeadersRouter {
    bindings: Vec<(Box<[u8]>, Pattern, Destination)>,
}

impl Pattern {
    /// What a binding's arguments say. Headers that begin with "x-" count only where `x-match` says "with-x".
    ///
    /// # Errors
    /// `x-match` is none of all, any, all-with-x, any-with-x.
    pub fn check(arguments: &Table) -> Result<Pattern, String> {
        let (rule, with_x) = match arguments.get("x-match") {
            None => (Rule::All, false),
            Some(value) => match value.as_str() {
                Some("all") => (Rule::All, false),
                Some("any") => (Rule::Any, false),
                Some("all-with-x") => (Rule::All, true),
                Some("any-with-x") => (Rule::Any, true),
                Some(other) => {
                    return Err(format!(
                        "invalid x-match field value '{other}'; expected all, any, all-with-x or any-with-x"
                    ));
                }
                None => return Err("invalid x-match field type; expected a text".into()),
            },
        };
        let counts = |name: &[u8]| name != b"x-match" && (with_x || !name.starts_with(b"x-"));
        let fields = arguments.iter().filter(|(name, _)| counts(name.as_bytes()));
        let fields = fields.map(|(name, value)| (name.to_short_string(), value.clone())).collect();
        Ok(Pattern { rule, fields })
    }

    fn matches(&self, headers: &Named<'_>) -> bool {
        let matches = |(name, wanted): &(ShortString, Value)| {
            let found = headers.get(name.as_short_str().as_bytes());
            // Without a value only the header's presence counts.
            found.is_some_and(|value| *wanted == Value::Void || wanted.is_equivalent(value))
        };
        match self.rule {
            Rule::All => self.fields.iter().all(matches),
            Rule::Any => self.fields.iter().any(matches),
        }
    }
}

/// Headers by their names; of one name the first counts.
type Named<'a> = BTreeMap<&'a [u8], &'a Value>;

fn named(table: &Table) -> Named<'_> {
    let mut named = Named::new();
    for (name, value) in table.iter() {
        named.entry(name.as_bytes()).or_insert(value);
    }
    named
}

impl HeadersRouter {
    /// Whether nothing is bound.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Something is bound by these arguments, which were checked.
    pub fn bind(&mut self, arguments: &[u8], destination: Destination) {
        let table = Table::decode(arguments).unwrap_or_default();
        if let Ok(pattern) = Pattern::check(&table) {
            self.bindings.push((arguments.into(), pattern, destination));
        }
    }

    /// One binding by these arguments goes.
    pub fn unbind(&mut self, arguments: &[u8], destination: &Destination) {
        let is_it =
            |(its, _, to): &(Box<[u8]>, Pattern, Destination)| **its == *arguments && to == destination;
        if let Some(at) = self.bindings.iter().position(is_it) {
            self.bindings.remove(at);
        }
    }

    /// Calls `found` with the destinations of a message with these headers, an encoded table.
    pub fn route(&self, headers: Option<&[u8]>, found: &mut impl FnMut(&Destination)) {
        let table = headers.and_then(|headers| Table::decode(headers).ok()).unwrap_or_default();
        let named = named(&table);
        for (_, pattern, destination) in &self.bindings {
            if pattern.matches(&named) {
                found(destination);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::QueueId;

    fn table(fields: &[(&str, Value)]) -> Table {
        let mut table = Table::new();
        for (name, value) in fields {
            table.push(ShortString::from_bytes(name.as_bytes()).expect("short"), value.clone());
        }
        table
    }

    #[test]
    fn all_any_and_with_x() {
        // Broken: a headers exchange routes nothing, or everything.
        let pattern = |kind: &str| {
            let fields = [("x-match", Value::text(kind)), ("a", Value::I32(1)), ("x-b", Value::Void)];
            Pattern::check(&table(&fields)).expect("valid")
        };
        let (only_a, only_b) = (table(&[("a", Value::I64(1))]), table(&[("x-b", Value::text("z"))]));
        let both = table(&[("a", Value::U8(1)), ("x-b", Value::Bool(true))]);
        let found = |kind| {
            [&only_a, &only_b, &both, &Table::new()].map(|headers| pattern(kind).matches(&named(headers)))
        };
        assert_eq!(found("all"), [true, false, true, false]);
        assert_eq!(found("any"), [true, false, true, false]);
        assert_eq!(found("all-with-x"), [false, false, true, false]);
        assert_eq!(found("any-with-x"), [true, true, true, false]);
        assert!(Pattern::check(&table(&[("x-match", Value::text("some"))])).is_err());
    }

    #[test]
    fn unbinding_takes_only_its_own() {
        // Broken: one binding's end is another's.
        let mut router = HeadersRouter::default();
        let arguments = table(&[("a", Value::I32(1))]).encode();
        router.bind(&arguments, Destination::Queue(QueueId(1)));
        router.bind(&arguments, Destination::Queue(QueueId(2)));
        router.unbind(&arguments, &Destination::Queue(QueueId(1)));
        let mut found = Vec::new();
        router.route(Some(&arguments), &mut |to| found.push(to.clone()));
        assert_eq!(found, [Destination::Queue(QueueId(2))]);
    }
}
