//! The function `release`: `POST /api/v1/release`.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Release).await
}
