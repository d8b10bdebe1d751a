//! `runners`: list, show, and the operator's verbs on one: add, set, remove, release from quarantine, a new secret.

use motorpool_domain::runner::{Removal, StateName};
use motorpool_domain::text::visible;
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner, RunnerView};
use motorpool_wire::registry::{CredentialKind, UpdateRunnerRequest};

use super::{joined, pools_asked};
use crate::args::{AddRunnerArgs, RunnersArgs, RunnersFilter, RunnersVerb, SetRunnerArgs};
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::{facts, table};
use crate::output::words::{dollars, span_ms};

pub(crate) async fn run(args: RunnersArgs) -> Result<Report, Failure> {
    let RunnersArgs { connect, filter, verb } = args;
    if verb.is_some() && (filter.pool.is_some() || filter.state.is_some() || filter.all) {
        return Err(Failure::usage(
            "--pool, --state and --all before a verb are for the list",
            "leave them out, or write them after the verb if it has them",
        ));
    }
    let client = Client::new(&connect)?;
    match verb {
        None => listed(&client, filter).await,
        Some(RunnersVerb::Show { runner }) => Ok(Report::of(client.runner(&runner).await?, one)),
        Some(RunnersVerb::Add(add)) => added(&client, add).await,
        Some(RunnersVerb::Set(set)) => changed(&client, set).await,
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
            handed_out(new, &client, "has a new one")
        })),
    }
}

async fn listed(client: &Client, filter: RunnersFilter) -> Result<Report, Failure> {
    let RunnersFilter { pool, state, all } = filter;
    let mut runners = Vec::new();
    let mut documents = Vec::new();
    for pool in pools_asked(client, pool.as_ref()).await? {
        let answer = client.runners(&pool, state, all).await?;
        runners.extend(answer.value.runners);
        documents.push(answer.json);
    }
    Ok(Report::new(joined("runners", documents), list(&runners)))
}

fn list(runners: &[RunnerView]) -> String {
    if runners.is_empty() {
        return "There are no such runners.".to_owned();
    }
    let bought = runners.iter().any(|runner| runner.zone.is_some() || runner.hourly_usd.is_some());
    let told = runners.iter().any(|runner| runner.program_version.is_some());
    let header = columns(
        ["RUNNER", "POOL", "STATE", "FOR", "SEEN"],
        bought.then_some(["TYPE", "USAGE", "ZONE", "AGE", "COST"]),
        told.then_some("PROGRAM"),
        "CLAIM",
    );
    let rows = runners.iter().map(|runner| {
        let state = runner.state.to_string();
        columns(
            [
                runner.runner.to_string(),
                runner.pool.to_string(),
                if runner.draining { format!("{state}, draining") } else { state },
                span_ms(runner.in_state_ms),
                seen(runner),
            ],
            bought.then(|| {
                [
                    runner.instance_type.clone(),
                    runner.usage.clone(),
                    or_dash(runner.zone.clone()),
                    span_ms(runner.age_ms),
                    or_dash(runner.cost_usd.map(dollars)),
                ]
            }),
            told.then(|| or_dash(program(runner))),
            or_dash(runner.claim.as_ref().map(ToString::to_string)),
        )
    });
    let mut text = table(&header, rows);
    if let Some(spent) = spent(runners) {
        text.push_str(&format!("\n{spent}"));
    }
    for runner in runners.iter().filter(|runner| runner.state == StateName::Quarantined) {
        let why = runner.why.as_deref().unwrap_or("the reason is not known");
        text.push_str(&format!("\n{}: quarantined, {why}; when it is well again: ", runner.runner));
        text.push_str(&format!("`motorpool runners release {}`", runner.runner));
    }
    for runner in runners.iter().filter(|runner| runner.program_outdated) {
        text.push_str(&format!(
            "\n{}: its runner program is older than pool {}'s minimum_version",
            runner.runner, runner.pool
        ));
    }
    text
}

/// What is always shown, what machines from a provider have beside it, what those with a CI system have, and the claim.
fn columns<T>(always: [T; 5], bought: Option<[T; 5]>, program: Option<T>, claim: T) -> Vec<T> {
    always.into_iter().chain(bought.into_iter().flatten()).chain(program).chain([claim]).collect()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn seen(runner: &RunnerView) -> String {
    runner.seen_ms_ago.map_or_else(|| "never".to_owned(), |ago| format!("{} ago", span_ms(ago)))
}

fn program(runner: &RunnerView) -> Option<String> {
    let version = runner.program_version.as_ref()?;
    Some(if runner.program_outdated { format!("{version}, outdated") } else { version.clone() })
}

/// What the shown runners that have a price cost. Machines that are gone cost nothing more.
fn spent(runners: &[RunnerView]) -> Option<String> {
    let priced: Vec<&RunnerView> = runners.iter().filter(|runner| runner.hourly_usd.is_some()).collect();
    if priced.is_empty() {
        return None;
    }
    let live = |runner: &&&RunnerView| runner.state != StateName::Terminated;
    // `sum` over nothing is -0.0, which would be shown with its sign.
    let hourly = priced.iter().filter(live).filter_map(|runner| runner.hourly_usd).fold(0.0, |a, b| a + b);
    let so_far = priced.iter().filter_map(|runner| runner.cost_usd).fold(0.0, |a, b| a + b);
    Some(format!("About {} an hour together, {} so far.", dollars(hourly), dollars(so_far)))
}

fn one(runner: &RunnerView) -> String {
    facts([
        ("runner", Some(runner.runner.to_string())),
        ("pool", Some(runner.pool.to_string())),
        ("state", Some(format!("{} for {}", runner.state, span_ms(runner.in_state_ms)))),
        ("why", runner.why.clone()),
        ("clean because", runner.proof.clone()),
        ("claim", runner.claim.as_ref().map(ToString::to_string)),
        (
            "token",
            (runner.credential == CredentialKind::Token)
                .then(|| "its own, until `motorpool runners token` makes another".to_owned()),
        ),
        ("epoch", Some(runner.epoch.to_string())),
        ("seen", Some(seen(runner))),
        ("threshold", runner.threshold_in_ms.map(|left| format!("in {}", span_ms(left)))),
        ("hardware", Some(format!("{}, {} CPUs, {} MB", runner.instance_type, runner.cpu, runner.memory_mb))),
        ("usage", Some(runner.usage.clone())),
        ("zone", runner.zone.clone()),
        ("age", Some(span_ms(runner.age_ms))),
        (
            "cost",
            runner.cost_usd.zip(runner.hourly_usd).map(|(so_far, hourly)| {
                format!("about {} so far, at {} an hour", dollars(so_far), dollars(hourly))
            }),
        ),
        ("cleanup_cmd", runner.cleanup_cmd.as_deref().map(visible)),
        ("reset_cmd", runner.reset_cmd.as_deref().map(visible)),
        ("readiness_cmd", runner.readiness_cmd.as_deref().map(visible)),
        ("in its CI system", runner.ci_runner.clone()),
        ("runner program", program(runner)),
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
    let AddRunnerArgs {
        runner,
        pool,
        instance_type,
        cpu,
        memory_mb,
        cleanup_cmd,
        reset_cmd,
        readiness_cmd,
        ci_runner,
        with_token,
    } = add;
    let request = RegisterRunnerRequest {
        runner_id: runner,
        pool,
        instance_type,
        cpu,
        memory_mb,
        cleanup_cmd,
        reset_cmd,
        readiness_cmd,
        ci_runner,
        credential: if with_token { CredentialKind::Token } else { CredentialKind::Bootstrap },
    };
    let answer = client.add_runner(&request).await?;
    Ok(Report::of(answer, |new| handed_out(new, client, &format!("is registered with pool {}", new.pool))))
}

async fn changed(client: &Client, set: SetRunnerArgs) -> Result<Report, Failure> {
    let SetRunnerArgs {
        runner,
        instance_type,
        cpu,
        memory_mb,
        cleanup_cmd,
        reset_cmd,
        readiness_cmd,
        ci_runner,
    } = set;
    // Nobody means an empty command, or a machine of no kind.
    let said = |text: Option<String>| text.map(|text| Some(text).filter(|text| !text.is_empty()));
    let request = UpdateRunnerRequest {
        cleanup_cmd: said(cleanup_cmd),
        reset_cmd: said(reset_cmd),
        readiness_cmd: said(readiness_cmd),
        ci_runner: said(ci_runner),
        instance_type: said(instance_type),
        cpu: cpu.map(Some),
        memory_mb: memory_mb.map(Some),
    };
    if request == UpdateRunnerRequest::default() {
        return Err(Failure::usage("nothing is to be changed", "say what: `motorpool runners set --help`"));
    }
    Ok(Report::of(client.update_runner(&runner, &request).await?, one))
}

/// What an agent is told of the server: its address, and that plain HTTP is allowed where this command was told so.
fn server_of_agents(client: &Client) -> String {
    let server = client.server();
    if client.encrypted() || client.here() { server.to_owned() } else { format!("{server} --insecure-http") }
}

fn handed_out(new: &RegisteredRunner, client: &Client, what_happened: &str) -> String {
    match (&new.token, &new.bootstrap_secret) {
        (Some(token), _) => for_hooks(new, token, client.server(), what_happened),
        (None, secret) => {
            for_an_agent(new, secret.as_deref().unwrap_or_default(), &server_of_agents(client), what_happened)
        }
    }
}

/// For who has no agent: what its hooks send.
fn for_hooks(new: &RegisteredRunner, token: &str, server: &str, what_happened: &str) -> String {
    let RegisteredRunner { runner, why, .. } = new;
    let waits = why.as_ref().map_or_else(String::new, |why| format!("\n\n{runner}: {why}"));
    format!(
        "runner {runner} {what_happened}. Its token, shown only now:\n\n    {token}\n\n\
         Keep it where only the hooks of its jobs can read it. Before a job, and after it:\n\n    \
         curl -fsS -H \"Authorization: Bearer $RUNNER_TOKEN\" -H 'Content-Type: application/json' {server}/api/v1/checkpoint/create -d \"{{\\\"job_id\\\":\\\"$JOB_ID\\\"}}\"\n    \
         curl -fsS -H \"Authorization: Bearer $RUNNER_TOKEN\" -H 'Content-Type: application/json' {server}/api/v1/checkpoint/finalize -d \"{{\\\"checkpoint_name\\\":\\\"$NAME\\\",\\\"status\\\":\\\"$STATUS\\\"}}\"{waits}"
    )
}

fn for_an_agent(new: &RegisteredRunner, bootstrap_secret: &str, server: &str, what_happened: &str) -> String {
    let RegisteredRunner { runner, valid_for_ms, .. } = new;
    let until = valid_for_ms.map_or_else(String::new, |left| format!(", and good for {}", span_ms(left)));
    format!(
        "runner {runner} {what_happened}. Its bootstrap secret, shown only now{until}:\n\n    {bootstrap_secret}\n\n\
         On the machine, put it into a file that only the agent's user can read (chmod 600), and start the agent:\n\n    \
         motorpool agent run --server {server} --runner {runner} --dir motorpool-agent --secret-file bootstrap-secret"
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use motorpool_domain::{Epoch, PoolName, RunnerId};

    pub(crate) fn runner(state: StateName) -> RunnerView {
        RunnerView {
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            state,
            active: state != StateName::Terminated,
            epoch: Epoch(3),
            claim: None,
            credential: CredentialKind::Bootstrap,
            cleanup_cmd: None,
            reset_cmd: None,
            readiness_cmd: None,
            ci_runner: None,
            instance_type: "mac".to_owned(),
            usage: "on-demand".to_owned(),
            cpu: 8,
            memory_mb: 16_384,
            kept: true,
            draining: false,
            provider_id: None,
            zone: None,
            hourly_usd: None,
            cost_usd: None,
            age_ms: 7_200_000,
            program_version: None,
            program_outdated: false,
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
    fn machines_of_a_provider_show_what_they_are_and_cost() {
        let bought = RunnerView {
            runner: RunnerId::parse("r-abc-0").unwrap(),
            instance_type: "c6a.xlarge".to_owned(),
            usage: "spot".to_owned(),
            zone: Some("eu-central-1a".to_owned()),
            hourly_usd: Some(0.08),
            cost_usd: Some(0.16),
            program_version: Some("2.300.0".to_owned()),
            program_outdated: true,
            kept: false,
            ..runner(StateName::Idle)
        };
        assert_eq!(
            list(&[bought.clone(), RunnerView { why: None, ..runner(StateName::Idle) }]),
            "RUNNER   POOL  STATE  FOR        SEEN       TYPE        USAGE      ZONE           AGE  COST     PROGRAM            CLAIM\n\
             r-abc-0  macs  idle   1 min 5 s  2.0 s ago  c6a.xlarge  spot       eu-central-1a  2 h  $0.1600  2.300.0, outdated  -\n\
             mac-01   macs  idle   1 min 5 s  2.0 s ago  mac         on-demand  -              2 h  -        -                  -\n\
             About $0.0800 an hour together, $0.1600 so far.\n\
             r-abc-0: its runner program is older than pool macs's minimum_version"
        );
        let shown = one(&bought);
        for line in ["about $0.1600 so far, at $0.0800 an hour", "2.300.0, outdated", "eu-central-1a"] {
            assert!(shown.contains(line), "{shown}");
        }
        let gone = RunnerView { state: StateName::Terminated, ..bought };
        assert!(list(&[gone]).contains("About $0.0000 an hour together, $0.1600 so far."));
    }

    #[test]
    fn a_secret_comes_with_the_agents_command_line() {
        let new = RegisteredRunner {
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            bootstrap_secret: Some("mp_launch_x".to_owned()),
            token: None,
            valid_for_ms: Some(600_000),
            why: None,
        };
        let text =
            for_an_agent(&new, "mp_launch_x", "https://pool.example.com", "is registered with pool macs");
        assert!(text.starts_with("runner mac-01 is registered with pool macs. Its bootstrap secret, shown only now, and good for 10 min:"), "{text}");
        assert!(text.contains("--server https://pool.example.com --runner mac-01"), "{text}");
    }

    #[test]
    fn a_token_comes_with_what_hooks_send_and_what_its_machine_waits_for() {
        let new = RegisteredRunner {
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            bootstrap_secret: None,
            token: Some("mp_runner_x".to_owned()),
            valid_for_ms: None,
            why: Some("its machine waits for its agent's connection".to_owned()),
        };
        assert_eq!(
            for_hooks(&new, "mp_runner_x", "https://pool.example.com", "is registered with pool macs"),
            "runner mac-01 is registered with pool macs. Its token, shown only now:\n\n    mp_runner_x\n\n\
             Keep it where only the hooks of its jobs can read it. Before a job, and after it:\n\n    \
             curl -fsS -H \"Authorization: Bearer $RUNNER_TOKEN\" -H 'Content-Type: application/json' https://pool.example.com/api/v1/checkpoint/create -d \"{\\\"job_id\\\":\\\"$JOB_ID\\\"}\"\n    \
             curl -fsS -H \"Authorization: Bearer $RUNNER_TOKEN\" -H 'Content-Type: application/json' https://pool.example.com/api/v1/checkpoint/finalize -d \"{\\\"checkpoint_name\\\":\\\"$NAME\\\",\\\"status\\\":\\\"$STATUS\\\"}\"\n\n\
             mac-01: its machine waits for its agent's connection"
        );
    }
}
