//! The others: an operator who keeps the pools going and sometimes takes runners away, an intruder with old tokens and old
//! epochs, and what befalls machines by themselves. Each only chooses; the world does it.

use super::calls::{Call, Caller, Reply};
use super::chance::Chance;
use super::ground::Ground;
use super::host::Host;
use motorpool_control::RefusedKind;
use motorpool_domain::runner::{Removal, RunnerState, StateName};
use motorpool_domain::{Epoch, PoolName, RunnerId};
use motorpool_wire::agent::SyncRequest;
use motorpool_wire::api::RegisterRunnerRequest;

/// What befalls a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// For ten minutes.
    Pause,
    Dies,
    Reboots,
    AgentRestarts,
}

pub(crate) fn mishap(chance: &mut Chance) -> Mishap {
    match chance.between(0, 10) {
        0..3 => Mishap::Pause,
        3..6 => Mishap::Dies,
        6..8 => Mishap::Reboots,
        _ => Mishap::AgentRestarts,
    }
}

/// What the operator does at this look at the pools: whatever waits for a person, and now and then something rude.
pub(crate) fn operate(ground: &Ground, metal: &PoolName, metals: &[RunnerId]) -> Vec<(Caller, Call)> {
    let calm = ground.weather.calm(ground.now_ms());
    let oracle = ground.oracle();
    let mut calls = Vec::new();
    for runner in oracle.live().filter(|runner| matches!(runner.state, RunnerState::Quarantined { .. })) {
        let id = runner.id.clone();
        let call = match runner.kept {
            true => Call::ReleaseRunner(id.clone()),
            false => Call::Remove(id.clone(), Removal::IfFree),
        };
        calls.push((Caller::Operator(id), call));
    }
    for id in metals {
        let lives = oracle.runner(id).is_some_and(|runner| runner.state.name() != StateName::Terminated);
        if !lives {
            let request = RegisterRunnerRequest {
                runner_id: id.clone(),
                pool: metal.clone(),
                instance_type: None,
                cpu: None,
                memory_mb: None,
            };
            calls.push((Caller::Operator(id.clone()), Call::Register(request)));
        }
    }
    let live: Vec<RunnerId> = oracle.live().map(|runner| runner.id.clone()).collect();
    drop(oracle);
    let mut chance = ground.chance();
    if !calm && chance.hits(3_000) {
        let removal = [Removal::IfFree, Removal::Drain, Removal::Force].get(chance.index(3)).copied();
        if let (Some(id), Some(removal)) = (chance.one_of(&live), removal) {
            calls.push((Caller::Operator(id.clone()), Call::Remove(id.clone(), removal)));
        }
    }
    calls
}

/// A sync that must not count: with a token that is not the runner's, or from an epoch that is over.
pub(crate) fn intrude(ground: &Ground, host: &Host) -> Option<(Caller, Call)> {
    let caller = |by_token, epoch| Caller::Intruder { runner: host.runner.clone(), by_token, epoch };
    let epoch = ground.oracle().runner(&host.runner).map(|runner| runner.epoch)?;
    match &host.old_request {
        Some(request) if request.epoch < epoch && ground.chance().hits(6_000) => Some((
            caller(false, request.epoch),
            Call::OldEpoch { token: host.token(), request: request.clone() },
        )),
        Some(_) | None => {
            let request = SyncRequest {
                runner: host.runner.clone(),
                epoch,
                boot_id: "boot-of-an-intruder".to_owned(),
                agent_version: "simulated".to_owned(),
                registered: None,
                busy: None,
                results: Vec::new(),
                notice: None,
                program_version: None,
                wait_ms: 0,
            };
            Some((caller(true, epoch), Call::StaleToken { token: "mp_runner_guessed".to_owned(), request }))
        }
    }
}

/// Invariant 21: a wrong token is refused, an old epoch is told the present one.
pub(crate) fn judge_intrusion(
    ground: &Ground,
    runner: &RunnerId,
    by_token: bool,
    asked: Epoch,
    reply: &Reply,
) {
    let right = match reply {
        Reply::Synced(Ok(synced)) => !by_token && synced.answer.epoch > asked,
        Reply::Synced(Err(refused)) => match refused.kind {
            RefusedKind::Unauthorized | RefusedKind::Internal | RefusedKind::TooManyRequests => true,
            RefusedKind::Gone => !by_token,
            RefusedKind::InvalidRequest
            | RefusedKind::Forbidden
            | RefusedKind::NotFound
            | RefusedKind::Conflict => false,
        },
        Reply::Nothing => true,
        Reply::Claim(_)
        | Reply::Joined(_)
        | Reply::Refreshed(_)
        | Reply::Registered(_)
        | Reply::Commanded(_) => false,
    };
    if !right {
        ground.broken(
            21,
            &[runner],
            format!("an intruder's sync as {runner} is answered: {}", reply.in_words()),
        );
    }
}
