//! The users, and what is found about one who says to be one of them.

use super::scram;
use super::verifier::{ITERATIONS, Key, SCHEME, Verifier, keyed_hash};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use vowmq_core::access::{Credentials, Verdict};

/// Bytes of a name that are told and logged.
const SHOWN: usize = 40;

/// The users. A copy is cheap.
#[derive(Clone, Debug, Default)]
pub struct Users {
    known: Arc<BTreeMap<String, Verifier>>,
    /// For what must not be guessed and should not change while the process runs.
    secret: Key,
}

impl PartialEq for Users {
    fn eq(&self, other: &Users) -> bool {
        self.known == other.known
    }
}

impl Eq for Users {}

/// Passwords that were right: one a user, as a keyed hash, so that a thousand devices that come back at once do not wait for
/// a thousand slow hashes.
pub(super) type Remembered = HashMap<String, Key>;

impl Users {
    /// These users; `secret` is random.
    pub fn of(known: impl IntoIterator<Item = (String, Verifier)>, secret: Key) -> Users {
        Users { known: Arc::new(known.into_iter().collect()), secret }
    }

    /// One more, or another password for one who is there.
    pub fn add(&mut self, name: &str, verifier: Verifier) {
        Arc::make_mut(&mut self.known).insert(name.to_owned(), verifier);
    }

    /// The same users with another secret.
    #[must_use]
    pub(super) fn with_secret(self, secret: Key) -> Users {
        Users { secret, ..self }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// By their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Verifier)> {
        self.known.iter().map(|(name, verifier)| (name.as_str(), verifier))
    }

    /// Who it is. Takes milliseconds for a password that is not remembered.
    pub(super) fn verify(&self, credentials: &Credentials, remembered: &mut Remembered) -> Verdict {
        match credentials {
            Credentials::Password { user, password } => self.check_password(user, password, remembered),
            Credentials::Step { method, state, data } if method == SCHEME => {
                scram::step(self, state.as_deref(), data, &nonce())
            }
            Credentials::Step { .. } => Verdict::UnknownMethod,
        }
    }

    fn check_password(&self, user: &str, password: &[u8], remembered: &mut Remembered) -> Verdict {
        let proven = || Verdict::Proven { user: user.to_owned(), data: Vec::new() };
        let verifier = self.verifier_or_decoy(user);
        let hash = keyed_hash(&self.secret, &[&verifier.stored_key, password]);
        if remembered.get(user).is_some_and(|known| known.ct_eq(&hash).into()) {
            return proven();
        }
        if !verifier.matches(password) {
            return refused(user);
        }
        remembered.insert(user.to_owned(), hash);
        proven()
    }

    /// What is kept of the user's password; for one who is not there, something that no password and no proof fits, and that
    /// looks the same.
    pub(super) fn verifier_or_decoy(&self, user: &str) -> Verifier {
        self.known.get(user).cloned().unwrap_or_else(|| {
            let derived = |what: &[u8]| keyed_hash(&self.secret, &[what, user.as_bytes()]);
            let iterations = self.known.values().next().map_or(ITERATIONS, |verifier| verifier.iterations);
            let salt = derived(b"salt ")[..16].to_vec();
            Verifier { iterations, salt, stored_key: derived(b"stored "), server_key: derived(b"server ") }
        })
    }
}

/// Somebody could not prove to be this user. Whether there is such a user is not said.
pub(super) fn refused(user: &str) -> Verdict {
    let mut end = user.len().min(SHOWN);
    while !user.is_char_boundary(end) {
        end -= 1;
    }
    let user = &user[..end];
    Verdict::Refused { why: format!("user {user:?} is not known, or the password is wrong").into() }
}

/// Random, printable, without a comma.
fn nonce() -> String {
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        let verifier = |password: &[u8]| Verifier::new(password, b"salt", ITERATIONS);
        Users::of([("alice".to_owned(), verifier(b"one")), ("bob".to_owned(), verifier(b"two"))], [1; 32])
    }

    fn tried(users: &Users, remembered: &mut Remembered, user: &str, password: &[u8]) -> bool {
        let credentials = Credentials::Password { user: user.to_owned(), password: password.to_vec() };
        match users.verify(&credentials, remembered) {
            Verdict::Proven { user: proven, data } => {
                assert!(proven == user && data.is_empty());
                true
            }
            Verdict::Refused { why } => {
                assert_eq!(why, format!("user {user:?} is not known, or the password is wrong"));
                false
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_password_is_right_or_wrong_remembered_or_not() {
        let (mut users, mut remembered) = (users(), Remembered::new());
        for _ in 0..2 {
            assert!(tried(&users, &mut remembered, "alice", b"one"));
            assert!(tried(&users, &mut remembered, "bob", b"two"));
            for (user, password) in [("alice", "two"), ("alice", ""), ("carol", "one"), ("", "")] {
                assert!(!tried(&users, &mut remembered, user, password.as_bytes()), "{user} {password}");
            }
            assert_eq!(remembered.len(), 2);
        }
        // A new password: what is remembered of the old one is worth nothing.
        users.add("alice", Verifier::new(b"three", b"salt", ITERATIONS));
        assert!(!tried(&users, &mut remembered, "alice", b"one"));
        assert!(tried(&users, &mut remembered, "alice", b"three"));
    }

    #[test]
    fn other_methods_are_not_known() {
        for method in ["", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "scram-sha-256"] {
            let credentials = Credentials::Step { method: method.to_owned(), state: None, data: Vec::new() };
            assert_eq!(
                users().verify(&credentials, &mut Remembered::new()),
                Verdict::UnknownMethod,
                "{method}"
            );
        }
    }

    #[test]
    fn every_exchange_has_a_nonce_of_its_own() {
        let (one, other) = (nonce(), nonce());
        assert!(one != other && one.len() == 24 && !one.contains(','));
    }
}
