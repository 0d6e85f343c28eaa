//! The log's format: a batch as the broker wrote it, its checksum, its records decoded and encoded again.

use crate::driver::{Driver, disk::Disk, packets};
use criterion::{Criterion, Throughput};
use std::hint::black_box;
use vowmq_core::durable::batch::{self, BATCH_HEADER};
use vowmq_core::durable::codec;
use vowmq_core::durable::record::Record;
use vowmq_core::ids::SegmentNumber;
use vowmq_core::input::DiskReply;
use vowmq_core::output::DiskRequest;

pub fn benchmarks(criterion: &mut Criterion) {
    let (one, hundred) = (largest_batch(1), largest_batch(100));
    for (name, bytes) in [("100 messages to 1 queue", &one), ("100 messages to 100 queues", &hundred)] {
        records(criterion, name, bytes);
        batches(criterion, name, bytes);
    }
}

fn records(criterion: &mut Criterion, name: &str, bytes: &[u8]) {
    let records = decoded(bytes);
    let mut out = Vec::with_capacity(bytes.len());
    let mut group = criterion.benchmark_group("codec/records");
    group.throughput(Throughput::Elements(records.len() as u64));
    group.bench_function(format!("decode, {name}"), |bencher| bencher.iter(|| decoded(black_box(bytes))));
    group.bench_function(format!("encode, {name}"), |bencher| {
        bencher.iter(|| {
            out.clear();
            for record in black_box(&records) {
                codec::encode(record, &mut out);
            }
        });
    });
    group.finish();
}

fn batches(criterion: &mut Criterion, name: &str, bytes: &[u8]) {
    let header = batch::parse(bytes).expect("it was found by parsing").header;
    let mut room = bytes.to_vec();
    let mut group = criterion.benchmark_group("codec/batch");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function(format!("parse, {name}"), |bencher| {
        bencher.iter(|| batch::parse(black_box(bytes)).is_some())
    });
    group.bench_function(format!("seal, {name}"), |bencher| {
        bencher.iter(|| {
            room.truncate(bytes.len());
            batch::seal(&mut room, black_box(&header))
        });
    });
    group.finish();
}

fn decoded(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut at = BATCH_HEADER;
    while at < bytes.len() {
        let (record, _, next) = codec::decode(bytes, at).expect("the broker wrote it");
        records.push(record);
        at = next;
    }
    records
}

/// The bytes, header and records, of the batch with most records when a client publishes 100 messages of 100 bytes at
/// a stroke to so many durable sessions that are away.
fn largest_batch(sessions: usize) -> Vec<u8> {
    let mut driver = Driver::new();
    for session in 0..sessions {
        let away = driver.connect(&format!("away-{session}"), false);
        driver.receive(away, packets::subscribe(&["store/#".into()], 1).into());
        driver.receive(away, packets::DISCONNECT.into());
    }
    let publisher = driver.connect("publisher", true);
    driver.converse();
    let burst = (1..=100).flat_map(|id| packets::publish("store/orders", 1, false, id, &[7; 100]));
    driver.receive(publisher, burst.collect::<Vec<u8>>().into());
    assert_eq!(driver.converse().acknowledged, 100);
    largest_in(&mut driver.disk)
}

fn largest_in(disk: &mut Disk) -> Vec<u8> {
    let request = DiskRequest::Read { segment: SegmentNumber(1), offset: 0, length: 4 * 1024 * 1024 };
    let Ok(DiskReply::Bytes(segment)) = disk.execute(&request) else { panic!("the first segment is there") };
    let sectors = (0..segment.len()).step_by(4096);
    let found = sectors.filter_map(|at| batch::parse(&segment[at..]));
    found.max_by_key(|batch| batch.header.records).expect("the broker wrote batches").bytes.to_vec()
}
