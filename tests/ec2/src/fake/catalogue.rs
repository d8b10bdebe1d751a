//! What the fake has: types, zones with a subnet each, groups, images, prices. A small part of the real list, with real sizes.

use super::query::{Filter, Query};
use super::xml::Xml;
use super::{Answer, Refusal};
use motorpool_domain::spec::Usage;

pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// Of each zone, in the same order.
pub const SUBNETS: [&str; 3] =
    ["subnet-0aaaaaaaaaaaaaaa1", "subnet-0bbbbbbbbbbbbbbb2", "subnet-0ccccccccccccccc3"];
pub const IMAGE: &str = "ami-0123456789abcdef0";
pub const ARM_IMAGE: &str = "ami-0fedcba9876543210";
pub const WINDOWS_IMAGE: &str = "ami-0d0d0d0d0d0d0d0d0";
/// Its disk has 100 GB.
pub const LARGE_IMAGE: &str = "ami-0e0e0e0e0e0e0e0e0";
pub const SECURITY_GROUP: &str = "sg-0123456789abcdef0";
/// Of everything above.
pub const VPC: &str = "vpc-0aaaaaaaaaaaaaaaa";
pub const OTHER_VPC: &str = "vpc-0bbbbbbbbbbbbbbbb";
/// Of the other VPC, in the first zone.
pub const OTHER_SUBNET: &str = "subnet-0eeeeeeeeeeeeeee5";
pub const OTHER_GROUP: &str = "sg-0fedcba9876543210";

#[derive(Debug)]
pub(super) struct Picture {
    id: &'static str,
    architecture: &'static str,
    windows: bool,
    disk_gb: u32,
}

#[rustfmt::skip]
const PICTURES: [Picture; 4] = [
    Picture { id: IMAGE, architecture: "x86_64", windows: false, disk_gb: 8 },
    Picture { id: ARM_IMAGE, architecture: "arm64", windows: false, disk_gb: 8 },
    Picture { id: WINDOWS_IMAGE, architecture: "x86_64", windows: true, disk_gb: 30 },
    Picture { id: LARGE_IMAGE, architecture: "x86_64", windows: false, disk_gb: 100 },
];

impl Picture {
    pub(super) fn named(id: &str) -> Option<&'static Self> {
        PICTURES.iter().find(|picture| picture.id == id)
    }
}

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    architecture: &'static str,
    cpu: u32,
    memory_mib: u32,
    /// The zones that have it, as indices.
    zones: &'static [usize],
    current: bool,
    /// Dollars an hour, in millionths, in the first zone; each further one is a tenth dearer.
    spot_micros: u32,
}

#[rustfmt::skip]
pub(super) const KINDS: [Kind; 20] = [
    Kind { name: "c5.large", architecture: "x86_64", cpu: 2, memory_mib: 4_096, zones: &[0, 1, 2], current: true, spot_micros: 36_000 },
    Kind { name: "c6i.large", architecture: "x86_64", cpu: 2, memory_mib: 4_096, zones: &[0, 1, 2], current: true, spot_micros: 33_000 },
    Kind { name: "c6i.xlarge", architecture: "x86_64", cpu: 4, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 66_000 },
    Kind { name: "c6i.2xlarge", architecture: "x86_64", cpu: 8, memory_mib: 16_384, zones: &[0, 1, 2], current: true, spot_micros: 132_000 },
    Kind { name: "c6i.metal", architecture: "x86_64", cpu: 128, memory_mib: 262_144, zones: &[0], current: true, spot_micros: 2_000_000 },
    Kind { name: "m6i.large", architecture: "x86_64", cpu: 2, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 38_000 },
    Kind { name: "m6i.xlarge", architecture: "x86_64", cpu: 4, memory_mib: 16_384, zones: &[0, 1, 2], current: true, spot_micros: 76_000 },
    Kind { name: "m6i.2xlarge", architecture: "x86_64", cpu: 8, memory_mib: 32_768, zones: &[0, 1], current: true, spot_micros: 152_000 },
    Kind { name: "m7i.large", architecture: "x86_64", cpu: 2, memory_mib: 8_192, zones: &[0, 1], current: true, spot_micros: 40_000 },
    Kind { name: "m7i.xlarge", architecture: "x86_64", cpu: 4, memory_mib: 16_384, zones: &[0, 1], current: true, spot_micros: 80_000 },
    Kind { name: "r6i.large", architecture: "x86_64", cpu: 2, memory_mib: 16_384, zones: &[0, 1, 2], current: true, spot_micros: 45_000 },
    Kind { name: "r6i.xlarge", architecture: "x86_64", cpu: 4, memory_mib: 32_768, zones: &[0, 1, 2], current: true, spot_micros: 90_000 },
    Kind { name: "t3.large", architecture: "x86_64", cpu: 2, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 30_000 },
    Kind { name: "m3.large", architecture: "x86_64", cpu: 2, memory_mib: 7_680, zones: &[0], current: false, spot_micros: 25_000 },
    Kind { name: "c7g.large", architecture: "arm64", cpu: 2, memory_mib: 4_096, zones: &[0, 1, 2], current: true, spot_micros: 28_000 },
    Kind { name: "c7g.xlarge", architecture: "arm64", cpu: 4, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 56_000 },
    Kind { name: "m7g.large", architecture: "arm64", cpu: 2, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 32_000 },
    Kind { name: "m7g.xlarge", architecture: "arm64", cpu: 4, memory_mib: 16_384, zones: &[0, 1, 2], current: true, spot_micros: 64_000 },
    Kind { name: "r7g.large", architecture: "arm64", cpu: 2, memory_mib: 16_384, zones: &[0, 1], current: true, spot_micros: 41_000 },
    Kind { name: "t4g.large", architecture: "arm64", cpu: 2, memory_mib: 8_192, zones: &[0, 1, 2], current: true, spot_micros: 26_000 },
];

impl Kind {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    pub(super) fn is_in(&self, zone: &str) -> bool {
        self.zones.iter().any(|at| ZONES[*at] == zone)
    }

    pub(super) fn runs(&self, image: &str) -> bool {
        Picture::named(image).is_some_and(|picture| picture.architecture == self.architecture)
    }

    fn bare_metal(&self) -> bool {
        self.name.ends_with(".metal")
    }

    /// In a zone, in millionths of a dollar.
    fn spot(&self, zone: usize) -> u32 {
        self.spot_micros / 10 * (10 + u32::try_from(zone).unwrap_or(0))
    }
}

pub(super) fn zone_of(subnet: &str) -> Option<&'static str> {
    let own = SUBNETS.iter().position(|known| *known == subnet).map(|at| ZONES[at]);
    own.or_else(|| (subnet == OTHER_SUBNET).then_some(ZONES[0]))
}

/// Of a subnet or a group; nothing if there is none.
pub(super) fn vpc_of(id: &str) -> Option<&'static str> {
    match id {
        OTHER_SUBNET | OTHER_GROUP => Some(OTHER_VPC),
        SECURITY_GROUP => Some(VPC),
        _ => SUBNETS.contains(&id).then_some(VPC),
    }
}

pub(super) fn instance_types(query: &Query, largest_page: usize) -> Result<Answer, Refusal> {
    let filters = query.filters();
    let mut found = Vec::new();
    for kind in &KINDS {
        if pass(&filters, |name| match name {
            "processor-info.supported-architecture" => Some(vec![kind.architecture.to_owned()]),
            "current-generation" => Some(vec![kind.current.to_string()]),
            "bare-metal" => Some(vec![kind.bare_metal().to_string()]),
            "supported-usage-class" => Some(vec!["on-demand".to_owned(), "spot".to_owned()]),
            _ => None,
        })? {
            found.push(kind);
        }
    }
    let item = |kind: &&Kind| {
        let usages = [Usage::OnDemand, Usage::Spot];
        Xml::default()
            .text("instanceType", kind.name)
            .text("currentGeneration", kind.current.to_string())
            .texts("supportedUsageClasses", usages.iter().map(|usage| usage.name()))
            .text("bareMetal", kind.bare_metal().to_string())
            .within("processorInfo", Xml::default().texts("supportedArchitectures", [kind.architecture]))
            .within("vCpuInfo", Xml::default().text("defaultVCpus", kind.cpu.to_string()))
            .within("memoryInfo", Xml::default().text("sizeInMiB", kind.memory_mib.to_string()))
    };
    paged(query, "instanceTypeSet", &found, item, largest_page)
}

pub(super) fn offerings(query: &Query, largest_page: usize) -> Result<Answer, Refusal> {
    if query.get("LocationType") != Some("availability-zone") {
        return Err(Refusal::new("InvalidParameterValue", "only availability-zone is known here"));
    }
    let filters = query.filters();
    let mut found = Vec::new();
    for kind in &KINDS {
        for at in kind.zones {
            if pass(&filters, |name| match name {
                "location" => Some(vec![ZONES[*at].to_owned()]),
                "instance-type" => Some(vec![kind.name.to_owned()]),
                _ => None,
            })? {
                found.push((kind.name, ZONES[*at]));
            }
        }
    }
    let item = |(name, zone): &(&str, &str)| {
        let item = Xml::default().text("instanceType", name).text("locationType", "availability-zone");
        item.text("location", zone)
    };
    paged(query, "instanceTypeOfferingSet", &found, item, largest_page)
}

pub(super) fn spot_prices(query: &Query, now: &str, largest_page: usize) -> Result<Answer, Refusal> {
    let types = query.list("InstanceType");
    let mut found = Vec::new();
    for kind in KINDS.iter().filter(|kind| types.is_empty() || types.contains(&kind.name)) {
        for at in kind.zones {
            if query.get("AvailabilityZone").is_none_or(|zone| zone == ZONES[*at]) {
                found.push((kind, *at));
            }
        }
    }
    let item = |(kind, at): &(&Kind, usize)| {
        let micros = kind.spot(*at);
        Xml::default()
            .text("instanceType", kind.name)
            .text("productDescription", "Linux/UNIX")
            .text("spotPrice", format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))
            .text("timestamp", now)
            .text("availabilityZone", ZONES[*at])
    };
    paged(query, "spotPriceHistorySet", &found, item, largest_page)
}

pub(super) fn subnets(query: &Query) -> Result<Answer, Refusal> {
    let all: Vec<&str> = SUBNETS.into_iter().chain([OTHER_SUBNET]).collect();
    let found = network(query, ("SubnetId", "subnet-id"), &all, Refusal::no_subnet)?;
    let item = |id: &str| {
        let item = Xml::default().text("subnetId", id).text("state", "available");
        let item = item.text("availabilityZone", zone_of(id).unwrap_or_default());
        item.text("vpcId", vpc_of(id).unwrap_or_default()).text("availableIpAddressCount", "4091")
    };
    Ok(Answer(Xml::default().items("subnetSet", found.into_iter().map(item))))
}

pub(super) fn groups(query: &Query) -> Result<Answer, Refusal> {
    let all = [SECURITY_GROUP, OTHER_GROUP];
    let found = network(query, ("GroupId", "group-id"), &all, Refusal::no_group)?;
    let item = |id: &str| Xml::default().text("groupId", id).text("vpcId", vpc_of(id).unwrap_or_default());
    Ok(Answer(Xml::default().items("securityGroupInfo", found.into_iter().map(item))))
}

/// Those that are named, and an error if one is not there; or those that pass the filters.
fn network<'a>(
    query: &Query,
    (named, filtered): (&str, &str),
    all: &[&'a str],
    unknown: fn(&str) -> Refusal,
) -> Result<Vec<&'a str>, Refusal> {
    let (ids, filters) = (query.list(named), query.filters());
    if let Some(id) = ids.iter().find(|id| !all.contains(id)) {
        return Err(unknown(id));
    }
    let mut found = Vec::new();
    for id in all.iter().filter(|id| ids.is_empty() || ids.contains(id)) {
        if pass(&filters, |name| match name {
            "vpc-id" => Some(vec![vpc_of(id).unwrap_or_default().to_owned()]),
            _ => (name == filtered).then(|| vec![(*id).to_owned()]),
        })? {
            found.push(*id);
        }
    }
    Ok(found)
}

pub(super) fn images(query: &Query) -> Result<Answer, Refusal> {
    let items: Result<Vec<Xml>, Refusal> = query
        .list("ImageId")
        .into_iter()
        .map(|id| {
            let Picture { id, architecture, windows, disk_gb } =
                Picture::named(id).ok_or_else(|| Refusal::no_image(id))?;
            let disk = Xml::default().text("volumeSize", disk_gb.to_string());
            let disk = Xml::default().text("deviceName", "/dev/xvda").within("ebs", disk);
            let item = Xml::default().text("imageId", id).text("imageState", "available");
            let item = item.text("architecture", architecture).text("rootDeviceType", "ebs");
            let item = item.text("rootDeviceName", "/dev/xvda").items("blockDeviceMapping", [disk]);
            Ok(if *windows { item.text("platform", "windows") } else { item })
        })
        .collect();
    Ok(Answer(Xml::default().items("imagesSet", items?)))
}

/// Whether something passes all filters; `values` are its own by a filter's name. A filter that nobody knows is an error, as with EC2.
pub(super) fn pass(
    filters: &[Filter],
    values: impl Fn(&str) -> Option<Vec<String>>,
) -> Result<bool, Refusal> {
    for Filter { name, values: wanted } in filters {
        let message = || format!("The filter '{name}' is invalid");
        let own = values(name).ok_or_else(|| Refusal::new("InvalidParameterValue", message()))?;
        if !wanted.iter().any(|value| own.contains(value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One page, with a token for the next. The token is the number of what was seen.
pub(super) fn paged<T>(
    query: &Query,
    set: &str,
    all: &[T],
    item: impl Fn(&T) -> Xml,
    largest_page: usize,
) -> Result<Answer, Refusal> {
    let begin = match query.get("NextToken") {
        None => 0,
        Some(token) => {
            let bad = |_| Refusal::new("InvalidNextToken", "The token is invalid");
            token.parse::<usize>().map_err(bad)?.min(all.len())
        }
    };
    let end =
        all.len().min(begin + query.number("MaxResults").unwrap_or(largest_page).min(largest_page).max(1));
    let page = Xml::default().items(set, all[begin..end].iter().map(item));
    Ok(Answer(if end < all.len() { page.text("nextToken", end.to_string()) } else { page }))
}
