//! A scenario in words: what clients do and what goes wrong, in the order of time.

use crate::fault::{Fault, When};
use crate::scenario::{Action, ClientProgram, Scenario};
use serde_json::Value;

/// The steps of a scenario, one a line: who, when, what, and how.
pub fn steps(scenario: &Scenario) -> Vec<String> {
    let mut steps = Vec::new();
    for client in &scenario.clients {
        let will =
            client.will.as_ref().map(|will| format!(", with a will for {:?} QoS {}", will.topic, will.qos));
        let ends = client.mqtt5.as_ref().is_some_and(|asks| asks.session_expiry_s == 0);
        let session = if client.clean || ends { "clean" } else { "durable" };
        let words = format!("{} has a {session} session{}", client.id, will.unwrap_or_default());
        steps.push((None, words));
        for operation in &client.operations {
            steps.push((Some(operation.at_us), format!("{} {}", client.id, action(&operation.action))));
        }
    }
    for fault in &scenario.faults {
        let at_us = match fault.when() {
            When::AtUs(at_us) => Some(*at_us),
            _ => None,
        };
        steps.push((at_us, format!("FAULT {}", self::fault(fault, scenario))));
    }
    // What has no time of its own stands first.
    steps.sort_by_key(|(at_us, _)| *at_us);
    let column =
        |at_us: Option<u64>| at_us.map_or(String::new(), |at_us| format!("{:.6}", at_us as f64 / 1e6));
    steps.into_iter().map(|(at_us, words)| format!("{:>10}  {words}", column(at_us))).collect()
}

/// An action: what is done, and how.
pub(crate) fn action(action: &Action) -> String {
    sentence(&serde_json::to_value(action).unwrap_or_default(), "do", &[])
}

/// A fault: its kind, and how.
pub(crate) fn fault(fault: &Fault, scenario: &Scenario) -> String {
    sentence(&serde_json::to_value(fault).unwrap_or_default(), "kind", &scenario.clients)
}

/// The fields of an object that say something, each behind a space.
pub(crate) fn fields(object: &Value) -> String {
    sentence(object, "", &[])
}

/// What is done, then its fields that say something.
fn sentence(object: &Value, verb: &str, clients: &[ClientProgram]) -> String {
    let mut words = object[verb].as_str().unwrap_or_default().replace('_', " ");
    for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| *name != verb) {
        words.extend(phrase(name, value, clients).map(|phrase| format!(" {phrase}")));
    }
    words
}

/// A field in words; none where it says nothing beside the time.
fn phrase(name: &str, value: &Value, clients: &[ClientProgram]) -> Option<String> {
    let plain = |text: &str| text.replace('_', " ");
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(plain(name)),
        Value::Object(fields) if name == "when" && fields.len() == 1 && fields.contains_key("at_us") => None,
        Value::Object(fields) => {
            let inner = fields.iter().filter_map(|(name, value)| phrase(name, value, clients));
            Some(format!("{} {}", plain(name), inner.collect::<Vec<_>>().join(" ")))
        }
        Value::Number(number) if name == "client" => {
            let client = clients.get(number.as_u64()? as usize)?;
            Some(format!("of {}", client.id))
        }
        Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let unit = [("_us", "µs"), ("_ms", "ms"), ("_s", "s")];
            let named = unit.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
            let (name, unit) = named.unwrap_or((name, ""));
            Some(format!("{} {value}{}{unit}", plain(name), if unit.is_empty() { "" } else { " " }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, the one who reads a shrunk run would have to read JSON.
    #[test]
    fn a_scenario_reads_as_steps_in_order() {
        let scenario = crate::scenario::parse(
            r#"
            seed = 1
            fault_phase_us = 300_000
            [[clients]]
            id = "pump"
            operations = [{ at_us = 60_000, do = "publish", topic = "a", qos = 1, retain = true }]
            [[faults]]
            kind = "reset"
            when = { at_us = 50_000 }
            client = 0
            [[faults]]
            kind = "power_cut"
            when = { write_since = { at_us = 1, number = 3 } }
            down_us = 1000
            "#,
        )
        .expect("it is one");
        let lines = [
            "            pump has a durable session",
            "            FAULT power cut down 1000 µs when write since at 1 µs number 3",
            "  0.050000  FAULT reset of pump",
            "  0.060000  pump publish count 1 qos 1 retain size 32 topic \"a\"",
        ];
        assert_eq!(steps(&scenario), lines);
    }
}
