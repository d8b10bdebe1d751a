//! What a pool on EC2 is made of, and which of its rules can't hold.

use super::RuleError;
use crate::spec::TypeGlobs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ec2Rules {
    /// Types that may be used, of those with the pool's CPUs and memory.
    pub instance_types: TypeGlobs,
    pub architecture: Architecture,
    /// With `usage = "spot"`: on-demand where spot has nothing to give.
    pub on_demand_fallback: bool,
    /// `ami-…`
    pub image: String,
    /// One a zone; each is a place to launch in.
    pub subnets: Vec<String>,
    pub security_groups: Vec<String>,
    pub disk_gb: u32,
    /// A role for the machines. Every job on them has it: by default there is none.
    pub instance_profile: Option<String>,
    /// Beside our own.
    pub tags: BTreeMap<String, String>,
    /// Installed at the first boot; without it, the image brings the agent.
    pub agent: Option<Download>,
    /// The CI system's runner program, likewise.
    pub runner_program: Option<Download>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    #[serde(rename = "x86_64")]
    X86_64,
    Arm64,
}

impl Architecture {
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A file from the network, with what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Download {
    pub url: String,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

impl Ec2Rules {
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let wrong = |field, problem: &str| Err(RuleError { field, problem: problem.to_owned() });
        if !is_resource(&self.image, "ami-") {
            return wrong("image", "must be an image's id, such as ami-0123456789abcdef0");
        }
        if self.subnets.is_empty() || !self.subnets.iter().all(|id| is_resource(id, "subnet-")) {
            return wrong("subnets", "must be one or more ids, such as subnet-0123456789abcdef0");
        }
        if self.security_groups.is_empty() || !self.security_groups.iter().all(|id| is_resource(id, "sg-")) {
            return wrong("security_groups", "must be one or more ids, such as sg-0123456789abcdef0");
        }
        if !(8..=16_384).contains(&self.disk_gb) {
            return wrong("disk_gb", "must be from 8 to 16384");
        }
        if self.instance_profile.as_deref().is_some_and(|name| !is_profile(name)) {
            return wrong("instance_profile", "must be a name of 1 to 128 letters, digits and '+=,.@_-'");
        }
        if self.tags.len() > 20 || !self.tags.iter().all(|(key, value)| is_tag(key, value)) {
            return wrong(
                "tags",
                "must be at most 20, of up to 128 and 256 printable characters, and not begin with 'aws:' or 'motorpool:'",
            );
        }
        for (field, download) in [("agent", &self.agent), ("runner_program", &self.runner_program)] {
            if download.as_ref().is_some_and(|download| !download.is_sound()) {
                return wrong(
                    field,
                    "must be { url = \"https://…\", sha256 = \"…\" }: an https address, and 64 hexadecimal digits",
                );
            }
        }
        Ok(())
    }
}

impl Download {
    fn is_sound(&self) -> bool {
        let Self { url, sha256 } = self;
        let plain = url.bytes().all(|b| b.is_ascii_graphic() && !b"'\"\\`$<>".contains(&b));
        let hex =
            sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        url.starts_with("https://") && url.len() <= 1_024 && plain && hex
    }
}

fn is_resource(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (8..=17).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

fn is_profile(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b))
}

fn is_tag(key: &str, value: &str) -> bool {
    let printable = |text: &str| text.chars().all(|c| !c.is_control());
    (1..=128).contains(&key.chars().count())
        && value.chars().count() <= 256
        && printable(key)
        && printable(value)
        && !key.starts_with("aws:")
        && !key.starts_with("motorpool:")
}
