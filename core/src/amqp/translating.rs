//! Properties across the bridge: those of MQTT 5 (§3.3.2.3) in AMQP's words (§4.2.6.1), and back.
//!
//! | MQTT 5 | AMQP |
//! |---|---|
//! | content type | content-type |
//! | correlation data | correlation-id; what that cannot hold, the header `x-mqtt-correlation-data` |
//! | response topic | reply-to, as a routing key of `amq.topic` |
//! | message expiry, in seconds | expiration, in milliseconds: what is left of it |
//! | user properties | headers: text; a name that comes several times is an array of texts |
//! | payload format indicator 1 | the header `x-mqtt-payload-format-indicator` |
//!
//! On the way to MQTT, headers that are texts, numbers or truth values become user properties. `CC`, `BCC` and the names of the
//! bridge itself, which begin with `x-mqtt-`, go neither way. What the other side cannot hold stays out: a name or text that is longer than 255 bytes where AMQP has
//! a short string, an array or table of AMQP.

use super::bridge;
use super::wire::{Properties, PropertiesBuilder, ShortStr, Table, Value};
use crate::mqtt::packet::message_properties;
use crate::mqtt::packet::property::{self, Property};
use crate::mqtt::topic::TopicName;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Deref;

/// What begins the names of the bridge's own headers.
const OWN: &str = "x-mqtt-";

/// Correlation data that no correlation-id can hold.
const CORRELATION_HEADER: &str = "x-mqtt-correlation-data";

/// That the payload is text.
const FORMAT_HEADER: &str = "x-mqtt-payload-format-indicator";

/// The longest text that a property of MQTT can hold.
const TEXT_MAX: usize = 65_535;

/// Adds the properties of an MQTT 5 message.
pub(super) fn to_amqp(forwarded: &[u8], mut headers: Table) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::new();
    let mut users = Users::default();
    message_properties::each(forwarded, |property| match property {
        Property::PayloadFormat(true) => headers.set(ShortStr::literal(FORMAT_HEADER), Value::U8(1)),
        Property::ContentType(text) => {
            if let Some(text) = ShortStr::new(text.as_bytes()) {
                builder = core::mem::take(&mut builder).set_content_type(text);
            }
        }
        Property::CorrelationData(bytes) => match ShortStr::new(bytes).filter(|id| id.as_str().is_some()) {
            Some(id) => builder = core::mem::take(&mut builder).set_correlation_id(id),
            None => headers.set(ShortStr::literal(CORRELATION_HEADER), Value::Bytes(bytes.into())),
        },
        Property::ResponseTopic(topic) => {
            if let Some(key) = ShortStr::new(&bridge::key_of(topic)) {
                builder = core::mem::take(&mut builder).set_reply_to(key);
            }
        }
        Property::User(name, value) => users.add(name, value),
        _ => {}
    });
    users.put(&mut headers);
    builder.set_headers(headers)
}

/// User properties, the values of each name together.
#[derive(Default)]
struct Users<'a> {
    named: Vec<(&'a str, Vec<Value>)>,
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Users<'a> {
    fn add(&mut self, name: &'a str, value: &str) {
        if is_own(name) {
            return;
        }
        let place = *self.places.entry(name).or_insert_with(|| {
            self.named.push((name, Vec::new()));
            self.named.len() - 1
        });
        self.named[place].1.push(Value::text(value));
    }

    /// In the order in which the names came first.
    fn put(self, headers: &mut Table) {
        for (name, mut values) in self.named {
            let Some(name) = ShortStr::new(name.as_bytes()) else { continue };
            let value = if values.len() == 1 { values.pop() } else { Some(Value::Array(values)) };
            value.into_iter().for_each(|value| headers.push(name.to_short_string(), value));
        }
    }
}

/// The properties of an AMQP message as a subscriber of MQTT 5 sees them, its expiry aside.
pub(super) fn to_mqtt(properties: &Properties<impl Deref<Target = [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    let headers = properties.headers().unwrap_or_default();
    if headers.get(FORMAT_HEADER).and_then(Value::as_integer) == Some(1) {
        property::put(&mut out, &Property::PayloadFormat(true));
    }
    if let Some(text) = properties.content_type().and_then(ShortStr::as_str).filter(|text| is_text(text)) {
        property::put(&mut out, &Property::ContentType(text));
    }
    let reply_to = properties.reply_to().and_then(|key| bridge::topic_of(key.as_bytes()));
    if let Some(topic) = reply_to.filter(|topic| TopicName::new(topic).is_ok()) {
        property::put(&mut out, &Property::ResponseTopic(&topic));
    }
    if let Some(id) = properties.correlation_id() {
        property::put(&mut out, &Property::CorrelationData(id.as_bytes()));
    } else if let Some(Value::Bytes(bytes)) = headers.get(CORRELATION_HEADER) {
        property::put(&mut out, &Property::CorrelationData(&bytes[..bytes.len().min(TEXT_MAX)]));
    }
    for (name, value) in headers.iter() {
        let name = name.as_str().filter(|name| is_text(name) && !is_own(name));
        if let Some(name) = name {
            let values = value.as_array().unwrap_or(core::slice::from_ref(value));
            for text in values.iter().filter_map(in_words) {
                property::put(&mut out, &Property::User(name, &text));
            }
        }
    }
    out
}

fn is_own(name: &str) -> bool {
    name.starts_with(OWN) || name == "CC" || name == "BCC"
}

fn is_text(text: &str) -> bool {
    !text.contains('\0') && text.len() <= TEXT_MAX
}

fn in_words(value: &Value) -> Option<String> {
    let text = match value {
        Value::LongString(_) => value.as_str()?.into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Float(_) | Value::Double(_) => format!("{}", value.as_float()?),
        _ => value.as_integer()?.to_string(),
    };
    Some(text).filter(|text| is_text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_can_hold_comes_back_as_it_went() {
        // Broken: a property changes on its way through the bridge and back.
        let mut went = Vec::new();
        for property in [
            Property::PayloadFormat(true),
            Property::ContentType("text/plain"),
            Property::ResponseTopic("answers/to.me"),
            Property::CorrelationData(b"\xff\x00id"),
            Property::User("a", "1"),
            Property::User("a", "2"),
            Property::User("b", "é"),
        ] {
            property::put(&mut went, &property);
        }
        assert_eq!(to_mqtt(&to_amqp(&went, Table::new()).build()), went);
    }

    #[test]
    fn headers_become_words() {
        // Broken: a number in a header is lost on its way to MQTT.
        let mut headers = Table::new();
        headers.set(ShortStr::literal("n"), Value::I32(-5));
        headers.set(ShortStr::literal("t"), Value::Bool(true));
        headers.set(ShortStr::literal("CC"), Value::Array(Vec::from([Value::text("k")])));
        headers.set(ShortStr::literal("table"), Value::Table(Table::new()));
        let properties = PropertiesBuilder::new().set_headers(headers).build();
        let mut found = Vec::new();
        let bytes = to_mqtt(&properties);
        message_properties::each(&bytes, |property| found.push(property));
        assert_eq!(found, [Property::User("n", "-5"), Property::User("t", "true")]);
    }
}
