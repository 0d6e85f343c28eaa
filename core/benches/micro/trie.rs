//! The subscription trie as it grows: finding the subscribers of a topic, and one subscription coming and going.

use crate::population;
use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use vowmq_core::durable::record::Subscription;
use vowmq_core::ids::SessionId;
use vowmq_core::mqtt::packet::QoS;
use vowmq_core::mqtt::topic::TopicFilter;
use vowmq_core::routing::subscriptions::{Subscriber, Subscriptions};

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

pub fn benchmarks(criterion: &mut Criterion) {
    for size in SIZES {
        let mut trie = Subscriptions::new(7);
        for index in 0..size {
            insert(&mut trie, &population::filter(index, size), index as u64);
        }
        finding(criterion, &trie, size);
        changing(criterion, &mut trie, size);
    }
}

fn insert(trie: &mut Subscriptions, filter: &str, session: u64) {
    let filter = TopicFilter::new(filter).expect("the population's filters are valid");
    trie.insert(filter, Subscriber::new(SessionId(session), &Subscription::of_qos(QoS::AtLeastOnce), false));
}

fn finding(criterion: &mut Criterion, trie: &Subscriptions, size: usize) {
    let known: Vec<String> = population::topics(size).take(10_000).collect();
    let unknown: Vec<String> =
        (0..10_000).map(|number| format!("site/{}/meter/{number}/state", number % 100)).collect();
    let mut group = criterion.benchmark_group("trie/find");
    group.throughput(Throughput::Elements(1));
    for (name, topics, matching) in [("exact, + and # match", &known, 3), ("nothing matches", &unknown, 0)] {
        let mut next = topics.iter().cycle();
        let mut found = Vec::new();
        group.bench_function(BenchmarkId::new(name, size), |bencher| {
            bencher.iter(|| {
                found.clear();
                trie.find(black_box(next.next().expect("it never ends")), None, &mut found);
                assert_eq!(found.len(), matching);
            });
        });
    }
    group.finish();
}

fn changing(criterion: &mut Criterion, trie: &mut Subscriptions, size: usize) {
    let mut group = criterion.benchmark_group("trie/subscribe and unsubscribe");
    group.throughput(Throughput::Elements(1));
    for text in ["site/1/device/new/state", "site/+/device/new/state", "site/1/device/new/#"] {
        let filter = TopicFilter::new(text).expect("a valid filter");
        group.bench_function(BenchmarkId::new(text, size), |bencher| {
            bencher.iter(|| {
                insert(trie, black_box(text), u64::MAX);
                assert!(trie.remove(filter, SessionId(u64::MAX)));
            });
        });
    }
    group.finish();
}
