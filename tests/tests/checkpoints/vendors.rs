//! In what CI systems differ: what a job is asked for by.

use crate::workshop::Workshop;
use anyhow::{Context, Result, ensure};
use motorpool_control::RefusedKind;
use motorpool_domain::ci::CiSystem;
use serde_json::json;

const MAC: &str = "mac-1";
/// A pipeline, as its builds name it.
const PIPELINE: Option<&str> = Some("team/app");

/// Where nobody could ever see that a job is over, its hook is told at once, and the machine is not held for it.
#[tokio::test]
async fn a_job_that_its_ci_system_cannot_be_asked_about_is_refused_and_not_waited_for() -> Result<()> {
    for (system, scope, refused, taken) in [
        (CiSystem::Jenkins, "instance", None, PIPELINE),
        (CiSystem::GitHub, "my-org", None, Some("my-org/app")),
        (CiSystem::GitHub, "enterprises/big", None, Some("my-org/app")),
        (CiSystem::GitHub, "me/app", Some("app"), None),
        (CiSystem::GitLab, "groups/7", Some("app"), Some("group/app")),
        (CiSystem::GitLab, "groups/7", Some("group/../app"), None),
    ] {
        let what = format!("{system:?} {scope} {refused:?} {taken:?}");
        let shop = Workshop::open_at((system, scope), json!({}), &[MAC]).await?;
        let refused = shop.create_in(MAC, "1", refused).await.err().context(what.clone())?;
        ensure!(refused.kind == RefusedKind::InvalidRequest, "{what}: {refused:?}");
        ensure!(
            refused.message.starts_with("project is ") && refused.hint.contains('$'),
            "{what}: {refused:?}"
        );
        ensure!(shop.state(MAC).await? == "idle", "{what}");
        shop.create_in(MAC, "1", taken).await.with_context(|| what.clone())?;
        ensure!(shop.state(MAC).await? == "running", "{what}");
    }
    Ok(())
}
