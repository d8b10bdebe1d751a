//! Who a function tells of incidents, from its environment.

use super::{SettingsError, Variable};
use motorpool_alerts::{AlertConfig, Format, SetupError, Webhook};
use motorpool_control::ports::alerts::AlertSender;
use motorpool_control::ports::clock::SystemClock;
use secrecy::SecretString;
use std::sync::Arc;

const URL: Variable =
    Variable { name: "MOTORPOOL_ALERTS_URL", looks: "who is told of incidents, beginning with https://" };
const FORMAT: Variable =
    Variable { name: "MOTORPOOL_ALERTS_FORMAT", looks: "slack or json, beside MOTORPOOL_ALERTS_URL" };
const SECRET: Variable = Variable {
    name: "MOTORPOOL_ALERTS_SECRET",
    looks: "what messages of MOTORPOOL_ALERTS_FORMAT=json are signed with, of at least 16 characters; else not set",
};
const ALLOW_PRIVATE: Variable = Variable {
    name: "MOTORPOOL_ALERTS_ALLOW_PRIVATE",
    looks: "true, where the receiver is within your network; else not set",
};

/// Nobody is called.
pub(super) fn read(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Arc<dyn AlertSender>>, SettingsError> {
    let Some(url) = variable(URL.name) else {
        let alone = [&FORMAT, &SECRET, &ALLOW_PRIVATE].into_iter().find(|of| variable(of.name).is_some());
        return alone.map_or(Ok(None), |_| Err(URL.wrong("is not set")));
    };
    let format = match (variable(FORMAT.name).as_deref(), variable(SECRET.name)) {
        (Some("slack"), None) => Format::Slack,
        (Some("json"), Some(secret)) => Format::Json { secret: SecretString::from(secret) },
        (Some("slack"), Some(_)) => return Err(SECRET.wrong("is set beside the format slack")),
        (Some("json"), None) => return Err(SECRET.wrong("is not set")),
        (Some(_), _) => return Err(FORMAT.wrong("is no such format")),
        (None, _) => return Err(FORMAT.wrong("is not set")),
    };
    let allow_private = match variable(ALLOW_PRIVATE.name).as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ALLOW_PRIVATE.wrong("is neither true nor false")),
    };
    let config = AlertConfig { url: SecretString::from(url), format, allow_private };
    let webhook = Webhook::new(config, Arc::new(SystemClock)).map_err(|error| match &error {
        SetupError::Address(_) | SetupError::Https { .. } => URL.wrong(error.to_string()),
        SetupError::Secret { .. } => SECRET.wrong("is too short"),
    })?;
    Ok(Some(Arc::new(webhook)))
}
