//! The way of a PUBLISH through `Broker`, from the publisher's bytes to the last acknowledgement. The clients' steps
//! (finding packets, answering) are part of the figure, a few ten nanoseconds a message.

use crate::driver::{Driver, Heard, packets};
use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput};
use vowmq_core::ids::ConnectionId;

/// Messages that a publisher sends at a stroke.
const WINDOW: usize = 100;

pub fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish");
    group.throughput(Throughput::Elements(WINDOW as u64));
    for qos in 0..=2 {
        let mut work = Work::new(qos, Subscribers { clean: 1, ..Subscribers::default() });
        group.bench_function(format!("QoS {qos}, 1 to 1"), |bencher| bencher.iter(|| work.publish(1)));
    }
    for qos in 1..=2 {
        let mut work = Work::new(qos, Subscribers { durable: 1, ..Subscribers::default() });
        group
            .bench_function(format!("QoS {qos}, 1 to 1 durable"), |bencher| bencher.iter(|| work.publish(1)));
    }
    group.finish();
    fan_out(criterion);
    backlog(criterion);
}

fn fan_out(criterion: &mut Criterion) {
    const SUBSCRIBERS: usize = 100;
    let mut group = criterion.benchmark_group("publish, per delivery");
    group.throughput(Throughput::Elements((WINDOW * SUBSCRIBERS) as u64));
    for qos in 0..=1 {
        let mut work = Work::new(qos, Subscribers { clean: SUBSCRIBERS, ..Subscribers::default() });
        group.bench_function(format!("QoS {qos}, 1 to {SUBSCRIBERS}"), |bencher| {
            bencher.iter(|| work.publish(SUBSCRIBERS))
        });
    }
    group.finish();
}

/// A queue only grows here, so every round begins with a new store.
fn backlog(criterion: &mut Criterion) {
    const ROUNDS: usize = 200;
    let mut group = criterion.benchmark_group("publish");
    group.throughput(Throughput::Elements((WINDOW * ROUNDS) as u64));
    group.sample_size(20);
    group.bench_function("QoS 1, 1 to an offline durable session", |bencher| {
        bencher.iter_batched_ref(
            || Work::new(1, Subscribers { away: 1, ..Subscribers::default() }),
            |work| (0..ROUNDS).for_each(|_| work.publish(0)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Who subscribes to the topic, with the publisher's QoS.
#[derive(Default)]
struct Subscribers {
    clean: usize,
    durable: usize,
    /// Durable, and not connected.
    away: usize,
}

struct Work {
    driver: Driver,
    publisher: ConnectionId,
    window: Bytes,
    acknowledged: usize,
}

impl Work {
    fn new(qos: u8, subscribers: Subscribers) -> Work {
        let Subscribers { clean, durable, away } = subscribers;
        let mut driver = Driver::new();
        for number in 0..clean + durable + away {
            let connection = driver.connect(&format!("subscriber-{number}"), number < clean);
            driver.receive(connection, packets::subscribe(&["store/#".into()], qos).into());
            if number >= clean + durable {
                driver.receive(connection, packets::DISCONNECT.into());
            }
        }
        let publisher = driver.connect("publisher", true);
        driver.converse();
        let window =
            (1..=WINDOW as u16).flat_map(|id| packets::publish("store/orders", qos, false, id, &[7; 100]));
        let acknowledged = if qos == 0 { 0 } else { WINDOW };
        Work { driver, publisher, window: window.collect::<Vec<u8>>().into(), acknowledged }
    }

    /// Publishes one window; `copies` of each message arrive.
    fn publish(&mut self, copies: usize) {
        self.driver.receive(self.publisher, self.window.clone());
        let Heard { messages, acknowledged } = self.driver.converse();
        assert_eq!((messages, acknowledged), (WINDOW * copies, self.acknowledged));
    }
}
