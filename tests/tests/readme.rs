//! The README's walk-through is what really comes out: its commands are run, and their output compared but for ids and times.
//! `UPDATE=1 cargo test -p motorpool-tests --test readme` writes the transcript anew.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::binary;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
const POOLS: &str = "<!-- walk-through: pools.toml -->\n```toml\n";
const COMMANDS: &str = "<!-- walk-through: commands -->\n```console\n";
const END: &str = "```\n";
/// Where serve listens in the README. The test takes a free port instead.
const ADDRESS: &str = "http://127.0.0.1:8080";

#[test]
fn the_walk_through_in_the_readme_is_what_really_comes_out() -> Result<()> {
    let readme = std::fs::read_to_string(README)?;
    let pools = between(&readme, POOLS)?;
    let transcript = between(&readme, COMMANDS)?;
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("pools.toml"), pools)?;
    let mut host = Host { dir: dir.path(), serve: None, address: String::new() };
    let mut told = String::new();
    for command in transcript.lines().filter_map(|line| line.strip_prefix("$ ")) {
        writeln!(told, "$ {command}")?;
        told.push_str(&host.run(command)?);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(README, readme.replace(transcript, &told))?;
        return Ok(());
    }
    let (shown, told) = (masked(transcript), masked(&told));
    ensure!(
        shown == told,
        "README:\n{shown}\n\nreally:\n{told}\n\nrun again with UPDATE=1, and read the difference"
    );
    Ok(())
}

struct Host<'a> {
    dir: &'a Path,
    serve: Option<Child>,
    address: String,
}

impl Host<'_> {
    fn run(&mut self, command: &str) -> Result<String> {
        match command {
            "motorpool serve 2> serve.log &" => self.start(),
            "kill %1" => self.stop(),
            _ => {
                let output = self.shell(command)?.stdin(Stdio::null()).output()?;
                ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
                Ok(String::from_utf8(output.stdout)?)
            }
        }
    }

    fn start(&mut self) -> Result<String> {
        let log = std::fs::File::create(self.dir.join("serve.log"))?;
        let mut serve = self
            .shell("exec motorpool serve --listen 127.0.0.1:0")?
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(serve.stdout.take().context("serve's stdout")?).read_line(&mut line)?;
        self.serve = Some(serve);
        self.address = line.trim().strip_prefix("listening on ").context("serve did not start")?.to_owned();
        Ok(line.replace(&self.address, ADDRESS))
    }

    fn stop(&mut self) -> Result<String> {
        let mut serve = self.serve.take().context("serve was not started")?;
        let pid = i32::try_from(serve.id()).ok().and_then(Pid::from_raw).context("serve's pid")?;
        kill_process(pid, Signal::TERM)?;
        ensure!(serve.wait()?.success(), "serve did not end well");
        Ok(String::new())
    }

    fn shell(&self, command: &str) -> Result<Command> {
        let binary = binary()?;
        let bin_dir = binary.parent().context("the binary's directory")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(self.dir)
            .env("PATH", format!("{}:{path}", bin_dir.display()));
        shell
            .env("MOTORPOOL_SERVER", &self.address)
            .env_remove("MOTORPOOL_ADMIN_TOKEN")
            .env("COLUMNS", "100");
        Ok(shell)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if let Some(serve) = &mut self.serve {
            let _ = serve.kill();
            let _ = serve.wait();
        }
        let runners = std::fs::read_dir(self.dir.join("motorpool-data/runners"));
        for runner in runners.into_iter().flatten().flatten() {
            let pid = std::fs::read_to_string(runner.path().join("agent.lock")).unwrap_or_default();
            if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn between<'a>(text: &'a str, begin: &str) -> Result<&'a str> {
    let (_, rest) = text.split_once(begin).with_context(|| format!("the README has no {begin:?}"))?;
    Ok(rest.split_once(END).context("the block has no end")?.0)
}

/// Ids and times are new each time, and with them the width of columns.
fn masked(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            let number = word.chars().next().is_some_and(|c| c.is_ascii_digit())
                && word.trim_end_matches(['s', 'm', 'i', 'n', ',']).parse::<f64>().is_ok();
            let unit = ["s", "min", "s,", "min,"].contains(&word);
            match words.last().map(String::as_str) {
                Some("TIME") if unit || number => {}
                Some(last) if unit && last.parse::<f64>().is_ok() => {
                    words.pop();
                    if words.last().map(String::as_str) != Some("TIME") {
                        words.push("TIME".to_owned());
                    }
                }
                _ => words.push(id_masked(word)),
            }
        }
        lines.push_str(&words.join(" "));
        lines.push('\n');
    }
    lines
}

fn id_masked(word: &str) -> String {
    let mut masked = word.to_owned();
    for prefix in ["r-", "c-"] {
        if let Some(at) = masked.find(prefix) {
            let rest = masked.get(at + 2..at + 18).unwrap_or_default();
            if rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
                // With its place in the launch: which of them is taken is left to chance.
                let place = masked.get(at + 18..).unwrap_or_default();
                let place = place
                    .strip_prefix('-')
                    .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
                masked.replace_range(at + 2..at + 18 + place, "ID");
            }
        }
    }
    masked
}
