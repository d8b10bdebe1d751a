//! The control plane: a real `motorpool serve` that speaks TLS with a certificate of its own making, on an emulated EC2 and a fake GitHub, and the
//! operator's command beside it.

use crate::HOST;
use crate::machine::ends_with_us;
use anyhow::{Context, Result, bail, ensure};
use motorpool_tests::harness::serve::{ADMIN_TOKEN, binary};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const STARTS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Plane {
    dir: PathBuf,
    port: u16,
    moto: String,
    serve: Option<Child>,
}

impl Plane {
    /// Chooses where it will be, which its pools must know; it is not started.
    pub(crate) fn at(dir: &Path, moto: &str) -> Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a free port")?;
        let port = free.local_addr()?.port();
        Ok(Self { dir: dir.to_owned(), port, moto: moto.to_owned(), serve: None })
    }

    /// As the machines reach it.
    pub(crate) fn url(&self) -> String {
        format!("https://{HOST}:{}", self.port)
    }

    /// Its certificate is for the machines' way to it, and for ours.
    pub(crate) fn furnish(&self, pools: &str, github_token: &str) -> Result<()> {
        let key = KeyPair::generate()?;
        let names = vec![HOST.to_string(), Ipv4Addr::LOCALHOST.to_string()];
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        for (name, text) in [
            ("cert.pem", certificate.pem()),
            ("key.pem", key.serialize_pem()),
            ("github-token", github_token.to_owned()),
            ("pools.toml", pools.to_owned()),
        ] {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.dir.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| name.to_owned())?;
        }
        Ok(())
    }

    pub(crate) async fn start(&mut self) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.dir.join("serve.log"))?;
        let mut command = ends_with_us(binary()?);
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--public-url", &self.url()]);
        for (option, name) in [
            ("--data-dir", "data"),
            ("--pools", "pools.toml"),
            ("--tls-cert", "cert.pem"),
            ("--tls-key", "key.pem"),
        ] {
            command.arg(option).arg(self.dir.join(name));
        }
        command
            .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
            .env("AWS_ENDPOINT_URL", &self.moto)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut serve = command.spawn().context("serve could not be started")?;
        let mut lines = BufReader::new(serve.stdout.take().context("serve's stdout")?).lines();
        let line = timeout(STARTS_WITHIN, lines.next_line()).await.context("serve says nothing")??;
        ensure!(line.is_some_and(|line| line.starts_with("listening on ")), "serve did not start");
        self.serve = Some(serve);
        Ok(())
    }

    /// The end that nobody can prepare for.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        match self.serve.take() {
            Some(mut serve) => serve.kill().await.context("the end of serve"),
            None => bail!("serve does not run"),
        }
    }

    /// The operator's command; what it answered.
    pub(crate) async fn motorpool(&self, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(binary()?);
        command.arg("--json").args(args).arg("--ca-file").arg(self.dir.join("cert.pem"));
        command.args(["--server", &format!("https://127.0.0.1:{}", self.port)]);
        command
            .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
            .env_remove("MOTORPOOL_TOKEN")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let ended = command.output().await.context("the command")?;
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(ended.status.success(), "motorpool {args:?}: {told}");
        serde_json::from_slice(&ended.stdout)
            .with_context(|| format!("motorpool {args:?} is no JSON: {told}"))
    }

    /// The one runner of a pool, as the operator sees it; nothing if there is none.
    pub(crate) async fn runner(&self, pool: &str) -> Result<Option<Value>> {
        let mut listed = self.motorpool(&["runners", "--pool", pool]).await?;
        Ok(listed["runners"].get_mut(0).map(Value::take))
    }
}
