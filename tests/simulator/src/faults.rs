//! The faults of PROOF.md that are injected here, by their numbers, what people do meanwhile, and how often each had an effect.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    DuplicateDelivery,
    LostMessage,
    CrashBeforeCall,
    CrashAfterCall,
    CrashBeforeLaunch,
    CrashAfterLaunch,
    /// Its sender has crashed; it arrives all the same.
    LateOrder,
    /// A machine for a runner that has another, or waits for none any more.
    DoubledMachine,
    /// The agent of such a one came, and was sent away.
    WrongMachineRefused,
    /// An agent began work, whose end it counts on a clock that is minutes off.
    AgentClockSkew,
    /// A control plane whose clock is far off wrote a record whose deadline had passed by its clock and not by the right one, or the other way round.
    PlaneClockSkew,
    AgentPaused,
    TwoRefreshes,
    RefreshRacesClaim,
    HeartbeatAfterEnd,
    ProviderThrottled,
    InterruptionNotice,
    RebalanceNotice,
    PartialFleet,
    LedgerThrottled,
    AnswerLostError,
    AnswerLostRepeated,
    /// The machines are made, and nobody hears of it.
    LaunchAnswerLost,
    /// Its sender was told that it failed, or has crashed; it arrives all the same.
    LateWrite,
    VisibleAgain,
    HeartbeatsVanish,
    BrakeHeld,
    NoCapacity,
    NoCapacityOfType,
    NoCapacityInZone,
    NoCapacityAtAll,
    /// The CI system takes no call, or no more of them.
    CiDown,
    /// It has registered a runner, and nobody hears of it.
    RegistrationAnswerLost,
    IndexLags,
    TransactionConflict,
    /// Of no number: what people do while all the others go on.
    TokenRenewed,
    /// A token that was renewed came all the same, and was refused.
    OldTokenRefused,
    /// An agent has another token since its last reset.
    TokenChanged,
    /// Its process died when another was on its disk, before it was named or before the old one was forgotten.
    AgentDiesWithTwoTokens,
    /// A token that an agent had replaced came all the same, from somebody else.
    ReplacedTokenMisused,
    PoolChanged,
    /// Its maximum was set below what it had.
    PoolShrunk,
    /// A team was given its first share of a pool while others waited.
    FirstShareInTurn,
    /// From here on: where a CI system hands out jobs by itself. Two workers of the finalize queue.
    TwoWorkers,
    /// The same delivery, which was done with before.
    WebhookReplayed,
    /// Nobody sends any for this job.
    WebhookLost,
    /// It tells what was known.
    WebhookLate,
    PoisonSetAside,
    /// A message of a life that is over comes again.
    RedrivenLate,
    /// The CI system takes no call about jobs and pauses.
    ForgeDown,
    /// A hook asked for the checkpoint that its job had.
    CreatedAgain,
    /// It was paused, and had a job.
    BusyAtPause,
    /// Nobody ended a checkpoint within its time.
    JobForgotten,
    /// A failure was told after a success.
    FailureOverrides,
    /// It was handed out while its machine was taken out of the pool.
    JobInThePause,
    /// A runner program ended without a word of its job.
    ProgramFailed,
    /// What a job left behind to say that it is over was ended with its program.
    LastHookCutOff,
}

impl Fault {
    pub const ALL: [Self; 57] = [
        Self::DuplicateDelivery,
        Self::LostMessage,
        Self::CrashBeforeCall,
        Self::CrashAfterCall,
        Self::CrashBeforeLaunch,
        Self::CrashAfterLaunch,
        Self::LateOrder,
        Self::DoubledMachine,
        Self::WrongMachineRefused,
        Self::AgentClockSkew,
        Self::PlaneClockSkew,
        Self::AgentPaused,
        Self::TwoRefreshes,
        Self::RefreshRacesClaim,
        Self::HeartbeatAfterEnd,
        Self::ProviderThrottled,
        Self::InterruptionNotice,
        Self::RebalanceNotice,
        Self::PartialFleet,
        Self::LedgerThrottled,
        Self::AnswerLostError,
        Self::AnswerLostRepeated,
        Self::LaunchAnswerLost,
        Self::LateWrite,
        Self::VisibleAgain,
        Self::HeartbeatsVanish,
        Self::BrakeHeld,
        Self::NoCapacity,
        Self::NoCapacityOfType,
        Self::NoCapacityInZone,
        Self::NoCapacityAtAll,
        Self::CiDown,
        Self::RegistrationAnswerLost,
        Self::IndexLags,
        Self::TransactionConflict,
        Self::TokenRenewed,
        Self::OldTokenRefused,
        Self::TokenChanged,
        Self::AgentDiesWithTwoTokens,
        Self::ReplacedTokenMisused,
        Self::PoolChanged,
        Self::PoolShrunk,
        Self::FirstShareInTurn,
        Self::TwoWorkers,
        Self::WebhookReplayed,
        Self::WebhookLost,
        Self::WebhookLate,
        Self::PoisonSetAside,
        Self::RedrivenLate,
        Self::ForgeDown,
        Self::CreatedAgain,
        Self::BusyAtPause,
        Self::JobForgotten,
        Self::FailureOverrides,
        Self::JobInThePause,
        Self::ProgramFailed,
        Self::LastHookCutOff,
    ];

    /// Whether it is of jobs that a CI system hands out by itself: it fires in no other world.
    pub fn is_of_jobs(self) -> bool {
        self as usize >= Self::TwoWorkers as usize
    }

    /// Its number in PROOF.md, 0 for what is none, and what it is.
    pub fn title(self) -> (u8, &'static str) {
        match self {
            Self::DuplicateDelivery => (1, "duplicate delivery"),
            Self::LostMessage => (2, "lost message"),
            Self::CrashBeforeCall => (3, "crash before a call"),
            Self::CrashAfterCall => (3, "crash after a call"),
            Self::CrashBeforeLaunch => (3, "crash before a launch arrived"),
            Self::CrashAfterLaunch => (3, "crash before its answer came"),
            Self::LateOrder => (3, "launch arrives after the crash"),
            Self::DoubledMachine => (3, "a machine too many"),
            Self::WrongMachineRefused => (3, "agent of a wrong machine refused"),
            Self::AgentClockSkew => (4, "work on an agent's wrong clock"),
            Self::PlaneClockSkew => (4, "deadline on a plane's wrong clock"),
            Self::AgentPaused => (5, "agent paused for 10 min"),
            Self::TwoRefreshes => (6, "two refreshes at once"),
            Self::RefreshRacesClaim => (7, "refresh races a claim"),
            Self::HeartbeatAfterEnd => (8, "heartbeat after termination"),
            Self::ProviderThrottled => (11, "provider throttled"),
            Self::InterruptionNotice => (12, "interruption notice"),
            Self::RebalanceNotice => (12, "rebalance notice"),
            Self::PartialFleet => (13, "partial fleet"),
            Self::LedgerThrottled => (14, "ledger throttled"),
            Self::AnswerLostError => (15, "write applied, answer lost"),
            Self::AnswerLostRepeated => (15, "write applied, then repeated"),
            Self::LaunchAnswerLost => (15, "launch made, answer lost"),
            Self::LateWrite => (15, "write applied after it failed"),
            Self::VisibleAgain => (16, "message visible again"),
            Self::HeartbeatsVanish => (20, "most heartbeats vanish"),
            Self::BrakeHeld => (20, "the brake held"),
            Self::NoCapacity => (22, "no capacity, now and then"),
            Self::NoCapacityOfType => (22, "no capacity of a type"),
            Self::NoCapacityInZone => (22, "no capacity in a zone"),
            Self::NoCapacityAtAll => (22, "no capacity of anything"),
            Self::CiDown => (23, "CI system down"),
            Self::RegistrationAnswerLost => (15, "registration made, answer lost"),
            Self::IndexLags => (25, "index read lags"),
            Self::TransactionConflict => (25, "TransactionConflict"),
            Self::TokenRenewed => (0, "a runner's token renewed"),
            Self::OldTokenRefused => (0, "a renewed token refused"),
            Self::TokenChanged => (0, "an agent changed its token"),
            Self::AgentDiesWithTwoTokens => (3, "agent dies with two tokens"),
            Self::ReplacedTokenMisused => (0, "a copied token was noticed"),
            Self::PoolChanged => (0, "a pool changed"),
            Self::PoolShrunk => (0, "a pool's max below what it has"),
            Self::FirstShareInTurn => (0, "a team's first share while others wait"),
            Self::TwoWorkers => (6, "two finalize workers at once"),
            Self::WebhookReplayed => (10, "webhook replayed"),
            Self::WebhookLost => (28, "webhook lost"),
            Self::WebhookLate => (28, "webhook after another word"),
            Self::PoisonSetAside => (18, "poison notice set aside"),
            Self::RedrivenLate => (19, "notice of a life that is over"),
            Self::ForgeDown => (23, "CI system of jobs down"),
            Self::CreatedAgain => (15, "create asked again"),
            Self::BusyAtPause => (0, "paused with a job"),
            Self::JobForgotten => (0, "a checkpoint that nobody ended"),
            Self::FailureOverrides => (0, "a failure after a success"),
            Self::JobInThePause => (0, "a job in the moment of a pause"),
            Self::ProgramFailed => (0, "a runner program that failed"),
            Self::LastHookCutOff => (0, "a last hook cut off"),
        }
    }
}

/// How often each fault fired: had an effect on a call, not merely a chance to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired([u64; Fault::ALL.len()]);

impl Default for Fired {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Fired {
    pub fn note(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }

    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    pub fn never(&self) -> Vec<Fault> {
        Fault::ALL.into_iter().filter(|fault| self.of(*fault) == 0).collect()
    }
}

/// One line a fault.
impl fmt::Display for Fired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            let (number, what) = fault.title();
            writeln!(f, "  fault {number:>2}  {what:<36} {:>10}", self.of(fault))?;
        }
        Ok(())
    }
}
