//! The sender over real HTTP on loopback: what a receiver gets, what its answers mean, and where nobody is ever told.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod receiver;
mod refused;
mod sent;

use motorpool_alerts::{AlertConfig, Format};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::Timestamp;
use motorpool_domain::alert::{AlertMessage, Phase};
use secrecy::SecretString;

pub(crate) const SECRET: &str = "a secret that nobody else has";

/// It stands still.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_999)
    }
}

pub(crate) fn config(url: &str, allow_private: bool) -> AlertConfig {
    let format = Format::Json { secret: SecretString::from(SECRET) };
    AlertConfig { url: SecretString::from(url), format, allow_private }
}

pub(crate) fn message() -> AlertMessage {
    AlertMessage {
        id: "mass_silence//1700000000000.1/opened".to_owned(),
        incident: "mass_silence",
        subject: None,
        phase: Phase::Opened,
        text: "most heartbeats are missing at once".to_owned(),
        at: Timestamp::from_millis(1_700_000_000_000),
        installation: "ab12cd".to_owned(),
    }
}
