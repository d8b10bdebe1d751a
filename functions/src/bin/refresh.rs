//! The function `refresh`: One pass of refresh, called by a schedule.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Refresh).await
}
