//! Recovery: from the bytes of a store to a broker, records a second. The store is in memory, so this is the
//! processor's part of a restart.

use crate::driver::disk::Disk;
use crate::driver::{Driver, packets, recover};
use criterion::{Criterion, Throughput};
use vowmq_core::Purpose;

const MESSAGES: usize = 100_000;

pub fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recovery");
    group.sample_size(10);
    for (name, away) in [("all messages wait", true), ("all messages are settled", false)] {
        let mut disk = store(away);
        let report = recover(&mut disk, Purpose::Look).report;
        group.throughput(Throughput::Elements(report.records));
        group.bench_function(format!("{MESSAGES} published, {name}"), |bencher| {
            bencher.iter(|| recover(&mut disk, Purpose::Look).report.records)
        });
    }
    group.finish();
}

/// A store to which messages of 100 bytes were published, for one durable session that takes them or is away.
fn store(away: bool) -> Disk {
    const WINDOW: u16 = 1000;
    let mut driver = Driver::new();
    let subscriber = driver.connect("subscriber", false);
    driver.receive(subscriber, packets::subscribe(&["store/#".into()], 1).into());
    if away {
        driver.receive(subscriber, packets::DISCONNECT.into());
    }
    let publisher = driver.connect("publisher", true);
    driver.converse();
    let window = (1..=WINDOW).flat_map(|id| packets::publish("store/orders", 1, false, id, &[7; 100]));
    let window = bytes::Bytes::from(window.collect::<Vec<u8>>());
    for _ in 0..MESSAGES / usize::from(WINDOW) {
        driver.receive(publisher, window.clone());
        assert_eq!(driver.converse().acknowledged, usize::from(WINDOW));
    }
    driver.disk
}
