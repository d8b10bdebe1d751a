//! What an operator says of a machine of his own after it was registered, and how its runner proves who it is.

use crate::schema;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// How a registered machine's runner proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// Its agent redeems a secret, and makes tokens of its own.
    #[default]
    Bootstrap,
    /// The operator is handed the runner's token, which no agent changes: for clients that speak HTTP or WebSocket and nothing else.
    Token,
}

impl CredentialKind {
    pub const ALL: [Self; 2] = [Self::Bootstrap, Self::Token];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Token => "token",
        }
    }
}

/// `PATCH /runners/{runner}`: what is left out stays as it is, and null removes it, so that its pool's holds again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateRunnerRequest {
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub cleanup_cmd: Option<Option<String>>,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub reset_cmd: Option<Option<String>>,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub readiness_cmd: Option<Option<String>>,
    /// What its CI system knows it by, if it was registered there by hand. Not while a job runs on it.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub ci_runner: Option<Option<String>>,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::InstanceType>)]
    pub instance_type: Option<Option<String>>,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Cpus>)]
    pub cpu: Option<Option<u32>>,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Megabytes>)]
    pub memory_mb: Option<Option<u64>>,
}

/// A value or null, where either was said: null is not the same as nothing.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
