//! The use cases over a real sender, on a clock that the test turns.

use crate::receiver::{Answer, Receiver, SECRET};
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use motorpool_alerts::{AlertConfig, Format, LookingUp, Lookup, Webhook};
use motorpool_control::ports::alerts::{AlertSender, SendError};
use motorpool_control::ports::queue::QueueName;
use motorpool_control::ports::tx::{Op, Row, Tx, When};
use motorpool_control::store::{AlertWrite, RunnerWrite, Written};
use motorpool_control::{Caller, Control, Page, Parts, SweepWish, WhichAlerts};
use motorpool_domain::alert::{Alert, AlertMessage, Incident};
use motorpool_domain::record::{Key, Kind, Version};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{Actor, AuditEntry, AuditResult, RunnerId, Timestamp};
use motorpool_tests::fakes::played::{PlayedAgents, PlayedHost};
use motorpool_tests::harness::world::{POOL, World, first_member, pool};
use motorpool_wire::api::{AlertView, RefreshReport};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Every name is this host's.
#[derive(Debug)]
struct Here;

impl Lookup for Here {
    fn addresses(&self, _: String) -> LookingUp {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

/// A sender that does not wait long for an answer.
fn sender(world: &World, receiver: &Receiver) -> Result<Arc<dyn AlertSender>> {
    let config = AlertConfig {
        url: receiver.url.clone().into(),
        format: Format::Json { secret: SECRET.into() },
        allow_private: true,
    };
    let answer = Duration::from_millis(500);
    Ok(Arc::new(Webhook::looking_up(config, Arc::clone(&world.clock) as _, Arc::new(Here), answer)?))
}

/// A world, and a control plane of it that tells the receiver.
struct Told {
    world: World,
    control: Control,
    receiver: Receiver,
    agents: PlayedAgents,
}

impl Told {
    async fn start() -> Result<Self> {
        Self::start_with(json!({"idle_minutes": 60})).await
    }

    async fn start_with(settings: Value) -> Result<Self> {
        let world = World::new(settings).await?;
        let receiver = Receiver::start().await?;
        let alerts = Some(sender(&world, &receiver)?);
        let control = Control::new(Parts { alerts, ..world.parts() });
        Ok(Self { world, control, receiver, agents: PlayedAgents::default() })
    }

    async fn refresh(&self) -> Result<RefreshReport> {
        Ok(self.control.refresh(&Caller::Operator, SweepWish::IfDue).await?)
    }

    /// So many passes, each in its time.
    async fn passes(&self, count: u32) -> Result<()> {
        for _ in 0..count {
            self.world.clock.turn(Duration::from_secs(30));
            self.refresh().await?;
        }
        Ok(())
    }

    /// A machine of somebody's own, clean and idle.
    async fn join(&self, machine: &str) -> Result<PlayedHost> {
        let request = serde_json::from_value(json!({"runner_id": machine, "pool": POOL}))?;
        let registered = self.control.register_runner(&Caller::Operator, request).await?;
        let host = PlayedHost {
            runner: RunnerId::parse(machine)?,
            secret: registered.bootstrap_secret.context("a secret")?,
            machine_id: machine.to_owned(),
            notice: None,
        };
        self.works(&host).await?;
        Ok(host)
    }

    /// Its agent and whoever attends to runners, until there is nothing to do.
    async fn works(&self, host: &PlayedHost) -> Result<()> {
        loop {
            let rests = self.agents.sync(&self.control, host).await?.task.is_none();
            if self.control.attend_to_notices(Duration::ZERO).await? == 0 && rests {
                return Ok(());
            }
        }
    }

    async fn listed(&self, which: WhichAlerts) -> Result<Vec<AlertView>> {
        Ok(self.control.list_alerts(&Caller::Operator, which, Page::first(100)).await?.alerts)
    }
}

/// Refresh itself is late: an incident that a test can have at once.
const LATE: &str = "refresh_late - opened";
const IN_TIME: &str = "refresh_late - over";

#[tokio::test]
async fn an_incident_is_told_once_and_once_that_it_is_over() -> Result<()> {
    let told = Told::start().await?;
    told.refresh().await?;
    ensure!(told.receiver.sent().is_empty(), "the first pass of all is not late");
    told.world.clock.turn(Duration::from_secs(600));
    told.refresh().await?;
    assert_eq!(told.receiver.took(), [LATE]);
    told.passes(10).await?;
    assert_eq!(told.receiver.took(), [LATE, IN_TIME]);
    assert_eq!(told.receiver.sent().len(), 2, "nothing is sent for nothing");
    assert_eq!(told.listed(WhichAlerts::Open).await?, []);
    let all = told.listed(WhichAlerts::All).await?;
    ensure!(
        all.len() == 1 && all.iter().all(|alert| alert.told == "over" && alert.state == "over"),
        "{all:?}"
    );

    // It comes back: a new incident, told anew under another id.
    told.world.clock.turn(Duration::from_secs(600));
    told.refresh().await?;
    told.passes(10).await?;
    assert_eq!(told.receiver.took(), [LATE, IN_TIME, LATE, IN_TIME]);
    let ids: BTreeSet<String> = told.receiver.sent().iter().map(|(body, _)| body["id"].to_string()).collect();
    assert_eq!(ids.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_receiver_that_fails_or_hangs_is_tried_again_later_and_later() -> Result<()> {
    let told = Told::start().await?;
    told.refresh().await?;
    told.receiver.answers(&[Answer::Fails, Answer::Hangs, Answer::Fails]);
    told.world.clock.turn(Duration::from_secs(600));
    told.refresh().await?;
    let sent = || told.receiver.sent().len();
    assert_eq!(sent(), 1);
    let mut at = Vec::new();
    for second in 1..=300_u64 {
        told.world.clock.turn(Duration::from_secs(1));
        let before = sent();
        told.refresh().await?;
        if sent() > before {
            at.push(second);
        }
    }
    // The first pause is 30 s, and each after it twice as long; that it is over by then is told behind it, at once.
    assert_eq!(at, [30, 90, 210]);
    assert_eq!(told.receiver.took(), [LATE, IN_TIME]);
    let ids: Vec<String> = told.receiver.sent().iter().map(|(body, _)| body["id"].to_string()).collect();
    ensure!(ids.len() == 5 && ids[..4].iter().all(|id| *id == ids[0]) && ids[4] != ids[0], "{ids:?}");
    Ok(())
}

/// Whoever is away is asked once a pass, however much there is to tell.
#[tokio::test]
async fn while_the_receiver_is_away_the_others_wait() -> Result<()> {
    let told = Told::start().await?;
    for number in 0..5 {
        put_quarantined(&told.world, number).await?;
    }
    told.receiver.answers(&[Answer::Fails, Answer::Fails]);
    told.refresh().await?;
    assert_eq!(told.receiver.sent().len(), 1);
    told.refresh().await?;
    assert_eq!(told.receiver.sent().len(), 2, "another of them was tried");
    told.refresh().await?;
    assert_eq!(told.receiver.took().len(), 3, "those that were not tried yet");
    told.passes(1).await?;
    assert_eq!(told.receiver.took().len(), 5);
    Ok(())
}

/// Two control planes find it due at the same instant.
#[tokio::test]
async fn of_two_control_planes_one_tells() -> Result<()> {
    let told = Told::start().await?;
    let alerts = Some(sender(&told.world, &told.receiver)?);
    let beside = Control::new(Parts { alerts, ..told.world.parts() });
    for round in 1..=20 {
        put_quarantined(&told.world, round).await?;
        let other = beside.refresh(&Caller::Operator, SweepWish::IfDue);
        let (one, other) = tokio::join!(told.refresh(), other);
        one?;
        other?;
    }
    assert_eq!(told.receiver.sent().len(), 20);
    Ok(())
}

/// The incident of a runner that there is not.
async fn put_quarantined(world: &World, number: u64) -> Result<()> {
    let incident = Incident::RunnerQuarantined { runner: RunnerId::parse(format!("m-{number}"))? };
    let alert = Alert::opened(incident, "", world.now());
    let written = world.store.write_alert(AlertWrite { before: None, after: &alert }).await?;
    ensure!(written == Written::Done, "{written:?}");
    Ok(())
}

/// A quarantine that nobody said is over, as when its control plane was cut off, is found to be so.
#[tokio::test]
async fn refresh_finds_by_itself_that_an_incident_is_over() -> Result<()> {
    let told = Told::start().await?;
    put_quarantined(&told.world, 7).await?;
    told.passes(9).await?;
    assert_eq!(told.receiver.took(), ["runner_quarantined m-7 opened"]);
    told.passes(2).await?;
    assert_eq!(told.receiver.took(), ["runner_quarantined m-7 opened", "runner_quarantined m-7 over"]);
    Ok(())
}

/// And one of which nobody was told, as when its control plane was cut off before it could, is found by the sweep.
#[tokio::test]
async fn the_sweep_finds_a_quarantine_that_was_never_raised() -> Result<()> {
    let told = Told::start().await?;
    let id = first_member(&told.world.ready("gh-1", 1).await?)?;
    let before = told.world.runner(&id).await?;
    let state = RunnerState::Quarantined { why: "nobody knows".to_owned() };
    let after = Runner { state, threshold: None, rev: before.rev + 1, ..before.clone() };
    let entry = AuditEntry::of(told.world.now(), Actor::Control, "transition", "nobody knows");
    let write = RunnerWrite { before: &before, after: &after, look_at: None, entry: &entry };
    ensure!(told.world.store.write_runner(write).await? == Written::Done);
    told.passes(1).await?;
    told.control.refresh(&Caller::Operator, SweepWish::Now).await?;
    told.passes(10).await?;
    assert_eq!(told.receiver.took(), [format!("runner_quarantined {id} opened")]);
    Ok(())
}

/// The brake holds and lets go again and again while an outage lasts: for people it is one incident.
#[tokio::test]
async fn fault_20_an_outage_is_one_incident_until_the_heartbeats_are_heard() -> Result<()> {
    let told = Told::start_with(json!({"min_idle": 6, "idle_minutes": 600})).await?;
    told.refresh().await?;
    told.world.agents_work().await?;
    let mut braked = 0;
    for _ in 0..40 {
        told.world.clock.turn(Duration::from_secs(30));
        braked += u32::from(told.refresh().await?.braked);
    }
    ensure!(braked > 1, "the brake held {braked} times");
    assert_eq!(told.receiver.took(), ["mass_silence - opened"]);
    for _ in 0..4 {
        told.world.clock.turn(Duration::from_secs(30));
        told.world.agents_work().await?;
        told.refresh().await?;
    }
    assert_eq!(told.receiver.took(), ["mass_silence - opened", "mass_silence - over"]);
    Ok(())
}

/// A job of whose end nobody tells is given up at its checkpoint's time, and the incident lasts until its machine is clean.
#[tokio::test]
async fn a_forgotten_checkpoint_is_an_incident_until_its_machine_is_clean() -> Result<()> {
    let settings = json!({
        "backend": "bare_metal", "dispatch": "hook", "clean": "reset", "reset_cmd": "reset",
        "idle_minutes": 600, "heartbeat_seconds": 3600,
    });
    let told = Told::start_with(settings).await?;
    let machine = told.join("mac-1").await?;
    let job = serde_json::from_value(json!({"job_id": "1"}))?;
    let name = told.control.create_checkpoint("mp_runner_mac-1", job).await?.name;
    told.passes(59).await?;
    assert_eq!(told.receiver.took(), [""; 0], "its job may take half an hour");
    told.passes(2).await?;
    assert_eq!(told.receiver.took(), [format!("stale_checkpoint {name} opened")]);
    told.passes(5).await?;
    assert_eq!(told.receiver.took().len(), 1, "its machine is not clean yet");

    told.works(&machine).await?;
    told.passes(12).await?;
    let both = ["opened", "over"].map(|state| format!("stale_checkpoint {name} {state}"));
    assert_eq!(told.receiver.took(), both);
    assert_eq!(told.control.any_checkpoint_status(&Caller::Operator, &name).await?.state, "gc_reset");
    assert_eq!(told.listed(WhichAlerts::Open).await?, []);

    let log = told.control.audit(&Caller::Operator, &format!("checkpoint:{name}"), Page::first(10)).await?;
    let gave_up = log.entries.iter().find(|entry| entry.what == "forgotten").context("it was given up")?;
    assert_eq!(gave_up.result, Some(AuditResult::Error));
    ensure!(gave_up.duration_ms.is_some_and(|took| took >= 30 * 60_000), "{gave_up:?}");
    Ok(())
}

/// Messages that nobody could use are told of until somebody has deleted them.
#[tokio::test]
async fn fault_18_dead_letters_are_an_incident() -> Result<()> {
    let told = Told::start().await?;
    let queue = QueueName::Idle(pool()?);
    told.world.queue.send(&queue, "poison".to_owned()).await?;
    for _ in 0..=queue.max_receives() {
        for message in told.world.queue.receive(&queue, 1, Duration::ZERO, Duration::from_secs(60)).await? {
            told.world.queue.give_back(&queue, &message.receipt).await?;
        }
    }
    ensure!(told.world.queue.dead_letters(&queue, 1).await?.len() == 1, "it is no dead letter");
    told.control.refresh(&Caller::Operator, SweepWish::Now).await?;
    told.passes(12).await?;
    assert_eq!(told.receiver.took(), ["dead_letters idle-small opened"]);
    Ok(())
}

/// One incident of each kind of record, however many can't be read; and it is over once none is due any more.
#[tokio::test]
async fn inv_35_what_can_not_be_read_is_told_once_a_kind() -> Result<()> {
    let told = Told::start().await?;
    let rows: Vec<Row> = (0..5).map(|number| of_another_version(number, told.world.now())).collect();
    for row in &rows {
        told.world
            .ledger
            .commit(&Tx::default().with(Op::Put { row: row.clone(), when: When::Absent }))
            .await?;
    }
    told.passes(30).await?;
    assert_eq!(told.receiver.took(), ["ledger_unreadable checkpoint opened"]);
    for Row { path, version, .. } in rows {
        let gone = Op::Delete { path, was: version, counter: None, lists: 0 };
        told.world.ledger.commit(&Tx::default().with(gone)).await?;
    }
    told.passes(60).await?;
    assert_eq!(
        told.receiver.took(),
        ["ledger_unreadable checkpoint opened", "ledger_unreadable checkpoint over"]
    );
    Ok(())
}

fn of_another_version(number: u32, due: Timestamp) -> Row {
    Row {
        path: Key::new(Kind::new("checkpoint"), format!("k-{number}")).into(),
        version: Version::default(),
        schema: 1,
        doc: "{}".to_owned(),
        due: Some(due),
        places: Vec::new(),
        lists: 0,
        kept_until: None,
    }
}

/// Where nobody is named who is told, incidents are listed, and nothing waits for being sent.
#[tokio::test]
async fn without_a_sender_incidents_are_only_listed() -> Result<()> {
    let world = World::new(json!({})).await?;
    world.refresh().await?;
    world.clock.turn(Duration::from_secs(600));
    world.refresh().await?;
    let page = world.control.list_alerts(&Caller::Operator, WhichAlerts::Open, Page::first(10)).await?;
    ensure!(!page.sent && page.alerts.len() == 1, "{page:?}");
    world.clock.turn(Duration::from_secs(60));
    world.refresh().await?;
    assert_eq!(world.store.due(world.now().after(Duration::from_secs(86_400)), 10).await?, []);
    let team = Caller::Team(motorpool_domain::Owner::parse("web")?);
    let refused = world.control.list_alerts(&team, WhichAlerts::Open, Page::first(10)).await;
    ensure!(refused.is_err(), "a team sees no incident");
    Ok(())
}

/// Counts what it is asked to send.
#[derive(Debug, Default)]
struct Asked(AtomicUsize);

#[async_trait]
impl AlertSender for Asked {
    async fn send(&self, _: &AlertMessage) -> Result<(), SendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Whoever provokes an incident waits for no receiver: only refresh tells.
#[tokio::test]
async fn who_comes_with_a_used_launch_secret_waits_for_no_receiver() -> Result<()> {
    let world = World::new(json!({"idle_minutes": 60})).await?;
    let asked = Arc::new(Asked::default());
    let control = Control::new(Parts { alerts: Some(Arc::clone(&asked) as _), ..world.parts() });
    let claim = world.ready("gh-1", 1).await?;
    let runner = first_member(&claim)?;
    let secret = world.machines.secret(&runner).context("its secret")?;
    let request = serde_json::from_value(json!({
        "runner": runner, "secret": secret, "token_sha256": "ab".repeat(32), "machine_id": runner.to_string(), "boot_id": "b-2",
    }))?;
    let refused = control.bootstrap(request).await;
    ensure!(refused.is_err(), "its launch secret is used up: {refused:?}");
    assert_eq!(asked.0.load(Ordering::Relaxed), 0);
    control.refresh(&Caller::Operator, SweepWish::IfDue).await?;
    assert_eq!(asked.0.load(Ordering::Relaxed), 1);
    let page = control.list_alerts(&Caller::Operator, WhichAlerts::Open, Page::first(10)).await?;
    let [alert] = page.alerts.as_slice() else { anyhow::bail!("{page:?}") };
    assert_eq!(
        (alert.incident.as_str(), alert.subject.as_deref()),
        ("launch_secret_misused", Some(runner.as_str()))
    );
    Ok(())
}
