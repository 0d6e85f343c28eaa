//! Every text that a person may read at night, in one place: a change shows in a review.

use vowmq_core::Refusal;
use vowmq_core::durable::codec::CodecError;
use vowmq_core::durable::owner::Owner;
use vowmq_core::event::{DropReason, Event};
use vowmq_core::ids::{ConnectionId, Lsn, MessageId, QueueId, QueuePosition, SegmentNumber, StoreId};
use vowmq_core::limits::{Limits, Settings, SyncPolicy};
use vowmq_core::mqtt::packet::Violation;
use vowmq_core::output::{CloseKind, CloseReason, Halt};

fn lines<T: ToString>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| text.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn refusals_say_what_where_and_what_to_do() {
    // Broken: an operator whose broker does not start does not learn why.
    let (segment, offset) = (SegmentNumber(7), 8192);
    let error = "input/output error".to_owned();
    insta::assert_snapshot!(lines([
        Refusal::Damaged {
            segment,
            offset,
            first: Lsn(100),
            last: Lsn(120),
            witness: "the header of segment 8".into()
        },
        Refusal::Shortened { segment, length: 8192, reserved: 65_536 },
        Refusal::ReadFailed { segment, offset, error: error.clone() },
        Refusal::DiskFailed { doing: "opening a new log segment", error },
        Refusal::NewerFormat { segment, format: 2, newest: 1 },
        Refusal::OtherStore { segment, found: StoreId(1), expected: StoreId(2) },
        Refusal::Unreadable { segment, offset, lsn: Lsn(100), error: CodecError::UnknownType(99) },
        Refusal::Contradiction { segment, offset, lsn: Lsn(100) },
    ]));
}

#[test]
fn halts_say_why_and_what_to_do() {
    // Broken: the last line before the exit does not help.
    let failed = Halt::Storage { doing: "writing the log".into(), error: "input/output error".into() };
    insta::assert_snapshot!(lines([Halt::ShutDown, failed]));
}

#[test]
fn violations_name_their_rule() {
    // Broken: the log says that a client was closed, and not which rule it broke.
    let reason = |violation: &Violation| CloseReason {
        kind: CloseKind::ProtocolError,
        clause: violation.clause(),
        text: violation.text().into(),
        client: Some("device-7".into()),
    };
    insta::assert_snapshot!(lines(Violation::ALL.iter().map(reason)));
}

#[test]
fn events_read_as_sentences() {
    // Broken: the log is a dump of structures.
    let (message, queue, position) = (MessageId(5), QueueId(3), QueuePosition(9));
    let (connection, client) = (ConnectionId(2), "device-7".to_owned());
    let owner = Owner::Declared { vhost: "/".into(), name: "work".into() };
    let mut events = vec![
        Event::Connected { connection, client: client.clone(), durable: true, present: false },
        Event::SessionExpired { client, messages: 12 },
        Event::DiskFull { why: "1000 bytes are free, the next segment needs 134217728".into() },
        Event::DiskHasRoom,
        Event::MemoryFull { largest: Some((owner, 4711)) },
        Event::MemoryHasRoom,
        Event::SegmentOpened { segment: SegmentNumber(8) },
        Event::Received { message, connection: Some(connection), address: "a/b".into() },
        Event::Stored { message, lsn: Lsn(100) },
        Event::Routed { message, queue, position },
        Event::Delivered { message, queue, position, connection, redelivered: true },
        Event::Acknowledged { message, queue, position },
        Event::Dropped { message: None, queue, reason: DropReason::SlowReader },
    ];
    for reason in [DropReason::QueueFull, DropReason::SessionEnded] {
        events.push(Event::Dropped { message: Some(message), queue, reason });
    }
    insta::assert_snapshot!(lines(events));
}

#[test]
fn settings_out_of_range_say_the_range() {
    // Broken: a bad value is taken, or refused without a hint.
    let limits = Limits::default();
    let base = Settings::default();
    let with = |limits: Limits| Settings { limits, ..base };
    let bad = [
        Settings { segment_bytes: 1000, ..base },
        Settings { sync: SyncPolicy::EveryMs(0), ..base },
        with(Limits { connections: 0, ..limits }),
        with(Limits { packet_bytes: 1, ..limits }),
        with(Limits { packet_bytes: 40_000_000, ..limits }),
        with(Limits { connect_bytes: 1, ..limits }),
        with(Limits { connect_ms: 0, ..limits }),
        with(Limits { topic_bytes: 70_000, ..limits }),
        with(Limits { topic_levels: 0, ..limits }),
        with(Limits { client_id_bytes: 1, ..limits }),
        with(Limits { sessions: 0, ..limits }),
        with(Limits { subscriptions: 0, ..limits }),
        with(Limits { inflight: 65_535, ..limits }),
        with(Limits { received_ids: 0, ..limits }),
        with(Limits { memory_bytes: 1, ..limits }),
        with(Limits { retained: 0, ..limits }),
        with(Limits { unsent_bytes: 0, ..limits }),
        with(Limits { held_replies: 0, ..limits }),
        with(Limits { parked_bytes: 0, ..limits }),
        with(Limits { horizon_block: 0, ..limits }),
        with(Limits { turn_work: 0, ..limits }),
    ];
    insta::assert_snapshot!(lines(bad.iter().map(|settings| settings.check().expect_err("out of range"))));
    assert_eq!(base.check(), Ok(()));
}
