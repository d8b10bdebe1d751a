//! The data directory: the ledger's file, the admin token, the server's secret, the name of this site. Nobody else on the host may
//! read them.

use crate::errors::Failure;
use rand::Rng;
use secrecy::SecretString;
use std::fs::{DirBuilder, OpenOptions};
#[cfg(feature = "aws")]
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const ADMIN_TOKEN: &str = "admin-token";
const SERVER_SECRET: &str = "server-secret";
const SITE: &str = "site";
#[cfg(feature = "aws")]
const LOCK: &str = "serve.lock";
const ADMIN_TOKEN_VARIABLE: &str = "MOTORPOOL_ADMIN_TOKEN";
/// A shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;

#[derive(Debug)]
pub(super) struct DataDir(PathBuf);

impl DataDir {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let attempt = DirBuilder::new().recursive(true).mode(0o700).create(path);
        attempt.map_err(|error| cannot("make the data directory", path, &error))?;
        let path = std::path::absolute(path).map_err(|error| cannot("find", path, &error))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// From the environment, or from the file, which is made at the first start.
    pub(super) fn admin_token(&self) -> Result<SecretString, Failure> {
        let token = match std::env::var(ADMIN_TOKEN_VARIABLE) {
            Ok(token) => token,
            Err(_) => {
                let fresh = || format!("mp_admin_{}", hex(&random::<24>())).into_bytes();
                let bytes = self.private_file(ADMIN_TOKEN, fresh)?;
                String::from_utf8_lossy(&bytes).trim().to_owned()
            }
        };
        if token.len() < SHORTEST_TOKEN {
            return Err(Failure::failed(
                format!("the admin token is shorter than {SHORTEST_TOKEN} characters"),
                format!(
                    "set ${ADMIN_TOKEN_VARIABLE} to a longer one, or remove the file {ADMIN_TOKEN} for a new one"
                ),
            ));
        }
        Ok(SecretString::from(token))
    }

    pub(super) fn server_secret(&self) -> Result<Vec<u8>, Failure> {
        self.private_file(SERVER_SECRET, || hex(&random::<32>()).into_bytes())
    }

    /// Tells the local machines of this directory from those of others on the same ledger.
    pub(super) fn site(&self) -> Result<String, Failure> {
        let bytes = self.private_file(SITE, || hex(&random::<6>()).into_bytes())?;
        let site = String::from_utf8_lossy(&bytes).trim().to_owned();
        if site.is_empty() || !site.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Failure::failed(
                format!("the file {SITE} in {} does not name a site", self.0.display()),
                "put back its letters and digits: the machines that were launched here are known by them",
            ));
        }
        Ok(site)
    }

    /// The lock of the directory, held by one serve at a time, as long as the file is open. Nothing if another serve has it.
    #[cfg(feature = "aws")]
    pub(super) fn lock(&self) -> Result<Option<File>, Failure> {
        let path = self.0.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| cannot("make", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot("lock", &path, &error)),
        }
    }

    /// The file's content, made if it is missing. One that others can read is refused: it may be known already.
    fn private_file(&self, name: &str, fresh: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, Failure> {
        let path = self.0.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let content = fresh();
                let written = file.write_all(&content).and_then(|()| file.sync_all());
                written.map_err(|error| cannot("write", &path, &error))?;
                Ok(content)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mode = std::fs::metadata(&path).map_err(|error| cannot("look at", &path, &error))?;
                if mode.permissions().mode() & 0o077 != 0 {
                    return Err(Failure::failed(
                        format!("others on this host can read {}", path.display()),
                        "make it private (chmod 600), or remove it for a new one",
                    ));
                }
                std::fs::read(&path).map_err(|error| cannot("read", &path, &error))
            }
            Err(error) => Err(cannot("make", &path, &error)),
        }
    }
}

/// Whoever can write the pools file has the commands of every runner. One that can't be looked at can't be read either.
pub(super) fn must_be_closed_to_writers(pools: &Path) -> Result<(), Failure> {
    let open = std::fs::metadata(pools).is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    if open {
        return Err(Failure::failed(
            format!("everybody on this host can write {}", pools.display()),
            "check what it says, and close it (chmod o-w)",
        ));
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot {what} {}: {error}", path.display()),
        "check the path, its permissions and the space on its disk",
    )
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
