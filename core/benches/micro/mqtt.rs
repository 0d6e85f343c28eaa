//! The wire format: packets of a client decoded, packets for a client encoded.

use crate::driver::packets;
use criterion::{Criterion, Throughput};
use std::hint::black_box;
use vowmq_core::mqtt::packet::frame::{self, Framed};
use vowmq_core::mqtt::packet::publish::{self, Delivery};
use vowmq_core::mqtt::packet::{AckKind, Packet, PacketId, ProtocolLevel};

pub fn benchmarks(criterion: &mut Criterion) {
    decoding(criterion);
    encoding(criterion);
}

fn decoding(criterion: &mut Criterion) {
    let filters: Vec<String> = (0..10).map(|number| format!("site/{number}/device/+/state")).collect();
    let packets = [
        ("CONNECT", packets::connect("device-000001", false)),
        ("PUBLISH QoS 0, 100 B", packets::publish("site/1/device/1/state", 0, false, 1, &[7; 100])),
        ("PUBLISH QoS 1, 100 B", packets::publish("site/1/device/1/state", 1, false, 1, &[7; 100])),
        ("PUBACK", vec![0x40, 2, 0, 1]),
        ("SUBSCRIBE, 10 filters", packets::subscribe(&filters, 1)),
    ];
    let mut group = criterion.benchmark_group("mqtt/decode");
    group.throughput(Throughput::Elements(1));
    for (name, bytes) in &packets {
        group.bench_function(*name, |bencher| bencher.iter(|| assert!(decodes(black_box(bytes)))));
    }
    group.finish();
}

fn decodes(bytes: &[u8]) -> bool {
    let Ok(Framed::Whole(packet, _)) = frame::parse(bytes) else { return false };
    black_box(Packet::decode(packet, ProtocolLevel::V3_1_1)).is_ok()
}

fn encoding(criterion: &mut Criterion) {
    let id = PacketId::new(1).expect("1 is an identifier");
    let mut out = Vec::with_capacity(1024);
    let mut group = criterion.benchmark_group("mqtt/encode");
    group.throughput(Throughput::Elements(1));
    for (name, delivery) in
        [("PUBLISH QoS 0", Delivery::AtMostOnce), ("PUBLISH QoS 1", Delivery::AtLeastOnce(id))]
    {
        group.bench_function(format!("{name}, header"), |bencher| {
            bencher.iter(|| {
                out.clear();
                publish::put_header(
                    &mut out,
                    black_box(b"site/1/device/1/state"),
                    delivery,
                    false,
                    false,
                    100,
                );
                black_box(&out);
            });
        });
    }
    group.bench_function("PUBACK", |bencher| bencher.iter(|| AckKind::PubAck.encode(black_box(id))));
    group.finish();
}
