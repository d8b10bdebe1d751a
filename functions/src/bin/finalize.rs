//! The function `finalize`: the consumer of the finalize queue.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Finalize).await
}
