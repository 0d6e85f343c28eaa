//! Users: who may connect, and how they prove it. The core asks (`Output::Verify`), `Logins` answers.
//!
//! ```text
//!   [users] of the configuration ──► Users: a Verifier for each name
//!                                      ▲
//!   turn task ── begin ──► Logins ──┬─ SCRAM-SHA-256: two steps of an exchange (`scram`)
//!       ▲                   │       ├─ a password that was right before: a keyed hash
//!       └──── poll_done ◄───┘       └─ another password: PBKDF2, by a thread
//! ```

mod logins;
mod scram;
mod users;
mod verifier;

pub use logins::Logins;
pub use users::{NAME_MAX, Users, checked_name};
pub use verifier::{ITERATIONS, ITERATIONS_MAX, Verifier};
