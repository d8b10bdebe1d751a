//! A machine in a scratch directory: user data is written to it as cloud-init would, and its commands run with every path under that
//! directory. `systemctl` is a script that notes what it was told; all other programs are the real ones.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Debian's own Python, which cloud-init runs on: it has the YAML parser that cloud-init uses.
const TO_JSON: &str = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";

pub(crate) fn infra(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra").join(path)
}

/// The output of a program that must be there.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null()).output().with_context(|| {
        format!("{} cannot be run; `cargo xtask test` installs what these tests need", program.display())
    })
}

/// What cloud-init understands of it.
pub(crate) fn understood(user_data: &str) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("user-data.yaml");
    fs::write(&file, user_data)?;
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", TO_JSON]).stdin(fs::File::open(&file)?);
    let said = python.output().context("Debian's python3, with the package cloud-init")?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(serde_json::from_slice(&said.stdout)?)
}

/// The files that it writes: path, mode, content.
pub(crate) fn files(config: &Value) -> Result<Vec<(String, u32, String)>> {
    let text = |file: &Value, field: &str| {
        file[field].as_str().map(str::to_owned).with_context(|| format!("{field} of {file}"))
    };
    let all = config["write_files"].as_array().context("write_files")?;
    all.iter()
        .map(|file| {
            let mode = u32::from_str_radix(&text(file, "permissions")?, 8)?;
            Ok((text(file, "path")?, mode, text(file, "content")?))
        })
        .collect()
}

#[derive(Debug)]
pub(crate) struct Machine {
    dir: TempDir,
    environment: Vec<(String, OsString)>,
}

impl Machine {
    pub(crate) fn new() -> Result<Self> {
        let machine = Self { dir: tempfile::tempdir()?, environment: Vec::new() };
        fs::create_dir(machine.at("/var-tmp"))?;
        // The jobs' user has to get through it.
        fs::set_permissions(machine.dir.path(), Permissions::from_mode(0o755))?;
        machine.script("/fake-systemctl", "echo \"$*\" >>\"$MOTORPOOL_ROOT/systemctl.log\"")?;
        Ok(machine)
    }

    /// For whatever runs on it from here on.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.push((name.to_owned(), value.into()));
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.at(path)).with_context(|| path.to_owned())
    }

    pub(crate) fn mode(&self, path: &str) -> Result<u32> {
        let found = fs::metadata(self.at(path)).with_context(|| path.to_owned())?;
        Ok(found.permissions().mode() & 0o7777)
    }

    pub(crate) fn write(&self, path: &str, mode: u32, content: &str) -> Result<()> {
        let path = self.at(path);
        fs::create_dir_all(path.parent().context("a parent")?)?;
        fs::write(&path, content)?;
        Ok(fs::set_permissions(&path, Permissions::from_mode(mode))?)
    }

    pub(crate) fn script(&self, path: &str, body: &str) -> Result<()> {
        self.write(path, 0o755, &format!("#!/bin/sh\n{body}\n"))
    }

    /// Boots with this user data: its files, then its commands.
    pub(crate) fn boot(&self, user_data: &str) -> Result<Output> {
        let config = understood(user_data)?;
        for (path, mode, content) in files(&config)? {
            self.write(&path, mode, &content)?;
        }
        let commands = config["runcmd"].as_array().context("runcmd")?;
        ensure!(commands.len() == 1, "{commands:?}");
        let command = commands[0].as_str().context("a command")?;
        // Its one absolute path, under this machine's root.
        let command = command.replace("/opt/", &format!("{}/opt/", self.dir.path().display()));
        let command = command.replace("|| systemctl", "|| \"$MOTORPOOL_SYSTEMCTL\"");
        self.run(Command::new("/bin/sh").arg("-c").arg(command))
    }

    pub(crate) fn run(&self, command: &mut Command) -> Result<Output> {
        command
            .env("MOTORPOOL_ROOT", self.dir.path())
            .env("MOTORPOOL_SYSTEMCTL", self.at("/fake-systemctl"))
            .env("MOTORPOOL_CONSOLE", self.at("/console"))
            .env("MOTORPOOL_RETRY_SECONDS", "0")
            .env("TMPDIR", self.at("/var-tmp"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        for proxy in ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        output(command)
    }

    /// What systemd was told, in order.
    pub(crate) fn told(&self) -> Vec<String> {
        self.read("/systemctl.log").unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Every file, with its content.
    pub(crate) fn everything(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir)? {
                let path = entry?.path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let name = path.strip_prefix(self.dir.path())?.display().to_string();
                    found.insert(format!("/{name}"), fs::read(&path)?);
                }
            }
        }
        Ok(found)
    }
}

/// HTTPS on loopback, serving the files of a directory; with a certificate that only `ca` vouches for.
#[derive(Debug)]
pub(crate) struct FileServer {
    child: Child,
    pub(crate) url: String,
    pub(crate) ca: PathBuf,
}

const SERVER: &str = "
import http.server, ssl, sys
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

impl FileServer {
    pub(crate) fn start(dir: &Path, keys: &Path) -> Result<Self> {
        let key = rcgen::KeyPair::generate()?;
        let cert = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
        let (ca, key_file) = (keys.join("cert.pem"), keys.join("key.pem"));
        fs::write(&ca, cert.pem())?;
        fs::write(&key_file, key.serialize_pem())?;
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", SERVER])
            .args([&ca, &key_file])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("python3")?;
        let mut port = String::new();
        BufReader::new(child.stdout.take().context("its stdout")?).read_line(&mut port)?;
        let url = format!("https://127.0.0.1:{}", port.trim());
        Ok(Self { child, url, ca })
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // It has nothing to put away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
