//! Pools, what refresh remembers, and whether the ledger answers.

use anyhow::Result;
use motorpool_control::store::{Deleted, PoolWrite, Written};
use motorpool_domain::pool::Pool;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::refresh::RefreshMemory;

use super::fixtures::{
    POOL, Shared, at, at_once, define, launched, must_write, pool, pool_name, terminated, used,
};

pub async fn a_pool_is_read_as_written(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.pool(&pool_name(POOL)?).await?, None);
    let mut small = pool(POOL, 7)?;
    small.rules.commands.cleanup = Some("rm -rf \"$MOTORPOOL_WORK\"/*\necho ‘größer’".to_owned());
    define(&ledger, &small).await?;
    assert_eq!(ledger.pool(&small.name).await?, Some(PoolRecord { pool: small, rev: 1, used: 0 }));
    Ok(())
}

pub async fn pools_are_listed_by_name(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.pools().await?, []);
    for name in ["b", "a-1", "a", "0", "z-z"] {
        define(&ledger, &pool(name, 1)?).await?;
    }
    assert_eq!(ledger.delete_pool(&pool_name("a-1")?, 1).await?, Deleted::Done);
    let names: Vec<String> = ledger.pools().await?.into_iter().map(|r| r.pool.name.to_string()).collect();
    assert_eq!(names, ["0", "a", "b", "z-z"]);
    Ok(())
}

pub async fn rules_change_and_the_counter_stays(ledger: Shared) -> Result<()> {
    launched(&ledger, &["r-1", "r-2"]).await?;
    let smaller = pool(POOL, 1)?;
    define(&ledger, &smaller).await?;
    let record = PoolRecord { pool: smaller, rev: 2, used: 2 };
    assert_eq!(ledger.pools().await?, vec![record.clone()]);
    assert_eq!(ledger.pool(&pool_name(POOL)?).await?, Some(record));
    Ok(())
}

pub async fn only_an_unused_pool_is_deleted(ledger: Shared) -> Result<()> {
    let name = pool_name(POOL)?;
    assert_eq!(ledger.delete_pool(&name, 1).await?, Deleted::Missing);
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    assert_eq!(ledger.delete_pool(&name, 1).await?, Deleted::InUse { used: 2 });
    assert_eq!(ledger.delete_pool(&name, 7).await?, Deleted::Changed);
    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    assert_eq!(used(&ledger).await?, 0);
    define(&ledger, &pool(POOL, 9)?).await?;
    assert_eq!(ledger.delete_pool(&name, 1).await?, Deleted::Changed, "it was defined anew");
    assert_eq!(ledger.delete_pool(&name, 2).await?, Deleted::Done);
    assert_eq!(ledger.pool(&name).await?, None);
    assert_eq!(ledger.delete_pool(&name, 2).await?, Deleted::Missing);
    Ok(())
}

fn as_seen(seen: u64, rev: u64, pool: &Pool) -> PoolWrite<'_> {
    PoolWrite { seen, rev, pool, only_unused: false }
}

fn unused(seen: u64, pool: &Pool) -> PoolWrite<'_> {
    PoolWrite { only_unused: true, ..as_seen(seen, seen + 1, pool) }
}

pub async fn inv_02_only_an_unused_pool_is_written_where_that_is_asked_for(ledger: Shared) -> Result<()> {
    let (first, other) = (pool(POOL, 7)?, pool(POOL, 8)?);
    assert_eq!(ledger.write_pool(unused(0, &first)).await?, Written::Done, "a new one");
    assert_eq!(ledger.pools().await?, [PoolRecord { pool: first, rev: 1, used: 0 }]);
    assert_eq!(ledger.write_pool(unused(1, &other)).await?, Written::Done);
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    let known = PoolRecord { pool: pool(POOL, 1_000)?, rev: 3, used: 2 };
    assert_eq!(ledger.write_pool(unused(3, &other)).await?, Written::Lost { found: known.clone() });
    assert_eq!(ledger.write_pool(unused(2, &known.pool)).await?, Written::Done, "its answer was lost");
    assert_eq!(ledger.pools().await?, [known]);
    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    assert_eq!(ledger.write_pool(unused(3, &other)).await?, Written::Done);
    assert_eq!(ledger.pools().await?, [PoolRecord { pool: other, rev: 4, used: 0 }]);
    Ok(())
}

pub async fn inv_02_a_pool_is_written_only_as_it_was_seen(ledger: Shared) -> Result<()> {
    let (first, other) = (pool(POOL, 7)?, pool(POOL, 8)?);
    assert_eq!(ledger.write_pool(as_seen(3, 4, &first)).await?, Written::Missing);
    assert_eq!(ledger.pools().await?, [], "a write that lost made a pool");
    assert_eq!(ledger.write_pool(as_seen(0, 1, &first)).await?, Written::Done);
    let known = PoolRecord { pool: first.clone(), rev: 1, used: 0 };
    assert_eq!(ledger.write_pool(as_seen(0, 1, &first)).await?, Written::Done, "its answer was lost");
    for (seen, rev) in [(0, 1), (0, 2), (2, 3)] {
        let lost = Written::Lost { found: known.clone() };
        assert_eq!(ledger.write_pool(as_seen(seen, rev, &other)).await?, lost, "{seen} was seen");
        assert_eq!(ledger.pool(&first.name).await?.as_ref(), Some(&known));
    }
    // Revisions need not follow one another.
    assert_eq!(ledger.write_pool(as_seen(1, 9, &other)).await?, Written::Done);
    assert_eq!(ledger.pools().await?, [PoolRecord { pool: other, rev: 9, used: 0 }]);
    Ok(())
}

pub async fn inv_02_of_20_writes_of_a_pool_at_once_one_wins(ledger: Shared) -> Result<()> {
    for seen in [0, 1] {
        let answers = at_once(&ledger, 20, |ledger, caller| async move {
            let pool = pool(POOL, caller + 1)?;
            Ok((pool.rules.max, ledger.write_pool(as_seen(seen, seen + 1, &pool)).await?))
        });
        let mut won = answers.await?;
        won.retain(|(_, written)| *written == Written::Done);
        let won: Vec<u32> = won.into_iter().map(|(max, _)| max).collect();
        assert_eq!(won.len(), 1, "{won:?} won");
        let record = ledger.pool(&pool_name(POOL)?).await?;
        assert_eq!(record.map(|record| (record.rev, vec![record.pool.rules.max])), Some((seen + 1, won)));
    }
    Ok(())
}

pub async fn refresh_remembers_and_the_ledger_answers(ledger: Shared) -> Result<()> {
    ledger.ping().await?;
    assert_eq!(ledger.refresh_memory().await?, None);
    for pass in [1, 2] {
        let memory = RefreshMemory {
            last_pass_at: at(pass),
            last_sweep_at: at(0),
            listening_since: at(pass + 1),
            rev: pass - 1,
        };
        ledger.put_refresh_memory(&memory).await?;
        let written = RefreshMemory { rev: pass, ..memory };
        assert_eq!(ledger.refresh_memory().await?, Some(written));
        // Of a pass that began before this one ended: it knows less.
        ledger.put_refresh_memory(&RefreshMemory { last_pass_at: at(100), ..memory }).await?;
        assert_eq!(ledger.refresh_memory().await?, Some(written));
    }
    Ok(())
}
