//! Many durable sessions, each with one subscription, their clients away.

use crate::driver::{Driver, packets};
use crate::memory::resident_bytes;
use crate::{Measured, cost_us};
use vowmq_core::ids::ConnectionId;

/// Operations that are timed.
const OPERATIONS: usize = 20_000;

/// Clients that come at the same time, or messages sent at a stroke.
const AT_ONCE: usize = 100;

pub fn measure(n: usize) -> Measured {
    let mut driver = Driver::new();
    driver.converse();
    let empty = resident_bytes();
    let create = cost_us(n, || {
        for first in (0..n).step_by(AT_ONCE) {
            come_and_go(&mut driver, first..first + AT_ONCE, true);
        }
    });
    let resident_bytes = resident_bytes().saturating_sub(empty);
    let spread = |number: usize| number * 7919 % n;
    let resume = cost_us(OPERATIONS, || {
        for first in (0..OPERATIONS).step_by(AT_ONCE) {
            come_and_go(&mut driver, (first..first + AT_ONCE).map(spread), false);
        }
    });
    let publisher = driver.connect("publisher", true);
    driver.converse();
    let publish = cost_us(OPERATIONS, || {
        for first in (0..OPERATIONS).step_by(AT_ONCE) {
            publish_to(&mut driver, publisher, (first..first + AT_ONCE).map(spread));
        }
    });
    let costs = vec![
        ("create, subscribe, leave", create),
        ("resume, leave", resume),
        ("publish to one that is away", publish),
    ];
    Measured { resident_bytes, costs }
}

fn come_and_go(driver: &mut Driver, devices: impl Iterator<Item = usize>, subscribe: bool) {
    let device = |number: usize| (number, driver.connect(&format!("device-{number}"), false));
    let connections: Vec<(usize, ConnectionId)> = devices.map(device).collect();
    for (number, connection) in connections {
        if subscribe {
            driver.receive(connection, packets::subscribe(&[format!("device/{number}/command")], 1).into());
        }
        driver.receive(connection, packets::DISCONNECT.into());
    }
    driver.converse();
}

fn publish_to(driver: &mut Driver, publisher: ConnectionId, devices: impl Iterator<Item = usize>) {
    let message = |(id, number): (u16, usize)| {
        packets::publish(&format!("device/{number}/command"), 1, false, id, &[7; 100])
    };
    let window: Vec<u8> = (1..).zip(devices).flat_map(message).collect();
    driver.receive(publisher, window.into());
    assert_eq!(driver.converse().acknowledged, AT_ONCE);
}
