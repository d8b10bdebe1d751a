//! How machines elsewhere reach this server: at its public address, over TLS that they trust. Whatever can be known here would otherwise be
//! told by machines that never call home. It asks nobody.

use std::net::IpAddr;
use std::path::Path;

use motorpool_control::ports::backend::Unfit;
use reqwest::Url;

use super::certificate;
use crate::args::ServeArgs;
use crate::clock;

/// What a machine elsewhere is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) url: String,
    /// The file with the server's certificate. Without one, something before this server may have it.
    pub(super) ca_pem: Option<String>,
}

/// `listens_at` is where this server is without a public address.
pub(super) fn from_elsewhere(args: &ServeArgs, listens_at: &str) -> Result<Reach, Unfit> {
    let (url, host) = match &args.public_url {
        Some(url) => (url.as_str(), host_of(url)?),
        None => (listens_at, host_of(listens_at).map_err(|_| unreachable(&nowhere(listens_at)))?),
    };
    let ca_pem = match &args.tls_cert {
        Some(file) if !args.tls_by_proxy => Some(trusted(file, &host)?),
        Some(_) | None => None,
    };
    Ok(Reach { url: url.trim_end_matches('/').to_owned(), ca_pem })
}

fn nowhere(listens_at: &str) -> String {
    format!("--public-url is not given, and {listens_at} is no address for them")
}

/// The host in `url`, judged as the agent will judge it; and it must be one that means this server on another machine too.
fn host_of(url: &str) -> Result<String, Unfit> {
    // The message does not quote the text before it is known to hold no password.
    let parsed = Url::parse(url).map_err(|error| unreachable(&format!("--public-url is no URL: {error}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(unreachable(
            "agents take no address with a user or a password, and --public-url has one",
        ));
    }
    match parsed.scheme() {
        "https" => {}
        "http" => return Err(unreachable(&format!("agents refuse plain http, and --public-url is {url}"))),
        _ => return Err(unreachable(&format!("--public-url must begin with https://, and is {url}"))),
    }
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    if host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_here) {
        return Err(unreachable(&format!(
            "{host} is this host itself, on each of them, and --public-url is {url}"
        )));
    }
    Ok(host.to_owned())
}

fn is_here(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

fn unreachable(why: &str) -> Unfit {
    Unfit {
        why: format!("machines on EC2 could not reach this server: {why}"),
        hint: "start serve with --public-url https://HOST:PORT, by which they reach it: with --tls-cert and --tls-key, or with a \
               proxy before it that has the certificate"
            .to_owned(),
    }
}

fn trusted(file: &Path, host: &str) -> Result<String, Unfit> {
    let untrusted = |why: &str, hint: String| {
        let file = file.display();
        let why = format!(
            "machines on EC2 would not trust this server: the certificate of --tls-cert {file} {why}"
        );
        let hint = format!("{hint}; or say --tls-by-proxy, if they meet the certificate of a proxy");
        Unfit { why, hint }
    };
    let pem = std::fs::read_to_string(file)
        .map_err(|error| untrusted(&format!("can't be read: {error}"), "name one that can".to_owned()))?;
    match certificate::judge(&pem, host, clock::now()) {
        Ok(()) => Ok(pem),
        Err(problem) => Err(untrusted(&problem.to_string(), problem.hint(host))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_mean_this_server_on_another_machine() {
        for (url, host) in [
            ("https://pool.example.org", "pool.example.org"),
            ("https://pool.example.org:8443/motorpool/", "pool.example.org"),
            ("HTTPS://Pool.Example.Org.", "pool.example.org"),
            ("https://10.0.0.5:8443", "10.0.0.5"),
            ("https://[fd00::5]", "fd00::5"),
            ("https://localhost.example.org", "localhost.example.org"),
        ] {
            assert_eq!(host_of(url).unwrap(), host, "{url}");
        }
        for (url, why) in [
            ("", "no URL"),
            ("pool.example.org", "no URL"),
            ("https://", "no URL"),
            ("pool.example.org:8443", "must begin with https://"),
            ("ftp://pool.example.org", "must begin with https://"),
            ("http://pool.example.org", "plain http"),
            ("https://u@pool.example.org", "a user or a password"),
            ("https://127.1:8443", "127.0.0.1 is this host itself"),
            ("https://LOCALHOST.", "localhost is this host itself"),
            ("https://pool.localhost", "pool.localhost is this host itself"),
            ("https://[::1]", "::1 is this host itself"),
            ("https://[::ffff:127.0.0.1]", "is this host itself"),
            ("https://[::]", ":: is this host itself"),
            ("https://0.0.0.0", "0.0.0.0 is this host itself"),
        ] {
            let refused = host_of(url).unwrap_err();
            assert!(refused.why.contains(why) && refused.why.contains("--public-url"), "{url}: {refused}");
            assert!(refused.hint.contains("https://"), "{refused:?}");
        }
    }
}
