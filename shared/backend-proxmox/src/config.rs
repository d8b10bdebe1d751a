//! A VM's configuration, changed only where nobody else has changed it since it was read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Problem};
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::transport::Call;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Stands for the whole configuration: another one has another.
    pub digest: String,
    pub values: BTreeMap<String, String>,
}

/// What is to be set. Values are as Proxmox VE writes them; keys for SSH are given as they are, and encoded here as it asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigChange {
    pub set: Vec<(&'static str, String)>,
    pub ssh_keys: Option<String>,
}

impl Proxmox {
    /// Needs VM.Audit.
    pub async fn config(&self, vm: &Vm) -> Result<Config, Error> {
        let attempted = format!("read the configuration of {vm}");
        let mut all: BTreeMap<String, Value> =
            self.read(Call::get(vm.path("config"), attempted.clone())).await?;
        let Some(Value::String(digest)) = all.remove("digest") else {
            let why = "there is no digest in it".to_owned();
            return Err(Error::new(&attempted, Problem::NotUnderstood { why }));
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string()
            }
        };
        Ok(Config { digest, values: all.into_iter().map(|(name, value)| (name, text(value))).collect() })
    }

    /// Refused as [`Problem::ConfigChanged`] where the digest is no longer that of the configuration. No task: it is done when it is answered.
    /// Needs a privilege of VM.Config for each kind of value.
    pub async fn set_config(&self, vm: &Vm, digest: &str, change: &ConfigChange) -> Result<(), Error> {
        let ConfigChange { set, ssh_keys } = change;
        let mut call =
            Call::put(vm.path("config"), format!("change the configuration of {vm}")).with("digest", digest);
        for (name, value) in set {
            call = call.with(name, value.clone());
        }
        if let Some(keys) = ssh_keys {
            call = call.with("sshkeys", percent_encoded(keys.trim()));
        }
        let _null: Value = self.read(call).await?;
        Ok(())
    }
}

/// Its schema wants the keys encoded once more than the form does, with `%20` for a space.
fn percent_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_for_ssh_are_encoded_as_the_schema_wants() {
        assert_eq!(percent_encoded("ssh-ed25519 AAA+/= me@host"), "ssh-ed25519%20AAA%2B%2F%3D%20me%40host");
    }
}
