//! The configuration file: TOML, each value with its place, so that every complaint can name line and column.

use super::error::{ConfigurationError, Origin};
use super::value::Written;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// One `key = value` of a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// With the table before a dot.
    pub(super) key: String,
    pub(super) value: Written,
    pub(super) key_origin: Origin,
    pub(super) value_origin: Origin,
}

/// Every entry of a file's text.
///
/// # Errors
/// It is not TOML.
pub(super) fn entries(file: &Path, source: &str) -> Result<Vec<Entry>, ConfigurationError> {
    let table = DeTable::parse(source).map_err(|error| ConfigurationError {
        origin: error.span().map_or_else(|| Origin::File(file.to_owned()), |span| at(file, source, &span)),
        message: error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    gather("", table.get_ref(), &|span| at(file, source, &span), &mut entries);
    Ok(entries)
}

fn at(file: &Path, source: &str, span: &Range<usize>) -> Origin {
    Origin::in_text(file, source, span)
}

fn gather(
    prefix: &str,
    table: &DeTable<'_>,
    origin: &dyn Fn(Range<usize>) -> Origin,
    entries: &mut Vec<Entry>,
) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        if let DeValue::Table(inner) = value.get_ref()
            && prefix.is_empty()
        {
            gather(&format!("{key}."), inner, origin, entries);
            continue;
        }
        entries.push(Entry {
            key,
            value: written(value.get_ref()),
            key_origin: origin(name.span()),
            value_origin: origin(value.span()),
        });
    }
}

fn written(value: &DeValue<'_>) -> Written {
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Written::Other("a number beyond 64 bits"), Written::Integer),
        DeValue::Boolean(flag) => Written::Boolean(*flag),
        DeValue::Array(list) => Written::List(list.iter().map(|each| written(each.get_ref())).collect()),
        DeValue::Float(_) => Written::Other("a broken number"),
        DeValue::Datetime(_) => Written::Other("a date"),
        DeValue::Table(_) => Written::Other("a table"),
    }
}
