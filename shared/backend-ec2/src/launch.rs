//! One order, one RunInstances call, and what its answer means. The next rung is for the caller to choose.

use aws_sdk_ec2::types::{Instance, Tag};
use motorpool_control::ports::backend::{LaunchError, LaunchOrder, Machine};
use motorpool_domain::RunnerId;
use motorpool_domain::ladder::{Lacking, LaunchCall};
use motorpool_domain::pool::Ec2Rules;

use crate::calls::RUN_INSTANCES;
use crate::catalogue::filter;
use crate::client::without_retries;
use crate::errors::{Ec2Error, Verdict};
use crate::machines::all_shown;
use crate::order::{self, Details};
use crate::{Ec2Backend, tags, user_data};

impl Ec2Backend {
    pub(crate) async fn run(
        &self,
        order: &LaunchOrder<'_>,
        rules: &Ec2Rules,
    ) -> Result<Vec<Machine>, LaunchError> {
        let rung = &order.attempt.rung;
        let user_data = user_data::encoded(order, rules, &self.settings)
            .map_err(|error| LaunchError::Refused(error.to_string()))?;
        let subnet = self.subnet_in(rules, order.attempt).await?;
        let root_device =
            self.catalogue.root_device(&rules.image).await.map_err(|error| error.of_launch(rung))?;
        let installation = self.settings.installation.as_str();
        let details = Details { installation, subnet, root_device: &root_device, user_data };
        let answer = order::request(order, rules, details).send_with(&self.client).await;
        let machines = match answer.map_err(Ec2Error::from) {
            Ok(answer) => machines_of(order, answer.instances()),
            Err(error) if error.verdict() == Verdict::TokenUsed => self.made_before(order, error).await?,
            Err(error) => return Err(error.of_launch(rung)),
        };
        if machines.is_empty() {
            let why = "it took the launch, and named no instance".to_owned();
            let nothing = Ec2Error::Silent { call: RUN_INSTANCES, why };
            return Err(LaunchError::Unconfirmed(Box::new(nothing)));
        }
        self.name_runners(order.attempt, &machines).await;
        Ok(machines)
    }

    /// The first of the pool's subnets that is in the rung's zone.
    async fn subnet_in<'r>(&self, rules: &'r Ec2Rules, attempt: &LaunchCall) -> Result<&'r str, LaunchError> {
        let rung = &attempt.rung;
        let subnets = self.catalogue.zones_of(rules).await.map_err(|error| error.of_launch(rung))?;
        let here = subnets.iter().find(|(_, zone)| rung.zone.as_deref() == Some(zone.as_str()));
        if let Some((subnet, _)) = here {
            return Ok(subnet);
        }
        // The pool's settings changed after the rung was chosen, or its subnet there is gone.
        let of = match &rung.zone {
            Some(zone) => Lacking::Zone { zone: zone.clone() },
            None => Lacking::rung(rung),
        };
        let why = format!("{}: none of the pool's subnets is there", rung.in_words());
        Err(LaunchError::NoCapacity { of, why })
    }

    /// EC2 knows the token, and would not launch again: the pool's settings changed since, or the machines are gone already. What came of
    /// the call is what counts.
    async fn made_before(
        &self,
        order: &LaunchOrder<'_>,
        error: Ec2Error,
    ) -> Result<Vec<Machine>, LaunchError> {
        let token = order::token(&self.settings.installation, order.launch, order.attempt);
        let found = self.instances(vec![filter("client-token", &[&token])]).await;
        // Whatever it is that can't be read, something was made.
        let found = found.map_err(|error| LaunchError::Unconfirmed(Box::new(error)))?;
        let machines = machines_of(order, &found);
        // Of a young launch a listing may show some instances before the others: the others would be launched again.
        let all_came = u32::try_from(machines.len()).is_ok_and(|came| came == order.attempt.count);
        if machines.is_empty() || !(all_came || all_shown(&found, self.settings.clock.now())) {
            return Err(LaunchError::Unconfirmed(Box::new(error)));
        }
        tracing::info!(launch = %order.launch, token, count = machines.len(), "a launch was made before, and is taken as it came");
        Ok(machines)
    }

    /// For people and reports of costs: nothing depends on it, so the first failure ends it. A call for one machine has it in its tags.
    async fn name_runners(&self, attempt: &LaunchCall, machines: &[Machine]) {
        if attempt.count == 1 {
            return;
        }
        for Machine { runner, provider_id } in machines {
            let tag = Tag::builder().key(tags::RUNNER).value(runner.as_str()).build();
            let call = self.client.create_tags().resources(provider_id).tags(tag);
            let named = call.customize().config_override(without_retries()).send().await;
            if let Err(error) = named.map_err(Ec2Error::from) {
                tracing::info!(%runner, provider_id, %error, "instances are not tagged with their runners, which only people miss");
                return;
            }
        }
    }
}

/// In the order of their index, each with the runner that it is for.
fn machines_of(order: &LaunchOrder<'_>, instances: &[Instance]) -> Vec<Machine> {
    let mut found: Vec<(u32, &str)> = instances
        .iter()
        .filter_map(|instance| {
            let index = u32::try_from(instance.ami_launch_index()?).ok()?;
            Some((index, instance.instance_id()?))
        })
        .filter(|(index, _)| *index < order.attempt.count)
        .collect();
    found.sort_unstable();
    let machine = |(index, id): (u32, &str)| Machine {
        runner: RunnerId::of_launch(order.launch, order.attempt.from + index),
        provider_id: id.to_owned(),
    };
    found.into_iter().map(machine).collect()
}
