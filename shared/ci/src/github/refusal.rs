//! What GitHub's errors mean, and what the operator can do. Limits and errors on GitHub's side are not judged here.

use reqwest::StatusCode;

use super::GITHUB;
use super::scope::Scope;
use crate::call::Response;
use crate::error::CallError;

pub(crate) fn refusal(scope: &Scope, answer: &Response, attempted: &str) -> CallError {
    let what_to_do = match answer.status {
        StatusCode::UNAUTHORIZED => {
            "the credentials are wrong or have ended: look at [github] in the settings (app_id with its private key, \
             or the token), and at this host's clock"
                .to_owned()
        }
        StatusCode::FORBIDDEN => {
            let accepted = answer.header("x-accepted-github-permissions");
            let accepted = accepted.map(|names| format!("; GitHub would accept {names}")).unwrap_or_default();
            format!("a permission is lacking: {}{accepted}", scope.permission())
        }
        StatusCode::NOT_FOUND => format!(
            "GitHub knows no such thing, or shows it to nobody without permission: is the pool's `scope` right, is \
             the App installed there, does the runner group `group_id` exist? And {}",
            scope.permission()
        ),
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => {
            "GitHub does not take the request: look at the pool's `labels` and `group_id`".to_owned()
        }
        status if status.is_redirection() => {
            format!("{scope} has moved: set the pool's `scope` to its new name")
        }
        _ => return answer.unexpected(GITHUB.name, attempted),
    };
    answer.refused(GITHUB.name, attempted, &what_to_do)
}
