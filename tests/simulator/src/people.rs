//! The others: an intruder with old tokens and old epochs, and what befalls machines by themselves. Each only chooses; the world does it.

use super::calls::{Call, Caller, Intrusion, Reply};
use super::chance::Chance;
use super::faults::Fault;
use super::ground::Ground;
use super::host::Host;
use motorpool_control::{RefusedKind, token_sha256};
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
        // With a token that is good: who comes with one that was replaced is another intruder.
        Some(request)
            if request.epoch < epoch
                && !ground.oracle().is_replaced(&token_sha256(&host.token()))
                && ground.chance().hits(6_000) =>
        {
            Some((
                caller(Intrusion::OldEpoch, request.epoch),
                // It is its own, come late.
                Call::OldEpoch {
                    token: host.token(),
                    request: SyncRequest { session: Some(host.session()), ..request.clone() },
                },
            ))
        }
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
                session: Some("session of an intruder".to_owned()),
                next_token_sha256: Some(token_sha256("mp_runner_of_an_intruder")),
                wait_ms: 0,
            };
            let Some(token) = host.copied_token(ground).filter(|_| ground.chance().hits(7_000)) else {
                let token = "mp_runner_guessed".to_owned();
                return Some((caller(Intrusion::GuessedToken, epoch), Call::StaleToken { token, request }));
            };
            let replaced = ground.oracle().is_replaced(&token_sha256(&token));
            match replaced {
                false => Some((caller(Intrusion::OldToken, epoch), Call::StaleToken { token, request })),
                // It takes a person to mend, who has no more time at the end.
                true if ground.weather.calm(ground.now_ms()) => None,
                true => Some((caller(Intrusion::CopiedToken, epoch), Call::CopiedToken { token, request })),
            }
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
        Intrusion::GuessedToken | Intrusion::OldToken | Intrusion::CopiedToken => true,
        Intrusion::OldEpoch => false,
    };
    let right = match reply {
        Reply::Synced(Ok(synced)) => !by_token && synced.answer.epoch > asked,
        Reply::Synced(Err(refused)) => match refused.kind {
            RefusedKind::Unauthorized if by == Intrusion::OldToken => {
                ground.fired(Fault::OldTokenRefused);
                true
            }
            RefusedKind::Unauthorized
            | RefusedKind::Internal
            | RefusedKind::TooManyRequests
            | RefusedKind::Unavailable => true,
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
        | Reply::Commanded(_)
        | Reply::Checkpoint(_)
        | Reply::Finalized(_)
        | Reply::Heard(_)
        | Reply::Attended(_) => false,
    };
    if !right {
        ground.broken(
            21,
            &[runner],
            format!("an intruder's sync as {runner} is answered: {}", reply.in_words()),
        );
    }
}
