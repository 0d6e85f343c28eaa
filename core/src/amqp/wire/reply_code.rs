//! Reply codes (§1.1) with their names as RabbitMQ writes them: `NOT_FOUND - no queue 'x' in vhost '/'`.

use super::short_str::{SHORT_STR_MAX, ShortStr, ShortString};
use alloc::string::ToString;
use core::fmt;

macro_rules! reply_codes {
    ($($name:ident = $number:literal, $text:literal, hard: $hard:literal, $doc:literal;)*) => {
        /// Why something was closed or returned.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $(#[doc = $doc] $name = $number,)*
        }

        impl ReplyCode {
            /// Every code, for listings.
            pub const ALL: &'static [ReplyCode] = &[$(ReplyCode::$name),*];

            /// The name, as RabbitMQ writes it.
            pub const fn name(self) -> &'static str {
                match self { $(ReplyCode::$name => $text,)* }
            }

            /// Whether it closes the connection; a soft error closes its channel alone.
            pub const fn is_hard(self) -> bool {
                match self { $(ReplyCode::$name => $hard,)* }
            }
        }
    };
}

reply_codes! {
    Success = 200, "REPLY_SUCCESS", hard: false, "All went well.";
    ContentTooLarge = 311, "CONTENT_TOO_LARGE", hard: false, "The content is larger than the receiver takes.";
    NoRoute = 312, "NO_ROUTE", hard: false, "A mandatory message has no queue to go to.";
    NoConsumers = 313, "NO_CONSUMERS", hard: false, "An immediate message has no consumer to go to.";
    ConnectionForced = 320, "CONNECTION_FORCED", hard: true, "An operator closed the connection.";
    InvalidPath = 402, "INVALID_PATH", hard: true, "The client named a virtual host that is not there.";
    AccessRefused = 403, "ACCESS_REFUSED", hard: false, "The client may not do that.";
    NotFound = 404, "NOT_FOUND", hard: false, "What the client named is not there.";
    ResourceLocked = 405, "RESOURCE_LOCKED", hard: false, "Another client has it for itself.";
    PreconditionFailed = 406, "PRECONDITION_FAILED", hard: false, "What the method asks for does not hold.";
    FrameError = 501, "FRAME_ERROR", hard: true, "A frame that cannot be decoded.";
    SyntaxError = 502, "SYNTAX_ERROR", hard: true, "A field has a value that is not allowed.";
    CommandInvalid = 503, "COMMAND_INVALID", hard: true, "A method that has no place here.";
    ChannelError = 504, "CHANNEL_ERROR", hard: true, "A channel that is not open, or open already.";
    UnexpectedFrame = 505, "UNEXPECTED_FRAME", hard: true, "A frame that does not follow the one before.";
    ResourceError = 506, "RESOURCE_ERROR", hard: true, "The broker has not enough of something.";
    NotAllowed = 530, "NOT_ALLOWED", hard: true, "The client does what was ruled out before.";
    NotImplemented = 540, "NOT_IMPLEMENTED", hard: true, "The broker cannot do that.";
    InternalError = 541, "INTERNAL_ERROR", hard: true, "The broker made a mistake.";
}

impl ReplyCode {
    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The name as a reply text of its own, as in Basic.Return.
    pub const fn name_text(self) -> ShortStr<'static> {
        ShortStr::literal(self.name())
    }

    /// A reply text: the name, a dash and what happened, cut to 255 bytes with "..." at its end.
    pub fn text(self, explanation: impl fmt::Display) -> ShortString {
        const DOTS: &str = "...";
        let mut text = format_args!("{} - {explanation}", self.name()).to_string();
        if text.len() > SHORT_STR_MAX {
            let mut end = SHORT_STR_MAX - DOTS.len();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(DOTS);
        }
        ShortString::from_bytes(text.as_bytes()).expect("cut to what fits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_as_rabbitmq_writes_them() {
        // Broken: clients that look at the text (there are some) do not recognise it.
        let text = ReplyCode::NotFound.text(format_args!("no queue '{}' in vhost '/'", "x"));
        assert_eq!(text.as_short_str().to_string(), "NOT_FOUND - no queue 'x' in vhost '/'");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        // Broken: a text that does not fit its field stops the broker, or is cut within a character.
        for long in ["é".repeat(200), "x".repeat(300)] {
            let text = ReplyCode::NotFound.text(long);
            let text = text.as_short_str().as_str().expect("UTF-8");
            assert!((254..=255).contains(&text.len()) && text.ends_with("..."), "{text}");
        }
        assert_eq!(ReplyCode::NotFound.text("x".repeat(243)).as_short_str().as_bytes().len(), 255);
    }
}
