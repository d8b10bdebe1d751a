//! The mount namespace of a job: its own `/tmp` and `/proc`, and nothing of what is to be hidden. For a process that is root, has one
//! thread, and is the first of its process namespace. It hides files; that others' files are closed is the users' matter.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::thread::UnshareFlags;
use thiserror::Error;

use super::confinement::Sandbox;

const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// From here on the calling process sees what its job is to see.
pub(super) fn enter(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let Sandbox { hidden, shown, tmp, passwd } = sandbox;
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWIPC).map_err(SandboxError::Namespace)?;
    // What the host mounts later is seen; what is mounted here is not seen there.
    let apart = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", apart).map_err(|error| failed(Path::new("/"))(error.into()))?;
    // Before anything is hidden: afterwards they have no path.
    let shown =
        shown.iter().map(|path| Ok((path, opened(path)?))).collect::<Result<Vec<_>, SandboxError>>()?;
    let tmp = opened(tmp)?;
    if let Some(passwd) = passwd {
        mount_bind(passwd, "/etc/passwd").map_err(|error| failed(passwd)(error.into()))?;
    }
    let covers = covers(hidden, shown.iter().map(|(path, _)| path.as_path()));
    for place in TEMPORARY.map(Path::new).into_iter().filter(|place| place.is_dir()) {
        bind(&tmp, place)?;
    }
    for cover in &covers {
        fresh(cover, c"mode=0755,size=1m")?;
    }
    for (path, directory) in &shown {
        let mut above = covers.iter().map(PathBuf::as_path).chain(TEMPORARY.map(Path::new));
        if let Some(above) = above.find(|above| path.starts_with(above)) {
            make_path(above, path).map_err(failed(path))?;
            bind(directory, path)?;
        }
    }
    if Path::new("/dev/shm").is_dir() {
        fresh(Path::new("/dev/shm"), c"mode=1777")?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, c"hidepid=2")
        .map_err(|error| failed(Path::new("/proc"))(error.into()))
}

/// For a thread that ends right after it.
pub(crate) fn try_namespaces() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWPID)
}

/// Makes namespaces for the calling thread, or, of processes, for its children.
#[expect(
    deprecated,
    reason = "it is unsound with the flag FILES alone, which no caller here gives; the other one is an unsafe function"
)]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

/// The directories to be covered: the hidden ones, and what a job could not pass on its way to its own. None lies below another, or where
/// its temporary directory is.
fn covers<'a>(hidden: &'a [PathBuf], shown: impl Iterator<Item = &'a Path>) -> BTreeSet<PathBuf> {
    let closed = shown.filter_map(|path| {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.into_iter().rev().find(|dir| fs::metadata(dir).is_ok_and(|found| found.mode() & 0o001 == 0))
    });
    let all: BTreeSet<PathBuf> = hidden
        .iter()
        .map(PathBuf::as_path)
        .chain(closed)
        .filter(|dir| dir.is_dir())
        .map(Path::to_owned)
        .collect();
    let below = |dir: &Path, others: &BTreeSet<PathBuf>| {
        TEMPORARY.iter().any(|place| dir.starts_with(place))
            || others.iter().any(|other| dir != other && dir.starts_with(other))
    };
    all.iter().filter(|dir| !below(dir, &all)).cloned().collect()
}

fn opened(path: &Path) -> Result<OwnedFd, SandboxError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(path)(error.into()))
}

fn bind(directory: &OwnedFd, target: &Path) -> Result<(), SandboxError> {
    let source = format!("/proc/self/fd/{}", directory.as_raw_fd());
    mount_bind(source, target).map_err(|error| failed(target)(error.into()))
}

fn fresh(target: &Path, options: &std::ffi::CStr) -> Result<(), SandboxError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", target, "tmpfs", flags, options).map_err(|error| failed(target)(error.into()))
}

/// Makes what is missing of the path. What is there must be a directory of root's: a job's own might be a link.
fn make_path(above: &Path, path: &Path) -> io::Result<()> {
    let rest = path.strip_prefix(above).map_err(io::Error::other)?;
    let mut at = above.to_owned();
    for name in rest {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() && found.uid() == 0 => {}
            Ok(_) => return Err(io::Error::other(format!("{} is in the way", at.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                DirBuilder::new().mode(0o755).create(&at)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SandboxError + use<> {
    let path = path.to_owned();
    |source| SandboxError::Mount { path, source }
}

#[derive(Debug, Error)]
pub(super) enum SandboxError {
    #[error("no namespace can be made here: {0}")]
    Namespace(#[source] io::Error),
    #[error("{path} cannot be set up for the job: {source}", path = path.display())]
    Mount { path: PathBuf, source: io::Error },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn refuse_21_the_outermost_of_what_is_hidden_or_closed_is_covered() {
        // Not in /tmp, which is another one for a job.
        let dir = tempfile::tempdir_in("/var/lib").or_else(|_| tempfile::tempdir_in(".")).unwrap();
        let work = dir.path().join("data/runners/r-1/work");
        fs::create_dir_all(&work).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let data = dir.path().join("data");
        let agent = data.join("runners/r-1");
        for mode_and_expected in [(0o755, &data), (0o700, &dir.path().to_owned())] {
            let (mode, expected) = mode_and_expected;
            set(dir.path(), mode);
            let hidden = [agent.clone(), data.clone(), dir.path().join("none")];
            let covered = covers(&hidden, [work.as_path()].into_iter());
            assert!(covered.contains(expected), "{mode:o}: {covered:?}");
            assert!(!covered.contains(&agent), "{mode:o}: {covered:?}");
        }
    }

    #[test]
    fn a_path_is_made_through_nothing_that_a_job_could_have_put_there() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        assert!(make_path(dir.path(), &dir.path().join("link/x")).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(make_path(dir.path(), &dir.path().join("file/x")).is_err());
        if rustix::process::getuid().is_root() {
            make_path(dir.path(), &dir.path().join("a/b")).unwrap();
            make_path(dir.path(), &dir.path().join("a/b")).unwrap();
            std::os::unix::fs::chown(dir.path().join("a"), Some(65_534), None).unwrap();
            assert!(make_path(dir.path(), &dir.path().join("a/b")).is_err());
        }
    }
}
