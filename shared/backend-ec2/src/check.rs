//! What is wrong with a pool's settings, as far as EC2 can tell before anything is launched: the image, the network, and whether any type
//! fits. EC2 is asked anew each time, so that what was just mended is seen; only its lists of types may be some hours old.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use aws_sdk_ec2::config::AsyncSleep;
use aws_sdk_ec2::types::{DeviceType, Image, ImageState};
use futures_util::future::{Either, select, try_join3};
use motorpool_domain::pool::{Architecture, Ec2Rules, Pool, RuleError};
use motorpool_domain::spec::Want;

use crate::Ec2Backend;
use crate::catalogue::filter;
use crate::errors::Ec2Error;
use crate::explain_no_match::explain_no_match;
use crate::ladder::ladder;

/// An operator waits for it, who is told a few seconds later that there is no answer.
const CHECKED_WITHIN: Duration = Duration::from_secs(25);

/// The VPC of each that there is, by its id.
type Found = BTreeMap<String, String>;

impl Ec2Backend {
    pub(crate) async fn problems_of(
        &self,
        pool: &Pool,
        rules: &Ec2Rules,
    ) -> Result<Vec<RuleError>, Ec2Error> {
        self.in_time(async {
            let (image, subnets, groups) =
                try_join3(self.image(&rules.image), self.subnets(rules), self.groups(rules)).await?;
            let mut problems = of_image(rules, image.as_ref());
            problems.extend(of_network(rules, &subnets, &groups));
            // Where there is no zone, no type can be said to be missing.
            if !subnets.is_empty() {
                problems.extend(self.why_no_match(pool, rules).await?);
            }
            Ok(problems)
        })
        .await
    }

    async fn in_time<T>(&self, asking: impl Future<Output = Result<T, Ec2Error>>) -> Result<T, Ec2Error> {
        let Some(timer) = &self.timer else { return asking.await };
        match select(pin!(asking), timer.sleep(CHECKED_WITHIN)).await {
            Either::Left((asked, _)) => asked,
            Either::Right(_) => {
                let why = format!("they took longer than {} s", CHECKED_WITHIN.as_secs());
                Err(Ec2Error::Silent { call: "all questions about the pool", why })
            }
        }
    }

    /// Also one that is deprecated, which can still be launched.
    async fn image(&self, id: &str) -> Result<Option<Image>, Ec2Error> {
        let asking = self.client.describe_images().image_ids(id).include_deprecated(true);
        match asking.send().await.map_err(Ec2Error::from) {
            Ok(found) => Ok(found.images.unwrap_or_default().into_iter().next()),
            Err(error) if error.is_no_image() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// By a filter, which leaves out those that are not there; asked by their ids, EC2 would name only one of them.
    async fn subnets(&self, rules: &Ec2Rules) -> Result<Found, Ec2Error> {
        let wanted = filter("subnet-id", &texts(&rules.subnets));
        let found = self.client.describe_subnets().filters(wanted).send().await?;
        let each = found.subnets().iter();
        Ok(each.filter_map(|one| Some((one.subnet_id()?.to_owned(), vpc(one.vpc_id())))).collect())
    }

    async fn groups(&self, rules: &Ec2Rules) -> Result<Found, Ec2Error> {
        let wanted = filter("group-id", &texts(&rules.security_groups));
        let found = self.client.describe_security_groups().filters(wanted).send().await?;
        let each = found.security_groups().iter();
        Ok(each.filter_map(|one| Some((one.group_id()?.to_owned(), vpc(one.vpc_id())))).collect())
    }

    /// Which setting leaves the pool without any type, if none is left.
    async fn why_no_match(&self, pool: &Pool, rules: &Ec2Rules) -> Result<Option<RuleError>, Ec2Error> {
        let offer = &pool.rules.offer;
        let (types, zones) = self.offered(pool, rules).await?;
        if !ladder(offer, rules, &Want::default(), &types, &zones).is_empty() {
            return Ok(None);
        }
        let other = match rules.architecture {
            Architecture::X86_64 => Architecture::Arm64,
            Architecture::Arm64 => Architecture::X86_64,
        };
        let others = self.catalogue.types(other).await?;
        Ok(Some(explain_no_match(offer, rules, &types, &zones, (other, &others))))
    }
}

fn texts(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

fn vpc(id: Option<&str>) -> String {
    id.unwrap_or("no VPC").to_owned()
}

fn of_image(rules: &Ec2Rules, image: Option<&Image>) -> Vec<RuleError> {
    let Ec2Rules { image: id, architecture, disk_gb, .. } = rules;
    let wrong = |field, problem| RuleError { field, problem };
    let Some(image) = image else {
        return vec![wrong(
            "image",
            format!("EC2 has no {id} in this region, or does not show it to this account"),
        )];
    };
    let mut problems = Vec::new();
    if let Some(state) = image.state().filter(|state| **state != ImageState::Available) {
        problems.push(wrong("image", format!("{id} can't be launched: it is {}", state.as_str())));
    }
    let made_for = image.architecture().map(|made_for| made_for.as_str());
    if let Some(made_for) = made_for.filter(|made_for| *made_for != architecture.name()) {
        let wanted = architecture.name();
        problems.push(wrong(
            "image",
            format!("{id} is for {made_for}, and the pool's machines are {wanted}; see `architecture`"),
        ));
    }
    let windows = |text: &str| text.to_ascii_lowercase().starts_with("windows");
    if image.platform().is_some_and(|platform| windows(platform.as_str()))
        || image.platform_details().is_some_and(windows)
    {
        problems.push(wrong("image", format!("{id} is Windows, and the agent needs a Linux with systemd")));
    }
    if image.root_device_type() == Some(&DeviceType::InstanceStore) {
        problems.push(wrong("image", format!("{id} has no EBS volume for its root disk")));
    } else if image.root_device_name().is_none() {
        problems.push(wrong("image", format!("{id} has no root disk")));
    }
    let own = root_disk_gb(image);
    if let Some(own) = own.filter(|own| *own > i64::from(*disk_gb)) {
        problems
            .push(wrong("disk_gb", format!("is {disk_gb}, and the disk of {id} has {own}: at least that")));
    }
    problems
}

fn root_disk_gb(image: &Image) -> Option<i64> {
    let root = image.root_device_name()?;
    let mut disks = image.block_device_mappings().iter();
    let disk = disks.find(|disk| disk.device_name() == Some(root))?;
    disk.ebs()?.volume_size().map(i64::from)
}

/// A launch names one of the subnets and all of the groups, and EC2 takes them only if they are of one VPC.
fn of_network(rules: &Ec2Rules, subnets: &Found, groups: &Found) -> Vec<RuleError> {
    let named = [("subnets", &rules.subnets, subnets), ("security_groups", &rules.security_groups, groups)];
    let mut problems = Vec::new();
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (field, wanted, found) in named {
        for id in wanted {
            match found.get(id) {
                Some(vpc) => drop(members.entry(vpc).or_default().insert(id)),
                None => problems.push(RuleError {
                    field,
                    problem: format!("EC2 has no {id} in this region and account"),
                }),
            }
        }
    }
    if members.len() > 1 {
        let each = members.iter().map(|(vpc, ids)| {
            let ids: Vec<&str> = ids.iter().copied().collect();
            format!("{} of {vpc}", ids.join(", "))
        });
        let each: Vec<String> = each.collect();
        let problem = format!("they and the subnets must be of one VPC: {}", each.join("; "));
        problems.push(RuleError { field: "security_groups", problem });
    }
    problems
}
