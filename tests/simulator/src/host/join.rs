//! An agent joins: it redeems its secret, again and again until it is answered, and gives up when it is refused.

use super::{Disk, Host, HostEvent, Phase};
use crate::calls::Call;
use crate::faults::Fault;
use crate::ground::Ground;
use motorpool_agent::machine::Memory;
use motorpool_control::{Refused, RefusedKind, token_sha256};
use motorpool_wire::agent::{BootstrapAnswer, BootstrapRequest};
use std::sync::Arc;

const LONGEST_PAUSE_MS: u64 = 30_000;

impl Host {
    pub(super) fn join(&mut self, ground: &Arc<Ground>) -> Option<(u64, Call)> {
        if self.first_contact_by.passed(self.clock.now(ground.now_ms())) {
            self.end_host(ground, "its secret could not be redeemed in time");
            return None;
        }
        self.calls += 1;
        let request = BootstrapRequest {
            runner: self.runner.clone(),
            secret: self.secret.clone(),
            token_sha256: token_sha256(&self.token()),
            machine_id: self.machine.clone(),
            boot_id: self.boot_id(),
        };
        Some((self.calls, Call::Bootstrap(request)))
    }

    pub(super) fn join_later(&mut self, ground: &Ground) -> Option<(u64, Call)> {
        if let Phase::Joining { pause_ms } = &mut self.phase {
            let wait_ms = self.chance.between(*pause_ms / 2, *pause_ms);
            *pause_ms = (*pause_ms * 2).min(LONGEST_PAUSE_MS);
            self.plan(ground, wait_ms, HostEvent::Join);
        }
        None
    }

    pub(super) fn joined(
        &mut self,
        ground: &Arc<Ground>,
        outcome: Result<BootstrapAnswer, Refused>,
    ) -> Option<(u64, Call)> {
        match outcome {
            Ok(answer) => {
                if self.cloud {
                    ground.oracle().may_work(ground.now_ms(), &self.runner, &self.machine);
                }
                let memory = match self.disk.memory.take() {
                    Some(memory) if memory.epoch == answer.epoch => memory,
                    Some(memory) => Memory { epoch: answer.epoch, results: Vec::new(), ..memory },
                    None => Memory::fresh(answer.epoch),
                };
                let same_boot = self.disk.boot == self.boots;
                self.disk = Disk { redeemed: true, memory: Some(memory.clone()), boot: self.boots };
                self.begin(ground, memory.after_restart(same_boot))
            }
            Err(refused) => match refused.kind {
                RefusedKind::Gone => {
                    self.end_host(ground, "it is gone before it began");
                    None
                }
                RefusedKind::Internal | RefusedKind::TooManyRequests | RefusedKind::Unavailable => {
                    self.join_later(ground)
                }
                RefusedKind::Conflict if self.cloud => self.join_later(ground),
                RefusedKind::InvalidRequest
                | RefusedKind::Unauthorized
                | RefusedKind::Forbidden
                | RefusedKind::NotFound
                | RefusedKind::Conflict => {
                    self.tell(ground, || format!("gives up: {}", refused.message));
                    self.refused(ground);
                    None
                }
            },
        }
    }

    /// On a cloud's machine the agent's end is its host's; unless that hangs, and is left to the sweep.
    fn refused(&mut self, ground: &Ground) {
        self.phase = Phase::Over;
        if self.cloud {
            ground.fired(Fault::WrongMachineRefused);
            if self.chance.hits(7_000) {
                self.end_host(ground, "its agent was refused");
            }
        }
    }
}
