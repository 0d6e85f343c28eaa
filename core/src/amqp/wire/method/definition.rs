//! How methods are written down.

use super::MethodId;
use crate::amqp::wire::frame::{self, ChannelNumber};
use crate::amqp::wire::reader::Reader;
use crate::amqp::wire::violation::{Rule, Violation};
use crate::amqp::wire::writer::Writer;
use bytes::BytesMut;

/// What every method has.
pub(super) trait Definition<'a>: Sized {
    /// Whether content frames follow: RabbitMQ does not look at the text of such methods.
    const HAS_CONTENT: bool;

    /// Reads its fields; `place` becomes the name of each before it is read.
    fn read(reader: &mut Reader<'a>, place: &mut &'static str) -> Result<Self, Rule>;
}

/// Decodes the fields of a method; none may be missing and nothing left.
pub(super) fn decode<'a, M: Definition<'a>>(id: MethodId, fields: &'a [u8]) -> Result<M, Violation> {
    let mut reader = if M::HAS_CONTENT { Reader::new(fields) } else { Reader::text_checked(fields) };
    let mut place = "fields";
    let read = M::read(&mut reader, &mut place);
    let ended = read.and_then(|method| {
        place = "end";
        reader.end().map(|()| method)
    });
    ended.map_err(|rule| Violation { rule, method: id, place })
}

/// A method that can be sent.
pub trait PutMethod {
    /// Appends its fields.
    fn write_fields(&self, writer: &mut Writer<'_>);

    /// Which it is.
    fn method_id(&self) -> MethodId;

    /// Appends its frame. No more than `out` has to grow is allocated.
    fn put(&self, out: &mut BytesMut, channel: ChannelNumber) {
        frame::put_method(out, channel, self.method_id(), |writer| self.write_fields(writer));
    }
}

/// Defines the methods of a class: number, name, what is reserved before its fields, the fields, what is reserved behind.
/// What is reserved is read and forgotten, and written empty.
macro_rules! methods {
    ($class:literal $class_name:literal; $(
        $(#[$doc:meta])*
        $name:ident $(<$lt:lifetime>)? = $number:literal $wire_name:literal $(content $content:literal)?
        [$($before:ty),*] { $($(#[$field_doc:meta])* $field:ident : $type:ty,)* } [$($after:ty),*];
    )*) => {
        /// The number of the class.
        pub const CLASS: u16 = $class;

        /// Every method of the class with its name.
        pub(super) const ALL: &[(super::MethodId, &str)] =
            &[$(($name::ID, concat!($class_name, ".", $wire_name))),*];

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $name $(<$lt>)? { $($(#[$field_doc])* pub $field: $type,)* }

            impl<'a> super::Definition<'a> for $name $(<$lt>)? {
                const HAS_CONTENT: bool = false $(|| $content)?;

                #[inline]
                fn read(
                    reader: &mut super::Reader<'a>,
                    place: &mut &'static str,
                ) -> Result<Self, super::Rule> {
                    let _ = (&reader, &place);
                    $(<$before as super::Field<'_>>::read(reader)?;)*
                    $(
                        *place = stringify!($field);
                        let $field = super::Field::read(reader)?;
                    )*
                    $(<$after as super::Field<'_>>::read(reader)?;)*
                    Ok($name { $($field),* })
                }
            }

            impl<'a> super::PutMethod for $name $(<$lt>)? {
                fn write_fields(&self, writer: &mut crate::amqp::wire::writer::Writer<'_>) {
                    let _ = &writer;
                    $(super::Field::write(&<$before>::default(), writer);)*
                    $(super::Field::write(&self.$field, writer);)*
                    $(super::Field::write(&<$after>::default(), writer);)*
                }

                fn method_id(&self) -> super::MethodId {
                    $name::ID
                }
            }

            impl<'a> $name $(<$lt>)? {
                /// Its class and number.
                pub const ID: super::MethodId = super::MethodId { class: $class, method: $number };

                /// Decodes its fields, what follows class and number.
                ///
                /// # Errors
                /// The rule that a field breaks.
                pub fn decode(fields: &'a [u8]) -> Result<Self, super::Violation> {
                    super::definition::decode(Self::ID, fields)
                }
            }
        )*
    };
}

pub(super) use methods;
