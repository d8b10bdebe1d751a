//! What EC2's answers mean for a launch: a pure table over its error codes. It calls nobody.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use motorpool_control::ports::backend::{BackendError, LaunchError};
use motorpool_domain::ladder::{CapacityOption, Lacking};

use crate::calls::{Call, RUN_INSTANCES};

/// A call that did not succeed, without the SDK's types.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Ec2Error {
    #[error("EC2 answered {call} with {code} ({status}): {message}")]
    Answered { call: &'static str, status: u16, code: String, message: String },
    /// No answer, or none that could be read: nobody knows what came of the call.
    #[error("EC2 gave no answer to {call}: {why}")]
    Silent { call: &'static str, why: String },
    /// What a call is made with is missing here. One before it, with the same order, may still have been heard.
    #[error("EC2 could not be asked ({call}): {why}")]
    Unsent { call: &'static str, why: String },
    /// It answered, and what it has won't do for what a pool asks.
    #[error("{0}")]
    Unfit(String),
}

/// What an error code says about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This type, here, sold so, is not to be had.
    NoneOnRung,
    /// Nothing can be launched in this zone.
    NoneInZone,
    /// A quota for all that is sold so is used up.
    NoneSoldSo,
    Throttled,
    /// The token is known from a call with other parameters, or with machines that are gone: what came of that call can be looked up.
    TokenUsed,
    /// A person has to mend something.
    Refused,
    Unconfirmed,
}

/// EC2's words are for people, and some of them (an encoded authorization failure) go on for kilobytes.
const LONGEST_WORDS: usize = 400;

pub(crate) const NO_REGION: &str =
    "no AWS region is set: set AWS_REGION for this server, or `region` in its AWS profile";
const GIVE_CREDENTIALS: &str = "give this server's host a role, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
    AWS_SECRET_ACCESS_KEY, for this server";
/// How the SDK says that there is no region, before it looks for an address and after.
const OF_NO_REGION: [&str; 2] = ["missing region", "missing signing region"];

impl<E> From<SdkError<E, HttpResponse>> for Ec2Error
where
    E: Call + ProvideErrorMetadata + Error + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        let call = E::NAME;
        if let SdkError::ServiceError(answer) = &error
            && let Some(code) = answer.err().code()
        {
            let message = shortened(answer.err().message().unwrap_or("no message"));
            let status = answer.raw().status().as_u16();
            return Self::Answered { call, status, code: code.to_owned(), message };
        }
        match missing(&error) {
            Some(why) => Self::Unsent { call, why },
            None => Self::Silent { call, why: shortened(&causes(&error)) },
        }
    }
}

/// What a person must set, if that is why the call was not sent.
fn missing(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(credentials) = cause.downcast_ref::<CredentialsError>() {
            let what = if matches!(credentials, CredentialsError::CredentialsNotLoaded(_)) {
                "no AWS credentials were found".to_owned()
            } else {
                format!("the AWS credentials could not be loaded ({})", shortened(&causes(credentials)))
            };
            return Some(format!("{what}: {GIVE_CREDENTIALS}"));
        }
        let said = cause.to_string().to_ascii_lowercase();
        if OF_NO_REGION.iter().any(|words| said.contains(words)) {
            return Some(NO_REGION.to_owned());
        }
        next = cause.source();
    }
    None
}

/// An error and what led to it, each once.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let said = cause.to_string();
        if !told.iter().any(|before| before.contains(&said)) {
            told.push(said);
        }
        next = cause.source();
    }
    told.join(": ")
}

impl Ec2Error {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Answered { status, code, call: _, message: _ } => verdict(code, *status),
            Self::Silent { .. } | Self::Unsent { .. } => Verdict::Unconfirmed,
            Self::Unfit(_) => Verdict::Refused,
        }
    }

    /// Whether an id that we named is one that EC2 does not know, or does not know yet.
    pub(crate) fn is_unknown_instance(&self) -> bool {
        self.code() == Some("InvalidInstanceID.NotFound")
    }

    /// Whether an id is none that an instance could have.
    pub(crate) fn is_malformed_instance(&self) -> bool {
        self.code() == Some("InvalidInstanceID.Malformed")
    }

    /// Whether it is the image's id that EC2 does not take.
    pub(crate) fn is_no_image(&self) -> bool {
        self.code().is_some_and(|code| code.starts_with("InvalidAMIID."))
    }

    fn code(&self) -> Option<&str> {
        match self {
            Self::Answered { code, .. } => Some(bare(code)),
            Self::Silent { .. } | Self::Unsent { .. } | Self::Unfit(_) => None,
        }
    }

    pub(crate) fn while_trying(self, attempted: String) -> BackendError {
        BackendError { attempted, source: Box::new(self) }
    }

    /// What becomes of an order on this rung. `TokenUsed` is for the caller to look into; unlooked into, it confirms nothing.
    pub(crate) fn of_launch(self, rung: &CapacityOption) -> LaunchError {
        let verdict = self.verdict();
        let words = || match &self {
            Self::Answered { code, message, .. } => format!("{}: {message}", bare(code)),
            Self::Silent { why, .. } | Self::Unsent { why, .. } | Self::Unfit(why) => why.clone(),
        };
        let refused = || match &self {
            Self::Answered { call, .. } if *call != RUN_INSTANCES => format!("{call}, which a launch needs"),
            Self::Answered { .. } | Self::Silent { .. } | Self::Unsent { .. } | Self::Unfit(_) => {
                "the launch".to_owned()
            }
        };
        let lacking = |of| LaunchError::NoCapacity { of, why: format!("{}: {}", rung.in_words(), words()) };
        match (verdict, &rung.zone) {
            (Verdict::NoneInZone, Some(zone)) => lacking(Lacking::Zone { zone: zone.clone() }),
            (Verdict::NoneOnRung, _) | (Verdict::NoneInZone, None) => lacking(Lacking::rung(rung)),
            (Verdict::NoneSoldSo, _) => lacking(Lacking::Usage { usage: rung.offer.usage }),
            (Verdict::Throttled, _) => LaunchError::Throttled(words()),
            (Verdict::Refused, _) => LaunchError::Refused(format!("EC2 refused {}: {}", refused(), words())),
            (Verdict::TokenUsed | Verdict::Unconfirmed, _) => LaunchError::Unconfirmed(Box::new(self)),
        }
    }
}

/// The code decides where it is one of these; else the status: what is the caller's fault stays so until somebody mends it, and after any
/// other the call may have had its effect. (`InsufficientInstanceCapacity` comes with 500, `RequestLimitExceeded` with 503.)
pub(crate) fn verdict(code: &str, status: u16) -> Verdict {
    match bare(code) {
        "InsufficientInstanceCapacity"
        | "InsufficientCapacity"
        | "InsufficientHostCapacity"
        | "UnfulfillableCapacity"
        | "Unsupported"
        | "SpotMaxPriceTooLow" => Verdict::NoneOnRung,
        "InsufficientFreeAddressesInSubnet"
        | "InsufficientVolumeCapacity"
        | "VolumeTypeNotAvailableInZone" => Verdict::NoneInZone,
        "MaxSpotInstanceCountExceeded"
        | "VcpuLimitExceeded"
        | "InstanceLimitExceeded"
        | "VolumeLimitExceeded" => Verdict::NoneSoldSo,
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "EC2ThrottledException"
        | "BandwidthLimitExceeded"
        | "SlowDown" => Verdict::Throttled,
        "IdempotentParameterMismatch" | "IdempotentInstanceTerminated" => Verdict::TokenUsed,
        _ if status == 429 => Verdict::Throttled,
        _ if (400..500).contains(&status) => Verdict::Refused,
        _ => Verdict::Unconfirmed,
    }
}

/// Some of EC2's answers say whose fault it is in front of the code.
fn bare(code: &str) -> &str {
    code.strip_prefix("Client.").or_else(|| code.strip_prefix("Server.")).unwrap_or(code)
}

fn shortened(words: &str) -> String {
    match words.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::spec::{Offer, Spec, Usage};

    fn rung() -> CapacityOption {
        let spec = Spec { cpu: 2, memory_mb: 4_096 };
        let offer = Offer { instance_type: "c6i.large".to_owned(), usage: Usage::Spot, spec };
        CapacityOption { offer, zone: Some("us-east-1a".to_owned()), hourly: None }
    }

    fn answered(code: &str, status: u16) -> Ec2Error {
        let message = "in its own words".to_owned();
        Ec2Error::Answered { call: RUN_INSTANCES, status, code: code.to_owned(), message }
    }

    fn silent() -> Ec2Error {
        Ec2Error::Silent { call: RUN_INSTANCES, why: "timed out".to_owned() }
    }

    #[test]
    fn fault_22_and_fault_11_every_code_has_its_verdict() {
        for (code, status, expected) in [
            ("InsufficientInstanceCapacity", 500, Verdict::NoneOnRung),
            ("Server.InsufficientInstanceCapacity", 500, Verdict::NoneOnRung),
            ("UnfulfillableCapacity", 500, Verdict::NoneOnRung),
            ("InsufficientHostCapacity", 500, Verdict::NoneOnRung),
            ("Unsupported", 400, Verdict::NoneOnRung),
            ("SpotMaxPriceTooLow", 400, Verdict::NoneOnRung),
            ("InsufficientFreeAddressesInSubnet", 400, Verdict::NoneInZone),
            ("VolumeTypeNotAvailableInZone", 400, Verdict::NoneInZone),
            ("MaxSpotInstanceCountExceeded", 400, Verdict::NoneSoldSo),
            ("VcpuLimitExceeded", 400, Verdict::NoneSoldSo),
            ("InstanceLimitExceeded", 400, Verdict::NoneSoldSo),
            ("RequestLimitExceeded", 503, Verdict::Throttled),
            ("Client.RequestLimitExceeded", 503, Verdict::Throttled),
            ("Throttling", 400, Verdict::Throttled),
            ("SomethingNew", 429, Verdict::Throttled),
            ("IdempotentParameterMismatch", 400, Verdict::TokenUsed),
            ("IdempotentInstanceTerminated", 400, Verdict::TokenUsed),
            ("InvalidAMIID.NotFound", 400, Verdict::Refused),
            ("UnauthorizedOperation", 403, Verdict::Refused),
            ("InvalidParameterValue", 400, Verdict::Refused),
            ("InternalError", 500, Verdict::Unconfirmed),
            ("Unavailable", 503, Verdict::Unconfirmed),
            ("SomethingNew", 500, Verdict::Unconfirmed),
            ("SomethingNew", 200, Verdict::Unconfirmed),
        ] {
            assert_eq!(verdict(code, status), expected, "{code} {status}");
        }
        assert_eq!(silent().verdict(), Verdict::Unconfirmed);
    }

    #[test]
    fn fault_22_a_verdict_names_how_much_of_the_ladder_is_empty() {
        let of = |code, status| match answered(code, status).of_launch(&rung()) {
            LaunchError::NoCapacity { of, why } => (of, why),
            error @ (LaunchError::Throttled(_) | LaunchError::Refused(_) | LaunchError::Unconfirmed(_)) => {
                panic!("{error}")
            }
        };
        let (lacking, why) = of("InsufficientInstanceCapacity", 500);
        assert_eq!(lacking, Lacking::rung(&rung()));
        assert_eq!(why, "c6i.large (spot) in us-east-1a: InsufficientInstanceCapacity: in its own words");
        let zone = Lacking::Zone { zone: "us-east-1a".to_owned() };
        assert_eq!(of("InsufficientFreeAddressesInSubnet", 400).0, zone);
        assert_eq!(of("VcpuLimitExceeded", 400).0, Lacking::Usage { usage: Usage::Spot });
    }

    #[test]
    fn a_refusal_is_told_in_ec2s_own_words_and_not_at_any_length() {
        let refused = answered("InvalidAMIID.NotFound", 400).of_launch(&rung());
        assert_eq!(refused.to_string(), "EC2 refused the launch: InvalidAMIID.NotFound: in its own words");
        let (code, message) = ("UnauthorizedOperation".to_owned(), "no".to_owned());
        let before = Ec2Error::Answered { call: "DescribeImages", status: 403, code, message };
        assert_eq!(
            before.of_launch(&rung()).to_string(),
            "EC2 refused DescribeImages, which a launch needs: UnauthorizedOperation: no"
        );
        assert_eq!(shortened(&"ä".repeat(10_000)).chars().count(), LONGEST_WORDS + 1);
    }

    #[test]
    fn only_an_unknown_instance_is_one() {
        assert!(answered("InvalidInstanceID.NotFound", 400).is_unknown_instance());
        assert!(!answered("InvalidInstanceID.Malformed", 400).is_unknown_instance());
        assert!(!silent().is_unknown_instance());
    }
}
