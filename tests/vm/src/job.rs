//! The job: a stand-in for GitHub's runner program that looks around as any job could, and says what it got. What it must and must not get is
//! judged here, and nowhere else.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const RUN: &str = include_str!("../guest/run.sh");
const LISTENER: &str = "#!/bin/sh\necho 2.330.0\n";

/// What a line of its report begins with. The report is its output, which the agent keeps.
const MARK: &str = "job: ";
const LAST: &str = "end";

/// What each of its lines must say, but for those that `judge` looks at itself.
const EXPECTED: [(&str, &str); 16] = [
    // It is set to work, with its registration, and reaches the network …
    ("registration", "got"),
    ("network", "200"),
    // … as a user of its own, for good …
    ("user", "motorpool-job"),
    ("no_new_privs", "1"),
    ("capabilities", "0000000000000000"),
    ("sudo", "nothing"),
    // … who gets nothing of the agent's, …
    ("agent_state", "nothing"),
    ("agent_environment", "nothing"),
    ("agent_memory", "nothing"),
    ("agent_signalled", "nothing"),
    // … nothing of what the machine was told, …
    ("launch_secret", "nothing"),
    ("install_settings", "nothing"),
    ("user_data_files", "nothing"),
    ("metadata", "nothing"),
    ("metadata_version_1", "nothing"),
    // … and finds no secret in any file that it can read.
    ("files_with_secrets", ""),
];

/// As GitHub's is packed: a `.tar.gz`. `network` is an address that any job may ask.
pub(crate) fn program(network: &str) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir()?;
    fs::create_dir(dir.path().join("bin"))?;
    for (name, text) in
        [("run.sh", RUN.replace("@@NETWORK@@", network)), ("bin/Runner.Listener", LISTENER.to_owned())]
    {
        let path = dir.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let packed = Command::new("tar")
        .args(["-cz", "-f", "-", "-C"])
        .arg(dir.path())
        .args(["run.sh", "bin"])
        .output()?;
    ensure!(packed.status.success(), "tar: {}", String::from_utf8_lossy(&packed.stderr));
    Ok(packed.stdout)
}

#[derive(Debug)]
pub(crate) struct Report(BTreeMap<String, String>);

impl Report {
    /// From the job's output so far; nothing while it is not complete.
    pub(crate) fn read(output: &str) -> Option<Self> {
        let lines = output.lines().filter_map(|line| line.trim_end().strip_prefix(MARK)?.split_once('='));
        let lines: BTreeMap<_, _> = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        lines.contains_key(LAST).then_some(Self(lines))
    }

    fn line(&self, name: &str) -> Result<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("the job says nothing of {name}: {self:?}"))
    }

    /// For people to read.
    pub(crate) fn in_words(&self) -> Result<String> {
        let (user, uid) = (self.line("user")?, self.line("uid")?);
        Ok(format!("as user {user} ({uid}), without new privileges"))
    }

    /// Refusals 16, 17 and 21 on a real machine. `agent_uid` is whose the agent is.
    pub(crate) fn judge(&self, agent_uid: &str) -> Result<()> {
        let uid = self.line("uid")?;
        ensure!(uid != "0" && uid != agent_uid, "the job runs as user {uid}, its agent as {agent_uid}");
        let wrong: Vec<String> = EXPECTED
            .iter()
            .filter(|(name, expected)| !self.line(name).is_ok_and(|said| said == *expected))
            .map(|(name, expected)| format!("{name} is {:?}, not {expected:?}", self.0.get(*name)))
            .collect();
        ensure!(
            wrong.is_empty(),
            "the job got what it must not, or lacks what it needs: {}",
            wrong.join("; ")
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uid: &str, metadata: &str) -> Report {
        let mut text = format!("noise\njob: uid={uid}\n");
        for (name, value) in EXPECTED {
            let value = if name == "metadata" { metadata } else { value };
            text += &format!("job: {name}={value}\r\n");
        }
        assert!(Report::read(&text).is_none());
        Report::read(&format!("{text}job: end=yes\n")).unwrap()
    }

    #[test]
    fn a_job_that_is_the_agent_or_gets_something_is_not_passed() {
        assert!(report("999", "nothing").judge("0").is_ok());
        assert!(report("0", "nothing").judge("998").is_err());
        assert!(report("998", "nothing").judge("998").is_err());
        let told = report("999", "got").judge("0").unwrap_err().to_string();
        assert!(told.contains("metadata is Some(\"got\")"), "{told}");
    }
}
