//! What a receiver gets, and what its answers mean.

use crate::receiver::{Answers, Receiver};
use crate::{SECRET, Still, config, message};
use axum::http::StatusCode;
use motorpool_alerts::{AlertConfig, Format, LookingUp, Lookup, SetupError, Webhook};
use motorpool_control::ports::alerts::{AlertSender, SendError};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// HMAC as RFC 2104 writes it, of a key that is no longer than a block.
fn hmac_in_hex(key: &[u8], text: &[u8]) -> String {
    let pad =
        |with: u8| -> Vec<u8> { (0..64).map(|place| key.get(place).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([pad(0x36).as_slice(), text].concat());
    let outer = Sha256::digest([pad(0x5c).as_slice(), inner.as_slice()].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_program_gets_the_message_signed_with_its_time() {
    let receiver = Receiver::start(Answers::With(StatusCode::NO_CONTENT)).await;
    let webhook = Webhook::new(config(&receiver.url(), true), Arc::new(Still)).unwrap();
    webhook.send(&message()).await.unwrap();
    let got = receiver.got();
    let [one] = got.as_slice() else { panic!("{got:?}") };
    assert_eq!(one.path, "/hook/secret-path");
    assert_eq!(one.header("content-type"), Some("application/json"));
    assert_eq!(one.header("x-motorpool-timestamp"), Some("1700000000"));
    let signed = [b"1700000000.".as_slice(), one.body.as_ref()].concat();
    let expected = format!("sha256={}", hmac_in_hex(SECRET.as_bytes(), &signed));
    assert_eq!(one.header("x-motorpool-signature"), Some(expected.as_str()));
    let later = [b"1700000001.".as_slice(), one.body.as_ref()].concat();
    assert_ne!(hmac_in_hex(SECRET.as_bytes(), &later), hmac_in_hex(SECRET.as_bytes(), &signed), "no replay");
    let body: Value = serde_json::from_slice(&one.body).unwrap();
    assert_eq!(
        (&body["incident"], &body["subject"], &body["state"]),
        (&json!("mass_silence"), &Value::Null, &json!("opened"))
    );
}

#[test]
fn a_long_secret_signs_as_hmac_says() {
    let long = "x".repeat(100);
    let hashed = Sha256::digest(long.as_bytes());
    let expected = format!("sha256={}", hmac_in_hex(&hashed, b"7.body"));
    assert_eq!(motorpool_alerts::signature(&SecretString::from(long), 7, b"body"), expected);
}

#[tokio::test]
async fn a_chat_gets_a_text_and_no_signature() {
    let receiver = Receiver::start(Answers::With(StatusCode::OK)).await;
    let config = AlertConfig { format: Format::Slack, ..config(&receiver.url(), true) };
    Webhook::new(config, Arc::new(Still)).unwrap().send(&message()).await.unwrap();
    let got = receiver.got();
    let [one] = got.as_slice() else { panic!("{got:?}") };
    assert_eq!((one.header("x-motorpool-signature"), one.header("x-motorpool-timestamp")), (None, None));
    let body: Value = serde_json::from_slice(&one.body).unwrap();
    assert!(body["text"].as_str().unwrap().contains("most heartbeats are missing at once"), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
}

#[tokio::test]
async fn any_other_answer_means_that_it_was_not_taken() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR]
    {
        let receiver = Receiver::start(Answers::With(status)).await;
        let webhook = Webhook::new(config(&receiver.url(), true), Arc::new(Still)).unwrap();
        let error = webhook.send(&message()).await.unwrap_err();
        assert!(matches!(error, SendError::Refused { status: told } if told == status.as_u16()), "{error:?}");
        assert!(!format!("{error:?}").contains("what the receiver answers"), "{error:?}");
        assert_eq!(receiver.got().len(), 1, "trying again is decided elsewhere");
    }
}

#[tokio::test]
async fn refuse_15_a_redirect_is_not_followed() {
    let elsewhere = Receiver::start(Answers::With(StatusCode::OK)).await;
    let receiver = Receiver::start(Answers::Elsewhere(elsewhere.url())).await;
    let webhook = Webhook::new(config(&receiver.url(), true), Arc::new(Still)).unwrap();
    let error = webhook.send(&message()).await.unwrap_err();
    assert!(matches!(error, SendError::Refused { status: 307 }), "{error:?}");
    assert_eq!((receiver.got().len(), elsewhere.got().len()), (1, 0));
}

#[derive(Debug)]
struct Nowhere;

impl Lookup for Nowhere {
    fn addresses(&self, _: String) -> LookingUp {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn hasty(url: &str) -> Result<Webhook, SetupError> {
    Webhook::looking_up(config(url, true), Arc::new(Still), Arc::new(Nowhere), Duration::from_millis(300))
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_is_not_waited_for() {
    let receiver = Receiver::start(Answers::When(Arc::new(Semaphore::new(0)))).await;
    let error = hasty(&receiver.url()).unwrap().send(&message()).await.unwrap_err();
    let SendError::Failed { source } = &error else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "there was no answer in time");
}

#[tokio::test]
async fn one_message_goes_out_at_a_time() {
    let told = Arc::new(Semaphore::new(0));
    let receiver = Receiver::start(Answers::When(Arc::clone(&told))).await;
    let webhook = Arc::new(Webhook::new(config(&receiver.url(), true), Arc::new(Still)).unwrap());
    let sending: Vec<_> = (0..3)
        .map(|_| {
            let webhook = Arc::clone(&webhook);
            tokio::spawn(async move { webhook.send(&message()).await })
        })
        .collect();
    for answered in 0..3 {
        while receiver.got().len() <= answered {
            tokio::task::yield_now().await;
        }
        // Whoever else wants to send has had every chance to.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(receiver.got().len(), answered + 1);
        told.add_permits(1);
    }
    for sent in sending {
        sent.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn refuse_17_neither_address_nor_secret_is_shown() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}/hook/secret-path");
    let config = config(&url, true);
    let shown = format!("{config:?}");
    let webhook = Webhook::new(config, Arc::new(Still)).unwrap();
    let error = webhook.send(&message()).await.unwrap_err();
    for shown in [shown, format!("{webhook:?}"), format!("{error:?}"), error.to_string()] {
        assert!(!shown.contains("secret-path") && !shown.contains(SECRET), "{shown}");
    }
}
