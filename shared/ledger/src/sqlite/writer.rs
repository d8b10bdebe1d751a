//! The one thread that writes. Whatever waits is committed together, each caller's part in a savepoint of its own, and nobody is answered
//! before the commit: so many callers share one sync of the disk, and a commit that fails is heard of by all of them.

use super::error::EngineError;
use super::log::Log;
use rusqlite::Connection;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// So many callers at most share a commit.
const MOST_TOGETHER: usize = 64;
/// So many wait in the writer's queue; more wait for a place in it.
const QUEUE: usize = 1024;

/// What a caller is told; one failure may be that of many.
pub(super) type Answer<T> = Result<T, Arc<EngineError>>;

#[derive(Debug)]
pub(super) struct Writer {
    /// Nothing only while the writer ends.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, file: &Path) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let log = Log::watch(&mut connection).map_err(io::Error::other)?;
        let file = file.to_owned();
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || write_all(&connection, waiting, log, &file))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Does this inside of the next transaction, and answers once it is committed. Nobody is disturbed if the answer is not waited for: the work
    /// is then left out, or done unheard.
    pub(super) async fn write<T, W>(&self, work: W) -> Answer<T>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let ended = |_| Arc::new(EngineError::WriterEnded);
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Pending { work, done: None, answer });
        let jobs = self.jobs.as_ref().ok_or(EngineError::WriterEnded)?;
        jobs.send(job).await.map_err(|_| EngineError::WriterEnded)?;
        answered.await.map_err(ended)?
    }

    pub(super) fn is_running(&self) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| !jobs.is_closed())
    }
}

impl Drop for Writer {
    /// Waits until the database is closed: only then may its lock be given back.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the ledger's writer panicked");
        }
    }
}

/// What one caller waits for.
trait Job: Send {
    fn is_abandoned(&self) -> bool;
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// It alone failed.
    fn fail(&mut self, error: EngineError);
    /// To be called when all of the batch is durable, or nothing of it.
    fn answer(self: Box<Self>, committed: Answer<()>);
}

struct Pending<T, W> {
    work: W,
    done: Option<Answer<T>>,
    answer: oneshot::Sender<Answer<T>>,
}

impl<T, W> Job for Pending<T, W>
where
    T: Send,
    W: FnMut(&Connection) -> rusqlite::Result<T> + Send,
{
    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.done = Some(Ok((self.work)(connection)?));
        Ok(())
    }

    fn fail(&mut self, error: EngineError) {
        self.done = Some(Err(Arc::new(error)));
    }

    fn answer(self: Box<Self>, committed: Answer<()>) {
        let done = self.done.unwrap_or_else(|| Err(Arc::new(EngineError::WriterEnded)));
        // Whoever asked may be gone.
        let _ = self.answer.send(committed.and(done));
    }
}

fn write_all(connection: &Connection, mut waiting: mpsc::Receiver<Box<dyn Job>>, mut log: Log, file: &Path) {
    while let Some(first) = waiting.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < MOST_TOGETHER
            && let Ok(next) = waiting.try_recv()
        {
            batch.push(next);
        }
        batch.retain(|job| !job.is_abandoned());
        if batch.is_empty() {
            continue;
        }
        let committed = commit(connection, &mut batch, file);
        for job in batch {
            job.answer(committed.clone());
        }
        log.write_back(connection, file, committed.is_err());
    }
}

/// All that these callers want, or nothing of it.
fn commit(connection: &Connection, batch: &mut [Box<dyn Job>], file: &Path) -> Answer<()> {
    let written = write_batch(connection, batch, file);
    if written.is_err() && !connection.is_autocommit() {
        // An error here is one of the next transaction too, which then ends in the same way.
        let _ = execute(connection, "ROLLBACK");
    }
    written.map_err(|source| {
        let error = EngineError::of(file, source);
        tracing::error!(callers = batch.len(), %error, "a commit of the ledger failed");
        Arc::new(error)
    })
}

fn write_batch(connection: &Connection, batch: &mut [Box<dyn Job>], file: &Path) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")?;
    for job in batch {
        write_one(connection, &mut **job, file)?;
    }
    execute(connection, "COMMIT")
}

/// One caller's part; an error of it alone is taken back and told to that caller only.
fn write_one(connection: &Connection, job: &mut dyn Job, file: &Path) -> rusqlite::Result<()> {
    execute(connection, "SAVEPOINT caller")?;
    if let Err(error) = job.run(connection) {
        // A full disk may have taken back the whole transaction, and with it what the others wrote.
        if connection.is_autocommit() {
            return Err(error);
        }
        execute(connection, "ROLLBACK TO caller")?;
        job.fail(EngineError::of(file, error));
    }
    execute(connection, "RELEASE caller")
}

#[cfg(test)]
mod tests;

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
