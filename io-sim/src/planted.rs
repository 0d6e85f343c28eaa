//! Planted bugs: `corpus/planted-bugs/*.patch`, each a real mistake of a real broker in a few lines, which the simulator
//! has to catch.
//!
//! A patch is a unified diff against the workspace's root, headed by comment lines:
//!
//! ```text
//! # bug: PUBACK leaves before the message is on the disk
//! # broker: NATS JetStream 2.12.1 (jepsen.io/analyses/nats-2.12.1)
//! # expected: ack-before-disk, loss
//! # scenario: sim-scenarios/durable/puback-survives-a-power-cut.toml
//! --- a/core/src/mqtt/inbound.rs
//! ```
//!
//! `hunt: amqp`, which may be left out, hunts it with clients of AMQP. `expected` lists the checkers that may catch it; another one would catch it for a wrong reason. `scenario`, which may
//! be left out, is hunted through instead of generated ones. A long value goes on in further lines that begin with `#`
//! and two spaces.

use crate::outcome::Checker;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of the workspace that a simulator is built from.
const SOURCES: [&str; 4] = ["core", "io-real", "io-sim", "tests"];
/// The files beside them.
const FILES: [&str; 2] = ["Cargo.toml", "Cargo.lock"];
/// The kinds of files that are sources.
const KINDS: [&str; 5] = ["rs", "toml", "html", "js", "css"];

/// A bug to plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The file's name without its ending.
    pub name: String,
    /// The patch.
    pub patch: PathBuf,
    /// What is wrong, in a line.
    pub bug: String,
    /// Which broker did this, and where that is reported.
    pub broker: String,
    /// The checkers that may catch it.
    pub expected: Vec<Checker>,
    /// The scenario to hunt through, from the workspace's root.
    pub scenario: Option<PathBuf>,
    /// It is hunted with clients of AMQP.
    pub amqp: bool,
}

impl Bug {
    /// Reads the header of a patch.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(patch: &Path) -> Result<Bug, String> {
        let words = |error: String| format!("{}: {error}", patch.display());
        let text = fs::read_to_string(patch).map_err(|error| words(error.to_string()))?;
        let mut fields = header(&text).map_err(words)?;
        let mut take = |name: &str| fields.remove(name);
        let name =
            patch.file_stem().and_then(|stem| stem.to_str()).ok_or_else(|| words("no name".to_owned()))?;
        let missing = |field: &str| words(format!("its header has no line `# {field}: …`"));
        let expected = take("expected").ok_or_else(|| missing("expected"))?;
        let checker = |name: &str| {
            name.trim()
                .parse::<Checker>()
                .map_err(|_| words(format!("there is no checker {:?}", name.trim())))
        };
        let bug = Bug {
            name: name.to_owned(),
            patch: patch.to_owned(),
            bug: take("bug").ok_or_else(|| missing("bug"))?,
            broker: take("broker").ok_or_else(|| missing("broker"))?,
            expected: expected.split(',').map(checker).collect::<Result<_, _>>()?,
            scenario: take("scenario").map(PathBuf::from),
            amqp: match take("hunt").as_deref() {
                None => false,
                Some("amqp") => true,
                Some(other) => return Err(words(format!("hunt: {other:?} is not amqp"))),
            },
        };
        match fields.keys().next() {
            Some(unknown) => {
                Err(words(format!("its header has a line `# {unknown}: …`, which means nothing")))
            }
            None => Ok(bug),
        }
    }

    /// Reads all patches of a directory, by name.
    ///
    /// # Errors
    /// What is wrong with the directory or with one of them, in words.
    pub fn read_all(directory: &Path) -> Result<Vec<Bug>, String> {
        let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
        paths.sort();
        paths.iter().map(|path| Bug::read(path)).collect()
    }
}

/// The comment lines before the diff, by name.
fn header(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines().map_while(|line| line.strip_prefix('#')) {
        match (line.strip_prefix("  "), line.split_once(':')) {
            (Some(more), _) if !last.is_empty() => {
                fields.entry(last.clone()).or_default().extend([" ", more.trim()]);
            }
            (None, Some((name, value))) => {
                last = name.trim().to_owned();
                fields.insert(last.clone(), value.trim().to_owned());
            }
            _ => return Err(format!("a line of its header is neither `# name: value` nor goes on: #{line}")),
        }
    }
    Ok(fields)
}

/// A copy of the workspace's sources, in which bugs are planted one after the other.
pub struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Copies the sources below `workspace` into `folder`. What is there already and the same is left alone, so that it is
    /// not built again.
    ///
    /// # Errors
    /// A file's, in words.
    pub fn new(workspace: &Path, folder: &Path) -> Result<Workshop, String> {
        for name in FILES {
            copy(&workspace.join(name), &folder.join(name))?;
        }
        for name in SOURCES {
            copy_folder(&workspace.join(name), &folder.join(name))?;
        }
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Workshop { folder })
    }

    /// Plants a bug, or takes it out again.
    ///
    /// # Errors
    /// The patch does not apply, in words.
    pub fn apply(&self, bug: &Bug, reverse: bool) -> Result<(), String> {
        let patch = bug.patch.canonicalize().map_err(|error| format!("{}: {error}", bug.patch.display()))?;
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"]).args(reverse.then_some("--reverse")).arg(patch);
        // A repository around the folder would have git leave out what is not in it.
        git.current_dir(&self.folder)
            .env("GIT_CEILING_DIRECTORIES", self.folder.parent().unwrap_or(&self.folder));
        run(git).map(drop).map_err(|error| format!("the patch does not apply: {error}"))
    }

    /// Builds the simulator as it is now; its path.
    ///
    /// # Errors
    /// The compiler's, in words.
    pub fn build(&self) -> Result<PathBuf, String> {
        let target = self.folder.join("target");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--package", "vowmq-sim", "--profile", "hunt", "--target-dir"])
            .arg(&target);
        // A planted bug may leave something unused, or an error unread; that is no reason not to build it.
        cargo.env("RUSTFLAGS", "--cap-lints=allow");
        run(cargo.current_dir(&self.folder)).map_err(|error| format!("it cannot be built: {error}"))?;
        Ok(target.join("hunt").join("vowmq-sim"))
    }
}

/// Runs a command to its end; what it printed.
fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Result<String, String> {
    let output = command.borrow_mut().output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let words = |error: std::io::Error| format!("{}: {error}", from.display());
    for entry in fs::read_dir(from).map_err(words)? {
        let path = entry.map_err(words)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            copy_folder(&path, &to.join(name))?;
        } else if KINDS.iter().any(|kind| path.extension().is_some_and(|found| found == *kind)) {
            copy(&path, &to.join(name))?;
        }
    }
    remove_others(from, to)
}

/// Removes the sources of an earlier copy that are there no more: a module that has moved would be found twice.
fn remove_others(from: &Path, to: &Path) -> Result<(), String> {
    let words = |error: std::io::Error| format!("{}: {error}", to.display());
    let Ok(entries) = fs::read_dir(to) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(words)?.path();
        let is_source = KINDS.iter().any(|kind| path.extension().is_some_and(|found| found == *kind));
        if is_source && path.file_name().is_some_and(|name| !from.join(name).exists()) {
            fs::remove_file(&path).map_err(words)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let words = |error: std::io::Error| format!("{}: {error}", from.display());
    let bytes = fs::read(from).map_err(words)?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(words)?;
    fs::write(to, bytes).map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, a header could be misread and a bug pass for caught by the wrong checker.
    #[test]
    fn a_header_is_read_whole_or_refused() {
        let text = "# bug: one\n#   two\n# broker: B: 1\n# expected: loss, came-back\n\n# not: this\n--- a\n";
        let fields = header(text).expect("it is one");
        let wanted = [("broker", "B: 1"), ("bug", "one two"), ("expected", "loss, came-back")];
        assert_eq!(fields.iter().map(|(name, value)| (&name[..], &value[..])).collect::<Vec<_>>(), wanted);
        assert!(header("# without a colon\n").is_err());
        let directory = tempfile::tempdir().expect("a directory");
        let read = |text: &str| {
            let path = directory.path().join("a-bug.patch");
            fs::write(&path, text).expect("it can be written");
            Bug::read(&path)
        };
        assert_eq!(read(text).expect("it is one").expected, [Checker::Loss, Checker::CameBack]);
        for wrong in
            ["# bug: a\n# broker: b\n", "# bug: a\n# broker: b\n# expected: nothing\n", "# bugs: a\n"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
