//! Files that hold a secret: their owner alone reads and writes them, and they are there whole or not at all. What is in them is not known
//! here.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::errors::Failure;

/// Whether the group or others can do anything with the file: its secret may be known already, or be another's.
pub(crate) fn is_open(found: &Metadata) -> bool {
    found.permissions().mode() & 0o077 != 0
}

/// A file that can't be looked at is not refused here: whoever reads it fails, and says why.
pub(crate) fn must_be_closed(path: &Path) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|found| is_open(&found)) {
        return Err(Failure::failed(
            format!("others on this host can read or write {}", path.display()),
            format!("replace the secret if they may have, and close the file: `{}`", closing(path)),
        ));
    }
    Ok(())
}

/// The command that closes a file.
pub(crate) fn closing(path: &Path) -> String {
    format!("chmod 600 {}", path.display())
}

/// Writes a new file: nobody else can read it at any moment, and a crash leaves no half of it under its name.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = path.to_owned();
    draft.as_mut_os_string().push(".new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // A crash may have left one.
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};

    #[test]
    fn refuse_20_a_secret_is_written_closed_and_what_a_crash_left_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let (path, draft) = (dir.path().join("secret"), dir.path().join("secret.new"));
        fs::write(&draft, "half of a sec").unwrap();
        set_permissions(&draft, Permissions::from_mode(0o644)).unwrap();
        write(&path, b"a whole secret").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a whole secret");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!draft.exists());
    }

    #[test]
    fn refuse_20_a_secret_that_group_or_others_can_read_or_write_is_refused_with_what_mends_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        assert_eq!(must_be_closed(&path), Ok(()), "whoever reads it will say that it is missing");
        fs::write(&path, "hush").unwrap();
        for (mode, closed) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o620, false),
            (0o604, false),
            (0o602, false),
            (0o644, false),
        ] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let judged = must_be_closed(&path);
            assert_eq!(judged.is_ok(), closed, "{mode:o}");
            if let Err(failure) = judged {
                assert!(failure.hint.contains(&format!("`chmod 600 {}`", path.display())), "{failure:?}");
                assert!(!failure.message.contains("hush"), "{failure:?}");
            }
        }
    }
}
