//! The arguments of exchanges and queues, as RabbitMQ's clients write them: what each means, and which are refused.

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
    /// The kind of an exchange that delays (`x-delayed-type`).
    pub delayed_kind: Option<String>,
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

/// The longest time, in milliseconds: what RabbitMQ's timers can take.
const TIME_MAX_MS: u64 = 0xffff_ffff;

impl QueueArguments {
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
        let no_target = arguments.dead_letter_exchange.is_none();
        if arguments.overflow == QueueOverflow::RejectPublishDeadLetter && no_target {
            return Err("invalid arg 'x-overflow': reject-publish-dlx needs an x-dead-letter-exchange".into());
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
            match name.as_str() {
                Some("alternate-exchange") => arguments.alternate = Some(text(value).map_err(wrong)?.into()),
                Some("x-delayed-type") => arguments.delayed_kind = Some(text(value).map_err(wrong)?.into()),
                _ => {}
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

/// Whether RabbitMQ takes both tables for the same declaration; else the first argument that differs.
pub fn difference(before: &Table, now: &Table) -> Option<String> {
    let differs = |left: &Table, right: &Table| {
        let known = |name: &str| name.starts_with("x-") || name == "alternate-exchange";
        left.iter().find_map(|(name, value)| {
            let name = name.as_str().filter(|name| known(name))?;
            let other = right.get(name);
            (!other.is_some_and(|other| other.is_equivalent(value))).then(|| String::from(name))
        })
    };
    differs(before, now).or_else(|| differs(now, before))
}
