//! What Jenkins' errors mean, and what the operator can do. Errors on Jenkins' side are not judged here.

use reqwest::StatusCode;

use super::JENKINS;
use crate::call::Response;
use crate::error::CallError;

/// Which permission was missing. Jenkins names it in no body that could be relied on.
pub(crate) const REQUIRED: &str = "x-required-permission";

pub(crate) fn refusal(answer: &Response, attempted: &str) -> CallError {
    let what_to_do = match answer.status {
        StatusCode::UNAUTHORIZED => {
            "the user or its API token is wrong: look at [jenkins] user and token_file in the settings".to_owned()
        }
        StatusCode::FORBIDDEN => {
            let lacking = answer.header(REQUIRED);
            let lacking = lacking.map(|name| format!("; Jenkins asks for {name}")).unwrap_or_default();
            format!(
                "a permission is lacking: the user of [jenkins] needs Overall/Read, Job/Read and Agent/Disconnect, and an API token, as \
                 a password will not do{lacking}"
            )
        }
        StatusCode::NOT_FOUND => {
            "Jenkins knows no such thing, or does not show it to this user: is [jenkins] url right, and may the user read the job?"
                .to_owned()
        }
        status if status.is_redirection() => {
            "Jenkins is elsewhere, or wants a browser to sign in: set [jenkins] url to where a browser ends up".to_owned()
        }
        _ => return answer.unexpected(JENKINS.name, attempted),
    };
    answer.refused(JENKINS.name, attempted, &what_to_do)
}
