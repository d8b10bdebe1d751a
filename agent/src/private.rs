//! Whether a file that holds a secret is the agent's user's alone.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The file's mode, if others can do anything with it: its secret may be known to them, or be theirs.
pub(crate) fn exposed(found: &Metadata) -> Option<u32> {
    let mode = found.mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}
