//! What is kept of a password: enough to check it, and of no use for logging in elsewhere (RFC 5802 §3, RFC 7677).
//!
//! ```text
//! SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
//!    scheme  iterations      salt                          StoredKey                                   ServerKey        (RFC 5803)
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;

/// The name of the scheme, and of the authentication method.
pub(super) const SCHEME: &str = "SCRAM-SHA-256";

/// How often a password is hashed by default: the least that RFC 7677 §4 allows, since every client that proves itself by
/// SCRAM has to do it too, the smallest device included.
pub const ITERATIONS: u32 = 4096;

/// The most: a login with more would keep a thread busy for many seconds.
pub const ITERATIONS_MAX: u32 = 10_000_000;

/// A hash, or a key of that size.
pub(super) type Key = [u8; 32];

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Key,
    pub(super) server_key: Key,
}

impl Verifier {
    /// For a password, hashed so often (`ITERATIONS` at least) with this salt, which should be random.
    pub fn new(password: &[u8], salt: &[u8], iterations: u32) -> Verifier {
        let mut salted = Key::default();
        pbkdf2::pbkdf2_hmac::<Sha256>(&prepared(password), salt, iterations, &mut salted);
        let stored_key = Sha256::digest(keyed_hash(&salted, &[b"Client Key"])).into();
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key,
            server_key: keyed_hash(&salted, &[b"Server Key"]),
        }
    }

    /// Whether it was made of this password. Takes as long whatever the password is.
    pub fn matches(&self, password: &[u8]) -> bool {
        let tried = Verifier::new(password, &self.salt, self.iterations);
        tried.stored_key.ct_eq(&self.stored_key).into()
    }
}

/// HMAC-SHA-256 of the parts, one after the other.
pub(super) fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// A password in its one form (SASLprep, RFC 4013), or as it is where it has none.
fn prepared(password: &[u8]) -> Cow<'_, [u8]> {
    let text = std::str::from_utf8(password).ok();
    match text.and_then(|text| stringprep::saslprep(text).ok()) {
        Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        _ => Cow::Borrowed(password),
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        write!(f, "{SCHEME}${}:{salt}${stored}:{server}", self.iterations)
    }
}

/// Not for logs.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl FromStr for Verifier {
    type Err = String;

    /// # Errors
    /// It is not as RFC 5803 writes it, or of another scheme, or hashed too few times or too many.
    fn from_str(text: &str) -> Result<Verifier, String> {
        let malformed =
            || format!("expected \"{SCHEME}$ITERATIONS:SALT$KEY:KEY\", as `vowmq user NAME` prints it");
        let mut parts = text.split('$');
        let (Some(SCHEME), Some(hashing), Some(keys), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed());
        };
        let (iterations, salt) = hashing.split_once(':').ok_or_else(malformed)?;
        let (stored, server) = keys.split_once(':').ok_or_else(malformed)?;
        let written = iterations;
        let iterations: u32 = written.parse().map_err(|_| malformed())?;
        if iterations.to_string() != written {
            return Err(malformed());
        }
        if !(ITERATIONS..=ITERATIONS_MAX).contains(&iterations) {
            return Err(format!("{iterations} iterations; there must be {ITERATIONS} to {ITERATIONS_MAX}"));
        }
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| malformed());
        let key = |text: &str| bytes(text)?.try_into().map_err(|_| malformed());
        let salt = bytes(salt)?;
        if salt.is_empty() {
            return Err(malformed());
        }
        Ok(Verifier { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 §3: password "pencil".
    pub(crate) const EXAMPLE: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn the_example_of_the_rfc_is_made_and_read_again() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("as the RFC has it");
        let made = Verifier::new(b"pencil", &salt, 4096);
        assert_eq!(made.to_string(), EXAMPLE);
        let read: Verifier = EXAMPLE.parse().expect("it was just written");
        assert_eq!(read, made);
        assert!(read.matches(b"pencil") && !read.matches(b"Pencil") && !read.matches(b""));
    }

    #[test]
    fn a_password_has_one_form() {
        // RFC 4013 §3: a soft hyphen is nothing, the Roman numeral nine is "IX".
        let verifier = Verifier::new("IX\u{ad}".as_bytes(), b"salt", ITERATIONS);
        assert!(verifier.matches("\u{2168}".as_bytes()) && verifier.matches(b"IX"));
        let binary = Verifier::new(b"\xff\x00\x01", b"salt", ITERATIONS);
        assert!(binary.matches(b"\xff\x00\x01") && !binary.matches(b"\xff\x00\x02"));
    }

    #[test]
    fn what_is_no_verifier_is_refused_with_the_rule() {
        let longer = EXAMPLE.replace("W22Z", "W22Z=");
        for wrong in [
            "",
            "pencil",
            "SCRAM-SHA-1$4096:c2FsdA==$a:b",
            &EXAMPLE.replace("$4096", "$+4096"),
            &EXAMPLE[..60],
            &longer,
            &format!("{EXAMPLE}$"),
        ] {
            let message = wrong.parse::<Verifier>().expect_err("it is none");
            assert!(message.contains("vowmq user NAME"), "{wrong}: {message}");
        }
        for wrong in ["$1:", "$4095:", "$10000001:"] {
            let message =
                EXAMPLE.replace("$4096:", wrong).parse::<Verifier>().expect_err("too few or too many");
            assert!(message.contains("4096 to 10000000"), "{message}");
        }
    }
}
