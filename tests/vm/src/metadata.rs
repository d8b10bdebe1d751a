//! The instance metadata service of one machine, version 2 alone: what cloud-init and the agent read of it. It says who asked for nothing, and
//! knows no credentials.

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const TOKEN: &str = "a-session-token-of-the-stand-in";

#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) address: SocketAddr,
    server: JoinHandle<()>,
}

/// What the instance is told of itself.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) instance: String,
    pub(crate) user_data: String,
}

impl Metadata {
    pub(crate) async fn start(told: Told) -> Result<Self> {
        let told = Arc::new(told);
        let app = Router::new().fallback(move |request: Request| {
            let told = Arc::clone(&told);
            async move { told.answer(&request) }
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the metadata service")?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            // It ends with the machine that asks it.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, server })
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Told {
    fn answer(&self, request: &Request) -> Response {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let path = request.uri().path();
        if request.method() == Method::PUT && path == "/latest/api/token" {
            return match header("x-aws-ec2-metadata-token-ttl-seconds") {
                Some(seconds) => ([("x-aws-ec2-metadata-token-ttl-seconds", seconds)], TOKEN).into_response(),
                None => StatusCode::BAD_REQUEST.into_response(),
            };
        }
        if header("x-aws-ec2-metadata-token") != Some(TOKEN) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        // Of any version: `latest`, or a date.
        let item = path.trim_start_matches('/').split_once('/').map(|(_, item)| item.trim_end_matches('/'));
        match item.and_then(|item| self.item(item)) {
            Some(text) => text.into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    /// A directory lists what is in it, directories with a slash. Notices there are none.
    fn item(&self, path: &str) -> Option<String> {
        Some(match path {
            "user-data" => self.user_data.clone(),
            "meta-data" => {
                "ami-id\nami-launch-index\nhostname\ninstance-id\ninstance-type\nlocal-hostname\nlocal-ipv4\nplacement/"
                    .to_owned()
            }
            "meta-data/ami-id" => "ami-0123456789abcdef0".to_owned(),
            "meta-data/ami-launch-index" => "0".to_owned(),
            "meta-data/hostname" | "meta-data/local-hostname" => "ip-10-0-2-15.ec2.internal".to_owned(),
            "meta-data/instance-id" => self.instance.clone(),
            "meta-data/instance-type" => "m5.large".to_owned(),
            "meta-data/local-ipv4" => "10.0.2.15".to_owned(),
            "meta-data/placement" => "availability-zone\nregion".to_owned(),
            "meta-data/placement/availability-zone" => "us-east-1a".to_owned(),
            "meta-data/placement/region" => "us-east-1".to_owned(),
            "dynamic/instance-identity" => "document".to_owned(),
            "dynamic/instance-identity/document" => {
                json!({"instanceId": self.instance, "region": "us-east-1", "version": "2017-09-30"}).to_string()
            }
            _ => return None,
        })
    }
}
