//! Figures in Prometheus' text format: pools as the control plane tells them, and what this process has seen: checkpoints, and the requests that it has
//! served.

use axum::http::StatusCode;
use motorpool_control::measures::{BOUNDS_S, Durations, Measures, RESULTS, Step};
use motorpool_domain::checkpoint::FinalizeSource;
use motorpool_domain::pool::BackendKind;
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

pub(crate) fn text(pools: &[PoolView], measures: &Measures, served: &Served) -> Result<String, fmt::Error> {
    let mut out = String::new();
    head(&mut out, "motorpool_runners", "gauge", "Runners by pool and state.")?;
    for view in pools {
        for state in StateName::ALL {
            let (pool, count) = (&view.pool, view.count(state));
            writeln!(out, "motorpool_runners{{pool=\"{pool}\",state=\"{state}\"}} {count}")?;
        }
    }
    let figures: [(&str, &str, Figure); 4] = [
        ("motorpool_slots_used", "Live runners and launch intents of a pool.", |pool| pool.used),
        ("motorpool_slots_max", "What motorpool_slots_used never exceeds.", |pool| pool.max),
        ("motorpool_claims_waiting", "Claims on a pool that wait for something.", |pool| pool.waiting),
        (
            "motorpool_pending_checkpoints_count",
            "Jobs' checkpoints of a pool that have not come to their end.",
            |pool| pool.pending_checkpoints,
        ),
    ];
    for (name, help, figure) in figures {
        head(&mut out, name, "gauge", help)?;
        for view in pools {
            writeln!(out, "{name}{{pool=\"{}\"}} {}", view.pool, figure(view))?;
        }
    }
    checkpoints(&mut out, measures)?;
    head(&mut out, "motorpool_http_requests_total", "counter", "Requests that this process has answered.")?;
    served.write(&mut out)?;
    Ok(out)
}

/// Those that this process has seen. Of a step that never happened at a backend nothing is written.
fn checkpoints(out: &mut String, measures: &Measures) -> fmt::Result {
    for step in Step::ALL {
        let name = format!("motorpool_{}", step.name());
        head(out, &name, "histogram", help(step))?;
        for (backend, result) in BackendKind::ALL.into_iter().flat_map(|one| RESULTS.map(|two| (one, two))) {
            if let Some(durations) = measures.durations(step, backend, result) {
                let labels = format!("backend_type=\"{}\",result=\"{result}\"", backend.name());
                histogram(out, &name, &labels, durations)?;
            }
        }
    }
    let name = "motorpool_finalize_source_total";
    head(out, name, "counter", "Jobs by who first said that they had ended; gc: nobody did in time.")?;
    for source in FinalizeSource::ALL {
        let (source, count) = (source.as_str(), measures.finalized_by(source));
        writeln!(out, "{name}{{finalize_source=\"{source}\"}} {count}")?;
    }
    Ok(())
}

fn help(step: Step) -> &'static str {
    match step {
        Step::Create => "Creating a job's checkpoint.",
        Step::Reset => "Making a machine what it was before its job, by its agent's clock.",
        Step::Delete => "Removing what a job that went well left on its machine, by its agent's clock.",
        Step::Readiness => "Waiting until a machine that was cleaned could take a job, by its agent's clock.",
    }
}

fn histogram(out: &mut String, name: &str, labels: &str, durations: &Durations) -> fmt::Result {
    let up_to_each = durations.up_to_each();
    let [.., count] = up_to_each;
    if count == 0 {
        return Ok(());
    }
    let bounds = BOUNDS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, up_to) in bounds.zip(up_to_each) {
        writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {up_to}")?;
    }
    writeln!(out, "{name}_sum{{{labels}}} {}", durations.sum().as_secs_f64())?;
    writeln!(out, "{name}_count{{{labels}}} {count}")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// The place of the status among [`CLASSES`].
fn class(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1
}
