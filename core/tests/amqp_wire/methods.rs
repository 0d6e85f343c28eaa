//! Every method against the other codec: what one writes the other reads, field by field and by their names.

use crate::theirs::{self, Twin};
use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{self, AMQPClass};
use amq_protocol::types::{FieldTable, LongString, ShortString};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use vowmq_core::amqp::wire::frame::{self, ChannelNumber, Framed};
use vowmq_core::amqp::wire::method::{self, Method, PutMethod};
use vowmq_core::amqp::wire::{DeliveryTag, FrameKind, FrameMax};

/// A delivery's number: theirs is bare.
#[derive(Clone, Debug)]
struct Tag(u64);

impl Twin for Tag {
    type Ours<'a> = DeliveryTag;

    fn any() -> BoxedStrategy<Tag> {
        any::<u64>().prop_map(Tag).boxed()
    }

    fn ours(&self) -> DeliveryTag {
        DeliveryTag(self.0)
    }
}

impl From<Tag> for u64 {
    fn from(tag: Tag) -> u64 {
        tag.0
    }
}

/// Names by class: theirs, ours and the fields that both call the same; behind `;` theirs and ours where they differ.
macro_rules! twins {
    ($($test:ident: $class:ident $module:ident $name:ident {
        $($field:ident: $type:ty),* $(; $($theirs:ident => $ours:ident: $other:ty),*)?
    })*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
                // Broken: a field of this method is missing, in the wrong place, or of another type.
                #[test]
                fn $test(
                    channel in 1u16..,
                    (_, $($field,)*) in (Just(()), $(<$type>::any(),)*),
                    $(($($theirs,)*) in ($(<$other>::any(),)*),)?
                ) {
                    let channel = if stringify!($module) == "connection" { 0 } else { channel };
                    let ours = method::$module::$name {
                        $($field: $field.ours(),)*
                        $($($ours: $theirs.ours(),)*)?
                    };
                    let mut out = BytesMut::new();
                    ours.put(&mut out, ChannelNumber(channel));
                    let theirs = protocol::$module::$name {
                        $($field: $field.clone().into(),)*
                        $($($theirs: $theirs.clone().into(),)*)?
                    };
                    let class = AMQPClass::$class(protocol::$module::AMQPMethod::$name(theirs));
                    let theirs = AMQPFrame::Method(channel, class);
                    let bytes = theirs::encode(&theirs);
                    prop_assert_eq!(&out[..], &bytes[..], "written alike");
                    prop_assert_eq!(theirs::decode(&out), theirs, "they read ours");
                    let read = method::$module::$name::decode(&bytes[11..bytes.len() - 1]);
                    prop_assert_eq!(read.as_ref(), Ok(&ours), "we read theirs");
                }
            )*
        }
    };
}

twins! {
    connection_start: Connection connection Start {
        version_major: u8, version_minor: u8, server_properties: FieldTable, mechanisms: LongString,
        locales: LongString
    }
    connection_start_ok: Connection connection StartOk {
        client_properties: FieldTable, mechanism: ShortString, response: LongString, locale: ShortString
    }
    connection_secure: Connection connection Secure { challenge: LongString }
    connection_secure_ok: Connection connection SecureOk { response: LongString }
    connection_tune: Connection connection Tune {
        channel_max: u16, frame_max: u32; heartbeat => heartbeat_s: u16
    }
    connection_tune_ok: Connection connection TuneOk {
        channel_max: u16, frame_max: u32; heartbeat => heartbeat_s: u16
    }
    connection_open: Connection connection Open { virtual_host: ShortString }
    connection_open_ok: Connection connection OpenOk {}
    connection_close: Connection connection Close {
        reply_code: u16, reply_text: ShortString, class_id: u16, method_id: u16
    }
    connection_close_ok: Connection connection CloseOk {}
    connection_blocked: Connection connection Blocked { reason: ShortString }
    connection_unblocked: Connection connection Unblocked {}
    connection_update_secret: Connection connection UpdateSecret {
        new_secret: LongString, reason: ShortString
    }
    connection_update_secret_ok: Connection connection UpdateSecretOk {}
    channel_open: Channel channel Open {}
    channel_open_ok: Channel channel OpenOk {}
    channel_flow: Channel channel Flow { active: bool }
    channel_flow_ok: Channel channel FlowOk { active: bool }
    channel_close: Channel channel Close {
        reply_code: u16, reply_text: ShortString, class_id: u16, method_id: u16
    }
    channel_close_ok: Channel channel CloseOk {}
    exchange_declare: Exchange exchange Declare {
        exchange: ShortString, kind: ShortString, passive: bool, durable: bool, auto_delete: bool,
        internal: bool, arguments: FieldTable; nowait => no_wait: bool
    }
    exchange_declare_ok: Exchange exchange DeclareOk {}
    exchange_delete: Exchange exchange Delete {
        exchange: ShortString, if_unused: bool; nowait => no_wait: bool
    }
    exchange_delete_ok: Exchange exchange DeleteOk {}
    exchange_bind: Exchange exchange Bind {
        destination: ShortString, source: ShortString, routing_key: ShortString, arguments: FieldTable;
        nowait => no_wait: bool
    }
    exchange_bind_ok: Exchange exchange BindOk {}
    exchange_unbind: Exchange exchange Unbind {
        destination: ShortString, source: ShortString, routing_key: ShortString, arguments: FieldTable;
        nowait => no_wait: bool
    }
    exchange_unbind_ok: Exchange exchange UnbindOk {}
    queue_declare: Queue queue Declare {
        queue: ShortString, passive: bool, durable: bool, exclusive: bool, auto_delete: bool,
        arguments: FieldTable; nowait => no_wait: bool
    }
    queue_declare_ok: Queue queue DeclareOk { queue: ShortString, message_count: u32, consumer_count: u32 }
    queue_bind: Queue queue Bind {
        queue: ShortString, exchange: ShortString, routing_key: ShortString, arguments: FieldTable;
        nowait => no_wait: bool
    }
    queue_bind_ok: Queue queue BindOk {}
    queue_purge: Queue queue Purge { queue: ShortString; nowait => no_wait: bool }
    queue_purge_ok: Queue queue PurgeOk { message_count: u32 }
    queue_delete: Queue queue Delete {
        queue: ShortString, if_unused: bool, if_empty: bool; nowait => no_wait: bool
    }
    queue_delete_ok: Queue queue DeleteOk { message_count: u32 }
    queue_unbind: Queue queue Unbind {
        queue: ShortString, exchange: ShortString, routing_key: ShortString, arguments: FieldTable
    }
    queue_unbind_ok: Queue queue UnbindOk {}
    basic_qos_ok: Basic basic QosOk {}
    basic_consume: Basic basic Consume {
        queue: ShortString, consumer_tag: ShortString, no_local: bool, no_ack: bool, exclusive: bool,
        arguments: FieldTable; nowait => no_wait: bool
    }
    basic_consume_ok: Basic basic ConsumeOk { consumer_tag: ShortString }
    basic_cancel: Basic basic Cancel { consumer_tag: ShortString; nowait => no_wait: bool }
    basic_cancel_ok: Basic basic CancelOk { consumer_tag: ShortString }
    basic_publish: Basic basic Publish {
        exchange: ShortString, routing_key: ShortString, mandatory: bool, immediate: bool
    }
    basic_return: Basic basic Return {
        reply_code: u16, reply_text: ShortString, exchange: ShortString, routing_key: ShortString
    }
    basic_deliver: Basic basic Deliver {
        consumer_tag: ShortString, delivery_tag: Tag, redelivered: bool, exchange: ShortString,
        routing_key: ShortString
    }
    basic_get: Basic basic Get { queue: ShortString, no_ack: bool }
    basic_get_ok: Basic basic GetOk {
        delivery_tag: Tag, redelivered: bool, exchange: ShortString, routing_key: ShortString,
        message_count: u32
    }
    basic_get_empty: Basic basic GetEmpty {}
    basic_ack: Basic basic Ack { delivery_tag: Tag, multiple: bool }
    basic_reject: Basic basic Reject { delivery_tag: Tag, requeue: bool }
    basic_nack: Basic basic Nack { delivery_tag: Tag, multiple: bool, requeue: bool }
    basic_recover_async: Basic basic RecoverAsync { requeue: bool }
    basic_recover: Basic basic Recover { requeue: bool }
    basic_recover_ok: Basic basic RecoverOk {}
    confirm_select: Confirm confirm Select { ; nowait => no_wait: bool }
    confirm_select_ok: Confirm confirm SelectOk {}
    tx_select: Tx tx Select {}
    tx_select_ok: Tx tx SelectOk {}
    tx_commit: Tx tx Commit {}
    tx_commit_ok: Tx tx CommitOk {}
    tx_rollback: Tx tx Rollback {}
    tx_rollback_ok: Tx tx RollbackOk {}
}

/// The one frame that `bytes` are.
fn whole(bytes: Vec<u8>) -> frame::Frame {
    let mut bytes = Bytes::from(bytes);
    match frame::cut(&mut bytes, FrameMax::MIN) {
        Ok(Framed::Whole(frame)) if bytes.is_empty() => frame,
        other => panic!("{other:?}"),
    }
}

proptest! {
    // Broken: prefetch means something else than the client asked for. (The other codec knows no prefetch-size.)
    #[test]
    fn basic_qos(prefetch_count: u16, global: bool) {
        let theirs = protocol::basic::AMQPMethod::Qos(protocol::basic::Qos { prefetch_count, global });
        let frame = whole(theirs::encode(&AMQPFrame::Method(1, AMQPClass::Basic(theirs))));
        let ours = method::basic::Qos { prefetch_size: 0, prefetch_count, global };
        prop_assert_eq!(Method::decode(&frame), Ok(Method::BasicQos(ours)));
    }

    // Broken: clients that ask for a ticket cannot be served.
    #[test]
    fn access_request(realm in ShortString::any(), exclusive: bool, passive: bool, active: bool, write: bool, read: bool) {
        let request =
            protocol::access::Request { realm: realm.clone(), exclusive, passive, active, write, read };
        let class = AMQPClass::Access(protocol::access::AMQPMethod::Request(request));
        let frame = whole(theirs::encode(&AMQPFrame::Method(1, class)));
        let ours = method::access::Request { realm: realm.ours() };
        prop_assert_eq!(Method::decode(&frame), Ok(Method::AccessRequest(ours)));
    }

    // Broken: a frame of a client comes out with another kind, channel or method than it had.
    #[test]
    fn a_publish_in_its_frame(channel in 1u16.., exchange in ShortString::any(), routing_key in ShortString::any(), mandatory: bool) {
        let ours =
            method::basic::Publish { exchange: exchange.ours(), routing_key: routing_key.ours(), mandatory, immediate: false };
        let mut out = BytesMut::new();
        ours.put(&mut out, ChannelNumber(channel));
        let frame = whole(out.to_vec());
        prop_assert_eq!((frame.kind, frame.channel), (FrameKind::Method, ChannelNumber(channel)));
        prop_assert_eq!(Method::decode(&frame), Ok(Method::BasicPublish(ours.clone())));
    }
}
