//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: two steps, each a pure function.
//!
//! ```text
//! client: n,,n=USER,r=CLIENT-NONCE                               (client-first-message)
//! server: r=CLIENT-NONCE SERVER-NONCE,s=SALT,i=ITERATIONS        (server-first-message)
//! client: c=biws,r=CLIENT-NONCE SERVER-NONCE,p=PROOF             (client-final-message)
//! server: v=SIGNATURE                                            (server-final-message)
//! ```
//!
//! What the second step needs of the first travels as the state of the exchange: user, GS2 header, client-first-message-bare
//! and server-first-message, with a null character between them, which none of them can contain.

use super::Users;
use super::users::prepared;
use super::verifier::{Key, keyed_hash};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use vowmq_core::access::Verdict;

/// What a client gets wrong.
type Wrong = &'static str;

/// The next step, after `state` if it is not the first. `nonce` is new for each exchange: printable, without a comma.
pub(super) fn step(users: &Users, state: Option<&[u8]>, data: &[u8], nonce: &str) -> Verdict {
    let text = std::str::from_utf8(data).ok().filter(|text| !text.contains('\0'));
    let taken = match (text, state) {
        (None, _) => Err("its message is not text"),
        (Some(text), None) => first(users, text, nonce),
        (Some(text), Some(state)) => last(users, state, text),
    };
    taken.unwrap_or_else(|wrong| Verdict::Refused { why: format!("SCRAM-SHA-256: {wrong}").into() })
}

/// client-first-message: who it is (RFC 5802 §7).
fn first(users: &Users, message: &str, nonce: &str) -> Result<Verdict, Wrong> {
    const MALFORMED: Wrong = "the first message is not as RFC 5802 §7 has it";
    let (flag, rest) = message.split_once(',').ok_or(MALFORMED)?;
    let (identity, bare) = rest.split_once(',').ok_or(MALFORMED)?;
    match flag {
        // A client that could bind to a TLS channel ("y") is right that it is not offered.
        "n" | "y" => {}
        _ if flag.starts_with("p=") => return Err("channel binding is not offered"),
        _ => return Err(MALFORMED),
    }
    let mut attributes = bare.split(',');
    let name = attributes.next().ok_or(MALFORMED)?;
    if name.starts_with("m=") {
        return Err("it asks for an extension that is not known here");
    }
    let user = name.strip_prefix("n=").and_then(decoded_name).ok_or(MALFORMED)?;
    let user = prepared(&user).ok_or("its user name has characters that no user's name has (RFC 4013)")?;
    let theirs = attributes.next().and_then(|nonce| nonce.strip_prefix("r=")).ok_or(MALFORMED)?;
    if theirs.is_empty() || !theirs.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
        return Err(MALFORMED);
    }
    let acts_for = || prepared(&identity.strip_prefix("a=").and_then(decoded_name)?);
    if !identity.is_empty() && acts_for().as_ref() != Some(&user) {
        return Err("it wants to act for another user");
    }
    let verifier = users.verifier_or_decoy(&user);
    let salt = STANDARD.encode(&verifier.salt);
    let answer = format!("r={theirs}{nonce},s={salt},i={}", verifier.iterations);
    let header = &message[..message.len() - bare.len()];
    let state = [&user, header, bare, &answer].join("\0");
    Ok(Verdict::GoesOn { state: state.into_bytes(), data: answer.into_bytes() })
}

/// client-final-message: the proof.
fn last(users: &Users, state: &[u8], message: &str) -> Result<Verdict, Wrong> {
    const MALFORMED: Wrong = "the last message is not as RFC 5802 §7 has it";
    let state = std::str::from_utf8(state).map_err(|_| MALFORMED)?;
    let mut parts = state.split('\0');
    let (Some(user), Some(header), Some(bare), Some(answer)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(MALFORMED);
    };
    let (unproven, proof) = message.rsplit_once(",p=").ok_or(MALFORMED)?;
    let mut attributes = unproven.split(',');
    let binding = attributes.next().and_then(|text| text.strip_prefix("c=")).ok_or(MALFORMED)?;
    if STANDARD.decode(binding).map_err(|_| MALFORMED)? != header.as_bytes() {
        return Err("the channel binding is not the one of the first message");
    }
    if attributes.next() != answer.split(',').next() {
        return Err("the nonce is not the one of this exchange");
    }
    let proof: Key = STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(MALFORMED)?;
    let verifier = users.verifier_or_decoy(user);
    let said = [bare.as_bytes(), b",", answer.as_bytes(), b",", unproven.as_bytes()];
    let signature = keyed_hash(&verifier.stored_key, &said);
    let mut client_key = proof;
    client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
    let stored_key: Key = Sha256::digest(client_key).into();
    if !bool::from(stored_key.ct_eq(&verifier.stored_key)) {
        return Ok(super::users::refused(user));
    }
    let data = format!("v={}", STANDARD.encode(keyed_hash(&verifier.server_key, &said)));
    Ok(Verdict::Proven { user: user.to_owned(), data: data.into_bytes() })
}

/// A saslname: "=2C" is a comma, "=3D" an equals sign, any other "=" is wrong.
fn decoded_name(name: &str) -> Option<String> {
    let mut pieces = name.split('=');
    let mut decoded = pieces.next()?.to_owned();
    for piece in pieces {
        let (sign, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        decoded.push(sign);
        decoded.push_str(rest);
    }
    (!decoded.is_empty()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn users() -> Users {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("as the RFC has it");
        let verifier = super::super::Verifier::new(b"pencil", &salt, 4096);
        let mut users = Users::default();
        users.add("user", verifier).expect("a name");
        users
    }

    fn begin(message: &str) -> Verdict {
        step(&users(), None, message.as_bytes(), SERVER_NONCE)
    }

    /// The state after the first step of the example.
    fn state() -> Vec<u8> {
        match begin(CLIENT_FIRST) {
            Verdict::GoesOn { state, data } => {
                assert_eq!(String::from_utf8_lossy(&data), SERVER_FIRST);
                state
            }
            other => panic!("{other:?}"),
        }
    }

    fn end(message: &str) -> Verdict {
        step(&users(), Some(&state()), message.as_bytes(), "another nonce")
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let proven = Verdict::Proven { user: "user".to_owned(), data: SERVER_FINAL.into() };
        assert_eq!(end(CLIENT_FINAL), proven);
    }

    #[test]
    fn first_messages_that_are_wrong() {
        let wrong = [
            ("", "§7"),
            ("n,,", "§7"),
            ("x,,n=user,r=abc", "§7"),
            ("n,,n=user", "§7"),
            ("n,,n=,r=abc", "§7"),
            ("n,,n=us=er,r=abc", "§7"),
            ("n,,n=user,r=", "§7"),
            ("n,,n=user,r=a b", "§7"),
            ("n,,r=abc,n=user", "§7"),
            ("p=tls-unique,,n=user,r=abc", "channel binding"),
            ("n,,m=more,n=user,r=abc", "extension"),
            ("n,a=admin,n=user,r=abc", "another user"),
            ("n,,n=us\0er,r=abc", "not text"),
            ("n,,n=us\u{7}er,r=abc", "RFC 4013"),
        ];
        for (message, words) in wrong {
            match begin(message) {
                Verdict::Refused { why } => assert!(why.contains(words), "{message}: {why}"),
                other => panic!("{message}: {other:?}"),
            }
        }
        assert!(matches!(step(&users(), None, b"\xff", "n"), Verdict::Refused { .. }));
        for right in ["y,,n=user,r=abc", "n,a=user,n=user,r=abc", "n,,n=user,r=abc,z=more"] {
            assert!(matches!(begin(right), Verdict::GoesOn { .. }), "{right}");
        }
    }

    #[test]
    fn last_messages_that_are_wrong() {
        let wrong = [
            CLIENT_FINAL.replace("dHzb", "dHza"),
            CLIENT_FINAL.replace(",p=", ",q="),
            CLIENT_FINAL.replace("AndVQ=", "And"),
            CLIENT_FINAL.replace("c=biws", "c=eSws"),
            CLIENT_FINAL.replace("k0,p", "k1,p"),
            CLIENT_FINAL.replace("biws,r", "biws,x=1,r"),
            String::new(),
        ];
        for message in wrong {
            assert!(matches!(end(&message), Verdict::Refused { .. }), "{message}");
        }
    }

    #[test]
    fn who_is_not_known_learns_nothing_from_the_first_step() {
        let Verdict::GoesOn { state, data } = begin("n,,n=nobody,r=abc") else { panic!("it goes on") };
        let Verdict::GoesOn { data: again, .. } = begin("n,,n=nobody,r=abc") else { panic!("it goes on") };
        assert_eq!(data, again, "the salt of one who is not there changes as little as that of one who is");
        let last = format!("c=biws,r=abc{SERVER_NONCE},p={}", STANDARD.encode([1; 32]));
        let refused = step(&users(), Some(&state), last.as_bytes(), "n");
        let Verdict::Refused { why } = refused else { panic!("{refused:?}") };
        assert!(why.contains("\"nobody\""), "{why}");
    }

    #[test]
    fn names_with_commas_and_equals_signs() {
        assert_eq!(decoded_name("a=2Cb=3Dc").as_deref(), Some("a,b=c"));
        for wrong in ["a=", "a=2", "a=2c", "=", ""] {
            assert_eq!(decoded_name(wrong), None, "{wrong}");
        }
    }
}
