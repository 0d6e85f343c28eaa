//! Reads the fields of one packet.

use super::PacketId;
use super::violation::Violation;

/// What is left of a packet's body.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of `body`.
    pub fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Violation::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Violation> {
        self.take(1).map(|b| b[0])
    }

    /// A two-byte integer (§1.5.2).
    pub fn u16(&mut self) -> Result<u16, Violation> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    /// A four-byte integer (MQTT 5 §1.5.3).
    pub fn u32(&mut self) -> Result<u32, Violation> {
        self.take(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// An integer of one to four bytes, in as few as it takes (MQTT 5 §1.5.5).
    pub fn variable(&mut self) -> Result<u32, Violation> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let shortest = shift == 0 || byte != 0;
                return if shortest { Ok(number) } else { Err(Violation::IntegerTooLong) };
            }
        }
        Err(Violation::IntegerTooLong)
    }

    /// Bytes with their length before them.
    pub fn binary(&mut self) -> Result<&'a [u8], Violation> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// A UTF-8 string (§1.5.3).
    pub fn string(&mut self) -> Result<&'a str, Violation> {
        let bytes = self.binary()?;
        // Ill-formed includes surrogates and overlong forms. [MQTT-1.5.3-1]
        let text = core::str::from_utf8(bytes).map_err(|_| Violation::Utf8IllFormed)?;
        // [MQTT-1.5.3-2]. A byte order mark is kept as it is [MQTT-1.5.3-3].
        if bytes.contains(&0) { Err(Violation::Utf8Nul) } else { Ok(text) }
    }

    /// A packet identifier. [MQTT-2.3.1-1]
    pub fn packet_id(&mut self) -> Result<PacketId, Violation> {
        PacketId::new(self.u16()?).ok_or(Violation::PacketIdZero)
    }

    /// Ends the packet.
    pub fn end(self) -> Result<(), Violation> {
        if self.rest.is_empty() { Ok(()) } else { Err(Violation::TrailingBytes) }
    }
}
