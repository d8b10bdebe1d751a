//! `cargo xtask vm`: a machine of the EC2 user data, booted for real in QEMU (`tests/vm`). It builds what the machine runs, makes the image once,
//! starts the EC2 emulator, and judges by how the test ends.

mod image;

use anyhow::Result;

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;
use crate::moto;

/// The test, the control plane and the agent, as `cargo xtask test` builds the last two.
const BINARIES: [&str; 3] = ["motorpool", "motorpool-agent", "motorpool-vm"];

pub(crate) fn run() -> Result<String> {
    let cargo = Cargo::find()?;
    let mut build = cargo.command(["build", "--workspace", "--features", "motorpool/ec2"]);
    for binary in BINARIES {
        build.args(["--bin", binary]);
    }
    must_succeed(&mut build)?;
    let image = image::ensure(&cargo)?;
    let ec2 = moto::start(&cargo, None)?;
    let watch = Stopwatch::start();
    let built = cargo.target_directory().join("debug");
    let mut test = cargo.tool(built.join("motorpool-vm"));
    test.env("MOTORPOOL_BIN", built.join("motorpool"))
        .env("MOTORPOOL_AGENT_BIN", built.join("motorpool-agent"))
        .env("MOTORPOOL_VM_IMAGE", &image)
        .env(moto::ENDPOINT, ec2.endpoint());
    must_succeed(&mut test)?;
    Ok(format!("machines booted, worked and ended as they should, in {watch}"))
}
