//! Connections that only wait for their end: the broker has to bring it about in time.

use super::link::{ALL, Link, News};
use super::open;
use crate::shell::ledger::Misdeed;
use crate::shell::stage::Stage;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// How long closing may take when the peer sends nothing: what is left to be sent, the shell's second in which nothing moves, and
/// the network.
pub(super) const CLOSE_MS: u64 = 7_000;

/// How long the network takes besides, at its slowest.
const NETWORK_MS: u64 = 1_000;

/// A connection whose session another one has taken over.
pub(super) async fn taken_over(stage: Rc<Stage>, link: Link) {
    // The new one may have to be tried several times.
    let patience_ms = 3 * CLOSE_MS;
    wait_for_end(&stage, link, patience_ms, "its session was taken over").await;
}

/// A connection without a whole CONNECT.
pub(super) async fn mute(stage: Rc<Stage>, host: usize, number: u64) {
    let Some(mut link) = open(&stage, host, None, number).await else { return };
    stage.ledger.borrow_mut().misdeed(link.address, Misdeed::Silent);
    if number.is_multiple_of(2) {
        link.send_bytes(&[0x10, 40, 0, 4, b'M', b'Q']);
    }
    // There is nothing to be flushed.
    let patience_ms = stage.scenario.connect_ms + NETWORK_MS;
    wait_for_end(&stage, link, patience_ms, "it has never sent a whole CONNECT").await;
}

/// Reads to the end. What comes is for nobody any more.
async fn wait_for_end(stage: &Rc<Stage>, mut link: Link, patience_ms: u64, why: &str) {
    let until = Instant::now() + Duration::from_millis(patience_ms);
    loop {
        match link.next(ALL, until).await {
            News::Packet(_) => {}
            News::Ended(how, whole) => {
                return stage.ledger.borrow_mut().line_ended(link.address, how, whole);
            }
            News::Garbage(_) => return stage.ledger.borrow_mut().line_left(link.address, false),
            News::Due => {
                let mut ledger = stage.ledger.borrow_mut();
                ledger.not_closed(link.address, why);
                return ledger.line_left(link.address, false);
            }
        }
    }
}
