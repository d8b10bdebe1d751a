//! This version's agent at a control plane of the version before, and of the one after: it does what it is told, and reports.

use crate::fixtures::message;
use crate::records::id;
use anyhow::{Context, Result, ensure};
use motorpool_agent::clock::BootInstant;
use motorpool_agent::machine::{Act, Effect, Fetch, Input, Machine, Memory, RunStart, Settings, TaskStart};
use motorpool_domain::Epoch;
use motorpool_domain::runner::TaskOutcome;
use motorpool_wire::agent::{RegistrationAnswer, SyncAnswer, SyncRequest};

#[test]
fn fault_29_an_agent_goes_on_with_an_older_control_plane() -> Result<()> {
    goes_on_with("older")
}

#[test]
fn fault_29_an_agent_goes_on_with_a_newer_control_plane() -> Result<()> {
    goes_on_with("newer")
}

fn goes_on_with(version: &str) -> Result<()> {
    let mut story = Story::begun()?;
    let effects = story.registered_by_script(version)?;
    let fetch = fetched(&effects).with_context(|| format!("{effects:?}"))?.clone();
    let answer: RegistrationAnswer = message(&format!("agent/{version}/registration_answer"))?;
    let registered = story.step(Input::Registered { fetch, answer: answer.clone() });
    let run = started_run(&registered).with_context(|| format!("{registered:?}"))?;
    ensure!((run.program.as_deref(), &run.registration) == (Some("run"), &Some(answer)), "{run:?}");
    story.must_report_it(&registered)
}

/// A machine, and the milliseconds since its host booted.
struct Story {
    machine: Machine,
    now_ms: u64,
}

impl Story {
    /// Its first sync is out.
    fn begun() -> Result<Self> {
        let settings = Settings {
            runner: id("r-abc-1"),
            boot_id: "boot-1".to_owned(),
            agent_version: "0.1.0".to_owned(),
            session: "session-1".to_owned(),
            next_token: None,
            seed: 7,
            first_contact_by: BootInstant::from_boot_ms(900_000),
        };
        let now_ms = 1_000;
        let machine = Machine::new(settings, Memory::fresh(Epoch(1)), BootInstant::from_boot_ms(now_ms));
        let mut story = Self { machine, now_ms };
        let effects = story.step(Input::TimerFired);
        ensure!(sent(&effects).is_some(), "{effects:?}");
        Ok(story)
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.now_ms += 10;
        self.machine.step(input, BootInstant::from_boot_ms(self.now_ms))
    }

    /// It is told to register, and its script has done so.
    fn registered_by_script(&mut self, version: &str) -> Result<Vec<Effect>> {
        let answer: SyncAnswer = message(&format!("agent/{version}/sync_answer"))?;
        let effects =
            self.step(Input::SyncAnswered { sent_at: BootInstant::from_boot_ms(self.now_ms), answer });
        let start = started(&effects).with_context(|| format!("the task begins: {effects:?}"))?;
        ensure!(start.act == Act::Script("register".to_owned()), "{start:?}");
        ensure!(start.fence_at == Some(BootInstant::from_boot_ms(601_010)), "its deadline holds: {start:?}");
        Ok(self.step(Input::TaskEnded { task: start.id.clone(), outcome: TaskOutcome::Done }))
    }

    fn must_report_it(&self, effects: &[Effect]) -> Result<()> {
        let report = sent(effects).with_context(|| format!("it is reported: {effects:?}"))?;
        ensure!(report.registered == Some(id("motorpool-c-abc")) && report.results.len() == 1, "{report:?}");
        Ok(())
    }
}

fn sent(effects: &[Effect]) -> Option<&SyncRequest> {
    effects.iter().find_map(|effect| if let Effect::Sync(request, _) = effect { Some(request) } else { None })
}

fn started(effects: &[Effect]) -> Option<&TaskStart> {
    effects.iter().find_map(|effect| if let Effect::StartTask(start) = effect { Some(start) } else { None })
}

fn fetched(effects: &[Effect]) -> Option<&Fetch> {
    effects
        .iter()
        .find_map(|effect| if let Effect::FetchRegistration(fetch) = effect { Some(fetch) } else { None })
}

fn started_run(effects: &[Effect]) -> Option<&RunStart> {
    effects.iter().find_map(|effect| if let Effect::StartRun(start) = effect { Some(start) } else { None })
}
