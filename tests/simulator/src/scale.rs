//! How much of a world there is: pools, limits, how many control planes and workflows. Two hours, whatever the scale.

use crate::planes::HOST;
use motorpool_domain::PoolName;
use motorpool_domain::pool::{Pool, Source};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) planes: usize,
    pub(crate) heartbeat_s: u64,
    pub(crate) refresh: Duration,
    pub(crate) sweep: Duration,
    pub(crate) works: (u64, u64),
    pub(crate) max: u32,
    pub(crate) min_idle: u32,
    pub(crate) metals: u32,
    /// Machines whose CI system gives them jobs by itself. Where there are any, there are no others.
    pub(crate) shops: u32,
    /// The same, but each job comes by a registration of ours, which is good for one.
    pub(crate) docks: u32,
    pub(crate) jobs: (u64, u64),
    pub(crate) appetites: &'static [Appetite],
}

/// An owner, and how many parts of all workflows are its own.
pub(crate) type Appetite = (&'static str, usize);

const SOME_TEAMS: &[Appetite] = &[("team-a", 4), ("team-b", 3), ("team-c", 1), ("operator", 2)];

pub(crate) const END_MS: u64 = 120 * 60_000;
pub(crate) const CALM_FROM_MS: u64 = 90 * 60_000;
/// By now whatever faults left behind is over: the last claim that asked before has waited, run and ended.
pub(crate) const ALL_WELL_MS: u64 = 107 * 60_000;

/// For the ledger in memory.
pub(crate) const FULL: Scale = Scale {
    planes: 3,
    heartbeat_s: 30,
    refresh: Duration::from_secs(60),
    sweep: Duration::from_secs(300),
    works: (30, 55),
    max: 5,
    min_idle: 2,
    metals: 3,
    shops: 0,
    docks: 0,
    jobs: (0, 0),
    appetites: SOME_TEAMS,
};

/// Nobody asks for runners: two CI systems have jobs, and machines of an operator's own for them.
pub(crate) const JOBS: Scale =
    Scale { works: (0, 0), metals: 0, shops: 3, docks: 3, jobs: (60, 100), ..FULL };

/// More workflows than runners, most of them one team's: somebody always waits.
pub(crate) const CROWDED: Scale = Scale {
    works: (90, 130),
    max: 3,
    min_idle: 1,
    metals: 2,
    appetites: &[("greedy", 14), ("team-b", 3), ("team-c", 2), ("operator", 1)],
    ..FULL
};

/// For an engine that takes a while for each call.
pub(crate) const SMALL: Scale = Scale {
    planes: 2,
    heartbeat_s: 60,
    refresh: Duration::from_secs(120),
    sweep: Duration::from_secs(300),
    works: (10, 16),
    max: 4,
    min_idle: 1,
    metals: 2,
    shops: 0,
    docks: 0,
    jobs: (0, 0),
    appetites: SOME_TEAMS,
};

pub(crate) const METAL: &str = "metal";
pub(crate) const SHOP: &str = "shop";
pub(crate) const DOCK: &str = "dock";

impl Scale {
    /// Machines of a cloud, replaced in the one pool and cleaned in the other; plain ones, kept warm; and machines of the operator's own. Those that are
    /// used more than once take jobs of a CI system.
    pub(crate) fn settings(&self) -> BTreeMap<PoolName, PoolSettings> {
        let limits = json!({
            "dispatch": "claim",
            "idle_seconds": 200,
            "created_seconds": 480,
            "claimed_seconds": 180,
            "wait_seconds": 600,
            "releasing_seconds": 180,
            "resetting_seconds": 240,
            "terminating_seconds": 60,
            "max_runtime_seconds": 900,
            "heartbeat_seconds": self.heartbeat_s,
            // Whoever is to stay must be told so before he ends himself: refresh may be late, and the next sync comes after it.
            "grace_seconds": self.refresh.as_secs() + 2 * self.heartbeat_s,
            "command_seconds": 60,
            "pre_runner_cmd": "prepare",
            "register_cmd": "register",
            "deregister_cmd": "deregister",
            "cleanup_cmd": "clean",
        });
        let ec2 = json!({
            "image": "ami-0123456789abcdef0",
            "subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
            "security_groups": ["sg-0123456789abcdef0"],
            "on_demand_fallback": true,
        });
        let ci = json!({"system": "github", "scope": "team/repository"});
        let burst = json!({
            "backend": "ec2", "ec2": ec2, "cpu": HOST.cpu, "memory_mb": HOST.memory_mb, "usage": "spot",
            "clean": "replace", "max": self.max,
        });
        let spot = json!({
            "backend": "ec2", "ec2": ec2, "cpu": HOST.cpu, "memory_mb": HOST.memory_mb, "usage": "spot",
            "clean": "cleanup", "max": self.max, "min_idle": 1, "run_cmd": "take jobs", "ci": ci,
        });
        let warm = json!({
            "backend": "local", "clean": "cleanup", "max": self.max, "min_idle": self.min_idle, "run_cmd": "take jobs", "ci": ci,
        });
        let metal = json!({"backend": "bare_metal", "clean": "cleanup", "max": self.metals});
        let of_jobs = |max: u32, ci: serde_json::Value| {
            json!({
                "backend": "bare_metal", "dispatch": "hook", "clean": "reset", "max": max, "reset_cmd": "reset",
                "readiness_cmd": "ready", "ci": ci, "checkpoint_seconds": 900, "poll_after_seconds": 60,
                "reset_every_jobs": 5, "readiness_seconds": 60,
            })
        };
        let shop = of_jobs(self.shops, json!({"system": "gitlab", "scope": "instance"}));
        let dock = of_jobs(self.docks, json!({"system": "github", "scope": "team/docks"}));
        let pools = match self.shops {
            0 => vec![("burst", burst), ("spot", spot), ("warm", warm), (METAL, metal)],
            _ => vec![(SHOP, shop), (DOCK, dock)],
        };
        pools
            .into_iter()
            .map(|(name, own)| (PoolName::parse(name).expect("a pool's name"), settings(&limits, own)))
            .collect()
    }
}

/// As an operator has put it.
pub(crate) fn pool(name: &PoolName, settings: &PoolSettings) -> Pool {
    let rules = settings.clone().rules(HOST).expect("a pool's rules");
    Pool { name: name.clone(), source: Source::Api, retired: false, rules }
}

fn settings(limits: &serde_json::Value, own: serde_json::Value) -> PoolSettings {
    let mut all = limits.clone();
    if let (Some(all), serde_json::Value::Object(own)) = (all.as_object_mut(), own) {
        all.extend(own);
    }
    serde_json::from_value(all).expect("a pool's settings")
}
