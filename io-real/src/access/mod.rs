//! Users: who may connect, and how they prove it. The core asks (`Output::Verify`), a thread answers.
//!
//! ```text
//!   [users] of the configuration ──► Users: a Verifier for each name
//!                                      ▲
//!   turn task ── begin ──► login thread ┤ a password: PBKDF2, once; afterwards a keyed hash of the last good one
//!       ▲                      │        └ SCRAM-SHA-256: two steps of an exchange (`scram`)
//!       └────── poll_done ◄────┘
//! ```

mod logins;
mod scram;
mod users;
mod verifier;

pub use logins::Logins;
pub use users::Users;
pub use verifier::{ITERATIONS, ITERATIONS_MAX, Verifier};
