//! The one place that writes. A caller who is alone commits on its own thread: waking another, and being woken by it, would cost as much as
//! the commit. Where several come at once, one thread commits whatever waits together, each caller's part in a savepoint of its own. Nobody is
//! answered before the commit: so many callers share one sync of the disk, and a commit that fails is heard of by all of them.

use super::error::EngineError;
use super::file::BUSY;
use super::log::Log;
use rusqlite::Connection;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// So many callers at most share a commit.
const MOST_TOGETHER: usize = 64;
/// So many wait in the writer's queue; more wait for a place in it.
const QUEUE: usize = 1024;

/// What a caller is told; one failure may be that of many.
pub(super) type Answer<T> = Result<T, Arc<EngineError>>;

#[derive(Debug)]
pub(super) struct Writer {
    desk: Arc<Desk>,
    /// Nothing only while the writer ends.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

/// Where whoever commits sits down, one at a time. Poisoned by work that panicked: nobody knows what that has left in the transaction.
#[derive(Debug)]
struct Desk {
    pen: Mutex<Pen>,
    /// Callers whose work is not committed yet. Where there are several, they go to the thread, and share its commits.
    about: AtomicUsize,
}

/// A caller who is about.
struct Visitor<'a>(&'a Desk);

#[derive(Debug)]
pub(super) struct Pen {
    connection: Connection,
    log: Log,
    file: PathBuf,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, file: &Path) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let log = Log::watch(&mut connection).map_err(io::Error::other)?;
        let pen = Mutex::new(Pen { connection, log, file: file.to_owned() });
        let desk = Arc::new(Desk { pen, about: AtomicUsize::new(0) });
        let shared = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || write_all(&shared, waiting))?;
        Ok(Self { desk, jobs: Some(jobs), thread: Some(thread) })
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
        let visitor = Visitor::come(&self.desk);
        let job: Option<Box<dyn Job>> = match visitor.is_alone().await {
            true => self.desk.commit_alone(job),
            false => Some(job),
        };
        if let Some(job) = job {
            let jobs = self.jobs.as_ref().ok_or(EngineError::WriterEnded)?;
            jobs.send(job).await.map_err(|_| EngineError::WriterEnded)?;
        }
        answered.await.map_err(ended)?
    }

    /// The writer's connection between two commits, while nobody else wants it. It is not for long.
    pub(super) fn idle(&self) -> Option<MutexGuard<'_, Pen>> {
        match self.desk.about() {
            0 => self.desk.pen.try_lock().ok(),
            _ => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.desk.pen.is_poisoned() && self.jobs.as_ref().is_some_and(|jobs| !jobs.is_closed())
    }
}

impl<'a> Visitor<'a> {
    fn come(desk: &'a Desk) -> Self {
        desk.about.fetch_add(1, Ordering::Relaxed);
        Self(desk)
    }

    /// A task that writes several things side by side comes with one after the other. So whoever seems to be alone steps back once, and lets the
    /// others of its task come: committed one by one on this thread, they would share nothing.
    async fn is_alone(&self) -> bool {
        let mut stepped_back = false;
        let others = poll_fn(|cx| {
            if stepped_back || self.0.about() > 1 {
                return Poll::Ready(());
            }
            stepped_back = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        others.await;
        self.0.about() == 1
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        self.0.about.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Desk {
    fn about(&self) -> usize {
        self.about.load(Ordering::Relaxed)
    }

    /// Commits this one on the caller's own thread. It is given back, for the thread, where there is something to wait for: others who are about,
    /// another program that has the file, a log that is to be written back.
    fn commit_alone(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let mut job = Some(job);
        let attempt = || {
            let Ok(mut pen) = self.pen.try_lock() else { return };
            if pen.log.is_long() || !pen.begin_at_once() {
                return;
            }
            let committed = pen.commit_all(job.take().into_iter().collect());
            if committed.is_err() {
                pen.write_back(&committed);
            }
        };
        // Work that panics leaves the desk poisoned and its caller without an answer, as it does on the thread.
        let _ = catch_unwind(AssertUnwindSafe(attempt));
        job
    }
}

impl Pen {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A transaction, unless another program holds the file, or it can't be had at all: whoever may wait finds out.
    fn begin_at_once(&self) -> bool {
        let begun = self.connection.busy_timeout(Duration::ZERO).and_then(|()| begin(&self.connection));
        self.connection.busy_timeout(BUSY).is_ok() && begun.is_ok()
    }

    /// Answers all of them.
    fn commit_all(&mut self, mut batch: Vec<Box<dyn Job>>) -> Answer<()> {
        let committed = commit(&self.connection, &mut batch, &self.file);
        for job in batch {
            job.answer(committed.clone());
        }
        committed
    }

    fn write_back(&mut self, committed: &Answer<()>) {
        self.log.write_back(&self.connection, &self.file, committed.is_err());
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

fn write_all(desk: &Desk, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
    while let Some(first) = waiting.blocking_recv() {
        let Ok(mut pen) = desk.pen.lock() else { return };
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
        let committed = pen.commit_all(batch);
        pen.write_back(&committed);
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
    if connection.is_autocommit() {
        begin(connection)?;
    }
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

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")
}

#[cfg(test)]
mod tests;

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
