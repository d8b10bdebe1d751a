//! Figures in Prometheus' text format: pools as the control plane tells them, and the requests that this process has served.

use axum::http::StatusCode;
use motorpool_domain::runner::StateName;
use motorpool_wire::api::PoolView;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Requests by method, route and class of status. All three come from short lists, so this stays small.
#[derive(Debug, Default)]
pub(crate) struct Served(Mutex<BTreeMap<Key, u64>>);

type Key = (String, &'static str, &'static str);
type Figure = fn(&PoolView) -> u32;

impl Served {
    pub(crate) fn count(&self, method: &'static str, route: &str, status: StatusCode) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((route.to_owned(), method, class(status))).or_default() += 1;
    }

    fn now(&self) -> BTreeMap<Key, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) fn text(pools: &[PoolView], served: &Served) -> Result<String, fmt::Error> {
    let mut out = String::new();
    head(&mut out, "motorpool_runners", "gauge", "Runners by pool and state.")?;
    for view in pools {
        for state in StateName::ALL {
            let (pool, count) = (&view.pool, view.count(state));
            writeln!(out, "motorpool_runners{{pool=\"{pool}\",state=\"{state}\"}} {count}")?;
        }
    }
    let figures: [(&str, &str, Figure); 3] = [
        ("motorpool_slots_used", "Live runners and launch intents of a pool.", |pool| pool.used),
        ("motorpool_slots_max", "What motorpool_slots_used never exceeds.", |pool| pool.max),
        ("motorpool_claims_waiting", "Claims on a pool that wait for something.", |pool| pool.waiting),
    ];
    for (name, help, figure) in figures {
        head(&mut out, name, "gauge", help)?;
        for view in pools {
            writeln!(out, "{name}{{pool=\"{}\"}} {}", view.pool, figure(view))?;
        }
    }
    head(&mut out, "motorpool_http_requests_total", "counter", "Requests that this process has answered.")?;
    for ((route, method, class), count) in served.now() {
        writeln!(
            out,
            "motorpool_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{class}\"}} {count}"
        )?;
    }
    Ok(out)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}
