//! The workflow runs of the fake GitHub: which jobs an attempt has, and what became of each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::said;
use crate::server::{Reply, Seen};

#[derive(Debug, Default)]
pub struct Workflows {
    /// What it shows, as `owner/repository`.
    pub repositories: BTreeSet<String>,
    pub jobs: Vec<RunJob>,
}

#[derive(Debug, Clone)]
pub struct RunJob {
    pub repository: String,
    pub run: u64,
    pub attempt: u32,
    /// Empty until a runner has it.
    pub runner: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: String,
    pub completed_at: Option<String>,
}

impl Workflows {
    /// Nothing if the path is not about them.
    pub(super) fn answer(&self, path: &str, seen: &Seen) -> Option<Reply> {
        if seen.method != "GET" {
            return None;
        }
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let ["repos", owner, name, rest @ ..] = parts.as_slice() else { return None };
        let repository = format!("{owner}/{name}");
        let shown = self.repositories.contains(&repository);
        let (run, attempt): (u64, Option<u32>) = match rest {
            [] if shown => return Some(Reply::new(200, json!({"full_name": repository}))),
            [] => return Some(said(404, "Not Found")),
            ["actions", "runs", run, "jobs"] => (run.parse().ok()?, None),
            ["actions", "runs", run, "attempts", attempt, "jobs"] => {
                (run.parse().ok()?, Some(attempt.parse().ok()?))
            }
            _ => return None,
        };
        let of_run: Vec<&RunJob> =
            self.jobs.iter().filter(|job| job.repository == repository && job.run == run).collect();
        let latest = of_run.iter().map(|job| job.attempt).max();
        let wanted = attempt.or(latest);
        let jobs: Vec<&RunJob> = of_run.into_iter().filter(|job| Some(job.attempt) == wanted).collect();
        if !shown || jobs.is_empty() {
            return Some(said(404, "Not Found"));
        }
        let (page, per_page) =
            (seen.number("page").unwrap_or(1), seen.number("per_page").unwrap_or(30).min(100));
        let some: Vec<Value> =
            jobs.iter().skip((page - 1) * per_page).take(per_page).map(|job| job.shown()).collect();
        Some(Reply::new(200, json!({"total_count": jobs.len(), "jobs": some})))
    }
}

impl RunJob {
    fn shown(&self) -> Value {
        let Self { repository: _, run, attempt, runner, status, conclusion, started_at, completed_at } = self;
        let runner = (!runner.is_empty()).then_some(runner);
        json!({"id": 1, "run_id": run, "run_attempt": attempt, "runner_name": runner, "status": status,
            "conclusion": conclusion, "started_at": started_at, "completed_at": completed_at})
    }
}
