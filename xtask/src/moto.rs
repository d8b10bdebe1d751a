//! EC2 for tests, as somebody else understands it: moto. The second opinion on what our requests look like; it ignores ClientToken, and is
//! never used for races. What is asked of it, it does not know.

use anyhow::Result;

use crate::cargo::Cargo;
use crate::server::Server;
use crate::venv::{Package, emulator};

/// Where the tests look for the endpoint.
pub(crate) const ENDPOINT: &str = "MOTORPOOL_MOTO_ENDPOINT";

const PACKAGE: Package = Package {
    name: "moto",
    extras: "[ec2,server]",
    version: "5.2.5",
    beside: &[],
    needed_by: "the tests over EC2",
};

const HEALTH: &str = "/moto-api/data.json";

const PROGRAM: &str = "
from moto.server import main
main(['-H', os.environ['BIND_HOST'], '-p', os.environ['BIND_PORT']])
";

/// Installs it if need be, starts it on this port of loopback or on a free one, and waits until it answers.
pub(crate) fn start(cargo: &Cargo, port: Option<u16>) -> Result<Server> {
    let python = PACKAGE.install(cargo)?;
    Server::start(PACKAGE.name, &PACKAGE.home(cargo), port, HEALTH, |address| {
        let mut command = emulator(cargo, &python, PROGRAM);
        command.env("BIND_HOST", address.ip().to_string()).env("BIND_PORT", address.port().to_string());
        command
    })
}
