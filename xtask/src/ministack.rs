//! AWS for tests: ministack. What is asked of it, it does not know.

use anyhow::Result;

use crate::cargo::Cargo;
use crate::server::Server;
use crate::venv::{Package, emulator};

/// Where the tests look for the endpoint.
pub(crate) const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

const PACKAGE: Package = Package {
    name: "ministack",
    extras: "",
    version: "1.5.33",
    beside: &[],
    needed_by: "the tests over AWS",
};

/// LocalStack has the same path.
const HEALTH: &str = "/_localstack/health";

/// Its Lambda runtime sends the head and the body of an event apart: without the switch each invocation waits 40 ms for an acknowledgement
/// in between.
const PROGRAM: &str = "
import socketserver
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
sys.argv = ['ministack']
from ministack.app import main
main()
";

/// Installs it if need be, starts it on this port of loopback or on a free one, and waits until it answers.
pub(crate) fn start(cargo: &Cargo, port: Option<u16>) -> Result<Server> {
    let python = PACKAGE.install(cargo)?;
    Server::start(PACKAGE.name, &PACKAGE.home(cargo), port, HEALTH, |address| {
        let mut command = emulator(cargo, &python, PROGRAM);
        command
            .env("BIND_HOST", address.ip().to_string())
            .env("GATEWAY_PORT", address.port().to_string())
            // Its functions get what it has.
            .env("AWS_ENDPOINT_URL", format!("http://{address}"))
            .env("LAMBDA_EXECUTOR", "local");
        command
    })
}
