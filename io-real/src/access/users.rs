//! The users, and what is found about one who says to be one of them.

use super::scram;
use super::verifier::{ITERATIONS, Key, SCHEME, Verifier, keyed_hash};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use vowmq_core::access::Verdict;
use vowmq_core::mqtt::packet::property::beginning;

/// Bytes of a name that are told and logged.
const SHOWN: usize = 40;

/// Bytes of the longest name: what MQTT's CONNECT can hold (§1.5.3).
pub const NAME_MAX: usize = 65_535;

/// The users. A copy is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    known: Arc<BTreeMap<String, Verifier>>,
}

impl Users {
    /// One more.
    ///
    /// # Errors
    /// The name cannot be one (see `checked_name`), or is there already.
    pub fn add(&mut self, name: &str, verifier: Verifier) -> Result<(), String> {
        let name = checked_name(name)?;
        if self.knows(&name) {
            return Err(format!(
                "{name:?} is there already, perhaps with other signs for the same characters"
            ));
        }
        self.replace(&name, verifier);
        Ok(())
    }

    pub(super) fn replace(&mut self, name: &str, verifier: Verifier) {
        Arc::make_mut(&mut self.known).insert(name.to_owned(), verifier);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// By their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Verifier)> {
        self.known.iter().map(|(name, verifier)| (name.as_str(), verifier))
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// A step of an exchange. Takes microseconds.
    pub(super) fn step(&self, method: &str, state: Option<&[u8]>, data: &[u8]) -> Verdict {
        match method {
            SCHEME => scram::step(self, state, data, &nonce()),
            _ => Verdict::UnknownMethod,
        }
    }

    /// Whether it is the user's password. Takes milliseconds, whoever the user is.
    pub(super) fn has_password(&self, user: &str, password: &[u8]) -> bool {
        self.verifier_or_decoy(user).matches(password)
    }

    /// A keyed hash of a password, which changes with what is kept of the right one. Takes microseconds.
    pub(super) fn quick_hash(&self, secret: &Key, user: &str, password: &[u8]) -> Key {
        keyed_hash(secret, &[&self.verifier_or_decoy(user).stored_key, password])
    }

    /// What is kept of the user's password; for one who is not there, something that no password and no proof fits, and that
    /// looks as if it were somebody's: the same each time, as often hashed as others are.
    pub(super) fn verifier_or_decoy(&self, user: &str) -> Verifier {
        self.known.get(user).cloned().unwrap_or_else(|| {
            // Only who has read the configuration knows it; it stays while that user's password does.
            let secret = self.known.values().map(|verifier| verifier.server_key).min().unwrap_or_default();
            let derived = |what: &[u8]| keyed_hash(&secret, &[what, user.as_bytes()]);
            let one_of = usize::from(derived(b"iterations ")[0]) % self.known.len().max(1);
            let iterations =
                self.known.values().nth(one_of).map_or(ITERATIONS, |verifier| verifier.iterations);
            let salt = derived(b"salt ")[..16].to_vec();
            Verifier { iterations, salt, stored_key: derived(b"stored "), server_key: derived(b"server ") }
        })
    }
}

/// A user's name in its one form (SASLprep, RFC 4013), in which clients of SCRAM send it.
///
/// # Errors
/// It has none, or is empty or longer than `NAME_MAX`.
pub fn checked_name(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("a user's name must not be empty".to_owned());
    }
    if name.len() > NAME_MAX {
        return Err(format!("a user's name of {} bytes; {NAME_MAX} is the most", name.len()));
    }
    prepared(name)
        .ok_or_else(|| format!("{name:?} has characters that a user's name must not have (RFC 4013)"))
}

/// A name in its one form (SASLprep, RFC 5802 §5.1); none if it has no such form, or nothing is left of it.
pub(super) fn prepared(name: &str) -> Option<String> {
    let prepared = stringprep::saslprep(name).ok()?;
    (!prepared.is_empty()).then(|| prepared.into_owned())
}

/// The name that a client gives, in the form in which it is kept; as it is, if it cannot be a user's.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    stringprep::saslprep(name).unwrap_or(Cow::Borrowed(name))
}

/// Somebody could not prove to be this user. Whether there is such a user is not said.
pub(super) fn refused(user: &str) -> Verdict {
    let user = beginning(user, SHOWN);
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

    #[test]
    fn other_methods_are_not_known() {
        for method in ["", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "scram-sha-256"] {
            assert_eq!(Users::default().step(method, None, b""), Verdict::UnknownMethod, "{method}");
        }
    }

    #[test]
    fn every_exchange_has_a_nonce_of_its_own() {
        let (one, other) = (nonce(), nonce());
        assert!(one != other && one.len() == 24 && !one.contains(','));
    }

    #[test]
    fn a_name_has_one_form() {
        // Broken: a user whose name is typed another way can never log in, or two lines are one user.
        let verifier = Verifier::new(b"pencil", b"salt", ITERATIONS);
        let mut users = Users::default();
        users.add("e\u{301}", verifier.clone()).expect("a name");
        assert!(
            users.knows("\u{e9}") && users.knows(&canonical("e\u{301}")) && users.knows(&canonical("\u{e9}"))
        );
        assert!(users.add("\u{e9}", verifier.clone()).is_err(), "it is the same");
        for wrong in ["", "a\nb", "a\0b", "\u{ad}", "\u{627}1", &"a".repeat(NAME_MAX + 1)] {
            assert!(users.add(wrong, verifier.clone()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn strangers_look_like_users() {
        // Broken: the number of iterations, or a salt that changes, tells who is there.
        let mut users = Users::default();
        for (name, iterations) in [("a", 4096), ("b", 5000), ("c", 6000)] {
            users.add(name, Verifier::new(b"pencil", b"salt", iterations)).expect("a name");
        }
        let strangers: Vec<Verifier> =
            (0..60).map(|n| users.verifier_or_decoy(&format!("stranger {n}"))).collect();
        for iterations in [4096, 5000, 6000] {
            assert!(strangers.iter().any(|verifier| verifier.iterations == iterations), "{iterations}");
        }
        assert_eq!(users.clone().verifier_or_decoy("stranger 7"), strangers[7]);
    }
}
