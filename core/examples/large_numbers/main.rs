//! Memory and cost per operation with a large number of one thing, as one JSON object:
//!
//! ```sh
//! cargo run --release -p vowmq-core --example large_numbers -- subscriptions 1000000
//! cargo run --release -p vowmq-core --example large_numbers -- sessions 100000
//! cargo run --release -p vowmq-core --example large_numbers -- retained 1000000
//! ```
//!
//! One process measures one point, so that nothing of another stays in its memory. Memory is what the process has
//! resident (Linux), less what it had with an empty broker; the store is not part of it. Costs are times in one thread,
//! network and disk excluded; `tests/bench` draws table and chart.

#[path = "../../benches/driver/mod.rs"]
mod driver;
mod memory;
#[path = "../../benches/driver/population.rs"]
mod population;
mod retained;
mod sessions;
mod subscriptions;

use serde_json::{Map, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a measurement brought: resident bytes with all `n` in place, and microseconds by operation.
struct Measured {
    resident_bytes: u64,
    costs: Vec<(&'static str, f64)>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measure = match arguments.first().map(String::as_str) {
        Some("subscriptions") => subscriptions::measure,
        Some("sessions") => sessions::measure,
        Some("retained") => retained::measure,
        _ => return usage(),
    };
    let Some(n) = arguments.get(1).and_then(|text| text.parse().ok()).filter(|n| n % 1000 == 0 && *n > 0)
    else {
        return usage();
    };
    let Measured { resident_bytes, costs } = measure(n);
    let costs: Map<_, _> = costs.into_iter().map(|(name, micros)| (name.to_owned(), json!(micros))).collect();
    let line = json!({
        "what": arguments[0], "n": n, "resident_bytes": resident_bytes,
        "bytes_each": resident_bytes / n as u64, "cost_us": costs,
    });
    println!("{line}");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: large_numbers subscriptions|sessions|retained N    (N a multiple of 1000)");
    ExitCode::from(2)
}

/// Microseconds each of `count` operations that `work` does in all.
fn cost_us(count: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    each_us(started.elapsed(), count)
}

fn each_us(all: Duration, count: usize) -> f64 {
    all.as_secs_f64() * 1e6 / count as f64
}
