//! A machine of the EC2 user data, booted for real: Debian's kernel, systemd and cloud-init in QEMU, under software emulation. A real `serve`
//! asks an emulated EC2 for an instance; what the instance is told is what the machine boots with. Run by `cargo xtask vm`, which names the
//! binaries, the emulator and the image in the environment. It tells what it saw, and ends with the machine's console if something is missing.

mod clock;
mod downloads;
mod guest;
mod inspect;
mod job;
mod machine;
mod metadata;
mod pipe;
mod plane;
mod stories;
mod wait;

use anyhow::{Context, Result, bail};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Only something that hangs takes so long: a story takes two or three minutes on a free host.
const WITHIN: Duration = Duration::from_secs(30 * 60);

/// Where the guest finds this host's loopback: QEMU's user network has it so.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// What `cargo xtask vm` brings.
#[derive(Debug)]
struct Settings {
    agent: PathBuf,
    image: PathBuf,
    moto: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next(), args.next()) {
        (Some(pipe::NAME), Some(address), None) => return pipe::run(&address),
        (None, None, None) => {}
        _ => bail!("it takes no arguments: run `cargo xtask vm`"),
    }
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).with_context(|| named(name));
    let settings = Settings {
        agent: path("MOTORPOOL_AGENT_BIN")?,
        image: path("MOTORPOOL_VM_IMAGE")?,
        moto: motorpool_ec2_tests::moto::endpoint()?,
    };
    let dir = tempfile::TempDir::with_prefix("motorpool-vm-").context("a directory for the machines")?;
    let told = tokio::time::timeout(WITHIN, stories::tell(&settings, dir.path())).await;
    let told = told.with_context(|| format!("it is not over after {} s", WITHIN.as_secs())).flatten();
    if told.is_err() {
        for log in ["serve.log", "console.log"] {
            eprintln!("--- the end of {log} ---\n{}", tail(&dir.path().join(log)));
        }
    }
    told
}

fn named(variable: &str) -> String {
    format!("{variable} is not set: `cargo xtask vm` builds what is needed, and sets it")
}

fn tail(file: &Path) -> String {
    const LINES: usize = 60;
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace(|c: char| c.is_control() && c != '\n', "");
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
