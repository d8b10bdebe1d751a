//! A sample of each kind of record with every field set. Each is written out whole: a field that is new does not compile before it is named
//! here, and then `forms.rs` says what else it needs.

use anyhow::Result;
use motorpool_control::ports::tx::Row;
use motorpool_domain::alert::{Alert, AlertState, Incident, Told};
use motorpool_domain::checkpoint::{Checkpoint, CheckpointState, FinalizeSource, Finalized, JobOutcome};
use motorpool_domain::ci::{CiBinding, CiSystem, Registration};
use motorpool_domain::claim::{Ask, Claim, ClaimKey, ClaimName, ClaimState, Member};
use motorpool_domain::delivery::Delivery;
use motorpool_domain::ladder::{AskedBy, CapacityOption, Lacking, LaunchCall, Price, Shortage};
use motorpool_domain::pool::{
    Architecture, BackendKind, CheckpointRules, Clean, Commands, Dispatch, Download, Ec2Rules, Limits, Pool,
    PoolRecord, PoolShortage, Rules, Source,
};
use motorpool_domain::refresh::RefreshMemory;
use motorpool_domain::runner::{
    CleanProof, CleanStep, Credential, Hold, Holder, OwnCommands, ProofKind, Runner, RunnerState, Unpausing,
    Wear,
};
use motorpool_domain::spec::{Offer, Spec, TypeGlobs, Usage, Want};
use motorpool_domain::{Actor, AuditEntry, AuditResult, Epoch, Threshold, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

/// Each record of this version, by the name of its fixture. An entry of a log is no record of its own: see [`log_entry`].
pub(crate) fn all() -> Result<Vec<(&'static str, Row)>> {
    Ok(vec![
        ("runner_created", Row::of(&runner(created()))?),
        ("runner_resetting", Row::of(&runner(resetting()))?),
        ("runner_idle", Row::of(&runner(RunnerState::Idle))?),
        ("runner_claimed", Row::of(&runner(RunnerState::Claimed { hold: hold() }))?),
        ("runner_running", Row::of(&runner(RunnerState::Running { hold: hold(), leaving: true }))?),
        ("runner_releasing", Row::of(&runner(RunnerState::Releasing { hold: hold() }))?),
        ("runner_quarantined", Row::of(&runner(quarantined()))?),
        ("runner_terminating", Row::of(&runner(terminating()))?),
        ("runner_terminated", Row::of(&runner(terminated()))?),
        ("runner_of_a_checkpoint", Row::of(&of_a_checkpoint())?),
        ("runner_held_by_a_checkpoint", Row::of(&held_by_a_checkpoint())?),
        ("checkpoint_created", Row::of(&checkpoint(CheckpointState::Created))?),
        ("checkpoint_queued", Row::of(&checkpoint(CheckpointState::FinalizeQueued))?),
        ("checkpoint_reset", Row::of(&checkpoint(CheckpointState::Reset { at: at(1), why: why() }))?),
        ("checkpoint_deleted", Row::of(&checkpoint(CheckpointState::Deleted { at: at(1), why: why() }))?),
        ("checkpoint_forgotten", Row::of(&checkpoint(CheckpointState::GcReset { at: at(1), why: why() }))?),
        ("claim_pending", Row::of(&claim(ClaimState::Pending))?),
        ("claim_ready", Row::of(&claim(ready()))?),
        ("claim_released", Row::of(&claim(released()))?),
        ("claim_failed", Row::of(&claim(failed()))?),
        ("claim_name", Row::of(&claim_name())?),
        ("pool", Row::of(&PoolRecord { pool: pool(), rev: 0, used: 0 })?),
        ("pool_of_hooks", Row::of(&PoolRecord { pool: pool_of_hooks(), rev: 0, used: 0 })?),
        ("shortage_rung", Row::of(&shortage(Lacking::rung(&rung())))?),
        ("shortage_zone", Row::of(&shortage(Lacking::Zone { zone: zone() }))?),
        ("shortage_usage", Row::of(&shortage(Lacking::Usage { usage: Usage::Spot }))?),
        ("refresh_memory", Row::of(&refresh_memory())?),
        (
            "alert_open",
            Row::of(&alert(AlertState::Open { since: opened(), look_at: at(1_700_000_200_000) }))?,
        ),
        (
            "alert_over",
            Row::of(&alert(AlertState::Over { opened_at: opened(), since: at(1_699_999_950_000) }))?,
        ),
        ("delivery", Row::of(&delivery())?),
        ("unpausing", Row::of(&unpausing())?),
    ])
}

fn why() -> String {
    "its machine is clean".to_owned()
}

pub(crate) fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("an id")
}

pub(crate) fn runner(state: RunnerState) -> Runner {
    Runner {
        id: id("r-abc-1"),
        pool: id("small"),
        epoch: Epoch(3),
        rev: 7,
        state,
        entered_at: at(1_699_999_900_000),
        threshold: Some(Threshold(at(1_700_000_600_000))),
        kept: false,
        offer: offer(),
        launch: id("l-abc"),
        index: 1,
        made_at: at(1_699_999_000_000),
        zone: Some(zone()),
        hourly: Some(Price::from_micro_dollars(96_000)),
        provider_id: Some("i-0123456789abcdef0".to_owned()),
        credential: Some(Credential {
            token_sha256: "ab".repeat(32),
            machine_id: "i-0123456789abcdef0".to_owned(),
            // Not set: what an older control plane loses of it, the agent makes up for at its next reset.
            named: None,
            // Of the second schema.
            fixed: false,
        }),
        boot_id: Some("boot-1".to_owned()),
        proof: Some(CleanProof {
            how: ProofKind::Cleanup,
            at: at(1_699_999_800_000),
            task: Some(id("2-cleanup-1")),
        }),
        draining: false,
        used: true,
        registration: Some(Registration {
            system: CiSystem::GitHub,
            scope: "octo-org".to_owned(),
            name: "mp-ab12cd-r-abc-1.3.1".to_owned(),
            id: "42".to_owned(),
        }),
        // As with `named`: a registration may be handed out once more, in that epoch.
        handed_out: None,
        program: Some("2.329.0".to_owned()),
        // What only a record of the second schema has: see `of_a_checkpoint`.
        checkpoint: None,
        paused_at: None,
        cools_until: None,
        wear: None,
        commands: OwnCommands::default(),
        ci_runner: None,
        // Beside the document, and in none of the fixtures.
        seen_at: None,
        announced_at: None,
    }
}

/// One of a pool whose CI system hands out work by itself, with all that the second schema has.
fn of_a_checkpoint() -> Runner {
    let command = |name: &str| Some(name.to_owned());
    Runner {
        kept: true,
        credential: Some(Credential::fixed(&id("r-abc-1"), "ab".repeat(32))),
        proof: Some(CleanProof {
            how: ProofKind::Reset,
            at: at(1_699_999_800_000),
            task: Some(id("2-reset-1")),
        }),
        checkpoint: Some(id("job-12345-1699999900-a1b2c3d4")),
        paused_at: Some(at(1_699_999_901_000)),
        cools_until: Some(at(1_699_999_902_000)),
        wear: Some(Wear { jobs: 3, since: at(1_699_999_000_000) }),
        commands: OwnCommands {
            cleanup: command("cleanup"),
            reset: command("reset"),
            readiness: command("readiness"),
        },
        ci_runner: Some("17".to_owned()),
        ..runner(RunnerState::Resetting {
            attempt: 1,
            not_before: at(1_699_999_950_000),
            why: "its holder gave it back".to_owned(),
            step: Some(CleanStep::Reset),
        })
    }
}

fn held_by_a_checkpoint() -> Runner {
    let holder = Holder::Checkpoint(id("job-12345-1699999900-a1b2c3d4"));
    let hold = Hold { holder, warm: true, max_runtime: Duration::from_secs(1_800) };
    let checkpoint = Some(id("job-12345-1699999900-a1b2c3d4"));
    Runner { checkpoint, ..runner(RunnerState::Running { hold, leaving: false }) }
}

pub(crate) fn checkpoint(state: CheckpointState) -> Checkpoint {
    Checkpoint {
        name: id("job-12345-1699999900-a1b2c3d4"),
        runner: id("r-abc-1"),
        pool: id("small"),
        epoch: Epoch(3),
        job: id("12345"),
        project: Some("group/project".to_owned()),
        attempt: Some(2),
        caller: Some("mac-01".to_owned()),
        key: Some("0123456789abcdef".to_owned()),
        registration: None,
        rev: 2,
        state,
        created_at: at(1_699_999_900_000),
        look_at: at(1_699_999_950_000),
        finalized: Some(Finalized {
            status: JobOutcome::Failure,
            source: FinalizeSource::Webhook,
            at: at(1_699_999_940_000),
        }),
    }
}

fn pool_of_hooks() -> Pool {
    let rules = rules();
    let command = |name: &str| Some(name.to_owned());
    let commands =
        Commands { reset: command("reset"), readiness: command("readiness"), ..rules.commands.clone() };
    let (backend, dispatch, clean) = (BackendKind::BareMetal, Dispatch::Hook, Clean::Reset);
    let checkpoints = CheckpointRules {
        lasts: Duration::from_secs(1_801),
        poll: Duration::from_secs(21),
        poll_after: Duration::from_secs(121),
        reset_every_jobs: 51,
        reset_every: Duration::from_secs(86_401),
        reset_command: Duration::from_secs(181),
        readiness: Duration::from_secs(123),
    };
    let rules = Rules { backend, dispatch, clean, commands, checkpoints, ec2: None, ..rules };
    Pool { rules, ..pool() }
}

/// The state with the most data in it.
fn created() -> RunnerState {
    let attempt = LaunchCall {
        number: 2,
        from: 1,
        count: 2,
        rung: rung(),
        asked_by: Some(AskedBy { claim: id("c-abc"), workflow: id("gh-123.2") }),
    };
    RunnerState::Created {
        hold: Some(hold()),
        launched_at: Some(at(1_699_999_910_000)),
        attempt: Some(attempt),
    }
}

fn resetting() -> RunnerState {
    let why = "its cleanup failed".to_owned();
    RunnerState::Resetting { attempt: 2, not_before: at(1_699_999_950_000), why, step: None }
}

fn quarantined() -> RunnerState {
    RunnerState::Quarantined { why: "its cleanup failed three times".to_owned() }
}

fn terminating() -> RunnerState {
    RunnerState::Terminating { why: "its time was over".to_owned(), told: 2 }
}

fn terminated() -> RunnerState {
    RunnerState::Terminated { why: "its machine is gone".to_owned() }
}

pub(crate) fn hold() -> Hold {
    Hold { holder: Holder::Claim(id("c-abc")), warm: true, max_runtime: Duration::from_secs(1_800) }
}

pub(crate) fn claim(state: ClaimState) -> Claim {
    Claim {
        id: id("c-abc"),
        key: claim_key(),
        ask: Ask {
            count: 2,
            want: Want {
                usage: Some(Usage::Spot),
                instance_types: Some(TypeGlobs::general()),
                spec: Some(spec()),
            },
            max_runtime: Duration::from_secs(1_800),
            idle_only: false,
        },
        state,
        members: vec![Member { runner: id("r-abc-1"), epoch: Epoch(3), warm: true }],
        rev: 5,
        opened_at: at(1_699_999_700_000),
        threshold: Some(Threshold(at(1_699_999_995_000))),
        waits_for: Some("r-abc-0 was lost: its machine is gone".to_owned()),
        over_limit: None,
        launch_not_before: Some(at(1_699_999_960_000)),
        losses: 1,
        settling: false,
    }
}

pub(crate) fn ready() -> ClaimState {
    ClaimState::Ready { since: at(1_699_999_800_000) }
}

fn released() -> ClaimState {
    ClaimState::Released { at: at(1_699_999_990_000), why: "released by team-a".to_owned() }
}

fn failed() -> ClaimState {
    ClaimState::Failed { at: at(1_699_999_990_000), why: "it waited too long".to_owned() }
}

fn claim_key() -> ClaimKey {
    ClaimKey { owner: id("team-a"), workflow: id("gh-123.2"), pool: id("small") }
}

fn claim_name() -> ClaimName {
    ClaimName { key: claim_key(), claim: id("c-abc"), opened_at: at(1_699_999_700_000) }
}

pub(crate) fn pool() -> Pool {
    Pool { name: id("cloud"), source: Source::File, retired: false, rules: rules() }
}

fn rules() -> Rules {
    Rules {
        backend: BackendKind::Ec2,
        dispatch: Dispatch::Claim,
        clean: Clean::Cleanup,
        max: 10,
        min_idle: 1,
        limits: Limits {
            idle: Duration::from_secs(300),
            created: Duration::from_secs(600),
            claimed: Duration::from_secs(120),
            wait: Duration::from_secs(900),
            releasing: Duration::from_secs(301),
            resetting: Duration::from_secs(302),
            terminating: Duration::from_secs(60),
            max_runtime: Duration::from_secs(1_800),
            heartbeat: Duration::from_secs(15),
            grace: Duration::from_secs(121),
            command: Duration::from_secs(122),
        },
        offer: offer(),
        commands: Commands {
            pre_runner: Some("prepare".to_owned()),
            register: Some("register".to_owned()),
            run: Some("run".to_owned()),
            deregister: Some("deregister".to_owned()),
            cleanup: Some("cleanup".to_owned()),
            // Of the second schema: see `pool_of_hooks`.
            reset: None,
            readiness: None,
        },
        ec2: Some(ec2()),
        ci: Some(CiBinding {
            system: CiSystem::GitHub,
            scope: "octo-org".to_owned(),
            group_id: 1,
            labels: vec!["linux".to_owned()],
            minimum_version: Some("2.329.0".to_owned()),
        }),
        job_env: BTreeMap::new(),
        trusted: false,
        allow_exec: false,
        teams: Vec::new(),
        checkpoints: CheckpointRules::default(),
    }
}

fn ec2() -> Ec2Rules {
    let download = |name: &str, pair: &str| Download {
        url: format!("https://releases.example.org/{name}"),
        sha256: pair.repeat(32),
    };
    Ec2Rules {
        instance_types: TypeGlobs::general(),
        architecture: Architecture::X86_64,
        on_demand_fallback: true,
        image: "ami-0123456789abcdef0".to_owned(),
        subnets: vec!["subnet-0123456789abcdef0".to_owned()],
        security_groups: vec!["sg-0123456789abcdef0".to_owned()],
        disk_gb: 30,
        instance_profile: Some("ci".to_owned()),
        tags: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        agent: Some(download("agent", "ab")),
        runner_program: Some(download("runner", "cd")),
    }
}

fn shortage(of: Lacking) -> PoolShortage {
    let why = "InsufficientInstanceCapacity".to_owned();
    PoolShortage { pool: id("small"), shortage: Shortage { of, until: at(1_700_000_100_000), why } }
}

fn delivery() -> Delivery {
    Delivery {
        system: CiSystem::GitHub,
        id: id("72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        done_at: at(1_700_000_000_000),
    }
}

fn unpausing() -> Unpausing {
    Unpausing {
        runner: id("r-abc-1"),
        call: 7,
        until: at(1_700_000_180_000),
        is_under_way: true,
        earlier_until: Some(at(1_700_000_060_000)),
    }
}

fn refresh_memory() -> RefreshMemory {
    RefreshMemory {
        last_pass_at: at(1_699_999_970_000),
        last_sweep_at: at(1_699_999_800_000),
        listening_since: at(1_699_999_000_000),
        // Beside the document.
        rev: 0,
    }
}

fn alert(state: AlertState) -> Alert {
    Alert {
        incident: Incident::RunnerQuarantined { runner: id("r-abc-1") },
        details: "its cleanup failed three times".to_owned(),
        state,
        opening: 2,
        raised: 3,
        raised_at: at(1_699_999_940_000),
        told: Told::Opened,
        attempts: 1,
        next_try: at(1_700_000_000_000),
        rev: 9,
    }
}

fn opened() -> Timestamp {
    at(1_699_999_900_000)
}

pub(crate) fn log_entry() -> AuditEntry {
    AuditEntry {
        at: at(1_699_999_900_000),
        who: Actor::Runner(id("r-abc-1")),
        what: "transition".to_owned(),
        from: Some("claimed@3".to_owned()),
        to: Some("running@3".to_owned()),
        why: "its agent registered it".to_owned(),
        result: Some(AuditResult::Ok),
        duration_ms: Some(1_200),
    }
}

pub(crate) fn offer() -> Offer {
    Offer { instance_type: "c6i.large".to_owned(), usage: Usage::Spot, spec: spec() }
}

fn spec() -> Spec {
    Spec { cpu: 2, memory_mb: 4_096 }
}

fn rung() -> CapacityOption {
    CapacityOption { offer: offer(), zone: Some(zone()), hourly: Some(Price::from_micro_dollars(96_000)) }
}

fn zone() -> String {
    "eu-west-1a".to_owned()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}
