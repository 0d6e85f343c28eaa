//! Short strings (§4.2.5.3): up to 255 bytes, compared as bytes.
//!
//! They are UTF-8 by the specification. RabbitMQ does not look at those of methods with content and of properties, so any
//! bytes are kept.

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt::{self, Write};

/// Bytes that a short string may have.
pub const SHORT_STR_MAX: usize = 255;

/// A short string, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShortStr<'a>(&'a [u8]);

impl<'a> ShortStr<'a> {
    /// The empty one.
    pub const EMPTY: ShortStr<'static> = ShortStr(&[]);

    /// These bytes, if there are not too many.
    pub const fn new(bytes: &'a [u8]) -> Option<ShortStr<'a>> {
        if bytes.len() <= SHORT_STR_MAX { Some(ShortStr(bytes)) } else { None }
    }

    /// A text of ours. It must not have more than 255 bytes.
    pub const fn literal(text: &'static str) -> ShortStr<'static> {
        assert!(text.len() <= SHORT_STR_MAX, "a short string has at most 255 bytes");
        ShortStr(text.as_bytes())
    }

    /// Its bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Its length as on the wire.
    pub const fn length(self) -> u8 {
        self.0.len() as u8 // at most 255
    }

    /// As text, if it is UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        core::str::from_utf8(self.0).ok()
    }

    /// A copy that owns its bytes.
    pub fn to_short_string(self) -> ShortString {
        ShortString(self.0.into())
    }
}

/// For texts to people: what is not UTF-8 becomes the replacement character.
impl fmt::Display for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A short string that owns its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShortString(Box<[u8]>);

impl ShortString {
    /// A copy of these bytes, if there are not too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<ShortString> {
        ShortStr::new(bytes).map(ShortStr::to_short_string)
    }

    /// Borrowed.
    pub fn as_short_str(&self) -> ShortStr<'_> {
        ShortStr(&self.0)
    }
}

impl From<ShortStr<'_>> for ShortString {
    fn from(text: ShortStr<'_>) -> ShortString {
        text.to_short_string()
    }
}

/// Maps with owned names are asked with bytes; both compare and hash alike.
impl Borrow<[u8]> for ShortString {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ShortString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_short_str().fmt(f)
    }
}

impl fmt::Debug for ShortString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_short_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn any_bytes_are_kept_and_can_be_shown() {
        // Broken: a name that is not UTF-8 is changed, or stops what reports it.
        let name = ShortStr::new(b"q\xff\xc3\xa9").expect("short");
        assert_eq!((name.as_str(), name.to_string().as_str()), (None, "q\u{fffd}\u{e9}"));
        assert_eq!(name.to_short_string().as_short_str(), name);
        assert!(ShortStr::new(&[0; 255]).is_some_and(|longest| longest.length() == 255));
        assert!(ShortStr::new(&[0; 256]).is_none());
    }
}
