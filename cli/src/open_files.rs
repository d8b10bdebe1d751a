//! How many files a process may have open. What a host gives at first is often little, for the sake of programs that look through all
//! numbers: `serve` is none of those, but the jobs of its runners may be.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    pub(crate) most: usize,
    /// What it was before, if it was less: for the processes that this one starts.
    pub(crate) before: Option<u64>,
}

const WITHOUT_MAXIMUM: u64 = 10_240;

/// As many as the host allows this process.
pub(crate) fn raise() -> OpenFiles {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return OpenFiles { most: count(current), before: None };
    }
    // A host that sets no maximum may still refuse to have none.
    let wanted = maximum.or(Some(WITHOUT_MAXIMUM));
    match setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }) {
        Ok(()) => OpenFiles { most: count(wanted), before: current },
        Err(error) => {
            tracing::warn!(%error, "no more files may be open than at the start");
            OpenFiles { most: count(current), before: None }
        }
    }
}

/// No more than so many, for this process and those that it starts. They may raise it again.
pub(crate) fn lower(most: u64) {
    let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
    // It fails only where the limit is lower already.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
}

fn count(limit: Option<u64>) -> usize {
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
