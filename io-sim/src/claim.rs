//! What was broken, in a form that stays comparable while a scenario is made smaller.
//!
//! A violation's subject names clients by their index and messages by the index of their publisher and a number. Both
//! shift as soon as a client or an operation is taken away, and topics are renamed. So two violations are **the same
//! claim** when they have the same checker and the same object, which is the subject with
//!
//! - each client (`client 3`) replaced by its client identifier,
//! - each message (`m3.17`) by the client identifier of its publisher, whatever its number,
//! - each topic (`"a/b"`) by the word that it is one,
//! - and a panic's place in the sources added, since otherwise all panics were one.

use crate::outcome::{Checker, Violation};
use crate::scenario::Scenario;
use std::fmt;

/// A checker, and what it complained of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which promise.
    pub checker: Checker,
    /// Of what it was broken; see at the top.
    pub object: String,
}

impl Claim {
    /// What a run of this scenario broke.
    pub fn of(violation: &Violation, scenario: &Scenario) -> Claim {
        let mut object = String::new();
        let mut rest = violation.subject.as_str();
        while !rest.is_empty() {
            let (word, after) = take_word(rest);
            if word == "client"
                && let (number, after) = take_word(after.trim_start())
                && let Some(id) = client(number, scenario)
            {
                object.push_str(id);
                rest = after;
                continue;
            }
            match message(word).and_then(|publisher| client(publisher, scenario)) {
                Some(id) => object.extend(["a message of ", id]),
                None if word.starts_with('"') => object.push_str("a topic"),
                None => object.push_str(word),
            }
            let spaces = after.len() - after.trim_start().len();
            object.push_str(&after[..spaces]);
            rest = &after[spaces..];
        }
        Claim { checker: violation.checker, object }.with_place(violation)
    }

    /// What a run of AMQP's clients broke: the subject as it is.
    pub fn as_told(violation: &Violation) -> Claim {
        Claim { checker: violation.checker, object: violation.subject.clone() }.with_place(violation)
    }

    fn with_place(mut self, violation: &Violation) -> Claim {
        if self.checker == Checker::Panic {
            self.object.extend([" ", violation.text.lines().next().unwrap_or_default()]);
        }
        self
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.checker, self.object)
    }
}

/// A word, or all between quotation marks; and what follows.
fn take_word(text: &str) -> (&str, &str) {
    let quoted = text.strip_prefix('"').and_then(|text| text.rfind('"')).map(|at| at + 2);
    let end = quoted.or_else(|| text.find(' ')).unwrap_or(text.len());
    text.split_at(end.max(1).min(text.len()))
}

fn client<'a>(number: &str, scenario: &'a Scenario) -> Option<&'a str> {
    Some(scenario.clients.get(number.parse::<usize>().ok()?)?.id.as_str())
}

/// The publisher of a message, as a number.
fn message(word: &str) -> Option<&str> {
    let (publisher, sequence) = word.strip_prefix('m')?.split_once('.')?;
    sequence.parse::<u64>().ok().map(|_| publisher)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, shrinking would take one fault of the broker for another, or refuse to take anything away.
    #[test]
    fn an_object_stays_the_same_when_numbers_shift() {
        let scenario = crate::generate(1);
        let object = |subject: &str, checker| {
            let text = "panicked at core/src/x.rs:7:9:\nwords 17".to_owned();
            let violation = Violation { checker, subject: subject.to_owned(), text, at_us: 0 };
            Claim::of(&violation, &scenario).object
        };
        let pairs = [
            ("client 1 m0.17", "client-1 a message of client-0"),
            ("m1.0", "a message of client-1"),
            ("client 0", "client-0"),
            ("client 1 \"a b/m1.2\"", "client-1 a topic"),
            ("broker", "broker"),
            ("client 99", "client 99"),
            ("client", "client"),
        ];
        for (subject, expected) in pairs {
            assert_eq!(object(subject, Checker::Loss), expected);
        }
        assert_eq!(object("broker", Checker::Panic), "broker panicked at core/src/x.rs:7:9:");
    }
}
