//! The patterns for the API's document: whatever fits one is taken by the parser that it stands beside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use motorpool_domain::runner::{COMMAND_PATTERN, is_command};
use motorpool_domain::spec::{INSTANCE_TYPE_PATTERN, TypeGlobs, is_instance_type};
use motorpool_domain::{ClaimId, DeliveryId, Label, LaunchId, Owner, PoolName, RunnerId, TaskId, Workflow};
use proptest::prelude::*;
use proptest::string::string_regex;

/// Texts that fit a whole pattern.
fn fitting(pattern: &str) -> impl Strategy<Value = String> + use<> {
    string_regex(pattern.strip_prefix('^').unwrap().strip_suffix('$').unwrap()).unwrap()
}

macro_rules! taken {
    ($($test:ident: $pattern:expr => $takes:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $test(text in fitting($pattern)) {
                    let takes: fn(&str) -> bool = $takes;
                    prop_assert!(takes(&text), "{text:?}");
                }
            )*
        }
    };
}

taken! {
    pools: PoolName::PATTERN => |text| PoolName::parse(text).is_ok();
    runners: RunnerId::PATTERN => |text| RunnerId::parse(text).is_ok();
    claims: ClaimId::PATTERN => |text| ClaimId::parse(text).is_ok();
    deliveries: DeliveryId::PATTERN => |text| DeliveryId::parse(text).is_ok();
    launches: LaunchId::PATTERN => |text| LaunchId::parse(text).is_ok();
    workflows: Workflow::PATTERN => |text| Workflow::parse(text).is_ok();
    owners: Owner::PATTERN => |text| Owner::parse(text).is_ok();
    labels: Label::PATTERN => |text| Label::parse(text).is_ok();
    tasks: TaskId::PATTERN => |text| TaskId::parse(text).is_ok();
    instance_types: INSTANCE_TYPE_PATTERN => is_instance_type;
    commands: COMMAND_PATTERN => is_command;
    globs: TypeGlobs::PATTERN => |text| TypeGlobs::parse(text).is_ok();
}
