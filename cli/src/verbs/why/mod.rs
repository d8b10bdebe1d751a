//! `why`: in plain words what a claim, a job's checkpoint or a machine waits for, or how it ended, and what happened before.

mod claim;
mod machine;

use motorpool_domain::{CheckpointName, RunnerId};

use crate::args::WhyArgs;
use crate::client::Client;
use crate::clock;
use crate::errors::Failure;
use crate::output::Report;

pub(crate) async fn run(args: WhyArgs) -> Result<Report, Failure> {
    let WhyArgs { connect, subject, pool } = args;
    let client = Client::new(&connect)?;
    // Only a checkpoint is called so; the others are looked for.
    if let Ok(checkpoint) = CheckpointName::parse(subject.as_str()) {
        return machine::of_checkpoint(&client, &checkpoint).await;
    }
    if let Some(answer) = claim::by_id(&client, &subject).await? {
        return Ok(Report::of(answer, |why| claim::in_words(why, &[], clock::now())));
    }
    if let Some((answer, others)) = claim::by_workflow(&client, &subject, pool.as_ref()).await? {
        return Ok(Report::of(answer, |why| claim::in_words(why, &others, clock::now())));
    }
    let runner = RunnerId::parse(subject.as_str()).ok().filter(|_| pool.is_none());
    if let Some(runner) = runner
        && let Some(report) = machine::of_runner(&client, &runner).await?
    {
        return Ok(report);
    }
    Err(Failure::failed(
        format!("there is no claim {subject}, no claim of a workflow {subject}, and no runner {subject}"),
        "`motorpool claims --all` and `motorpool runners` list those that are",
    ))
}
