//! The three CI systems as the contract needs them: each with one runner, which has had one job.

use motorpool_ci_tests::fake_github::{FakeGitHub, RunJob, Trick};
use motorpool_ci_tests::server::{Reply, Server};
use motorpool_control::ports::ci::{Ci, CiJob};
use motorpool_domain::Timestamp;
use motorpool_domain::ci::JobStatus;
use serde_json::{Value, json};

use crate::clients::Clients;
use crate::fake_gitlab::FakeGitLab;
use crate::fake_jenkins::FakeJenkins;

/// A CI system with one runner, which has had one job.
pub(crate) trait Stage {
    fn client(&self) -> Box<dyn Ci>;
    fn server(&self) -> &Server;
    fn scope(&self) -> &'static str;
    fn runner(&self) -> &'static str;
    fn job(&self) -> CiJob;
    /// Whether it has a call to pause a runner.
    fn pauses(&self) -> bool;
    fn job_becomes(&self, status: JobStatus);
    /// The project and what is in it are there, but not for us.
    fn hide_the_project(&self);
    fn forget_the_runner(&self);
    fn gives_jobs(&self) -> bool;
    /// What the next request is answered whose line ends so. Where it is lost, it is done.
    fn trick(&self, line_ends: &str, reply: Reply);
    /// How the lines of requests end that look up the job, and that pause the runner.
    fn lines(&self) -> (&'static str, &'static str);
    /// What a refusal names of the settings.
    fn table(&self) -> &'static str;
}

fn job(scope: &str, project: &str, id: &str, runner: &str) -> CiJob {
    CiJob {
        scope: scope.to_owned(),
        project: Some(project.to_owned()),
        id: id.to_owned(),
        attempt: Some(2),
        runner: Some(runner.to_owned()),
        since: Timestamp::from_millis(0),
    }
}

impl Stage for FakeGitHub {
    fn client(&self) -> Box<dyn Ci> {
        Box::new(self.token())
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn scope(&self) -> &'static str {
        "my-org"
    }

    fn runner(&self) -> &'static str {
        "1"
    }

    fn job(&self) -> CiJob {
        job("my-org", "my-org/app", "77", "mp-1")
    }

    fn pauses(&self) -> bool {
        false
    }

    fn job_becomes(&self, status: JobStatus) {
        let (status, conclusion) = match status {
            JobStatus::Running => ("in_progress", None),
            JobStatus::Success => ("completed", Some("success".to_owned())),
            JobStatus::Failure => ("completed", Some("failure".to_owned())),
            JobStatus::Canceled => ("completed", Some("cancelled".to_owned())),
            JobStatus::Unknown => return self.state().workflows.jobs.clear(),
        };
        self.state().workflows.jobs = vec![RunJob {
            repository: "my-org/app".to_owned(),
            run: 77,
            attempt: 2,
            runner: "mp-1".to_owned(),
            status: status.to_owned(),
            conclusion,
            started_at: "2027-01-15T08:00:00Z".to_owned(),
            completed_at: None,
        }];
    }

    fn hide_the_project(&self) {
        self.state().workflows.repositories.clear();
    }

    fn forget_the_runner(&self) {
        self.state().runners.clear();
    }

    fn gives_jobs(&self) -> bool {
        !self.state().runners.is_empty()
    }

    fn trick(&self, line_ends: &str, reply: Reply) {
        let trick = if reply.lost { Trick::LoseTheAnswer } else { Trick::Answer(reply) };
        FakeGitHub::trick(self, line_ends, trick);
    }

    fn lines(&self) -> (&'static str, &'static str) {
        ("/actions/runs/77/attempts/2/jobs", "")
    }

    fn table(&self) -> &'static str {
        "[github]"
    }
}

impl Stage for FakeGitLab {
    fn client(&self) -> Box<dyn Ci> {
        Box::new(FakeGitLab::client(self))
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn scope(&self) -> &'static str {
        "groups/7"
    }

    fn runner(&self) -> &'static str {
        "5"
    }

    fn job(&self) -> CiJob {
        job("groups/7", "8", "77", "5")
    }

    fn pauses(&self) -> bool {
        true
    }

    fn job_becomes(&self, status: JobStatus) {
        let word = match status {
            JobStatus::Running => "running",
            JobStatus::Success => "success",
            JobStatus::Failure => "failed",
            JobStatus::Canceled => "canceled",
            JobStatus::Unknown => return self.state().jobs.clear(),
        };
        self.state().jobs.insert(77, (8, 5, word.to_owned()));
    }

    fn hide_the_project(&self) {
        self.state().projects.clear();
    }

    fn forget_the_runner(&self) {
        self.state().runners.clear();
    }

    fn gives_jobs(&self) -> bool {
        self.state().runners[&5]["paused"] != json!(true)
    }

    fn trick(&self, line_ends: &str, reply: Reply) {
        FakeGitLab::trick(self, line_ends, reply);
    }

    fn lines(&self) -> (&'static str, &'static str) {
        ("/projects/8/jobs/77", "PUT /api/v4/runners/5")
    }

    fn table(&self) -> &'static str {
        "[gitlab]"
    }
}

impl Stage for FakeJenkins {
    fn client(&self) -> Box<dyn Ci> {
        Box::new(FakeJenkins::client(self))
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn scope(&self) -> &'static str {
        "instance"
    }

    fn runner(&self) -> &'static str {
        "mac 01"
    }

    fn job(&self) -> CiJob {
        job("instance", "team/app", "77", "mac 01")
    }

    fn pauses(&self) -> bool {
        true
    }

    fn job_becomes(&self, status: JobStatus) {
        let result = match status {
            JobStatus::Running => Value::Null,
            JobStatus::Success => json!("SUCCESS"),
            JobStatus::Failure => json!("FAILURE"),
            JobStatus::Canceled => json!("ABORTED"),
            JobStatus::Unknown => return self.state().builds.clear(),
        };
        let runs = status == JobStatus::Running;
        let build = json!({"building": runs, "inProgress": runs, "result": result});
        self.state().builds.insert("job/team/job/app/77".to_owned(), build);
        self.state().nodes.get_mut("mac 01").unwrap().busy = runs;
    }

    fn hide_the_project(&self) {
        self.state().jobs.clear();
    }

    fn forget_the_runner(&self) {
        self.state().nodes.clear();
    }

    fn gives_jobs(&self) -> bool {
        self.offline("mac 01").is_none()
    }

    fn trick(&self, line_ends: &str, reply: Reply) {
        FakeJenkins::trick(self, line_ends, reply);
    }

    fn lines(&self) -> (&'static str, &'static str) {
        ("/job/team/job/app/77/api/json", "/computer/mac%2001/changeOfflineCause")
    }

    fn table(&self) -> &'static str {
        "[jenkins]"
    }
}

pub(crate) async fn stages() -> Vec<(&'static str, Box<dyn Stage>)> {
    let github = FakeGitHub::start().await;
    github.has("my-org", "mp-1", false);
    github.state().workflows.repositories.insert("my-org/app".to_owned());
    let gitlab = FakeGitLab::start().await;
    gitlab.state().runners.insert(5, json!({"id": 5, "runner_type": "group_type", "paused": false}));
    gitlab.state().projects.insert(8);
    let jenkins = FakeJenkins::start().await;
    jenkins.has_node("mac 01");
    jenkins.state().jobs.insert("job/team/job/app".to_owned());
    vec![("GitHub", Box::new(github)), ("GitLab", Box::new(gitlab)), ("Jenkins", Box::new(jenkins))]
}
