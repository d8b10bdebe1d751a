//! `cargo xtask vm`: machines booted for real in QEMU. It builds what they run, makes their images once, starts what they need, and judges by how
//! the tests end.

mod debian;
mod image;
mod recipe;
mod small_guest;

use anyhow::Result;
use clap::ValueEnum;

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;
use crate::moto;

/// The test, the control plane and the agent, as `cargo xtask test` builds the last two.
const BINARIES: [&str; 3] = ["motorpool", "motorpool-agent", "motorpool-vm"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Machines {
    /// Those of `backend-qemu`: rolled back, live and cold, with their driver killed on the way
    Qemu,
    /// EC2 instances by their user data (`tests/vm`)
    Ec2,
}

pub(crate) fn run(machines: &[Machines]) -> Result<String> {
    let cargo = Cargo::find()?;
    let watch = Stopwatch::start();
    for machine in [Machines::Qemu, Machines::Ec2] {
        if machines.is_empty() || machines.contains(&machine) {
            match machine {
                Machines::Qemu => qemu(&cargo)?,
                Machines::Ec2 => ec2(&cargo)?,
            }
        }
    }
    Ok(format!("machines booted, worked and ended as they should, in {watch}"))
}

/// One machine at a time: under emulation, each takes a processor.
fn qemu(cargo: &Cargo) -> Result<()> {
    let guest = small_guest::ensure(cargo)?;
    let mut test = cargo.command(["test", "--package", "motorpool-backend-qemu", "--test", "machine", "--"]);
    test.args(["--ignored", "--test-threads=1", "--nocapture"]).env("MOTORPOOL_QEMU_GUEST", &guest);
    must_succeed(&mut test)
}

fn ec2(cargo: &Cargo) -> Result<()> {
    let mut build = cargo.command(["build", "--workspace", "--features", "motorpool/ec2"]);
    for binary in BINARIES {
        build.args(["--bin", binary]);
    }
    must_succeed(&mut build)?;
    let image = image::ensure(cargo)?;
    let ec2 = moto::start(cargo, None)?;
    let built = cargo.target_directory().join("debug");
    let mut test = cargo.tool(built.join("motorpool-vm"));
    test.env("MOTORPOOL_BIN", built.join("motorpool"))
        .env("MOTORPOOL_AGENT_BIN", built.join("motorpool-agent"))
        .env("MOTORPOOL_VM_IMAGE", &image)
        .env(moto::ENDPOINT, ec2.endpoint());
    must_succeed(&mut test)
}
