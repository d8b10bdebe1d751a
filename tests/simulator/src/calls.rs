//! The calls that the world makes to control planes: each starts one use case. Who waits for the answer is said beside it.

use motorpool_control::{Caller as Identity, Control, Refused, SweepWish, Synced, Told};
use motorpool_domain::checkpoint::CompletedJob;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::Removal;
use motorpool_domain::{ClaimId, DeliveryId, Epoch, PoolName, RunnerId};
use motorpool_wire::agent::{
    BootstrapAnswer, BootstrapRequest, RegistrationAnswer, RegistrationRequest, SyncRequest,
};
use motorpool_wire::api::{
    ClaimRequest, ClaimView, ProvisionRequest, RefreshReport, RegisterRunnerRequest, RegisteredRunner,
    ReleaseRequest,
};
use motorpool_wire::checkpoint::{CheckpointView, CreateCheckpoint, FinalizeAnswer, FinalizeCheckpoint};
use motorpool_wire::pool_settings::PoolSettings;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Provision(Identity, ProvisionRequest),
    ClaimNow(Identity, ClaimRequest),
    View(Identity, ClaimId),
    Release(Identity, ReleaseRequest),
    Sync {
        token: String,
        request: SyncRequest,
    },
    /// A sync that must change nothing at all: its token is not that of the runner.
    StaleToken {
        token: String,
        request: SyncRequest,
    },
    /// A sync of somebody who has copied a token that its agent has replaced since: it takes the runner out of its pool, and changes nothing else.
    CopiedToken {
        token: String,
        request: SyncRequest,
    },
    /// A sync that must change nothing but the heartbeat: its epoch is over.
    OldEpoch {
        token: String,
        request: SyncRequest,
    },
    Bootstrap(BootstrapRequest),
    Refresh(SweepWish),
    Remove(RunnerId, Removal),
    ReleaseRunner(RunnerId),
    Register(RegisterRunnerRequest),
    /// A new secret for a runner: the token of its agent is worthless from then on.
    Renew(RunnerId),
    PutPool(PoolName, Box<PoolSettings>),
    /// What a runner program needs from its CI system.
    Fetch {
        token: String,
        request: RegistrationRequest,
    },
    /// A job's hook, before it runs.
    Create {
        token: String,
        request: CreateCheckpoint,
    },
    /// And after it has run.
    Finalize {
        token: String,
        request: FinalizeCheckpoint,
    },
    /// A webhook.
    Told {
        system: CiSystem,
        delivery: DeliveryId,
        job: CompletedJob,
    },
    /// A worker of the finalize queue.
    Attend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Provision,
    ClaimNow,
    View,
    Release,
    Sync,
    StaleToken,
    CopiedToken,
    OldEpoch,
    Bootstrap,
    Refresh,
    Operator,
    Fetch,
    Create,
    Finalize,
    Told,
    Attend,
}

/// Who waits for a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    Work(usize),
    Host {
        host: usize,
        life: u32,
        call: u64,
    },
    /// An agent that waits for a registration, beside what else it does.
    Fetcher {
        host: usize,
        life: u32,
        call: u64,
    },
    Refresher(usize),
    Operator(RunnerId),
    /// The operator, who will install the runner's new secret.
    Renewer(RunnerId),
    /// The operator, who changes a pool.
    PoolKeeper(PoolName),
    Intruder {
        runner: RunnerId,
        by: Intrusion,
        epoch: Epoch,
    },
    /// The hook of a job, on a host.
    Hook {
        job: usize,
        life: u32,
        host: usize,
        host_life: u32,
    },
    /// The CI system, which tells of this job's end.
    Webhook(usize),
    /// A worker of this plane.
    Attender(usize),
}

/// What an intruder tries his luck with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intrusion {
    GuessedToken,
    /// One that was renewed.
    OldToken,
    /// One that its agent has replaced.
    CopiedToken,
    OldEpoch,
}

impl Caller {
    /// Whether it is on a machine, whose heartbeats an outage keeps from the control planes.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Self::Host { .. } | Self::Fetcher { .. } | Self::Hook { .. })
    }
}

#[derive(Debug)]
pub(crate) enum Reply {
    Claim(Result<Box<ClaimView>, Refused>),
    Synced(Result<Box<Synced>, Refused>),
    Joined(Result<BootstrapAnswer, Refused>),
    Refreshed(Result<RefreshReport, Refused>),
    Registered(Result<RegisteredRunner, Refused>),
    Fetched(Result<RegistrationAnswer, Refused>),
    Commanded(Result<(), Refused>),
    Checkpoint(Result<Box<CheckpointView>, Refused>),
    Finalized(Result<FinalizeAnswer, Refused>),
    Heard(Result<Told, Refused>),
    Attended(Result<usize, Refused>),
    /// The control plane was down, went down, or the network lost something.
    Nothing,
}

pub(crate) type UseCase = Pin<Box<dyn Future<Output = Reply> + Send>>;

impl Call {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Provision(..) => Kind::Provision,
            Self::ClaimNow(..) => Kind::ClaimNow,
            Self::View(..) => Kind::View,
            Self::Release(..) => Kind::Release,
            Self::Sync { .. } => Kind::Sync,
            Self::StaleToken { .. } => Kind::StaleToken,
            Self::CopiedToken { .. } => Kind::CopiedToken,
            Self::OldEpoch { .. } => Kind::OldEpoch,
            Self::Bootstrap(_) => Kind::Bootstrap,
            Self::Refresh(_) => Kind::Refresh,
            Self::Remove(..)
            | Self::ReleaseRunner(_)
            | Self::Register(_)
            | Self::Renew(_)
            | Self::PutPool(..) => Kind::Operator,
            Self::Fetch { .. } => Kind::Fetch,
            Self::Create { .. } => Kind::Create,
            Self::Finalize { .. } => Kind::Finalize,
            Self::Told { .. } => Kind::Told,
            Self::Attend => Kind::Attend,
        }
    }

    pub(crate) fn begin(self, control: Arc<Control>) -> UseCase {
        Box::pin(async move {
            let control = control.as_ref();
            let operator = Identity::Operator;
            match self {
                Self::Provision(who, request) => {
                    Reply::Claim(control.provision(&who, request).await.map(Box::new))
                }
                Self::ClaimNow(who, request) => {
                    Reply::Claim(control.claim_now(&who, request).await.map(Box::new))
                }
                Self::View(who, claim) => Reply::Claim(control.view_claim(&who, &claim).await.map(Box::new)),
                Self::Release(who, request) => {
                    Reply::Claim(control.release(&who, request).await.map(Box::new))
                }
                Self::Sync { token, request }
                | Self::StaleToken { token, request }
                | Self::CopiedToken { token, request }
                | Self::OldEpoch { token, request } => {
                    Reply::Synced(control.sync(&token, &request).await.map(Box::new))
                }
                Self::Bootstrap(request) => Reply::Joined(control.bootstrap(request).await),
                Self::Refresh(wish) => Reply::Refreshed(control.refresh(&operator, wish).await),
                Self::Remove(runner, removal) => {
                    Reply::Commanded(control.remove_runner(&operator, &runner, removal).await.map(|_| ()))
                }
                Self::ReleaseRunner(runner) => {
                    Reply::Commanded(control.release_runner(&operator, &runner).await.map(|_| ()))
                }
                Self::Register(request) => {
                    Reply::Registered(control.register_runner(&operator, request).await)
                }
                Self::Renew(runner) => Reply::Registered(control.rotate_token(&operator, &runner).await),
                Self::PutPool(pool, settings) => {
                    Reply::Commanded(control.put_pool(&operator, pool, *settings).await.map(|_| ()))
                }
                Self::Fetch { token, request } => {
                    Reply::Fetched(control.register_with_ci(&token, &request).await)
                }
                Self::Create { token, request } => {
                    Reply::Checkpoint(control.create_checkpoint(&token, request).await.map(Box::new))
                }
                Self::Finalize { token, request } => {
                    Reply::Finalized(control.finalize_checkpoint(&token, &request).await)
                }
                Self::Told { system, delivery, job } => {
                    Reply::Heard(control.job_told(system, Some(&delivery), &job).await)
                }
                Self::Attend => Reply::Attended(control.attend_to_notices(Duration::ZERO).await),
            }
        })
    }

    /// For the story.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Provision(_, request) => {
                format!("provision {} of {} for {}", request.count, request.pool, request.workflow)
            }
            Self::ClaimNow(_, request) => format!("claim one of {} for {}", request.pool, request.workflow),
            Self::View(_, claim) => format!("view {claim}"),
            Self::Release(_, request) => format!("release {}", request.workflow),
            Self::Sync { request, .. } => sync_in_words("sync", request),
            Self::StaleToken { request, .. } => sync_in_words("sync with a wrong token", request),
            Self::CopiedToken { request, .. } => sync_in_words("sync with a copied token", request),
            Self::OldEpoch { request, .. } => sync_in_words("sync from an old epoch", request),
            Self::Bootstrap(request) => format!("bootstrap {}", request.runner),
            Self::Refresh(_) => "refresh".to_owned(),
            Self::Remove(runner, removal) => format!("remove {runner} ({removal:?})"),
            Self::ReleaseRunner(runner) => format!("release {runner} from quarantine"),
            Self::Register(request) => format!("register {}", request.runner_id),
            Self::Renew(runner) => format!("renew the secret of {runner}"),
            Self::PutPool(pool, settings) => {
                let PoolSettings { max, min_idle, clean, .. } = settings.as_ref();
                format!("change pool {pool}: max {max}, min_idle {min_idle}, {clean:?}")
            }
            Self::Fetch { request, .. } => {
                format!("fetch registration {} of {}@{}", request.count, request.runner, request.epoch)
            }
            Self::Create { request, .. } => format!("create a checkpoint for job {}", request.job_id),
            Self::Finalize { request, .. } => {
                format!("finalize {}: {}", request.checkpoint_name, request.status.as_str())
            }
            Self::Told { system: _, delivery, job } => {
                format!(
                    "{delivery} tells of job {} on {}: {}",
                    job.id,
                    job.runners.join(" or "),
                    job.status.as_str()
                )
            }
            Self::Attend => "attend to notices".to_owned(),
        }
    }
}

fn sync_in_words(what: &str, request: &SyncRequest) -> String {
    let registered = request.registered.as_ref().map_or("-", |label| label.as_str());
    let busy = request.busy.as_ref().map_or("-", |task| task.as_str());
    let results: Vec<String> =
        request.results.iter().map(|result| format!("{} {:?}", result.task, result.outcome)).collect();
    format!(
        "{what} of {}@{} registered={registered} busy={busy} results=[{}]",
        request.runner,
        request.epoch,
        results.join(", ")
    )
}

impl Reply {
    pub(crate) fn in_words(&self) -> String {
        let refused = |refused: &Refused| format!("refused {:?}: {}", refused.kind, refused.message);
        match self {
            Self::Claim(Ok(view)) => {
                let runners: Vec<String> =
                    view.runners.iter().map(|member| format!("{} {}", member.runner, member.state)).collect();
                format!(
                    "{} {} short {}: {} [{}]",
                    view.claim,
                    view.state,
                    view.short,
                    view.why,
                    runners.join(", ")
                )
            }
            Self::Synced(Ok(synced)) => {
                let answer = &synced.answer;
                let task = answer.task.as_ref().map_or("-", |task| task.id.as_str());
                format!("told {}@{} task={task} end={}", answer.state, answer.epoch, answer.end)
            }
            Self::Joined(Ok(answer)) => format!("joined {} at epoch {}", answer.pool, answer.epoch),
            Self::Refreshed(Ok(report)) => format!("{report:?}"),
            Self::Registered(Ok(registered)) => format!("registered {}", registered.runner),
            Self::Fetched(Ok(answer)) => format!("registered as {}", answer.name),
            Self::Commanded(Ok(())) => "done".to_owned(),
            Self::Checkpoint(Ok(view)) => format!("{} is {}", view.name, view.state),
            Self::Finalized(Ok(answer)) => answer.detail.clone(),
            Self::Heard(Ok(told)) => format!("{told:?}"),
            Self::Attended(Ok(count)) => format!("{count} notices"),
            Self::Claim(Err(error)) => refused(error),
            Self::Synced(Err(error)) => refused(error),
            Self::Joined(Err(error)) => refused(error),
            Self::Refreshed(Err(error)) => refused(error),
            Self::Registered(Err(error)) => refused(error),
            Self::Fetched(Err(error)) => refused(error),
            Self::Commanded(Err(error)) => refused(error),
            Self::Checkpoint(Err(error)) => refused(error),
            Self::Finalized(Err(error)) => refused(error),
            Self::Heard(Err(error)) => refused(error),
            Self::Attended(Err(error)) => refused(error),
            Self::Nothing => "no answer".to_owned(),
        }
    }
}
