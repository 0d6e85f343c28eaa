//! What is wrong with a configuration, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is wrong with a configuration. Displays the place, for a file with the line itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}{}", .origin.excerpt())]
pub struct ConfigurationError {
    /// Where it was written.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A place in a file.
    Line {
        /// The file.
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Characters, counted from 1.
        column: usize,
        /// The whole line; empty where it is not to be shown.
        text: String,
    },
    /// A file as a whole.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl Origin {
    /// The place of a span of bytes in a file's text.
    pub(super) fn in_text(file: &Path, source: &str, span: &Range<usize>) -> Origin {
        let start =
            (0..=span.start.min(source.len())).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0);
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::Line {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            text: source[line_start..].lines().next().unwrap_or("").to_owned(),
        }
    }

    /// The same place, without what is written there.
    pub(super) fn without_text(&self) -> Origin {
        match self.clone() {
            Origin::Line { file, line, column, .. } => {
                Origin::Line { file, line, column, text: String::new() }
            }
            other => other,
        }
    }

    fn excerpt(&self) -> String {
        match self {
            Origin::Line { text, .. } if text.is_empty() => String::new(),
            Origin::Line { line, column, text, .. } => {
                let number = line.to_string();
                let margin = " ".repeat(number.len());
                let indent = " ".repeat(column - 1);
                format!("\n{margin} |\n{number} | {text}\n{margin} | {indent}^")
            }
            Origin::Default | Origin::File(_) | Origin::Variable(_) | Origin::Flag(_) => String::new(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("configuration"),
            Origin::Line { file, line, column, .. } => {
                write!(f, "{}: line {line}, column {column}", file.display())
            }
            Origin::File(file) => write!(f, "{}", file.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
            Origin::Flag(flag) => write!(f, "{flag}"),
        }
    }
}
