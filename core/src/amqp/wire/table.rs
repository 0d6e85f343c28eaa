//! Field tables (§4.2.5.5): names and values in an order that is kept.
//!
//! ```text
//! | length: 4 | name: short string | type: 1 | value | name … |
//! ```

use super::reader::Reader;
use super::short_str::{ShortStr, ShortString};
use super::value::{NESTING_MAX, Value};
use super::violation::Rule;
use super::writer::Writer;
use alloc::vec::Vec;
use bytes::BytesMut;

/// A table. A name may stand in it more than once; the first counts, as with RabbitMQ.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Table {
    fields: Vec<(ShortString, Value)>,
}

impl Table {
    /// An empty one.
    pub const fn new() -> Table {
        Table { fields: Vec::new() }
    }

    /// Decodes what follows the length.
    ///
    /// # Errors
    /// `Truncated`, `FieldTypeUnknown`, `TableTooDeep`.
    pub fn decode(bytes: &[u8]) -> Result<Table, Rule> {
        Table::read(bytes, 1)
    }

    pub(super) fn read(bytes: &[u8], depth: usize) -> Result<Table, Rule> {
        let mut table = Table::new();
        scan(bytes, depth, |name, reader| {
            table.fields.push((name.to_short_string(), Value::read(reader, depth)?));
            Ok(true)
        })?;
        Ok(table)
    }

    /// Checks what follows the length as `decode` does, without allocating.
    pub(super) fn check(bytes: &[u8], depth: usize) -> Result<(), Rule> {
        scan(bytes, depth, |_, reader| Value::skip(reader, depth).map(|()| true))
    }

    /// The first value of that name in an encoded table; the others are passed by.
    pub(super) fn find(bytes: &[u8], wanted: ShortStr<'_>) -> Result<Option<Value>, Rule> {
        let mut found = None;
        scan(bytes, 1, |name, reader| {
            if name == wanted {
                found = Some(Value::read(reader, 1)?);
                return Ok(false);
            }
            Value::skip(reader, 1).map(|()| true)
        })?;
        Ok(found)
    }

    /// What follows the length: as it was decoded, but for bools that were neither 0 nor 1.
    pub fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        self.write_fields(&mut Writer::new(&mut out));
        out
    }

    pub(super) fn write_fields(&self, writer: &mut Writer<'_>) {
        for (name, value) in &self.fields {
            writer.short_str(name.as_short_str());
            value.write(writer);
        }
    }

    /// Adds a field at the end, without a look at the others.
    pub fn push(&mut self, name: ShortString, value: Value) {
        self.fields.push((name, value));
    }

    /// Puts a value in the place of the first of that name, or adds it at the end.
    pub fn set(&mut self, name: ShortStr<'_>, value: Value) {
        match self.fields.iter_mut().find(|(found, _)| found.as_short_str() == name) {
            Some((_, place)) => *place = value,
            None => self.push(name.to_short_string(), value),
        }
    }

    /// Takes out every field of that name.
    pub fn remove(&mut self, name: ShortStr<'_>) {
        self.fields.retain(|(found, _)| found.as_short_str() != name);
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|(found, _)| found.as_short_str().as_bytes() == name.as_bytes())
            .map(|(_, v)| v)
    }

    /// Names and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (ShortStr<'_>, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_short_str(), value))
    }

    /// Fields, doubles included.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// Calls `field` with each name and a reader at its value, which it must read; until it says that it has enough.
fn scan<'a>(
    bytes: &'a [u8],
    depth: usize,
    mut field: impl FnMut(ShortStr<'a>, &mut Reader<'a>) -> Result<bool, Rule>,
) -> Result<(), Rule> {
    if depth > NESTING_MAX {
        return Err(Rule::TableTooDeep);
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let name = reader.short_str()?;
        if !field(name, &mut reader)? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts() {
        // Broken: a field that stands twice means something else than with RabbitMQ.
        let mut table = Table::decode(b"\x01at\x01\x01bV\x01at\x00").expect("valid");
        assert_eq!((table.len(), table.get("a")), (3, Some(&Value::Bool(true))));
        table.set(ShortStr::literal("a"), Value::Void);
        table.set(ShortStr::literal("c"), Value::U8(1));
        assert_eq!(table.encode(), &b"\x01aV\x01bV\x01at\x00\x01cB\x01"[..]);
        table.remove(ShortStr::literal("a"));
        assert_eq!(table.encode(), &b"\x01bV\x01cB\x01"[..]);
        assert_eq!(Table::find(b"\x01at\x01\x01at\x00", ShortStr::literal("a")), Ok(Some(Value::Bool(true))));
    }
}
