//! The ledger's writes as values: so that one can be applied, repeated, applied to a second ledger later, and checked.

use motorpool_control::ports::ledger::{
    AllWritten, ClaimGain, ClaimOpening, ClaimWrite, Deleted, IntentsWrite, IntentsWritten, Ledger,
    LedgerError, Opened, PoolRecord, PoolWrite, RefreshMemory, RunnerWrite, Subject, Taken, Written,
};
use motorpool_domain::audit::AuditEntry;
use motorpool_domain::claim::Claim;
use motorpool_domain::ladder::Shortage;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::Runner;
use motorpool_domain::{ClaimId, Epoch, PoolName, RunnerId, Timestamp};

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Pool(Box<PoolChange>),
    DeletePool { name: PoolName, seen: u64 },
    Runner(Box<RunnerChange>),
    Runners(Vec<RunnerChange>),
    Shortage { pool: PoolName, shortage: Shortage },
    Intents(Box<Intents>),
    Take { claim: Box<Gain>, runner: Box<RunnerChange> },
    Heartbeat { id: RunnerId, epoch: Epoch, at: Timestamp },
    Announced { id: RunnerId, epoch: Epoch, at: Timestamp },
    LookAgain { runner: Box<Runner>, at: Timestamp },
    Open { claim: Box<Claim>, opening: Box<Opening> },
    Claim(Box<ClaimChange>),
    Note { subject: Subject, entry: AuditEntry },
    RefreshMemory(RefreshMemory),
}

#[derive(Debug, Clone)]
pub(crate) struct PoolChange {
    pub(crate) seen: u64,
    pub(crate) rev: u64,
    pub(crate) pool: Pool,
    pub(crate) only_unused: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct RunnerChange {
    pub(crate) before: Runner,
    pub(crate) after: Runner,
    pub(crate) look_at: Option<Timestamp>,
    pub(crate) entry: AuditEntry,
}

#[derive(Debug, Clone)]
pub(crate) struct ClaimChange {
    pub(crate) before: Claim,
    pub(crate) after: Claim,
    pub(crate) entry: AuditEntry,
}

#[derive(Debug, Clone)]
pub(crate) struct Gain {
    pub(crate) write: ClaimChange,
    pub(crate) opening: Option<Opening>,
}

#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) replaces: Option<ClaimId>,
    pub(crate) entry: AuditEntry,
}

#[derive(Debug, Clone)]
pub(crate) struct Intents {
    pub(crate) pool: PoolName,
    pub(crate) max: u32,
    pub(crate) only_if_used: Option<u32>,
    pub(crate) runners: Vec<Runner>,
    pub(crate) look_at: Option<Timestamp>,
    pub(crate) claim: Option<Gain>,
    pub(crate) entry: AuditEntry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Deleted(Deleted),
    Pool(Box<Written<PoolRecord>>),
    Runner(Box<Written<Runner>>),
    Runners(AllWritten),
    Intents(IntentsWritten),
    Taken(Taken),
    Opened(Opened),
    Claim(Box<Written<Claim>>),
}

impl Write {
    pub(crate) async fn apply(&self, ledger: &dyn Ledger) -> Result<Answer, LedgerError> {
        Ok(match self {
            Self::Pool(change) => Answer::Pool(Box::new(ledger.write_pool(change.lent()).await?)),
            Self::DeletePool { name, seen } => Answer::Deleted(ledger.delete_pool(name, *seen).await?),
            Self::Runner(change) => Answer::Runner(Box::new(ledger.write_runner(change.lent()).await?)),
            Self::Runners(changes) => {
                let writes: Vec<RunnerWrite<'_>> = changes.iter().map(RunnerChange::lent).collect();
                Answer::Runners(ledger.write_runners(&writes).await?)
            }
            Self::Shortage { pool, shortage } => nothing(ledger.note_shortage(pool, shortage).await?),
            Self::Intents(intents) => {
                let Intents { pool, max, only_if_used, runners, look_at, claim, entry } = intents.as_ref();
                let write = IntentsWrite {
                    pool,
                    max: *max,
                    only_if_used: *only_if_used,
                    runners,
                    look_at: *look_at,
                    claim: claim.as_ref().map(Gain::lent),
                    entry,
                };
                Answer::Intents(ledger.write_launch_intents(write).await?)
            }
            Self::Take { claim, runner } => {
                Answer::Taken(ledger.take_idle(claim.lent(), runner.lent()).await?)
            }
            Self::Heartbeat { id, epoch, at } => nothing(ledger.heartbeat(id, *epoch, *at).await?),
            Self::Announced { id, epoch, at } => nothing(ledger.note_announced(id, *epoch, *at).await?),
            Self::LookAgain { runner, at } => nothing(ledger.look_again(runner, *at).await?),
            Self::Open { claim, opening } => Answer::Opened(ledger.open_claim(claim, opening.lent()).await?),
            Self::Claim(change) => Answer::Claim(Box::new(ledger.write_claim(change.lent()).await?)),
            Self::Note { subject, entry } => nothing(ledger.note(subject, entry).await?),
            Self::RefreshMemory(memory) => nothing(ledger.put_refresh_memory(memory).await?),
        })
    }

    /// Whether it is a transaction over several items, which others can conflict with.
    pub(crate) fn is_transaction(&self) -> bool {
        match self {
            Self::Runner(_)
            | Self::Runners(_)
            | Self::Intents(_)
            | Self::Take { .. }
            | Self::Open { .. }
            | Self::Claim(_) => true,
            Self::Pool(_)
            | Self::DeletePool { .. }
            | Self::Heartbeat { .. }
            | Self::Announced { .. }
            | Self::LookAgain { .. }
            | Self::Shortage { .. }
            | Self::Note { .. }
            | Self::RefreshMemory(_) => false,
        }
    }

    /// For the story.
    pub(crate) fn in_words(&self) -> String {
        let runner = |change: &RunnerChange| {
            let RunnerChange { before, after, entry, .. } = change;
            format!(
                "{} {}@{} rev {} → {}@{} ({})",
                after.id,
                before.state.name(),
                before.epoch,
                before.rev,
                after.state.name(),
                after.epoch,
                entry.why
            )
        };
        let claim = |change: &ClaimChange| {
            let ClaimChange { before, after, entry } = change;
            let members: Vec<&str> = after.members.iter().map(|member| member.runner.as_str()).collect();
            format!(
                "{} {} rev {} → {} [{}] ({}: {})",
                after.id,
                before.state.as_str(),
                before.rev,
                after.state.as_str(),
                members.join(", "),
                entry.what,
                entry.why
            )
        };
        match self {
            Self::Runner(change) => runner(change),
            Self::Runners(changes) => changes.iter().map(runner).collect::<Vec<_>>().join("; "),
            Self::Shortage { pool, shortage } => format!("shortage of {pool}: {}", shortage.of.key()),
            Self::Take { claim: gain, runner: change } => {
                format!("take {}; {}", runner(change), claim(&gain.write))
            }
            Self::Intents(intents) => {
                let ids: Vec<&str> = intents.runners.iter().map(|runner| runner.id.as_str()).collect();
                let of = intents.claim.as_ref().map(|gain| claim(&gain.write)).unwrap_or_default();
                format!("launch intents [{}] {of}", ids.join(", "))
            }
            Self::Open { claim, .. } => format!("open {} for {}", claim.id, claim.key.workflow),
            Self::Claim(change) => claim(change),
            Self::Pool(change) => format!("pool {} rev {} → {}", change.pool.name, change.seen, change.rev),
            Self::DeletePool { name, seen } => format!("delete pool {name} rev {seen}"),
            Self::Heartbeat { id, epoch, .. } => format!("heard {id}@{epoch}"),
            Self::Announced { id, epoch, .. } => format!("announced {id}@{epoch}"),
            Self::LookAgain { runner, .. } => format!("look again at {}@{}", runner.id, runner.epoch),
            Self::Note { subject, entry } => format!("note of {subject:?}: {}", entry.what),
            Self::RefreshMemory(memory) => format!("{memory:?}"),
        }
    }
}

impl Answer {
    /// Whether something is written now, be it by this call or by an earlier one of its own.
    pub(crate) fn done(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Deleted(deleted) => *deleted == Deleted::Done,
            Self::Pool(written) => matches!(written.as_ref(), Written::Done),
            Self::Runner(written) => matches!(written.as_ref(), Written::Done),
            Self::Runners(written) => *written == AllWritten::Done,
            Self::Intents(written) => *written == IntentsWritten::Done,
            Self::Taken(taken) => *taken == Taken::Done,
            Self::Opened(opened) => *opened == Opened::Done,
            Self::Claim(written) => matches!(written.as_ref(), Written::Done),
        }
    }

    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Runner(written) => match written.as_ref() {
                Written::Done => "done".to_owned(),
                Written::Lost { found } => {
                    format!("LOST to {}@{} rev {}", found.state.name(), found.epoch, found.rev)
                }
                Written::Missing => "MISSING".to_owned(),
            },
            Self::Claim(written) => match written.as_ref() {
                Written::Done => "done".to_owned(),
                Written::Lost { found } => format!("LOST to {} rev {}", found.state.as_str(), found.rev),
                Written::Missing => "MISSING".to_owned(),
            },
            Self::Taken(Taken::RunnerLost { found }) => {
                format!("RUNNER LOST to {:?}", found.as_ref().map(|found| (found.state.name(), found.rev)))
            }
            Self::Nothing
            | Self::Deleted(_)
            | Self::Pool(_)
            | Self::Runners(_)
            | Self::Intents(_)
            | Self::Taken(_)
            | Self::Opened(_) => {
                format!("{self:?}")
            }
        }
    }
}

fn nothing((): ()) -> Answer {
    Answer::Nothing
}

impl PoolChange {
    pub(crate) fn of(write: PoolWrite<'_>) -> Self {
        let PoolWrite { seen, rev, pool, only_unused } = write;
        Self { seen, rev, pool: pool.clone(), only_unused }
    }

    fn lent(&self) -> PoolWrite<'_> {
        let Self { seen, rev, pool, only_unused } = self;
        PoolWrite { seen: *seen, rev: *rev, pool, only_unused: *only_unused }
    }
}

impl RunnerChange {
    pub(crate) fn of(write: RunnerWrite<'_>) -> Self {
        let RunnerWrite { before, after, look_at, entry } = write;
        Self { before: before.clone(), after: after.clone(), look_at, entry: entry.clone() }
    }

    fn lent(&self) -> RunnerWrite<'_> {
        let Self { before, after, look_at, entry } = self;
        RunnerWrite { before, after, look_at: *look_at, entry }
    }
}

impl ClaimChange {
    pub(crate) fn of(write: ClaimWrite<'_>) -> Self {
        let ClaimWrite { before, after, entry } = write;
        Self { before: before.clone(), after: after.clone(), entry: entry.clone() }
    }

    fn lent(&self) -> ClaimWrite<'_> {
        let Self { before, after, entry } = self;
        ClaimWrite { before, after, entry }
    }
}

impl Gain {
    pub(crate) fn of(gain: ClaimGain<'_>) -> Self {
        let ClaimGain { write, opening } = gain;
        Self { write: ClaimChange::of(write), opening: opening.map(Opening::of) }
    }

    fn lent(&self) -> ClaimGain<'_> {
        ClaimGain { write: self.write.lent(), opening: self.opening.as_ref().map(Opening::lent) }
    }
}

impl Opening {
    pub(crate) fn of(opening: ClaimOpening<'_>) -> Self {
        let ClaimOpening { replaces, entry } = opening;
        Self { replaces: replaces.cloned(), entry: entry.clone() }
    }

    fn lent(&self) -> ClaimOpening<'_> {
        ClaimOpening { replaces: self.replaces.as_ref(), entry: &self.entry }
    }
}

impl Intents {
    pub(crate) fn of(write: IntentsWrite<'_>) -> Self {
        let IntentsWrite { pool, max, only_if_used, runners, look_at, claim, entry } = write;
        Self {
            pool: pool.clone(),
            max,
            only_if_used,
            runners: runners.to_vec(),
            look_at,
            claim: claim.map(Gain::of),
            entry: entry.clone(),
        }
    }
}
