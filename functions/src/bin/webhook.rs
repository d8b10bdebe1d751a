//! The function `webhook`: `POST /api/v1/webhooks/github` and `/gitlab`.

use motorpool_functions::routes::Function;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    motorpool_functions::run(Function::Webhook).await
}
