//! The wire format of AMQP: frames of a client decoded, frames for a client encoded.

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput};
use std::hint::black_box;
use vowmq_core::amqp::wire::content::{put_body, put_content_header};
use vowmq_core::amqp::wire::delivery::put_delivery;
use vowmq_core::amqp::wire::frame::{self, ChannelNumber, FrameKind, Framed};
use vowmq_core::amqp::wire::method::basic::{Ack, Deliver, Publish};
use vowmq_core::amqp::wire::{
    ContentHeader, DeliveryTag, FrameMax, Method, Properties, PropertiesBuilder, PutMethod, ShortStr, Table,
    Value,
};

const CHANNEL: ChannelNumber = ChannelNumber(1);
const FRAME_MAX: FrameMax = FrameMax::new(131_072).expect("large enough");

pub fn benchmarks(criterion: &mut Criterion) {
    decoding(criterion);
    encoding(criterion);
}

fn properties() -> Properties {
    PropertiesBuilder::new()
        .set_content_type(ShortStr::literal("application/json"))
        .set_delivery_mode(2)
        .set_expiration(ShortStr::literal("60000"))
        .build()
}

fn with_headers() -> Properties {
    let mut headers = Table::new();
    for name in ["tenant", "trace", "attempt", "kind"] {
        headers.set(ShortStr::literal(name), Value::text("a value of some length"));
    }
    properties().edit().set_headers(headers).build()
}

fn publish(properties: &Properties) -> Bytes {
    let mut out = BytesMut::new();
    let exchange = ShortStr::literal("amq.topic");
    let routing_key = ShortStr::literal("site.1.device.1.state");
    Publish { exchange, routing_key, mandatory: false, immediate: false }.put(&mut out, CHANNEL);
    put_content_header(&mut out, CHANNEL, 100, properties);
    put_body(&mut out, CHANNEL, &[7; 100], FRAME_MAX);
    out.freeze()
}

fn decoding(criterion: &mut Criterion) {
    let mut ack = BytesMut::new();
    Ack { delivery_tag: DeliveryTag(1), multiple: false }.put(&mut ack, CHANNEL);
    let streams = [
        ("Publish, 100 B, no properties", publish(&Properties::EMPTY)),
        ("Publish, 100 B, three properties", publish(&properties())),
        ("Publish, 100 B, four headers", publish(&with_headers())),
        ("Ack", ack.freeze()),
    ];
    let mut group = criterion.benchmark_group("amqp/decode");
    group.throughput(Throughput::Elements(1));
    for (name, bytes) in &streams {
        group.bench_function(*name, |bencher| bencher.iter(|| assert!(decodes(black_box(bytes).clone()))));
    }
    let properties = with_headers();
    group.bench_function("mode, priority, expiration", |bencher| {
        bencher.iter(|| {
            let properties = black_box(&properties);
            black_box((properties.delivery_mode(), properties.priority(), properties.expiration()))
        });
    });
    group.finish();
}

fn decodes(mut bytes: Bytes) -> bool {
    while !bytes.is_empty() {
        let Ok(Framed::Whole(frame)) = frame::cut(&mut bytes, FRAME_MAX) else { return false };
        let valid = match frame.kind {
            FrameKind::Method => black_box(Method::decode(&frame)).is_ok(),
            FrameKind::Header => black_box(ContentHeader::decode(frame.payload)).is_ok(),
            FrameKind::Body | FrameKind::Heartbeat => true,
        };
        if !valid {
            return false;
        }
    }
    true
}

fn encoding(criterion: &mut Criterion) {
    let properties = properties();
    let deliver = Deliver {
        consumer_tag: ShortStr::literal("ctag1.0123456789abcdef"),
        delivery_tag: DeliveryTag(1),
        redelivered: false,
        exchange: ShortStr::literal("amq.topic"),
        routing_key: ShortStr::literal("site.1.device.1.state"),
    };
    let mut out = BytesMut::with_capacity(1024);
    let mut group = criterion.benchmark_group("amqp/encode");
    group.throughput(Throughput::Elements(1));
    group.bench_function("Deliver, 100 B", |bencher| {
        bencher.iter(|| {
            out.clear();
            put_delivery(&mut out, CHANNEL, black_box(&deliver), &properties, 100);
            put_body(&mut out, CHANNEL, black_box(&[7; 100]), FRAME_MAX);
            black_box(&out);
        });
    });
    group.bench_function("Deliver, 100 B, without the fast path", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(&deliver).put(&mut out, CHANNEL);
            put_content_header(&mut out, CHANNEL, 100, &properties);
            put_body(&mut out, CHANNEL, black_box(&[7; 100]), FRAME_MAX);
            black_box(&out);
        });
    });
    group.bench_function("Ack", |bencher| {
        bencher.iter(|| {
            out.clear();
            Ack { delivery_tag: black_box(DeliveryTag(1)), multiple: true }.put(&mut out, CHANNEL);
            black_box(&out);
        });
    });
    group.finish();
}
