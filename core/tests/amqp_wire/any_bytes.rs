//! Bytes of any kind: nothing panics, and what is taken is the same however it was cut.

use crate::theirs::{self, Twin};
use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, connection, queue};
use amq_protocol::types::{FieldTable, ShortString};
use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use vowmq_core::amqp::wire::frame::{self, Frame, FrameKind, FrameMax, Framed};
use vowmq_core::amqp::wire::{ContentHeader, Method, Property, Table, Violation};

/// Reads one frame to its end, as a broker would, and asks for all there is to ask.
fn read(frame: &Frame) -> Result<(), Violation> {
    match frame.kind {
        FrameKind::Method => {
            let method = Method::decode(frame)?;
            assert!(method.id().name().is_some());
            assert!(!format!("{method:?}").is_empty());
        }
        FrameKind::Header => {
            let properties = ContentHeader::decode(frame.payload.clone())?.properties;
            let names =
                (properties.content_type(), properties.content_encoding(), properties.correlation_id());
            let more = (properties.reply_to(), properties.expiration(), properties.message_id());
            let last = (properties.message_type(), properties.user_id(), properties.cluster_id());
            let numbers = (properties.delivery_mode(), properties.priority(), properties.timestamp());
            let headers = properties.headers();
            let found = properties.header("a");
            assert_eq!(headers.as_ref().and_then(|headers| headers.get("a")), found.as_ref());
            let table = headers.unwrap_or_default();
            assert_eq!(Table::decode(&table.encode()).as_ref(), Ok(&table));
            assert!(!format!("{names:?}{more:?}{last:?}{numbers:?}{table:?}").is_empty());
            properties.edit().remove(Property::AppId).build();
        }
        FrameKind::Body | FrameKind::Heartbeat => {}
    }
    Ok(())
}

/// What comes of a stream that arrives in pieces: the frames, and what ended it if something did.
fn outcome(bytes: &[u8], cuts: &[usize]) -> (Vec<Frame>, Option<Violation>) {
    let (mut rest, mut input, mut frames) = (bytes, BytesMut::new(), Vec::new());
    let mut needs = 0;
    for cut in cuts.iter().cycle() {
        let (now, later) = rest.split_at((*cut).min(rest.len()));
        input.extend_from_slice(now);
        rest = later;
        while input.len() >= needs {
            let mut whole = input.split().freeze();
            let cut = frame::cut(&mut whole, FrameMax::MIN);
            input = BytesMut::from(&whole[..]);
            match cut {
                Err(violation) => return (frames, Some(violation)),
                Ok(Framed::Partial { needs: more }) => needs = more,
                Ok(Framed::Whole(frame)) => {
                    needs = 0;
                    let read = read(&frame);
                    frames.push(frame);
                    if let Err(violation) = read {
                        assert!(violation.reply_text().as_short_str().as_bytes().len() <= 255);
                        return (frames, Some(violation));
                    }
                }
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (frames, None)
}

/// Valid frames of a client with tables and properties in them.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let frame = (FieldTable::any(), ShortString::any(), 1u16..4, 0u8..5).prop_map(
        |(arguments, name, channel, which)| {
            let name = || name.clone();
            match which {
                0 => {
                    let properties = BasicProperties::default()
                        .with_headers(arguments)
                        .with_expiration(name())
                        .with_delivery_mode(2)
                        .with_user_id(name());
                    AMQPFrame::Header(channel, AMQPContentHeader { class_id: 60, body_size: 3, properties })
                }
                1 => AMQPFrame::Body(channel, name().as_str().as_bytes().to_vec()),
                2 => AMQPFrame::Method(
                    channel,
                    AMQPClass::Queue(queue::AMQPMethod::Declare(queue::Declare {
                        queue: name(),
                        passive: false,
                        durable: true,
                        exclusive: false,
                        auto_delete: false,
                        nowait: false,
                        arguments,
                    })),
                ),
                3 => AMQPFrame::Method(
                    0,
                    AMQPClass::Connection(connection::AMQPMethod::StartOk(connection::StartOk {
                        client_properties: arguments,
                        mechanism: name(),
                        response: "\0guest\0guest".into(),
                        locale: name(),
                    })),
                ),
                _ => AMQPFrame::Method(
                    channel,
                    AMQPClass::Basic(basic::AMQPMethod::Ack(basic::Ack { delivery_tag: 1, multiple: true })),
                ),
            }
        },
    );
    vec(frame, 1..4).prop_map(|frames| frames.iter().flat_map(theirs::encode).collect())
}

/// Valid frames with some bytes changed.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop::sample::select(b"tbBsuIilLfdDTSxAFV\x00\x01\xce\xff".to_vec());
    let change = (any::<prop::sample::Index>(), prop_oneof![letter, any::<u8>()]);
    (valid(), vec(change, 0..6)).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// A frame of any payload, well framed, so that decoders are reached.
fn framed() -> impl Strategy<Value = Vec<u8>> {
    let class = prop::sample::select(vec![10u8, 20, 30, 40, 50, 60, 85, 90, 99]);
    let number = prop::sample::select(vec![10u8, 11, 20, 21, 30, 31, 40, 50, 60, 70, 80, 90, 110, 120]);
    (1u8..3, 0u8..2, class, number, vec(any::<u8>(), 0..60)).prop_map(
        |(kind, channel, class, number, rest)| {
            let number = if kind == 2 { 0 } else { number };
            let size = 4 + rest.len() as u8;
            let head = [kind, 0, channel, 0, 0, 0, size, 0, class, 0, number];
            [&head[..], &rest, &[0xce]].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    // Broken: a peer can stop the broker with bytes, or they mean something else if the network cuts them elsewhere.
    #[test]
    fn no_bytes_panic_and_cuts_change_nothing(
        bytes in prop_oneof![4 => mutated(), 3 => framed(), 1 => vec(any::<u8>(), 0..80)],
        cuts in vec(1usize..30, 1..20),
    ) {
        prop_assert_eq!(outcome(&bytes, &[usize::MAX]), outcome(&bytes, &cuts));
    }

    // Broken: a table goes on changed.
    #[test]
    fn a_table_is_written_as_it_was_read(table in FieldTable::any()) {
        let bytes = table.ours().encode();
        prop_assert_eq!(Table::decode(&bytes).map(|table| table.encode()), Ok(bytes));
    }

    // Broken: any bytes that are taken for a table come out longer or shorter.
    #[test]
    fn any_table_keeps_its_length(bytes in vec(prop::sample::select(b"\x00\x01\x02taFASVLl".to_vec()), 0..24)) {
        if let Ok(table) = Table::decode(&bytes) {
            prop_assert_eq!(table.encode().len(), bytes.len());
        }
    }
}

/// So many arrays, one in the other, in a table.
fn nested(arrays: usize) -> Bytes {
    let mut value = vec![b'V'];
    for _ in 0..arrays {
        value = [b"A", &(value.len() as u32).to_be_bytes()[..], &value].concat();
    }
    [b"\x01a", &value[..]].concat().into()
}

#[test]
fn nesting_has_a_bound() {
    // Broken: a small frame with many tables in each other takes the broker's stack.
    assert!(Table::decode(&nested(31)).is_ok(), "32 with the table itself");
    for arrays in [32, 33, 10_000] {
        let refused = Table::decode(&nested(arrays)).map_err(|rule| rule.name());
        assert_eq!(refused, Err("TableTooDeep"), "{arrays} arrays");
    }
}
