//! Pools, what refresh remembers, and whether the ledger answers.

use anyhow::Result;
use motorpool_control::ports::ledger::{Deleted, PoolRecord, PutUnused, RefreshMemory};

use super::fixtures::{POOL, Shared, at, launched, must_write, pool, pool_name, terminated, used};

pub async fn a_pool_is_read_as_written(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.pool(&pool_name(POOL)?).await?, None);
    let mut small = pool(POOL, 7)?;
    small.rules.commands.cleanup = Some("rm -rf \"$MOTORPOOL_WORK\"/*\necho ‘größer’".to_owned());
    ledger.put_pool(&small).await?;
    assert_eq!(ledger.pool(&small.name).await?, Some(PoolRecord { pool: small, used: 0 }));
    Ok(())
}

pub async fn pools_are_listed_by_name(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.pools().await?, []);
    for name in ["b", "a-1", "a", "0", "z-z"] {
        ledger.put_pool(&pool(name, 1)?).await?;
    }
    assert_eq!(ledger.delete_pool(&pool_name("a-1")?).await?, Deleted::Done);
    let names: Vec<String> = ledger.pools().await?.into_iter().map(|r| r.pool.name.to_string()).collect();
    assert_eq!(names, ["0", "a", "b", "z-z"]);
    Ok(())
}

pub async fn rules_change_and_the_counter_stays(ledger: Shared) -> Result<()> {
    launched(&ledger, &["r-1", "r-2"]).await?;
    let smaller = pool(POOL, 1)?;
    ledger.put_pool(&smaller).await?;
    let record = PoolRecord { pool: smaller, used: 2 };
    assert_eq!(ledger.pools().await?, vec![record.clone()]);
    assert_eq!(ledger.pool(&pool_name(POOL)?).await?, Some(record));
    Ok(())
}

pub async fn only_an_unused_pool_is_deleted(ledger: Shared) -> Result<()> {
    let name = pool_name(POOL)?;
    assert_eq!(ledger.delete_pool(&name).await?, Deleted::Missing);
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    assert_eq!(ledger.delete_pool(&name).await?, Deleted::InUse { used: 2 });
    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    assert_eq!(used(&ledger).await?, 0);
    assert_eq!(ledger.delete_pool(&name).await?, Deleted::Done);
    assert_eq!(ledger.pool(&name).await?, None);
    assert_eq!(ledger.delete_pool(&name).await?, Deleted::Missing);
    Ok(())
}

pub async fn inv_02_only_an_unused_pool_is_put_where_that_is_asked_for(ledger: Shared) -> Result<()> {
    let (first, other) = (pool(POOL, 7)?, pool(POOL, 8)?);
    assert_eq!(ledger.put_unused_pool(&first).await?, PutUnused::Done, "a new one");
    assert_eq!(ledger.pools().await?, [PoolRecord { pool: first, used: 0 }]);
    assert_eq!(ledger.put_unused_pool(&other).await?, PutUnused::Done);
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    let known = pool(POOL, 1_000)?;
    assert_eq!(ledger.put_unused_pool(&other).await?, PutUnused::InUse { used: 2 });
    assert_eq!(ledger.put_unused_pool(&known).await?, PutUnused::Done, "a write whose answer was lost");
    assert_eq!(ledger.pool(&known.name).await?, Some(PoolRecord { pool: known, used: 2 }));
    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    assert_eq!(ledger.put_unused_pool(&other).await?, PutUnused::Done);
    assert_eq!(ledger.pool(&other.name).await?, Some(PoolRecord { pool: other, used: 0 }));
    Ok(())
}

pub async fn refresh_remembers_and_the_ledger_answers(ledger: Shared) -> Result<()> {
    ledger.ping().await?;
    assert_eq!(ledger.refresh_memory().await?, None);
    for pass in [1, 2] {
        let memory =
            RefreshMemory { last_pass_at: at(pass), last_sweep_at: at(0), listening_since: at(pass + 1) };
        ledger.put_refresh_memory(&memory).await?;
        assert_eq!(ledger.refresh_memory().await?, Some(memory));
    }
    Ok(())
}
