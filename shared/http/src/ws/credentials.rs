//! How an agent shows who it is when it opens its WebSocket: by the header, or, if it can set none, by the query.

use crate::auth::bearer;
use axum::extract::{Query, Request};
use axum::http::Uri;
use motorpool_wire::channel::ChannelQuery;
use secrecy::{ExposeSecret, SecretString};

#[derive(Debug, Clone)]
pub(crate) struct ChannelCredentials {
    /// Empty if none was shown, which is nobody's.
    pub(crate) token: SecretString,
    /// Which runner it says it is.
    pub(crate) runner: Option<String>,
}

impl ChannelCredentials {
    /// The request has no query any more: what could be a token in it is seen by nobody else.
    pub(crate) fn taken_from(request: &mut Request) -> Self {
        let said = Query::<ChannelQuery>::try_from_uri(request.uri());
        let ChannelQuery { runner_id, token } = said.map(|Query(said)| said).unwrap_or_default();
        *request.uri_mut() = request.uri().path().parse().unwrap_or_else(|_| Uri::from_static("/"));
        let by_header = bearer(request.headers()).ok().map(str::to_owned);
        Self { token: by_header.or(token).unwrap_or_default().into(), runner: runner_id }
    }

    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn shown(uri: &str, header: Option<&str>) -> (String, Option<String>) {
        let mut request = Request::get(uri);
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let shown = ChannelCredentials::taken_from(&mut request);
        assert_eq!(request.uri(), "/ws/agent");
        (shown.token().to_owned(), shown.runner)
    }

    #[test]
    fn refuse_17_the_header_goes_before_the_query_and_the_query_is_gone() {
        let named = Some("mac-01".to_owned());
        for (uri, header, expected) in [
            ("/ws/agent?runner_id=mac-01&token=a%2Bb", None, ("a+b", named.clone())),
            ("/ws/agent?runner_id=mac-01&token=q", Some("Bearer h"), ("h", named)),
            ("/ws/agent?token=q", Some("Basic h"), ("q", None)),
            ("/ws/agent?token=q&token=r", None, ("", None)),
            ("/ws/agent", None, ("", None)),
        ] {
            let (token, runner) = shown(uri, header);
            assert_eq!((token.as_str(), runner), expected, "{uri} {header:?}");
        }
    }
}
