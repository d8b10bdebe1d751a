//! The refusals that only a whole `serve` can show: its files, the commands of its runners, and its memory in a flood.

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::join_all;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve, binary, fresh_dir};
use motorpool_tests::harness::wait::{PATIENCE, until};
use motorpool_tests::suites::black_box::{METAL, SMALL, Target};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread")]
async fn refuse_20_nobody_else_reads_what_serve_keeps() -> Result<()> {
    let serve = Serve::start(&Target::pools_file())?;
    let target = Target::new(serve.api().clone(), "1");
    let claim = target.settled(&target.api.provision("files", SMALL, 1).await?).await?;
    let runner = claim["runners"][0]["runner"].as_str().context("a runner")?;

    let data = serve.data_dir();
    ensure!(mode(&data)? == 0o700, "the data directory is {:o}", mode(&data)?);
    for name in ["server-secret", "ledger.db"] {
        ensure!(mode(&data.join(name))? == 0o600, "{name} is {:o}", mode(&data.join(name))?);
    }
    let dir = serve.runner_dir(runner);
    ensure!(mode(&dir)? == 0o700, "the runner's directory is {:o}", mode(&dir)?);
    let all = closed_to_others(&data)?;
    ensure!(
        all.iter().any(|path| path.starts_with(&dir) && path.is_file()),
        "no file of the runner's: {all:?}"
    );
    ensure!(!dir.join("bootstrap-secret").exists(), "a secret that is redeemed is deleted");
    Ok(())
}

/// A directory that was there before, and is open, holds nothing that is.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_20_an_open_data_directory_holds_closed_files() -> Result<()> {
    let dir = fresh_dir()?;
    let data = dir.path().join("data");
    fs::create_dir(&data)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755))?;
    let serve = Serve::start_in(dir, &Target::pools_file(), Vec::new())?;
    let target = Target::new(serve.api().clone(), "1");
    target.settled(&target.api.provision("open", SMALL, 1).await?).await?;
    for entry in fs::read_dir(&data)? {
        closed_to_others(&entry?.path())?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_20_the_admin_token_is_made_at_the_first_start_for_its_owner_alone() -> Result<()> {
    let home = Home::new()?;
    let mut child = home.serve()?.spawn().context("serve")?;
    let url = listening(&mut child).await?;
    let file = home.data().join("admin-token");
    ensure!(mode(&file)? == 0o600, "admin-token is {:o}", mode(&file)?);
    let token = fs::read_to_string(&file)?;
    ensure!(token.trim().len() >= 32, "it could be guessed");
    Api::new(&url, token.trim())?.get("pools").await?.expect(200)?;
    Api::new(&url, ADMIN_TOKEN)?.get("pools").await?.refusal(401)?;
    child.kill().await?;

    // The next start keeps it.
    let mut child = home.serve()?.spawn().context("serve")?;
    let url = listening(&mut child).await?;
    Api::new(&url, token.trim())?.get("pools").await?.expect(200)?;
    child.kill().await?;
    Ok(())
}

/// A secret that others could read may be known already.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_20_a_secret_that_others_can_read_is_refused_at_start() -> Result<()> {
    for name in ["admin-token", "server-secret"] {
        for open in [0o644, 0o640, 0o604, 0o620, 0o602] {
            let home = Home::new()?;
            fs::create_dir(home.data())?;
            let file = home.data().join(name);
            fs::write(&file, "mp_admin_that_everybody_knows_0123456789")?;
            fs::set_permissions(&file, fs::Permissions::from_mode(open))?;
            let ended = home.ended().await.with_context(|| format!("{name} with {open:o}"))?;
            let told = String::from_utf8_lossy(&ended.stderr).into_owned();
            ensure!(ended.status.code() == Some(1) && told.contains(name), "{name} with {open:o}: {told}");
            ensure!(told.contains("chmod"), "it does not say what to do: {told}");
            ensure!(!told.contains("everybody_knows"), "it shows the secret: {told}");
        }
    }
    Ok(())
}

/// Whoever can write the pools file, or put another in its place, has the commands of every runner.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_20_a_pools_file_that_others_can_write_is_refused_at_start() -> Result<()> {
    let home = Home::new()?;
    let pools = home.dir.path().join("pools.toml");
    fs::set_permissions(&pools, fs::Permissions::from_mode(0o666))?;
    let ended = home.ended().await?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.code() == Some(1) && told.contains("pools.toml"), "{told}");
    Ok(())
}

/// A file that moves a pool under its runners: the old one starts again, and finds them as they were.
#[tokio::test(flavor = "multi_thread")]
async fn inv_16_a_start_with_another_backend_for_a_pool_in_use_is_refused() -> Result<()> {
    let file = |backend: &str| format!("[pools.small]\nbackend = \"{backend}\"\nclean = \"keep\"\n");
    let mut serve = Serve::start(&file("local"))?;
    let target = Target::new(serve.api().clone(), "1");
    let claim = target.settled(&target.api.provision("moved", "small", 1).await?).await?;
    let written = serve.data_dir().with_file_name("pools.toml");
    serve.stop()?;
    fs::write(&written, file("bare_metal"))?;
    let told = serve.start_again().err().context("it started all the same")?.to_string();
    for said in ["pool small has 1 runner with the backend local", "bare_metal", "retired"] {
        ensure!(told.contains(said), "it does not say {said:?}: {told}");
    }
    fs::write(&written, file("local"))?;
    serve.start_again()?;
    let now = serve.api().claim(claim["claim"].as_str().context("a claim")?).await?;
    ensure!(now["state"] == "ready" && now["runners"] == claim["runners"], "{now}");
    Ok(())
}

/// The command is the operator's own to the last byte; what differs from claim to claim is in its environment.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_13_values_reach_commands_in_the_environment_alone() -> Result<()> {
    let dir = fresh_dir()?;
    let script = "env -0 > environment; cat /proc/$$/cmdline > command";
    let pools = format!("[pools.local]\nbackend = \"local\"\nregister_cmd = \"{script}\"\n");
    let serve = Serve::start_in(dir, &pools, Vec::new())?;
    let target = Target::new(serve.api().clone(), "1");
    // As odd as a workflow may be.
    let opened = target.api.provision("0:a/b@c.d_e-f//..", "local", 1).await?;
    let claim = target.settled(&opened).await?;
    ensure!(claim["state"] == "ready", "{claim}");

    let runner = claim["runners"][0]["runner"].as_str().context("a runner")?;
    let work = serve.runner_dir(runner).join("work");
    let command = fs::read(work.join("command"))?;
    let expected = format!("/bin/sh\0-c\0{script}\0");
    ensure!(command == expected.as_bytes(), "{:?}", String::from_utf8_lossy(&command));
    let environment = fs::read_to_string(work.join("environment"))?;
    let of =
        |name: &str| environment.split('\0').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    ensure!(of("MOTORPOOL_LABEL") == claim["label"].as_str(), "{environment:?}");
    ensure!(of("MOTORPOOL_CLAIM") == claim["claim"].as_str(), "{environment:?}");
    ensure!(of("MOTORPOOL_RUNNER") == claim["runners"][0]["runner"].as_str(), "{environment:?}");
    ensure!(of("MOTORPOOL_POOL") == Some("local") && of("MOTORPOOL_EPOCH") == Some("1"), "{environment:?}");
    // A job is not given what is not its own.
    for secret in [ADMIN_TOKEN, "MOTORPOOL_ADMIN_TOKEN", "mp_runner_", "mp_launch_"] {
        ensure!(!environment.contains(secret), "the command is given {secret}");
    }
    Ok(())
}

/// More waiters than there are places: some are told to come back, nobody hangs, and who does not wait is served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_18_a_flood_of_waiters_leaves_room_for_others() -> Result<()> {
    const WAITERS: usize = 600;
    let serve = Serve::start(&Target::pools_file())?;
    let claim = serve.api().provision("flood", METAL, 1).await?;
    let path = format!("claims/{}?wait=60", claim["claim"].as_str().context("a claim")?);
    let turned_away = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (api, path, turned_away) = (serve.api().clone(), path.clone(), Arc::clone(&turned_away));
            tokio::spawn(async move {
                let answer = api.get(&path).await?;
                if answer.status == 429 {
                    turned_away.fetch_add(1, Ordering::SeqCst);
                    answer.clone().refusal(429)?;
                }
                anyhow::Ok(answer)
            })
        })
        .collect();
    until("somebody is turned away", async || Ok((turned_away.load(Ordering::SeqCst) > 0).then_some(())))
        .await?;
    serve.api().get("pools").await?.expect(200)?;
    serve.api().as_who(None).get("/health").await?.expect(200)?;
    serve.api().release("flood").await?;
    for waiter in waiters {
        let answer = timeout(PATIENCE, waiter).await.context("a waiter hangs")???;
        ensure!(answer.status == 429 || answer.body["state"] == "released", "{answer:?}");
    }
    bounded(&serve)
}

/// Endless bodies, each over a connection of its own.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_18_endless_bodies_are_cut_off_and_cost_no_memory() -> Result<()> {
    let serve = Serve::start(&Target::pools_file())?;
    let address = serve.api().base().trim_start_matches("http://").to_owned();
    let head = |path: &str, length: &str| {
        format!(
            "POST /api/v1/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\
             content-type: application/json\r\n{length}\r\n\r\n"
        )
    };
    let said = head("provision", "content-length: 1099511627776");
    let chunked = head("agent/sync", "transfer-encoding: chunked");
    let endless = (0..100).map(|number| {
        let (head, chunk): (&str, &[u8]) = match number % 2 {
            0 => (&said, &[b' '; 16 * 1024]),
            _ => (&chunked, CHUNK),
        };
        pour(&address, head, chunk)
    });
    for answer in timeout(PATIENCE, join_all(endless)).await.context("a connection hangs")? {
        // Who is still sending when the answer comes may find the connection gone.
        let answer = answer?;
        ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    serve.api().get("pools").await?.expect(200)?;
    bounded(&serve)
}

/// Connections that never say what they want keep nobody else from being served.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_18_silent_connections_keep_nobody_out() -> Result<()> {
    let serve = Serve::start(&Target::pools_file())?;
    let address = serve.api().base().trim_start_matches("http://").to_owned();
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut connection = TcpStream::connect(&address).await?;
        if number % 2 == 0 {
            connection.write_all(b"POST /api/v1/provision HTTP/1.1\r\nhost: x\r\nx-slow: ").await?;
        }
        silent.push(connection);
    }
    serve.api().get("pools").await?.expect(200)?;
    let claim = serve.api().provision("silent", METAL, 1).await?;
    ensure!(claim["state"] == "pending", "{claim}");
    // They are let go of in the end.
    let first = silent.first_mut().context("a connection")?;
    let mut rest = Vec::new();
    timeout(PATIENCE, first.read_to_end(&mut rest)).await.context("a silent connection is kept")?.ok();
    bounded(&serve)
}

/// One chunk of a body without an end: 4,000 spaces.
const CHUNK: &[u8] = &{
    let mut chunk = [b' '; 4007];
    (chunk[0], chunk[1], chunk[2], chunk[3], chunk[4]) = (b'f', b'a', b'0', b'\r', b'\n');
    (chunk[4005], chunk[4006]) = (b'\r', b'\n');
    chunk
};

/// Sends until it is told to stop, and gives the answer; at most 64 MB.
async fn pour(address: &str, head: &str, chunk: &[u8]) -> Result<String> {
    let (mut answers, mut sends) = TcpStream::connect(address).await?.into_split();
    sends.write_all(head.as_bytes()).await?;
    let sending = async {
        for _ in 0..(64 * 1024 * 1024 / chunk.len()) {
            if sends.write_all(chunk).await.is_err() {
                return;
            }
        }
    };
    let answering = async {
        let mut answer = Vec::new();
        // An answer may be cut short by what was still under way; what came counts.
        let _ = answers.read_to_end(&mut answer).await;
        answer
    };
    let ((), answer) = tokio::join!(sending, answering);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Hundreds of megabytes would be kept if bodies or waiters were.
fn bounded(serve: &Serve) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{}/status", serve.pid()))?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("serve's peak of memory")?;
    let kilobytes: u64 = peak.trim().trim_end_matches("kB").trim().parse()?;
    ensure!(kilobytes < 512 * 1024, "serve has used {kilobytes} kB");
    Ok(())
}

fn mode(path: &Path) -> Result<u32> {
    let metadata = fs::symlink_metadata(path).with_context(|| format!("{} is missing", path.display()))?;
    Ok(metadata.permissions().mode() & 0o777)
}

/// Everything at and under `path` but what jobs make, their `/tmp` and their `/etc/passwd`, which a job alone comes to; and that nobody else can use any
/// of it. The socket by which a job's hooks reach its agent is that job's group's, too.
fn closed_to_others(path: &Path) -> Result<Vec<PathBuf>> {
    let is_socket = path.ends_with("socket") || path.ends_with("socket/agent.sock");
    let closed = if is_socket { 0o007 } else { 0o077 };
    ensure!(mode(path)? & closed == 0, "{} is {:o}", path.display(), mode(path)?);
    let mut all = vec![path.to_owned()];
    if path.is_dir() && !path.ends_with("work") {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            if !path.ends_with("tmp") && !path.ends_with("passwd") {
                all.extend(closed_to_others(&path)?);
            }
        }
    }
    Ok(all)
}

/// A directory with a pools file, for a serve that gets no admin token from its environment.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Result<Self> {
        let dir = fresh_dir()?;
        fs::write(dir.path().join("pools.toml"), "[pools.small]\nbackend = \"local\"\n")?;
        Ok(Self { dir })
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn serve(&self) -> Result<Command> {
        let mut command = Command::new(binary()?);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.data())
            .arg("--pools")
            .arg(self.dir.path().join("pools.toml"))
            .env_remove("MOTORPOOL_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// A start that must fail.
    async fn ended(&self) -> Result<Output> {
        let mut child = self.serve()?.spawn().context("serve")?;
        if let Ok(url) = listening(&mut child).await {
            child.kill().await?;
            bail!("it started all the same, on {url}");
        }
        Ok(timeout(PATIENCE, child.wait_with_output()).await.context("it neither starts nor ends")??)
    }
}

/// Where it listens, once it says so.
async fn listening(child: &mut tokio::process::Child) -> Result<String> {
    let stdout = child.stdout.as_mut().context("serve's stdout")?;
    let mut line = String::new();
    tokio::io::AsyncBufReadExt::read_line(&mut tokio::io::BufReader::new(stdout), &mut line).await?;
    let url = line.trim_end().strip_prefix("listening on ").context("it does not listen")?;
    Ok(url.to_owned())
}
