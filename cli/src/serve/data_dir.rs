//! The data directory: the ledger's file, the admin token, the server's secret, the name of this site. Nobody else on the host may
//! read them, or put others in their place.

use crate::errors::Failure;
use crate::private_file;
use rand::Rng;
use secrecy::SecretString;
use std::fs::DirBuilder;
#[cfg(feature = "aws")]
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
#[cfg(feature = "aws")]
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const ADMIN_TOKEN: &str = "admin-token";
const SERVER_SECRET: &str = "server-secret";
const SITE: &str = "site";
#[cfg(feature = "aws")]
const LOCK: &str = "serve.lock";
const ADMIN_TOKEN_VARIABLE: &str = "MOTORPOOL_ADMIN_TOKEN";
/// A shorter one could be guessed.
const SHORTEST_TOKEN: usize = 16;
/// Of the server's secret, from which every launch secret follows.
pub(super) const SHORTEST_SECRET: usize = 32;

#[derive(Debug)]
pub(super) struct DataDir(PathBuf);

impl DataDir {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let attempt = DirBuilder::new().recursive(true).mode(0o700).create(path);
        attempt.map_err(|error| cannot("make the data directory", path, &error))?;
        let path = std::path::absolute(path).map_err(|error| cannot("find", path, &error))?;
        let found = std::fs::metadata(&path).map_err(|error| cannot("look at", &path, &error))?;
        let own_uid = rustix::process::geteuid().as_raw();
        must_be_own(&path, Standing { owner_uid: found.uid(), own_uid, mode: found.mode() })?;
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
        let secret = self.private_file(SERVER_SECRET, || hex(&random::<32>()).into_bytes())?;
        if secret.trim_ascii().len() < SHORTEST_SECRET {
            let path = self.0.join(SERVER_SECRET);
            let path = path.display();
            return Err(Failure::failed(
                format!("the server's secret in {path} is shorter than {SHORTEST_SECRET} bytes"),
                format!(
                    "put back what the file held; if that is lost, `rm {path}`, and the next start makes a new one, which knows neither \
                     machines that have not joined yet nor those on EC2"
                ),
            ));
        }
        Ok(secret)
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
        private_file::must_be_closed(&path)?;
        match std::fs::read(&path) {
            Ok(content) => Ok(content),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let content = fresh();
                private_file::write(&path, &content).map_err(|error| cannot("write", &path, &error))?;
                Ok(content)
            }
            Err(error) => Err(cannot("read", &path, &error)),
        }
    }
}

/// Whose a directory is, who looks at it, and who may use it.
#[derive(Debug, Clone, Copy)]
struct Standing {
    owner_uid: u32,
    own_uid: u32,
    mode: u32,
}

/// The owner of a directory, and whoever can write it, puts files of his own in the place of its secrets.
fn must_be_own(path: &Path, standing: Standing) -> Result<(), Failure> {
    let Standing { owner_uid, own_uid, mode } = standing;
    let path = path.display();
    if owner_uid != own_uid {
        return Err(Failure::failed(
            format!(
                "the data directory {path} belongs to another user: to uid {owner_uid}, and serve runs as {own_uid}"
            ),
            format!("start serve as that user, or give it the directory: `chown -R {own_uid} {path}`"),
        ));
    }
    if mode & 0o022 != 0 {
        return Err(Failure::failed(
            format!("others on this host can write the data directory {path}"),
            format!("look at what is in it, and close it: `chmod 700 {path}`"),
        ));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};

    #[test]
    fn refuse_20_a_data_directory_is_ones_own_and_closed_to_writers() {
        for (owner_uid, own_uid, mode, mends) in [
            (1000, 1000, 0o700, None),
            (1000, 1000, 0o755, None),
            (0, 0, 0o700, None),
            (1000, 0, 0o700, Some("`chown -R 0 /d`")),
            (0, 1000, 0o755, Some("`chown -R 1000 /d`")),
            (1000, 1000, 0o770, Some("`chmod 700 /d`")),
            (1000, 1000, 0o1777, Some("`chmod 700 /d`")),
        ] {
            let judged = must_be_own(Path::new("/d"), Standing { owner_uid, own_uid, mode });
            let hint = judged.err().map(|failure| failure.hint);
            match mends {
                None => assert_eq!(hint, None, "{owner_uid} {own_uid} {mode:o}"),
                Some(command) => assert!(hint.unwrap().contains(command), "{owner_uid} {own_uid} {mode:o}"),
            }
        }
    }

    #[test]
    fn refuse_20_secrets_are_made_once_closed_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(&dir.path().join("data")).unwrap();
        let made = data.server_secret().unwrap();
        assert_eq!(data.server_secret().unwrap(), made);
        data.site().unwrap();
        let files: Vec<_> = std::fs::read_dir(data.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 2, "no draft is left: {files:?}");
        assert!(files.iter().all(|file| file.metadata().unwrap().mode() & 0o777 == 0o600), "{files:?}");
    }

    #[test]
    fn refuse_20_an_empty_or_short_server_secret_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        let path = data.path().join(SERVER_SECRET);
        for short in ["", "\n", "hush", &format!("hush{}\n", " ".repeat(40)), &"h".repeat(31)] {
            private_file::write(&path, short.as_bytes()).unwrap();
            let failure = data.server_secret().unwrap_err();
            assert!(failure.message.contains("shorter than 32 bytes"), "{failure:?}");
            assert!(failure.hint.contains(&format!("`rm {}`", path.display())), "{failure:?}");
            assert!(!failure.message.contains("hush"), "{failure:?}");
        }
        private_file::write(&path, "h".repeat(32).as_bytes()).unwrap();
        assert_eq!(data.server_secret().unwrap(), "h".repeat(32).as_bytes());
        set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(data.server_secret().unwrap_err().hint.contains("chmod 600"));
    }
}
