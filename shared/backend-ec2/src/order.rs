//! An order as EC2's request. It follows from the order and the settings alone: made again, it is the same, which is what its token promises.

use std::collections::BTreeMap;

use aws_sdk_ec2::operation::run_instances::RunInstancesInput;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, EbsBlockDevice, HttpTokensState, IamInstanceProfileSpecification,
    InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceMetadataEndpointState,
    InstanceMetadataOptionsRequest, InstanceMetadataTagsState, InstanceType, MarketType, ResourceType,
    ShutdownBehavior, SpotInstanceType, SpotMarketOptions, Tag, TagSpecification, VolumeType,
};
use motorpool_control::ports::backend::LaunchOrder;
use motorpool_domain::LaunchId;
use motorpool_domain::ladder::LaunchCall;
use motorpool_domain::pool::Ec2Rules;
use motorpool_domain::spec::Usage;

use crate::tags;

/// What the order does not say itself.
#[derive(Debug)]
pub(crate) struct Details<'a> {
    pub(crate) installation: &'a str,
    pub(crate) subnet: &'a str,
    pub(crate) root_device: &'a str,
    /// In base64.
    pub(crate) user_data: String,
}

pub(crate) fn request(
    order: &LaunchOrder<'_>,
    rules: &Ec2Rules,
    details: Details<'_>,
) -> RunInstancesInputBuilder {
    let Details { installation, subnet, root_device, user_data } = details;
    let LaunchCall { number: _, from: _, count, rung, asked_by: _ } = order.attempt;
    let usage = rung.offer.usage;
    let profile = |name: &String| IamInstanceProfileSpecification::builder().name(name).build();
    RunInstancesInput::builder()
        .client_token(token(installation, order.launch, order.attempt))
        .min_count(1)
        .max_count(i32::try_from(*count).unwrap_or(i32::MAX))
        .image_id(&rules.image)
        .instance_type(InstanceType::from(rung.offer.instance_type.as_str()))
        .subnet_id(subnet)
        .set_security_group_ids(Some(rules.security_groups.clone()))
        .set_instance_market_options(market(usage))
        .metadata_options(metadata_by_token_only())
        .block_device_mappings(encrypted_disk(root_device, rules.disk_gb))
        // The agent ends its host by powering it off, and needs no credentials for that.
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .set_iam_instance_profile(rules.instance_profile.as_ref().map(profile))
        .set_tag_specifications(Some(tagged(&tags::of_order(order, installation, &rules.tags), usage)))
        .user_data(user_data)
}

/// Known to EC2 as the same call, whoever repeats it. At most 64 characters: a launch's id has 42 at most, and neither of the numbers
/// comes near 10,000.
pub(crate) fn token(installation: &str, launch: &LaunchId, attempt: &LaunchCall) -> String {
    format!("mp-{installation}-{launch}-{}.{}", attempt.number, attempt.from)
}

fn market(usage: Usage) -> Option<InstanceMarketOptionsRequest> {
    match usage {
        Usage::OnDemand => None,
        Usage::Spot => {
            // Without a highest price it is the on-demand price.
            let once = SpotMarketOptions::builder()
                .spot_instance_type(SpotInstanceType::OneTime)
                .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
                .build();
            let options =
                InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).spot_options(once);
            Some(options.build())
        }
    }
}

/// The hop limit keeps the answer from the containers of a job; the token keeps out whoever can only make the host fetch an address.
fn metadata_by_token_only() -> InstanceMetadataOptionsRequest {
    InstanceMetadataOptionsRequest::builder()
        .http_endpoint(InstanceMetadataEndpointState::Enabled)
        .http_tokens(HttpTokensState::Required)
        .http_put_response_hop_limit(1)
        .instance_metadata_tags(InstanceMetadataTagsState::Disabled)
        .build()
}

fn encrypted_disk(root_device: &str, disk_gb: u32) -> BlockDeviceMapping {
    let disk = EbsBlockDevice::builder()
        .encrypted(true)
        .volume_type(VolumeType::Gp3)
        .volume_size(i32::try_from(disk_gb).unwrap_or(i32::MAX))
        .delete_on_termination(true)
        .build();
    BlockDeviceMapping::builder().device_name(root_device).ebs(disk).build()
}

fn tagged(tags: &BTreeMap<String, String>, usage: Usage) -> Vec<TagSpecification> {
    let tags: Vec<Tag> =
        tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    let of =
        |resource| TagSpecification::builder().resource_type(resource).set_tags(Some(tags.clone())).build();
    let mut all = vec![of(ResourceType::Instance), of(ResourceType::Volume)];
    match usage {
        Usage::Spot => all.push(of(ResourceType::SpotInstancesRequest)),
        Usage::OnDemand => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::ladder::CapacityOption;
    use motorpool_domain::spec::{Offer, Spec};

    #[test]
    fn inv_15_the_token_follows_from_the_attempt_and_fits_ec2() {
        let offer = Offer {
            instance_type: "c6i.large".to_owned(),
            usage: Usage::Spot,
            spec: Spec { cpu: 2, memory_mb: 1 },
        };
        let first = LaunchCall::first(5, CapacityOption::only(offer.clone()), None);
        let launch = LaunchId::parse(format!("l-{}", "z".repeat(40))).unwrap();
        let last = LaunchCall { number: 9_999, from: 9_999, ..first.clone() };
        for attempt in [&first, &last] {
            let token = token("0a1b2c", &launch, attempt);
            assert!(token.len() <= 64 && token.is_ascii(), "{token}");
        }
        let short = LaunchId::parse("l-abc").unwrap();
        assert_eq!(token("0a1b2c", &short, &first), "mp-0a1b2c-l-abc-1.0");
        assert_eq!(
            token("0a1b2c", &short, &first.next(2, 3, CapacityOption::only(offer))),
            "mp-0a1b2c-l-abc-2.2"
        );
    }
}
