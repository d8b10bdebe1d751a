//! The data directory on this host: nobody else may read what it holds.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Check;
use crate::client::ADMIN_TOKEN_FILE;

/// No check, if there is no such directory: the server may have another.
pub(super) fn look(dir: &Path) -> Vec<Check> {
    let Ok(metadata) = std::fs::metadata(dir) else { return Vec::new() };
    let mut checks = vec![private(dir, &metadata, 0o700)];
    let token = dir.join(ADMIN_TOKEN_FILE);
    if let Ok(metadata) = std::fs::metadata(&token) {
        checks.push(private(&token, &metadata, 0o600));
    }
    checks
}

fn private(path: &Path, metadata: &Metadata, wanted: u32) -> Check {
    let mode = metadata.permissions().mode() & 0o777;
    let path = path.display();
    // Whoever reads the admin token is the operator; the directory alone shows no more than names.
    let open = mode & !wanted;
    if open == 0 {
        Check::ok(format!("{path} is private (mode {mode:04o})"))
    } else if metadata.is_dir() {
        Check::warn(
            format!("{path} is open to others (mode {mode:04o})"),
            format!("chmod {wanted:04o} {path}"),
        )
    } else {
        Check::fail(
            format!("{path} is open to others (mode {mode:04o})"),
            format!("chmod {wanted:04o} {path}, and replace the token if others may have read it"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use std::fs::{Permissions, set_permissions};

    fn verdicts(dir: &Path) -> Vec<Verdict> {
        look(dir).into_iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn an_open_token_fails_and_an_open_directory_warns() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join(ADMIN_TOKEN_FILE);
        std::fs::write(&token, "x").unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(verdicts(dir.path()), [Verdict::Ok, Verdict::Ok]);
        set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(verdicts(dir.path()), [Verdict::Warn, Verdict::Fail]);
        assert_eq!(verdicts(&dir.path().join("none")), []);
    }
}
