//! Machines on EC2 that could not call home are never asked for: a serve that they could not reach, or would not trust, is refused at its
//! start, and so is a pool that is defined later.

use anyhow::{Context, Result, ensure};
use motorpool_ec2_tests::moto::{self, Place};
use motorpool_tests::harness::serve::{Serve, fresh_dir};
use motorpool_tests::harness::wait::until;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::{Certificate, Client, Url};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const HOST: &str = "pool.example.org";
const PUBLIC: [&str; 2] = ["--public-url", "https://pool.example.org:8443"];
const POOL: &str = r#"
[pools.cloud]
backend = "ec2"
clean = "replace"
cpu = 2
memory_mb = 4096
ec2 = { image = "ami-0123456789abcdef0", subnets = ["subnet-0123456789abcdef0"], security_groups = ["sg-0123456789abcdef0"] }
"#;
/// For a serve that may have pools on EC2, and has none yet.
const NONE: &str = "[pools.small]\nbackend = \"local\"\n";

fn pool() -> Value {
    json!({
        "backend": "ec2", "clean": "replace", "cpu": 2, "memory_mb": 4096,
        "ec2": {
            "image": "ami-0123456789abcdef0",
            "subnets": ["subnet-0123456789abcdef0"],
            "security_groups": ["sg-0123456789abcdef0"],
        },
    })
}

/// Nobody listens there: whatever asks EC2 is told so at once.
fn aws() -> Vec<(String, String)> {
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn start(pools: &str, args: &[&str]) -> Result<Serve> {
    Serve::start_where(pools, args, aws())
}

/// What it says, in one line, if it is the refusal of a start and not the end of a serve that ran.
fn refusal(started: Result<Serve>) -> Result<String> {
    let told = format!("{:#}", started.err().context("it started all the same")?);
    let line = told.lines().find(|line| line.contains("error:")).with_context(|| told.clone())?;
    ensure!(told.contains("hint:"), "it does not say what to do: {told}");
    Ok(line.to_owned())
}

#[test]
fn an_address_that_machines_could_not_use_is_refused_at_start() -> Result<()> {
    for (url, why) in [
        (None, "--public-url is not given"),
        (Some("http://pool.example.org"), "plain http"),
        (Some("pool.example.org"), "no URL"),
        (Some("pool.example.org:8443"), "must begin with https://"),
        (Some("https://127.0.0.1:8443"), "127.0.0.1 is this host itself"),
        (Some("https://localhost"), "localhost is this host itself"),
        (Some("https://[::1]:8443"), "::1 is this host itself"),
        (Some("https://0.0.0.0:8443"), "0.0.0.0 is this host itself"),
        (Some("https://me:hush@pool.example.org"), "a user or a password"),
        (Some("https://pool.example.org/a'b"), "can't stand in user data"),
    ] {
        let args: Vec<&str> = url.iter().flat_map(|url| ["--public-url", url]).collect();
        let told = refusal(start(POOL, &args)).with_context(|| format!("{url:?}"))?;
        ensure!(told.contains("pool cloud") && told.contains("--public-url"), "{url:?}: {told}");
        ensure!(told.contains(why) && !told.contains("hush"), "{url:?}: {told}");
        // Who has no pool on EC2 is not asked for it.
        start(NONE, &args).with_context(|| format!("{url:?}"))?;
    }
    Ok(())
}

/// Something before this server has the certificate: nothing can be known of it here.
#[test]
fn a_proxy_may_have_the_certificate() -> Result<()> {
    start(POOL, &PUBLIC).map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_defined_later_is_refused_then() -> Result<()> {
    let serve = start(NONE, &[])?;
    for refused in
        [serve.api().put("pools/cloud", pool()).await?, serve.api().post("pools/cloud/plan", pool()).await?]
    {
        let (_, why) = refused.refusal(400)?;
        ensure!(why.contains("--public-url is not given"), "{why}");
    }
    ensure!(serve.api().get("pools/cloud").await?.status == 404, "it was defined all the same");
    Ok(())
}

/// The pool is in the ledger, and the next start has no address to tell its machines. Only a server that runs can change it, or end them.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_was_defined_before_keeps_nobody_from_starting() -> Result<()> {
    let endpoint = moto::endpoint()?;
    let Place { image, subnets, security_groups } = moto::place(&endpoint).await?;
    let mut environment = aws();
    environment.push(("AWS_ENDPOINT_URL".to_owned(), endpoint));
    let mut serve = Serve::start_where(NONE, &PUBLIC, environment.clone())?;
    let mut settings = pool();
    settings["ec2"] = json!({"image": image, "subnets": subnets, "security_groups": security_groups});
    serve.api().put("pools/cloud", settings).await?.expect(200)?;
    serve.stop()?;

    let again = Serve::start_with(with_the_data_of(&serve)?, NONE, Vec::new(), environment)?;
    let claim = again.api().provision("gh-1", "cloud", 1).await?;
    let why = claim["why"].as_str().context("no reason")?;
    ensure!(why.contains("--public-url is not given"), "nothing is launched, and it says so: {claim}");
    again.api().release("gh-1").await?;
    until("the pool is deleted", async || {
        Ok((again.api().delete("pools/cloud").await?.status == 204).then_some(()))
    })
    .await
}

/// Whoever takes the pool out of the file, and with it the address, still has its machines to see and to end.
#[tokio::test(flavor = "multi_thread")]
async fn machines_of_an_earlier_start_are_ended_without_an_address() -> Result<()> {
    let endpoint = moto::endpoint()?;
    let Place { image, subnets, security_groups } = moto::place(&endpoint).await?;
    let pools = POOL
        .replace("ami-0123456789abcdef0", &image)
        .replace("subnet-0123456789abcdef0", &subnets[0])
        .replace("sg-0123456789abcdef0", &security_groups[0]);
    let mut environment = aws();
    environment.push(("AWS_ENDPOINT_URL".to_owned(), endpoint.clone()));
    let mut serve = Serve::start_where(&pools, &PUBLIC, environment.clone())?;
    serve.api().provision("gh-1", "cloud", 1).await?;
    let runner = until("an instance is launched", async || {
        let runners = serve.api().runners("cloud").await?;
        Ok(runners.into_iter().find(|runner| runner["provider_id"].is_string()))
    })
    .await?;
    serve.stop()?;

    let again = Serve::start_with(with_the_data_of(&serve)?, NONE, Vec::new(), environment)?;
    let (id, instance) = (&runner["runner"], &runner["provider_id"]);
    let (id, instance) = (id.as_str().context("an id")?, instance.as_str().context("an instance")?);
    again.api().delete(&format!("runners/{id}?force=true")).await?.expect(202)?;
    until("the instance is gone", async || {
        let seen = moto::asked(&endpoint, &format!("DescribeInstances&InstanceId.1={instance}")).await?;
        Ok(moto::texts(&seen, "name").iter().any(|state| state == "terminated").then_some(()))
    })
    .await
}

/// As if it had been started there.
fn with_the_data_of(stopped: &Serve) -> Result<TempDir> {
    let dir = fresh_dir()?;
    let data = dir.path().join("data");
    fs::create_dir(&data)?;
    for entry in fs::read_dir(stopped.data_dir())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), data.join(entry.file_name()))?;
        }
    }
    Ok(dir)
}

/// A certificate is taken for pools on EC2 if an agent that is given it takes the server that has it, and else not.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_taken_if_agents_take_it() -> Result<()> {
    let mut disagreed = Vec::new();
    for (name, expected, files) in certificates()? {
        let dir = fresh_dir()?;
        let args = files.written(dir.path())?;
        let alone = Serve::start_in(dir, NONE, args)?;
        let agents = agents_take(&alone, &files.certificate).await?;

        let dir = fresh_dir()?;
        let args = files.written(dir.path())?;
        let (taken, told) = match Serve::start_with(dir, POOL, args, aws()) {
            Ok(_) => (true, String::new()),
            refused @ Err(_) => (false, refusal(refused)?),
        };
        if agents != taken || taken != expected.is_empty() || !told.contains(expected) {
            disagreed.push(format!("{name}: agents {agents}, serve {taken}: {told}"));
        }
        ensure!(taken || told.contains("cert.pem"), "{name}: {told}");
    }
    ensure!(disagreed.is_empty(), "{}", disagreed.join("\n"));
    Ok(())
}

/// It speaks TLS to this server too, with a certificate that no agent ever meets.
#[test]
fn a_proxy_may_have_another_certificate() -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["inside.example".to_owned()])?.self_signed(&key)?.pem();
    let files = Files { certificate, key: key.serialize_pem() };
    let dir = fresh_dir()?;
    let mut args = files.written(dir.path())?;
    args.push("--tls-by-proxy".into());
    Serve::start_with(dir, POOL, args, aws()).map(drop)
}

/// An address is a name as well.
#[test]
fn a_certificate_may_be_for_an_address() -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["10.0.0.5".to_owned()])?.self_signed(&key)?.pem();
    let files = Files { certificate, key: key.serialize_pem() };
    for (url, refused) in [
        ("https://10.0.0.5:8443", None),
        ("https://10.0.0.6:8443", Some("is not for 10.0.0.6 but for 10.0.0.5")),
    ] {
        let dir = fresh_dir()?;
        let mut args = files.written(dir.path())?;
        args[1] = url.into();
        let started = Serve::start_with(dir, POOL, args, aws());
        match refused {
            None => drop(started?),
            Some(why) => {
                let told = refusal(started)?;
                ensure!(told.contains(why), "{told}");
            }
        }
    }
    Ok(())
}

struct Files {
    certificate: String,
    key: String,
}

impl Files {
    fn written(&self, dir: &Path) -> Result<Vec<OsString>> {
        let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        fs::write(&certificate, &self.certificate)?;
        fs::write(&key, &self.key)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let files = ["--tls-cert".into(), certificate.into(), "--tls-key".into(), key.into()];
        Ok(PUBLIC.iter().map(OsString::from).chain(files).collect())
    }
}

/// Each with what a refusal says of it; empty: it is taken.
fn certificates() -> Result<Vec<(&'static str, &'static str, Files)>> {
    let key = KeyPair::generate()?;
    let own = |params: CertificateParams, around: &dyn Fn(String) -> String| -> Result<Files> {
        Ok(Files { certificate: around(params.self_signed(&key)?.pem()), key: key.serialize_pem() })
    };
    let plain = |pem: String| pem;
    let named = |host: &str| CertificateParams::new(vec![host.to_owned()]);
    let mut its_own_authority = named(HOST)?;
    its_own_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut old = named(HOST)?;
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let mut early = named(HOST)?;
    early.not_before = rcgen::date_time_ymd(4000, 1, 1);

    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Else it would have the same as all others here, and be taken for them.
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let leaf = named(HOST)?.signed_by(&key, &authority)?.pem();
    let signed = |certificate: String| Files { certificate, key: key.serialize_pem() };
    Ok(vec![
        ("signed by itself", "", own(named(HOST)?, &plain)?),
        ("with a description", "", own(named(HOST)?, &|pem| format!("Certificate:\n  Data: \"x\"\n{pem}"))?),
        ("with its key", "", own(named(HOST)?, &|pem| format!("{}{pem}", key.serialize_pem()))?),
        ("of an authority", "", signed(format!("{leaf}{}", authority.pem()))),
        ("of an authority that is left out", "the authority that signed it", signed(leaf)),
        ("an authority itself", "CA:TRUE", own(its_own_authority, &plain)?),
        (
            "for another",
            "not for pool.example.org but for other.example",
            own(named("other.example")?, &plain)?,
        ),
        ("for nobody", "not for pool.example.org", own(CertificateParams::new(Vec::new())?, &plain)?),
        ("expired", "expired", own(old, &plain)?),
        ("of the future", "not valid yet", own(early, &plain)?),
    ])
}

/// As an agent is that was launched with this file. The name is known to nobody, so it is told where it is.
async fn agents_take(serve: &Serve, pem: &str) -> Result<bool> {
    let base = Url::parse(serve.api().base())?;
    let port = base.port().context("a port")?;
    let client = Client::builder()
        .no_proxy()
        .resolve(HOST, SocketAddr::from(([127, 0, 0, 1], port)))
        .tls_certs_merge(Certificate::from_pem_bundle(pem.as_bytes())?)
        .build()?;
    match client.get(format!("https://{HOST}:{port}/health")).send().await {
        Ok(answer) => Ok(answer.status().is_success()),
        Err(error) => {
            let told = format!("{:?}", anyhow::Error::from(error));
            ensure!(told.contains("invalid peer certificate"), "not for its certificate: {told}");
            Ok(false)
        }
    }
}

#[test]
fn more_certificates_than_user_data_can_hold_are_refused_at_start() -> Result<()> {
    let key = KeyPair::generate()?;
    let pem = CertificateParams::new(vec![HOST.to_owned()])?.self_signed(&key)?.pem();
    let files = Files { certificate: pem.repeat(40), key: key.serialize_pem() };
    let dir = fresh_dir()?;
    let args = files.written(dir.path())?;
    let told = refusal(Serve::start_with(dir, POOL, args, aws()))?;
    ensure!(told.contains("--tls-cert") && told.contains("16384") && told.contains("pool cloud"), "{told}");
    Ok(())
}

/// The page's own command, run as it stands there.
#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_that_the_documentation_makes_is_taken() -> Result<()> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ec2.md"))?;
    let block = page
        .split("```")
        .find(|block| block.contains("openssl req"))
        .and_then(|block| block.strip_prefix("sh\n"))
        .context("docs/ec2.md has no openssl line")?;
    let dir = fresh_dir()?;
    let lines: Vec<&str> = block.lines().map(str::trim_start).collect();
    let made = Command::new("sh").args(["-euc", &lines.join("\n")]).current_dir(dir.path()).output();
    let made = made.context("a shell")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).with_context(|| name.to_owned());
    let files = Files { certificate: read("cert.pem")?, key: read("key.pem")? };

    let home = fresh_dir()?;
    let args = files.written(home.path())?;
    let serve = Serve::start_with(home, POOL, args, aws())?;
    ensure!(agents_take(&serve, &files.certificate).await?, "agents do not take it");
    Ok(())
}
