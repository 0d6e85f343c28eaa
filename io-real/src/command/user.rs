//! `vowmq user NAME`: makes the line of a user for the table `[users]` of the configuration.

use super::Failure;
use crate::access::{NAME_MAX, Verifier, checked_name};
use crate::configuration::user_line;
use std::io::{self, BufRead, IsTerminal, Read, Write, stdout};

/// Bytes of a salt.
const SALT: usize = 16;

/// Bytes of the longest password: what MQTT's CONNECT can hold, as of names.
const PASSWORD_MAX: usize = NAME_MAX;

pub(super) fn user(name: &str, iterations: u32) -> Result<(), Failure> {
    let name = checked_name(name).map_err(Failure::new)?;
    let password = password(&name)?;
    if password.is_empty() {
        return Err(Failure::new("an empty password protects nothing; nothing was made"));
    }
    if password.len() > PASSWORD_MAX {
        return Err(Failure::new(format!("no client can send a password of more than {PASSWORD_MAX} bytes")));
    }
    if password.chars().any(char::is_control) {
        return Err(Failure::new("the password has control characters, which clients cannot type or send"));
    }
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).map_err(|error| Failure::new(format!("no random salt: {error}")))?;
    let verifier = Verifier::new(password.as_bytes(), &salt, iterations);
    write!(stdout(), "{}", user_line(&name, &verifier))?;
    Ok(())
}

/// Typed twice, unseen, at a terminal; otherwise the first line of standard input.
fn password(name: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        let mut line = Vec::new();
        io::stdin().lock().take(PASSWORD_MAX as u64 + 3).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(Failure::new("no password came on standard input; nothing was made"));
        }
        let line = String::from_utf8(line).map_err(|_| {
            Failure::new("the password on standard input is not UTF-8 text; nothing was made")
        })?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    let typed = |prompt: String| {
        rpassword::prompt_password(prompt)
            .map_err(|error| Failure::new(format!("no password was typed ({error}); nothing was made")))
    };
    let first = typed(format!("password of {name}: "))?;
    if typed("once more: ".to_owned())? != first {
        return Err(Failure::new("the two are not the same; nothing was made"));
    }
    Ok(first)
}
