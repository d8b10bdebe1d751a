//! An offer, rules, a pool and a new runner that a test begins with, and changes where it is about something else. No program has them:
//! the feature `samples` is for tests.
#![allow(clippy::unwrap_used, reason = "the samples are constants; a wrong one fails the test")]

use crate::audit::{Actor, AuditEntry};
use crate::ids::{Epoch, LaunchId, PoolName, RunnerId};
use crate::pool::{BackendKind, CheckpointRules, Clean, Commands, Dispatch, Limits, Pool, Rules, Source};
use crate::runner::NewRunner;
use crate::spec::{Offer, Spec, Usage};
use crate::time::{Threshold, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

pub fn offer() -> Offer {
    let spec = Spec { cpu: 2, memory_mb: 4_096 };
    Offer { instance_type: "local".to_owned(), usage: Usage::OnDemand, spec }
}

pub fn rules() -> Rules {
    Rules {
        backend: BackendKind::Local,
        dispatch: Dispatch::Claim,
        clean: Clean::Cleanup,
        max: 10,
        min_idle: 0,
        limits: Limits::default(),
        offer: offer(),
        commands: Commands::default(),
        ec2: None,
        ci: None,
        job_env: BTreeMap::new(),
        trusted: false,
        allow_exec: false,
        teams: Vec::new(),
        checkpoints: CheckpointRules::default(),
    }
}

/// One that was made over the API.
pub fn pool(name: &str, rules: Rules) -> Pool {
    Pool { name: PoolName::parse(name).unwrap(), source: Source::Api, retired: false, rules }
}

pub fn entry(at: Timestamp, what: &str) -> AuditEntry {
    AuditEntry::of(at, Actor::Control, what, "a test needs it")
}

/// The first of its launch in the pool `small`, with ten minutes to come.
pub fn new_runner(id: &str, now: Timestamp) -> NewRunner {
    NewRunner {
        id: RunnerId::parse(id).unwrap(),
        pool: PoolName::parse("small").unwrap(),
        launch: LaunchId::parse("l-1").unwrap(),
        index: 0,
        offer: offer(),
        kept: false,
        hold: None,
        epoch: Epoch::FIRST,
        threshold: Threshold::in_(Duration::from_secs(600), now),
        attempt: None,
    }
}
