//! An operator says something else of a machine of his own: its commands, what its CI system knows it by, its hardware. Said twice, it is so once.

use super::must_be_commands;
use super::register::{must_be_in_ci, must_be_known_in_ci, offered};
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::store::{RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{OwnCommands, Revised, Revision, Runner, revise};
use motorpool_domain::spec::Offer;
use motorpool_domain::{AuditEntry, RunnerId};
use motorpool_wire::api::RunnerView;
use motorpool_wire::registry::UpdateRunnerRequest;

impl Control {
    pub async fn update_runner(
        &self,
        caller: &Caller,
        id: &RunnerId,
        request: &UpdateRunnerRequest,
    ) -> Result<RunnerView, Refused> {
        caller.must_be_operator("change what is said of a runner")?;
        let UpdateRunnerRequest { cleanup_cmd, reset_cmd, readiness_cmd, ci_runner, .. } = request;
        let said = |value: &'_ Option<Option<String>>| value.clone().flatten();
        let (cleanup, reset, readiness) = (said(cleanup_cmd), said(reset_cmd), said(readiness_cmd));
        must_be_in_ci(said(ci_runner).as_deref())?;
        must_be_commands([
            ("cleanup_cmd", cleanup.as_deref()),
            ("reset_cmd", reset.as_deref()),
            ("readiness_cmd", readiness.as_deref()),
        ])?;
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.runner_record(id).await?;
            let pool = self.pool_record(&runner.pool).await?.pool;
            if runner.has_fixed_token() && *ci_runner == Some(None) {
                must_be_known_in_ci(&pool, None)?;
            }
            let after = match revise(&runner, &revision(&pool, &runner, request)?) {
                Revised::Changed(after) => after,
                Revised::Same => return Ok(self.runner_view(&runner, &pool.rules, now)),
                Revised::JobRuns => {
                    return Err(Refused::conflict(
                        format!("a job runs on runner {id}, whose end is told under the name that it has"),
                        "change ci_runner once the job has ended",
                    ));
                }
                Revised::Over => {
                    return Err(Refused::conflict(
                        format!("runner {id} is {}", runner.state.name()),
                        "register it again: `motorpool runners add`",
                    ));
                }
            };
            let why = format!("an operator changed its {}", differences(&runner, &after).join(", "));
            let entry = AuditEntry::of(now, caller.actor(), "changed", why);
            match self.store.write_runner(RunnerWrite::of(&runner, &after, &pool.rules, &entry)).await? {
                Written::Done => {
                    tracing::info!(runner = %id, pool = %pool.name, who = %caller.actor(), why = entry.why, "what is said of a runner changed");
                    self.wake(Key::from(id));
                    if Self::is_attended(&pool) {
                        self.ask_for_attention(&after).await?;
                    }
                    return Ok(self.runner_view(&after, &pool.rules, now));
                }
                Written::Lost { .. } | Written::Missing => {}
            }
        }
    }
}

fn revision(pool: &Pool, runner: &Runner, request: &UpdateRunnerRequest) -> Result<Revision, Refused> {
    let UpdateRunnerRequest {
        cleanup_cmd,
        reset_cmd,
        readiness_cmd,
        ci_runner,
        instance_type,
        cpu,
        memory_mb,
    } = request;
    let Offer { instance_type: old_type, usage, spec } = &runner.offer;
    let instance_type = instance_type.clone().unwrap_or_else(|| Some(old_type.clone()));
    let (cpu, memory_mb) = (cpu.unwrap_or(Some(spec.cpu)), memory_mb.unwrap_or(Some(spec.memory_mb)));
    let offer = offered(pool, instance_type.as_deref(), cpu, memory_mb)?;
    Ok(Revision {
        cleanup: cleanup_cmd.clone(),
        reset: reset_cmd.clone(),
        readiness: readiness_cmd.clone(),
        ci_runner: ci_runner.clone(),
        offer: Some(Offer { usage: *usage, ..offer }),
    })
}

/// What the log says: which they are, and not what they are now.
fn differences(before: &Runner, after: &Runner) -> Vec<&'static str> {
    let OwnCommands { cleanup, reset, readiness } = &before.commands;
    [
        ("cleanup_cmd", *cleanup != after.commands.cleanup),
        ("reset_cmd", *reset != after.commands.reset),
        ("readiness_cmd", *readiness != after.commands.readiness),
        ("ci_runner", before.ci_runner != after.ci_runner),
        ("hardware", before.offer != after.offer),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}
