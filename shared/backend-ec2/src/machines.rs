//! Instances that were made: whether they are there, their end, and which there are. It launches nothing.
//!
//! There, until it is terminated: an instance that is shutting down still counts against quotas and still runs, and so its runner keeps its
//! slot. The inventory has it for the same reason, so that the two never contradict each other. That costs nothing: a sweep that ends a machine without
//! a record tells EC2 once more what it knows, and a record whose machine is on its way out is settled by the next look.

use aws_sdk_ec2::types::{Filter, Instance, InstanceStateName};
use motorpool_control::ports::backend::Machine;
use motorpool_domain::runner::{Attested, Presence, Runner, RunnerState};
use motorpool_domain::{PoolName, RunnerId, Timestamp};
use std::time::Duration;

use crate::Ec2Backend;
use crate::catalogue::filter;
use crate::errors::Ec2Error;
use crate::tags::{self, runner_of};

/// EC2 may not show for a while what it has made. So long after the last call that may have made it, what is not seen is not there.
pub(crate) const SEEN_WITHIN: Duration = Duration::from_secs(120);
const PAGE: i32 = 1_000;
const NOT_TERMINATED: [&str; 5] = ["pending", "running", "shutting-down", "stopping", "stopped"];

impl Ec2Backend {
    pub(crate) async fn look(&self, runner: &Runner) -> Result<Presence, Ec2Error> {
        let found = match &runner.provider_id {
            Some(id) => self.shown(id).await?,
            None => self.instances_of(runner).await?,
        };
        Ok(self.presence(runner, found.iter().map(state)))
    }

    /// EC2 answers with the state that the instance is in by then.
    pub(crate) async fn end(&self, runner: &Runner) -> Result<Presence, Ec2Error> {
        let found = match &runner.provider_id {
            Some(id) => self.shown(id).await?,
            None => self.instances_of(runner).await?,
        };
        self.must_be_of(&found, &runner.id)?;
        let ids: Vec<String> = found.iter().filter_map(id).collect();
        if ids.is_empty() {
            return Ok(self.presence(runner, []));
        }
        let states = match self.terminate(ids).await {
            Ok(states) => states,
            Err(error) if error.is_unknown_instance() => Vec::new(),
            Err(error) => return Err(error),
        };
        match (self.presence(runner, states), &runner.state) {
            // One that is told again may have been over for long: its own state says so for certain.
            (Presence::There, RunnerState::Terminating { told, .. }) if *told > 1 => self.look(runner).await,
            (presence, _) => Ok(presence),
        }
    }

    pub(crate) async fn list(&self, pool: &PoolName) -> Result<Vec<Machine>, Ec2Error> {
        let filters = vec![
            self.is_ours(),
            tagged(tags::POOL, pool.as_str()),
            filter("instance-state-name", &NOT_TERMINATED),
        ];
        let mut machines = Vec::new();
        for instance in self.instances(filters).await? {
            let Some(provider_id) = id(&instance) else { continue };
            match runner_of(tags_of(&instance), instance.ami_launch_index()) {
                Ok((launch, index)) => {
                    machines.push(Machine { runner: RunnerId::of_launch(&launch, index), provider_id });
                }
                Err(problem) => {
                    tracing::warn!(target: "alert", %pool, provider_id, %problem, "an instance has our tags, but is of no runner, and is left alone");
                }
            }
        }
        Ok(machines)
    }

    pub(crate) async fn end_stray(&self, machine: &Machine) -> Result<(), Ec2Error> {
        let found = self.shown(&machine.provider_id).await?;
        self.must_be_of(&found, &machine.runner)?;
        let ids: Vec<String> = found.iter().filter_map(id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        match self.terminate(ids).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_unknown_instance() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the tags of our launch and EC2's own count say of an instance. It is asked for by its id, which any agent could name.
    pub(crate) async fn whose(&self, runner: &Runner, provider_id: &str) -> Result<Attested, Ec2Error> {
        let found = match self.shown(provider_id).await {
            Err(error) if error.is_malformed_instance() => return Ok(Attested::Another),
            found => found?,
        };
        Ok(match found.first() {
            None => Attested::NotShown,
            Some(instance) if self.is_of(instance, &runner.id) => Attested::Its,
            Some(_) => Attested::Another,
        })
    }

    /// The instance of this id, if EC2 shows it.
    async fn shown(&self, id: &str) -> Result<Vec<Instance>, Ec2Error> {
        match self.client.describe_instances().instance_ids(id).send().await.map_err(Ec2Error::from) {
            Ok(answer) => Ok(instances_in(answer.reservations.unwrap_or_default())),
            Err(error) if error.is_unknown_instance() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether this installation made it for this runner.
    fn is_of(&self, instance: &Instance, runner: &RunnerId) -> bool {
        let ours = (tags::INSTALLATION, self.settings.installation.as_str());
        let its = runner_of(tags_of(instance), instance.ami_launch_index());
        tags_of(instance).any(|tag| tag == ours)
            && its.is_ok_and(|(launch, index)| RunnerId::of_launch(&launch, index) == *runner)
    }

    /// Nothing is ended on the word of a record alone: what it names may be another's instance.
    fn must_be_of(&self, found: &[Instance], runner: &RunnerId) -> Result<(), Ec2Error> {
        let Some(other) = found.iter().find(|instance| !self.is_of(instance, runner)).and_then(id) else {
            return Ok(());
        };
        tracing::warn!(target: "alert", %runner, instance = other, "an instance does not have the tags of this runner's launch, and is not ended");
        Err(Ec2Error::Unfit(format!(
            "{other} does not have the tags of the launch of {runner}, and is left alone"
        )))
    }

    /// All that pass the filters, from every page.
    pub(crate) async fn instances(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, Ec2Error> {
        let call = self.client.describe_instances().set_filters(Some(filters));
        let mut pages = call.into_paginator().page_size(PAGE).items().send();
        let mut reservations = Vec::new();
        while let Some(reservation) = pages.next().await {
            reservations.push(reservation?);
        }
        Ok(instances_in(reservations))
    }

    /// Of a runner whose launch's answer is not noted: found by the tags that the launch gave it.
    async fn instances_of(&self, runner: &Runner) -> Result<Vec<Instance>, Ec2Error> {
        let of_launch = vec![self.is_ours(), tagged(tags::LAUNCH, runner.launch.as_str())];
        let mut found = self.instances(of_launch).await?;
        found.retain(|instance| self.is_of(instance, &runner.id));
        Ok(found)
    }

    /// Tells instances to go, and answers with their states.
    async fn terminate(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStateName>>, Ec2Error> {
        let answer = self.client.terminate_instances().set_instance_ids(Some(ids)).send().await?;
        let now = |change: aws_sdk_ec2::types::InstanceStateChange| {
            change.current_state.and_then(|state| state.name)
        };
        Ok(answer.terminating_instances.unwrap_or_default().into_iter().map(now).collect())
    }

    fn is_ours(&self) -> Filter {
        tagged(tags::INSTALLATION, &self.settings.installation)
    }

    fn presence(
        &self,
        runner: &Runner,
        found: impl IntoIterator<Item = Option<InstanceStateName>>,
    ) -> Presence {
        presence(found, would_be_seen(runner, self.settings.clock.now()))
    }
}

/// A runner has one instance; should it have more, it is gone when all of them are.
fn presence(found: impl IntoIterator<Item = Option<InstanceStateName>>, would_be_seen: bool) -> Presence {
    let mut presence = None;
    for state in found {
        if state != Some(InstanceStateName::Terminated) {
            return Presence::There;
        }
        presence = Some(Presence::Gone);
    }
    match presence {
        Some(presence) => presence,
        None if would_be_seen => Presence::Gone,
        None => Presence::Unknown,
    }
}

fn would_be_seen(runner: &Runner, now: Timestamp) -> bool {
    let last_call = match &runner.state {
        // It may be under way at this very moment.
        RunnerState::Created { launched_at: None, .. } => return false,
        RunnerState::Created { launched_at: Some(at), .. } => *at,
        RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => runner.entered_at,
    };
    now.since(last_call) >= SEEN_WITHIN
}

/// Whether the call that made these was so long ago that a listing shows all that it made. When it was, EC2's clock says, whose skew to ours
/// is small beside [`SEEN_WITHIN`].
pub(crate) fn all_shown(found: &[Instance], now: Timestamp) -> bool {
    let old = |instance: &Instance| {
        let made = instance.launch_time().and_then(|made| u64::try_from(made.to_millis().ok()?).ok());
        made.is_some_and(|made| now.since(Timestamp::from_millis(made)) >= SEEN_WITHIN)
    };
    found.iter().all(old)
}

fn tagged(key: &str, value: &str) -> Filter {
    filter(&format!("tag:{key}"), &[value])
}

fn instances_in(reservations: Vec<aws_sdk_ec2::types::Reservation>) -> Vec<Instance> {
    reservations.into_iter().flat_map(|reservation| reservation.instances.unwrap_or_default()).collect()
}

fn id(instance: &Instance) -> Option<String> {
    instance.instance_id().map(str::to_owned)
}

fn state(instance: &Instance) -> Option<InstanceStateName> {
    instance.state().and_then(|state| state.name()).cloned()
}

fn tags_of(instance: &Instance) -> impl Iterator<Item = (&str, &str)> {
    instance.tags().iter().filter_map(|tag| Some((tag.key()?, tag.value()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::runner::NewRunner;
    use motorpool_domain::spec::{Offer, Spec, Usage};
    use motorpool_domain::{Epoch, LaunchId, Threshold};

    const MADE: Timestamp = Timestamp::from_millis(1_000_000);

    fn intent() -> Runner {
        let launch = LaunchId::parse("l-abc").unwrap();
        let new = NewRunner {
            id: RunnerId::of_launch(&launch, 0),
            pool: PoolName::parse("small").unwrap(),
            launch,
            index: 0,
            offer: Offer {
                instance_type: "c6i.large".to_owned(),
                usage: Usage::Spot,
                spec: Spec { cpu: 2, memory_mb: 4_096 },
            },
            kept: false,
            hold: None,
            epoch: Epoch::FIRST,
            threshold: Threshold::in_(Duration::from_secs(600), MADE),
            attempt: None,
        };
        Runner::intent(new, MADE)
    }

    #[test]
    fn inv_16_what_is_not_seen_is_gone_only_when_it_would_be_seen() {
        let created = |launched_at| RunnerState::Created { hold: None, launched_at, attempt: None };
        let ending = RunnerState::Terminating { why: String::new(), told: 1 };
        for (state, after_ms, expected) in [
            (created(None), 10_000_000, false),
            (created(Some(MADE)), 119_999, false),
            (created(Some(MADE)), 120_000, true),
            (ending.clone(), 119_999, false),
            (ending, 120_000, true),
            (RunnerState::Idle, 120_000, true),
        ] {
            let runner = Runner { state, ..intent() };
            let now = MADE.after(Duration::from_millis(after_ms));
            assert_eq!(would_be_seen(&runner, now), expected, "{:?} after {after_ms}", runner.state);
        }
    }

    #[test]
    fn inv_17_only_what_is_terminated_is_gone() {
        use InstanceStateName::{Pending, Running, ShuttingDown, Stopped, Stopping, Terminated};
        for state in [Pending, Running, ShuttingDown, Stopped, Stopping] {
            assert_eq!(presence([Some(state)], true), Presence::There);
        }
        assert_eq!(presence([None], true), Presence::There, "a state that we can't read is no proof");
        assert_eq!(presence([Some(Terminated)], false), Presence::Gone);
        assert_eq!(presence([Some(Terminated), Some(Running)], true), Presence::There);
        assert_eq!(presence([], true), Presence::Gone);
        assert_eq!(presence([], false), Presence::Unknown);
    }
}
