//! How jobs are found at GitHub and GitLab, and with which token.

use motorpool_ci::GitLabConfig;
use motorpool_ci_tests::fake_github::{FakeGitHub, RunJob, Trick, said};
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError, CiJob, Paused};
use motorpool_domain::Timestamp;
use motorpool_domain::ci::JobStatus;
use serde_json::json;

use crate::clients::Clients;
use crate::fake_gitlab::{FakeGitLab, READ_TOKEN, TOKEN, binding};

fn run_job(attempt: u32, runner: &str, status: &str, conclusion: Option<&str>) -> RunJob {
    RunJob {
        repository: "me/app".to_owned(),
        run: 77,
        attempt,
        runner: runner.to_owned(),
        status: status.to_owned(),
        conclusion: conclusion.map(str::to_owned),
        started_at: "2027-01-15T08:00:00Z".to_owned(),
        completed_at: None,
    }
}

fn on_github(attempt: Option<u32>, runner: &str) -> CiJob {
    CiJob {
        scope: "me".to_owned(),
        project: Some("me/app".to_owned()),
        id: "77".to_owned(),
        attempt,
        runner: Some(runner.to_owned()),
        since: Timestamp::from_millis(0),
    }
}

#[tokio::test]
async fn github_is_asked_for_all_jobs_of_the_attempt_and_the_runners_is_it() {
    let github = FakeGitHub::start().await;
    github.state().workflows.repositories.insert("me/app".to_owned());
    let mut jobs: Vec<RunJob> =
        (0..250).map(|n| run_job(2, &format!("mp-{n}"), "completed", Some("failure"))).collect();
    jobs.push(run_job(1, "mp-first", "completed", Some("cancelled")));
    jobs.push(run_job(2, "mp-mine", "completed", Some("success")));
    github.state().workflows.jobs = jobs;
    for client in [github.token(), github.app()] {
        assert_eq!(client.job_status(&on_github(Some(2), "mp-mine")).await.unwrap(), JobStatus::Success);
        assert_eq!(client.job_status(&on_github(None, "mp-mine")).await.unwrap(), JobStatus::Success);
        assert_eq!(client.job_status(&on_github(Some(1), "mp-mine")).await.unwrap(), JobStatus::Unknown);
        assert_eq!(client.job_status(&on_github(Some(1), "mp-first")).await.unwrap(), JobStatus::Canceled);
        assert_eq!(client.job_status(&on_github(Some(3), "mp-mine")).await.unwrap(), JobStatus::Unknown);
    }
    let pages = github.server.count("GET /repos/me/app/actions/runs/77/attempts/2/jobs");
    assert_eq!(pages, 2 * 3, "a hundred a page");
    assert_eq!(github.server.count("GET /repos/me/app/installation"), 1, "as it is installed there");
}

#[tokio::test]
async fn where_the_pool_is_a_repositorys_a_job_of_github_is_looked_up_there() {
    let github = FakeGitHub::start().await;
    github.state().workflows.repositories.insert("me/app".to_owned());
    github.state().workflows.jobs = vec![run_job(2, "mp-mine", "completed", Some("success"))];
    let client = github.token();
    let unsaid =
        |scope: &str| CiJob { scope: scope.to_owned(), project: None, ..on_github(Some(2), "mp-mine") };
    assert_eq!(client.job_status(&unsaid("me/app")).await.unwrap(), JobStatus::Success);
    let asked = github.server.lines().len();
    for scope in ["me", "enterprises/me"] {
        let refused = client.job_status(&unsaid(scope)).await.unwrap_err();
        assert!(matches!(&refused, CiError::Refused(why) if why.contains("owner/repository")), "{refused}");
    }
    assert_eq!(github.server.lines().len(), asked, "nobody was asked");
}

/// GitHub's list is late: it tells of the runner's first job, and not yet that the runner has the second.
#[tokio::test]
async fn the_end_of_a_runners_earlier_job_is_not_that_of_its_next_in_the_same_run() {
    let github = FakeGitHub::start().await;
    github.state().workflows.repositories.insert("me/app".to_owned());
    let first = RunJob {
        completed_at: Some("2027-01-15T08:10:00Z".to_owned()),
        ..run_job(1, "mp-mine", "completed", Some("success"))
    };
    github.state().workflows.jobs = vec![first.clone(), run_job(1, "", "queued", None)];
    let since = |text: &str| {
        let at: jiff::Timestamp = text.parse().unwrap();
        let since = Timestamp::from_millis(u64::try_from(at.as_millisecond()).unwrap());
        CiJob { since, ..on_github(Some(1), "mp-mine") }
    };
    let (one, two) = (since("2027-01-15T08:00:02Z"), since("2027-01-15T08:10:20Z"));
    let client = github.token();
    assert_eq!(client.job_status(&one).await.unwrap(), JobStatus::Success);
    assert_eq!(
        client.job_status(&two).await.unwrap(),
        JobStatus::Running,
        "the one without a runner may be it"
    );
    let second = RunJob {
        started_at: "2027-01-15T08:10:18Z".to_owned(),
        completed_at: Some("2027-01-15T08:30:00Z".to_owned()),
        ..run_job(1, "mp-mine", "completed", Some("failure"))
    };
    github.state().workflows.jobs = vec![first, second];
    assert_eq!(client.job_status(&two).await.unwrap(), JobStatus::Failure);
}

#[tokio::test]
async fn github_is_not_asked_for_a_job_of_nobody_and_says_which_permission_lacks() {
    let github = FakeGitHub::start().await;
    let client = github.token();
    let nobodys = CiJob { runner: None, ..on_github(Some(1), "") };
    let refused = client.job_status(&nobodys).await.unwrap_err();
    assert!(refused.to_string().contains("runner's name"), "{refused}");
    assert!(github.server.lines().is_empty());
    github.trick("/jobs", Trick::Answer(said(403, "Resource not accessible by integration")));
    let refused = client.job_status(&on_github(Some(1), "mp-1")).await.unwrap_err();
    assert!(matches!(&refused, CiError::Refused(why) if why.contains("Actions: Read")), "{refused}");
}

#[tokio::test]
async fn a_word_that_is_new_is_no_end() {
    let github = FakeGitHub::start().await;
    github.state().workflows.repositories.insert("me/app".to_owned());
    github.state().workflows.jobs = vec![run_job(1, "mp-1", "completed", Some("evaporated"))];
    let failed = github.token().job_status(&on_github(Some(1), "mp-1")).await;
    assert!(matches!(failed, Err(CiError::Failed { .. })), "{failed:?}");
    let gitlab = FakeGitLab::start().await;
    gitlab.state().projects.insert(8);
    gitlab.state().jobs.insert(77, (8, 5, "evaporated".to_owned()));
    let failed = gitlab.client().job_status(&on_gitlab(Some("8"), 77)).await;
    assert!(matches!(failed, Err(CiError::Failed { .. })), "{failed:?}");
}

fn on_gitlab(project: Option<&str>, id: u64) -> CiJob {
    CiJob {
        scope: "groups/7".to_owned(),
        project: project.map(str::to_owned),
        id: id.to_string(),
        attempt: None,
        runner: Some("5".to_owned()),
        since: Timestamp::from_millis(0),
    }
}

#[tokio::test]
async fn without_its_project_a_job_of_gitlabs_is_found_among_its_runners() {
    for without_page_headers in [false, true] {
        let gitlab = FakeGitLab::start().await;
        gitlab.state().without_page_headers = without_page_headers;
        gitlab.state().runners.insert(5, json!({"id": 5, "runner_type": "group_type"}));
        for id in (1_000..1_500).step_by(2) {
            gitlab.state().jobs.insert(id, (8, 5, "success".to_owned()));
        }
        gitlab.state().jobs.insert(1_498, (8, 5, "running".to_owned()));
        gitlab.state().jobs.insert(1_001, (8, 6, "failed".to_owned()));
        let client = gitlab.client();
        for (id, expected, pages) in [
            (1_498, JobStatus::Running, 1),
            (1_000, JobStatus::Success, 3),
            (1_001, JobStatus::Unknown, 3),
            (2_000, JobStatus::Unknown, 1),
            (900, JobStatus::Unknown, 3),
        ] {
            let before = gitlab.server.lines().len();
            assert_eq!(client.job_status(&on_gitlab(None, id)).await.unwrap(), expected, "{id}");
            assert_eq!(
                gitlab.server.lines().len() - before,
                pages,
                "{id}: a hundred a page, the newest first"
            );
        }
        let nowhere = CiJob { runner: None, ..on_gitlab(None, 1_000) };
        assert!(matches!(client.job_status(&nowhere).await, Err(CiError::Refused(_))));
        gitlab.state().runners.clear();
        assert_eq!(client.job_status(&on_gitlab(None, 1_498)).await.unwrap(), JobStatus::Unknown);
    }
}

#[tokio::test]
async fn a_job_of_gitlabs_is_found_in_its_project_by_its_number_or_its_path() {
    let gitlab = FakeGitLab::start().await;
    gitlab.state().projects.insert(8);
    gitlab.state().paths.insert("group%2Fsub%2Fapp".to_owned(), 8);
    gitlab.state().jobs.insert(77, (8, 5, "failed".to_owned()));
    let client = gitlab.client();
    for project in ["8", "group/sub/app"] {
        let status = client.job_status(&on_gitlab(Some(project), 77)).await.unwrap();
        assert_eq!(status, JobStatus::Failure, "{project}");
    }
    assert_eq!(gitlab.server.count("GET /api/v4/projects/group%2Fsub%2Fapp/jobs/77"), 1);
    // One that the token may not see, or that has another path by now.
    let refused = client.job_status(&on_gitlab(Some("group/other"), 77)).await;
    assert!(matches!(refused, Err(CiError::Refused(_))), "{refused:?}");
    assert_eq!(client.job_status(&on_gitlab(Some("group/sub/app"), 78)).await.unwrap(), JobStatus::Unknown);
}

#[tokio::test]
async fn gitlabs_token_that_only_reads_is_used_to_read_and_for_nothing_else() {
    let gitlab = FakeGitLab::start().await;
    gitlab.state().projects.insert(8);
    let client = gitlab.client_with(GitLabConfig {
        url: gitlab.server.url.clone(),
        token: TOKEN.into(),
        read_token: Some(READ_TOKEN.into()),
        plain_http: false,
    });
    let id = client.register(&order(&binding("groups/7"), "mp-1", &label())).await.unwrap().id;
    gitlab.state().jobs.insert(77, (8, id.parse().unwrap(), "running".to_owned()));
    client.list("groups/7", "").await.unwrap();
    client.job_status(&on_gitlab(Some("8"), 77)).await.unwrap();
    client.pause("groups/7", &id).await.unwrap();
    client.unpause("groups/7", &id).await.unwrap();
    for seen in gitlab.server.seen() {
        let expected = if seen.method == "GET" { READ_TOKEN } else { TOKEN };
        assert_eq!(seen.header("private-token"), expected, "{}", seen.line());
    }
    gitlab.trick("/jobs/77", said(401, "401 Unauthorized"));
    let refused = client.job_status(&on_gitlab(Some("8"), 77)).await.unwrap_err();
    assert!(refused.to_string().contains("[gitlab] read_token_file"), "{refused}");
    gitlab.trick("/runners/1", said(403, "403 Forbidden"));
    let refused = client.pause("groups/7", "1").await.unwrap_err();
    assert!(refused.to_string().contains("[gitlab] token_file"), "{refused}");
}

#[tokio::test]
async fn a_runner_of_gitlabs_that_cancels_a_job_is_busy() {
    let gitlab = FakeGitLab::start().await;
    gitlab.state().runners.insert(5, json!({"id": 5, "runner_type": "group_type"}));
    gitlab.state().jobs.insert(77, (8, 5, "canceling".to_owned()));
    let client = gitlab.client();
    assert_eq!(client.pause("groups/7", "5").await.unwrap(), Paused::Acknowledged { busy: true });
    gitlab.state().jobs.clear();
    assert_eq!(client.pause("groups/7", "5").await.unwrap(), Paused::Acknowledged { busy: false });
    let seen = gitlab.server.seen();
    assert_eq!(seen[0].body, json!({"paused": true}));
    assert_eq!((seen.len(), seen[2].query["status"].as_str()), (3, "running"));
}
