//! What a verb has to say, for people or for programs, and how it is written. Verbs themselves print nothing but progress.

pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod words;

use std::io::{ErrorKind, Write};

use motorpool_domain::text::steers;
use serde_json::Value;

use crate::client::ApiResponse;
use crate::errors::Failure;

/// The outcome of a verb. One that came to no good end may still have something to show.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) json: Value,
    pub(crate) words: String,
    pub(crate) failure: Option<Failure>,
}

impl Report {
    pub(crate) fn new(json: Value, words: impl Into<String>) -> Self {
        Self { json, words: words.into(), failure: None }
    }

    pub(crate) fn of<T>(answer: ApiResponse<T>, in_words: impl FnOnce(&T) -> String) -> Self {
        let ApiResponse { value, json } = answer;
        Self::new(json, in_words(&value))
    }

    pub(crate) fn failing(self, failure: Option<Failure>) -> Self {
        Self { failure, ..self }
    }

    /// Writes it to stdout. That nobody reads to the end is not a failure.
    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        let text = if json {
            let json = serde_json::to_string_pretty(&self.json);
            escaped(&json.map_err(|error| Failure::failed(error.to_string(), ""))?)
        } else {
            self.words.trim_end().to_owned()
        };
        if text.is_empty() { Ok(()) } else { write(&format!("{text}\n")) }
    }
}

/// JSON that steers no terminal and means the same: but for the end of a line, a character that does can only stand in a string.
fn escaped(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut text, character| {
        match character {
            '\n' => text.push('\n'),
            steering if steers(steering) => text.push_str(&format!("\\u{:04x}", u32::from(steering))),
            plain => text.push(plain),
        }
        text
    })
}

pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {error}"), ""))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
