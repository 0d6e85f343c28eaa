//! A message's properties as its receiver sees them.

use super::bridge;
use super::wire::content::content_header_bytes;
use super::wire::{FrameMax, Properties, ShortStr, Table, Value};
use crate::message::{Message, Origin};
use crate::time::WallTime;
use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

/// Properties as they go: mostly those of the message itself.
type Presented<'a> = Properties<Cow<'a, [u8]>>;

/// How often a message was delivered before, in queues that look at it.
const COUNT_HEADER: &str = "x-delivery-count";

/// How many headers were left out, because all of them did not fit into a frame of the size agreed on.
const LEFT_OUT_HEADER: &str = "x-vowmq-headers-left-out";

/// The properties, with how often the message was delivered before, if its queue counts that, and in a frame that the
/// receiver takes: a header cannot be split, so it is told of fewer deaths, the latest, where all do not fit.
pub(super) fn properties(
    message: &Message,
    count: Option<u32>,
    frame_max: FrameMax,
    now: WallTime,
) -> Presented<'_> {
    let mut properties = without_bcc(bridge::properties(message));
    if message.origin != Origin::Amqp {
        properties = with_expiration(properties, message, now);
    }
    // What a publisher says of it counts for nothing where the queue counts.
    if let Some(count) = count.filter(|count| *count > 0 || properties.header(COUNT_HEADER).is_some()) {
        let mut headers = properties.headers().unwrap_or_default();
        headers.set(ShortStr::literal(COUNT_HEADER), Value::I64(count.into()));
        properties = properties.edit().set_headers(headers).build().into();
    }
    within(properties, frame_max.get() as usize)
}

/// Receivers do not see who gets a blind copy.
fn without_bcc(properties: Presented<'_>) -> Presented<'_> {
    match properties.header("BCC").and_then(|_| properties.headers()) {
        Some(mut headers) => {
            headers.remove(ShortStr::literal("BCC"));
            properties.edit().set_headers(headers).build().into()
        }
        None => properties,
    }
}

/// What is left of an MQTT message's time, in milliseconds.
pub(super) fn with_expiration<'a>(
    properties: Presented<'a>,
    message: &Message,
    now: WallTime,
) -> Presented<'a> {
    if message.expires_at == WallTime(0) {
        return properties;
    }
    // A clock that was set back gives nobody more time than the publisher did.
    let left = message.expires_at.ms_after(now.max(message.published_at)).to_string();
    match ShortStr::new(left.as_bytes()) {
        Some(text) => properties.edit().set_expiration(text).build().into(),
        None => properties,
    }
}

/// The properties with as many of the latest deaths, and then of the other headers, as a frame of `most` bytes has room for.
pub(super) fn within(properties: Presented<'_>, most: usize) -> Presented<'_> {
    if content_header_bytes(&properties) <= most {
        return properties;
    }
    let name = ShortStr::literal("x-death");
    let Some(mut headers) = properties.headers() else { return properties };
    if headers.get("x-death").is_none() {
        return without_largest(&properties, headers, most).into();
    }
    let deaths: Vec<Value> = headers.get("x-death").and_then(Value::as_array).unwrap_or(&[]).to_vec();
    let mut fits = |kept: usize| {
        headers.set(name, Value::Array(deaths[..kept].to_vec()));
        let shorter = properties.edit().set_headers(headers.clone()).build();
        (content_header_bytes(&shorter) <= most).then_some(shorter)
    };
    let (mut kept, mut refused) = (0, deaths.len());
    let Some(mut best) = fits(0) else {
        headers.remove(name);
        return without_largest(&properties, headers, most).into();
    };
    while refused - kept > 1 {
        let middle = kept + (refused - kept) / 2;
        match fits(middle) {
            Some(shorter) => (kept, best) = (middle, shorter),
            None => refused = middle,
        }
    }
    best.into()
}

/// The properties without the largest of these headers, as few as need be, and with a header that says how many are missing.
/// Without any a header frame is never too large.
fn without_largest(properties: &Presented<'_>, headers: Table, most: usize) -> Properties {
    let bytes_of = |name: ShortStr<'_>, value: &Value| {
        let mut one = Table::new();
        one.push(name.to_short_string(), value.clone());
        one.encode().len()
    };
    let whole = |headers: &Table| properties.edit().set_headers(headers.clone()).build();
    let mut sizes: Vec<(usize, usize)> =
        headers.iter().enumerate().map(|(at, (name, value))| (bytes_of(name, value), at)).collect();
    sizes.sort_unstable_by_key(|(bytes, at)| (core::cmp::Reverse(*bytes), *at));
    let mut left_out = BTreeSet::new();
    let mut bytes = content_header_bytes(&whole(&headers)) + LEFT_OUT_HEADER.len() + 10;
    for (size, at) in sizes {
        if bytes <= most {
            break;
        }
        bytes -= size;
        left_out.insert(at);
    }
    let mut kept = Table::new();
    for (_, (name, value)) in headers.iter().enumerate().filter(|(at, _)| !left_out.contains(at)) {
        kept.push(name.to_short_string(), value.clone());
    }
    kept.set(ShortStr::literal(LEFT_OUT_HEADER), Value::I64(left_out.len() as i64));
    whole(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::wire::PropertiesBuilder;

    #[test]
    fn a_header_frame_is_never_larger_than_agreed() {
        // Broken: a client that agreed on small frames is cut off by a message, and by the same one again.
        let mut headers = Table::new();
        let deaths: Vec<Value> = (0..100).map(|_| Value::text("a death of some length")).collect();
        headers.push(ShortStr::literal("x-death").to_short_string(), Value::Array(deaths));
        for (name, bytes) in [("small", 10), ("large", 9000), ("middle", 3000)] {
            let value = Value::LongString(alloc::vec![b'x'; bytes].into());
            headers.push(ShortStr::literal(name).to_short_string(), value);
        }
        let properties = PropertiesBuilder::new().set_headers(headers.clone()).build();
        let names = |most: usize| {
            let within = within(properties.as_cow(), most);
            assert!(content_header_bytes(&within) <= most);
            let headers = within.headers().expect("there are some");
            headers.iter().map(|(name, _)| name.as_str().expect("text").to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(100_000), ["x-death", "small", "large", "middle"]);
        assert_eq!(names(13_000), ["x-death", "small", "large", "middle"]);
        assert_eq!(names(4096), ["small", "middle", LEFT_OUT_HEADER]);
    }
}
