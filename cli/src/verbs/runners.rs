//! `runners`: list, show, and the operator's verbs on one: add, remove, release from quarantine, a new secret.

use motorpool_domain::runner::{Removal, StateName};
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner, RunnerView};

use super::{joined, pools_asked};
use crate::args::{AddRunnerArgs, RunnersArgs, RunnersFilter, RunnersVerb};
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::{facts, table};
use crate::output::words::span_ms;

pub(crate) async fn run(args: RunnersArgs) -> Result<Report, Failure> {
    let RunnersArgs { connect, filter, verb } = args;
    if verb.is_some() && (filter.pool.is_some() || filter.state.is_some()) {
        return Err(Failure::usage(
            "--pool and --state before a verb are for the list",
            "leave them out, or write them after the verb if it has them",
        ));
    }
    let client = Client::new(&connect)?;
    match verb {
        None => listed(&client, filter).await,
        Some(RunnersVerb::Show { runner }) => Ok(Report::of(client.runner(&runner).await?, one)),
        Some(RunnersVerb::Add(add)) => added(&client, add).await,
        Some(RunnersVerb::Remove { runner, drain, force }) => {
            let removal = match (drain, force) {
                (_, true) => Removal::Force,
                (true, false) => Removal::Drain,
                (false, false) => Removal::IfFree,
            };
            Ok(Report::of(client.remove_runner(&runner, removal).await?, removed))
        }
        Some(RunnersVerb::Release { runner }) => {
            Ok(Report::of(client.release_runner(&runner).await?, |view| {
                format!("runner {} is {}: it is cleaned, and then idle", view.runner, view.state)
            }))
        }
        Some(RunnersVerb::Token { runner }) => Ok(Report::of(client.rotate_token(&runner).await?, |new| {
            secret(new, client.server(), "has a new secret")
        })),
    }
}

async fn listed(client: &Client, filter: RunnersFilter) -> Result<Report, Failure> {
    let RunnersFilter { pool, state } = filter;
    let mut runners = Vec::new();
    let mut documents = Vec::new();
    for pool in pools_asked(client, pool.as_ref()).await? {
        let answer = client.runners(&pool, state).await?;
        runners.extend(answer.value.runners);
        documents.push(answer.json);
    }
    Ok(Report::new(joined("runners", documents), list(&runners)))
}

fn list(runners: &[RunnerView]) -> String {
    if runners.is_empty() {
        return "There are no such runners.".to_owned();
    }
    let rows = runners.iter().map(|runner| {
        vec![
            runner.runner.to_string(),
            runner.pool.to_string(),
            if runner.draining { format!("{}, draining", runner.state) } else { runner.state.to_string() },
            span_ms(runner.in_state_ms),
            runner.seen_ms_ago.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", span_ms(ago))),
            runner.claim.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ]
    });
    let mut text = table(&["RUNNER", "POOL", "STATE", "FOR", "SEEN", "CLAIM"], rows);
    for runner in runners.iter().filter(|runner| runner.state == StateName::Quarantined) {
        let why = runner.why.as_deref().unwrap_or("the reason is not known");
        text.push_str(&format!("\n{}: quarantined, {why}; when it is well again: ", runner.runner));
        text.push_str(&format!("`motorpool runners release {}`", runner.runner));
    }
    text
}

fn one(runner: &RunnerView) -> String {
    facts([
        ("runner", Some(runner.runner.to_string())),
        ("pool", Some(runner.pool.to_string())),
        ("state", Some(format!("{} for {}", runner.state, span_ms(runner.in_state_ms)))),
        ("why", runner.why.clone()),
        ("clean because", runner.proof.clone()),
        ("claim", runner.claim.as_ref().map(ToString::to_string)),
        ("epoch", Some(runner.epoch.to_string())),
        (
            "seen",
            Some(
                runner.seen_ms_ago.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", span_ms(ago))),
            ),
        ),
        ("threshold", runner.threshold_in_ms.map(|left| format!("in {}", span_ms(left)))),
        ("hardware", Some(format!("{}, {} CPUs, {} MB", runner.instance_type, runner.cpu, runner.memory_mb))),
        ("usage", Some(runner.usage.clone())),
        ("provider's id", runner.provider_id.clone()),
        ("kept", runner.kept.then(|| "yes: it is cleaned, never terminated for its own sake".to_owned())),
        ("draining", runner.draining.then(|| "yes: it goes once its holder is done".to_owned())),
    ])
}

fn removed(runner: &RunnerView) -> String {
    if runner.draining && runner.claim.is_some() {
        format!("runner {} is {}, and goes once its holder is done", runner.runner, runner.state)
    } else {
        format!("runner {} is {}", runner.runner, runner.state)
    }
}

async fn added(client: &Client, add: AddRunnerArgs) -> Result<Report, Failure> {
    let AddRunnerArgs { runner, pool, instance_type, cpu, memory_mb } = add;
    let request = RegisterRunnerRequest { runner_id: runner, pool, instance_type, cpu, memory_mb };
    let answer = client.add_runner(&request).await?;
    Ok(Report::of(answer, |new| {
        secret(new, client.server(), &format!("is registered with pool {}", new.pool))
    }))
}

fn secret(new: &RegisteredRunner, server: &str, what_happened: &str) -> String {
    let RegisteredRunner { runner, pool: _, bootstrap_secret, valid_for_ms } = new;
    let until = valid_for_ms.map_or_else(String::new, |left| format!(", and good for {}", span_ms(left)));
    format!(
        "runner {runner} {what_happened}. Its bootstrap secret, shown only now{until}:\n\n    {bootstrap_secret}\n\n\
         On the machine, put it into a file that only the agent's user can read, and start the agent:\n\n    \
         motorpool agent run --server {server} --runner {runner} --dir motorpool-agent --secret-file bootstrap-secret"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::{Epoch, PoolName, RunnerId};

    fn runner(state: StateName) -> RunnerView {
        RunnerView {
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            state,
            epoch: Epoch(3),
            claim: None,
            instance_type: "mac".to_owned(),
            usage: "on-demand".to_owned(),
            cpu: 8,
            memory_mb: 16_384,
            kept: true,
            draining: false,
            provider_id: None,
            why: Some("its cleanup failed 3 times".to_owned()),
            proof: None,
            in_state_ms: 65_000,
            seen_ms_ago: Some(2_000),
            threshold_in_ms: None,
        }
    }

    #[test]
    fn a_quarantined_runner_says_why_and_how_it_gets_out() {
        assert_eq!(
            list(&[runner(StateName::Quarantined)]),
            "RUNNER  POOL  STATE        FOR        SEEN       CLAIM\n\
             mac-01  macs  quarantined  1 min 5 s  2.0 s ago  -\n\
             mac-01: quarantined, its cleanup failed 3 times; when it is well again: `motorpool runners release mac-01`"
        );
    }

    #[test]
    fn a_secret_comes_with_the_agents_command_line() {
        let new = RegisteredRunner {
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            bootstrap_secret: "mp_launch_x".to_owned(),
            valid_for_ms: Some(600_000),
        };
        let text = secret(&new, "https://pool.example.com", "is registered with pool macs");
        assert!(text.starts_with("runner mac-01 is registered with pool macs. Its bootstrap secret, shown only now, and good for 10 min:"), "{text}");
        assert!(text.contains("--server https://pool.example.com --runner mac-01"), "{text}");
    }
}
