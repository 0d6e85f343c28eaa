//! A scenario as JSON: how to reach its parts.

use super::Shrinkable;
use serde_json::Value;

/// The scenario as JSON, every field written out.
pub(super) fn of<S: Shrinkable>(scenario: &S) -> Value {
    let mut value = serde_json::to_value(scenario).expect("a scenario can be written");
    S::tidy(&mut value);
    value
}

/// Brings operations into the order of their times.
pub(super) fn tidy(scenario: &mut Value) {
    for client in items(scenario, "clients") {
        items(client, "operations").sort_by_key(|operation| operation["at_us"].as_u64());
    }
}

/// A list of this name; it is there in every scenario.
pub(super) fn items<'a>(of: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    of[name].as_array_mut().expect("a list")
}

/// How long that list is.
pub(super) fn count(of: &Value, name: &str) -> usize {
    of[name].as_array().map_or(0, Vec::len)
}

/// The places of all operations: client, and number there.
pub(super) fn operations(scenario: &Value) -> Vec<(usize, usize)> {
    let clients = 0..count(scenario, "clients");
    clients
        .flat_map(|client| {
            let operations = count(&scenario["clients"][client], "operations");
            (0..operations).map(move |operation| (client, operation))
        })
        .collect()
}

/// The paths (as `Value::pointer` takes them) of everything below this one that is neither a list nor an object.
pub(super) fn leaves(scenario: &Value, below: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(value) = scenario.pointer(below) {
        gather(value, below.to_owned(), &mut found);
    }
    found
}

fn gather(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                gather(item, format!("{path}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                gather(field, format!("{path}/{name}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push(path),
    }
}

/// Puts a value at a path that is there.
pub(super) fn put(scenario: &mut Value, path: &str, value: Value) {
    if let Some(place) = scenario.pointer_mut(path) {
        *place = value;
    }
}

/// Takes a field away, so that it is what it is by default.
pub(super) fn forget(scenario: &mut Value, path: &str) {
    let Some((parent, name)) = path.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = scenario.pointer_mut(parent) {
        fields.remove(name);
    }
}
