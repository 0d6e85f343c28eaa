//! Who may connect: what the driver is asked about a client, and what it answers. The core knows users by their names alone;
//! secrets, and what is computed with them, are the driver's.
//!
//! ```text
//! CONNECT, Start-Ok ──Verify──► driver ──Verified──► Proven: it is let in, Refused: it is told so and closed
//!                                  ▲         └─────► GoesOn: AUTH to the client
//!                                  └──Verify (with the state that came with GoesOn)── AUTH of the client
//! ```

use crate::input::CloseCause;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

/// Who may connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody, under any name and with any password.
    #[default]
    Everybody,
    /// Who proves to be a user.
    Users {
        /// MQTT clients that give neither a name nor a password may connect too.
        or_anonymous: bool,
    },
}

/// What a client says to prove who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password: CONNECT of MQTT, PLAIN and AMQPLAIN of AMQP.
    Password {
        /// The name; empty without one.
        user: String,
        /// The password; empty without one.
        password: Vec<u8>,
    },
    /// A step of an exchange (MQTT 5 §4.12).
    Step {
        /// The authentication method that the client named in CONNECT: text of its choice, at most 64 KiB.
        method: String,
        /// What came with the last `Verdict::GoesOn` of this exchange; none at its first step.
        state: Option<Vec<u8>>,
        /// The client's authentication data; empty without any.
        data: Vec<u8>,
    },
}

/// What the driver found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this user.
    Proven {
        /// The user's name.
        user: String,
        /// The last authentication data of an exchange; empty for a password.
        data: Vec<u8>,
    },
    /// The exchange takes another step.
    GoesOn {
        /// Handed back with the next step.
        state: Vec<u8>,
        /// Authentication data for the client.
        data: Vec<u8>,
    },
    /// It is not proven.
    Refused {
        /// Why, for the log and the client. It does not say whether there is such a user: that would help who guesses.
        why: Cow<'static, str>,
    },
    /// The method is not known.
    UnknownMethod,
    /// Nobody could look: the client may try again.
    Unavailable {
        /// Why.
        why: &'static str,
    },
}

/// A client that is about to prove who it is.
pub(crate) struct Proving {
    pub stage: ProvingStage,
    /// The method of an exchange, and the driver's state of it.
    pub exchange: Option<Exchange>,
    /// The driver has been asked, and has not answered.
    pub asked: bool,
    /// The peer went away meanwhile: what it sent is handled once the driver has answered.
    pub gone: Option<CloseCause>,
}

/// What waits for the proof.
pub(crate) enum ProvingStage {
    /// This CONNECT of MQTT.
    Connecting(Bytes),
    /// Start-Ok of AMQP, by this mechanism.
    Starting(&'static str),
    /// Nothing: a client that is connected proves itself again (MQTT 5 §4.12.1).
    Connected,
}

/// An exchange that takes several steps.
pub(crate) struct Exchange {
    pub method: Box<str>,
    pub state: Vec<u8>,
}

impl Proving {
    /// The driver is asked now.
    pub fn begun(stage: ProvingStage, exchange: Option<Exchange>) -> Proving {
        Proving { stage, exchange, asked: true, gone: None }
    }

    /// Whether what the client sent behind it has to wait.
    pub fn blocks(&self) -> bool {
        self.asked && !matches!(self.stage, ProvingStage::Connected)
    }
}

/// Passwords are not for logs and traces.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Password { user, .. } => write!(f, "Password {{ user: {user:?}, .. }}"),
            Credentials::Step { method, .. } => write!(f, "Step {{ method: {method:?}, .. }}"),
        }
    }
}
