//! The agent's directory: where things are in it, and that one agent alone uses it. It knows nothing of what they hold.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, process};

use thiserror::Error;

use crate::clock::BootClock;
use crate::tree::remove_tree;

/// An agent that was just told to stop may still hold the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// Absolute, and UTF-8, since it travels in the environment of scripts.
    dir: String,
    /// Where the directories of jobs are: the same, unless jobs could not reach them there.
    jobs_dir: PathBuf,
}

/// Where jobs have their directories on a host that hides nothing, if others may not enter the agent's.
const JOBS_DIR_PREFIX: &str = "/var/tmp/motorpool-";

impl Home {
    /// Makes what is missing.
    pub(crate) fn open(dir: &Path) -> Result<Self, HomeError> {
        let failed = |source| HomeError::Make { dir: dir.to_owned(), source };
        let absolute = std::path::absolute(dir).map_err(failed)?;
        let absolute = absolute.to_str().ok_or_else(|| HomeError::NotUtf8(dir.to_owned()))?.to_owned();
        let home = Self { jobs_dir: PathBuf::from(&absolute), dir: absolute };
        for dir in [PathBuf::from(home.dir()), home.logs_dir()] {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        home.make_work_dir().map_err(failed)?;
        Ok(home)
    }

    pub(crate) fn dir(&self) -> &str {
        &self.dir
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        Path::new(&self.dir).join("state.json")
    }

    pub(crate) fn logs_dir(&self) -> PathBuf {
        Path::new(&self.dir).join("logs")
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.jobs_dir.join("work")
    }

    pub(crate) fn jobs_dir(&self) -> &Path {
        &self.jobs_dir
    }

    pub(crate) fn job_home_dir(&self) -> PathBuf {
        self.jobs_dir.join("home")
    }

    pub(crate) fn passwd_file(&self) -> PathBuf {
        Path::new(&self.dir).join("passwd")
    }

    pub(crate) fn job_tmp_dir(&self) -> PathBuf {
        self.jobs_dir.join("tmp")
    }

    pub(crate) fn program_copy_dir(&self) -> PathBuf {
        self.jobs_dir.join("program")
    }

    /// Of jobs' hooks, and nothing else of the agent's is in it.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        self.jobs_dir.join("socket")
    }

    /// For a host that can show jobs their directories only where they are: elsewhere, if others may not enter the agent's own. Whoever removes
    /// the agent's directory finds the other one named in it.
    pub(crate) fn within_reach(self, name: &str) -> io::Result<Self> {
        let closed = |dir: &Path| fs::metadata(dir).is_ok_and(|found| found.mode() & 0o001 == 0);
        if !Path::new(&self.dir).ancestors().any(closed) {
            return Ok(self);
        }
        let jobs_dir = PathBuf::from(format!("{JOBS_DIR_PREFIX}{name}"));
        match DirBuilder::new().mode(0o711).create(&jobs_dir) {
            Ok(()) => fs::set_permissions(&jobs_dir, fs::Permissions::from_mode(0o711))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let found = fs::symlink_metadata(&jobs_dir)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{} is somebody else's", jobs_dir.display())));
        }
        fs::write(Path::new(&self.dir).join("jobs-dir"), jobs_dir.as_os_str().as_encoded_bytes())?;
        Ok(Self { jobs_dir, ..self })
    }

    /// What a job has of its own. One that sees only its own `/tmp` has it as everybody has his: open, and nobody removes another's.
    pub(crate) fn make_job_dirs(&self, uid: u32, gid: u32, sandboxed: bool) -> io::Result<()> {
        self.make_work_dir()?;
        chown(self.work_dir(), Some(uid), Some(gid))?;
        // A job may have closed it even to itself.
        fs::set_permissions(self.work_dir(), fs::Permissions::from_mode(0o700))?;
        make_owned(&self.job_home_dir(), uid, gid, 0o700)?;
        make_owned(&self.program_copy_dir(), uid, gid, 0o700)?;
        self.make_socket_dir(gid)?;
        match sandboxed {
            true => make_owned(&self.job_tmp_dir(), 0, 0, 0o1777),
            false => make_owned(&self.job_tmp_dir(), uid, gid, 0o700),
        }
    }

    /// The agent's own, through which this group may pass.
    pub(crate) fn make_socket_dir(&self, gid: u32) -> io::Result<()> {
        make_owned(&self.socket_dir(), rustix::process::geteuid().as_raw(), gid, 0o710)
    }

    /// There when a runner program has worked in its own directory since the last cleanup.
    pub(crate) fn program_used_file(&self) -> PathBuf {
        Path::new(&self.dir).join("program-used")
    }

    /// A job may have removed it, or put a link in its place that leads elsewhere.
    pub(crate) fn make_work_dir(&self) -> io::Result<()> {
        let work = self.work_dir();
        match fs::symlink_metadata(&work) {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_not_a_directory) => fs::remove_file(&work)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        DirBuilder::new().mode(0o700).create(&work)
    }

    /// Held until the process ends, however it ends.
    pub(crate) async fn lock(&self) -> Result<Lock, HomeError> {
        let path = Path::new(&self.dir).join("agent.lock");
        let failed = |source| HomeError::Lock { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let give_up_at = BootClock.now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if !give_up_at.passed(BootClock.now()) => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => return Err(HomeError::InUse { dir: self.dir.clone() }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        file.set_len(0).and_then(|()| write!(file, "{}", process::id())).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

/// A directory of this owner and mode. What else is there goes.
fn make_owned(path: &Path, uid: u32, gid: u32, mode: u32) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() && found.uid() == uid => {}
        Ok(found) => {
            if found.is_dir() {
                remove_tree(path)?
            } else {
                fs::remove_file(path)?
            }
            DirBuilder::new().mode(0o700).create(path)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => DirBuilder::new().mode(0o700).create(path)?,
        Err(error) => return Err(error),
    }
    chown(path, Some(uid), Some(gid))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

#[derive(Debug, Error)]
pub(crate) enum HomeError {
    #[error("the agent's directory {dir} could not be made", dir = dir.display())]
    Make { dir: PathBuf, source: io::Error },
    #[error("the path of the agent's directory {dir} is not UTF-8", dir = _0.display())]
    NotUtf8(PathBuf),
    #[error("the lock {path} could not be taken", path = path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("another agent uses {dir}; stop it first, or give this one a directory of its own")]
    InUse { dir: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_21_a_job_that_closed_its_work_directory_closes_it_to_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        fs::set_permissions(home.work_dir(), fs::Permissions::from_mode(0o000)).unwrap();
        home.make_job_dirs(uid, gid, false).unwrap();
        assert_eq!(fs::metadata(home.work_dir()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_in_place_of_the_work_directory_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        fs::remove_dir(home.work_dir()).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), home.work_dir()).unwrap();
        home.make_work_dir().unwrap();
        assert!(fs::symlink_metadata(home.work_dir()).unwrap().is_dir());
        assert!(elsewhere.path().is_dir());
    }

    #[tokio::test]
    async fn refuse_20_the_lock_is_held_by_one_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let lock = home.lock().await.unwrap();
        assert!(matches!(home.lock().await, Err(HomeError::InUse { .. })));
        let path = dir.path().join("agent.lock");
        assert_eq!(fs::read_to_string(&path).unwrap(), process::id().to_string());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(lock);
        home.lock().await.unwrap();
    }
}
