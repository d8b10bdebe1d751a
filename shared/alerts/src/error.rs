//! Why nobody can be told with these settings. It never shows the address, which may be a secret.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("the address {0}")]
    Address(&'static str),
    #[error("the secret must have at least {shortest} characters")]
    Secret { shortest: usize },
    #[error("HTTPS can't be set up: {why}")]
    Https { why: String },
}
