//! Reads the fields of one method, table or set of properties (§4.2.5).

use super::short_str::ShortStr;
use super::violation::Rule;

/// What is left to read.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The octet that the last bit came from, shifted so that the next one is lowest.
    bits: u8,
    /// Bits left in it; none after any other field.
    bits_left: u8,
    /// Whether short strings must be UTF-8.
    text_checked: bool,
}

impl<'a> Reader<'a> {
    /// A reader that takes any bytes for short strings, as RabbitMQ does in properties and methods with content.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, bits: 0, bits_left: 0, text_checked: false }
    }

    /// A reader that refuses short strings that are not UTF-8, as RabbitMQ does in methods without content.
    pub fn text_checked(bytes: &'a [u8]) -> Reader<'a> {
        Reader { text_checked: true, ..Reader::new(bytes) }
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Truncated`, as all other fields.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Rule> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Rule::Truncated)?;
        self.rest = rest;
        self.bits_left = 0;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Rule> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Rule::Truncated)?;
        self.rest = rest;
        self.bits_left = 0;
        Ok(*taken)
    }

    /// A bit: bits in a row share an octet, lowest first (§4.2.5.2).
    pub fn bit(&mut self) -> Result<bool, Rule> {
        if self.bits_left == 0 {
            self.bits = self.u8()?;
            self.bits_left = 8;
        }
        let bit = self.bits & 1 != 0;
        self.bits >>= 1;
        self.bits_left -= 1;
        Ok(bit)
    }

    /// An octet.
    pub fn u8(&mut self) -> Result<u8, Rule> {
        self.array::<1>().map(|[octet]| octet)
    }

    /// A short integer.
    pub fn u16(&mut self) -> Result<u16, Rule> {
        self.array().map(u16::from_be_bytes)
    }

    /// A long integer.
    pub fn u32(&mut self) -> Result<u32, Rule> {
        self.array().map(u32::from_be_bytes)
    }

    /// A long long integer, or a timestamp.
    pub fn u64(&mut self) -> Result<u64, Rule> {
        self.array().map(u64::from_be_bytes)
    }

    /// A short string.
    ///
    /// # Errors
    /// `ShortStringNotUtf8` if text is checked.
    pub fn short_str(&mut self) -> Result<ShortStr<'a>, Rule> {
        let length = self.u8()?;
        let text = ShortStr::new(self.take(usize::from(length))?).ok_or(Rule::Truncated)?;
        if self.text_checked && text.as_str().is_none() { Err(Rule::ShortStringNotUtf8) } else { Ok(text) }
    }

    /// A long string: any bytes.
    pub fn long_str(&mut self) -> Result<&'a [u8], Rule> {
        let length = usize::try_from(self.u32()?).map_err(|_| Rule::Truncated)?;
        self.take(length)
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// `TrailingBytes`.
    pub fn end(&self) -> Result<(), Rule> {
        if self.rest.is_empty() { Ok(()) } else { Err(Rule::TrailingBytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::wire::writer::Writer;
    use bytes::BytesMut;

    #[test]
    fn bits_in_a_row_share_octets_and_other_fields_end_the_row() {
        // Broken: a flag behind the eighth, or behind another field, is read from the wrong place. (§4.2.5.2)
        let bits = [true, false, false, true, true, false, false, true, true, false];
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        bits.iter().for_each(|bit| writer.bit(*bit));
        writer.put(&[7]);
        writer.bit(true);
        writer.with_length(|writer| writer.bit(true));
        writer.bit(true);
        assert_eq!(&out[..], [0x99, 0x01, 7, 1, 0, 0, 0, 1, 1, 1]);
        let mut reader = Reader::new(&out);
        assert!(bits.iter().all(|bit| reader.bit() == Ok(*bit)));
        assert_eq!((reader.u8(), reader.bit(), reader.long_str()), (Ok(7), Ok(true), Ok(&[1][..])));
        assert_eq!((reader.bit(), reader.end()), (Ok(true), Ok(())));
    }
}
