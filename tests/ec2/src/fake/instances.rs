//! DescribeInstances, TerminateInstances, CreateTags.

use super::catalogue::{paged, pass};
use super::query::Query;
use super::world::{Instance, State, World};
use super::xml::Xml;
use super::{Answer, Refusal, Times};
use motorpool_domain::Timestamp;
use motorpool_domain::spec::Usage;

pub(super) fn describe(
    world: &mut World,
    query: &Query,
    times: &Times,
    largest_page: usize,
) -> Result<Answer, Refusal> {
    let ids = query.list("InstanceId");
    if !ids.is_empty() && query.get("MaxResults").is_some() {
        let message = "The parameter instancesSet cannot be used with the parameter maxResults";
        return Err(Refusal::new("InvalidParameterCombination", message));
    }
    let World { instances, listings, .. } = world;
    for instance in instances.values().filter(|it| ids.is_empty() || ids.contains(&it.id.as_str())) {
        listings.note(&instance.id, times.seen(instance), times.is(instance));
    }
    let filters = query.filters();
    let mut found = Vec::new();
    for (instance, state) in seen(world, &ids, times)? {
        if pass(&filters, |name| values(instance, state, name))? {
            found.push((instance, state));
        }
    }
    let reservation = |(instance, state): &(&Instance, State)| {
        let reservation =
            Xml::default().text("reservationId", &instance.reservation).text("ownerId", "123456789012");
        reservation.items("instancesSet", [item(instance, *state)])
    };
    paged(query, "reservationSet", &found, reservation, largest_page)
}

pub(super) fn terminate(world: &mut World, query: &Query, times: &Times) -> Result<Answer, Refusal> {
    let ids: Vec<String> = query.list("InstanceId").into_iter().map(str::to_owned).collect();
    let named: Vec<&str> = ids.iter().map(String::as_str).collect();
    let known = seen(world, &named, times)?;
    let before: Vec<State> = known.into_iter().map(|(instance, _)| times.state(instance)).collect();
    let mut changes = Vec::new();
    for (id, previous) in ids.iter().zip(before) {
        world.end(id, "TerminateInstances", times.now, times.shutdown);
        let current = world.instances.get(id).map_or(State::Terminated, |instance| times.state(instance));
        let change = Xml::default().text("instanceId", id).within("currentState", written_state(current));
        changes.push(change.within("previousState", written_state(previous)));
    }
    Ok(Answer(Xml::default().items("instancesSet", changes)))
}

pub(super) fn create_tags(world: &mut World, query: &Query, times: &Times) -> Result<Answer, Refusal> {
    let ids: Vec<String> = query.list("ResourceId").into_iter().map(str::to_owned).collect();
    let named: Vec<&str> = ids.iter().map(String::as_str).collect();
    seen(world, &named, times)?;
    for id in &ids {
        if let Some(instance) = world.instances.get_mut(id) {
            instance.tags.extend(query.tags(""));
        }
    }
    Ok(Answer(Xml::default().text("return", "true")))
}

/// All, or those that are named, as this call sees them: one that it can't see is then an error.
fn seen<'a>(world: &'a World, ids: &[&str], times: &Times) -> Result<Vec<(&'a Instance, State)>, Refusal> {
    let as_seen = |instance: &'a Instance| Some((instance, times.seen(instance)?));
    if ids.is_empty() {
        return Ok(world.instances.values().filter_map(as_seen).collect());
    }
    let one = |id: &&str| {
        if !id.starts_with("i-") {
            return Err(Refusal::new("InvalidInstanceID.Malformed", format!("Invalid id: \"{id}\"")));
        }
        let message = || format!("The instance ID '{id}' does not exist");
        let found = world.instances.get(*id).and_then(as_seen);
        found.ok_or_else(|| Refusal::new("InvalidInstanceID.NotFound", message()))
    };
    ids.iter().map(one).collect()
}

fn values(instance: &Instance, state: State, filter: &str) -> Option<Vec<String>> {
    if let Some(key) = filter.strip_prefix("tag:") {
        return Some(instance.tags.get(key).cloned().into_iter().collect());
    }
    match filter {
        "instance-id" => Some(vec![instance.id.clone()]),
        "instance-state-name" => Some(vec![state.name().to_owned()]),
        "client-token" => Some(instance.token.clone().into_iter().collect()),
        "instance-type" => Some(vec![instance.instance_type.clone()]),
        "availability-zone" => Some(vec![instance.zone.clone()]),
        _ => None,
    }
}

/// An instance as it is shown, in a state that it has or had.
pub(super) fn item(instance: &Instance, state: State) -> Xml {
    let tag = |(key, value): (&String, &String)| Xml::default().text("key", key).text("value", value);
    let item = Xml::default()
        .text("instanceId", &instance.id)
        .text("imageId", &instance.image)
        .within("instanceState", written_state(state))
        .text("amiLaunchIndex", instance.launch_index.to_string())
        .text("instanceType", &instance.instance_type)
        .text("launchTime", written(instance.made_at))
        .within("placement", Xml::default().text("availabilityZone", &instance.zone))
        .text("subnetId", &instance.subnet)
        .text("clientToken", instance.token.as_deref().unwrap_or_default())
        .items("tagSet", instance.tags.iter().map(tag));
    let item = match instance.usage {
        Usage::Spot => item.text("instanceLifecycle", "spot"),
        Usage::OnDemand => item,
    };
    match &instance.ending {
        Some(ending) if state >= State::ShuttingDown => {
            item.within("stateReason", Xml::default().text("code", ending.why).text("message", ending.why))
        }
        Some(_) | None => item,
    }
}

pub(super) fn written(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let at = aws_smithy_types::DateTime::from_millis(millis);
    at.fmt(aws_smithy_types::date_time::Format::DateTime).unwrap_or_default()
}

fn written_state(state: State) -> Xml {
    Xml::default().text("code", state.code()).text("name", state.name())
}
