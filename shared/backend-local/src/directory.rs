//! A runner's directory on disk: what is in it, who may read it, and how it comes and goes. It knows no processes.
//!
//! `machine.json` whose it is (written first, removed last), `bootstrap-secret` for the agent, `agent.log` what the agent
//! prints, `agent.lock` held by the agent while it lives; the rest is the agent's own: `state.json`, `work/`.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use motorpool_domain::{LaunchId, PoolName, RunnerId};
use serde::{Deserialize, Serialize};

use crate::error::{Failure, file};
use crate::lock::AgentLock;

const TAG: &str = "machine.json";
const JOBS_DIR_PARENT: &str = "/var/tmp";
const JOBS_DIR_NAME: &[u8] = b"motorpool-";
const OWN_DIRECTORY: u32 = 0o700;
const OWN_FILE: u32 = 0o600;

/// Whose a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tag {
    pub(crate) runner: RunnerId,
    pub(crate) pool: PoolName,
    pub(crate) launch: LaunchId,
    /// The user of its jobs, where that is not this process's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job_uid: Option<u32>,
}

/// The directory of all runners' directories.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
}

impl Root {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The runner's directory, and whether it was made just now.
    pub(crate) fn make(&self, runner: &RunnerId) -> Result<(RunnerDir, bool), Failure> {
        let mut builder = DirBuilder::new();
        builder.mode(OWN_DIRECTORY);
        builder.recursive(true).create(&self.path).map_err(file(&self.path, "made"))?;
        let path = self.full_path()?.join(runner.as_str());
        let new = match builder.recursive(false).create(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(file(&path, "made")(error)),
        };
        fs::set_permissions(&path, Permissions::from_mode(OWN_DIRECTORY))
            .map_err(file(&path, "closed to others"))?;
        Ok((RunnerDir { path }, new))
    }

    /// The runner's directory, if there is one.
    pub(crate) fn find(&self, runner: &RunnerId) -> Result<Option<RunnerDir>, Failure> {
        if !self.path.try_exists().map_err(file(&self.path, "looked for"))? {
            return Ok(None);
        }
        let path = self.full_path()?.join(runner.as_str());
        let exists = path.try_exists().map_err(file(&path, "looked for"))?;
        Ok(exists.then_some(RunnerDir { path }))
    }

    /// The tag of every directory that has one, by runner. An unreadable one is left out, and logged.
    pub(crate) fn tags(&self) -> Result<Vec<Tag>, Failure> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(&self.path, "listed")(error)),
        };
        let mut tags = Vec::new();
        for entry in entries {
            let entry = entry.map_err(file(&self.path, "listed"))?;
            let Some(runner) = entry.file_name().to_str().and_then(|name| RunnerId::parse(name).ok()) else {
                continue;
            };
            match read_tag(&entry.path()) {
                Ok(Some(tag)) if tag.runner == runner => tags.push(tag),
                Ok(Some(tag)) => {
                    tracing::warn!(%runner, other = %tag.runner, "a runner's directory is tagged as another's");
                }
                Ok(None) => {}
                Err(failure) => {
                    tracing::warn!(%runner, error = %failure.in_full(), "a runner's directory can't be told");
                }
            }
        }
        tags.sort_by(|a, b| a.runner.cmp(&b.runner));
        Ok(tags)
    }

    /// Absolute and without links, so that it is the same text for everybody who names it.
    fn full_path(&self) -> Result<PathBuf, Failure> {
        self.path.canonicalize().map_err(file(&self.path, "resolved"))
    }
}

fn read_tag(directory: &Path) -> Result<Option<Tag>, Failure> {
    let path = directory.join(TAG);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(file(&path, "read")(error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| file(&path, "understood")(error.into()))
}

/// The directory of one runner. It need not exist any longer.
#[derive(Debug, Clone)]
pub(crate) struct RunnerDir {
    path: PathBuf,
}

impl RunnerDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn tag(&self) -> Result<Option<Tag>, Failure> {
        read_tag(&self.path)
    }

    pub(crate) fn secret_file(&self) -> PathBuf {
        self.path.join("bootstrap-secret")
    }

    pub(crate) fn lock(&self) -> AgentLock {
        AgentLock::at(self.path.join("agent.lock"))
    }

    /// All that an agent needs to find.
    pub(crate) fn write(&self, tag: &Tag, secret: &str) -> Result<(), Failure> {
        let path = self.path.join(TAG);
        let json = serde_json::to_vec(tag).map_err(|error| file(&path, "encoded")(error.into()))?;
        write_own(&path, &json)?;
        write_own(&self.secret_file(), secret.as_bytes())
    }

    /// The agent's log twice, for its two outputs. What an earlier agent wrote is kept.
    pub(crate) fn open_log(&self) -> Result<(File, File), Failure> {
        let path = self.path.join("agent.log");
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(OWN_FILE)
            .open(&path)
            .map_err(file(&path, "opened"))?;
        let second = log.try_clone().map_err(file(&path, "opened twice"))?;
        Ok((log, second))
    }

    /// Removes all of it, the tag last: what is cut short here is found again by an inventory.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(file(&self.path, "listed")(error)),
        };
        self.remove_jobs_dir()?;
        for entry in entries {
            let entry = entry.map_err(file(&self.path, "listed"))?;
            if entry.file_name() != TAG {
                remove_tree(&entry.path())?;
            }
        }
        remove_tree(&self.path)
    }
}

impl RunnerDir {
    /// Where the host hides nothing from jobs, their directories are elsewhere: the agent says where.
    fn remove_jobs_dir(&self) -> Result<(), Failure> {
        let named = match fs::read_to_string(self.path.join("jobs-dir")) {
            Ok(named) => PathBuf::from(named),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(file(&self.path, "read")(error)),
        };
        let ours = named.parent() == Some(Path::new(JOBS_DIR_PARENT))
            && named.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(JOBS_DIR_NAME));
        if ours { remove_tree(&named) } else { Ok(()) }
    }
}

/// The whole file or the old one, readable by nobody else at any moment.
fn write_own(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut draft = path.to_owned();
    draft.as_mut_os_string().push(".new");
    // One that was left by a crash.
    if let Err(error) = fs::remove_file(&draft)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(file(&draft, "removed")(error));
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWN_FILE)
        .open(&draft)
        .and_then(|mut draft| draft.write_all(content))
        .map_err(file(&draft, "written"))?;
    fs::rename(&draft, path).map_err(file(path, "put in place"))
}

fn remove_tree(path: &Path) -> Result<(), Failure> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => remove_directory(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(file(path, "removed")(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Work makes directories that even their owner may not change; package caches are such.
fn remove_directory(path: &Path) -> io::Result<()> {
    rm(path).or_else(|_| {
        open_up(path);
        rm(path)
    })
}

/// A program of its own, which holds one directory open at a time: a job may have dug deeper than this process may have files open, or stack.
fn rm(path: &Path) -> io::Result<()> {
    let ended = Command::new("rm").args(["-rf", "--"]).arg(path).stdin(Stdio::null()).output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}

/// Lets the owner change every directory of a tree. What can't be changed shows when it can't be removed.
fn open_up(path: &Path) {
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let _shows_later = fs::set_permissions(&directory, Permissions::from_mode(OWN_DIRECTORY));
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.extend(below.map(|entry| entry.path()));
    }
}
