//! Values of fields in tables and arrays (§4.2.5.5, with the types that RabbitMQ reads and writes).
//!
//! ```text
//! t bool   b i8   B u8   s i16   u u16   I i32   i u32   l i64   L i64   f f32   d f64   D scale: 1, value: 4
//! T timestamp: 8   S long string   x bytes   A array   F table   V nothing
//! ```
//!
//! A value keeps its type, so that what was received is sent on as it was.

use super::reader::Reader;
use super::table::Table;
use super::violation::Rule;
use super::writer::Writer;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How deep tables and arrays may be nested; the outermost table counts. It bounds the recursion.
pub const NESTING_MAX: usize = 32;

/// A value with its type on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// `t`.
    Bool(bool),
    /// `b`.
    I8(i8),
    /// `B`.
    U8(u8),
    /// `s`.
    I16(i16),
    /// `u`.
    U16(u16),
    /// `I`.
    I32(i32),
    /// `i`.
    U32(u32),
    /// `l`.
    I64(i64),
    /// `L`: RabbitMQ reads it as signed as well.
    CapitalL(i64),
    /// `f`, its bits.
    Float(u32),
    /// `d`, its bits.
    Double(u64),
    /// `D`: the value divided by ten to the power of the scale.
    Decimal {
        /// Digits behind the point.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `S`: text or any bytes.
    LongString(Box<[u8]>),
    /// `x`: bytes.
    Bytes(Box<[u8]>),
    /// `A`.
    Array(Vec<Value>),
    /// `F`.
    Table(Table),
    /// `V`: nothing.
    Void,
}

impl Value {
    /// A text.
    pub fn text(text: &str) -> Value {
        Value::LongString(text.as_bytes().into())
    }

    /// Reads a value; `depth` tables and arrays are around it.
    ///
    /// # Errors
    /// `Truncated`, `FieldTypeUnknown`, `TableTooDeep`.
    pub(super) fn read(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Rule> {
        Ok(match reader.u8()? {
            b't' => Value::Bool(reader.u8()? != 0),
            b'b' => Value::I8(reader.array().map(i8::from_be_bytes)?),
            b'B' => Value::U8(reader.u8()?),
            b's' => Value::I16(reader.array().map(i16::from_be_bytes)?),
            b'u' => Value::U16(reader.u16()?),
            b'I' => Value::I32(reader.array().map(i32::from_be_bytes)?),
            b'i' => Value::U32(reader.u32()?),
            b'l' => Value::I64(reader.array().map(i64::from_be_bytes)?),
            b'L' => Value::CapitalL(reader.array().map(i64::from_be_bytes)?),
            b'f' => Value::Float(reader.u32()?),
            b'd' => Value::Double(reader.u64()?),
            b'D' => Value::Decimal { scale: reader.u8()?, value: reader.u32()? },
            b'T' => Value::Timestamp(reader.u64()?),
            b'S' => Value::LongString(reader.long_str()?.into()),
            b'x' => Value::Bytes(reader.long_str()?.into()),
            b'A' => Value::Array(read_array(reader.long_str()?, depth + 1)?),
            b'F' => Value::Table(Table::read(reader.long_str()?, depth + 1)?),
            b'V' => Value::Void,
            _ => return Err(Rule::FieldTypeUnknown),
        })
    }

    /// Passes a value by, checked as `read` checks it, without allocating.
    pub(super) fn skip(reader: &mut Reader<'_>, depth: usize) -> Result<(), Rule> {
        match reader.u8()? {
            b'V' => Ok(()),
            b't' | b'b' | b'B' => reader.take(1).map(drop),
            b's' | b'u' => reader.take(2).map(drop),
            b'I' | b'i' | b'f' => reader.take(4).map(drop),
            b'D' => reader.take(5).map(drop),
            b'l' | b'L' | b'd' | b'T' => reader.take(8).map(drop),
            b'S' | b'x' => reader.long_str().map(drop),
            b'A' => skip_array(reader.long_str()?, depth + 1),
            b'F' => Table::check(reader.long_str()?, depth + 1),
            _ => Err(Rule::FieldTypeUnknown),
        }
    }

    /// Appends type and value.
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.put(&[self.type_letter()]);
        match self {
            Value::Bool(value) => writer.put(&[u8::from(*value)]),
            Value::I8(value) => writer.put(&value.to_be_bytes()),
            Value::U8(value) => writer.put(&[*value]),
            Value::I16(value) => writer.put(&value.to_be_bytes()),
            Value::U16(value) => writer.put(&value.to_be_bytes()),
            Value::I32(value) => writer.put(&value.to_be_bytes()),
            Value::U32(value) | Value::Float(value) => writer.put(&value.to_be_bytes()),
            Value::I64(value) | Value::CapitalL(value) => writer.put(&value.to_be_bytes()),
            Value::Double(value) | Value::Timestamp(value) => writer.put(&value.to_be_bytes()),
            Value::Decimal { scale, value } => {
                writer.put(&[*scale]);
                writer.put(&value.to_be_bytes());
            }
            Value::LongString(bytes) | Value::Bytes(bytes) => writer.long_str(bytes),
            Value::Array(values) => {
                writer.with_length(|writer| values.iter().for_each(|value| value.write(writer)));
            }
            Value::Table(table) => writer.with_length(|writer| table.write_fields(writer)),
            Value::Void => {}
        }
    }

    /// The type, as on the wire.
    pub fn type_letter(&self) -> u8 {
        match self {
            Value::Bool(_) => b't',
            Value::I8(_) => b'b',
            Value::U8(_) => b'B',
            Value::I16(_) => b's',
            Value::U16(_) => b'u',
            Value::I32(_) => b'I',
            Value::U32(_) => b'i',
            Value::I64(_) => b'l',
            Value::CapitalL(_) => b'L',
            Value::Float(_) => b'f',
            Value::Double(_) => b'd',
            Value::Decimal { .. } => b'D',
            Value::Timestamp(_) => b'T',
            Value::LongString(_) => b'S',
            Value::Bytes(_) => b'x',
            Value::Array(_) => b'A',
            Value::Table(_) => b'F',
            Value::Void => b'V',
        }
    }

    /// An integer of any width; a timestamp is none.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::I8(value) => Some((*value).into()),
            Value::U8(value) => Some((*value).into()),
            Value::I16(value) => Some((*value).into()),
            Value::U16(value) => Some((*value).into()),
            Value::I32(value) => Some((*value).into()),
            Value::U32(value) => Some((*value).into()),
            Value::I64(value) | Value::CapitalL(value) => Some(*value),
            _ => None,
        }
    }

    /// A floating point number of either width.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(bits) => Some(f32::from_bits(*bits).into()),
            Value::Double(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// A long string's bytes.
    pub fn as_long_string(&self) -> Option<&[u8]> {
        match self {
            Value::LongString(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A long string that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.as_long_string().and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// A bool.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// An array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// A table.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// What RabbitMQ calls its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Bool(_) => "bool",
            Value::I8(_) => "byte",
            Value::U8(_) => "unsignedbyte",
            Value::I16(_) => "short",
            Value::U16(_) => "unsignedshort",
            Value::I32(_) => "signedint",
            Value::U32(_) => "unsignedint",
            Value::I64(_) | Value::CapitalL(_) => "long",
            Value::Float(_) => "float",
            Value::Double(_) => "double",
            Value::Decimal { .. } => "decimal",
            Value::Timestamp(_) => "timestamp",
            Value::LongString(_) => "longstr",
            Value::Bytes(_) => "binary",
            Value::Array(_) => "array",
            Value::Table(_) => "table",
            Value::Void => "void",
        }
    }

    /// Whether RabbitMQ takes both for the same argument: integers of any width by their value, floating point numbers too,
    /// anything else type by type.
    pub fn is_equivalent(&self, other: &Value) -> bool {
        if let (Some(left), Some(right)) = (self.as_integer(), other.as_integer()) {
            return left == right;
        }
        if let (Some(left), Some(right)) = (self.as_float(), other.as_float()) {
            return left == right;
        }
        self == other
    }
}

fn read_array(bytes: &[u8], depth: usize) -> Result<Vec<Value>, Rule> {
    if depth > NESTING_MAX {
        return Err(Rule::TableTooDeep);
    }
    let mut reader = Reader::new(bytes);
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(Value::read(&mut reader, depth)?);
    }
    Ok(values)
}

fn skip_array(bytes: &[u8], depth: usize) -> Result<(), Rule> {
    if depth > NESTING_MAX {
        return Err(Rule::TableTooDeep);
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        Value::skip(&mut reader, depth)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_compared_as_rabbitmq_compares_them() {
        // Broken: a client that declares a queue again with another width of integer is refused, or one with another value
        // is not.
        let sixty = [Value::I8(60), Value::U8(60), Value::I16(60), Value::U16(60), Value::I32(60)];
        let more = [Value::U32(60), Value::I64(60), Value::CapitalL(60)];
        let all: Vec<&Value> = sixty.iter().chain(&more).collect();
        for left in &all {
            assert!(all.iter().all(|right| left.is_equivalent(right)), "{left:?}");
            for other in [Value::I64(61), Value::Timestamp(60), Value::text("60"), Value::Void] {
                assert!(!left.is_equivalent(&other), "{left:?} and {other:?}");
            }
        }
        assert!(Value::Float(0.5f32.to_bits()).is_equivalent(&Value::Double(0.5f64.to_bits())));
        assert!(
            !Value::Double(60f64.to_bits()).is_equivalent(&Value::I8(60)),
            "integers and floats are two classes"
        );
        assert!(!Value::text("a").is_equivalent(&Value::Bytes((*b"a").into())), "S and x are two types");
        assert_eq!(Value::U32(u32::MAX).as_integer(), Some(4_294_967_295));
    }
}
