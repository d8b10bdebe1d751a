//! Agents that are connected by a WebSocket: whose connection it is, whether it still is, and what the operator has run over it. What an agent asks
//! over its connection are the same use cases as over HTTP.

use super::token::not_its_token;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::channels::{AgentChannels, ExecError};
use crate::ports::ledger::LedgerError;
use crate::secrets::token_sha256;
use motorpool_domain::audit::cut;
use motorpool_domain::record::Key;
use motorpool_domain::time::millis;
use motorpool_domain::{AuditEntry, AuditResult, Epoch, RunnerId};
use motorpool_wire::channel::{
    ExecAnswer, ExecRequest, LONGEST_COMMAND, LONGEST_EXEC, LONGEST_OUTPUT, SHORTEST_EXEC, USUAL_EXEC,
};
use std::time::Duration;

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedAgent {
    pub runner: RunnerId,
    pub epoch: Epoch,
    /// Its token was made for it when it was registered: it speaks nothing but what travels over its connection, and does not sync.
    pub is_silent: bool,
}

/// Why a command was not run, or nobody knows how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    Refused(Refused),
    ByAgent(ExecError),
}

impl From<Refused> for NotRun {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<LedgerError> for NotRun {
    fn from(error: LedgerError) -> Self {
        Self::Refused(error.into())
    }
}

impl Control {
    /// `named` is the runner that the agent says it is, if it says so.
    pub async fn connect_agent(&self, token: &str, named: Option<&str>) -> Result<ConnectedAgent, Refused> {
        let runner = self.runner_with_token(token, self.now()).await?;
        if named.is_some_and(|named| named != runner.id.as_str()) {
            return Err(not_its_token());
        }
        let is_silent = runner.has_fixed_token();
        Ok(ConnectedAgent { runner: runner.id, epoch: runner.epoch, is_silent })
    }

    /// Whether a token that was this runner's still is. An agent whose token has changed has its connection from before: nobody has misused the old
    /// one for that.
    pub async fn is_token_of(&self, token: &str, runner: &RunnerId) -> Result<bool, Refused> {
        let found = self.store.runner_by_token(&token_sha256(token)).await?;
        Ok(found.is_some_and(|found| found.id == *runner))
    }

    /// Has a command run on a machine, where its pool allows that. Who asked for it is written down before it is run, and how it ended after.
    pub async fn exec(
        &self,
        caller: &Caller,
        id: &RunnerId,
        request: &ExecRequest,
        channels: &dyn AgentChannels,
    ) -> Result<ExecAnswer, NotRun> {
        caller.must_be_operator("have a command run on a machine")?;
        let ExecRequest { cmd, timeout } = request;
        let timeout = checked(cmd, *timeout)?;
        let runner = self.runner_record(id).await?;
        if !self.pool_record(&runner.pool).await?.pool.rules.allow_exec {
            return Err(NotRun::Refused(Refused::forbidden(
                format!("pool {} does not allow commands on its machines", runner.pool),
                "say `allow_exec = true` in the pool's settings",
            )));
        }
        if !channels.is_connected(id) {
            return Err(NotRun::ByAgent(ExecError::NotConnected));
        }
        let begun = self.now();
        let asked = AuditEntry::of(begun, caller.actor(), "exec", cut(cmd.clone()));
        self.store.note(&Key::from(id), &asked).await?;
        let outcome = channels.exec(id, cmd, timeout).await;
        let ended = self.now();
        let how = match &outcome {
            Ok(ExecAnswer { exit_code, .. }) => format!("exit code {exit_code}"),
            Err(error) => error.to_string(),
        };
        let told = cut(format!("{how}, after {} ms: {cmd}", millis(ended.since(begun))));
        let is_done = outcome.as_ref().is_ok_and(|answer| answer.exit_code == 0);
        let result = if is_done { AuditResult::Ok } else { AuditResult::Error };
        let entry =
            AuditEntry::of(ended, caller.actor(), "exec ended", told).came_out(result, ended.since(begun));
        if let Err(error) = self.store.note(&Key::from(id), &entry).await {
            // The command is done: whoever asked for it must hear how it ended, or he has it run twice.
            tracing::warn!(target: "alert", runner = %id, error = chain(&error), "how a command ended could not be written down");
        }
        tracing::info!(runner = %id, pool = %runner.pool, result = how, ms = millis(ended.since(begun)), "a command was run on a machine");
        outcome.map(kept).map_err(NotRun::ByAgent)
    }
}

fn checked(cmd: &str, timeout: Option<f64>) -> Result<Duration, Refused> {
    if cmd.is_empty() || cmd.contains('\0') || cmd.chars().count() > LONGEST_COMMAND {
        return Err(Refused::invalid(
            format!("cmd must be from 1 to {LONGEST_COMMAND} characters, and none of them NUL"),
            "put what is longer into a script on the machine",
        ));
    }
    let asked = timeout.map_or(Ok(USUAL_EXEC), Duration::try_from_secs_f64).ok();
    asked.filter(|asked| (SHORTEST_EXEC..=LONGEST_EXEC).contains(asked)).ok_or_else(|| {
        Refused::invalid(
            format!("timeout must be from {} to {} seconds", SHORTEST_EXEC.as_secs(), LONGEST_EXEC.as_secs()),
            "what takes longer should be started in the background",
        )
    })
}

/// The end of what a command wrote: whoever reads it wants to know how it ended.
fn kept(answer: ExecAnswer) -> ExecAnswer {
    let ExecAnswer { exit_code, stdout, stderr } = answer;
    ExecAnswer { exit_code, stdout: last(stdout), stderr: last(stderr) }
}

fn last(text: String) -> String {
    let beyond = text.chars().count().saturating_sub(LONGEST_OUTPUT);
    if beyond == 0 { text } else { text.chars().skip(beyond).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_18_a_command_and_its_time_are_bounded() {
        for timeout in [0.0, 0.999, 600.001, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(checked("true", Some(timeout)).is_err(), "{timeout}");
        }
        assert_eq!(checked("true", None), Ok(USUAL_EXEC));
        assert_eq!(checked("true", Some(1.5)), Ok(Duration::from_millis(1_500)));
        for cmd in ["", "a\0b", &"ä".repeat(LONGEST_COMMAND + 1)] {
            assert!(checked(cmd, None).is_err());
        }
        assert!(checked(&"ä".repeat(LONGEST_COMMAND), Some(600.0)).is_ok());
    }

    #[test]
    fn refuse_18_of_a_long_output_the_end_is_told() {
        let long = format!("{}the end", "ä".repeat(LONGEST_OUTPUT));
        let answer = ExecAnswer { exit_code: -9, stdout: long, stderr: "short".to_owned() };
        let ExecAnswer { exit_code, stdout, stderr } = kept(answer);
        assert_eq!((exit_code, stderr.as_str()), (-9, "short"));
        assert!(stdout.ends_with("the end") && stdout.chars().count() == LONGEST_OUTPUT);
    }
}
