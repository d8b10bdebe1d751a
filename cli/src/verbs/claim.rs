//! `claim`: one idle runner now, or none.

use motorpool_wire::api::ClaimRequest;

use super::claims;
use crate::args::{ClaimArgs, WantArgs};
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;

pub(crate) async fn run(args: ClaimArgs) -> Result<Report, Failure> {
    let ClaimArgs { connect, pool, workflow, want } = args;
    let WantArgs { max_runtime_minutes, usage, types, resource_class } = want;
    let request = ClaimRequest {
        workflow,
        pool,
        max_runtime_minutes,
        usage,
        allowed_instance_types: types,
        resource_class,
    };
    Ok(Report::of(Client::new(&connect)?.claim_now(&request).await?, claims::in_words))
}
