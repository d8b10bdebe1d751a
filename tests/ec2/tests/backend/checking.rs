//! What is found wrong with a pool's settings before anything is launched, and how it is told when EC2 can't be asked.

use crate::{Ground, INSTALLATION};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Future;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_types::SdkConfig;
use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
use motorpool_control::ports::backend::Backend;
use motorpool_domain::pool::{Architecture, Ec2Rules};
use motorpool_domain::spec::{Spec, TypeGlobs, Usage, Want};
use motorpool_ec2_tests::fake::catalogue::{
    ARM_IMAGE, LARGE_IMAGE, OTHER_GROUP, OTHER_SUBNET, OTHER_VPC, SUBNETS, VPC, WINDOWS_IMAGE,
};
use std::error::Error;

impl Ground {
    async fn with(change: impl FnOnce(&mut Ec2Rules)) -> Self {
        let mut ground = Self::new().await;
        change(ground.pool.rules.ec2.as_mut().expect("an EC2 pool"));
        ground
    }

    async fn problems(&self) -> Vec<String> {
        let found = self.backend.check(&self.pool).await.expect("EC2 can be asked");
        found.iter().map(ToString::to_string).collect()
    }
}

#[tokio::test]
async fn a_pool_that_can_be_launched_has_no_problem() {
    let ground = Ground::new().await;
    assert_eq!(ground.problems().await, [""; 0]);
    let calls = ground.fake.calls();
    for call in ["DescribeImages", "DescribeSecurityGroups"] {
        assert_eq!(calls[call], 1, "{call}");
    }
}

#[tokio::test]
async fn a_wrong_image_is_named_with_what_is_wrong_with_it() {
    for (image, told) in [
        (
            "ami-00000000000000bad",
            "image: EC2 has no ami-00000000000000bad in this region, or does not show it to this account",
        ),
        (
            ARM_IMAGE,
            "image: ami-0fedcba9876543210 is for arm64, and the pool's machines are x86_64; see `architecture`",
        ),
        (WINDOWS_IMAGE, "image: ami-0d0d0d0d0d0d0d0d0 is Windows, and the agent needs a Linux with systemd"),
        (LARGE_IMAGE, "disk_gb: is 50, and the disk of ami-0e0e0e0e0e0e0e0e0 has 100: at least that"),
    ] {
        let ground = Ground::with(|rules| rules.image = image.to_owned()).await;
        assert_eq!(ground.problems().await, [told]);
    }
    let large = Ground::with(|rules| {
        rules.image = LARGE_IMAGE.to_owned();
        rules.disk_gb = 100;
    });
    assert_eq!(large.await.problems().await, [""; 0]);
}

#[tokio::test]
async fn every_subnet_and_group_that_is_not_there_is_named_also_one_of_several() {
    let ground = Ground::with(|rules| {
        rules.subnets = [SUBNETS[0], "subnet-00000000000000bad"].map(str::to_owned).to_vec();
        rules.security_groups.push("sg-00000000000000bad".to_owned());
        rules.security_groups.push("sg-00000000000000wor".replace("wor", "0dd"));
    });
    assert_eq!(
        ground.await.problems().await,
        [
            "subnets: EC2 has no subnet-00000000000000bad in this region and account",
            "security_groups: EC2 has no sg-00000000000000bad in this region and account",
            "security_groups: EC2 has no sg-000000000000000dd in this region and account",
        ]
    );
    let none = Ground::with(|rules| rules.subnets = vec!["subnet-00000000000000bad".to_owned()]).await;
    assert_eq!(none.problems().await.len(), 1, "nothing else can be said without a zone");
}

#[tokio::test]
async fn groups_and_subnets_of_different_vpcs_are_told_apart() {
    let other = SUBNETS[0];
    for ground in [
        Ground::with(|rules| rules.security_groups = vec![OTHER_GROUP.to_owned()]).await,
        Ground::with(|rules| rules.subnets = vec![other.to_owned(), OTHER_SUBNET.to_owned()]).await,
    ] {
        let problems = ground.problems().await;
        assert_eq!(problems.len(), 1, "{problems:?}");
        for part in ["must be of one VPC", VPC, OTHER_VPC, other] {
            assert!(problems[0].contains(part), "{part}: {problems:?}");
        }
    }
    let both = Ground::with(|rules| {
        rules.subnets = vec![OTHER_SUBNET.to_owned()];
        rules.security_groups = vec![OTHER_GROUP.to_owned()];
    });
    assert_eq!(both.await.problems().await, [""; 0]);
}

#[tokio::test]
async fn where_no_machine_fits_it_is_said_what_excluded_the_last() {
    let globs = |text: &str| TypeGlobs::parse(text).expect("patterns");
    let zone_c = || vec![SUBNETS[2].to_owned()];
    type Change = Box<dyn Fn(&mut Ec2Rules)>;
    let any: fn() -> Change = || Box::new(|_| {});
    let cases: Vec<(Spec, Change, &str)> = vec![
        (Spec { cpu: 500, memory_mb: 1 }, any(), "cpu: is 500, and no type for x86_64 here has more than 8"),
        (
            Spec { cpu: 2, memory_mb: 999_999 },
            any(),
            "memory_mb: is 999999, and no type for x86_64 here has more than 32768",
        ),
        (
            Spec { cpu: 4, memory_mb: 32_768 },
            Box::new(move |rules| rules.instance_types = globs("c*")),
            "instance_types: no type like 'c*' has 4 CPUs and 32768 MB; r6i.xlarge, m6i.2xlarge would do, if it were allowed",
        ),
        (
            Spec { cpu: 2, memory_mb: 4_096 },
            Box::new(move |rules| rules.instance_types = globs("x9*")),
            "instance_types: no type for x86_64 here is like 'x9*'",
        ),
        (
            Spec { cpu: 2, memory_mb: 4_096 },
            Box::new(move |rules| rules.instance_types = globs("c7g.*")),
            "architecture: is x86_64, and the types like 'c7g.*' are all arm64",
        ),
        (
            Spec { cpu: 2, memory_mb: 4_096 },
            Box::new(move |rules| {
                rules.instance_types = globs("m7i.*");
                rules.subnets = zone_c();
            }),
            "subnets: are in us-east-1c, where none of the types that fit is offered (m7i.large, m7i.xlarge)",
        ),
    ];
    for (spec, change, told) in cases {
        let mut ground = Ground::with(change).await;
        ground.pool.rules.offer.spec = spec;
        assert!(ground.ladder().await.is_empty(), "{told}");
        assert_eq!(ground.problems().await, [told]);
    }
    let arm = Ground::with(|rules| {
        rules.architecture = Architecture::Arm64;
        rules.image = ARM_IMAGE.to_owned();
        rules.instance_types = TypeGlobs::parse("c7g.*").expect("patterns");
    });
    assert_eq!(arm.await.problems().await, [""; 0]);
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let mut ground = Ground::with(|rules| {
        rules.image = WINDOWS_IMAGE.to_owned();
        rules.security_groups = vec!["sg-00000000000000bad".to_owned()];
    })
    .await;
    ground.pool.rules.offer.spec = Spec { cpu: 500, memory_mb: 1 };
    ground.pool.rules.offer.usage = Usage::OnDemand;
    let fields: Vec<String> = ground
        .problems()
        .await
        .iter()
        .map(|told| told.split(':').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(fields, ["image", "security_groups", "cpu"]);
}

#[tokio::test]
async fn a_check_that_is_not_allowed_is_an_error_that_names_the_call() {
    let ground = Ground::new().await;
    ground.fake.fail_next("DescribeSecurityGroups", 1, "UnauthorizedOperation", 403);
    let told = told(&ground.backend.check(&ground.pool).await.unwrap_err());
    assert_eq!(
        told,
        "the backend could not check the settings of pool small: EC2 answered DescribeSecurityGroups with \
         UnauthorizedOperation (403): planned by the test: UnauthorizedOperation"
    );
}

#[tokio::test]
async fn a_missing_region_and_missing_credentials_are_told_in_plain_words() {
    let ground = Ground::new().await;
    let config = ground.fake.config().await;
    let mut nowhere = config.clone().into_builder();
    nowhere.set_region(None);
    let nowhere = nowhere.build();
    let mut without_address = nowhere.clone().into_builder();
    without_address.set_endpoint_url(None);
    let nobody =
        |why| config.clone().into_builder().credentials_provider(SharedCredentialsProvider::new(Nobody(why)));
    let region = "no AWS region is set: set AWS_REGION";
    let credentials = "no AWS credentials were found: give this server's host a role, or set AWS_PROFILE";
    for (config, expected) in [
        (nowhere, region),
        (without_address.build(), region),
        (nobody(Lack::NoSource).build(), credentials),
        (nobody(Lack::Broken).build(), "the AWS credentials could not be loaded ("),
    ] {
        let told = told(&backend(&ground, &config).check(&ground.pool).await.unwrap_err());
        assert!(told.contains(expected) && told.contains("EC2 could not be asked (Describe"), "{told}");
        assert!(!told.contains("Error {") && !told.contains("DispatchFailure("), "it is Rust's: {told}");
    }
    let broken = backend(&ground, &nobody(Lack::Broken).build());
    let told = told(&broken.ladder(&ground.pool, &Want::default()).await.unwrap_err());
    assert!(told.contains("(DescribeSubnets)") && told.contains("the profile is in a knot): give"), "{told}");
}

fn backend(ground: &Ground, config: &SdkConfig) -> Ec2Backend {
    let settings = Ec2Config {
        installation: INSTALLATION.to_owned(),
        server_url: "https://pool.example:8443".to_owned(),
        ca_pem: None,
        clock: ground.clock.clone(),
    };
    Ec2Backend::new(config, settings)
}

fn told(error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[derive(Debug, Clone, Copy)]
enum Lack {
    NoSource,
    Broken,
}

#[derive(Debug)]
struct Nobody(Lack);

impl ProvideCredentials for Nobody {
    fn provide_credentials<'a>(&'a self) -> Future<'a>
    where
        Self: 'a,
    {
        Future::ready(Err(match self.0 {
            Lack::NoSource => CredentialsError::not_loaded_no_source(),
            Lack::Broken => CredentialsError::invalid_configuration("the profile is in a knot"),
        }))
    }
}
