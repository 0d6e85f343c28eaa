//! Micro benchmarks of the core: `cargo bench -p vowmq-core`, or one part of them with
//! `cargo bench -p vowmq-core -- trie` (codec, mqtt, amqp, trie, publish, recovery).

#[path = "../driver/mod.rs"]
mod driver;
#[path = "../driver/population.rs"]
mod population;

mod amqp;
mod codec;
mod mqtt;
mod publishing;
mod recovery;
mod trie;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    codec::benchmarks(&mut criterion);
    mqtt::benchmarks(&mut criterion);
    amqp::benchmarks(&mut criterion);
    trie::benchmarks(&mut criterion);
    publishing::benchmarks(&mut criterion);
    recovery::benchmarks(&mut criterion);
    criterion.final_summary();
}
