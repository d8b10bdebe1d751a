//! What the tests of the CI systems share: the fake GitHub, and servers over API descriptions, with proof that they do reject. Those know
//! what fits a description, and nothing of behaviour: that is in `shared/ci/tests`. Our clients are not known here, only to the tests.

pub mod fake_github;
pub mod server;

use motorpool_control::ports::ci::RegistrationOrder;
use motorpool_domain::Label;
use motorpool_domain::ci::{CiBinding, CiSystem};
use serde_json::Value;

/// The address of a server that `cargo xtask` started, or the path of what it installed.
pub fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set: run `cargo xtask test`, or `cargo xtask ci` in another shell, which prints it"
        )
    })
}

pub fn binding(system: CiSystem, scope: &str) -> CiBinding {
    let labels = vec!["gpu".to_owned()];
    CiBinding { system, scope: scope.to_owned(), group_id: 3, labels, minimum_version: None }
}

pub fn label() -> Label {
    Label::parse("motorpool-c-1").expect("a label")
}

pub fn order<'a>(binding: &'a CiBinding, name: &'a str, label: &'a Label) -> RegistrationOrder<'a> {
    RegistrationOrder { binding, name, label, workflow: "gh-123.2" }
}

/// What a server answers to a request that is not one of our client's.
pub struct Answered {
    pub status: u16,
    /// What did not fit, as the server says.
    pub said: String,
}

pub async fn ask(method: &str, url: String, headers: &[(&str, &str)], body: Option<Value>) -> Answered {
    // It may be installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut request = client.request(method.parse().expect("a method"), url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let violations = answer.headers().get("sl-violations").and_then(|value| value.to_str().ok());
    let violations = violations.unwrap_or_default().to_owned();
    let body = answer.text().await.expect("a text");
    Answered { status, said: format!("{violations} {body}") }
}
