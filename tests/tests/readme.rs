//! The walk-throughs of the README and of the pages are what really comes out: their commands are run, and the output compared but for ids and times.
//! `UPDATE=1 cargo test -p motorpool-tests --test readme` writes the transcripts anew.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::binary;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const POOLS: &str = "<!-- walk-through: pools.toml -->\n```toml\n";
const COMMANDS: &str = "<!-- walk-through: commands -->\n```console\n";
const END: &str = "```\n";
/// Where serve listens on the pages. The test takes a free port instead.
const ADDRESS: &str = "http://127.0.0.1:8080";

#[test]
fn the_walk_through_in_the_readme_is_what_really_comes_out() -> Result<()> {
    walk_through("README.md")
}

#[test]
fn the_first_clean_job_of_the_page_on_checkpoints_is_what_really_comes_out() -> Result<()> {
    walk_through("docs/checkpoints.md")
}

fn walk_through(page: &str) -> Result<()> {
    let file = Path::new(ROOT).join(page);
    let text = std::fs::read_to_string(&file)?;
    let pools = between(&text, POOLS)?;
    let transcript = between(&text, COMMANDS)?;
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("pools.toml"), pools)?;
    let mut host = Host { dir: dir.path(), jobs: Vec::new(), address: String::new() };
    let mut told = String::new();
    for command in transcript.lines().filter_map(|line| line.strip_prefix("$ ")) {
        writeln!(told, "$ {command}")?;
        told.push_str(&host.run(command)?);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, text.replace(transcript, &told))?;
        return Ok(());
    }
    let (shown, told) = (masked(transcript), masked(&told));
    ensure!(
        shown == told,
        "{page}:\n{shown}\n\nreally:\n{told}\n\nrun again with UPDATE=1, and read the difference"
    );
    Ok(())
}

struct Host<'a> {
    dir: &'a Path,
    /// What was started with `&`, as the shell numbers it.
    jobs: Vec<Child>,
    address: String,
}

impl Host<'_> {
    fn run(&mut self, command: &str) -> Result<String> {
        if command == "motorpool serve 2> serve.log &" {
            return self.start();
        }
        if let Some(jobs) = command.strip_prefix("kill ") {
            return self.stop(jobs);
        }
        if let Some(job) = command.strip_suffix(" &") {
            return self.begin(job);
        }
        // What waits for something waits in vain, if it does so for as long.
        let mut shell = self.shell("exec timeout 300 sh -c \"$COMMAND\"")?;
        let here = command.replace(ADDRESS, &self.address);
        let output = shell.env("COMMAND", here).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Where the tests are root's, so is the agent, and there is no user for its jobs.
    fn begin(&mut self, job: &str) -> Result<String> {
        let as_root = geteuid().is_root() && job.starts_with("motorpool agent run ");
        let job = match as_root {
            true => job.replacen("agent run", "agent run --work-as-root", 1),
            false => job.to_owned(),
        };
        let begun = self.shell(&format!("exec {job}"))?.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        self.jobs.push(begun);
        Ok(String::new())
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
        self.jobs.push(serve);
        self.address = line.trim().strip_prefix("listening on ").context("serve did not start")?.to_owned();
        Ok(line.replace(&self.address, ADDRESS))
    }

    /// Jobs by their numbers, as in `%2 %1`.
    fn stop(&mut self, jobs: &str) -> Result<String> {
        for job in jobs.split(' ') {
            let number: usize = job.trim_start_matches('%').parse()?;
            let child = self.jobs.get_mut(number - 1).with_context(|| format!("no job {job}"))?;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("its pid")?;
            kill_process(pid, Signal::TERM)?;
            ensure!(child.wait()?.success(), "{job} did not end well");
        }
        Ok(String::new())
    }

    fn shell(&self, command: &str) -> Result<Command> {
        let binary = binary()?;
        let bin_dir = binary.parent().context("the binary's directory")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command.replace(ADDRESS, &self.address)])
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
        for job in &mut self.jobs {
            let _ = job.kill();
            let _ = job.wait();
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
    let (_, rest) = text.split_once(begin).with_context(|| format!("the page has no {begin:?}"))?;
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
            let unit = ["s", "min", "s,", "min,", "s)"].contains(&word);
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
    // A checkpoint's name ends in its time and something random.
    if let Some((job, _)) = masked.strip_prefix("job-").and_then(|rest| rest.split_once('-')) {
        masked = format!("job-{job}-ID");
    }
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
