//! Many retained values of 100 bytes, each of a topic of its own.

use crate::driver::{Driver, packets};
use crate::memory::resident_bytes;
use crate::{Measured, cost_us};
use vowmq_core::ids::ConnectionId;

/// Operations that are timed.
const OPERATIONS: usize = 20_000;

/// Messages sent at a stroke, or filters subscribed to with one packet.
const AT_ONCE: usize = 100;

pub fn measure(n: usize) -> Measured {
    let mut driver = Driver::new();
    let publisher = driver.connect("publisher", true);
    driver.converse();
    let empty = resident_bytes();
    let set = cost_us(n, || set_all(&mut driver, publisher, n, |number| number));
    let resident_bytes = resident_bytes().saturating_sub(empty);
    let spread = |number: usize| number * 7919 % n;
    let again = cost_us(OPERATIONS, || set_all(&mut driver, publisher, OPERATIONS, spread));
    let read = cost_us(OPERATIONS, || read_all(&mut driver, spread));
    Measured {
        resident_bytes,
        costs: vec![("set", set), ("set again", again), ("subscribe and receive", read)],
    }
}

fn topic(number: usize) -> String {
    format!("state/{}/device/{number}", number % 1000)
}

fn set_all(driver: &mut Driver, publisher: ConnectionId, count: usize, device: impl Fn(usize) -> usize) {
    for first in (0..count).step_by(AT_ONCE) {
        let message = |number: usize| {
            let id = u16::try_from(number - first + 1).expect("few at once");
            packets::publish(&topic(device(number)), 1, true, id, &[7; 100])
        };
        let window: Vec<u8> = (first..first + AT_ONCE).flat_map(message).collect();
        driver.receive(publisher, window.into());
        assert_eq!(driver.converse().acknowledged, AT_ONCE);
    }
}

fn read_all(driver: &mut Driver, device: impl Fn(usize) -> usize) {
    for first in (0..OPERATIONS).step_by(AT_ONCE) {
        let reader = driver.connect(&format!("reader-{first}"), true);
        let filters: Vec<String> = (first..first + AT_ONCE).map(|number| topic(device(number))).collect();
        driver.receive(reader, packets::subscribe(&filters, 0).into());
        assert_eq!(driver.converse().messages, AT_ONCE);
        driver.receive(reader, packets::DISCONNECT.into());
    }
}
