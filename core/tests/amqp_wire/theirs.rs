//! The codec of the crate `amq-protocol`, which this project did not write, and how its types become ours.

use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::types::{
    AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable, LongString, ShortString,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use vowmq_core::amqp::wire::{ShortStr, Table, Value};

/// A frame as their codec writes it.
pub fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(WriteContext::from(Vec::new())).expect("room without end").write
}

/// The one frame that `bytes` are, as their codec reads it.
pub fn decode(bytes: &[u8]) -> AMQPFrame {
    let (rest, frame) = parse_frame(bytes).unwrap_or_else(|error| panic!("{error:?}: {bytes:02x?}"));
    assert!(rest.is_empty(), "bytes are left: {rest:02x?}");
    frame
}

/// Something of theirs that can be made up and has a counterpart of ours.
pub trait Twin: Sized + std::fmt::Debug {
    /// Ours.
    type Ours<'a>
    where
        Self: 'a;

    /// Makes one up.
    fn any() -> BoxedStrategy<Self>;

    /// The same, as ours.
    fn ours(&self) -> Self::Ours<'_>;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Twin for $type {
            type Ours<'a> = $type;
            fn any() -> BoxedStrategy<$type> { any::<$type>().boxed() }
            fn ours(&self) -> $type { *self }
        }
    )*};
}

plain! { bool u8 u16 u32 u64 }

impl Twin for ShortString {
    type Ours<'a> = ShortStr<'a>;

    fn any() -> BoxedStrategy<ShortString> {
        let longest = prop_oneof![Just("x".repeat(255)), Just("é".repeat(127))];
        prop_oneof![8 => "\\PC{0,20}", 1 => longest].prop_map(ShortString::from).boxed()
    }

    fn ours(&self) -> ShortStr<'_> {
        ShortStr::new(self.as_str().as_bytes()).expect("at most 255 bytes")
    }
}

impl Twin for LongString {
    type Ours<'a> = &'a [u8];

    fn any() -> BoxedStrategy<LongString> {
        vec(any::<u8>(), 0..400).prop_map(LongString::from).boxed()
    }

    fn ours(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Twin for FieldTable {
    type Ours<'a> = Table;

    fn any() -> BoxedStrategy<FieldTable> {
        btree_map(ShortString::any(), any_value(), 0..6).prop_map(FieldTable::from).boxed()
    }

    fn ours(&self) -> Table {
        let mut table = Table::new();
        self.inner()
            .iter()
            .for_each(|(name, value)| table.push(name.ours().to_short_string(), value_of(value)));
        table
    }
}

/// Any value; no NaN, which is not equal to itself.
fn any_value() -> BoxedStrategy<AMQPValue> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(AMQPValue::Boolean),
        any::<i8>().prop_map(AMQPValue::ShortShortInt),
        any::<u8>().prop_map(AMQPValue::ShortShortUInt),
        any::<i16>().prop_map(AMQPValue::ShortInt),
        any::<u16>().prop_map(AMQPValue::ShortUInt),
        any::<i32>().prop_map(AMQPValue::LongInt),
        any::<u32>().prop_map(AMQPValue::LongUInt),
        any::<i64>().prop_map(AMQPValue::LongLongInt),
        prop::num::f32::NORMAL.prop_map(AMQPValue::Float),
        prop::num::f64::NORMAL.prop_map(AMQPValue::Double),
        any::<(u8, u32)>().prop_map(|(scale, value)| AMQPValue::DecimalValue(DecimalValue { scale, value })),
        any::<u64>().prop_map(AMQPValue::Timestamp),
        LongString::any().prop_map(AMQPValue::LongString),
        vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::ByteArray(ByteArray::from(bytes))),
        Just(AMQPValue::Void),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|values| AMQPValue::FieldArray(FieldArray::from(values))),
            btree_map(ShortString::any(), inner, 0..4)
                .prop_map(|fields| AMQPValue::FieldTable(FieldTable::from(fields))),
        ]
    })
    .boxed()
}

/// A value of theirs as ours.
pub fn value_of(theirs: &AMQPValue) -> Value {
    match theirs {
        AMQPValue::Boolean(value) => Value::Bool(*value),
        AMQPValue::ShortShortInt(value) => Value::I8(*value),
        AMQPValue::ShortShortUInt(value) => Value::U8(*value),
        AMQPValue::ShortInt(value) => Value::I16(*value),
        AMQPValue::ShortUInt(value) => Value::U16(*value),
        AMQPValue::LongInt(value) => Value::I32(*value),
        AMQPValue::LongUInt(value) => Value::U32(*value),
        AMQPValue::LongLongInt(value) => Value::I64(*value),
        AMQPValue::Float(value) => Value::Float(value.to_bits()),
        AMQPValue::Double(value) => Value::Double(value.to_bits()),
        AMQPValue::DecimalValue(DecimalValue { scale, value }) => {
            Value::Decimal { scale: *scale, value: *value }
        }
        AMQPValue::ShortString(_) => unreachable!("it has no letter on the wire and is not made up"),
        AMQPValue::LongString(bytes) => Value::LongString(bytes.as_bytes().into()),
        AMQPValue::FieldArray(values) => Value::Array(values.as_slice().iter().map(value_of).collect()),
        AMQPValue::Timestamp(value) => Value::Timestamp(*value),
        AMQPValue::FieldTable(table) => Value::Table(table.ours()),
        AMQPValue::ByteArray(bytes) => Value::Bytes(bytes.as_slice().into()),
        AMQPValue::Void => Value::Void,
    }
}
