//! The data directory on this host: nobody else may read what it holds.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Check;
use crate::client::ADMIN_TOKEN_FILE;

const SECRETS: [&str; 2] = [ADMIN_TOKEN_FILE, "server-secret"];

/// No check, if there is no such directory: the server may have another.
pub(super) fn look(dir: &Path) -> Vec<Check> {
    let Ok(metadata) = std::fs::metadata(dir) else { return Vec::new() };
    let mut checks = vec![private(dir, &metadata, 0o700)];
    let secrets = SECRETS.map(|name| dir.join(name));
    let found = secrets.iter().filter_map(|path| Some((path, std::fs::metadata(path).ok()?)));
    checks.extend(found.map(|(path, metadata)| private(path, &metadata, 0o600)));
    checks
}

fn private(path: &Path, metadata: &Metadata, wanted: u32) -> Check {
    let mode = metadata.permissions().mode() & 0o777;
    let path = path.display();
    let open = mode & !wanted;
    if open == 0 {
        return Check::ok(format!("{path} is private (mode {mode:04o})"));
    }
    let what = format!("{path} is open to others (mode {mode:04o})");
    let closing = format!("chmod {wanted:04o} {path}");
    match (metadata.is_dir(), open & 0o022 != 0) {
        // Whoever only looks into the directory sees no more than names.
        (true, false) => Check::warn(what, closing),
        // Whoever writes the directory puts secrets of his own in it: `serve` refuses it.
        (true, true) => Check::fail(what, closing),
        (false, _) => {
            Check::fail(what, format!("{closing}, and replace the secret if others may have read it"))
        }
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
        let secret = dir.path().join("server-secret");
        std::fs::write(&secret, "x").unwrap();
        set_permissions(&secret, Permissions::from_mode(0o640)).unwrap();
        set_permissions(dir.path(), Permissions::from_mode(0o775)).unwrap();
        assert_eq!(verdicts(dir.path()), [Verdict::Fail; 3]);
        assert_eq!(verdicts(&dir.path().join("none")), []);
    }
}
