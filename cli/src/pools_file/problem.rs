//! What is wrong with a pools file, line by line, in words for whoever wrote it.

use std::fmt;
use std::path::PathBuf;

use super::strict::Key;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolsFileError {
    #[error("cannot read the pools file {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// One line for each problem, in the order of the file.
    #[error("{}", lines(.0))]
    Wrong(Vec<Problem>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// Such as `pools.small.max`; empty where the text is no TOML.
    pub(crate) key: String,
    pub(crate) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, what } = self;
        if key.is_empty() {
            write!(f, "{file}:{line}: {what}")
        } else {
            write!(f, "{file}:{line}: {key}: {what}")
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// The problems of one file, as they are found.
pub(super) struct Problems<'a> {
    text: &'a str,
    file: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(super) fn of(text: &'a str, file: &'a str) -> Self {
        Self { text, file, found: Vec::new() }
    }

    /// `at` is a place in the text, in bytes.
    pub(super) fn add(&mut self, at: usize, key: &Key, what: &str) {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        self.found.push(Problem {
            file: self.file.to_owned(),
            line,
            key: key.to_string(),
            what: what.to_owned(),
        });
    }

    pub(super) fn none_or_all(&mut self) -> Result<(), PoolsFileError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort();
        Err(PoolsFileError::Wrong(std::mem::take(&mut self.found)))
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }
}

/// The parser speaks of Rust's types; who writes a pools file need not know them.
pub(super) fn in_words(error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    for (rust, plain) in [
        ("expected u32", "expected a whole number, 0 or above"),
        ("expected u64", "expected a whole number, 0 or above"),
        ("expected a sequence", "expected a list, [\"…\"]"),
    ] {
        if let Some(start) = message.strip_suffix(rust) {
            return format!("{start}{plain}");
        }
    }
    message
}
