//! The log in the long run: checkpoints, compaction, messages read back.

use crate::support::disk::{SECTOR, Survival};
use crate::support::packets::*;
use crate::support::{Run, recover, settings};
use vowmq_core::event::Event;
use vowmq_core::facts::Fact;
use vowmq_core::limits::Settings;
use vowmq_core::{Purpose, Refusal};

const SEGMENT: u64 = 64 * 1024;

fn small_cache() -> Settings {
    let mut settings = settings();
    settings.limits.cache_bytes = 0;
    settings
}

/// A durable subscriber of "t" that is away, and a publisher.
fn backlog(settings: Settings) -> (Run, u64) {
    let mut run = Run::with(settings);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    (run, publisher)
}

fn publish_some(run: &mut Run, publisher: u64, from: u16, count: u16) {
    for id in from..from + count {
        publish(run, publisher, "t", 1, id, format!("message {id:>8} {}", "x".repeat(300)).as_bytes());
    }
    assert_eq!(acknowledgements(run, publisher).len(), usize::from(count));
}

/// Takes and acknowledges all that comes; the payloads.
fn drain(run: &mut Run, subscriber: u64) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        let got = messages(run, subscriber);
        if got.is_empty() {
            return payloads;
        }
        for got in got {
            payloads.push(String::from_utf8_lossy(&got.payload)[..16].to_owned());
            run.send(subscriber, &puback(got.packet_id));
        }
    }
}

fn expected(ids: std::ops::Range<u16>) -> Vec<String> {
    ids.map(|id| format!("message {id:>8}")).collect()
}

#[test]
fn a_backlog_beyond_memory_is_read_back_in_its_order() {
    // Broken: what is not in memory is lost, comes late or in another order.
    let (mut run, publisher) = backlog(small_cache());
    publish_some(&mut run, publisher, 1, 2000);
    assert!(run.broker.statistics().cached_bytes < 2000, "{}", run.broker.statistics().cached_bytes);
    let (subscriber, present) = accepted(&mut run, "sub", false);
    assert!(present);
    assert_eq!(drain(&mut run, subscriber), expected(1..2001));
    assert!(run.broker.statistics().reads > 0);
}

#[test]
fn a_backlog_survives_checkpoints_and_power_cuts() {
    // Broken: recovery from a checkpoint forgets messages, or has them twice.
    let (mut run, publisher) = backlog(small_cache());
    publish_some(&mut run, publisher, 1, 1000);
    assert!(run.broker.statistics().checkpoints > 2);
    let mut run = run.power_cut(Survival::Nothing);
    assert!(run.report.checkpoint.is_some(), "{:?}", run.report);
    assert!(run.report.records < 500, "replay begins at the checkpoint: {:?}", run.report);
    assert_eq!(run.report.messages, 1000);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    assert_eq!(drain(&mut run, subscriber), expected(1..1001));
}

#[test]
fn the_disk_is_bounded_by_what_is_needed() {
    // Broken: the log grows with what was ever published.
    let (mut run, mut publisher) = backlog(settings());
    let (mut next, mut most) = (1, 0);
    for _ in 0..60 {
        publish_some(&mut run, publisher, next, 300);
        next += 300;
        let (subscriber, _) = accepted(&mut run, "sub", false);
        drain(&mut run, subscriber);
        run.send(subscriber, &DISCONNECT);
        run.pass_ms(1000);
        most = most.max(run.disk.allocated());
        if next % 1500 < 300 {
            run = run.power_cut(Survival::Nothing);
            publisher = accepted(&mut run, "pub", true).0;
        }
    }
    // A round publishes less than two segments, and a message takes a sector of its own.
    let live = 300 * (SECTOR as u64);
    assert!(most <= 2 * live + 4 * SEGMENT, "{most} bytes");
    assert!(run.disk.allocated() <= 6 * SEGMENT, "{} bytes when all is drained", run.disk.allocated());
}

#[test]
fn a_retained_value_from_long_ago_pins_no_segment() {
    // Broken: one old value keeps its segment, and with each such value another one.
    let (mut run, publisher) = backlog(settings());
    let (subscriber, _) = accepted(&mut run, "sub", false);
    for round in 0..40u16 {
        run.send(publisher, &publish_bytes(&format!("r/{round}"), 1, 1, b"value", false, true));
        run.taken(publisher);
        publish_some(&mut run, publisher, 2, 60);
        drain(&mut run, subscriber);
        run.pass_ms(1000);
        run.taken(publisher);
    }
    run.pass_ms(5000);
    assert!(run.disk.allocated() <= 6 * SEGMENT, "{} bytes", run.disk.allocated());
    let run = run.power_cut(Survival::Nothing);
    assert_eq!(run.report.retained, 40);
}

#[test]
fn a_message_that_rotted_is_reported_and_never_delivered() {
    // Broken: other bytes than were published are delivered; or one bad message stops all behind it.
    let (mut run, publisher) = backlog(small_cache());
    publish_some(&mut run, publisher, 1, 50);
    let place = run.broker.facts().into_iter().find_map(|fact| match fact {
        Fact::Queued { position, place, .. } if position.0 == 9 => place,
        _ => None,
    });
    let place = place.expect("it is in the log");
    let at = (place.offset + u64::from(place.length)) as usize - 10;
    let file = run.disk.files.get_mut(&place.segment).expect("it is there");
    file.written[at] ^= 1;
    let (subscriber, _) = accepted(&mut run, "sub", false);
    let mut got = drain(&mut run, subscriber);
    for _ in 0..5 {
        run.pass_ms(1100);
        got.extend(drain(&mut run, subscriber));
    }
    let mut whole = expected(1..51);
    whole.remove(9);
    assert_eq!(got, whole);
    let reports = |given: bool| {
        let of = |event: &&Event| matches!(event, Event::MessageUnreadable { given_up, segment, .. } if *given_up == given && *segment == place.segment);
        run.events.iter().filter(of).count()
    };
    assert_eq!((reports(false), reports(true)), (1, 1));
    assert_eq!(run.broker.statistics().unreadable, 1);
}

#[test]
fn an_emptied_segment_that_is_needed_is_missed() {
    // Broken: a file that was emptied takes its messages with it, and the broker starts as if nothing had happened.
    let (mut run, publisher) = backlog(small_cache());
    publish_some(&mut run, publisher, 1, 1000);
    let mut run = run.power_cut(Survival::Nothing);
    let begin = run.report.checkpoint.expect("there is one");
    let (&segment, _) = run.disk.files.first_key_value().expect("there are files");
    assert!(segment < begin, "it stands before the checkpoint");
    for kept in [0, 1, SECTOR] {
        run.disk.files.get_mut(&segment).expect("it is there").written.truncate(kept);
        let now = run.now;
        let refusal =
            recover(&mut run.disk, now, small_cache(), Purpose::Serve).map(|recovered| recovered.report);
        let refusal = refusal.expect_err("its messages are needed");
        assert!(
            matches!(refusal, Refusal::SegmentMissing { .. } | Refusal::Shortened { .. }),
            "{kept}: {refusal}"
        );
    }
}
