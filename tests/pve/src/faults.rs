//! Failures on order. Each happens once, to the next that it fits.

use crate::actions::Action;

#[derive(Debug, Clone)]
pub enum Fault {
    /// The task of this kind begins, and ends with this status. A rollback that fails on its way leaves its lock.
    TaskFails { kind: &'static str, exit_status: String },
    /// The task of this kind ends well, and with so many warnings.
    TaskWarns { kind: &'static str, warnings: u64 },
    /// What the request asks for is done; its answer breaks off.
    LoseTheAnswer { line_ends: String },
    /// Nothing is done, and this is answered.
    Answer { line_ends: String, status: u16, reason: String },
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn order(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// The end of the task that begins, if it was ordered.
    pub(crate) fn end_of(&mut self, action: &Action) -> Option<String> {
        let fits = |fault: &Fault| matches!(fault, Fault::TaskFails { kind, .. } | Fault::TaskWarns { kind, .. } if *kind == action.kind());
        match self.take(fits)? {
            Fault::TaskFails { exit_status, .. } => Some(exit_status),
            Fault::TaskWarns { warnings, .. } => Some(format!("WARNINGS: {warnings}")),
            Fault::LoseTheAnswer { .. } | Fault::Answer { .. } => None,
        }
    }

    pub(crate) fn loses_the_answer(&mut self, line: &str) -> bool {
        self.take(|fault| matches!(fault, Fault::LoseTheAnswer { line_ends } if line.ends_with(line_ends)))
            .is_some()
    }

    pub(crate) fn answer_to(&mut self, line: &str) -> Option<(u16, String)> {
        match self
            .take(|fault| matches!(fault, Fault::Answer { line_ends, .. } if line.ends_with(line_ends)))?
        {
            Fault::Answer { status, reason, .. } => Some((status, reason)),
            Fault::TaskFails { .. } | Fault::TaskWarns { .. } | Fault::LoseTheAnswer { .. } => None,
        }
    }

    fn take(&mut self, fits: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let place = self.0.iter().position(fits)?;
        Some(self.0.remove(place))
    }
}
