//! The function `provision`: `POST /api/v1/provision`.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Provision).await
}
