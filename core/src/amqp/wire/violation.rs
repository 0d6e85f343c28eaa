//! The rules of the wire format that a peer can break, each with its reply code and clause. All of them close the
//! connection.

use super::method::MethodId;
use super::reply_code::ReplyCode;
use super::short_str::ShortString;
use core::fmt;

macro_rules! rules {
    ($($name:ident = $code:ident, $clause:literal, $text:literal;)*) => {
        /// A rule that the peer broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = $text] $name,)*
        }

        impl Rule {
            /// Every rule, for listings.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// The reply code that closes the connection.
            pub fn code(self) -> ReplyCode {
                match self { $(Rule::$name => ReplyCode::$code,)* }
            }

            /// Its name, as listings write it.
            pub fn name(self) -> &'static str {
                match self { $(Rule::$name => stringify!($name),)* }
            }

            /// The clause of AMQP 0-9-1 that says so.
            pub fn clause(self) -> &'static str {
                match self { $(Rule::$name => $clause,)* }
            }

            /// What the peer did, in plain words.
            pub fn text(self) -> &'static str {
                match self { $(Rule::$name => $text,)* }
            }
        }
    };
}

rules! {
    FrameKindUnknown = FrameError, "§4.2.3", "the frame is neither method, header, body nor heartbeat";
    FrameTooLarge = FrameError, "§4.2.3", "the frame is larger than was agreed on";
    FrameEndMissing = FrameError, "§4.2.3", "the frame does not end with CE";
    HeartbeatWithPayload = FrameError, "§4.2.7", "a heartbeat has a payload";
    HeartbeatOnChannel = CommandInvalid, "§4.2.7", "a heartbeat is not on channel 0";
    ContentOnChannelZero = ChannelError, "§4.2.6", "a content frame is on channel 0";
    ConnectionMethodOnChannel = CommandInvalid, "§4.2.3", "a method of the connection is not on channel 0";
    ChannelMethodOnChannelZero = ChannelError, "§4.2.3", "a method of a channel is on channel 0";
    Truncated = FrameError, "§4.2.5", "a field goes beyond the end of its frame";
    TrailingBytes = FrameError, "§4.2.5", "bytes are left after the last field";
    ShortStringNotUtf8 = FrameError, "§4.2.5.3", "a short string is not UTF-8";
    FieldTypeUnknown = SyntaxError, "§4.2.5.5", "a field of a table has a type that is not known";
    TableTooDeep = SyntaxError, "§4.2.5.5", "tables and arrays are nested more than 32 deep";
    PropertyFlagsContinued = SyntaxError, "§4.2.6.1", "the content has properties beyond the fourteenth";
    ContentWeight = UnexpectedFrame, "§4.2.6.1", "the weight of a content header is not 0";
    ContentClass = UnexpectedFrame, "§4.2.6.1", "the class of a content header is not that of its method";
    MethodUnknown = NotImplemented, "§1.4", "there is no such method";
    MethodOnlyServersSend = CommandInvalid, "§1.4", "a client sent a method that only servers send";
}

/// A rule that was broken, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The method that was being read; `MethodId::NONE` outside of methods.
    pub method: MethodId,
    /// The field that was being read, or a word for what it was if not a method's field.
    pub place: &'static str,
}

impl Violation {
    /// A broken rule outside of methods.
    pub(super) fn outside(rule: Rule, place: &'static str) -> Violation {
        Violation { rule, method: MethodId::NONE, place }
    }

    /// The reply code that closes the connection.
    pub fn code(self) -> ReplyCode {
        self.rule.code()
    }

    /// The reply text: code, rule, place and clause, at most 255 bytes.
    pub fn reply_text(self) -> ShortString {
        self.code().text(self)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { rule, method, place } = self;
        write!(f, "{} ({place}", rule.text())?;
        if *method != MethodId::NONE {
            write!(f, " of {method}")?;
        }
        write!(f, ", AMQP 0-9-1 {})", rule.clause())
    }
}
