//! One durable fact as one line: JSON for programs, words for people.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};
use vowmq_core::durable::record::{SessionExpiry, Subscription};
use vowmq_core::facts::Fact;
use vowmq_core::message::Message;
use vowmq_core::mqtt::packet::QoS;
use vowmq_core::time::WallTime;

/// Bytes of a payload that the line for people shows.
const SHOWN_BYTES_MAX: usize = 60;

/// A fact, as it is printed. The names are an interface: scripts read them.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum FactLine<'a> {
    Session {
        session: u64,
        queue: u64,
        vhost: &'a str,
        client: &'a str,
        /// Of a group that shares a subscription.
        #[serde(skip_serializing_if = "is_false")]
        group: bool,
        /// RFC 3339, UTC; null while connected.
        away_since: Option<String>,
        /// Seconds, or "never"; left out where the setting has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        expiry: Option<Expiry>,
        horizon: u64,
        next: u64,
        changed: u64,
    },
    Subscription {
        session: u64,
        filter: &'a str,
        qos: u8,
        #[serde(skip_serializing_if = "is_false")]
        no_local: bool,
        #[serde(skip_serializing_if = "is_false")]
        retain_as_published: bool,
        #[serde(skip_serializing_if = "is_zero")]
        identifier: u32,
    },
    Queued {
        queue: u64,
        position: u64,
        packet_id: u16,
        message: u64,
        qos: u8,
        maybe_delivered: bool,
        #[serde(flatten)]
        content: Content<'a>,
        place: Option<Place>,
    },
    Exchange {
        vhost: &'a str,
        name: &'a str,
        r#type: &'a str,
        auto_delete: bool,
        internal: bool,
    },
    DeclaredQueue {
        vhost: &'a str,
        name: &'a str,
        queue: u64,
        lanes: u16,
        messages: u64,
        auto_delete: bool,
    },
    Binding {
        vhost: &'a str,
        source: &'a str,
        to: &'a str,
        to_exchange: bool,
        key: Cow<'a, str>,
    },
    InQueue {
        name: &'a str,
        queue: u64,
        position: u64,
        message: u64,
        maybe_delivered: bool,
        #[serde(flatten)]
        content: Content<'a>,
        place: Option<Place>,
    },
    Releasing {
        queue: u64,
        position: u64,
        packet_id: u16,
    },
    Received {
        session: u64,
        packet_id: u16,
    },
    Retained {
        vhost: &'a str,
        topic: &'a str,
        message: u64,
        qos: u8,
        #[serde(flatten)]
        payload: Retained<'a>,
        place: Option<Place>,
    },
    Will {
        vhost: &'a str,
        client: &'a str,
        topic: &'a str,
        qos: u8,
        retain: bool,
        /// Seconds.
        #[serde(skip_serializing_if = "is_zero")]
        delay: u32,
        #[serde(flatten)]
        payload: Payload<'a>,
    },
}

/// How long a session outlives its connection.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Expiry {
    Seconds(u32),
    Word(&'static str),
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a queued message is, or that it cannot be read.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Readable {
        topic: Cow<'a, str>,
        #[serde(flatten)]
        payload: Payload<'a>,
    },
    Unreadable(Unreadable),
}

/// What a topic retains, or that it cannot be read.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Retained<'a> {
    Readable(Payload<'a>),
    Unreadable(Unreadable),
}

#[derive(Debug, Serialize)]
pub(super) struct Unreadable {
    /// Always true.
    unreadable: bool,
}

/// A payload: always in base64, and as text where it is UTF-8.
#[derive(Debug, Serialize)]
pub(super) struct Payload<'a> {
    payload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
    #[serde(skip)]
    bytes: &'a [u8],
}

/// Where a body lies in the log.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    segment: u64,
    offset: u64,
    length: u32,
    checksum: u32,
}

impl<'a> From<&'a Fact> for FactLine<'a> {
    fn from(fact: &'a Fact) -> Self {
        match fact {
            Fact::Session { .. } => session(fact),
            Fact::Subscription { session, filter, subscription } => {
                let Subscription { qos, no_local, retain_as_published, identifier } = *subscription;
                let (session, qos) = (session.0, level(qos));
                FactLine::Subscription { session, filter, qos, no_local, retain_as_published, identifier }
            }
            Fact::Queued { queue, position, packet_id, message, qos, maybe_delivered, content, place } => {
                FactLine::Queued {
                    queue: queue.0,
                    position: position.0,
                    packet_id: packet_id.get(),
                    message: message.0,
                    qos: level(*qos),
                    maybe_delivered: *maybe_delivered,
                    content: Content::of(content.as_ref()),
                    place: place.map(Place::from),
                }
            }
            Fact::Exchange { .. }
            | Fact::DeclaredQueue { .. }
            | Fact::Binding { .. }
            | Fact::InQueue { .. } => declared(fact),
            Fact::Releasing { queue, position, packet_id } => {
                FactLine::Releasing { queue: queue.0, position: position.0, packet_id: packet_id.get() }
            }
            Fact::Received { session, packet_id } => {
                FactLine::Received { session: session.0, packet_id: packet_id.get() }
            }
            Fact::Retained { vhost, topic, message, qos, content, place } => FactLine::Retained {
                vhost,
                topic,
                message: message.0,
                qos: level(*qos),
                payload: match content {
                    Some(message) => Retained::Readable(Payload::of(message.body())),
                    None => Retained::Unreadable(Unreadable { unreadable: true }),
                },
                place: place.map(Place::from),
            },
            Fact::Will { vhost, client, topic, qos, retain, delay_s, payload } => FactLine::Will {
                vhost,
                client,
                topic,
                qos: level(*qos),
                retain: *retain,
                delay: *delay_s,
                payload: Payload::of(payload),
            },
        }
    }
}

/// A session.
fn session(fact: &Fact) -> FactLine<'_> {
    match fact {
        Fact::Session {
            session,
            queue,
            vhost,
            client,
            is_group,
            expiry,
            away_since,
            horizon,
            next,
            changed,
        } => FactLine::Session {
            session: session.0,
            queue: queue.0,
            vhost,
            client,
            group: *is_group,
            away_since: away_since.map(rfc3339),
            expiry: match expiry {
                SessionExpiry::AsSet => None,
                SessionExpiry::After(seconds) => Some(Expiry::Seconds(*seconds)),
                SessionExpiry::Never => Some(Expiry::Word("never")),
            },
            horizon: horizon.0,
            next: next.0,
            changed: changed.0,
        },
        _ => unreachable!("only sessions are handed on"),
    }
}

/// What AMQP clients have declared, and the messages in it.
fn declared(fact: &Fact) -> FactLine<'_> {
    match fact {
        Fact::Exchange { vhost, name, kind, auto_delete, internal } => {
            FactLine::Exchange { vhost, name, r#type: kind, auto_delete: *auto_delete, internal: *internal }
        }
        Fact::DeclaredQueue { vhost, name, queue, lanes, messages, auto_delete } => {
            let (queue, lanes, messages) = (queue.0, *lanes, *messages);
            FactLine::DeclaredQueue { vhost, name, queue, lanes, messages, auto_delete: *auto_delete }
        }
        Fact::Binding { vhost, source, to, to_exchange, key } => {
            let key = String::from_utf8_lossy(key);
            FactLine::Binding { vhost, source, to, to_exchange: *to_exchange, key }
        }
        Fact::InQueue { name, queue, position, message, maybe_delivered, content, place } => {
            FactLine::InQueue {
                name,
                queue: queue.0,
                position: position.0,
                message: message.0,
                maybe_delivered: *maybe_delivered,
                content: Content::of(content.as_ref()),
                place: place.map(Place::from),
            }
        }
        _ => unreachable!("the caller has told the others apart"),
    }
}

impl<'a> Content<'a> {
    fn of(message: Option<&'a Message>) -> Content<'a> {
        match message {
            Some(message) => Content::Readable {
                topic: String::from_utf8_lossy(message.address()),
                payload: Payload::of(message.body()),
            },
            None => Content::Unreadable(Unreadable { unreadable: true }),
        }
    }
}

impl<'a> Payload<'a> {
    fn of(bytes: &'a [u8]) -> Payload<'a> {
        Payload { payload: STANDARD.encode(bytes), payload_text: std::str::from_utf8(bytes).ok(), bytes }
    }
}

impl From<vowmq_core::durable::place::Place> for Place {
    fn from(place: vowmq_core::durable::place::Place) -> Self {
        Place {
            segment: place.segment.0,
            offset: place.offset,
            length: place.length,
            checksum: place.checksum,
        }
    }
}

impl FactLine<'_> {
    /// Sessions and what they subscribed to, in words.
    fn fmt_of_sessions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactLine::Session { session, queue, client, group: true, next, .. } => {
                write!(f, "session {session} of group {client:?}: queue {queue}, next position {next}")
            }
            FactLine::Session { session, queue, client, away_since, expiry, horizon, next, .. } => {
                write!(f, "session {session} of client {client:?}: queue {queue}, next position {next}, ")?;
                write!(f, "delivered below {horizon}, ")?;
                match away_since {
                    Some(since) => write!(f, "away since {since}")?,
                    None => f.write_str("connected")?,
                }
                match expiry {
                    Some(Expiry::Seconds(seconds)) => write!(f, ", expires after {seconds} s"),
                    Some(Expiry::Word(word)) => write!(f, ", expires {word}"),
                    None => Ok(()),
                }
            }
            FactLine::Subscription { session, filter, qos, no_local, retain_as_published, identifier } => {
                write!(f, "session {session} subscribes to {filter:?} with QoS {qos}")?;
                f.write_str(if *no_local { ", no local" } else { "" })?;
                f.write_str(if *retain_as_published { ", retain as published" } else { "" })?;
                if *identifier > 0 { write!(f, ", identifier {identifier}") } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for FactLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactLine::Session { .. } | FactLine::Subscription { .. } => self.fmt_of_sessions(f),
            FactLine::Queued {
                queue,
                position,
                packet_id,
                message,
                qos,
                maybe_delivered,
                content,
                place,
            } => {
                let sent = if *maybe_delivered { ", may have been delivered" } else { "" };
                write!(
                    f,
                    "queue {queue} at {position}: message {message}, packet id {packet_id}, QoS {qos}{sent}, "
                )?;
                match content {
                    Content::Readable { topic, payload } => write!(f, "topic {topic:?}, {payload}"),
                    Content::Unreadable(_) => write_unreadable(f, place.as_ref()),
                }
            }
            FactLine::Exchange { name, r#type, .. } => write!(f, "exchange {name:?} of type {}", r#type),
            FactLine::DeclaredQueue { name, queue, lanes, messages, .. } => {
                write!(f, "queue {queue} {name:?}: {messages} messages")?;
                if *lanes > 1 { write!(f, " in {lanes} priorities") } else { Ok(()) }
            }
            FactLine::Binding { source, to, to_exchange, key, .. } => {
                let what = if *to_exchange { "exchange" } else { "queue" };
                write!(f, "exchange {source:?} leads to {what} {to:?} for key {key:?}")
            }
            FactLine::InQueue { name, queue, position, message, maybe_delivered, content, place } => {
                let sent = if *maybe_delivered { ", may have been delivered" } else { "" };
                write!(f, "queue {queue} {name:?} at {position}: message {message}{sent}, ")?;
                match content {
                    Content::Readable { topic, payload } => write!(f, "key {topic:?}, {payload}"),
                    Content::Unreadable(_) => write_unreadable(f, place.as_ref()),
                }
            }
            FactLine::Releasing { queue, position, packet_id } => {
                write!(f, "queue {queue} at {position}: packet id {packet_id} awaits PUBCOMP")
            }
            FactLine::Received { session, packet_id } => {
                write!(f, "session {session} has published packet id {packet_id} and not released it")
            }
            FactLine::Retained { topic, message, qos, payload, place, .. } => {
                write!(f, "retained at {topic:?}: message {message}, QoS {qos}, ")?;
                match payload {
                    Retained::Readable(payload) => payload.fmt(f),
                    Retained::Unreadable(_) => write_unreadable(f, place.as_ref()),
                }
            }
            FactLine::Will { client, topic, qos, retain, delay, payload, .. } => {
                let retained = if *retain { ", retained" } else { "" };
                write!(f, "will of client {client:?} for {topic:?}: QoS {qos}{retained}, ")?;
                if *delay > 0 {
                    write!(f, "{delay} s after it has gone, ")?;
                }
                write!(f, "{payload}")
            }
        }
    }
}

impl fmt::Display for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(SHOWN_BYTES_MAX)];
        let more = if shown.len() < self.bytes.len() { "…" } else { "" };
        write!(f, "{} bytes \"{}\"{more}", self.bytes.len(), shown.escape_ascii())
    }
}

fn write_unreadable(f: &mut fmt::Formatter<'_>, place: Option<&Place>) -> fmt::Result {
    match place {
        Some(Place { segment, offset, length, .. }) => {
            write!(f, "UNREADABLE: {length} bytes in segment {segment} at offset {offset}")
        }
        None => f.write_str("UNREADABLE: it is nowhere on disk"),
    }
}

fn level(qos: QoS) -> u8 {
    qos as u8
}

fn rfc3339(time: WallTime) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.0)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vowmq_core::ids::{Lsn, MessageId, QueueId, QueuePosition, SessionId};
    use vowmq_core::message::{Message, MessageParts, Origin};

    #[test]
    fn lines_are_what_scripts_read() {
        // If it failed, every script over `inspect --json` would break.
        let session = Fact::Session {
            session: SessionId(1),
            queue: QueueId(2),
            vhost: "/".into(),
            client: "c\"1".to_owned(),
            is_group: false,
            expiry: SessionExpiry::AsSet,
            away_since: Some(WallTime(1_700_000_000_123)),
            horizon: QueuePosition(3),
            next: QueuePosition(4),
            changed: Lsn(5),
        };
        let line = serde_json::to_string(&FactLine::from(&session)).expect("serializes");
        let expected = r#"{"kind":"session","session":1,"queue":2,"vhost":"/","client":"c\"1","away_since":"2023-11-14T22:13:20.123Z","horizon":3,"next":4,"changed":5}"#;
        assert_eq!(line, expected);

        let message = |body: &[u8]| {
            let parts = MessageParts { address: b"a/b", properties: &[], body };
            Some(Message::new(Origin::Mqtt3, 1, WallTime(0), parts))
        };
        let retained = |content| Fact::Retained {
            vhost: "/".into(),
            topic: "a/b".to_owned(),
            message: MessageId(7),
            qos: QoS::AtLeastOnce,
            content,
            place: None,
        };
        let text = retained(message(b"hi"));
        let line = serde_json::to_string(&FactLine::from(&text)).expect("serializes");
        let expected = r#"{"kind":"retained","vhost":"/","topic":"a/b","message":7,"qos":1,"payload":"aGk=","payload_text":"hi","place":null}"#;
        assert_eq!(line, expected);
        let binary = retained(message(&[0xff]));
        let line = serde_json::to_string(&FactLine::from(&binary)).expect("serializes");
        assert!(line.contains(r#""payload":"/w==","place""#), "{line}");
        let shown = FactLine::from(&binary).to_string();
        assert_eq!(shown, r#"retained at "a/b": message 7, QoS 1, 1 bytes "\xff""#);
        let lost = retained(None);
        let line = serde_json::to_string(&FactLine::from(&lost)).expect("serializes");
        assert!(line.contains(r#""qos":1,"unreadable":true,"place":null"#), "{line}");
    }
}
