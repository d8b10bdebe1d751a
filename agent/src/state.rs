//! The agent's state on disk: its token and its memory, for its user's eyes only. It decides nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use motorpool_domain::{PoolName, RunnerId};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::machine::Memory;
use crate::private::exposed;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) runner: RunnerId,
    pub(crate) machine_id: String,
    #[serde(serialize_with = "expose")]
    pub(crate) token: SecretString,
    /// What takes its place, from when it is made until the control plane is known to have taken it.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose_next")]
    pub(crate) next_token: Option<SecretString>,
    /// Of the bootstrap secret that the token was made for: one secret is redeemed with one token only.
    pub(crate) secret_sha256: String,
    /// The control plane has taken the token.
    pub(crate) redeemed: bool,
    /// None until the first bootstrap.
    pub(crate) joined: Option<Joined>,
}

/// What the agent knows as a member of its pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) pool: PoolName,
    /// The boot that the memory's instants belong to.
    pub(crate) boot_id: String,
    pub(crate) memory: Memory,
}

fn expose<S: Serializer>(token: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token.expose_secret())
}

fn expose_next<S: Serializer>(token: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    match token {
        Some(token) => expose(token, serializer),
        None => serializer.serialize_none(),
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
}

impl Store {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn load(&self) -> Result<Option<State>, StateError> {
        let path = &self.path;
        let failed = |source| StateError::Read { path: path.clone(), source };
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if !metadata.is_file() || exposed(&metadata).is_some() {
            return Err(StateError::Exposed { path: path.clone(), mode: metadata.mode() & 0o777 });
        }
        let text = fs::read(path).map_err(failed)?;
        // Not the error itself: it may quote the token.
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|error| StateError::Parse { path: path.clone(), line: error.line() })
    }

    /// Whole or not at all, and on the disk when this returns.
    pub(crate) fn save(&self, state: &State) -> Result<(), StateError> {
        self.write(state).map_err(|source| StateError::Write { path: self.path.clone(), source })
    }

    fn write(&self, state: &State) -> io::Result<()> {
        let new = self.path.with_extension("json.new");
        match fs::remove_file(&new) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(state)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        match self.path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Error)]
pub(crate) enum StateError {
    #[error("the agent's state {path} could not be read", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "the agent's state {path} is open to other users (mode {mode:03o}), so its token may be known to them; \
         ask for a new bootstrap secret, and delete the file",
        path = path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the agent's state {path} is not understood (line {line}); if it cannot be mended, ask for a new bootstrap \
         secret, and delete the file",
        path = path.display()
    )]
    Parse { path: PathBuf, line: usize },
    #[error("the agent's state {path} could not be written", path = path.display())]
    Write { path: PathBuf, source: io::Error },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn state() -> State {
        State {
            runner: RunnerId::parse("r-1").unwrap(),
            machine_id: "m".to_owned(),
            token: "mp_runner_canary".into(),
            next_token: Some("mp_runner_canary_2".into()),
            secret_sha256: String::new(),
            redeemed: false,
            joined: None,
        }
    }

    #[test]
    fn refuse_20_the_state_is_private_and_is_refused_if_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let store = Store::at(path.clone());
        assert!(store.load().unwrap().is_none());
        store.save(&state()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(store.load().unwrap().unwrap().token.expose_secret(), "mp_runner_canary");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(store.load(), Err(StateError::Exposed { mode: 0o640, .. })));
    }

    #[test]
    fn refuse_17_neither_debug_nor_errors_show_the_token() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("state.json"));
        assert!(!format!("{:?}", state()).contains("canary"));
        let text = serde_json::to_string(&state()).unwrap().replace("\"m\"", "7");
        fs::write(dir.path().join("state.json"), text).unwrap();
        fs::set_permissions(dir.path().join("state.json"), fs::Permissions::from_mode(0o600)).unwrap();
        let error = store.load().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }

    #[test]
    fn a_half_written_state_of_a_crash_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("state.json"));
        fs::write(dir.path().join("state.json.new"), "{").unwrap();
        store.save(&state()).unwrap();
        assert!(store.load().unwrap().is_some());
    }
}
