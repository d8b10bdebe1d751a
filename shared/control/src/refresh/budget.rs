//! What one pass looks at: so many of each kind of record, those that are longest overdue. A flood of the one kind does not keep the
//! others from being looked at, and what can't be read takes nobody's place.

use crate::control::Control;
use crate::error::Refused;
use crate::store::Found;
use motorpool_domain::alert::{ALERT, Alert, Incident};
use motorpool_domain::checkpoint::CHECKPOINT;
use motorpool_domain::claim::{CLAIM, Claim};
use motorpool_domain::record::{Key, Path};
use motorpool_domain::runner::{RUNNER, Runner};
use motorpool_domain::{CheckpointName, ClaimId, RunnerId};
use std::collections::BTreeMap;

/// Of each kind; the rest is due in the next pass.
const BUDGET: usize = 1_000;
/// How far into what is due a pass looks, step by step, while a kind has not all that its budget allows. In most passes the first suffices.
const DEPTHS: [u32; 3] = [1_000, 4_000, 32_000];

/// What is due, by its kind, the longest overdue first.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) runners: Vec<Runner>,
    pub(super) claims: Vec<Claim>,
    pub(super) checkpoints: Vec<CheckpointName>,
    pub(super) alerts: Vec<Alert>,
    /// How many were looked at, whether they could be read or not.
    pub(super) examined: usize,
}

impl Due {
    fn is_spent(&self) -> bool {
        [self.runners.len(), self.claims.len(), self.checkpoints.len(), self.alerts.len()]
            .iter()
            .all(|read| *read >= BUDGET)
    }
}

/// The paths of what is due, by kind.
#[derive(Debug, Default)]
struct Sorted {
    runners: Vec<RunnerId>,
    claims: Vec<ClaimId>,
    checkpoints: Vec<CheckpointName>,
    alerts: Vec<Path>,
}

/// What is due and can't be read: of each kind the first, and how many there are.
#[derive(Debug, Default)]
struct Unreadable(BTreeMap<String, (String, usize)>);

impl Unreadable {
    fn add(&mut self, path: &Path) {
        let first = || (path.to_string(), 0);
        self.0.entry(path.key.kind.as_str().to_owned()).or_insert_with(first).1 += 1;
    }
}

impl Control {
    pub(super) async fn what_is_due(&self) -> Result<Due, Refused> {
        let (now, mut due, mut seen) = (self.now(), Due::default(), 0);
        let mut unreadable = Unreadable::default();
        for depth in DEPTHS {
            let paths = self.store.due(now, depth).await?;
            let is_all = paths.len() < usize::try_from(depth).unwrap_or(usize::MAX);
            self.read_due(paths.get(seen..).unwrap_or_default(), &mut due, &mut unreadable).await?;
            seen = paths.len();
            if is_all || due.is_spent() {
                break;
            }
        }
        for (kind, (first, count)) in unreadable.0 {
            let details = format!("{count} of them, {first} the first");
            self.raise(Incident::LedgerUnreadable { kind }, &details, now).await;
        }
        Ok(due)
    }

    /// Adds to `due` what it has room for.
    async fn read_due(
        &self,
        paths: &[Path],
        due: &mut Due,
        unreadable: &mut Unreadable,
    ) -> Result<(), Refused> {
        let Sorted { runners, claims, checkpoints, alerts } = sorted(paths, unreadable);
        due.examined += paths.len() - runners.len() - claims.len() - checkpoints.len() - alerts.len();
        for names in checkpoints.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.checkpoints.len());
            if missing == 0 {
                break;
            }
            due.examined += names.len();
            let found = self.store.find_checkpoints(names).await?;
            let keys = names.iter().map(|name| Key::from(name).into());
            let read = readable(found, keys, unreadable).map(|checkpoint| checkpoint.name);
            due.checkpoints.extend(read.take(missing));
        }
        for ids in runners.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.runners.len());
            if missing == 0 {
                break;
            }
            due.examined += ids.len();
            let found = self.store.find_runners(ids).await?;
            let keys = ids.iter().map(|id| Key::from(id).into());
            due.runners.extend(readable(found, keys, unreadable).take(missing));
        }
        for ids in claims.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.claims.len());
            if missing == 0 {
                break;
            }
            due.examined += ids.len();
            let found = self.store.find_claims(ids).await?;
            let keys = ids.iter().map(|id| Key::from(id).into());
            due.claims.extend(readable(found, keys, unreadable).take(missing));
        }
        for paths in alerts.chunks(BUDGET) {
            let missing = BUDGET.saturating_sub(due.alerts.len());
            if missing == 0 {
                break;
            }
            due.examined += paths.len();
            let found = self.store.find_alerts(paths).await?;
            due.alerts.extend(readable(found, paths.iter().cloned(), unreadable).take(missing));
        }
        Ok(())
    }
}

/// Those that could be read, and the others noted.
fn readable<R>(
    found: Vec<Found<R>>,
    paths: impl Iterator<Item = Path>,
    unreadable: &mut Unreadable,
) -> impl Iterator<Item = R> {
    let of_one = |(found, path): (Found<R>, Path)| match found {
        Found::Record(record) => Some(record),
        Found::Unreadable => {
            unreadable.add(&path);
            None
        }
        Found::Missing => None,
    };
    found.into_iter().zip(paths).filter_map(of_one)
}

fn sorted(paths: &[Path], unreadable: &mut Unreadable) -> Sorted {
    let mut sorted = Sorted::default();
    for path in paths {
        let Path { key: Key { kind, id }, child } = path;
        let known = match child {
            None if *kind == RUNNER => RunnerId::parse(id).map(|id| sorted.runners.push(id)).is_ok(),
            None if *kind == CLAIM => ClaimId::parse(id).map(|id| sorted.claims.push(id)).is_ok(),
            None if *kind == CHECKPOINT => {
                CheckpointName::parse(id).map(|name| sorted.checkpoints.push(name)).is_ok()
            }
            None if *kind == ALERT => {
                sorted.alerts.push(path.clone());
                true
            }
            None | Some(_) => false,
        };
        if !known {
            // Of a newer version, perhaps.
            tracing::warn!(target: "alert", %path, "something is due that this version does not know, and is left as it is");
            unreadable.add(path);
        }
    }
    sorted
}
