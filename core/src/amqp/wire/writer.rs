//! Appends the fields of one method, table or set of properties (§4.2.5).

use super::short_str::ShortStr;
use bytes::{BufMut, BytesMut};

/// Where fields are appended to.
pub struct Writer<'o> {
    out: &'o mut BytesMut,
    /// Bits taken of the last octet; none after any other field.
    bits: u8,
}

impl<'o> Writer<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut BytesMut) -> Writer<'o> {
        Writer { out, bits: 0 }
    }

    /// Bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bits = 0;
        self.out.put_slice(bytes);
    }

    /// A bit: bits in a row share an octet, lowest first (§4.2.5.2).
    pub fn bit(&mut self, bit: bool) {
        if self.bits == 0 {
            self.out.put_u8(0);
        }
        if let Some(octet) = self.out.last_mut() {
            *octet |= u8::from(bit) << self.bits;
        }
        self.bits = (self.bits + 1) % 8;
    }

    /// A short string.
    pub fn short_str(&mut self, text: ShortStr<'_>) {
        self.put(&[text.length()]);
        self.put(text.as_bytes());
    }

    /// A long string; it must have fewer than 2³² bytes.
    pub fn long_str(&mut self, bytes: &[u8]) {
        self.with_length(|writer| writer.put(bytes));
    }

    /// What `write` writes, its length of four octets before it.
    pub fn with_length(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.put(&[0; 4]);
        let start = self.out.len();
        write(self);
        self.bits = 0;
        let length = u32::try_from(self.out.len() - start).expect("nothing here comes near 4 GiB");
        self.out[start - 4..start].copy_from_slice(&length.to_be_bytes());
    }
}
