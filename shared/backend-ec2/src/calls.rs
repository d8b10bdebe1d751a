//! The calls that are made to EC2, by name: what an error of the SDK is of.

use aws_sdk_ec2::operation::create_tags::CreateTagsError;
use aws_sdk_ec2::operation::describe_images::DescribeImagesError;
use aws_sdk_ec2::operation::describe_instance_type_offerings::DescribeInstanceTypeOfferingsError;
use aws_sdk_ec2::operation::describe_instance_types::DescribeInstanceTypesError;
use aws_sdk_ec2::operation::describe_instances::DescribeInstancesError;
use aws_sdk_ec2::operation::describe_security_groups::DescribeSecurityGroupsError;
use aws_sdk_ec2::operation::describe_spot_price_history::DescribeSpotPriceHistoryError;
use aws_sdk_ec2::operation::describe_subnets::DescribeSubnetsError;
use aws_sdk_ec2::operation::run_instances::RunInstancesError;
use aws_sdk_ec2::operation::terminate_instances::TerminateInstancesError;

pub(crate) const RUN_INSTANCES: &str = "RunInstances";

/// An error knows which call it is of, so that nobody can say another.
pub(crate) trait Call {
    const NAME: &'static str;
}

macro_rules! names {
    ($($error:ty: $name:expr),+ $(,)?) => {
        $(impl Call for $error {
            const NAME: &'static str = $name;
        })+
    };
}

names! {
    CreateTagsError: "CreateTags",
    DescribeImagesError: "DescribeImages",
    DescribeInstanceTypeOfferingsError: "DescribeInstanceTypeOfferings",
    DescribeInstanceTypesError: "DescribeInstanceTypes",
    DescribeInstancesError: "DescribeInstances",
    DescribeSecurityGroupsError: "DescribeSecurityGroups",
    DescribeSpotPriceHistoryError: "DescribeSpotPriceHistory",
    DescribeSubnetsError: "DescribeSubnets",
    RunInstancesError: RUN_INSTANCES,
    TerminateInstancesError: "TerminateInstances",
}
