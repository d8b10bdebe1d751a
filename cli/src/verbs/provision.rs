//! `provision`: ask for runners, and wait until they are ready. Whoever stops waiting leaves the claim as it is.

mod progress;

use std::time::Duration;

use motorpool_wire::api::{ClaimView, ProvisionRequest};

use super::claims;
use crate::args::{ProvisionArgs, WantArgs};
use crate::client::{ApiResponse, Client};
use crate::clock::Stopwatch;
use crate::errors::{Failure, FailureKind};
use crate::output::Report;
use crate::output::words::span;
use progress::Progress;

/// How long the server is asked to hold one answer back. It answers when the claim is decided; in between, this often, it
/// is heard how the claim gets on.
const POLL: Duration = Duration::from_secs(5);
/// A server that does not hold it back is asked no oftener.
const PACE: Duration = Duration::from_millis(500);
/// A server that restarts is waited for, but not for ever.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: ProvisionArgs) -> Result<Report, Failure> {
    let ProvisionArgs { connect, pool, workflow, count, want, no_wait, timeout } = args;
    let WantArgs { max_runtime_minutes, usage, types, resource_class } = want;
    let request = ProvisionRequest {
        workflow,
        pool,
        count,
        max_runtime_minutes,
        usage,
        allowed_instance_types: types,
        resource_class,
    };
    let client = Client::new(&connect)?;
    let watch = Stopwatch::start();
    let opened = tokio::select! {
        opened = client.provision(&request) => opened?,
        () = interrupt() => return Err(interrupted_before_an_answer(&request)),
    };
    if no_wait {
        return Ok(Report::of(opened, claims::in_words));
    }
    let (answer, outcome) = wait(&client, opened, watch, timeout.map(Duration::from_secs)).await;
    Ok(told(answer, outcome, watch.elapsed()))
}

/// Why the wait is over.
enum Outcome {
    /// The claim waits for nothing.
    Decided,
    TimeIsUp,
    Interrupted,
    /// The server refused, or was not reachable for too long.
    Lost(Failure),
}

/// A ready claim that lost a runner waits for another.
fn decided(claim: &ClaimView) -> bool {
    claim.state != "pending" && claim.short == 0
}

async fn wait(
    client: &Client,
    mut answer: ApiResponse<ClaimView>,
    watch: Stopwatch,
    timeout: Option<Duration>,
) -> (ApiResponse<ClaimView>, Outcome) {
    let mut progress = Progress::start();
    let mut unreachable: Option<Stopwatch> = None;
    let outcome = loop {
        if decided(&answer.value) {
            break Outcome::Decided;
        }
        let left = timeout.map_or(POLL, |timeout| timeout.saturating_sub(watch.elapsed()).min(POLL));
        if left.is_zero() {
            break Outcome::TimeIsUp;
        }
        if unreachable.is_none() {
            progress.claim(&answer.value, watch.elapsed());
        }
        let asked = Stopwatch::start();
        let polled = tokio::select! {
            // The server counts in whole seconds; what is left of the last one is waited for below.
            polled = client.claim(&answer.value.claim, Duration::from_secs(left.as_secs())) => polled,
            () = progress.keep_showing(watch) => continue,
            () = interrupt() => break Outcome::Interrupted,
        };
        match polled {
            Ok(next) => {
                answer = next;
                unreachable = None;
            }
            Err(failure) if failure.kind == FailureKind::Unreachable => {
                let since = *unreachable.get_or_insert_with(Stopwatch::start);
                if since.elapsed() > PATIENCE {
                    break Outcome::Lost(failure);
                }
                progress.note("the server is not reachable; trying again", watch.elapsed());
            }
            Err(failure) => break Outcome::Lost(failure),
        }
        if !decided(&answer.value) {
            tokio::select! {
                () = tokio::time::sleep(PACE.min(left).saturating_sub(asked.elapsed())) => {}
                () = interrupt() => break Outcome::Interrupted,
            }
        }
    };
    progress.end();
    (answer, outcome)
}

fn told(answer: ApiResponse<ClaimView>, outcome: Outcome, took: Duration) -> Report {
    let claim = answer.value.clone();
    let goes_on = format!(
        "it goes on; follow it with `motorpool why {}`, or end it with `{}`",
        claim.claim,
        claims::release_command(&claim)
    );
    let mut words = claims::in_words(&claim);
    let failure = match outcome {
        Outcome::Decided if claim.state == "ready" => {
            words = format!(
                "ready after {}\n{words}\n\ngive back with: {}",
                span(took),
                claims::release_command(&claim)
            );
            None
        }
        Outcome::Decided => Some(Failure::failed(
            format!("claim {} is {}: {}", claim.claim, claim.state, claim.why),
            format!("`motorpool why {}` tells its story", claim.claim),
        )),
        Outcome::TimeIsUp => Some(Failure::failed(
            format!("claim {} still waits after {}: {}", claim.claim, span(took), claim.why),
            goes_on,
        )),
        Outcome::Interrupted => Some(Failure::new(
            FailureKind::Interrupted,
            format!("stopped waiting for claim {} after {}", claim.claim, span(took)),
            goes_on,
        )),
        Outcome::Lost(Failure { kind, message, hint: _ }) => {
            Some(Failure::new(kind, format!("lost sight of claim {}: {message}", claim.claim), goes_on))
        }
    };
    Report::new(answer.json, words).failing(failure)
}

fn interrupted_before_an_answer(request: &ProvisionRequest) -> Failure {
    let ProvisionRequest { workflow, pool, .. } = request;
    Failure::new(
        FailureKind::Interrupted,
        "stopped before the server answered: there may be a claim",
        format!(
            "`motorpool why {workflow}` tells; `motorpool release --workflow {workflow} --pool {pool}` ends it"
        ),
    )
}

/// Ctrl-C. Where it can't be listened for, it ends the process as ever.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::claims::tests::claim;

    fn report(state: &str, outcome: Outcome) -> Report {
        let value = claim(state, 0);
        let json = serde_json::to_value(&value).unwrap();
        told(ApiResponse { value, json }, outcome, Duration::from_millis(4_200))
    }

    #[test]
    fn a_ready_claim_says_how_to_give_it_back() {
        let report = report("ready", Outcome::Decided);
        assert!(report.failure.is_none());
        assert!(report.words.starts_with("ready after 4.2 s\nclaim     c-abc\n"), "{}", report.words);
        assert!(report.words.ends_with("motorpool release --workflow gh-1 --pool small"), "{}", report.words);
    }

    #[test]
    fn every_other_end_fails_and_says_what_to_do() {
        let failed = report("failed", Outcome::Decided).failure.unwrap();
        assert_eq!(failed.message, "claim c-abc is failed: it waits for a slot");
        for outcome in [
            Outcome::TimeIsUp,
            Outcome::Interrupted,
            Outcome::Lost(Failure::new(FailureKind::Unreachable, "cannot reach it", "")),
        ] {
            let failure = report("pending", outcome).failure.unwrap();
            assert!(failure.hint.contains("motorpool release --workflow gh-1 --pool small"), "{failure:?}");
        }
    }
}
