//! TLS from files: the operator's command and the local runners reach a serve that speaks nothing else.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve, binary, fresh_dir};
use motorpool_tests::harness::wait::PATIENCE;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;
use tokio::time::timeout;

const POOLS: &str = "[pools.small]\nbackend = \"local\"\nmax = 2\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_signed_itself() -> Result<()> {
    let dir = fresh_dir()?;
    let key = KeyPair::generate()?;
    let certificate = for_this_host()?.self_signed(&key)?.pem();
    let files = Files::write(dir.path(), &certificate, &key.serialize_pem(), &certificate)?;
    serves_over_tls(dir, &files).await
}

/// As an authority of one's own does it: the chain in the certificate's file, the authority's own with whoever connects.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_an_authority_of_ones_own() -> Result<()> {
    let dir = fresh_dir()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = for_this_host()?.signed_by(&key, &authority)?.pem();
    let chain = format!("{certificate}{}", authority.pem());
    let files = Files::write(dir.path(), &chain, &key.serialize_pem(), &authority.pem())?;
    serves_over_tls(dir, &files).await
}

/// As plain `openssl req -x509` makes it: to trust it is not enough, and whoever does is told so.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_not_taken_as_a_server() -> Result<()> {
    let dir = fresh_dir()?;
    let key = KeyPair::generate()?;
    let mut params = for_this_host()?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key)?.pem();
    let files = Files::write(dir.path(), &certificate, &key.serialize_pem(), &certificate)?;
    let serve = Serve::start_in(dir, POOLS, files.args())?;
    let refused = motorpool(serve.api().base(), Some(&files.ca), &["pools"]).await?;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(3) && told.contains("CA:TRUE"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_do_not_belong_together_are_refused_at_start() -> Result<()> {
    let key = KeyPair::generate()?;
    let other = KeyPair::generate()?.serialize_pem();
    let certificate = for_this_host()?.self_signed(&key)?.pem();
    let key = key.serialize_pem();
    for (cert, key) in
        [(&certificate, &other), (&certificate, &certificate), (&key, &key), (&String::new(), &key)]
    {
        let dir = fresh_dir()?;
        let files = Files::write(dir.path(), cert, key, cert)?;
        let Err(error) = Serve::start_in(dir, POOLS, files.args()) else {
            anyhow::bail!("it started all the same");
        };
        let told = format!("{error:#}");
        ensure!(told.contains("cert.pem") && told.contains("key.pem"), "{told}");
        ensure!(!told.contains("PRIVATE KEY"), "it shows the key: {told}");
    }
    Ok(())
}

async fn serves_over_tls(dir: tempfile::TempDir, files: &Files) -> Result<()> {
    let serve = Serve::start_in(dir, POOLS, files.args())?;
    let url = serve.api().base().to_owned();
    ensure!(url.starts_with("https://127.0.0.1:"), "{url}");

    let pools = json(motorpool(&url, Some(&files.ca), &["pools"]).await?)?;
    ensure!(pools["pools"][0]["pool"] == "small", "{pools}");
    // The command waits until the claim is ready: the runner's agent has come over TLS too.
    let ask = ["provision", "--pool", "small", "--workflow", "tls", "--count", "1"];
    let claim = json(motorpool(&url, Some(&files.ca), &ask).await?)?;
    ensure!(claim["state"] == "ready" && claim["runners"][0]["state"] == "running", "{claim}");
    let released = json(motorpool(&url, Some(&files.ca), &["release", "--workflow", "tls"]).await?)?;
    ensure!(released["state"] == "released", "{released}");

    // Nobody who does not know the authority is served, and nobody without TLS.
    let stranger = motorpool(&url, None, &["pools"]).await?;
    let told = String::from_utf8_lossy(&stranger.stderr).into_owned();
    ensure!(stranger.status.code() == Some(3) && stranger.stdout.is_empty(), "{told}");
    let plain = motorpool(&url.replace("https:", "http:"), Some(&files.ca), &["pools"]).await?;
    ensure!(!plain.status.success(), "{plain:?}");
    ensure!(!String::from_utf8_lossy(&plain.stdout).contains("small"), "{plain:?}");
    Ok(())
}

fn for_this_host() -> Result<CertificateParams> {
    Ok(CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?)
}

struct Files {
    cert: PathBuf,
    key: PathBuf,
    ca: PathBuf,
}

impl Files {
    fn write(dir: &Path, cert: &str, key: &str, ca: &str) -> Result<Self> {
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            std::io::Write::write_all(&mut file.context("a file")?, text.as_bytes())?;
            Ok(path)
        };
        Ok(Self { cert: write("cert.pem", cert)?, key: write("key.pem", key)?, ca: write("ca.pem", ca)? })
    }

    fn args(&self) -> Vec<OsString> {
        let Self { cert, key, ca: _ } = self;
        vec!["--tls-cert".into(), cert.into(), "--tls-key".into(), key.into()]
    }
}

/// The operator's command, as a program would call it.
async fn motorpool(url: &str, ca: Option<&Path>, args: &[&str]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.arg("--json").args(args).args(["--server", url]).env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN);
    for variable in ["MOTORPOOL_TOKEN", "MOTORPOOL_CA_FILE", "MOTORPOOL_SERVER"] {
        command.env_remove(variable);
    }
    if let Some(ca) = ca {
        command.arg("--ca-file").arg(ca);
    }
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
    timeout(PATIENCE, ended).await.context("the command hangs")?.context("the command")
}

fn json(output: Output) -> Result<Value> {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{told}");
    serde_json::from_slice(&output.stdout).with_context(|| format!("not JSON; on stderr: {told}"))
}
