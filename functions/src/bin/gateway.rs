//! The function `gateway`: Every path that has no function of its own.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Gateway).await
}
