//! What root sees of a machine that is at work: its units, and where its secrets are not.

use crate::guest::Guest;
use anyhow::{Context, Result, ensure};

/// What is asked, and what must be answered.
const EXPECTED: [(&str, &str, &str); 9] = [
    ("the agent's unit", "systemctl is-active motorpool-agent.service", "active"),
    ("its start at the next boot", "systemctl is-enabled motorpool-agent.service", "enabled"),
    ("its restarts", "systemctl show --property NRestarts --value motorpool-agent.service", "0"),
    ("the limit of the boot", "systemctl is-active motorpool-boot-limit.timer", "inactive"),
    ("units that failed", "systemctl list-units --failed --plain --no-legend", ""),
    ("cloud-init", "cloud-init status --wait | tr -d .", "status: done"),
    ("the launch secret's file", "ls /run/motorpool/launch-secret 2>/dev/null", ""),
    (
        "files with the launch secret",
        "grep -rlasE 'mp_launch_[A-Za-z0-9_-]{30}' /etc /home /opt /root /run /srv /tmp /var",
        "",
    ),
    (
        "the agent's state",
        "stat -c '%a %U' /var/lib/motorpool /var/lib/motorpool/state.json | tr '\\n' ' '",
        "711 root 600 root",
    ),
];

/// Whatever differs is told together.
pub(crate) async fn machine(guest: &Guest) -> Result<()> {
    let mut wrong = Vec::new();
    for (what, script, expected) in EXPECTED {
        let said = asked(guest, script).await?;
        if said != expected {
            wrong.push(format!("{what}: {said:?}, not {expected:?}"));
        }
    }
    ensure!(wrong.is_empty(), "the machine is not as it should be: {}", wrong.join("; "));
    Ok(())
}

/// Whose the agent is.
pub(crate) async fn agent_uid(guest: &Guest) -> Result<String> {
    asked(guest, "stat -c %u /proc/$(systemctl show --property MainPID --value motorpool-agent.service)")
        .await
}

async fn asked(guest: &Guest, script: &str) -> Result<String> {
    let said = guest.sh(script).await?.with_context(|| format!("the machine does not answer {script}"))?;
    Ok(said.trim().to_owned())
}
