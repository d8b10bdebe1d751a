//! Where nobody is ever told: addresses that only the control plane can reach.

use crate::receiver::{Answers, Receiver};
use crate::{Still, config, message};
use axum::http::StatusCode;
use motorpool_alerts::{AlertConfig, Format, LookingUp, Lookup, SetupError, Webhook};
use motorpool_control::ports::alerts::{AlertSender, SendError};
use secrecy::SecretString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

fn problem(url: &str, allow_private: bool) -> Option<String> {
    Webhook::new(config(url, allow_private), Arc::new(Still)).err().map(|error| error.to_string())
}

#[test]
fn refuse_15_an_address_of_ours_is_refused_however_it_is_written() {
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "169.254.169.254",
        "10.0.0.8",
        "172.16.3.4",
        "192.168.0.1",
        "100.100.100.200",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fc00::1]",
        "[64:ff9b::a9fe:a9fe]",
    ] {
        for url in [format!("https://{host}/x"), format!("https://{host}:8443/x")] {
            let told = problem(&url, false).unwrap_or_default();
            assert!(told.contains("allow_private"), "{url}: {told}");
            assert_eq!(problem(&url, true), None, "{url}");
        }
    }
    assert_eq!(problem("https://1.1.1.1/x", false), None);
    assert_eq!(problem("https://hooks.example.org/x", false), None, "a name is judged when it is resolved");
}

#[test]
fn refuse_26_plain_http_and_what_is_no_address_are_refused() {
    for url in ["http://hooks.example.org/x", "http://1.1.1.1/x"] {
        assert!(problem(url, false).unwrap_or_default().contains("https://"), "{url}");
        assert_eq!(problem(url, true), None, "{url}");
    }
    for url in [
        "",
        "hooks.example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "https://",
        "https://u:p@example.org/",
    ] {
        for allow_private in [false, true] {
            let told = problem(url, allow_private).unwrap_or_default();
            assert!(told.starts_with("the address"), "{url}: {told}");
        }
    }
}

#[test]
fn a_secret_that_could_be_guessed_is_refused() {
    let format = Format::Json { secret: SecretString::from("short") };
    let config = AlertConfig { format, ..config("https://hooks.example.org/x", false) };
    let error = Webhook::new(config, Arc::new(Still)).unwrap_err();
    assert_eq!(error, SetupError::Secret { shortest: 16 });
}

/// A name server of somebody else's.
#[derive(Debug)]
struct LeadsTo(Vec<IpAddr>);

impl Lookup for LeadsTo {
    fn addresses(&self, _: String) -> LookingUp {
        let found = self.0.clone();
        Box::pin(async move { Ok(found) })
    }
}

async fn send(url: &str, allow_private: bool, leads_to: Vec<IpAddr>) -> Result<(), SendError> {
    let lookup = Arc::new(LeadsTo(leads_to));
    let answer = Duration::from_secs(10);
    let webhook = Webhook::looking_up(config(url, allow_private), Arc::new(Still), lookup, answer).unwrap();
    webhook.send(&message()).await
}

/// The address is judged at the connection, and not only when the settings are read: a name may lead elsewhere by then.
#[tokio::test]
async fn refuse_15_a_name_that_leads_to_this_host_is_never_connected_to() {
    let receiver = Receiver::start(Answers::With(StatusCode::OK)).await;
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let url = format!("https://hooks.example.org:{}/x", receiver.port);
    for leads_to in [here, mapped, IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
        let error = send(&url, false, vec![leads_to]).await.unwrap_err();
        let SendError::Failed { source } = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains("no public address"), "{leads_to}: {source}");
    }
    assert!(receiver.got().is_empty());

    let plain = format!("http://hooks.example.org:{}/x", receiver.port);
    send(&plain, true, vec![here]).await.unwrap();
    assert_eq!(receiver.got().len(), 1, "where that is meant, it is told");
}
