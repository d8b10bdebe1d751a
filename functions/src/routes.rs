//! The functions, and which of them answers which path: the one table that the functions themselves, the deployment and the tests
//! go by. What a path does is said in `motorpool-http`.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    Provision,
    Claim,
    Release,
    /// Called with messages of the finalize queue; it has no path.
    Finalize,
    /// Called by a schedule; it has no path. `POST /api/v1/refresh`, by hand, is the gateway's.
    Refresh,
    /// What CI systems send by themselves.
    Webhook,
    Gateway,
}

/// The paths that have a function of their own, with every method. All others are the gateway's.
pub const ROUTES: [(&str, Function); 5] = [
    ("/api/v1/provision", Function::Provision),
    ("/api/v1/claim", Function::Claim),
    ("/api/v1/release", Function::Release),
    ("/api/v1/webhooks/github", Function::Webhook),
    ("/api/v1/webhooks/gitlab", Function::Webhook),
];

/// How long an invocation may take: the longest hold of an answer and the longest work (`http::limits`), with room for a cold start.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The function that answers this path, known or not.
pub fn function_of(path: &str) -> Function {
    ROUTES.iter().find(|(route, _)| *route == path).map_or(Function::Gateway, |(_, function)| *function)
}

impl Function {
    pub const ALL: [Self; 7] = [
        Self::Provision,
        Self::Claim,
        Self::Release,
        Self::Finalize,
        Self::Refresh,
        Self::Webhook,
        Self::Gateway,
    ];

    /// The binary's name too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Finalize => "finalize",
            Self::Refresh => "refresh",
            Self::Webhook => "webhook",
            Self::Gateway => "gateway",
        }
    }

    /// Whether the function answers HTTP requests, and so needs an address.
    pub fn answers_http(self) -> bool {
        match self {
            Self::Provision | Self::Claim | Self::Release | Self::Webhook | Self::Gateway => true,
            Self::Finalize | Self::Refresh => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_control::ports::queue::QueueName;

    #[test]
    fn every_path_of_the_table_is_in_the_document() {
        let paths = motorpool_http::document().paths.paths;
        for (path, _) in ROUTES {
            assert!(paths.contains_key(path), "{path} is no route");
        }
    }

    #[test]
    fn an_invocation_has_time_for_the_longest_answer() {
        let limits = crate::http::limits();
        assert!(limits.request + limits.claim_hold < TIMEOUT);
    }

    /// What AWS asks of a queue that calls a function: its messages must not come again while an invocation has them.
    #[test]
    fn the_finalize_queue_hides_a_batch_for_several_times_as_long_as_an_invocation_lasts() {
        assert!(QueueName::Finalize.hidden() >= 6 * TIMEOUT);
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        assert_eq!(function_of("/api/v1/claim"), Function::Claim);
        for path in
            ["/api/v1/claims/c-1", "/api/v1/claim/", "/api/v1/refresh", "/health", "/", "", "//api/v1/claim"]
        {
            assert_eq!(function_of(path), Function::Gateway, "{path}");
        }
    }
}
