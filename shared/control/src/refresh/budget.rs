//! What one pass looks at: so many claims and so many runners, those that are longest overdue of each. A flood of the one kind does not keep the
//! other from being looked at, and what can't be read takes nobody's place.

use crate::control::Control;
use crate::error::Refused;
use motorpool_domain::claim::{CLAIM, Claim};
use motorpool_domain::record::{Key, Path};
use motorpool_domain::runner::{RUNNER, Runner};
use motorpool_domain::{ClaimId, RunnerId};

/// Of each kind; the rest is due in the next pass.
const BUDGET: usize = 1_000;
/// How far into what is due a pass looks, step by step, while a kind has not all that its budget allows. In most passes the first suffices.
const DEPTHS: [u32; 3] = [1_000, 4_000, 32_000];

/// What is due, by its kind, the longest overdue first.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) runners: Vec<Runner>,
    pub(super) claims: Vec<Claim>,
    /// How many were looked at, whether they could be read or not.
    pub(super) examined: usize,
}

impl Due {
    fn is_spent(&self) -> bool {
        self.runners.len() >= BUDGET && self.claims.len() >= BUDGET
    }
}

impl Control {
    pub(super) async fn what_is_due(&self) -> Result<Due, Refused> {
        let (now, mut due, mut seen) = (self.now(), Due::default(), 0);
        for depth in DEPTHS {
            let paths = self.store.due(now, depth).await?;
            let is_all = paths.len() < usize::try_from(depth).unwrap_or(usize::MAX);
            self.read_due(paths.get(seen..).unwrap_or_default(), &mut due).await?;
            seen = paths.len();
            if is_all || due.is_spent() {
                break;
            }
        }
        Ok(due)
    }

    /// Adds to `due` what it has room for.
    async fn read_due(&self, paths: &[Path], due: &mut Due) -> Result<(), Refused> {
        let (runners, claims) = sorted(paths);
        due.examined += paths.len() - runners.len() - claims.len();
        for ids in runners.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.runners.len());
            if missing == 0 {
                break;
            }
            due.examined += ids.len();
            due.runners.extend(self.store.runners(ids).await?.into_iter().flatten().take(missing));
        }
        for ids in claims.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.claims.len());
            if missing == 0 {
                break;
            }
            due.examined += ids.len();
            due.claims.extend(self.store.claims(ids).await?.into_iter().flatten().take(missing));
        }
        Ok(())
    }
}

fn sorted(paths: &[Path]) -> (Vec<RunnerId>, Vec<ClaimId>) {
    let (mut runners, mut claims) = (Vec::new(), Vec::new());
    for path in paths {
        let Path { key: Key { kind, id }, child } = path;
        match (kind, child, RunnerId::parse(id), ClaimId::parse(id)) {
            (kind, None, Ok(runner), _) if *kind == RUNNER => runners.push(runner),
            (kind, None, _, Ok(claim)) if *kind == CLAIM => claims.push(claim),
            // Of a newer version, perhaps.
            (_, _, _, _) => {
                tracing::warn!(target: "alert", %path, "something is due that this version does not know, and is left as it is");
            }
        }
    }
    (runners, claims)
}
