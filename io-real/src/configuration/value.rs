//! What a setting may hold: how each kind of value is read and shown.

use super::Configuration;
use super::quantity::{bytes_of, millis_of, show_bytes, show_millis};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use vowmq_core::limits::{Overflow, SyncPolicy};

/// A value as it was written, before it is known for which setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A whole number.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Written>),
    /// Something that no setting takes, by its name.
    Other(&'static str),
}

/// Where a setting is kept in the configuration, and so what kind of value it holds.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Count(fn(&mut Configuration) -> &mut usize),
    CountLong(fn(&mut Configuration) -> &mut u64),
    Bytes(fn(&mut Configuration) -> &mut usize),
    BytesLong(fn(&mut Configuration) -> &mut u64),
    Millis(fn(&mut Configuration) -> &mut u64),
    Flag(fn(&mut Configuration) -> &mut bool),
    Text(fn(&mut Configuration) -> &mut String),
    Path(fn(&mut Configuration) -> &mut PathBuf),
    Addresses(fn(&mut Configuration) -> &mut Vec<SocketAddr>),
    Sync(fn(&mut Configuration) -> &mut SyncPolicy),
    Overflow(fn(&mut Configuration) -> &mut Overflow),
}

impl Place {
    /// Sets what was written in a file.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(super) fn set(self, configuration: &mut Configuration, written: &Written) -> Result<(), String> {
        match self {
            Place::Count(place) => *place(configuration) = narrow(count(written)?)?,
            Place::CountLong(place) => *place(configuration) = count(written)?,
            Place::Bytes(place) => *place(configuration) = narrow(bytes(written)?)?,
            Place::BytesLong(place) => *place(configuration) = bytes(written)?,
            Place::Millis(place) => *place(configuration) = millis(written)?,
            Place::Flag(place) => match written {
                Written::Boolean(flag) => *place(configuration) = *flag,
                other => return Err(expected("true or false", other)),
            },
            Place::Text(place) => *place(configuration) = text(written)?.to_owned(),
            Place::Path(place) => match text(written)? {
                "" => return Err("expected a path, found an empty text".to_owned()),
                path => *place(configuration) = PathBuf::from(path),
            },
            Place::Addresses(place) => *place(configuration) = addresses(written)?,
            Place::Sync(place) => *place(configuration) = sync(written)?,
            Place::Overflow(place) => *place(configuration) = overflow(written)?,
        }
        Ok(())
    }

    /// Sets what was written in a variable or a flag, where everything is text.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(super) fn set_text(self, configuration: &mut Configuration, text: &str) -> Result<(), String> {
        let written = match self {
            Place::Count(_) | Place::CountLong(_) => {
                text.trim().parse().map_or_else(|_| Written::Text(text.to_owned()), Written::Integer)
            }
            Place::Flag(_) => {
                text.trim().parse().map_or_else(|_| Written::Text(text.to_owned()), Written::Boolean)
            }
            Place::Addresses(_) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Written::List(parts.map(|part| Written::Text(part.to_owned())).collect())
            }
            Place::Bytes(_)
            | Place::BytesLong(_)
            | Place::Millis(_)
            | Place::Text(_)
            | Place::Path(_)
            | Place::Sync(_)
            | Place::Overflow(_) => Written::Text(text.to_owned()),
        };
        self.set(configuration, &written)
    }

    /// The value in force, as TOML.
    pub(super) fn show(self, configuration: &Configuration) -> String {
        let mut copy = configuration.clone();
        match self {
            Place::Count(place) => place(&mut copy).to_string(),
            Place::CountLong(place) => place(&mut copy).to_string(),
            Place::Bytes(place) => quoted_quantity(show_bytes(*place(&mut copy) as u64)),
            Place::BytesLong(place) => quoted_quantity(show_bytes(*place(&mut copy))),
            Place::Millis(place) => quoted_quantity(show_millis(*place(&mut copy))),
            Place::Flag(place) => place(&mut copy).to_string(),
            Place::Text(place) => quoted(place(&mut copy)),
            Place::Path(place) => quoted(&place(&mut copy).to_string_lossy()),
            Place::Addresses(place) => {
                let addresses: Vec<String> =
                    place(&mut copy).iter().map(|address| quoted(&address.to_string())).collect();
                format!("[{}]", addresses.join(", "))
            }
            Place::Sync(place) => match place(&mut copy) {
                SyncPolicy::Always => quoted("always"),
                SyncPolicy::Never => quoted("never"),
                SyncPolicy::EveryMs(millis) => quoted(&show_millis(*millis)),
            },
            Place::Overflow(place) => match place(&mut copy) {
                Overflow::DropOldest => quoted("drop-oldest"),
                Overflow::Refuse => quoted("refuse"),
            },
        }
    }
}

/// An IP address with a port, or `localhost` with one. Names are not looked up: which addresses are listened on
/// must not depend on somebody else's server.
pub(super) fn address_of(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        format!("{text:?} is no address with a port, such as \"127.0.0.1:1883\" or \"[::1]:1883\"")
    })
}

fn count(written: &Written) -> Result<u64, String> {
    match written {
        Written::Integer(number) => u64::try_from(*number).map_err(|_| format!("{number} is negative")),
        other => Err(expected("a whole number", other)),
    }
}

fn bytes(written: &Written) -> Result<u64, String> {
    match written {
        Written::Integer(_) => count(written),
        Written::Text(text) => bytes_of(text),
        other => Err(expected("a size, such as \"64 MiB\" or a number of bytes", other)),
    }
}

fn millis(written: &Written) -> Result<u64, String> {
    match written {
        Written::Integer(number) => millis_of(&number.to_string()),
        Written::Text(text) => millis_of(text),
        other => Err(expected("a span of time, such as \"10 s\"", other)),
    }
}

fn narrow(number: u64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("{number} is too large for this machine"))
}

fn text(written: &Written) -> Result<&str, String> {
    match written {
        Written::Text(text) => Ok(text),
        other => Err(expected("text", other)),
    }
}

fn addresses(written: &Written) -> Result<Vec<SocketAddr>, String> {
    match written {
        Written::List(list) => list.iter().map(|each| address_of(text(each)?)).collect(),
        Written::Text(text) => Ok(vec![address_of(text)?]),
        other => Err(expected("a list of addresses, such as [\"127.0.0.1:1883\"]", other)),
    }
}

fn sync(written: &Written) -> Result<SyncPolicy, String> {
    match written {
        Written::Text(text) if text == "always" => Ok(SyncPolicy::Always),
        Written::Text(text) if text == "never" => Ok(SyncPolicy::Never),
        Written::Text(text) => millis_of(text)
            .map(SyncPolicy::EveryMs)
            .map_err(|error| format!("expected \"always\", \"never\" or a span of time: {error}")),
        other => Err(expected("\"always\", \"never\" or a span of time, such as \"200 ms\"", other)),
    }
}

fn overflow(written: &Written) -> Result<Overflow, String> {
    match written {
        Written::Text(text) if text == "drop-oldest" => Ok(Overflow::DropOldest),
        Written::Text(text) if text == "refuse" => Ok(Overflow::Refuse),
        other => Err(expected("\"drop-oldest\" or \"refuse\"", other)),
    }
}

fn expected(what: &str, found: &Written) -> String {
    let found = match found {
        Written::Integer(number) => format!("the number {number}"),
        Written::Boolean(flag) => flag.to_string(),
        Written::Text(text) => quoted(text),
        Written::List(_) => "a list".to_owned(),
        Written::Other(name) => (*name).to_owned(),
    };
    format!("expected {what}, found {found}")
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A bare 0 has no unit and needs no quotes.
fn quoted_quantity(text: String) -> String {
    if text == "0" { text } else { quoted(&text) }
}
