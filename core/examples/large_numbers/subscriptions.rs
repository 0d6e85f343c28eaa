//! Many subscriptions: of a thousand clean sessions, a tenth each with `+` and with `#`.

use crate::driver::{Driver, packets};
use crate::memory::resident_bytes;
use crate::{Measured, cost_us, population};
use vowmq_core::ids::ConnectionId;

const CLIENTS: usize = 1000;
const MESSAGES: usize = 100_000;

pub fn measure(n: usize) -> Measured {
    let mut driver = Driver::new();
    let clients: Vec<ConnectionId> =
        (0..CLIENTS).map(|number| driver.connect(&format!("client-{number}"), true)).collect();
    driver.converse();
    let empty = resident_bytes();
    let subscribe = cost_us(n, || subscribe_all(&mut driver, &clients, n));
    let resident_bytes = resident_bytes().saturating_sub(empty);
    let publish = publish(&mut driver, n);
    Measured { resident_bytes, costs: vec![("subscribe", subscribe), ("publish to 3 of them", publish)] }
}

/// Client by client, up to a hundred filters a packet.
fn subscribe_all(driver: &mut Driver, clients: &[ConnectionId], n: usize) {
    for (number, client) in clients.iter().enumerate() {
        let filters: Vec<String> =
            (number..n).step_by(CLIENTS).map(|index| population::filter(index, n)).collect();
        for some in filters.chunks(100) {
            driver.receive(*client, packets::subscribe(some, 0).into());
        }
        driver.converse();
    }
}

/// Microseconds a QoS 0 message of 100 bytes that three subscriptions match.
fn publish(driver: &mut Driver, n: usize) -> f64 {
    let publisher = driver.connect("publisher", true);
    driver.converse();
    let topics: Vec<String> = population::topics(n).take(MESSAGES).collect();
    let windows = topics.chunks(100).map(|topics| {
        let packets = topics.iter().flat_map(|topic| packets::publish(topic, 0, false, 1, &[7; 100]));
        packets.collect::<Vec<u8>>()
    });
    let windows: Vec<Vec<u8>> = windows.collect();
    cost_us(MESSAGES, || {
        let mut arrived = 0;
        for window in windows {
            driver.receive(publisher, window.into());
            arrived += driver.converse().messages;
        }
        assert!(
            arrived > 2 * MESSAGES,
            "topics are matched by three subscriptions, of two sessions or three"
        );
    })
}
