//! Incidents: raised and resolved by whoever notices, told to people by refresh. Raising one never fails: who notices an incident has other
//! things to do, and what is not written is found by the next who looks.

mod list;
mod look;
mod tell;

pub(crate) use look::PassContext;

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::store::{AlertWrite, Written};
use crate::tries::Tries;
use motorpool_domain::Timestamp;
use motorpool_domain::alert::{Alert, Incident};
use motorpool_domain::runner::{Runner, StateName};

impl Control {
    /// People are to hear of this. Raised again while it is open, it costs one read.
    pub(crate) async fn raise(&self, incident: Incident, details: &str, now: Timestamp) {
        if let Err(error) = self.try_raise(&incident, details, now).await {
            tracing::warn!(%incident, error = chain(&error), "an incident could not be written down");
        }
    }

    /// It is over, if it ever was.
    pub(crate) async fn resolve(&self, incident: &Incident, now: Timestamp) {
        if let Err(error) = self.try_resolve(incident, now).await {
            tracing::warn!(
                incident = incident.name(),
                subject = incident.subject(),
                error = chain(&error),
                "the end of an incident could not be written down; refresh looks for it"
            );
        }
    }

    /// A quarantine is an incident for as long as it lasts.
    pub(crate) async fn resolve_quarantine(&self, before: &Runner, after: &Runner, now: Timestamp) {
        let left =
            before.state.name() == StateName::Quarantined && after.state.name() != StateName::Quarantined;
        if left {
            self.resolve(&Incident::RunnerQuarantined { runner: after.id.clone() }, now).await;
        }
    }

    async fn try_raise(&self, incident: &Incident, details: &str, now: Timestamp) -> Result<(), Refused> {
        let mut known = self.store.alert(incident).await?;
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("the alert of {}", incident.name()))?;
            let after = match &known {
                None => Alert::opened(incident.clone(), details, now),
                Some(alert) => match alert.raised(details, now) {
                    Some(after) => after,
                    None => return Ok(()),
                },
            };
            known = match self.store.write_alert(AlertWrite { before: known.as_ref(), after: &after }).await?
            {
                Written::Done => return Ok(()),
                Written::Lost { found } => Some(found),
                Written::Missing => None,
            };
        }
    }

    async fn try_resolve(&self, incident: &Incident, now: Timestamp) -> Result<(), Refused> {
        let mut known = self.store.alert(incident).await?;
        let mut tries = Tries::new();
        while let Some(alert) = known {
            tries.again(|| format!("the alert of {}", incident.name()))?;
            let Some(after) = alert.over(now) else { return Ok(()) };
            known = match self.store.write_alert(AlertWrite { before: Some(&alert), after: &after }).await? {
                Written::Done => return Ok(()),
                Written::Lost { found } => Some(found),
                Written::Missing => None,
            };
        }
        Ok(())
    }
}
