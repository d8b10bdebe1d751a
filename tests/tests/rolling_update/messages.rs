//! A sample of each message with every field set, written out whole as the records are.

use crate::records::{id, offer};
use anyhow::Result;
use motorpool_domain::Epoch;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{Notice, StateName, TaskOutcome, TaskResult};
use motorpool_wire::agent::{
    BootstrapAnswer, BootstrapRequest, Protocol, RegistrationAnswer, RegistrationRequest, SyncAnswer,
    SyncRequest, TaskKind, TaskOrder,
};
use motorpool_wire::queue::{FinalizeNotice, IdleNotice};
use serde_json::{Value, to_value};

/// Each message of this version, by its fixture.
pub(crate) fn all() -> Result<Vec<(&'static str, Value)>> {
    Ok(vec![
        ("agent/bootstrap_request", to_value(bootstrap_request())?),
        ("agent/bootstrap_answer", to_value(bootstrap_answer())?),
        ("agent/sync_request", to_value(sync_request())?),
        ("agent/sync_answer", to_value(sync_answer())?),
        ("agent/task_orders", to_value(task_orders())?),
        ("agent/registration_request", to_value(registration_request())?),
        ("agent/registration_answer", to_value(registration_answer())?),
        ("queue/idle_notice", to_value(idle_notice())?),
        ("queue/finalize_notice", to_value(FinalizeNotice { runner: id("r-abc-1"), epoch: Epoch(3) })?),
    ])
}

pub(crate) fn bootstrap_request() -> BootstrapRequest {
    BootstrapRequest {
        runner: id("r-abc-1"),
        secret: "s-1".to_owned(),
        token_sha256: "ab".repeat(32),
        machine_id: "i-0123456789abcdef0".to_owned(),
        boot_id: "boot-1".to_owned(),
    }
}

pub(crate) fn bootstrap_answer() -> BootstrapAnswer {
    BootstrapAnswer { pool: id("small"), epoch: Epoch(1) }
}

pub(crate) fn sync_request() -> SyncRequest {
    let failed = TaskOutcome::Failed { why: "it ended with exit code 3".to_owned() };
    SyncRequest {
        protocol: Protocol::OURS,
        runner: id("r-abc-1"),
        epoch: Epoch(1),
        boot_id: "boot-1".to_owned(),
        agent_version: "0.1.0".to_owned(),
        registered: Some(id("motorpool-c-abc")),
        busy: Some(id("1-register-1")),
        results: vec![
            TaskResult { task: id("1-prepare-1"), outcome: TaskOutcome::Done, took_ms: Some(1_500) },
            TaskResult { task: id("1-register-1"), outcome: failed, took_ms: None },
        ],
        notice: Some(Notice::Interruption),
        program_version: Some("2.329.0".to_owned()),
        session: Some("session-1".to_owned()),
        next_token_sha256: Some("cd".repeat(32)),
        wait_ms: 15_000,
    }
}

pub(crate) fn sync_answer() -> SyncAnswer {
    SyncAnswer {
        protocol: Protocol::OURS,
        epoch: Epoch(1),
        state: StateName::Created,
        task: Some(register(Some(CiSystem::GitHub))),
        end: false,
        kept: false,
        threshold_in_ms: Some(600_000),
        fence_in_ms: Some(720_000),
        next_sync_in_ms: 15_000,
        token_due: true,
        token_taken: true,
    }
}

/// One of each kind.
fn task_orders() -> [TaskOrder; 6] {
    let script = |name: &str| Some(name.to_owned());
    let deregister = TaskKind::Deregister { label: id("motorpool-c-abc"), script: script("deregister") };
    [
        order("1-prepare-1", TaskKind::Prepare { script: script("prepare") }),
        register(Some(CiSystem::GitHub)),
        order("1-deregister-1", deregister),
        order("2-cleanup-1", TaskKind::Cleanup { script: script("cleanup") }),
        order("2-reset-1", TaskKind::Reset { script: "reset".to_owned() }),
        order("2-readiness-1", TaskKind::Readiness { script: "readiness".to_owned() }),
    ]
}

pub(crate) fn register(ci: Option<CiSystem>) -> TaskOrder {
    let (script, run) = (Some("register".to_owned()), Some("run".to_owned()));
    order("1-register-1", TaskKind::Register { label: id("motorpool-c-abc"), script, run, ci })
}

fn order(task: &str, kind: TaskKind) -> TaskOrder {
    TaskOrder { id: id(task), kind, timeout_ms: 120_000, env: Default::default() }
}

pub(crate) fn registration_request() -> RegistrationRequest {
    RegistrationRequest {
        runner: id("r-abc-1"),
        epoch: Epoch(1),
        label: id("motorpool-c-abc"),
        count: 1,
        session: Some("session-1".to_owned()),
    }
}

pub(crate) fn registration_answer() -> RegistrationAnswer {
    RegistrationAnswer {
        system: CiSystem::GitHub,
        name: "mp-ab12cd-r-abc-1.1.1".to_owned(),
        url: Some("https://ci.example.org".to_owned()),
        secret: "jit-1".to_owned(),
    }
}

pub(crate) fn idle_notice() -> IdleNotice {
    IdleNotice { runner: id("r-abc-1"), epoch: Epoch(3), offer: offer() }
}
