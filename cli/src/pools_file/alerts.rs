//! Who is told of incidents: the table `[alerts]`. Nobody is called; an address that must not be told is refused with its line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motorpool_alerts::{AlertConfig, Format, SetupError, Webhook};
use motorpool_control::ports::clock::SystemClock;
use secrecy::SecretString;
use serde::Deserialize;

use super::credentials::secret;
use super::problem::Problems;
use super::strict::{self, Entry};

#[derive(Debug, Clone)]
pub(crate) struct AlertSettings {
    config: AlertConfig,
}

impl AlertSettings {
    pub(crate) fn sender(&self) -> Result<Webhook, SetupError> {
        Webhook::new(self.config.clone(), Arc::new(SystemClock))
    }

    /// The name of the format, for people.
    pub(crate) fn format(&self) -> &'static str {
        match &self.config.format {
            Format::Slack => FormatName::Slack.as_str(),
            Format::Json { .. } => FormatName::Json.as_str(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertsTable {
    url: Option<String>,
    url_file: Option<PathBuf>,
    format: FormatName,
    secret_file: Option<PathBuf>,
    allow_private: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormatName {
    Slack,
    Json,
}

impl FormatName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Json => "json",
        }
    }
}

pub(super) fn read(entry: &Entry<'_, '_>, dir: &Path, problems: &mut Problems<'_>) -> Option<AlertSettings> {
    let AlertsTable { url, url_file, format, secret_file, allow_private } = strict::table(entry, problems)?;
    let named_by = if url.is_some() { "url" } else { "url_file" };
    let url = match (url, url_file) {
        (Some(url), None) => SecretString::from(url),
        (None, Some(file)) => secret(entry, "url_file", dir, &file, problems)?,
        (Some(_), Some(_)) => {
            return wrong(entry, "url_file", "is given beside url; leave one out", problems);
        }
        (None, None) => {
            return wrong(entry, "url", "is missing, and so is url_file: who is told?", problems);
        }
    };
    let format = match (format, secret_file) {
        (FormatName::Slack, None) => Format::Slack,
        (FormatName::Json, Some(file)) => {
            Format::Json { secret: secret(entry, "secret_file", dir, &file, problems)? }
        }
        (FormatName::Slack, Some(_)) => {
            let what = "signs messages of format = \"json\" alone; leave it out";
            return wrong(entry, "secret_file", what, problems);
        }
        (FormatName::Json, None) => {
            let what = "is missing: messages of format = \"json\" are signed with it";
            return wrong(entry, "secret_file", what, problems);
        }
    };
    let config = AlertConfig { url, format, allow_private: allow_private.unwrap_or(false) };
    let settings = AlertSettings { config };
    let Err(error) = settings.sender() else { return Some(settings) };
    let key = match &error {
        SetupError::Address(_) => named_by,
        SetupError::Secret { .. } => "secret_file",
        SetupError::Https { .. } => "format",
    };
    wrong(entry, key, &error.to_string(), problems)
}

fn wrong<T>(entry: &Entry<'_, '_>, key: &str, what: &str, problems: &mut Problems<'_>) -> Option<T> {
    problems.add(entry.line_of(&[key]), &entry.key.then(key), what);
    None
}
