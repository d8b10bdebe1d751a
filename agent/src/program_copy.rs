//! The runner program as a job gets it: a tree of directories of its own, whose files are those of the program itself, which the job can
//! replace in its own tree but not change. So each job begins with the program as it was installed, whatever the last one did to it.

use crate::tree::remove_tree;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

/// Takes the place of what is at `copy`, for the user and group of these numbers. It is empty where there is no program. It is made beside, where
/// nobody else can reach it, and given away when it is whole: whatever of an earlier job still runs puts no link in its way.
pub(crate) fn renew(program: &Path, copy: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let making = copy.with_extension("new");
    remove_tree(&making)?;
    DirBuilder::new().mode(0o700).create(&making)?;
    let user = User { uid, gid };
    match fs::metadata(program) {
        Ok(found) if found.is_dir() => user.copy_dir(program, &making)?,
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    remove_tree(copy)?;
    chown(&making, Some(uid), Some(gid))?;
    fs::set_permissions(&making, Permissions::from_mode(0o755))?;
    fs::rename(&making, copy)
}

#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn make_dir(self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o755).create(path)?;
        chown(path, Some(self.uid), Some(self.gid))
    }

    fn copy_dir(self, from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let found = fs::symlink_metadata(&from)?;
            if found.is_dir() {
                self.make_dir(&to)?;
                self.copy_dir(&from, &to)?;
            } else if found.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
                lchown(&to, Some(self.uid), Some(self.gid))?;
            } else if found.is_file() {
                self.copy_file(&from, &to, &found)?;
            }
        }
        Ok(())
    }

    /// The very file, unless the job could change it: then a file of the job's own.
    fn copy_file(self, from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
        let changeable = found.uid() == self.uid || found.mode() & 0o022 != 0;
        if !changeable && fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        // On another file system, or with as many names as a file can have.
        fs::copy(from, to)?;
        chown(to, Some(self.uid), Some(self.gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_21_each_copy_is_the_program_as_it_was_installed() {
        let dir = tempfile::tempdir().unwrap();
        let (program, copy) = (dir.path().join("program"), dir.path().join("copy"));
        fs::create_dir_all(program.join("bin")).unwrap();
        for (name, mode) in [("run.sh", 0o755), ("bin/listener", 0o755), ("open", 0o666)] {
            fs::write(program.join(name), name).unwrap();
            fs::set_permissions(program.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("bin", program.join("externals")).unwrap();
        let root = rustix::process::getuid().is_root();
        let (uid, gid) = if root {
            (65_534, 65_534)
        } else {
            (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
        };
        for _again in 0..2 {
            renew(&program, &copy, uid, gid).unwrap();
            assert_eq!(fs::read_to_string(copy.join("externals/listener")).unwrap(), "bin/listener");
            assert_eq!(
                fs::metadata(copy.join("bin")).unwrap().uid(),
                uid,
                "what it writes beside itself is its own"
            );
            assert!(!copy.join("left").exists());
            let inode = |path: &Path| fs::metadata(path).unwrap().ino();
            assert_ne!(
                inode(&copy.join("open")),
                inode(&program.join("open")),
                "what can be changed is copied"
            );
            if root {
                assert_eq!(fs::metadata(copy.join("run.sh")).unwrap().uid(), 0);
            }
            // As a job could.
            fs::write(copy.join("left"), "").unwrap();
            fs::remove_file(copy.join("run.sh")).unwrap();
            fs::write(copy.join("run.sh"), "bad").unwrap();
            fs::write(copy.join("open"), "bad").unwrap();
        }
        for name in ["run.sh", "bin/listener", "open"] {
            assert_eq!(fs::read_to_string(program.join(name)).unwrap(), name);
        }
        renew(&dir.path().join("none"), &copy, uid, gid).unwrap();
        assert_eq!(fs::read_dir(&copy).unwrap().count(), 0);
        assert!(!copy.with_extension("new").exists());
    }
}
