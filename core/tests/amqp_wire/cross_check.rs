//! Content against the other codec: properties, headers, bodies in frames; and the fast path against the plain one.

use crate::theirs::{self, Twin};
use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::BasicProperties;
use amq_protocol::types::{FieldTable, ShortString};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use vowmq_core::amqp::wire::content::{
    ContentHeader, body_pieces, content_header_bytes, put_body, put_content_header,
};
use vowmq_core::amqp::wire::delivery::put_delivery;
use vowmq_core::amqp::wire::frame::{self, ChannelNumber, Framed};
use vowmq_core::amqp::wire::method::basic::Deliver;
use vowmq_core::amqp::wire::{DeliveryTag, FrameMax, Properties, PropertiesBuilder, Property, PutMethod};

/// The fourteen in the order of the wire, each there or not.
#[derive(Clone, Debug)]
struct Fields {
    content_type: Option<ShortString>,
    content_encoding: Option<ShortString>,
    headers: Option<FieldTable>,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    correlation_id: Option<ShortString>,
    reply_to: Option<ShortString>,
    expiration: Option<ShortString>,
    message_id: Option<ShortString>,
    timestamp: Option<u64>,
    kind: Option<ShortString>,
    user_id: Option<ShortString>,
    app_id: Option<ShortString>,
    cluster_id: Option<ShortString>,
}

fn maybe<T: Twin + Clone + 'static>() -> impl Strategy<Value = Option<T>> {
    prop::option::of(T::any())
}

prop_compose! {
    fn fields()(
        (content_type, content_encoding, headers, delivery_mode, priority) in (maybe(), maybe(), maybe(), maybe(), maybe()),
        (correlation_id, reply_to, expiration, message_id, timestamp) in (maybe(), maybe(), maybe(), maybe(), maybe()),
        (kind, user_id, app_id, cluster_id) in (maybe(), maybe(), maybe(), maybe()),
    ) -> Fields {
        Fields {
            content_type, content_encoding, headers, delivery_mode, priority, correlation_id, reply_to, expiration,
            message_id, timestamp, kind, user_id, app_id, cluster_id,
        }
    }
}

/// Sets on a builder whatever is there.
macro_rules! set {
    ($builder:expr, $fields:ident, $($field:ident => $set:ident),*) => {{
        let mut builder = $builder;
        $(if let Some(value) = &$fields.$field { builder = builder.$set(value.clone().into()); })*
        builder
    }};
}

fn theirs(fields: &Fields) -> BasicProperties {
    set!(BasicProperties::default(), fields,
        content_type => with_content_type, content_encoding => with_content_encoding, headers => with_headers,
        delivery_mode => with_delivery_mode, priority => with_priority, correlation_id => with_correlation_id,
        reply_to => with_reply_to, expiration => with_expiration, message_id => with_message_id,
        timestamp => with_timestamp, kind => with_type, user_id => with_user_id, app_id => with_app_id,
        cluster_id => with_cluster_id)
}

fn ours(fields: &Fields) -> Properties {
    let mut builder = PropertiesBuilder::new();
    macro_rules! set_ours {
        ($($field:ident => $set:ident),*) => {
            $(if let Some(value) = &fields.$field { builder = builder.$set(value.ours()); })*
        };
    }
    set_ours!(content_type => set_content_type, content_encoding => set_content_encoding, headers => set_headers,
        delivery_mode => set_delivery_mode, priority => set_priority, correlation_id => set_correlation_id,
        reply_to => set_reply_to, expiration => set_expiration, message_id => set_message_id,
        timestamp => set_timestamp, kind => set_message_type, user_id => set_user_id, app_id => set_app_id,
        cluster_id => set_cluster_id);
    builder.build()
}

/// The frames that `bytes` are, all of them.
fn frames(bytes: impl Into<Bytes>, frame_max: FrameMax) -> Vec<frame::Frame> {
    let mut bytes = bytes.into();
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        match frame::cut(&mut bytes, frame_max) {
            Ok(Framed::Whole(frame)) => frames.push(frame),
            other => panic!("{other:?}"),
        }
    }
    frames
}

proptest! {
    // Broken: a property is lost, changed or taken for another between two codecs.
    #[test]
    fn properties_are_the_same_in_both_codecs(fields in fields(), channel in 1u16.., body_size: u64) {
        let theirs = AMQPContentHeader { class_id: 60, body_size, properties: theirs(&fields) };
        let theirs = AMQPFrame::Header(channel, theirs);
        let ours = ours(&fields);
        let mut out = BytesMut::new();
        put_content_header(&mut out, ChannelNumber(channel), body_size, &ours);
        prop_assert_eq!(&theirs::decode(&out), &theirs, "they read ours");
        prop_assert_eq!(content_header_bytes(&ours), out.len());

        let bytes = theirs::encode(&theirs);
        prop_assert_eq!(&out[..], &bytes[..], "written alike");
        let frame = frames(bytes, FrameMax::new(1 << 20).expect("a frame of 1 MiB is within the bounds")).remove(0);
        let header = ContentHeader::decode(frame.payload);
        prop_assert_eq!(header.as_ref(), Ok(&ContentHeader { body_size, properties: ours }), "we read theirs");
        let read = header.expect("what was just encoded is decoded").properties;
        macro_rules! check {
            ($($field:ident $get:ident),*) => {
                $(prop_assert_eq!(read.$get(), fields.$field.as_ref().map(Twin::ours));)*
            };
        }
        check!(content_type content_type, content_encoding content_encoding, headers headers,
            delivery_mode delivery_mode, priority priority, correlation_id correlation_id, reply_to reply_to,
            expiration expiration, message_id message_id, timestamp timestamp, kind message_type, user_id user_id,
            app_id app_id, cluster_id cluster_id);
        for (name, value) in fields.headers.iter().flat_map(|headers| headers.inner()) {
            prop_assert_eq!(read.header(name.as_str()), Some(theirs::value_of(value)));
        }
        prop_assert_eq!(read.header("\u{1}not there"), None);
    }

    // Broken: dead-lettering loses or changes what it does not touch.
    #[test]
    fn an_edit_changes_what_it_names_alone(fields in fields(), expiration in ShortString::any()) {
        let before = ours(&fields);
        prop_assert_eq!(&before.edit().build(), &before);
        let changed = Fields { expiration: Some(expiration.clone()), headers: None, ..fields };
        let after = before.edit().remove(Property::Headers).set_expiration(expiration.ours()).build();
        prop_assert_eq!(&after, &ours(&changed));
    }

    // Broken: a consumer gets more than it agreed to in a frame, or another body.
    #[test]
    fn a_body_is_cut_at_frame_max(length in 0usize..20_000, frame_max in 4096u32..9000, channel in 1u16..) {
        let frame_max = FrameMax::new(frame_max).expect("a size within the bounds");
        let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut out = BytesMut::new();
        put_body(&mut out, ChannelNumber(channel), &body, frame_max);
        let mut joined = Vec::new();
        for frame in frames(out, frame_max) {
            prop_assert!(frame.payload.len() + frame::FRAME_OVERHEAD <= frame_max.get() as usize);
            prop_assert!(!frame.payload.is_empty());
            joined.extend_from_slice(&frame.payload);
        }
        prop_assert_eq!(joined.len().div_ceil(frame_max.payload_max()), body_pieces(length, frame_max).count());
        prop_assert_eq!(joined, body);
    }

    // Broken: the fast path sends something else than the plain one.
    #[test]
    fn the_fast_path_of_a_delivery_is_the_plain_one(
        fields in fields(), names in (ShortString::any(), ShortString::any(), ShortString::any()),
        tag: u64, redelivered: bool, channel in 1u16.., body_size: u64,
    ) {
        let (channel, properties) = (ChannelNumber(channel), ours(&fields));
        let deliver = Deliver {
            consumer_tag: names.0.ours(), delivery_tag: DeliveryTag(tag), redelivered, exchange: names.1.ours(),
            routing_key: names.2.ours(),
        };
        let (mut fast, mut plain) = (BytesMut::new(), BytesMut::new());
        put_delivery(&mut fast, channel, &deliver, &properties, body_size);
        deliver.put(&mut plain, channel);
        put_content_header(&mut plain, channel, body_size, &properties);
        prop_assert_eq!(fast, plain);
    }
}
