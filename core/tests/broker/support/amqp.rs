//! AMQP clients of tests. What goes both ways is written and read by amq-protocol, a codec that this project did not write.

use super::Run;
use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic, channel, connection, queue};
use amq_protocol::types::{AMQPValue, FieldTable};
use vowmq_core::input::Protocol;

/// A method as a client writes it: `method!(basic Get { queue: "q".into() })`; what is not named is empty.
macro_rules! method {
    ($class:ident :: $module:ident :: $name:ident { $($field:ident: $value:expr),* $(,)? }) => {
        amq_protocol::protocol::AMQPClass::$class(amq_protocol::protocol::$module::AMQPMethod::$name(
            #[allow(clippy::needless_update)]
            amq_protocol::protocol::$module::$name { $($field: $value,)* ..Default::default() },
        ))
    };
}
pub(crate) use method;

/// A message that came: by Deliver or GetOk.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub tag: u64,
    pub redelivered: bool,
    pub key: String,
    pub properties: basic::AMQPProperties,
    pub body: Vec<u8>,
}

fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(WriteContext::from(Vec::new())).expect("room without end").write
}

/// A connection with channel 1 open, all answers read; its number.
pub fn opened(run: &mut Run) -> u64 {
    opened_with(run, 131_072)
}

/// As `opened`, with frames of so many bytes at the most.
pub fn opened_with(run: &mut Run, frame_max: u32) -> u64 {
    let id = run.open_for(Protocol::Amqp);
    run.send(id, b"AMQP\0\0\x09\x01");
    let response = "\0guest\0guest".into();
    let start = method!(Connection::connection::StartOk { mechanism: "PLAIN".into(), response: response });
    send(run, id, 0, start);
    send(run, id, 0, method!(Connection::connection::TuneOk { channel_max: 0, frame_max: frame_max }));
    send(run, id, 0, method!(Connection::connection::Open { virtual_host: "/".into() }));
    send(run, id, 1, method!(Channel::channel::Open {}));
    let methods = methods(run, id);
    assert!(
        matches!(
            methods[..],
            [
                AMQPClass::Connection(connection::AMQPMethod::Start(_)),
                AMQPClass::Connection(connection::AMQPMethod::Tune(_)),
                AMQPClass::Connection(connection::AMQPMethod::OpenOk(_)),
                AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)),
            ]
        ),
        "{methods:?}"
    );
    id
}

/// Sends a method.
pub fn send(run: &mut Run, id: u64, channel: u16, method: AMQPClass) {
    run.send(id, &encode(&AMQPFrame::Method(channel, method)));
}

/// Sends several methods on channel 1 in one piece.
pub fn send_at_once(run: &mut Run, id: u64, methods: Vec<AMQPClass>) {
    let bytes: Vec<u8> =
        methods.into_iter().flat_map(|method| encode(&AMQPFrame::Method(1, method))).collect();
    run.send(id, &bytes);
}

/// The bytes of a method on channel 1.
pub fn method_bytes(method: AMQPClass) -> Vec<u8> {
    encode(&AMQPFrame::Method(1, method))
}

/// Publishes on channel 1.
pub fn publish(
    run: &mut Run,
    id: u64,
    exchange: &str,
    key: &str,
    body: &[u8],
    properties: &basic::AMQPProperties,
) {
    let publish = method!(Basic::basic::Publish { exchange: exchange.into(), routing_key: key.into() });
    publish_as(run, id, publish, body, properties);
}

/// Publishes on channel 1 by this method.
pub fn publish_as(
    run: &mut Run,
    id: u64,
    publish: AMQPClass,
    body: &[u8],
    properties: &basic::AMQPProperties,
) {
    let bytes = publish_bytes(publish, body, properties);
    run.send(id, &bytes);
}

/// The bytes of a publish on channel 1.
pub fn publish_bytes(publish: AMQPClass, body: &[u8], properties: &basic::AMQPProperties) -> Vec<u8> {
    let header =
        AMQPContentHeader { class_id: 60, body_size: body.len() as u64, properties: properties.clone() };
    let mut bytes = encode(&AMQPFrame::Method(1, publish));
    bytes.extend(encode(&AMQPFrame::Header(1, header)));
    if !body.is_empty() {
        bytes.extend(encode(&AMQPFrame::Body(1, body.to_vec())));
    }
    bytes
}

/// Delivery mode 2.
pub fn persistent() -> basic::AMQPProperties {
    basic::AMQPProperties::default().with_delivery_mode(2)
}

/// Everything that was sent to the connection, decoded.
pub fn received(run: &mut Run, id: u64) -> Vec<AMQPFrame> {
    let bytes = run.taken(id);
    let mut rest = &bytes[..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (left, frame) = parse_frame(rest).expect("what the broker sends is AMQP");
        frames.push(frame);
        rest = left;
    }
    frames
}

/// The methods that were sent to the connection, without content.
pub fn methods(run: &mut Run, id: u64) -> Vec<AMQPClass> {
    let method = |frame| match frame {
        AMQPFrame::Method(_, method) => Some(method),
        _ => None,
    };
    received(run, id).into_iter().filter_map(method).collect()
}

/// The messages that were sent to the connection; other methods are passed by.
pub fn messages(run: &mut Run, id: u64) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let empty = |tag, redelivered, key: &str| Message {
        tag,
        redelivered,
        key: key.into(),
        properties: basic::AMQPProperties::default(),
        body: Vec::new(),
    };
    for frame in received(run, id) {
        match frame {
            AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::Deliver(deliver))) => {
                messages.push(empty(deliver.delivery_tag, deliver.redelivered, deliver.routing_key.as_str()));
            }
            AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::GetOk(ok))) => {
                messages.push(empty(ok.delivery_tag, ok.redelivered, ok.routing_key.as_str()));
            }
            AMQPFrame::Header(_, header) => {
                messages.last_mut().expect("content follows a method").properties = header.properties;
            }
            AMQPFrame::Body(_, body) => {
                messages.last_mut().expect("content follows a method").body.extend(body);
            }
            _ => {}
        }
    }
    messages
}

/// The bodies of the messages that were sent to the connection.
pub fn bodies(run: &mut Run, id: u64) -> Vec<String> {
    let text = |message: Message| String::from_utf8_lossy(&message.body).into_owned();
    messages(run, id).into_iter().map(text).collect()
}

/// Declares a queue on channel 1; its messages that are ready.
pub fn declare(run: &mut Run, id: u64, queue: &str, durable: bool, arguments: &[(&str, AMQPValue)]) -> u32 {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    let declare = method!(Queue::queue::Declare { queue: queue.into(), durable: durable, arguments: table });
    send(run, id, 1, declare);
    match methods(run, id).pop() {
        Some(AMQPClass::Queue(queue::AMQPMethod::DeclareOk(ok))) => ok.message_count,
        other => panic!("expected a queue, got {other:?}"),
    }
}

/// Takes the next message of a queue by Get.
pub fn get(run: &mut Run, id: u64, queue: &str, no_ack: bool) -> Option<Message> {
    send(run, id, 1, method!(Basic::basic::Get { queue: queue.into(), no_ack: no_ack }));
    messages(run, id).pop()
}

/// The code and text by which channel 1 was closed.
pub fn channel_fault(run: &mut Run, id: u64) -> (u16, String) {
    let close = methods(run, id).into_iter().find_map(|method| match method {
        AMQPClass::Channel(channel::AMQPMethod::Close(close)) => Some(close),
        _ => None,
    });
    let close = close.expect("the channel was closed");
    (close.reply_code, close.reply_text.as_str().into())
}

/// An integer argument.
pub fn number(number: i32) -> AMQPValue {
    AMQPValue::LongInt(number)
}

/// A text argument.
pub fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}
