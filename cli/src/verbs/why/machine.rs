//! The story of a machine, or of a job's checkpoint on one.

use motorpool_domain::runner::StateName;
use motorpool_domain::{AuditEntry, CheckpointName, RunnerId, Timestamp};
use motorpool_wire::api::RunnerView;
use motorpool_wire::checkpoint::CheckpointView;

use crate::client::Client;
use crate::clock;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::words::span_ms;
use crate::verbs::audit;

/// A machine lives long: what happened to it last is what is asked for, and `motorpool audit` has the rest.
const LAST: usize = 20;

/// Nothing if there is no such runner, or none that the caller may look at: a team knows its claims.
pub(super) async fn of_runner(client: &Client, runner: &RunnerId) -> Result<Option<Report>, Failure> {
    let answer = match client.runner(runner).await {
        Ok(answer) => answer,
        Err(failure) if failure.is_not_found() || failure.is_forbidden() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let history = client.audit(runner.as_str()).await?.value.entries;
    Ok(Some(Report::of(answer, |view| {
        format!("{}{}", runner_in_words(view), told(history, runner.as_str(), clock::now()))
    })))
}

pub(super) async fn of_checkpoint(client: &Client, name: &CheckpointName) -> Result<Report, Failure> {
    let answer = client.checkpoint(name).await?;
    let runner = match client.runner(&answer.value.runner_id).await {
        Ok(answer) => Some(answer.value),
        Err(failure) if failure.is_not_found() => None,
        Err(failure) => return Err(failure),
    };
    let subject = format!("checkpoint:{name}");
    let history = client.audit(&subject).await?.value.entries;
    Ok(Report::of(answer, |view| {
        format!("{}{}", checkpoint_in_words(view, runner.as_ref()), told(history, &subject, clock::now()))
    }))
}

fn runner_in_words(runner: &RunnerView) -> String {
    let RunnerView { runner: id, pool, state, why, proof, claim, in_state_ms, .. } = runner;
    let mut text = format!("runner {id} of pool {pool} is {state} for {}", span_ms(*in_state_ms));
    let reason = match state {
        StateName::Idle => proof,
        StateName::Created
        | StateName::Resetting
        | StateName::Claimed
        | StateName::Running
        | StateName::Releasing
        | StateName::Quarantined
        | StateName::Terminating
        | StateName::Terminated => why,
    };
    if let Some(reason) = reason {
        text.push_str(&format!(": {reason}"));
    }
    if let Some(claim) = claim {
        text.push_str(&format!("\nclaim {claim} has it: `motorpool why {claim}`"));
    }
    if *state == StateName::Quarantined {
        text.push_str(&format!("\nWhen it is well again: `motorpool runners release {id}`"));
    }
    text
}

/// With the machine that is to be clean, while it is not.
fn checkpoint_in_words(checkpoint: &CheckpointView, runner: Option<&RunnerView>) -> String {
    let CheckpointView { name, runner_id, job_id, state, why, .. } = checkpoint;
    let text = format!("checkpoint {name} of job {job_id} on runner {runner_id} is {state}: {why}");
    match runner.filter(|_| state == "created" || state == "finalize_queued") {
        Some(runner) => format!("{text}\n{}", runner_in_words(runner)),
        None => text,
    }
}

/// The server tells the newest first.
fn told(mut history: Vec<AuditEntry>, subject: &str, now: Timestamp) -> String {
    if history.is_empty() {
        return String::new();
    }
    let earlier = history.len().saturating_sub(LAST);
    history.truncate(LAST);
    history.reverse();
    let more = match earlier {
        0 => String::new(),
        _ => format!("{earlier} more before that: `motorpool audit {subject}`\n"),
    };
    format!("\n\nWhat happened:\n{more}{}", audit::entries(&history, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::runners::tests::runner;
    use motorpool_domain::Actor;

    #[test]
    fn a_quarantined_machine_says_why_and_what_lets_it_out() {
        assert_eq!(
            runner_in_words(&runner(StateName::Quarantined)),
            "runner mac-01 of pool macs is quarantined for 1 min 5 s: its cleanup failed 3 times\n\
             When it is well again: `motorpool runners release mac-01`"
        );
    }

    #[test]
    fn an_idle_machine_says_what_proves_that_it_is_clean() {
        let idle = RunnerView { proof: Some("its reset succeeded".to_owned()), ..runner(StateName::Idle) };
        assert_eq!(
            runner_in_words(&idle),
            "runner mac-01 of pool macs is idle for 1 min 5 s: its reset succeeded"
        );
    }

    #[test]
    fn a_checkpoint_tells_of_its_machine_while_that_is_not_clean() {
        let queued = CheckpointView {
            name: CheckpointName::parse("job-42-1-00000000").unwrap(),
            runner_id: RunnerId::parse("mac-01").unwrap(),
            job_id: "42".parse().unwrap(),
            state: "finalize_queued".to_owned(),
            created_at: String::new(),
            caller: None,
            finalize_status: None,
            finalize_source: None,
            finalized_at: None,
            why: "its machine is quarantined".to_owned(),
        };
        let words = checkpoint_in_words(&queued, Some(&runner(StateName::Quarantined)));
        let first = "checkpoint job-42-1-00000000 of job 42 on runner mac-01 is finalize_queued: its machine is quarantined";
        assert_eq!(words.lines().next(), Some(first));
        assert!(words.ends_with("`motorpool runners release mac-01`"), "{words}");
        let ended = CheckpointView { state: "reset".to_owned(), ..queued };
        assert_eq!(checkpoint_in_words(&ended, Some(&runner(StateName::Idle))).lines().count(), 1);
    }

    #[test]
    fn a_long_story_is_cut_and_says_so() {
        let entry = |number: u64| {
            AuditEntry::of(Timestamp::from_millis(number), Actor::Refresh, "noted", format!("look {number}"))
        };
        let words = told((1..=23).rev().map(entry).collect(), "mac-01", Timestamp::from_millis(1_000));
        let lines: Vec<&str> = words.lines().skip(2).collect();
        assert_eq!(lines.len(), 22, "{words}");
        assert_eq!(lines.get(1), Some(&"3 more before that: `motorpool audit mac-01`"));
        assert!(lines.get(2).is_some_and(|line| line.ends_with("look 4")), "{words}");
        assert_eq!(told(Vec::new(), "mac-01", Timestamp::from_millis(0)), "");
    }
}
