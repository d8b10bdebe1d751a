//! RunInstances: its token, its checks, its bounds.

use super::catalogue::{Kind, Picture, vpc_of, zone_of};
use super::instances::item;
use super::query::Query;
use super::world::{Instance, Made, World};
use super::xml::Xml;
use super::{Answer, Refusal, Times};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_domain::spec::Usage;

const LARGEST_USER_DATA: usize = 16 * 1_024;

pub(super) fn run_instances(world: &mut World, query: &Query, times: &Times) -> Result<Answer, Refusal> {
    let mut parameters = query.pairs().clone();
    let token = parameters.remove("ClientToken");
    if let Some(made) = token.as_ref().and_then(|token| world.tokens.get(token)) {
        return again(world, made, &parameters, times);
    }
    if token.as_ref().is_some_and(|token| token.len() > 64 || !token.is_ascii()) {
        return Err(Refusal::new(
            "InvalidParameterValue",
            "The client token has more than 64 ASCII characters",
        ));
    }
    let order = Order::checked(query)?;
    let count = order.to_be_had(world, times)?;
    let reservation = world.fresh_id("r");
    let mut made = Vec::new();
    for launch_index in 0..count {
        let id = world.fresh_id("i");
        let instance = Instance {
            id: id.clone(),
            token: token.clone(),
            launch_index,
            instance_type: order.kind.name.to_owned(),
            zone: order.zone.to_owned(),
            subnet: order.subnet.clone(),
            usage: order.usage,
            image: order.image.clone(),
            tags: query.launch_tags("instance"),
            volume_tags: query.launch_tags("volume"),
            user_data: order.user_data.clone(),
            made_at: times.now,
            ending: None,
            reservation: reservation.clone(),
        };
        world.instances.insert(id.clone(), instance);
        made.push(id);
    }
    order.take(world, count);
    world.most_alive = world.most_alive.max(world.alive(times.now));
    let answer = answer(world, &reservation, &made, times);
    if let Some(token) = token {
        world.tokens.insert(token, Made { parameters, reservation, instances: made });
    }
    Ok(answer)
}

/// The same call makes nothing more, and is told what it made.
fn again(
    world: &World,
    made: &Made,
    parameters: &std::collections::BTreeMap<String, String>,
    times: &Times,
) -> Result<Answer, Refusal> {
    if made.parameters != *parameters {
        let message = "The client token was used with other parameters";
        return Err(Refusal::new("IdempotentParameterMismatch", message));
    }
    let over =
        |id: &String| world.instances.get(id).is_none_or(|it| times.state(it) == super::State::Terminated);
    if made.instances.iter().all(over) {
        let message = "The client token was used for instances that are terminated";
        return Err(Refusal::new("IdempotentInstanceTerminated", message));
    }
    Ok(answer(world, &made.reservation, &made.instances, times))
}

fn answer(world: &World, reservation: &str, ids: &[String], times: &Times) -> Answer {
    let items = ids
        .iter()
        .filter_map(|id| world.instances.get(id))
        .map(|instance| item(instance, times.state(instance)));
    let answer = Xml::default().text("reservationId", reservation).text("ownerId", "123456789012");
    Answer(answer.items("instancesSet", items))
}

struct Order {
    kind: &'static Kind,
    zone: &'static str,
    subnet: String,
    usage: Usage,
    image: String,
    user_data: String,
    least: u32,
    most: u32,
}

impl Order {
    fn checked(query: &Query) -> Result<Self, Refusal> {
        let missing =
            |name: &str| Refusal::new("MissingParameter", format!("The request must contain {name}"));
        let text = |name: &str| query.get(name).ok_or_else(|| missing(name));
        let invalid = |message: &str| Refusal::new("InvalidParameterValue", message);
        let number = |name: &str| text(name)?.parse::<u32>().map_err(|_| invalid(name));
        let (least, most) = (number("MinCount")?, number("MaxCount")?);
        if least == 0 || least > most {
            return Err(invalid("MinCount must be from 1 to MaxCount"));
        }
        let image = text("ImageId")?.to_owned();
        if Picture::named(&image).is_none() {
            return Err(Refusal::no_image(&image));
        }
        let subnet = text("SubnetId")?.to_owned();
        let zone = zone_of(&subnet).ok_or_else(|| Refusal::no_subnet(&subnet))?;
        for group in query.list("SecurityGroupId") {
            match vpc_of(group) {
                None => return Err(Refusal::no_group(group)),
                Some(vpc) if vpc_of(&subnet) != Some(vpc) => {
                    let message =
                        format!("Security group {group} and subnet {subnet} belong to different networks.");
                    return Err(Refusal::new("InvalidParameter", message));
                }
                Some(_) => {}
            }
        }
        let kind =
            Kind::named(text("InstanceType")?).ok_or_else(|| invalid("The instance type does not exist"))?;
        if !kind.runs(&image) {
            return Err(invalid("The architecture of the instance type does not match that of the image"));
        }
        if !kind.is_in(zone) {
            let message = format!("Your requested instance type ({}) is not supported in {zone}", kind.name);
            return Err(Refusal::new("Unsupported", message));
        }
        let usage = match query.get("InstanceMarketOptions.MarketType") {
            Some("spot") => Usage::Spot,
            None => Usage::OnDemand,
            Some(_) => return Err(invalid("The market type is invalid")),
        };
        let tagged: Vec<&str> =
            (1..).map_while(|n| query.get(&format!("TagSpecification.{n}.ResourceType"))).collect();
        if usage == Usage::OnDemand && tagged.contains(&"spot-instances-request") {
            return Err(invalid("'spot-instances-request' is not valid for an on-demand launch"));
        }
        let user_data = STANDARD.decode(query.get("UserData").unwrap_or_default());
        let user_data = user_data.map_err(|_| invalid("Invalid BASE64 encoding of user data"))?;
        if user_data.len() > LARGEST_USER_DATA {
            return Err(invalid("User data is limited to 16384 bytes"));
        }
        let user_data = String::from_utf8(user_data).map_err(|_| invalid("a test's user data is UTF-8"))?;
        Ok(Self { kind, zone, subnet, usage, image, user_data, least, most })
    }

    fn lot(&self) -> (String, String, &'static str) {
        (self.kind.name.to_owned(), self.zone.to_owned(), self.usage.name())
    }

    /// As many as there are up to what is asked for, or what there is too little of.
    fn to_be_had(&self, world: &World, times: &Times) -> Result<u32, Refusal> {
        let (type_name, zone) = (self.kind.name, self.zone);
        let quota = match self.usage {
            Usage::Spot => Refusal::new("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
            Usage::OnDemand => {
                Refusal::new("VcpuLimitExceeded", "You have requested more vCPU capacity than your limit")
            }
        };
        let capacity = Refusal {
            code: "InsufficientInstanceCapacity".to_owned(),
            message: format!("We currently do not have sufficient {type_name} capacity in {zone}"),
            status: 500,
        };
        let addresses = Refusal::new(
            "InsufficientFreeAddressesInSubnet",
            format!("{} has no free addresses", self.subnet),
        );
        let within_quota = world
            .quotas
            .get(self.usage.name())
            .map(|quota| quota.saturating_sub(world.alive_sold(self.usage, times.now)));
        let bounds = [
            (within_quota, quota),
            (world.addresses.get(zone).copied(), addresses),
            (world.capacity.get(&self.lot()).copied(), capacity),
        ];
        let mut count = self.most;
        for (left, refusal) in bounds {
            let left = left.unwrap_or(u32::MAX);
            if left < self.least {
                return Err(refusal);
            }
            count = count.min(left);
        }
        Ok(count)
    }

    fn take(&self, world: &mut World, count: u32) {
        if let Some(left) = world.capacity.get_mut(&self.lot()) {
            *left -= count;
        }
        if let Some(left) = world.addresses.get_mut(self.zone) {
            *left -= count;
        }
    }
}
