//! The arguments of exchanges and queues, as RabbitMQ's clients write them: what each means, and which are refused.

use super::fault::Fault;
use super::wire::{Table, Value};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

/// What happens to a message for a queue at its bound (`x-overflow`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueOverflow {
    /// The oldest goes.
    #[default]
    DropHead,
    /// The new one is refused: its publisher is told by Basic.Nack.
    RejectPublish,
    /// The new one is refused, and dead-lettered.
    RejectPublishDeadLetter,
}

/// What a queue's arguments say.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueueArguments {
    /// Milliseconds that a message may stay (`x-message-ttl`).
    pub message_ttl_ms: Option<u64>,
    /// Milliseconds without use after which the queue goes (`x-expires`).
    pub expires_ms: Option<u64>,
    /// Messages ready at the most (`x-max-length`).
    pub max_length: Option<u64>,
    /// Body bytes ready at the most (`x-max-length-bytes`).
    pub max_length_bytes: Option<u64>,
    /// What happens at either bound.
    pub overflow: QueueOverflow,
    /// The exchange that takes what the queue gives up (`x-dead-letter-exchange`).
    pub dead_letter_exchange: Option<Arc<str>>,
    /// The routing key it gets then (`x-dead-letter-routing-key`).
    pub dead_letter_key: Option<Box<[u8]>>,
    /// The highest priority (`x-max-priority`).
    pub max_priority: u8,
    /// One consumer at a time (`x-single-active-consumer`).
    pub single_active_consumer: bool,
    /// Times that a message may come back (`x-delivery-limit`).
    pub delivery_limit: Option<u64>,
    /// A quorum queue: everything in it survives the broker.
    pub quorum: bool,
}

/// What an exchange's arguments say.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ExchangeArguments {
    /// Where unroutable messages go (`alternate-exchange`).
    pub alternate: Option<Arc<str>>,
}

/// Arguments that say how RabbitMQ stores or spreads a queue, which means nothing here.
const WITHOUT_MEANING: [&str; 11] = [
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-quorum-initial-group-size",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-dead-letter-strategy",
    "x-ha-policy",
    "x-ha-nodes",
    "x-consumer-timeout",
];

/// The longest time, in milliseconds: ten years, as in RabbitMQ.
pub(super) const TIME_MAX_MS: u64 = 10 * 365 * 24 * 3600 * 1000;

impl QueueArguments {
    /// Whether what waits in the queue is counted.
    pub fn is_bounded(&self) -> bool {
        self.max_length.is_some() || self.max_length_bytes.is_some()
    }

    /// What was checked before and recorded.
    pub fn of(encoded: &[u8]) -> QueueArguments {
        let table = Table::decode(encoded).unwrap_or_default();
        QueueArguments::check(&table).unwrap_or_default()
    }

    /// Checks the arguments of a declaration.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    pub fn check(table: &Table) -> Result<QueueArguments, String> {
        let mut arguments = QueueArguments::default();
        for (name, value) in table.iter() {
            let Some(name) = name.as_str() else { continue };
            arguments.take(name, value).map_err(|why| format!("invalid arg '{name}': {why}"))?;
        }
        if arguments.dead_letter_key.is_some() && arguments.dead_letter_exchange.is_none() {
            return Err("invalid arg 'x-dead-letter-routing-key': there is no x-dead-letter-exchange".into());
        }
        if arguments.quorum && arguments.max_priority > 0 {
            return Err("invalid arg 'x-max-priority': a quorum queue has no priorities".into());
        }
        Ok(arguments)
    }

    fn take(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "x-message-ttl" => self.message_ttl_ms = Some(number(value, 0, TIME_MAX_MS)?),
            "x-expires" => self.expires_ms = Some(number(value, 1, TIME_MAX_MS)?),
            "x-max-length" => self.max_length = Some(number(value, 0, u64::MAX)?),
            "x-max-length-bytes" => self.max_length_bytes = Some(number(value, 0, u64::MAX)?),
            "x-max-priority" => self.max_priority = number(value, 0, 255)? as u8,
            // As in RabbitMQ: no limit.
            "x-delivery-limit" if value.as_integer() == Some(-1) => self.delivery_limit = None,
            "x-delivery-limit" => self.delivery_limit = Some(number(value, 0, u64::MAX)?),
            "x-dead-letter-exchange" => self.dead_letter_exchange = Some(text(value)?.into()),
            "x-dead-letter-routing-key" => self.dead_letter_key = Some(text(value)?.as_bytes().into()),
            "x-single-active-consumer" => {
                self.single_active_consumer = value.as_bool().ok_or("it must be true or false")?;
            }
            "x-overflow" => {
                self.overflow = match text(value)? {
                    "drop-head" => QueueOverflow::DropHead,
                    "reject-publish" => QueueOverflow::RejectPublish,
                    "reject-publish-dlx" => QueueOverflow::RejectPublishDeadLetter,
                    other => {
                        return Err(format!(
                            "'{other}' is none of drop-head, reject-publish, reject-publish-dlx"
                        ));
                    }
                }
            }
            "x-queue-type" => {
                self.quorum = match text(value)? {
                    "classic" => false,
                    "quorum" => true,
                    other => return Err(format!("'{other}' is neither classic nor quorum")),
                }
            }
            _ if name.starts_with("x-") && !WITHOUT_MEANING.contains(&name) => {
                return Err("no such argument is known; what it asks for would not be done".into());
            }
            _ => {}
        }
        Ok(())
    }
}

impl ExchangeArguments {
    /// What was checked before and recorded.
    pub fn of(encoded: &[u8]) -> ExchangeArguments {
        let table = Table::decode(encoded).unwrap_or_default();
        ExchangeArguments::check(&table).unwrap_or_default()
    }

    /// Checks the arguments of a declaration.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    pub fn check(table: &Table) -> Result<ExchangeArguments, String> {
        let mut arguments = ExchangeArguments::default();
        for (name, value) in table.iter() {
            let wrong = |why| format!("invalid arg '{name}': {why}");
            if name.as_str() == Some("alternate-exchange") {
                arguments.alternate = Some(text(value).map_err(wrong)?.into());
            }
        }
        Ok(arguments)
    }
}

fn number(value: &Value, least: u64, most: u64) -> Result<u64, String> {
    let number = value.as_integer().ok_or("it must be an integer")?;
    let number = u64::try_from(number).map_err(|_| format!("{number} is less than {least}"))?;
    match number {
        _ if number < least => Err(format!("{number} is less than {least}")),
        _ if number > most => Err(format!("{number} is more than {most}")),
        _ => Ok(number),
    }
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().filter(|text| text.len() <= 255).ok_or_else(|| "it must be a text".into())
}

/// An argument of a declaration that is not what it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    argument: String,
    current: Option<Value>,
    received: Option<Value>,
}

impl Difference {
    /// 406, in RabbitMQ's words.
    pub fn fault(&self, what: &str, name: &str) -> Fault {
        let Difference { argument, current, received } = self;
        let both = current.is_some() && received.is_some();
        let said = |value: &Option<Value>| match value {
            None => String::from("none"),
            Some(value) if both => format!("'{}'", shown(value)),
            Some(value) => format!("the value '{}' of type '{}'", shown(value), value.type_name()),
        };
        inequivalent(argument, what, name, &said(received), &said(current))
    }
}

/// 406, in RabbitMQ's words: what is declared again is not what is there.
pub(crate) fn inequivalent(argument: &str, what: &str, name: &str, received: &str, current: &str) -> Fault {
    Fault::precondition(format!(
        "inequivalent arg '{argument}' for {what} '{name}' in vhost '/': received {received} but current is {current}"
    ))
}

fn shown(value: &Value) -> String {
    match (value.as_str(), value.as_integer(), value.as_bool()) {
        (Some(text), _, _) => text.into(),
        (_, Some(number), _) => format!("{number}"),
        (_, _, Some(flag)) => format!("{flag}"),
        _ => String::from("..."),
    }
}

/// Whether RabbitMQ takes both tables for the same declaration; else the first argument that differs. A classic queue is
/// what a queue is when nothing is said.
pub(crate) fn difference(before: &Table, now: &Table) -> Option<Difference> {
    let known = |name: &str| name.starts_with("x-") || name == "alternate-exchange";
    let names = before.iter().chain(now.iter()).filter_map(|(name, _)| name.as_str());
    let differs = |name: &&str| match (before.get(name), now.get(name)) {
        (Some(before), Some(now)) => !before.is_equivalent(now),
        (Some(one), None) | (None, Some(one)) => *name != "x-queue-type" || one.as_str() != Some("classic"),
        (None, None) => false,
    };
    names.filter(|name| known(name)).find(differs).map(|name| Difference {
        argument: name.into(),
        current: before.get(name).cloned(),
        received: now.get(name).cloned(),
    })
}
