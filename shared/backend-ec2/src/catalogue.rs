//! What EC2 has to offer, read and kept for a while: types, where they are offered, spot prices, the zones of subnets, images. It chooses
//! nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{Filter, InstanceTypeInfo, LocationType, UsageClassType};
use futures_util::future::{join_all, try_join_all};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::Timestamp;
use motorpool_domain::ladder::{CapacityOption, Price};
use motorpool_domain::pool::{Architecture, Ec2Rules, Pool};
use motorpool_domain::spec::{Spec, Usage, Want, is_instance_type};

use crate::Ec2Backend;
use crate::cache::Cache;
use crate::errors::{Ec2Error, Verdict};
use crate::ladder::{Type, ZoneOffers, ladder};

/// New types come a few times a year.
const TYPES_FOR: Duration = Duration::from_secs(6 * 3_600);
/// Subnets and images do not change; they may be gone.
const RESOURCES_FOR: Duration = Duration::from_secs(3_600);
const PRICES_FOR: Duration = Duration::from_secs(600);
/// No region has more than a few zones; a control plane has a few pools.
const MOST_ZONES: usize = 16;
const MOST_RESOURCES: usize = 256;
/// As many as EC2 puts on a page of types, and of the rest.
const PAGE_OF_TYPES: i32 = 100;
const PAGE: i32 = 1_000;

#[derive(Debug)]
pub(crate) struct Catalogue {
    client: Client,
    clock: Arc<dyn Clock>,
    types: Cache<&'static str, Vec<Type>>,
    /// By zone.
    offered: Cache<String, HashSet<String>>,
    /// By zone.
    spot_prices: Cache<String, HashMap<String, Price>>,
    /// The zone, by subnet.
    zones: Cache<String, String>,
    /// By image.
    root_devices: Cache<String, String>,
}

impl Ec2Backend {
    pub(crate) async fn ladder_of(
        &self,
        pool: &Pool,
        rules: &Ec2Rules,
        want: &Want,
    ) -> Result<Vec<CapacityOption>, Ec2Error> {
        let (types, zones) = self.offered(pool, rules).await?;
        Ok(ladder(&pool.rules.offer, rules, want, &types, &zones))
    }

    /// The types of the pool's architecture, and its zones with what is to be had there.
    pub(crate) async fn offered(
        &self,
        pool: &Pool,
        rules: &Ec2Rules,
    ) -> Result<(Arc<Vec<Type>>, Vec<ZoneOffers>), Ec2Error> {
        let catalogue = &self.catalogue;
        let mut zones: Vec<Arc<String>> = Vec::new();
        for (_, zone) in catalogue.zones_of(rules).await? {
            if !zones.contains(&zone) {
                zones.push(zone);
            }
        }
        let types = catalogue.types(rules.architecture).await?;
        let offers =
            try_join_all(zones.iter().map(|zone| catalogue.zone_offers(zone, pool.rules.offer.usage)))
                .await?;
        Ok((types, offers))
    }
}

impl Catalogue {
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            types: Cache::new(TYPES_FOR, 2),
            offered: Cache::new(TYPES_FOR, MOST_ZONES),
            spot_prices: Cache::new(PRICES_FOR, MOST_ZONES),
            zones: Cache::new(RESOURCES_FOR, MOST_RESOURCES),
            root_devices: Cache::new(RESOURCES_FOR, MOST_RESOURCES),
        }
    }

    /// The pool's subnets, each with its zone. One that is gone does not stop the others.
    pub(crate) async fn zones_of<'r>(
        &self,
        rules: &'r Ec2Rules,
    ) -> Result<Vec<(&'r str, Arc<String>)>, Ec2Error> {
        let all = join_all(rules.subnets.iter().map(|subnet| self.zone(subnet))).await;
        let (mut found, mut last) = (Vec::new(), None);
        for (subnet, zone) in rules.subnets.iter().zip(all) {
            match zone {
                Ok(zone) => found.push((subnet.as_str(), zone)),
                Err(error) if error.verdict() == Verdict::Refused => {
                    tracing::warn!(target: "alert", subnet, %error, "a subnet of a pool can't be used");
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match last {
            Some(error) if found.is_empty() => Err(error),
            Some(_) | None => Ok(found),
        }
    }

    /// The zone that a subnet is in.
    async fn zone(&self, subnet: &str) -> Result<Arc<String>, Ec2Error> {
        let (client, id) = (self.client.clone(), subnet.to_owned());
        let read = move || async move {
            let found = client.describe_subnets().subnet_ids(&id).send().await?;
            let zone = found.subnets().iter().find_map(|subnet| subnet.availability_zone());
            zone.map(str::to_owned).ok_or_else(|| Ec2Error::Unfit(format!("{id} is in no zone")))
        };
        self.zones.get(&subnet.to_owned(), self.clock.now(), read).await
    }

    /// What an image calls its root disk.
    pub(crate) async fn root_device(&self, image: &str) -> Result<Arc<String>, Ec2Error> {
        let (client, id) = (self.client.clone(), image.to_owned());
        let read = move || async move {
            let found = client.describe_images().image_ids(&id).include_deprecated(true).send().await?;
            let Some(image) = found.images().first() else {
                return Err(Ec2Error::Unfit(format!("there is no image {id}")));
            };
            let device = image.root_device_name().map(str::to_owned);
            device.ok_or_else(|| Ec2Error::Unfit(format!("image {id} has no root device")))
        };
        self.root_devices.get(&image.to_owned(), self.clock.now(), read).await
    }

    async fn zone_offers(&self, zone: &str, usage: Usage) -> Result<ZoneOffers, Ec2Error> {
        let offered = self.offered_in(zone).await?;
        let spot_prices = match usage {
            Usage::Spot => self.spot_prices_in(zone).await?,
            Usage::OnDemand => Arc::default(),
        };
        Ok(ZoneOffers { name: zone.to_owned(), offered, spot_prices })
    }

    pub(crate) async fn types(&self, architecture: Architecture) -> Result<Arc<Vec<Type>>, Ec2Error> {
        let client = self.client.clone();
        let read = move || async move {
            let mut pages = client
                .describe_instance_types()
                .filters(filter("processor-info.supported-architecture", &[architecture.name()]))
                .filters(filter("current-generation", &["true"]))
                .filters(filter("bare-metal", &["false"]))
                .filters(filter("supported-usage-class", &["on-demand", "spot"]))
                .into_paginator()
                .page_size(PAGE_OF_TYPES)
                .items()
                .send();
            let mut types = Vec::new();
            while let Some(info) = pages.next().await {
                types.extend(as_type(&info?));
            }
            Ok(types)
        };
        self.types.get(&architecture.name(), self.clock.now(), read).await
    }

    async fn offered_in(&self, zone: &str) -> Result<Arc<HashSet<String>>, Ec2Error> {
        let (client, here) = (self.client.clone(), zone.to_owned());
        let read = move || async move {
            let mut pages = client
                .describe_instance_type_offerings()
                .location_type(LocationType::AvailabilityZone)
                .filters(filter("location", &[&here]))
                .into_paginator()
                .page_size(PAGE)
                .items()
                .send();
            let mut names = HashSet::new();
            while let Some(offering) = pages.next().await {
                names.extend(offering?.instance_type().map(|name| name.as_str().to_owned()));
            }
            Ok(names)
        };
        self.offered.get(&zone.to_owned(), self.clock.now(), read).await
    }

    /// A history that begins now has the present price of each type, and whatever changes meanwhile.
    async fn spot_prices_in(&self, zone: &str) -> Result<Arc<HashMap<String, Price>>, Ec2Error> {
        let (client, here, now) = (self.client.clone(), zone.to_owned(), self.clock.now());
        let read = move || async move {
            let mut pages = client
                .describe_spot_price_history()
                .availability_zone(here)
                .product_descriptions("Linux/UNIX")
                .start_time(date_time(now))
                .into_paginator()
                .page_size(PAGE)
                .items()
                .send();
            let mut newest: HashMap<String, (i64, Price)> = HashMap::new();
            while let Some(found) = pages.next().await {
                let found = found?;
                let (Some(name), Some(price)) = (found.instance_type(), found.spot_price().and_then(price))
                else {
                    continue;
                };
                let since = found.timestamp().map_or(0, DateTime::secs);
                let known = newest.entry(name.as_str().to_owned()).or_insert((since, price));
                if since > known.0 {
                    *known = (since, price);
                }
            }
            Ok(newest.into_iter().map(|(name, (_, price))| (name, price)).collect())
        };
        self.spot_prices.get(&zone.to_owned(), now, read).await
    }
}

pub(crate) fn filter(name: &str, values: &[&str]) -> Filter {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

/// Nothing for a type that lacks what we must know of it. Bare metal takes many minutes to start, and costs accordingly.
fn as_type(info: &InstanceTypeInfo) -> Option<Type> {
    let name = info.instance_type()?.as_str();
    if info.bare_metal() == Some(true) || name.contains(".metal") || !is_instance_type(name) {
        return None;
    }
    let cpu = u32::try_from(info.v_cpu_info()?.default_v_cpus()?).ok()?;
    let memory_mb = u64::try_from(info.memory_info()?.size_in_mib()?).ok()?;
    let sold = info.supported_usage_classes();
    let ways = [(UsageClassType::OnDemand, Usage::OnDemand), (UsageClassType::Spot, Usage::Spot)];
    let sold = ways.into_iter().filter(|(class, _)| sold.contains(class)).map(|(_, usage)| usage).collect();
    Some(Type { name: name.to_owned(), spec: Spec { cpu, memory_mb }, sold })
}

fn date_time(at: Timestamp) -> DateTime {
    DateTime::from_millis(i64::try_from(at.as_millis()).unwrap_or(i64::MAX))
}

/// Dollars as EC2 writes them: `0.034500`.
fn price(text: &str) -> Option<Price> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = part.chars().chain("000000".chars()).take(6).collect();
    let micros = whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(digits.parse().ok()?)?;
    Some(Price::from_micro_dollars(micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ec2::types::{InstanceType, MemoryInfo, VCpuInfo};

    #[test]
    fn prices_are_read_to_the_millionth() {
        let micros = |text| price(text).map(Price::micro_dollars);
        assert_eq!(micros("0.034500"), Some(34_500));
        assert_eq!(micros("0.0345"), Some(34_500));
        assert_eq!(micros("12.5"), Some(12_500_000));
        assert_eq!(micros("3"), Some(3_000_000));
        assert_eq!(micros("0.03450099"), Some(34_500));
        for bad in ["", "x", "-1.0", "1.x", "99999999999999999999.0"] {
            assert_eq!(micros(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_type_is_known_by_its_size_and_how_it_is_sold() {
        let info = |name: &str| {
            InstanceTypeInfo::builder()
                .instance_type(InstanceType::from(name))
                .v_cpu_info(VCpuInfo::builder().default_v_cpus(2).build())
                .memory_info(MemoryInfo::builder().size_in_mib(4_096).build())
                .supported_usage_classes(UsageClassType::Spot)
                .supported_usage_classes(UsageClassType::CapacityBlock)
        };
        let found = as_type(&info("c6i.large").build()).unwrap();
        assert_eq!((found.spec.cpu, found.spec.memory_mb, found.sold), (2, 4_096, vec![Usage::Spot]));
        assert_eq!(as_type(&info("c6i.metal").build()), None);
        assert_eq!(as_type(&info("c7i.metal-24xl").build()), None);
        assert_eq!(as_type(&info("c6i.large").bare_metal(true).build()), None);
        assert_eq!(as_type(&InstanceTypeInfo::builder().instance_type(InstanceType::C6iLarge).build()), None);
    }
}
