//! What becomes of callers that share a commit when a part of it, or all of it, fails (fault 26). The failures are made by the work itself: an
//! error of its own, an end of the whole transaction, and a constraint that SQLite looks at in the commit only.

use super::*;
use futures_util::future::join_all;
use std::path::Path;
use std::sync::mpsc as blocking;

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

/// A writer that stands still until it is let go: whatever is asked meanwhile waits, and shares the next commit.
struct Held {
    writer: Arc<Writer>,
    let_go: blocking::Sender<()>,
    first: tokio::task::JoinHandle<Answer<()>>,
}

async fn held(connection: Connection) -> std::result::Result<Held, Box<dyn std::error::Error>> {
    let writer = Arc::new(Writer::start(connection, Path::new("ledger.db"))?);
    let (let_go, gone) = blocking::channel();
    let (began, begun) = oneshot::channel();
    let mut began = Some(began);
    let first = tokio::spawn({
        let writer = Arc::clone(&writer);
        async move {
            let wait = move |_: &Connection| {
                let _ = began.take().map(|began| began.send(()));
                gone.recv().map_err(|_| rusqlite::Error::InvalidQuery)
            };
            writer.write(wait).await
        }
    });
    begun.await?;
    Ok(Held { writer, let_go, first })
}

fn tables() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON;
         CREATE TABLE done (caller INTEGER PRIMARY KEY) STRICT;
         CREATE TABLE owed (to_whom INTEGER REFERENCES done (caller) DEFERRABLE INITIALLY DEFERRED) STRICT;",
    )?;
    Ok(connection)
}

fn done(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection.prepare("SELECT caller FROM done ORDER BY caller")?.query_map([], |row| row.get(0))?.collect()
}

/// Twenty callers in one commit, of whom the tenth also runs `sql`: what each is told.
async fn share_a_commit(
    sql: &'static str,
) -> std::result::Result<(Vec<Answer<()>>, Vec<i64>), Box<dyn std::error::Error>> {
    let Held { writer, let_go, first } = held(tables()?).await?;
    let callers = (0..20).map(|caller| {
        writer.write(move |connection: &Connection| {
            connection.execute("INSERT INTO done VALUES (?1)", [caller])?;
            if caller == 10 { connection.execute_batch(sql) } else { Ok(()) }
        })
    });
    let mut callers = Box::pin(join_all(callers));
    // Each of them asks when it is first looked at.
    assert!(futures_util::poll!(&mut callers).is_pending());
    let_go.send(())?;
    first.await??;
    let answers = callers.await;
    // The writer goes on.
    let there = writer.write(done).await?;
    Ok((answers, there))
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_26_a_commit_that_fails_is_heard_of_by_all_of_its_callers() -> Outcome {
    let (answers, there) = share_a_commit("INSERT INTO owed VALUES (999)").await?;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer.as_ref().map_err(|error| &**error), Err(EngineError::Sqlite(_)))),
        "{answers:?}"
    );
    assert!(there.is_empty(), "{there:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_26_a_transaction_that_ended_in_its_middle_is_heard_of_by_all() -> Outcome {
    let (answers, there) = share_a_commit("ROLLBACK; SELECT nothing FROM nowhere").await?;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert!(there.is_empty(), "{there:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_26_an_error_of_one_caller_is_its_own_and_what_it_wrote_is_taken_back() -> Outcome {
    let (answers, there) = share_a_commit("SELECT nothing FROM nowhere").await?;
    let failed: Vec<_> =
        (0..20).zip(&answers).filter(|(_, answer)| answer.is_err()).map(|(caller, _)| caller).collect();
    assert_eq!(failed, [10]);
    assert_eq!(there, (0..20).filter(|caller| *caller != 10).collect::<Vec<_>>());
    Ok(())
}

fn thread(_: &Connection) -> rusqlite::Result<std::thread::ThreadId> {
    Ok(std::thread::current().id())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_alone_commits_on_its_own_thread() -> Outcome {
    let writer = Writer::start(tables()?, Path::new("ledger.db"))?;
    assert_eq!(writer.write(thread).await?, std::thread::current().id());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_come_at_once_go_to_the_writer_s_thread() -> Outcome {
    let Held { writer, let_go, first } = held(tables()?).await?;
    let mut crowd = Box::pin(join_all((0..2).map(|_| writer.write(thread))));
    assert!(futures_util::poll!(&mut crowd).is_pending());
    let_go.send(())?;
    first.await??;
    let crowd: Vec<_> = crowd.await.into_iter().collect::<std::result::Result<_, _>>()?;
    let [one, other] = crowd[..] else { return Err("not two answers".into()) };
    assert_eq!(one, other);
    let here = std::thread::current().id();
    assert_ne!(here, one);
    // They are gone: whoever comes when the thread has put down its pen is alone.
    while writer.write(thread).await? != here {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_task_writes_side_by_side_shares_commits() -> Outcome {
    let writer = Writer::start(tables()?, Path::new("ledger.db"))?;
    let threads = join_all((0..20).map(|_| writer.write(thread))).await;
    let threads: Vec<_> = threads.into_iter().collect::<std::result::Result<_, _>>()?;
    assert!(threads.iter().all(|one| *one != std::thread::current().id()), "{threads:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_left_disturbs_nobody() -> Outcome {
    let Held { writer, let_go, first } = held(tables()?).await?;
    let insert = |caller: i64| {
        writer.write(move |connection: &Connection| {
            connection.execute("INSERT INTO done VALUES (?1)", [caller])
        })
    };
    let mut left = Box::pin(insert(1));
    assert!(futures_util::poll!(&mut left).is_pending());
    let mut stays = Box::pin(insert(2));
    assert!(futures_util::poll!(&mut stays).is_pending());
    drop(left);
    let_go.send(())?;
    first.await??;
    assert_eq!(stays.await?, 1);
    assert_eq!(writer.write(done).await?, [2]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_ended_says_so() -> Outcome {
    let writer = Writer::start(tables()?, Path::new("ledger.db"))?;
    let ended =
        writer.write(|_: &Connection| -> rusqlite::Result<()> { std::panic::panic_any("a mistake") }).await;
    assert!(
        matches!(ended.map_err(|error| error.to_string()), Err(said) if said.contains("writer has ended"))
    );
    // Its queue is closed while it ends, which may be a moment later.
    while writer.is_running() {
        tokio::task::yield_now().await;
    }
    assert!(writer.write(|_: &Connection| Ok(())).await.is_err());
    Ok(())
}
