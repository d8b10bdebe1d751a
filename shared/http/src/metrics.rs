//! Figures in Prometheus' text format: pools as the control plane tells them, and the requests that this process has served.

use axum::http::StatusCode;
use motorpool_domain::runner::StateName;
use motorpool_wire::api::PoolView;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests by route, method and class of status. All three come from short lists that are known at the start, so that counting takes no
/// lock.
#[derive(Debug)]
pub(crate) struct Served {
    routes: BTreeMap<String, Counts>,
    unmatched: Counts,
}

type Counts = [[AtomicU64; CLASSES.len()]; METHODS.len()];
type Figure = fn(&PoolView) -> u32;

/// What a route that nobody knows is called.
pub(crate) const UNMATCHED: &str = "unmatched";
/// A caller may invent methods; logs and metrics know these.
pub(crate) const METHODS: [&str; 8] = ["DELETE", "GET", "HEAD", "OPTIONS", "OTHER", "PATCH", "POST", "PUT"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Served {
    pub(crate) fn new<'a>(routes: impl IntoIterator<Item = &'a String>) -> Self {
        let routes = routes.into_iter().map(|route| (route.clone(), Counts::default())).collect();
        Self { routes, unmatched: Counts::default() }
    }

    /// `method` is one of [`METHODS`].
    pub(crate) fn count(&self, method: &str, route: Option<&str>, status: StatusCode) {
        let counts = route.and_then(|route| self.routes.get(route)).unwrap_or(&self.unmatched);
        let method = METHODS.iter().position(|known| *known == method);
        let count = method.and_then(|method| counts.get(method)?.get(class(status)));
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let named = self.routes.iter().map(|(route, counts)| (route.as_str(), counts));
        for (route, counts) in named.chain([(UNMATCHED, &self.unmatched)]) {
            for (method, counts) in METHODS.iter().zip(counts) {
                for (class, count) in CLASSES.iter().zip(counts) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        writeln!(
                            out,
                            "motorpool_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{class}\"}} {count}"
                        )?;
                    }
                }
            }
        }
        Ok(())
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
    served.write(&mut out)?;
    Ok(out)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// The place of the status among [`CLASSES`].
fn class(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1
}
