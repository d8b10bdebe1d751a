//! Machines that a CI system gives jobs to by itself: it hands them out, their hooks call through the agent of their machine, webhooks tell of their
//! ends, and workers attend to what the finalize queue asks for.

use super::{World, paused};
use crate::calls::{Call, Caller, Reply};
use crate::chance::Chance;
use crate::ci::known_as;
use crate::faults::Fault;
use crate::host::Host;
use crate::jobs::{Job, JobEvent, Origin};
use crate::scale::{ALL_WELL_MS, CALM_FROM_MS};
use crate::schedule::{Event, SimClock};
use crate::workload::LAST_ASK_MS;
use motorpool_control::{JobWord, Told};
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::ci::CiSystem;
use motorpool_domain::{CheckpointName, DeliveryId, Label};
use std::collections::{BTreeMap, VecDeque};

/// What a world has of jobs.
#[derive(Debug, Default)]
pub(super) struct Shop {
    pub(super) jobs: Vec<Job>,
    waiting: BTreeMap<Origin, VecDeque<usize>>,
    first_in_the_calm: usize,
}

/// Of each CI system.
const IN_THE_CALM: usize = 3;
/// So far apart that none is given a machine whose last job is over and not yet known to be: that one would fail in its hook, rightly.
const APART_MS: u64 = 200_000;

impl Shop {
    pub(super) fn draw(chance: &mut Chance, (least, most): (u64, u64)) -> Self {
        let count = usize::try_from(chance.between(least, most)).unwrap_or(0);
        let drawn = |number| {
            let origin = if chance.hits(5_000) { Origin::Forge } else { Origin::Registry };
            Job::draw(chance, number, origin)
        };
        let mut jobs: Vec<Job> = (0..count).filter_map(drawn).collect();
        let first_in_the_calm = jobs.len();
        let of_each = (0..IN_THE_CALM).flat_map(|_| [Origin::Forge, Origin::Registry]);
        jobs.extend((count..).zip(of_each).filter_map(|(number, origin)| Job::in_the_calm(number, origin)));
        Self { jobs, waiting: BTreeMap::new(), first_in_the_calm }
    }

    /// Those that are asked for while faults go on.
    pub(super) fn before_the_calm(&self) -> &[Job] {
        self.jobs.get(..self.first_in_the_calm).unwrap_or_default()
    }

    pub(super) fn is_handed_out(&mut self, origin: Origin) {
        self.waiting.get_mut(&origin).and_then(VecDeque::pop_front);
    }
}

impl World {
    pub(super) fn open_shop(&self, chance: &mut Chance) {
        for plane in 0..self.planes.count() {
            self.ground.plan_in(chance.between(1_000, 8_000), Event::Attend { plane });
        }
        self.ground.plan_in(5_000, Event::Dispatch);
        self.ground.plan_in(chance.between(60_000, 600_000), Event::Litter);
        let mut calm_ms: BTreeMap<Origin, u64> = BTreeMap::new();
        for Job { number, origin, .. } in &self.shop.jobs {
            let at_ms = match *number < self.shop.first_in_the_calm {
                true => chance.between(30_000, LAST_ASK_MS),
                false => {
                    let next_ms = calm_ms.entry(*origin).or_insert(ALL_WELL_MS);
                    *next_ms += APART_MS;
                    *next_ms - APART_MS
                }
            };
            let event = JobEvent::Asked;
            self.ground.plan_in(at_ms, Event::Job { number: *number, life: 0, event });
        }
    }

    pub(super) fn dispatch(&mut self) {
        let wait_ms = self.ground.chance().between(1_000, 4_000);
        self.ground.plan_in(wait_ms, Event::Dispatch);
        self.forge_hands_out();
        self.registry_hands_out(|_| true);
    }

    /// The job that has waited for longest for a runner of its CI system's. One that is left from before the calm would not be over in time.
    pub(super) fn next_job(&mut self, origin: Origin) -> Option<usize> {
        let number = self.shop.waiting.get(&origin)?.front().copied()?;
        let is_late = number < self.shop.first_in_the_calm && self.ground.now_ms() > CALM_FROM_MS;
        if !is_late {
            return Some(number);
        }
        self.shop.is_handed_out(origin);
        if let Some(job) = self.shop.jobs.get_mut(number) {
            job.is_given_up();
        }
        self.ground.ci().runs.over(number, JobOutcome::Canceled, self.ground.now_ms());
        None
    }

    fn forge_hands_out(&mut self) {
        let Some(number) = self.next_job(Origin::Forge) else { return };
        let open: Vec<usize> = {
            let forge = self.ground.forge();
            let takes = |(index, host): (usize, &Host)| {
                let is_up = host.is_on() && paused(&self.ground, host).is_none();
                (is_up && forge.is_open(&host.runner)).then_some(index)
            };
            self.hosts.iter().enumerate().filter_map(takes).collect()
        };
        let Some(index) = self.ground.chance().one_of(&open).copied() else { return };
        self.shop.is_handed_out(Origin::Forge);
        let (Some(host), Some(job)) = (self.hosts.get(index), self.shop.jobs.get_mut(number)) else { return };
        self.ground.forge().gives(&job.id, &host.runner);
        host.tell(&self.ground, || format!("its CI system gives it job {}", job.id));
        job.begins(&self.ground, index);
    }

    pub(super) fn job(&mut self, number: usize, life: u32, event: JobEvent) {
        let Some(job) = self.shop.jobs.get_mut(number).filter(|job| job.life == life) else { return };
        let host = job.host.and_then(|index| self.hosts.get(index));
        if let Some(wait_ms) =
            host.filter(|_| event != JobEvent::Known).and_then(|host| paused(&self.ground, host))
        {
            return self.ground.plan_in(wait_ms, Event::Job { number, life, event });
        }
        match event {
            JobEvent::Asked => self.asked(number),
            JobEvent::Hook => self.hook(number),
            JobEvent::AnotherStep if job.has_another_step() => self.hook(number),
            JobEvent::AnotherStep => {}
            JobEvent::ScriptOver => job.script_over(&self.ground),
            JobEvent::Known => self.known(number),
        }
    }

    pub(super) fn asked(&mut self, number: usize) {
        let Some(Job { id, origin, .. }) = self.shop.jobs.get(number) else { return };
        match origin {
            Origin::Forge => {}
            Origin::Registry if self.ground.ci().runs.knows(number) => return,
            Origin::Registry => self.ground.ci().runs.asked(number, id),
        }
        self.shop.waiting.entry(*origin).or_default().push_back(number);
    }

    /// A hook calls through the agent of its machine, with the token that it is lent; if there is none just now, it tries again.
    fn hook(&mut self, number: usize) {
        let Some(job) = self.shop.jobs.get_mut(number) else { return };
        let Some((index, host)) = job.host.and_then(|index| Some((index, self.hosts.get_mut(index)?))) else {
            return;
        };
        let lent = if host.is_on() { host.lend() } else { None };
        let Some(token) = lent else { return job.asks_again(&self.ground, 500) };
        let host_life = host.life;
        let caller = Caller::Hook { job: number, life: job.life, host: index, host_life };
        match job.call(token) {
            Some(call) => self.send(caller, call),
            None => self.take_back(index, host_life),
        }
    }

    pub(super) fn hook_told(&mut self, job: usize, life: u32, host: usize, host_life: u32, reply: &Reply) {
        self.take_back(host, host_life);
        let Some(of) = self.hosts.get(host) else { return };
        let Some(job) = self.shop.jobs.get_mut(job).filter(|job| job.life == life) else { return };
        if !job.told(&self.ground, &of.runner, reply) {
            return;
        }
        of.tell(&self.ground, || format!("job {} of {} runs", job.number, job.id));
        if let Ok(label) = Label::parse(format!("job-{}", job.number)) {
            of.is_used(&self.ground, &label);
        }
        let (number, checkpoint) = (job.number, job.checkpoint().cloned());
        self.has_its_own(number, checkpoint);
    }

    /// Invariant 26: no two jobs have one checkpoint, though they share an id and a machine.
    fn has_its_own(&self, number: usize, checkpoint: Option<CheckpointName>) {
        let shares = |job: &&Job| job.number != number && job.checkpoint() == checkpoint.as_ref();
        if let (Some(name), Some(other)) = (&checkpoint, self.shop.jobs.iter().find(shares)) {
            let what = format!("jobs {} and {number} of {} have {name}", other.number, other.id);
            self.ground.broken(26, &[name, &other.id], what);
        }
    }

    /// The agent has the token back that it lent, and may be waiting for that.
    fn take_back(&mut self, index: usize, life: u32) {
        let Some(host) = self.hosts.get_mut(index).filter(|host| host.life == life) else { return };
        let next = host.take_back(&self.ground);
        self.send_for(index, next);
    }

    fn known(&mut self, number: usize) {
        let Some(job) = self.shop.jobs.get_mut(number) else { return };
        let (id, origin, host) = (job.id.clone(), job.origin, job.host);
        let Some((outcome, webhooks)) = job.known(&self.ground) else { return };
        if webhooks.is_empty() {
            self.ground.fired(Fault::WebhookLost);
        }
        for wait_ms in webhooks {
            self.ground.plan_in(*wait_ms, Event::Webhook(number));
        }
        match origin {
            Origin::Forge => {
                self.ground.forge().over(&id, outcome);
                self.ground.oracle().job_over(&id, None, outcome);
                self.ground.tell(|| format!("forge: job {id} is over: {outcome:?}"));
            }
            Origin::Registry => self.registry_knows(number, host, outcome),
        }
    }

    pub(super) fn webhook(&mut self, number: usize) {
        let Some(job) = self.shop.jobs.get(number) else { return };
        let Ok(delivery) = DeliveryId::parse(format!("delivery-{number}")) else { return };
        let told = match job.origin {
            Origin::Forge => self.told_by_forge(job).map(|job| (CiSystem::GitLab, job)),
            Origin::Registry => self.told_by_registry(job).map(|job| (CiSystem::GitHub, job)),
        };
        let Some((system, job)) = told else { return };
        self.send(Caller::Webhook(number), Call::Told { system, delivery, job });
    }

    fn told_by_forge(&self, job: &Job) -> Option<CompletedJob> {
        let host = job.host.and_then(|index| self.hosts.get(index))?;
        let outcome = self.ground.forge().outcome(&job.id);
        Some(CompletedJob {
            id: job.id.clone(),
            projects: Vec::new(),
            attempt: None,
            runners: vec![known_as(&host.runner)],
            ended_at: Some(SimClock::timestamp(self.ground.now_ms())),
            status: outcome?,
        })
    }

    fn outcome_in_ci(&self, job: &Job) -> Option<JobOutcome> {
        match job.origin {
            Origin::Forge => self.ground.forge().outcome(&job.id),
            Origin::Registry => self.ground.ci().runs.ended(job.number).map(|(_, over)| over.outcome),
        }
    }

    /// What was done to a machine has ended all that ran on it.
    pub(super) fn machine_is_emptied(&mut self, index: usize) {
        let ground = &self.ground;
        self.shop
            .jobs
            .iter_mut()
            .filter(|job| job.host == Some(index) && job.is_on_a_machine())
            .for_each(|job| job.is_killed(ground));
    }

    /// A worker looks into the finalize queue.
    pub(super) fn attend(&mut self, plane: usize) {
        let wait_ms = self.ground.chance().between(2_000, 8_000);
        self.ground.plan_in(wait_ms, Event::Attend { plane });
        if self.planes.is_up(plane) {
            let ended = self.planes.call(plane, Caller::Attender(plane), Call::Attend);
            self.deliver(ended);
        }
    }

    /// Somebody puts what nobody understands into the finalize queue, or what was there long ago.
    pub(super) fn litter(&mut self) {
        let (wait_ms, poison) = {
            let mut chance = self.ground.chance();
            (chance.between(120_000, 900_000), chance.hits(4_000))
        };
        self.ground.plan_in(wait_ms, Event::Litter);
        if !self.ground.weather.calm(self.ground.now_ms()) {
            self.queue.litter(poison);
        }
    }

    /// What a use case has said of a job's end, as it ends: whatever becomes of the answer.
    pub(super) fn said_of_a_job(&self, reply: &Reply, caller: &Caller) {
        let now_ms = self.ground.now_ms();
        match (caller, reply) {
            (Caller::Hook { job, .. }, Reply::Finalized(Ok(answer))) => {
                let said = self.shop.jobs.get(*job).and_then(Job::says);
                self.ground.oracle().word_was_taken(now_ms, &answer.checkpoint_name, said);
            }
            (Caller::Webhook(_), Reply::Heard(Ok(Told::Before))) => self.ground.fired(Fault::WebhookReplayed),
            (Caller::Webhook(number), Reply::Heard(Ok(Told::Word(word)))) => {
                match word {
                    JobWord::Queued => {}
                    JobWord::Already => self.ground.fired(Fault::WebhookLate),
                    // The list of jobs may lag behind, and then nobody took the word.
                    JobWord::Unknown => return,
                }
                let Some(job) = self.shop.jobs.get(*number) else { return };
                if let Some(name) = job.checkpoint() {
                    let outcome = self.outcome_in_ci(job);
                    self.ground.oracle().word_was_taken(now_ms, name, outcome);
                }
            }
            (_, _) => {}
        }
    }
}
