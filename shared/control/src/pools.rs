//! Defines pools: from the pools file at start, or over the API. A pool in use is retired, not deleted.

use crate::caller::Caller;
use crate::control::Control;
use crate::ports::ledger::{Deleted, Page, Subject, WhichClaims};
use crate::refused::Refused;
use motorpool_domain::pool::{Dispatch, Pool, Rules, Source};
use motorpool_domain::{AuditEntry, PoolName};
use motorpool_wire::api::{PoolView, PoolsPage};
use motorpool_wire::pool_settings::PoolSettings;
use std::collections::BTreeMap;

impl Control {
    /// The pools of the file are as the file says; one that is no longer in it is retired.
    pub async fn define_pools(&self, defined: &BTreeMap<PoolName, Rules>) -> Result<(), Refused> {
        for (name, rules) in defined {
            self.must_be_supported(rules)?;
            let pool =
                Pool { name: name.clone(), source: Source::File, retired: false, rules: rules.clone() };
            self.define(&Caller::Operator, &pool).await?;
        }
        for record in self.ledger.pools().await? {
            let pool = record.pool;
            if pool.source == Source::File && !pool.retired && !defined.contains_key(&pool.name) {
                tracing::warn!(pool = %pool.name, "a pool is no longer in the pools file, and is retired");
                self.ledger.put_pool(&Pool { retired: true, ..pool }).await?;
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
        if let Some(known) = self.ledger.pool(&name).await?
            && known.pool.source == Source::File
            && !known.pool.retired
        {
            return Err(defined_by_file(&name));
        }
        let rules = self.supported_rules(settings)?;
        self.define(caller, &Pool { name: name.clone(), source: Source::Api, retired: false, rules }).await?;
        self.view_pool(caller, &name).await
    }

    pub async fn view_pool(&self, _: &Caller, pool: &PoolName) -> Result<PoolView, Refused> {
        let record = self.pool_record(pool).await?;
        self.pool_view(&record).await
    }

    pub async fn list_pools(&self, _: &Caller) -> Result<PoolsPage, Refused> {
        let mut pools = Vec::new();
        for record in self.ledger.pools().await? {
            pools.push(self.pool_view(&record).await?);
        }
        Ok(PoolsPage { pools })
    }

    pub async fn delete_pool(&self, caller: &Caller, name: &PoolName) -> Result<(), Refused> {
        caller.must_be_operator("delete a pool")?;
        let record = self.pool_record(name).await?;
        if record.pool.source == Source::File && !record.pool.retired {
            return Err(defined_by_file(name));
        }
        let open = self.ledger.list_claims(name, WhichClaims::Open, Page::first(1)).await?;
        if let Some(claim) = open.items.first() {
            return Err(Refused::conflict(
                format!("pool {name} still has open claims, such as {}", claim.id),
                "release them first: `motorpool claims --pool …`",
            ));
        }
        match self.ledger.delete_pool(name).await? {
            Deleted::Done => Ok(()),
            Deleted::Missing => self.pool_record(name).await.map(|_| ()),
            Deleted::InUse { used } => Err(Refused::conflict(
                format!("pool {name} still has {used} runners"),
                "release or remove them first: `motorpool runners --pool …`",
            )),
        }
    }

    async fn define(&self, caller: &Caller, pool: &Pool) -> Result<(), Refused> {
        let known = self.ledger.pool(&pool.name).await?;
        if known.as_ref().is_some_and(|known| known.pool == *pool) {
            return Ok(());
        }
        self.ledger.put_pool(pool).await?;
        let entry = AuditEntry {
            at: self.now(),
            who: caller.actor(),
            what: if known.is_some() { "pool changed" } else { "pool defined" }.to_owned(),
            from: None,
            to: None,
            why: format!(
                "max {}, min_idle {}, backend {}",
                pool.rules.max,
                pool.rules.min_idle,
                pool.rules.backend.name()
            ),
        };
        Ok(self.ledger.note(&Subject::Pool(pool.name.clone()), &entry).await?)
    }

    pub(crate) fn supported_rules(&self, settings: PoolSettings) -> Result<Rules, Refused> {
        let rules = settings
            .rules(self.settings.host)
            .map_err(|error| Refused::invalid(error.to_string(), "correct the pool's settings"))?;
        self.must_be_supported(&rules)?;
        Ok(rules)
    }

    fn must_be_supported(&self, rules: &Rules) -> Result<(), Refused> {
        self.backend(rules.backend)?;
        if let Some(binding) = &rules.ci {
            self.ci_system(binding)?;
        }
        match rules.dispatch {
            Dispatch::Claim => Ok(()),
            Dispatch::Hook | Dispatch::Lease => Err(Refused::invalid(
                format!("dispatch = \"{}\" is not part of this version", rules.dispatch.name()),
                "use dispatch = \"claim\"",
            )),
        }
    }
}

fn defined_by_file(name: &PoolName) -> Refused {
    Refused::conflict(
        format!("pool {name} is defined in the pools file"),
        "change it there, and restart the control plane",
    )
}
