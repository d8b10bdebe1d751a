//! What the Lambda functions share: settings from the environment, the control plane on DynamoDB and SQS, HTTP requests,
//! schedule events and queue messages brought to it. Each binary in `src/bin` names its function and runs it. It decides nothing.

pub mod finalize;
pub mod http;
mod logging;
pub mod plane;
pub mod refresh;
pub mod routes;
pub mod settings;

use lambda_runtime::Error;
use plane::Plane;
use routes::Function;
use settings::FromEnvironment;
use std::process::ExitCode;

/// Runs one function until its environment ends. Everything that lasts (settings, clients) is made once, here.
pub async fn run(function: Function) -> ExitCode {
    logging::start();
    match serve(function).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(function = function.name(), error = chain(&*error), "the function can't run");
            ExitCode::FAILURE
        }
    }
}

async fn serve(function: Function) -> Result<(), Error> {
    settings::must_be_lambda(|name| std::env::var(name).ok())?;
    let from = FromEnvironment::read(|name| std::env::var(name).ok())?;
    let plane = Plane::on_aws(&motorpool_aws::load().await, from);
    match function {
        Function::Finalize => lambda_runtime::run(finalize::service(plane.control())).await,
        Function::Refresh => lambda_runtime::run(refresh::service(plane.control())).await,
        Function::Provision | Function::Claim | Function::Release | Function::Webhook | Function::Gateway => {
            lambda_http::run(http::service(function, plane.router())).await
        }
    }
}

/// An error with its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
