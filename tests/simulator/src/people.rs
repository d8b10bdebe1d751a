//! The others: an intruder with old tokens and old epochs, and what befalls machines by themselves. Each only chooses; the world does it.

use super::calls::{Call, Caller, Intrusion, Reply};
use super::chance::Chance;
use super::faults::Fault;
use super::ground::Ground;
use super::host::Host;
use motorpool_control::RefusedKind;
use motorpool_domain::{Epoch, RunnerId};
use motorpool_wire::agent::{Protocol, SyncRequest};

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

/// A sync that must not count: with a token that is not the runner's, or from an epoch that is over.
pub(crate) fn intrude(ground: &Ground, host: &Host) -> Option<(Caller, Call)> {
    let caller = |by, epoch| Caller::Intruder { runner: host.runner.clone(), by, epoch };
    let epoch = ground.oracle().runner(&host.runner).map(|runner| runner.epoch)?;
    match &host.old_request {
        Some(request) if request.epoch < epoch && ground.chance().hits(6_000) => Some((
            caller(Intrusion::OldEpoch, request.epoch),
            Call::OldEpoch { token: host.token(), request: request.clone() },
        )),
        Some(_) | None => {
            let request = SyncRequest {
                protocol: Protocol::OURS,
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
            let (by, token) = match host.old_token().filter(|_| ground.chance().hits(7_000)) {
                Some(old) => (Intrusion::OldToken, old),
                None => (Intrusion::GuessedToken, "mp_runner_guessed".to_owned()),
            };
            Some((caller(by, epoch), Call::StaleToken { token, request }))
        }
    }
}

/// Invariant 21: a wrong token is refused, an old epoch is told the present one.
pub(crate) fn judge_intrusion(
    ground: &Ground,
    runner: &RunnerId,
    by: Intrusion,
    asked: Epoch,
    reply: &Reply,
) {
    let by_token = match by {
        Intrusion::GuessedToken | Intrusion::OldToken => true,
        Intrusion::OldEpoch => false,
    };
    let right = match reply {
        Reply::Synced(Ok(synced)) => !by_token && synced.answer.epoch > asked,
        Reply::Synced(Err(refused)) => match refused.kind {
            RefusedKind::Unauthorized if by == Intrusion::OldToken => {
                ground.fired(Fault::OldTokenRefused);
                true
            }
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
        | Reply::Fetched(_)
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
