//! This host's hardware: what a local runner has, where its pool does not say.

use motorpool_domain::spec::Spec;

const FALLBACK_MB: u64 = 1024;

pub(crate) fn spec() -> Spec {
    let cpu = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_mb = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_mb(&text));
    Spec { cpu: u32::try_from(cpu).unwrap_or(u32::MAX), memory_mb: memory_mb.unwrap_or(FALLBACK_MB) }
}

fn total_mb(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1024).filter(|megabytes| *megabytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_own_words() {
        assert_eq!(total_mb("MemTotal:        8057236 kB\nMemFree:  1 kB\n"), Some(7868));
        assert_eq!(total_mb("MemFree: 1 kB\n"), None);
        assert_eq!(total_mb("MemTotal: lots\n"), None);
    }
}
