//! Machines that a CI system gives jobs to by itself: it hands them out, their hooks call through the agent of their machine, webhooks tell of their
//! ends, and workers attend to what the finalize queue asks for.

use super::{World, paused};
use crate::calls::{Call, Caller, Reply};
use crate::chance::Chance;
use crate::ci::known_as;
use crate::faults::Fault;
use crate::host::Host;
use crate::jobs::{Job, JobEvent};
use crate::scale::ALL_WELL_MS;
use crate::schedule::{Event, SimClock};
use crate::workload::LAST_ASK_MS;
use motorpool_control::{JobWord, Told};
use motorpool_domain::checkpoint::CompletedJob;
use motorpool_domain::{DeliveryId, Label};
use std::collections::VecDeque;

/// What a world has of jobs.
#[derive(Debug, Default)]
pub(super) struct Shop {
    pub(super) jobs: Vec<Job>,
    waiting: VecDeque<usize>,
    first_in_the_calm: usize,
}

const IN_THE_CALM: usize = 3;
/// So far apart that none is given a machine whose last job is over and not yet known to be: that one would fail in its hook, rightly.
const APART_MS: u64 = 200_000;

impl Shop {
    pub(super) fn draw(chance: &mut Chance, (least, most): (u64, u64)) -> Self {
        let count = usize::try_from(chance.between(least, most)).unwrap_or(0);
        let mut jobs: Vec<Job> = (0..count).filter_map(|number| Job::draw(chance, number)).collect();
        let first_in_the_calm = jobs.len();
        jobs.extend((count..).take(IN_THE_CALM).filter_map(Job::in_the_calm));
        Self { jobs, waiting: VecDeque::new(), first_in_the_calm }
    }
}

impl World {
    pub(super) fn open_shop(&self, chance: &mut Chance) {
        for plane in 0..self.planes.count() {
            self.ground.plan_in(chance.between(1_000, 8_000), Event::Attend { plane });
        }
        self.ground.plan_in(5_000, Event::Dispatch);
        self.ground.plan_in(chance.between(60_000, 600_000), Event::Litter);
        let mut calm_ms = ALL_WELL_MS;
        for number in 0..self.shop.jobs.len() {
            let at_ms = match number < self.shop.first_in_the_calm {
                true => chance.between(30_000, LAST_ASK_MS),
                false => {
                    calm_ms += APART_MS;
                    calm_ms - APART_MS
                }
            };
            self.ground.plan_in(at_ms, Event::Job { number, life: 0, event: JobEvent::Asked });
        }
    }

    pub(super) fn dispatch(&mut self) {
        let wait_ms = self.ground.chance().between(1_000, 4_000);
        self.ground.plan_in(wait_ms, Event::Dispatch);
        let Some(number) = self.shop.waiting.front().copied() else { return };
        let open: Vec<usize> = {
            let forge = self.ground.forge();
            let takes = |(index, host): (usize, &Host)| {
                let is_up = host.is_on() && paused(&self.ground, host).is_none();
                (is_up && forge.is_open(&host.runner)).then_some(index)
            };
            self.hosts.iter().enumerate().filter_map(takes).collect()
        };
        let Some(index) = self.ground.chance().one_of(&open).copied() else { return };
        let (Some(host), Some(job)) = (self.hosts.get(index), self.shop.jobs.get_mut(number)) else { return };
        self.shop.waiting.pop_front();
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
            JobEvent::Asked => self.shop.waiting.push_back(number),
            JobEvent::Hook => self.hook(number),
            JobEvent::AnotherStep if job.has_another_step() => self.hook(number),
            JobEvent::AnotherStep => {}
            JobEvent::ScriptOver => job.script_over(&self.ground),
            JobEvent::Known => self.known(number),
        }
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
        of.tell(&self.ground, || format!("job {} runs", job.id));
        if let Ok(label) = Label::parse(format!("job-{}", job.id)) {
            of.is_used(&self.ground, &label);
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
        let id = job.id.clone();
        let Some((outcome, webhooks)) = job.known() else { return };
        self.ground.forge().over(&id, outcome);
        self.ground.oracle().job_over(&id, outcome);
        self.ground.tell(|| format!("forge: job {id} is over: {outcome:?}"));
        if webhooks.is_empty() {
            self.ground.fired(Fault::WebhookLost);
        }
        for wait_ms in webhooks {
            self.ground.plan_in(*wait_ms, Event::Webhook(number));
        }
    }

    pub(super) fn webhook(&mut self, number: usize) {
        let Some(job) = self.shop.jobs.get(number) else { return };
        let Some(host) = job.host.and_then(|index| self.hosts.get(index)) else { return };
        let Ok(delivery) = DeliveryId::parse(format!("delivery-{}", job.id)) else { return };
        let outcome = self.ground.forge().outcome(&job.id);
        let Some(status) = outcome else { return };
        let completed = CompletedJob {
            id: job.id.clone(),
            projects: Vec::new(),
            attempt: None,
            runners: vec![known_as(&host.runner)],
            ended_at: Some(SimClock::timestamp(self.ground.now_ms())),
            status,
        };
        self.send(Caller::Webhook(number), Call::Told { delivery, job: completed });
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
                    let outcome = self.ground.forge().outcome(&job.id);
                    self.ground.oracle().word_was_taken(now_ms, name, outcome);
                }
            }
            (_, _) => {}
        }
    }
}
