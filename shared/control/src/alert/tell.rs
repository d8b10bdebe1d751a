//! Tells people of incidents: once when one opens, once when it is over. Whoever is about to tell writes that down first, so that no other
//! control plane tells it too; what could not be told is tried again, later and later.

use super::PassContext;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::store::{AlertWrite, Written};
use crate::tries::Tries;
use motorpool_domain::Timestamp;
use motorpool_domain::alert::{Alert, AlertMessage, Telling};
use std::time::Duration;

/// After so long a pass begins no other look or message: they come one after the other, and it must come to its end.
const LONGEST: Duration = Duration::from_secs(15);

/// Whether the next message of a pass may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Listens,
    /// It did not take a message: the others wait for the next pass, and cost nothing until then.
    Away,
}

impl Control {
    /// Looks at each incident that is due, and tells what is to be told of it.
    pub(crate) async fn send_due_alerts(&self, alerts: Vec<Alert>, pass: PassContext<'_>) {
        let (mut receiver, until) = (Receiver::Listens, self.now().after(LONGEST));
        for alert in alerts {
            if self.now() > until {
                break;
            }
            let subject = format!("the alert of {}", alert.incident.name());
            match self.treat_alert(alert, pass, receiver, until).await {
                Ok(found) => receiver = found,
                Err(error) => self.heal(&subject, Err(error)),
            }
        }
    }

    async fn treat_alert(
        &self,
        alert: Alert,
        pass: PassContext<'_>,
        receiver: Receiver,
        until: Timestamp,
    ) -> Result<Receiver, Refused> {
        match (self.look_at_alert(alert, pass).await?, receiver) {
            (Some(alert), Receiver::Listens) => self.tell_all(alert, until).await,
            (Some(_), Receiver::Away) | (None, Receiver::Listens | Receiver::Away) => Ok(receiver),
        }
    }

    /// The alert after a look, if one is due. Nothing, where somebody else has changed it meanwhile, and so knows more.
    async fn look_at_alert(&self, alert: Alert, pass: PassContext<'_>) -> Result<Option<Alert>, Refused> {
        let now = self.now();
        if !alert.is_to_be_looked_at(now) {
            return Ok(Some(alert));
        }
        let after = match self.is_over(&alert, pass, now).await? {
            true => alert.over(now).unwrap_or_else(|| alert.looked(now)),
            false => alert.looked(now),
        };
        self.take_alert(&alert, after).await
    }

    /// First that it opened, and then perhaps that it is over.
    async fn tell_all(&self, mut alert: Alert, until: Timestamp) -> Result<Receiver, Refused> {
        while let Some(telling) = alert.to_tell_at(self.now()).filter(|_| self.now() <= until) {
            let tried = alert.tried(self.now());
            let Some(taken) = self.take_alert(&alert, tried).await? else { return Ok(Receiver::Listens) };
            if self.tell(&taken, telling).await == Receiver::Away {
                return Ok(Receiver::Away);
            }
            alert = self.note_heard(taken, telling).await?;
        }
        Ok(Receiver::Listens)
    }

    async fn tell(&self, alert: &Alert, telling: Telling) -> Receiver {
        let Some(sender) = &self.alerts else { return Receiver::Listens };
        let message = AlertMessage::of(alert, telling, &self.secret.installation());
        match sender.send(&message).await {
            Ok(()) => {
                tracing::info!(message.id, "people were told of an incident");
                Receiver::Listens
            }
            Err(error) => {
                let attempts = alert.attempts;
                tracing::warn!(
                    message.id,
                    attempts,
                    error = chain(&error),
                    "people could not be told of an incident; it is tried again"
                );
                Receiver::Away
            }
        }
    }

    /// Whatever became of the incident meanwhile: this much was heard of it.
    async fn note_heard(&self, alert: Alert, telling: Telling) -> Result<Alert, Refused> {
        let (mut known, mut tries) = (alert, Tries::new());
        loop {
            tries.again(|| format!("the alert of {}", known.incident.name()))?;
            let after = known.heard(telling, self.now());
            known = match self.store.write_alert(AlertWrite { before: Some(&known), after: &after }).await? {
                Written::Done | Written::Missing => return Ok(after),
                Written::Lost { found } => found,
            };
        }
    }

    /// `after`, if nobody else has changed the alert since it was read.
    async fn take_alert(&self, before: &Alert, after: Alert) -> Result<Option<Alert>, Refused> {
        match self.store.write_alert(AlertWrite { before: Some(before), after: &after }).await? {
            Written::Done => Ok(Some(after)),
            Written::Lost { .. } | Written::Missing => Ok(None),
        }
    }
}
