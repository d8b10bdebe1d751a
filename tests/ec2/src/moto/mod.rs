//! moto, the EC2 that somebody else wrote: where it is, what it has, and what it says when it is asked directly.

mod ground;

pub use ground::Moto;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const ENDPOINT: &str = "MOTORPOOL_MOTO_ENDPOINT";

pub fn endpoint() -> Result<String> {
    std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty()).with_context(|| {
        format!(
            "this test needs moto, and ${ENDPOINT} does not name one: `cargo xtask test` brings its own; \
             for a test by hand, run `cargo xtask aws` and export what it prints"
        )
    })
}

/// Where a pool can be: an image and a part of the default network.
#[derive(Debug)]
pub struct Place {
    pub image: String,
    pub subnets: Vec<String>,
    pub security_groups: Vec<String>,
}

pub async fn place(endpoint: &str) -> Result<Place> {
    let subnets = texts(&asked(endpoint, "DescribeSubnets").await?, "subnetId");
    let groups = texts(&asked(endpoint, "DescribeSecurityGroups").await?, "groupId");
    // Its first ones are Windows.
    let linux = "DescribeImages&Filter.1.Name=name&Filter.1.Value.1=amzn2-ami-hvm-*-x86_64-gp2";
    let images = asked(endpoint, linux).await?;
    Ok(Place {
        image: texts(&images, "imageId").into_iter().next().context("moto has no image")?,
        subnets: subnets.into_iter().take(1).collect(),
        security_groups: groups.into_iter().take(1).collect(),
    })
}

/// What an instance was told, decoded.
pub async fn user_data(endpoint: &str, instance: &str) -> Result<String> {
    let action = format!("DescribeInstanceAttribute&Attribute=userData&InstanceId={instance}");
    let encoded =
        texts(&asked(endpoint, &action).await?, "value").into_iter().next().context("no user data")?;
    Ok(String::from_utf8(STANDARD.decode(encoded)?)?)
}

/// moto reads region and service from the header, and checks no signature.
pub async fn asked(endpoint: &str, action: &str) -> Result<String> {
    const UNSIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=none";
    // Whoever was first has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = reqwest::Client::new()
        .post(endpoint)
        .header("authorization", UNSIGNED)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("Version=2016-11-15&Action={action}"))
        .send()
        .await?;
    let (status, body) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "moto answered {status}: {body}");
    Ok(body)
}

/// What stands in each element of this name.
pub fn texts(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let inside = |part: &str| part.split_once(&close).map(|(inside, _)| inside.to_owned());
    xml.split(&open).skip(1).filter_map(inside).collect()
}
