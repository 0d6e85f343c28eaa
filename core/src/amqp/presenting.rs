//! A message's properties as its receiver sees them.

use super::bridge;
use super::wire::content::content_header_bytes;
use super::wire::{FrameMax, Properties, ShortStr, Value};
use crate::message::{Message, Origin};
use crate::time::WallTime;
use alloc::string::ToString;
use alloc::vec::Vec;

/// How often a message was delivered before, in queues that look at it.
const COUNT_HEADER: &str = "x-delivery-count";

/// The properties, with how often the message was delivered before, and in a frame that the receiver takes: a header cannot
/// be split, so it is told of fewer deaths, the latest, where all do not fit.
pub(super) fn properties(
    message: &Message,
    count: Option<u32>,
    frame_max: FrameMax,
    now: WallTime,
) -> Properties {
    let mut properties = bridge::properties(message);
    if message.origin != Origin::Amqp {
        properties = with_expiration(properties, message, now);
    }
    if let Some(count) = count {
        let mut headers = properties.headers().unwrap_or_default();
        headers.set(ShortStr::literal(COUNT_HEADER), Value::I64(count.into()));
        properties = properties.edit().set_headers(headers).build();
    }
    within(properties, frame_max.get() as usize)
}

/// What is left of an MQTT message's time, in milliseconds.
fn with_expiration(properties: Properties, message: &Message, now: WallTime) -> Properties {
    if message.expires_at == WallTime(0) {
        return properties;
    }
    let left = message.expires_at.ms_after(now).to_string();
    match ShortStr::new(left.as_bytes()) {
        Some(text) => properties.edit().set_expiration(text).build(),
        None => properties,
    }
}

/// The properties with as many of the latest deaths as a frame of `most` bytes has room for.
pub(super) fn within(properties: Properties, most: usize) -> Properties {
    if content_header_bytes(&properties) <= most {
        return properties;
    }
    let name = ShortStr::literal("x-death");
    let Some(mut headers) = properties.headers() else { return properties };
    let deaths: Vec<Value> = headers.get("x-death").and_then(Value::as_array).unwrap_or(&[]).to_vec();
    let mut fits = |kept: usize| {
        headers.set(name, Value::Array(deaths[..kept].to_vec()));
        let shorter = properties.edit().set_headers(headers.clone()).build();
        (content_header_bytes(&shorter) <= most).then_some(shorter)
    };
    let (mut kept, mut refused) = (0, deaths.len());
    let Some(mut best) = fits(0) else { return properties };
    while refused - kept > 1 {
        let middle = kept + (refused - kept) / 2;
        match fits(middle) {
            Some(shorter) => (kept, best) = (middle, shorter),
            None => refused = middle,
        }
    }
    best
}
