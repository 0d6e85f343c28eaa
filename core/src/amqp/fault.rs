//! What a client did wrong: a reply code and what happened, in words. Most faults close their channel; some the connection.

use super::wire::{ReplyCode, Violation};
use alloc::format;
use alloc::string::{String, ToString};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub code: ReplyCode,
    /// What happened, without the code's name.
    pub text: String,
    /// Whether the connection is closed, not the channel alone.
    pub hard: bool,
}

impl Fault {
    /// A fault that closes what its code says.
    pub fn new(code: ReplyCode, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into(), hard: code.is_hard() }
    }

    /// 404.
    pub fn no(what: &str, name: &str) -> Fault {
        Fault::new(ReplyCode::NotFound, format!("no {what} '{name}' in vhost '/'"))
    }

    /// 406.
    pub fn precondition(text: impl Into<String>) -> Fault {
        Fault::new(ReplyCode::PreconditionFailed, text)
    }

    /// 403.
    pub fn refused(text: impl Into<String>) -> Fault {
        Fault::new(ReplyCode::AccessRefused, text)
    }
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Fault {
        Fault { code: violation.code(), text: violation.to_string(), hard: true }
    }
}
