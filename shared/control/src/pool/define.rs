//! Defines pools: from the pools file at start, or over the API. A pool in use is retired, not deleted, and keeps its backend. Of two who
//! define one pool at the same moment, each decides on what the other left.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::ports::ledger::LedgerError;
use crate::store::{Deleted, Page, PoolWrite, WhichClaims, Written};
use crate::tries::Tries;
use motorpool_domain::pool::{
    Dispatch, Moved, Pool, PoolChange, PoolRecord, Rules, Source, decide_change, is_left_to_the_file,
    next_rev, retired,
};
use motorpool_domain::record::Key;
use motorpool_domain::{AuditEntry, PoolName};
use motorpool_wire::api::{PoolView, PoolsPage};
use motorpool_wire::pool_settings::PoolSettings;
use std::collections::BTreeMap;

impl Control {
    /// The pools of the file are as the file says; one that is no longer in it is retired. A file that can't hold changes nothing.
    pub async fn define_pools(&self, defined: &BTreeMap<PoolName, Rules>) -> Result<(), Refused> {
        let pool = |(name, rules): (&PoolName, &Rules)| Pool {
            name: name.clone(),
            source: Source::File,
            retired: false,
            rules: rules.clone(),
        };
        let mut defined_pools: Vec<Pool> = Vec::new();
        for pool in defined.iter().map(pool) {
            self.must_be_supported(&pool.rules).map_err(|refused| of_pool(&pool.name, refused))?;
            if self.is_unreadable(&pool.name).await? {
                tracing::warn!(target: "alert", pool = %pool.name, "a pool's record can't be read, and is left as it is, whatever the pools file says");
                continue;
            }
            if let Some(refused) = self.refused_change(&pool).await? {
                return Err(refused);
            }
            defined_pools.push(pool);
        }
        for pool in &defined_pools {
            self.define(&Caller::Operator, pool).await?;
            for warning in self.warnings(&pool.rules) {
                tracing::warn!(pool = %pool.name, warning, "a pool's settings do not go well together");
            }
        }
        for PoolRecord { pool, used, rev: _ } in self.store.pools().await? {
            // One that was defined over the API can be changed only while there is a server, which also has its machines to end.
            if pool.source == Source::Api
                && !pool.retired
                && let Ok(backend) = self.backend(pool.rules.backend)
                && let Err(unfit) = backend.accepts(&pool.rules)
            {
                tracing::warn!(target: "alert", pool = %pool.name, why = unfit.why, hint = unfit.hint, "a pool launches nothing");
            }
            if used > 0 && self.backend(pool.rules.backend).is_err() {
                tracing::warn!(target: "alert", pool = %pool.name, used, backend = pool.rules.backend.name(), "a pool has runners on a backend that is not part of this control plane: it can neither see nor end them");
            }
            if retired(&pool).is_some() && !defined.contains_key(&pool.name) {
                tracing::warn!(pool = %pool.name, "a pool is no longer in the pools file, and is retired");
                self.retire(&pool.name).await?;
            }
        }
        Ok(())
    }

    pub async fn put_pool(
        &self,
        caller: &Caller,
        name: PoolName,
        settings: PoolSettings,
    ) -> Result<PoolView, Refused> {
        caller.must_be_operator("define a pool")?;
        let rules = self.supported_rules(settings)?;
        let pool = Pool { name, source: Source::Api, retired: false, rules };
        if let Some(refused) = self.refused_change(&pool).await? {
            return Err(refused);
        }
        let doubts = self.must_be_launchable(&pool).await?;
        self.define(caller, &pool).await?;
        let mut view = self.view_pool(caller, &pool.name).await?;
        view.warnings.extend(doubts);
        Ok(view)
    }

    pub async fn view_pool(&self, caller: &Caller, pool: &PoolName) -> Result<PoolView, Refused> {
        let record = self.pool_record(pool).await?;
        caller.may_use(&record.pool)?;
        self.pool_view(caller, &record).await
    }

    /// Those that the caller may use.
    pub async fn list_pools(&self, caller: &Caller) -> Result<PoolsPage, Refused> {
        let mut pools = Vec::new();
        for record in self.store.pools().await? {
            if caller.may_use(&record.pool).is_ok() {
                pools.push(self.pool_view(caller, &record).await?);
            }
        }
        Ok(PoolsPage { pools })
    }

    pub async fn delete_pool(&self, caller: &Caller, name: &PoolName) -> Result<(), Refused> {
        caller.must_be_operator("delete a pool")?;
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("pool {name}"))?;
            let record = self.pool_record(name).await?;
            if is_left_to_the_file(&record.pool) {
                return Err(defined_by_file(name));
            }
            let open = self.store.list_claims(name, WhichClaims::Open, Page::first(1)).await?;
            if let Some(claim) = open.items.first() {
                return Err(Refused::conflict(
                    format!("pool {name} still has open claims, such as {}", claim.id),
                    "release them first: `motorpool claims --pool …`",
                ));
            }
            match self.store.delete_pool(name, record.rev).await? {
                // Missing is what our own delete leaves, if its answer was lost.
                Deleted::Done | Deleted::Missing => return Ok(()),
                Deleted::Changed => {}
                Deleted::InUse { used } => {
                    return Err(Refused::conflict(
                        format!("pool {name} still has {used} runners"),
                        "release or remove them first: `motorpool runners --pool …`",
                    ));
                }
            }
        }
    }

    /// Whether the pool's record is of a newer version, or broken. It must not keep a control plane from its other pools.
    async fn is_unreadable(&self, name: &PoolName) -> Result<bool, Refused> {
        match self.store.pool(name).await {
            Ok(_) => Ok(false),
            Err(LedgerError::Unreadable { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Why the pool can't be changed so, as it is now.
    pub(super) async fn refused_change(&self, pool: &Pool) -> Result<Option<Refused>, Refused> {
        let known = self.store.pool(&pool.name).await?;
        Ok(known.and_then(|known| refusal(pool, decide_change(&known.pool, pool, known.used))))
    }

    async fn define(&self, caller: &Caller, pool: &Pool) -> Result<(), Refused> {
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("pool {}", pool.name))?;
            let known = self.store.pool(&pool.name).await?;
            let change = known.as_ref().map(|known| decide_change(&known.pool, pool, known.used));
            if let Some(refused) = change.and_then(|change| refusal(pool, change)) {
                return Err(refused);
            }
            if change == Some(PoolChange::Nothing) {
                return Ok(());
            }
            let only_unused = matches!(change, Some(PoolChange::OnlyUnused(_)));
            if self.write_as_seen(known.as_ref(), pool, only_unused).await? {
                let what = if known.is_some() { "pool changed" } else { "pool defined" };
                return self.note_definition(caller, pool, what).await;
            }
        }
    }

    /// Unless the file of another start, or the API, has it again by now.
    async fn retire(&self, name: &PoolName) -> Result<(), Refused> {
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("pool {name}"))?;
            let Some(known) = self.store.pool(name).await? else { return Ok(()) };
            let Some(after) = retired(&known.pool) else { return Ok(()) };
            if self.write_as_seen(Some(&known), &after, false).await? {
                return self.note_definition(&Caller::Operator, &after, "pool retired").await;
            }
        }
    }

    /// Whether the pool was still as it was read, and so was written.
    async fn write_as_seen(
        &self,
        known: Option<&PoolRecord>,
        pool: &Pool,
        only_unused: bool,
    ) -> Result<bool, Refused> {
        let seen = known.map_or(0, |known| known.rev);
        let write = PoolWrite { seen, rev: next_rev(seen, self.now()), pool, only_unused };
        Ok(match self.store.write_pool(write).await? {
            Written::Done => true,
            Written::Lost { .. } | Written::Missing => false,
        })
    }

    async fn note_definition(&self, caller: &Caller, pool: &Pool, what: &str) -> Result<(), Refused> {
        let Rules { max, min_idle, backend, .. } = &pool.rules;
        let why = format!("max {max}, min_idle {min_idle}, backend {}", backend.name());
        let entry = AuditEntry::of(self.now(), caller.actor(), what, why);
        Ok(self.store.note(&Key::from(&pool.name), &entry).await?)
    }

    /// What an operator should know about rules that may hold.
    pub(super) fn warnings(&self, rules: &Rules) -> Vec<String> {
        rules.limits.short_grace(self.settings.refresh).into_iter().collect()
    }

    pub(super) fn supported_rules(&self, settings: PoolSettings) -> Result<Rules, Refused> {
        let rules = settings
            .rules(self.settings.host)
            .map_err(|error| Refused::invalid(error.to_string(), "correct the pool's settings"))?;
        if let Some(unknown) = rules.teams.iter().find(|team| !self.settings.teams.contains_key(*team)) {
            return Err(Refused::invalid(
                format!("teams: there is no team {unknown}"),
                "a team is a table [teams.NAME] in the settings of the control plane",
            ));
        }
        self.must_be_supported(&rules)?;
        Ok(rules)
    }

    fn must_be_supported(&self, rules: &Rules) -> Result<(), Refused> {
        self.backend(rules.backend)?.accepts(rules)?;
        if let Some(binding) = &rules.ci {
            self.ci_system(binding.system)?;
        }
        match rules.dispatch {
            Dispatch::Claim | Dispatch::Hook => Ok(()),
            Dispatch::Lease => Err(Refused::invalid(
                format!("dispatch = \"{}\" is not part of this version", rules.dispatch.name()),
                "use dispatch = \"claim\" or \"hook\"",
            )),
        }
    }
}

fn of_pool(name: &PoolName, refused: Refused) -> Refused {
    Refused { message: format!("pool {name}: {}", refused.message), ..refused }
}

fn defined_by_file(name: &PoolName) -> Refused {
    Refused::conflict(
        format!("pool {name} is defined in the pools file"),
        "change it there, and restart the control plane",
    )
}

fn refusal(pool: &Pool, change: PoolChange) -> Option<Refused> {
    match change {
        PoolChange::Nothing | PoolChange::AtOnce | PoolChange::OnlyUnused(_) => None,
        PoolChange::OfTheFile => Some(defined_by_file(&pool.name)),
        PoolChange::InUse { moved, runners } => Some(in_the_way(pool, moved, runners)),
    }
}

fn in_the_way(pool: &Pool, moved: Moved, runners: u32) -> Refused {
    let Moved { from, to } = moved;
    let have = if runners == 1 { "1 runner".to_owned() } else { format!("{runners} runners") };
    let hint = match pool.source {
        Source::File => format!(
            "take [pools.{0}] out of the pools file and start again: it is retired, and its idle runners go; release its claims, and once `motorpool pools` shows none used, put it back with the new backend. Or leave it as it was, and give the new pool another name",
            pool.name
        ),
        Source::Api => format!(
            "release its claims, remove its runners (`motorpool runners --pool {}`), wait until none is left, and change it then; or give the new pool another name",
            pool.name
        ),
    };
    Refused::conflict(
        format!(
            "pool {} has {have} with the backend {}; before the last of them is gone its backend can't be {}, where nobody would find or end them",
            pool.name,
            from.name(),
            to.name()
        ),
        hint,
    )
}
