//! What a process weighs, as the kernel counts it.

use anyhow::{Context, Result};

/// Of `/proc/PID/status`: what is resident now, and the most that ever was.
pub(crate) enum Resident {
    Now,
    Peak,
}

pub(crate) fn resident_mb(pid: u32, which: Resident) -> Result<u64> {
    let figure = match which {
        Resident::Now => "VmRSS:",
        Resident::Peak => "VmHWM:",
    };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("serve's status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    let kb: u64 = line.with_context(|| format!("no {figure}"))?.trim().trim_end_matches(" kB").parse()?;
    Ok(kb / 1_024)
}
