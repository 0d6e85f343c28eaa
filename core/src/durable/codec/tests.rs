//! Records of every type there and back, and bytes that are none.

mod image;
mod topology;

use super::super::record::{SessionExpiry, Subscription, Will};
use super::*;
use crate::mqtt::packet::QoS;
use alloc::string::String;
use alloc::vec;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..300, any::<u64>(), (0u32..64).prop_map(|bit| 1 << bit), Just(u64::MAX)]
}

fn text<T: From<String> + core::fmt::Debug>() -> impl Strategy<Value = T> {
    prop_oneof![Just(String::new()), "[a-z/+#é]{1,200}"].prop_map(T::from)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

prop_compose! {
    fn key()(vhost in text(), client in text()) -> ClientKey {
        ClientKey { vhost, client }
    }
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop::sample::select(Vec::from([0u8, 1, 2, 4, 5, 6, 8, 16, 25, 26]))
        .prop_map(|byte| Delivery::from_byte(byte).expect("valid"))
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1u16..).prop_map(|number| PacketId::new(number).expect("not 0"))
}

prop_compose! {
    fn message()(
        level: u8, at in number(), expires in number(), address in text::<String>(), properties in bytes(), body in bytes(),
    ) -> Message {
        let parts = MessageParts { address: address.as_bytes(), properties: &properties, body: &body };
        let origin = [Origin::Mqtt3, Origin::Amqp, Origin::Mqtt5][usize::from(level % 3)];
        let mut message = Message::new(origin, level, WallTime(at), parts);
        message.expires_at = WallTime(expires);
        message
    }
}

fn expiry() -> impl Strategy<Value = SessionExpiry> {
    prop_oneof![Just(SessionExpiry::AsSet), any::<u32>().prop_map(SessionExpiry::of_interval)]
}

prop_compose! {
    fn subscription()(
        bits in 0u8..3, no_local: bool, retain_as_published: bool, identifier in prop_oneof![Just(0), 1..=268_435_455u32],
    ) -> Subscription {
        let qos = QoS::from_bits(bits).expect("0 to 2");
        Subscription { qos, no_local, retain_as_published, identifier }
    }
}

prop_compose! {
    fn granted()(filter in text(), subscription in subscription(), owes: bool) -> Granted {
        Granted { filter, subscription, owes }
    }
}

prop_compose! {
    fn a_will()(
        content in message(), retain: bool, delay_s in prop_oneof![Just(0), any::<u32>()],
        expiry_s in prop::option::of(any::<u32>()),
    ) -> Will {
        Will { content, retain, durable: true, delay_s, expiry_s }
    }
}

prop_compose! {
    fn recipient()(
        queue in number(), position in number(), delivery in delivery(), group in prop::option::of(number()),
    ) -> Recipient {
        let (queue, position) = (QueueId(queue), QueuePosition(position));
        Recipient { queue, position, delivery, durable: true, group: group.map(SessionId) }
    }
}

prop_compose! {
    fn publication()(
        id in number(), vhost in text(), content in message(),
        recipients in prop::collection::vec(recipient(), 0..20),
        dropped in prop::collection::vec((number(), number()), 0..20),
        retain in prop::sample::select(Vec::from([Retain::Not, Retain::Set, Retain::Clear])),
        received in prop::option::of((number(), packet_id())), will_of in prop::option::of(text()), identified: bool,
    ) -> Publication {
        let dropped = dropped.into_iter().map(|(queue, position)| (QueueId(queue), QueuePosition(position)));
        let received = received.map(|(session, packet_id)| (SessionId(session), packet_id));
        let (message, dropped) = (MessageId(id), dropped.collect());
        let identifiers: Vec<_> =
            recipients.iter().map(|r| (r.queue, Vec::from([1, u32::MAX]))).filter(|_| identified).collect();
        Publication { message, vhost, content, recipients, dropped, retain, received, will_of, identifiers }
    }
}

prop_compose! {
    fn retained_queued()(
        session in number(), entries in prop::collection::vec((number(), number(), delivery()), 0..20),
        after in prop::option::of(text()), identifier in prop_oneof![Just(0), any::<u32>()],
    ) -> Record {
        let entries = entries.into_iter().map(|(position, id, how)| (QueuePosition(position), MessageId(id), how));
        let progress = after.map_or(Progress::Done, Progress::After);
        Record::RetainedQueued { session: SessionId(session), entries: entries.collect(), progress, identifier }
    }
}

fn retained_expired() -> impl Strategy<Value = Record> {
    (text(), text(), number()).prop_map(|(vhost, topic, message)| Record::RetainedExpired {
        vhost,
        topic,
        message: MessageId(message),
    })
}

fn returned() -> impl Strategy<Value = Record> {
    (number(), number(), any::<u32>()).prop_map(|(queue, position, returns)| Record::Returned {
        queue: QueueId(queue),
        position: QueuePosition(position),
        returns,
    })
}

/// Records of every type.
fn record() -> impl Strategy<Value = Record> {
    let numbers = || (number(), number(), number(), number());
    let of_sessions = prop_oneof![
        (numbers(), key()).prop_map(|((session, queue, at, horizon), key)| Record::SessionOpened {
            session: SessionId(session),
            queue: QueueId(queue),
            key,
            durable: true,
            at: WallTime(at),
            horizon: QueuePosition(horizon),
        }),
        numbers().prop_map(|(session, horizon, ..)| Record::SessionAttached {
            session: SessionId(session),
            horizon: QueuePosition(horizon),
        }),
        numbers().prop_map(|(session, at, horizon, _)| Record::SessionDetached {
            session: SessionId(session),
            at: WallTime(at),
            horizon: QueuePosition(horizon),
        }),
        numbers().prop_map(|(session, at, ..)| Record::SessionRemoved {
            session: SessionId(session),
            at: WallTime(at)
        }),
        (number(), expiry())
            .prop_map(|(session, expiry)| Record::SessionExpirySet { session: SessionId(session), expiry }),
        (number(), prop::collection::vec(granted(), 0..20), number()).prop_map(
            |(session, filters, before)| {
                Record::Subscribed { session: SessionId(session), filters, before: MessageId(before) }
            }
        ),
        (number(), prop::collection::vec(text(), 0..20))
            .prop_map(|(session, filters)| Record::Unsubscribed { session: SessionId(session), filters }),
        (number(), packet_id()).prop_map(|(session, packet_id)| Record::PacketIdReceived {
            session: SessionId(session),
            packet_id
        }),
        (number(), packet_id()).prop_map(|(session, packet_id)| Record::PacketIdReleased {
            session: SessionId(session),
            packet_id
        }),
    ];
    let place =
        || (number(), number()).prop_map(|(queue, position)| (QueueId(queue), QueuePosition(position)));
    prop_oneof![
        8 => of_sessions,
        1 => retained_queued(),
        2 => publication().prop_map(Record::Published),
        1 => place().prop_map(|(queue, position)| Record::Releasing { queue, position }),
        1 => place().prop_map(|(queue, position)| Record::Settled { queue, position }),
        1 => returned(),
        1 => place().prop_map(|(queue, position)| Record::HorizonMoved { queue, position }),
        1 => (key(), a_will()).prop_map(|(key, will)| Record::WillSet { key, will }),
        1 => retained_expired(),
        1 => key().prop_map(|key| Record::WillRemoved { key }),
        1 => (prop::option::of((number(), number())), number(), recipient()).prop_map(|(from, message, to)| {
            let from = from.map(|(queue, position)| (QueueId(queue), QueuePosition(position)));
            Record::Moved { from, message: MessageId(message), to }
        }),
        1 => (number(), message())
            .prop_map(|(message, content)| Record::Relocated { message: MessageId(message), content }),
        4 => image::image().prop_map(Record::Image),
        1 => prop::collection::vec(image::place(), 0..20).prop_map(Record::Listing),
        1 => image::checkpoint().prop_map(Record::Checkpoint),
        3 => topology::topology().prop_map(Record::Topology),
        1 => (place(), number()).prop_map(|((queue, from), to)| {
            Record::RangeSettled { queue, from, to: QueuePosition(to) }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // Broken: what is read back after a crash is not what was written.
    #[test]
    fn records_come_back_as_they_were(records in prop::collection::vec(record(), 1..4)) {
        let mut out = Vec::new();
        let spans: Vec<_> = records.iter().map(|record| encode(record, &mut out)).collect();
        let mut at = 0;
        for (record, span) in records.iter().zip(spans) {
            let (read, found, next) = decode(&out, at).expect("it was just written");
            prop_assert_eq!(&read, record);
            prop_assert_eq!(found, span);
            if let (Record::Published(publication), Some(span)) = (&read, found) {
                let bytes = &out[span.offset..span.offset + span.length as usize];
                let message = read_message(bytes, span.checksum);
                prop_assert_eq!(message.as_ref(), Some(&publication.content));
                prop_assert_eq!(read_message(bytes, span.checksum ^ 1), None);
            }
            if let (Record::Image(_), Some(span)) = (&read, found) {
                let bytes = &out[span.offset..span.offset + span.length as usize];
                let image = read_record(bytes, span.checksum);
                prop_assert_eq!(image.as_ref(), Some(record));
            }
            at = next;
        }
        prop_assert_eq!(at, out.len());
    }

    // Broken: one byte that has changed on the disk is delivered as if it had not.
    #[test]
    fn a_changed_message_is_not_read(content in message(), at in any::<prop::sample::Index>(), mask in 1u8..) {
        let mut out = Vec::new();
        let span = put_message(&mut out, &content);
        let at = at.index(out.len());
        out[at] ^= mask;
        prop_assert_eq!(read_message(&out, span.checksum), None);
    }

    // Broken: a record that is cut is half believed.
    #[test]
    fn a_cut_record_is_refused(record in record(), cut in any::<prop::sample::Index>()) {
        let mut out = Vec::new();
        encode(&record, &mut out);
        out.truncate(cut.index(out.len()));
        prop_assert_eq!(decode(&out, 0).map(|_| ()), Err(CodecError::Truncated));
    }

    // Broken: bytes on a damaged disk stop the broker with a panic, or take all its memory.
    #[test]
    fn any_bytes_are_read_or_refused(kind in 0u8..36, body in bytes(), record in record(), flip in any::<prop::sample::Index>(), mask: u8) {
        let mut bytes = Vec::from([kind]);
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(&body);
        let _ = decode(&bytes, 0);
        let _ = decode(&body, 0);
        let mut out = Vec::new();
        encode(&record, &mut out);
        let at = flip.index(out.len());
        out[at] ^= mask;
        let _ = decode(&out, 0);
    }
}
