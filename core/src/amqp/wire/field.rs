//! The types that fields of methods have (§4.2.5): each is read and written the same way wherever it stands.

use super::DeliveryTag;
use super::reader::Reader;
use super::short_str::ShortStr;
use super::table::Table;
use super::violation::Rule;
use super::writer::Writer;

/// A type that a field of a method can have.
pub trait Field<'a>: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// The rule that its bytes break.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Rule>;

    /// Appends it.
    fn write(&self, writer: &mut Writer<'_>);
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Field<'_> for $type {
            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<$type, Rule> {
                reader.$type()
            }

            #[inline]
            fn write(&self, writer: &mut Writer<'_>) {
                writer.put(&self.to_be_bytes());
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 }

/// Bits in a row share an octet.
impl Field<'_> for bool {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<bool, Rule> {
        reader.bit()
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.bit(*self);
    }
}

impl Field<'_> for DeliveryTag {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<DeliveryTag, Rule> {
        reader.u64().map(DeliveryTag)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        self.0.write(writer);
    }
}

impl<'a> Field<'a> for ShortStr<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<ShortStr<'a>, Rule> {
        reader.short_str()
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.short_str(*self);
    }
}

/// A long string.
impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<&'a [u8], Rule> {
        reader.long_str()
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.long_str(self);
    }
}

impl Field<'_> for Table {
    fn read(reader: &mut Reader<'_>) -> Result<Table, Rule> {
        Table::decode(reader.long_str()?)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.with_length(|writer| self.write_fields(writer));
    }
}
