//! Exchanges and bindings: what every client declares, and which queues a message goes to by them.

use super::scenario::{ListenerPlan, MarkPlan, QueuePlan, Scenario};
use super::wire::method;
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

/// The exchange to which all queues but the last are bound.
pub(super) const FANOUT: &str = "all";

/// The exchange of dead letters.
pub(super) const DEAD: &str = "dlx";

/// A topic exchange.
pub(super) const SUBJECTS: &str = "subjects";

/// A headers exchange.
pub(super) const MARKED: &str = "marked";

/// An exchange that delays what goes to all queues but the last.
pub(super) const LATER: &str = "later";

/// The exchange whose routing keys are topics of MQTT.
pub(super) const BRIDGE: &str = "amq.topic";

/// All exchanges that are declared, with their types.
const EXCHANGES: [(&str, &str); 5] = [
    (FANOUT, "fanout"),
    (DEAD, "fanout"),
    (SUBJECTS, "topic"),
    (MARKED, "headers"),
    (LATER, "x-delayed-message"),
];

/// What every client declares: each of them is answered.
pub(super) fn declarations(scenario: &Scenario) -> Vec<AMQPFrame> {
    let mut frames: Vec<AMQPFrame> =
        EXCHANGES.iter().map(|(name, kind)| declare_exchange(name, kind)).collect();
    let last = scenario.queues.len() - 1;
    for (number, plan) in scenario.queues.iter().enumerate() {
        frames.push(declare_queue(plan));
        if number == last {
            frames.push(bind_queue(&plan.name, DEAD, "", FieldTable::default()));
            continue;
        }
        for exchange in [FANOUT, LATER] {
            frames.push(bind_queue(&plan.name, exchange, "", FieldTable::default()));
        }
        for key in &plan.subjects {
            frames.push(bind_queue(&plan.name, SUBJECTS, key, FieldTable::default()));
        }
        for key in &plan.topics {
            frames.push(bind_queue(&plan.name, BRIDGE, key, FieldTable::default()));
        }
        if let Some(mark) = &plan.mark {
            frames.push(bind_queue(&plan.name, MARKED, "", mark_arguments(mark)));
        }
    }
    frames
}

/// The queues that a message goes to; the session of the listener counts as the one behind the last.
pub(super) fn queues_of(
    scenario: &Scenario,
    publish: &basic::Publish,
    properties: &BasicProperties,
) -> Vec<usize> {
    let key = publish.routing_key.as_str();
    let last = scenario.queues.len() - 1;
    let of_plan = |number: usize, plan: &QueuePlan| match publish.exchange.as_str() {
        FANOUT | LATER => number < last,
        SUBJECTS => plan.subjects.iter().any(|pattern| matches(pattern, key)),
        BRIDGE => plan.topics.iter().any(|pattern| matches(pattern, key)),
        MARKED => plan.mark.as_ref().is_some_and(|mark| is_marked(mark, properties)),
        _ => plan.name == key,
    };
    let listens = |plan: &ListenerPlan| matches(&plan.filter.replace('/', ".").replace('+', "*"), key);
    let listens = publish.exchange.as_str() == BRIDGE && scenario.listener.as_ref().is_some_and(listens);
    let plans = scenario.queues.iter().enumerate();
    let queues = plans.filter(|(number, plan)| of_plan(*number, plan)).map(|(number, _)| number);
    queues.chain(listens.then_some(scenario.queues.len())).collect()
}

/// Whether a binding key with `*` for one word and `#` for any number of them stands for this key.
fn matches(pattern: &str, key: &str) -> bool {
    let (pattern, key): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), key.split('.').collect());
    words_match(&pattern, &key)
}

fn words_match(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern.split_first(), key.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), _) => (0..=key.len()).any(|skipped| words_match(rest, &key[skipped..])),
        (Some((word, rest)), Some((first, others))) => {
            (*word == "*" || word == first) && words_match(rest, others)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn is_marked(mark: &MarkPlan, properties: &BasicProperties) -> bool {
    let Some(headers) = properties.headers() else { return false };
    let mut same = mark.marks.iter().map(|(name, value)| {
        let found = headers.inner().get(name.as_str());
        found == Some(&AMQPValue::LongInt(*value))
    });
    if mark.any { same.any(|same| same) } else { same.all(|same| same) }
}

fn mark_arguments(mark: &MarkPlan) -> FieldTable {
    let mut arguments = FieldTable::default();
    let how = if mark.any { "any" } else { "all" };
    arguments.insert("x-match".into(), AMQPValue::LongString(how.into()));
    for (name, value) in &mark.marks {
        arguments.insert(name.as_str().into(), AMQPValue::LongInt(*value));
    }
    arguments
}

fn declare_exchange(name: &str, kind: &str) -> AMQPFrame {
    let mut arguments = FieldTable::default();
    if name == LATER {
        arguments.insert("x-delayed-type".into(), AMQPValue::LongString("fanout".into()));
    }
    method(AMQPClass::Exchange(exchange::AMQPMethod::Declare(exchange::Declare {
        exchange: name.into(),
        kind: kind.into(),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        nowait: false,
        arguments,
    })))
}

fn declare_queue(plan: &QueuePlan) -> AMQPFrame {
    let mut arguments = FieldTable::default();
    let mut number = |name: &str, value: Option<u32>| {
        if let Some(value) = value {
            arguments.insert(name.into(), AMQPValue::LongLongInt(value.into()));
        }
    };
    number("x-max-length", plan.max_length);
    number("x-message-ttl", plan.ttl_ms);
    number("x-delivery-limit", plan.delivery_limit);
    number("x-max-priority", (plan.priorities > 0).then(|| plan.priorities.into()));
    if plan.refuses {
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    }
    if plan.dead_letters {
        arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString(DEAD.into()));
    }
    if plan.single_active {
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    method(AMQPClass::Queue(queue::AMQPMethod::Declare(queue::Declare {
        queue: plan.name.as_str().into(),
        passive: false,
        durable: plan.durable,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments,
    })))
}

fn bind_queue(queue: &str, exchange: &str, key: &str, arguments: FieldTable) -> AMQPFrame {
    method(AMQPClass::Queue(queue::AMQPMethod::Bind(queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        nowait: false,
        arguments,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken: the simulator expects messages where they do not belong.
    #[test]
    fn a_binding_key_stands_for_words() {
        for (pattern, key, is) in [
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.#", "a", true),
            ("#.b", "a.b.b", true),
            ("#.b.#", "a.a", false),
            ("*.b", "a.b.b", false),
            ("#", "a", true),
        ] {
            assert_eq!(matches(pattern, key), is, "{pattern} {key}");
        }
    }
}
