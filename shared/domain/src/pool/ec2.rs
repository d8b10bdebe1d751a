//! What a pool on EC2 is made of, and which of its rules can't hold.

use super::RuleError;
use crate::spec::TypeGlobs;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

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
    /// 64 hexadecimal digits, in lower case: some tools write them in capitals.
    #[serde(deserialize_with = "in_lower_case")]
    pub sha256: String,
}

/// More would leave the user data, which EC2 bounds, too little for the rest.
const LONGEST_URL: usize = 1_024;

/// The rules of `check` as regular expressions and bounds, for the API's document.
impl Ec2Rules {
    pub const IMAGE_PATTERN: &'static str = "^ami-[0-9a-f]{8,17}$";
    pub const SUBNET_PATTERN: &'static str = "^subnet-[0-9a-f]{8,17}$";
    pub const SECURITY_GROUP_PATTERN: &'static str = "^sg-[0-9a-f]{8,17}$";
    pub const PROFILE_PATTERN: &'static str = "^[A-Za-z0-9+=,.@_-]{1,128}$";
    pub const TAG_KEY_PATTERN: &'static str = r"^(?!aws:)(?!motorpool:)[^\u0000-\u001f\u007f-\u009f]{1,128}$";
    pub const TAG_VALUE_PATTERN: &'static str = r"^[^\u0000-\u001f\u007f-\u009f]{0,256}$";
    pub const MOST_TAGS: usize = 20;
    pub const DISK_GB: RangeInclusive<u32> = 8..=16_384;
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
        if !Self::DISK_GB.contains(&self.disk_gb) {
            return wrong("disk_gb", "must be from 8 to 16384");
        }
        if self.instance_profile.as_deref().is_some_and(|name| !is_profile(name)) {
            return wrong("instance_profile", "must be a name of 1 to 128 letters, digits and '+=,.@_-'");
        }
        if self.tags.len() > Self::MOST_TAGS || !self.tags.iter().all(|(key, value)| is_tag(key, value)) {
            return wrong(
                "tags",
                "must be at most 20, of up to 128 and 256 printable characters, and not begin with 'aws:' or 'motorpool:'",
            );
        }
        for (field, download) in [("agent", &self.agent), ("runner_program", &self.runner_program)] {
            if let Some(problem) = download.as_ref().and_then(Download::fault) {
                return Err(RuleError { field, problem });
            }
        }
        Ok(())
    }
}

impl Download {
    /// What may stand in `url`, as a regular expression, for the API's document.
    pub const URL_PATTERN: &'static str = r"^https://[!#%&(-;=?-\[\]^_a-z{|}~]{0,1016}$";
    /// Likewise of `sha256`, which is read in capitals, too.
    pub const SHA256_PATTERN: &'static str = "^[0-9a-fA-F]{64}$";

    /// The first thing that is wrong with it. It says nothing of an address but its length: there may be a secret in it.
    fn fault(&self) -> Option<String> {
        let Self { url, sha256 } = self;
        if !url.starts_with("https://") {
            return Some("its url must begin with https://".to_owned());
        }
        if url.len() > LONGEST_URL {
            return Some(format!(
                "its url has {} characters, and {LONGEST_URL} is the most: one that is signed for a while is so long, and would end before the pool does",
                url.len()
            ));
        }
        if let Some(bad) = url.chars().find(|c| !c.is_ascii_graphic() || "'\"\\`$<>".contains(*c)) {
            return Some(format!("its url has a {bad:?}, which must be percent-encoded"));
        }
        if sha256.len() != 64 {
            return Some(format!("its sha256 has {} characters instead of 64", sha256.len()));
        }
        let bad = sha256.chars().find(|c| !c.is_ascii_digit() && !('a'..='f').contains(c))?;
        Some(format!("its sha256 has a {bad:?}, which is no hexadecimal digit"))
    }
}

fn in_lower_case<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| text.to_ascii_lowercase())
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::value::{Error, MapDeserializer};

    /// As it is read from a file.
    fn download(url: &str, sha256: &str) -> Download {
        let fields = [("url", url), ("sha256", sha256)];
        Download::deserialize(MapDeserializer::<_, Error>::new(fields.into_iter())).unwrap()
    }

    #[test]
    fn a_checksum_in_capitals_is_the_same() {
        let written = download("https://x.example/agent", &"AB".repeat(32));
        assert_eq!(written.sha256, "ab".repeat(32));
        assert_eq!(written.fault(), None);
    }

    #[test]
    fn each_fault_of_a_download_is_named() {
        let sound = "ab".repeat(32);
        let long = format!("https://x.example/{}", "x".repeat(1_200));
        for (url, sha256, told) in [
            ("http://x.example/agent", sound.as_str(), "must begin with https://"),
            (long.as_str(), sound.as_str(), "has 1218 characters, and 1024 is the most"),
            ("https://x.example/$(id)", sound.as_str(), "has a '$'"),
            ("https://x.example/a b", sound.as_str(), "has a ' '"),
            ("https://x.example/ä", sound.as_str(), "has a 'ä'"),
            ("https://x.example/agent", "abc", "has 3 characters instead of 64"),
            ("https://x.example/agent", &"xy".repeat(32), "has a 'x'"),
        ] {
            let fault = download(url, sha256).fault().unwrap();
            assert!(fault.contains(told) && !fault.contains("x.example"), "{fault}");
        }
    }
}
