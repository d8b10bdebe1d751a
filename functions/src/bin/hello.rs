//! The floor of the benchmark: the least that a function behind an address can do on the same runtime, one log line included. It is
//! not deployed.

use lambda_http::{Error, Request, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let hello = service_fn(async |_: Request| {
        eprintln!("answered");
        Ok::<_, Error>("hello")
    });
    lambda_http::run(hello).await
}
