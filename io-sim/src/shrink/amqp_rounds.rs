//! Makes scenarios of AMQP clients smaller.

use super::tree::{count, items, leaves, put};
use super::{Shrinkable, Shrinker, Verdict};
use crate::amqp::Scenario;
use serde_json::{Value, json};

/// Lists of which anything may be left out.
const LISTS: [&str; 5] = ["faults", "lodgers", "sensors", "consumers", "publishers"];

/// Bytes of a body frame in which most bodies are whole: fewer would make more frames.
const PIECE_BYTES: u64 = 4088;

impl Shrinkable for Scenario {
    fn seed_mut(&mut self) -> &mut u64 {
        &mut self.seed
    }

    fn is_valid(&self) -> bool {
        self.check().is_ok()
    }
}

impl<J: FnMut(&Scenario) -> Verdict> Shrinker<Scenario, J> {
    /// Every step once. Whether one helped.
    pub(super) fn round_of_amqp(&mut self) -> bool {
        let before = self.value.clone();
        for name in LISTS {
            self.pieces(
                |scenario| count(scenario, name),
                |scenario, piece| {
                    items(scenario, name).drain(piece);
                },
            );
        }
        for name in ["broker", "disk"] {
            self.propose(|scenario| scenario[name] = json!({}));
        }
        self.propose(|scenario| scenario["latency_us"] = json!([10, 10]));
        self.propose(|scenario| scenario["split_percent"] = json!(0));
        for queue in 0..count(&self.value, "queues") {
            for publisher in 0..count(&self.value, "publishers") {
                let to_all = self.value["publishers"][publisher]["queue"].is_null();
                _ = to_all
                    && self.propose(|scenario| scenario["publishers"][publisher]["queue"] = json!(queue));
            }
            for list in ["subjects", "topics"] {
                self.propose(|scenario| scenario["queues"][queue][list] = json!([]));
            }
        }
        let paths = ["queues", "listener", "publishers", "consumers", "lodgers", "sensors", "faults"];
        let all = paths.iter().flat_map(|list| leaves(&self.value, &format!("/{list}")));
        for path in all.collect::<Vec<String>>() {
            self.simpler(&path);
        }
        self.simpler("/fault_phase_us");
        self.value != before
    }

    /// Nothing instead of something, no instead of yes, always instead of sometimes, a smaller number.
    fn simpler(&mut self, path: &str) {
        let field = path.rsplit('/').next().unwrap_or_default().to_owned();
        match self.value.pointer(path).cloned() {
            Some(Value::Bool(true)) => _ = self.propose(|scenario| put(scenario, path, json!(false))),
            Some(Value::Number(_)) if field == "piece" => {
                self.propose(|scenario| put(scenario, path, json!(PIECE_BYTES)));
            }
            Some(Value::Number(number)) => {
                // Without its queue, a publisher would publish to all.
                let none = (field != "queue" && self.propose(|scenario| put(scenario, path, Value::Null)))
                    || self.propose(|scenario| put(scenario, path, json!(0)));
                let may_be_always = !none && field.ends_with("_percent");
                let always = || json!(100);
                if may_be_always
                    && (number.as_u64() == Some(100)
                        || self.propose(|scenario| put(scenario, path, always())))
                {
                    return;
                }
                if let Some(number) = number.as_u64().filter(|_| !none && field != "client") {
                    self.smaller(path, &field, number);
                }
            }
            _ => {}
        }
    }
}
