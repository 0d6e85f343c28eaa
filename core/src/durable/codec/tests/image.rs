//! The records of checkpoints, any of them.

use super::super::super::record::{Begin, Checkpoint, Image};
use super::*;
use crate::durable::place::Place;
use crate::durable::state::Owed;
use crate::ids::{Lsn, RecoveryCount, SegmentNumber};
use crate::message::table::{self, Known};
use crate::queue::{self, Entry, Note, Stage};

prop_compose! {
    pub fn place()(segment in 1u64..1 << 32, offset in 0u64..1 << 32, length: u32, checksum: u32) -> Place {
        Place { segment: SegmentNumber(segment), offset, length, checksum }
    }
}

prop_compose! {
    pub fn checkpoint()(
        begin in (number(), number(), number(), any::<u32>(), any::<u32>()),
        listings in prop::collection::vec(place(), 0..10), sessions in number(),
        needed in prop::collection::btree_set(1u64..100_000, 0..20),
        next in (number(), number(), number()),
    ) -> Checkpoint {
        let (segment, offset, first, previous, recovery_count) = begin;
        Checkpoint {
            begin: Begin {
                segment: SegmentNumber(segment),
                offset,
                first: Lsn(first),
                previous,
                recovery_count: RecoveryCount(recovery_count),
            },
            listings,
            sessions,
            needed: needed.into_iter().map(SegmentNumber).collect(),
            next_session: SessionId(next.0),
            next_queue: QueueId(next.1),
            next_message: MessageId(next.2),
        }
    }
}

pub fn image() -> impl Strategy<Value = Image> {
    prop_oneof![
        session(),
        subscriptions(),
        a_queue(),
        messages(),
        retained(),
        will(),
        super::topology::image()
    ]
}

fn qos() -> impl Strategy<Value = QoS> {
    (0u8..3).prop_map(|bits| QoS::from_bits(bits).expect("0 to 2"))
}

prop_compose! {
    fn session()(
        ids in (number(), number()), key in key(), expiry in expiry(), away_since in prop::option::of(number()),
        numbers in (number(), number(), number()), received in prop::collection::vec(packet_id(), 0..20),
    ) -> Image {
        Image::Session {
            session: SessionId(ids.0),
            queue: QueueId(ids.1),
            key,
            expiry,
            away_since: away_since.map(WallTime),
            horizon: QueuePosition(numbers.0),
            next: QueuePosition(numbers.1),
            changed: Lsn(numbers.2),
            received,
        }
    }
}

prop_compose! {
    fn owed()(filter in text(), qos in qos(), before in number(), after in prop::option::of(text())) -> Owed {
        Owed { filter, qos, before: MessageId(before), after }
    }
}

prop_compose! {
    fn subscriptions()(
        session in number(), part: u32, as_of in number(),
        filters in prop::collection::vec((text(), subscription()), 0..10), owed in prop::collection::vec(owed(), 0..10),
    ) -> Image {
        Image::Subscriptions { session: SessionId(session), part, as_of: Lsn(as_of), filters, owed }
    }
}

prop_compose! {
    fn note()(
        group in prop::option::of(number()), returns: u32, identifiers in prop::collection::vec(any::<u32>(), 0..3),
    ) -> Note {
        Note { group: group.map(SessionId), returns, identifiers: identifiers.into() }
    }
}

prop_compose! {
    fn a_queue()(
        id in number(), stretch in 0u64..1 << 40, span in (0..queue::CHUNK, 0..queue::CHUNK),
        entries in prop::collection::btree_map(0..queue::CHUNK, (0u64..1 << 56, delivery(), any::<bool>()), 0..50),
        notes in prop::collection::vec((number(), note()), 0..5),
    ) -> Image {
        let (low, high) = (span.0.min(span.1), span.0.max(span.1) + 1);
        let at = |place: u64| QueuePosition(stretch * queue::CHUNK + place);
        let entries = entries.into_iter().filter(|(place, _)| (low..high).contains(place));
        let entries = entries.map(|(place, (message, delivery, releasing))| Entry {
            position: at(place),
            message: MessageId(message),
            delivery,
            stage: if releasing { Stage::Releasing } else { Stage::Queued },
        });
        let notes = notes.into_iter().map(|(position, note)| (QueuePosition(position), note));
        let (first, end, entries, notes) = (at(low), at(high), entries.collect(), notes.collect());
        Image::Queue { queue: QueueId(id), first, end, entries, notes }
    }
}

prop_compose! {
    fn messages()(
        chunk in 0u64..1 << 40,
        known in prop::collection::btree_map(0..table::CHUNK, (place(), any::<u32>(), any::<u8>()), 0..50),
        expiries in prop::collection::vec((number(), number()), 0..5),
    ) -> Image {
        let expiries = expiries.into_iter().map(|(message, at)| (MessageId(message), WallTime(at))).collect();
        let messages = known.into_iter().map(|(index, (place, body_bytes, level))| {
            let known = Known { place: Some(place), body_bytes, level, references: 0 };
            (MessageId(chunk * table::CHUNK + index), known)
        });
        Image::Messages { chunk, messages: messages.collect(), expiries }
    }
}

prop_compose! {
    fn retained()(
        vhost in text(), page in number(), topics in prop::collection::vec((text(), number(), number()), 0..20),
    ) -> Image {
        let topics = topics.into_iter().map(|(topic, message, lsn)| (topic, MessageId(message), Lsn(lsn)));
        Image::Retained { vhost, page, topics: topics.collect() }
    }
}

prop_compose! {
    fn will()(key in key(), will in a_will()) -> Image {
        Image::Will { key, will }
    }
}
