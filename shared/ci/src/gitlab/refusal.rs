//! What GitLab's errors mean, and what the operator can do. Limits and errors on GitLab's side are not judged here.

use reqwest::StatusCode;

use super::scope::Scope;
use super::{GITLAB, TokenUse};
use crate::call::Response;
use crate::error::CallError;

pub(crate) fn refusal(scope: Scope, used: TokenUse, answer: &Response, attempted: &str) -> CallError {
    let (file, scopes) = match used {
        TokenUse::All => ("token_file", "api (or create_runner, manage_runner and read_api)"),
        TokenUse::Reading => ("read_token_file", "read_api"),
    };
    let what_to_do = match answer.status {
        StatusCode::UNAUTHORIZED => {
            format!("the token is wrong, revoked or expired: look at [gitlab] {file} in the settings")
        }
        StatusCode::FORBIDDEN => format!(
            "a permission is lacking: the token of [gitlab] {file} needs the scope {scopes}, and must be of {}",
            scope.role()
        ),
        StatusCode::NOT_FOUND => {
            "GitLab knows no such thing, or does not show it to this token: are the pool's `scope` and [gitlab] url right?"
                .to_owned()
        }
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            "GitLab does not take the request: look at the pool's `scope` and `labels`".to_owned()
        }
        status if status.is_redirection() => {
            "GitLab is elsewhere: set [gitlab] url to where it sends a browser".to_owned()
        }
        _ => return answer.unexpected(GITLAB.name, attempted),
    };
    answer.refused(GITLAB.name, attempted, &what_to_do)
}
