//! `vowmq user NAME`: makes the line of a user for the table `[users]` of the configuration.

use super::Failure;
use crate::access::Verifier;
use std::io::{self, BufRead, IsTerminal, Write, stdout};

/// Bytes of a salt.
const SALT: usize = 16;

pub(super) fn user(name: &str, iterations: u32) -> Result<(), Failure> {
    if name.is_empty() || name.contains('\0') {
        return Err(Failure::new("a user's name must not be empty, nor contain a null character"));
    }
    let password = password(name)?;
    if password.is_empty() {
        return Err(Failure::new("an empty password protects nothing; nothing was made"));
    }
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt).map_err(|error| Failure::new(format!("no random salt: {error}")))?;
    let verifier = Verifier::new(password.as_bytes(), &salt, iterations);
    writeln!(stdout(), "{} = \"{verifier}\"", toml::Value::from(name))?;
    Ok(())
}

/// Typed twice, unseen, at a terminal; otherwise the first line of standard input.
fn password(name: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    let first = rpassword::prompt_password(format!("password of {name}: "))?;
    if rpassword::prompt_password("once more: ")? != first {
        return Err(Failure::new("the two are not the same; nothing was made"));
    }
    Ok(first)
}
