//! Our clients, as they talk to the fake GitHub and by its clock.

use std::sync::Arc;

use motorpool_ci::{Credentials, GitHub, GitHubConfig};
use motorpool_ci_tests::fake_github::{APP_ID, FakeGitHub, PKCS1, TOKEN};
use motorpool_ci_tests::server::TestClock;
use motorpool_domain::ci::{CiBinding, CiSystem};

pub(crate) trait Clients {
    fn client_at(&self, url: &str, credentials: Credentials) -> GitHub;
    fn client(&self, credentials: Credentials) -> GitHub;

    fn app(&self) -> GitHub {
        self.client(app_with(PKCS1))
    }

    fn token(&self) -> GitHub {
        self.client(Credentials::Token(TOKEN.into()))
    }
}

impl Clients for FakeGitHub {
    fn client_at(&self, url: &str, credentials: Credentials) -> GitHub {
        let config = GitHubConfig { api_url: url.to_owned(), ..GitHubConfig::new(credentials) };
        let clock: Arc<TestClock> = Arc::clone(&self.clock);
        GitHub::new(config).unwrap().with_clock(clock)
    }

    fn client(&self, credentials: Credentials) -> GitHub {
        self.client_at(&self.server.url, credentials)
    }
}

pub(crate) fn app_with(key: &str) -> Credentials {
    Credentials::App { app_id: APP_ID, private_key: key.into(), installation_id: None }
}

pub(crate) fn binding(scope: &str) -> CiBinding {
    motorpool_ci_tests::binding(CiSystem::GitHub, scope)
}
