//! The incidents as the operator sees them.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::store::{Page, WhichAlerts};
use motorpool_domain::Timestamp;
use motorpool_domain::alert::{Alert, AlertState};
use motorpool_domain::time::millis;
use motorpool_wire::api::{AlertView, AlertsPage};

impl Control {
    pub async fn list_alerts(
        &self,
        caller: &Caller,
        which: WhichAlerts,
        page: Page,
    ) -> Result<AlertsPage, Refused> {
        caller.must_be_operator("list alerts")?;
        let listed = self.store.list_alerts(which, page).await?;
        let now = self.now();
        let alerts = listed.items.iter().map(|alert| view(alert, now)).collect();
        Ok(AlertsPage { sent: self.alerts.is_some(), alerts, next: listed.next })
    }
}

fn view(alert: &Alert, now: Timestamp) -> AlertView {
    let Alert {
        incident,
        details,
        state,
        opening: _,
        raised,
        raised_at: _,
        told,
        attempts,
        next_try: _,
        rev: _,
    } = alert;
    let (opened_at, over_since) = match state {
        AlertState::Open { since, look_at: _ } => (*since, None),
        AlertState::Over { opened_at, since } => (*opened_at, Some(*since)),
    };
    AlertView {
        incident: incident.name().to_owned(),
        subject: incident.subject().map(str::to_owned),
        state: state.as_str().to_owned(),
        text: match state {
            AlertState::Open { .. } => incident.to_string(),
            AlertState::Over { .. } => incident.when_over(),
        },
        details: details.clone(),
        opened_ms_ago: millis(now.since(opened_at)),
        over_ms_ago: over_since.map(|since| millis(now.since(since))),
        raised: *raised,
        told: told.as_str().to_owned(),
        attempts: *attempts,
    }
}
