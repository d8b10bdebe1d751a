//! Whether KVM works on this host. That `/dev/kvm` can be opened does not say so: a host that is a VM itself may refuse what QEMU sets on a processor,
//! and QEMU then dies. So it is tried, with a machine of nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::wait::Limits;

const ORDERS: &[u8] = br#"{"execute":"qmp_capabilities"}{"execute":"quit"}"#;

/// It never fails: a host where it can't be tried has none.
pub(crate) async fn kvm_works(qemu: &Path, limits: &Limits) -> bool {
    let kvm = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    if kvm.is_err() {
        return false;
    }
    let works = tokio::time::timeout(limits.answer.max(Duration::from_secs(5)), tries(qemu)).await;
    let works = works.is_ok_and(|works| works);
    tracing::debug!(works, "KVM was tried");
    works
}

async fn tries(qemu: &Path) -> bool {
    let mut command = Command::new(qemu);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-m", "16", "-S"])
        .args(["-accel", "kvm", "-cpu", "host", "-qmp", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // One that died already says so by its exit code.
        let _written = stdin.write_all(ORDERS).await;
    }
    child.wait().await.is_ok_and(|status| status.success())
}
