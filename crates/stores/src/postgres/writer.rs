//! The writer: takes what waits, makes a group of it, and answers each commit after the group's flush. The more is going on,
//! the larger the groups and the cheaper a commit.
//!
//! What goes wrong with the connection decides what a commit is told. Before COMMIT was sent, nothing has happened, and the
//! group is done again on another connection, for a while. After that nobody can know, and it is told just that. Trouble
//! fails a group, never the writer: it is noted for `health`, and the next group tries again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::ports::store::{Commit, Conflict, Outcome, Trouble};
use model::{TaskId, Time};
use tokio::join;
use tokio::time::Instant;

use super::Shared;
use super::connect::{Conn, Fault};
use super::hints::News;
use super::pen::{self, Numbers, Slate, Unwritten};
use super::purge::{self, Which};
use super::queue::{Errand, Taken, Waiting};
use super::trouble::{self, Failure, Kind};
use super::{read, statements as sql};

/// How often a group that met another replica begins again.
const TRIES: u32 = 8;
/// A connection that has answered so lately is trusted with a whole transaction at once: were it dead, a group would not know
/// what became of it, where otherwise it would be done again.
const TRUST: Duration = Duration::from_secs(1);
/// How often a troubled writer with nothing to do tries whether the database is there again.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Names remembered. Forgetting costs a read each, so the bound is only there to have one.
const NAMES: usize = 50_000;
/// A flush may take a while on a busy disk, and large parts on a slow line.
const WRITE_PATIENCE: Duration = Duration::from_secs(15);
const WRITE_BYTES_PER_SECOND: u64 = 1 << 20;

/// However the task ends, nobody may wait for it in vain.
struct Farewell(Arc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// Runs until the queue is closed and empty.
pub(super) async fn run(shared: Arc<Shared>, db: Conn) {
    let _farewell = Farewell(shared.clone());
    let mut writer = Writer { shared, db: Some(db), names: HashMap::new(), numbers: Numbers::default(), carried: None };
    loop {
        let patience = writer.shared.trouble.lock().is_some().then_some(PROBE_EVERY);
        match writer.shared.queue.take(patience).await {
            Taken::Group(group) => writer.group(group).await,
            Taken::Errand(errand) => writer.errand(errand).await,
            Taken::Nothing => writer.probe().await,
            Taken::Closed => return,
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    db: Option<Conn>,
    names: HashMap<Arc<str>, i32>,
    numbers: Numbers,
    /// When the connection has last carried a group through.
    carried: Option<Instant>,
}

/// Why a group did not happen, as far as one knows.
struct Stop {
    failure: Failure,
    /// COMMIT was on its way, and what became of it is not known.
    sent: bool,
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop { failure: error.into(), sent: false }
    }
}

impl Writer {
    /// Commits a group and answers each of it.
    async fn group(&mut self, group: Vec<Waiting>) {
        let outcomes = self.outcomes(&group).await;
        for (waiting, outcome) in group.into_iter().zip(outcomes) {
            if let Outcome::Conflict(Conflict::Seq(task, seq)) = &outcome {
                tracing::trace!(%task, %seq, "a commit came too late");
            }
            // Whoever asked may have gone; the commit happened all the same.
            let _ = waiting.answer.send(outcome);
        }
    }

    async fn outcomes(&mut self, group: &[Waiting]) -> Vec<Outcome> {
        // One group waits for the database to come back. Those after it would wait for nothing.
        let patience =
            if self.shared.trouble.lock().is_some() { Duration::ZERO } else { self.shared.options.lease / 2 };
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(20);
        let mut tries = 0;
        let mut bet = self.carried.is_some_and(|at| at.elapsed() < TRUST) && self.only_opens(group);
        loop {
            let betting = std::mem::take(&mut bet);
            let stop = match self.attempt(group, betting).await {
                Ok(conflicts) => {
                    self.carried = Some(Instant::now());
                    self.recovered();
                    let outcome = |conflict: Option<Conflict>| conflict.map_or(Outcome::Done, Outcome::Conflict);
                    return conflicts.into_iter().map(outcome).collect();
                }
                Err(stop) => stop,
            };
            let kind = kind(&stop.failure);
            tracing::debug!(failure = %stop.failure, ?kind, sent = stop.sent, "a group did not pass");
            match kind {
                Kind::Lost => {
                    (self.db, self.carried) = (None, None);
                    if stop.sent {
                        return vec![Outcome::Unknown(self.note(&stop.failure)); group.len()];
                    }
                    if Instant::now() >= deadline {
                        return vec![Outcome::Refused(self.note(&stop.failure)); group.len()];
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PROBE_EVERY);
                    continue;
                }
                Kind::Again => tries += u32::from(!betting),
                Kind::World => {}
                Kind::Own => tries = TRIES,
            }
            self.roll_back().await;
            if kind == Kind::Again && tries < TRIES {
                continue;
            }
            if kind != Kind::World && group.len() > 1 {
                // One commit made the group fail: find out which, and let the others pass.
                let mut outcomes = Vec::with_capacity(group.len());
                for waiting in group {
                    outcomes.extend(Box::pin(self.outcomes(std::slice::from_ref(waiting))).await);
                }
                return outcomes;
            }
            return vec![Outcome::Refused(self.note(&stop.failure)); group.len()];
        }
    }

    /// Whether the group makes nothing but new tasks, as far as one can tell, and there are numbers for them.
    fn only_opens(&self, group: &[Waiting]) -> bool {
        let opens = group.iter().map(|waiting| pen::only_opens(&waiting.commit)).sum::<Option<i64>>();
        opens.is_some_and(|opens| opens <= self.numbers.left())
    }

    /// One try: two round trips, or one if it is a bet.
    async fn attempt(&mut self, group: &[Waiting], bet: bool) -> Result<Vec<Option<Conflict>>, Stop> {
        let commits: Vec<&Commit> = group.iter().map(|waiting| &waiting.commit).collect();
        let lease = self.shared.options.lease;
        self.connect().await?;
        self.intern(&commits).await?;
        let Some(db) = &self.db else {
            return Err(Fault::Slow.into());
        };
        let judge = self.shared.replica.judge();
        let mut bet = bet;
        let (slate, conflicts) = loop {
            let mut slate = if bet {
                Slate::blank(judge.me, &mut self.numbers, &self.names)
            } else {
                // Waiting for locks ends after a lease.
                in_time(lease * 2, Box::pin(Slate::load(db, &judge, &commits, &mut self.numbers, &self.names))).await?
            };
            let conflicts = commits.iter().map(|commit| slate.commit(commit)).collect::<Result<Vec<_>, _>>()?;
            // One that met another of its group might have met something else before, of which the slate knows nothing.
            if bet && conflicts.iter().any(Option::is_some) {
                bet = false;
                continue;
            }
            break (slate, conflicts);
        };
        if slate.is_blank() {
            if !bet {
                in_time(lease, async { Ok(db.run("ROLLBACK").await?) }).await?;
            }
            return Ok(conflicts);
        }
        let bytes: usize = group.iter().map(|waiting| waiting.weight).sum();
        let patience = WRITE_PATIENCE + Duration::from_secs(bytes as u64 / WRITE_BYTES_PER_SECOND);
        let writing = Box::pin(slate.write(db, self.shared.replica.slot, bet));
        let peers = match tokio::time::timeout(patience, writing).await {
            Ok(Ok(peers)) => peers,
            Ok(Err(Unwritten { error, refused })) => return Err(Stop { failure: error.into(), sent: !refused }),
            Err(_) => return Err(Stop { failure: Fault::Slow.into(), sent: true }),
        };
        if peers {
            self.shared.teller.tell(slate.news);
        }
        Ok(conflicts)
    }

    /// A connection that can be used, as far as one can know.
    async fn connect(&mut self) -> Result<(), Failure> {
        if self.db.as_ref().is_none_or(Conn::is_closed) {
            self.db = Some(open(&self.shared).await?);
        }
        Ok(())
    }

    /// Gives a number to every name that has none. Names are never removed, so that needs no transaction.
    async fn intern(&mut self, commits: &[&Commit]) -> Result<(), Failure> {
        let Some(db) = &self.db else {
            return Err(Fault::Slow.into());
        };
        let unknown: Vec<&[u8]> = pen::names(commits)
            .into_iter()
            .filter(|name| !self.names.contains_key(*name))
            .map(|name| name.as_bytes())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let found = in_time(self.shared.options.lease * 2, async {
            let (added, found) = join!(
                biased;
                db.execute(&sql::NAMES_ADD, [&unknown]),
                db.query(&sql::NAMES, [&unknown]),
            );
            added?;
            Ok(found?)
        });
        let found = read::names_from(&found.await?)?;
        if self.names.len() > NAMES {
            // Those of this group that were known are asked for again.
            self.names.clear();
            return Box::pin(self.intern(commits)).await;
        }
        self.names.extend(found);
        Ok(())
    }

    async fn roll_back(&mut self) {
        let Some(db) = &self.db else { return };
        // A transaction that COMMIT has ended is none any more; that is only a warning.
        let ended = in_time(self.shared.options.lease, async { Ok(db.run("ROLLBACK").await?) }).await;
        if ended.is_err() {
            self.db = None;
        }
    }

    async fn errand(&mut self, errand: Errand) {
        match errand {
            Errand::Purge { before, keys_before, limit, answer } => {
                let _ = answer.send(self.purge(before, keys_before, limit).await);
            }
            Errand::Remove { task, answer } => {
                let gone = self.remove(&Which::One(task)).await;
                let _ = answer.send(gone.map(|gone| !gone.is_empty()));
            }
        }
    }

    async fn purge(&mut self, before: Time, keys_before: Time, limit: usize) -> Result<u64, Trouble> {
        let gone = self.remove(&Which::Old { before, limit }).await?;
        let mut tries = 0;
        loop {
            let done = match self.connect().await {
                Ok(()) => match &self.db {
                    Some(db) => {
                        in_time(WRITE_PATIENCE, purge::forget_keys(db, keys_before, self.shared.replica.slot)).await
                    }
                    None => Err(Fault::Slow.into()),
                },
                Err(failure) => Err(failure),
            };
            match done {
                Ok(()) => return Ok(gone.len() as u64),
                Err(failure) => self.again(failure, &mut tries).await?,
            }
        }
    }

    async fn remove(&mut self, which: &Which) -> Result<Vec<TaskId>, Trouble> {
        let mut tries = 0;
        loop {
            let done = match self.connect().await {
                Ok(()) => match &self.db {
                    Some(db) => in_time(WRITE_PATIENCE, purge::remove(db, which, self.shared.replica.slot)).await,
                    None => Err(Fault::Slow.into()),
                },
                Err(failure) => Err(failure),
            };
            match done {
                Ok(gone) => {
                    self.recovered();
                    self.shared.teller.tell(News::removed(gone.iter().copied()));
                    return Ok(gone);
                }
                Err(failure) => self.again(failure, &mut tries).await?,
            }
        }
    }

    /// Readies for another try, or gives up.
    async fn again(&mut self, failure: Failure, tries: &mut u32) -> Result<(), Trouble> {
        *tries += 1;
        match kind(&failure) {
            Kind::Lost => self.db = None,
            Kind::Again | Kind::World | Kind::Own => self.roll_back().await,
        }
        if kind(&failure) == Kind::Again && *tries < TRIES { Ok(()) } else { Err(self.note(&failure)) }
    }

    fn note(&self, failure: &Failure) -> Trouble {
        let named = trouble::of(failure);
        match kind(failure) {
            Kind::Lost | Kind::World => {
                // Said once: while it lasts, every group meets it.
                if self.shared.trouble.lock().replace(named.clone()).is_none() {
                    tracing::error!(%failure, "the store cannot write");
                }
            }
            Kind::Again | Kind::Own => tracing::error!(%failure, "a commit could not be written"),
        }
        named
    }

    fn recovered(&self) {
        if self.shared.trouble.lock().take().is_some() {
            tracing::info!("the store can write again");
        }
    }

    /// With trouble and without work: is the database there again, and does it take writes?
    async fn probe(&mut self) {
        let probed = match self.connect().await {
            Ok(()) => match &self.db {
                Some(db) => in_time(self.shared.options.lease, async { Ok(db.run(PROBE).await?) }).await,
                None => Err(Fault::Slow.into()),
            },
            Err(failure) => Err(failure),
        };
        match probed {
            Ok(()) => self.recovered(),
            Err(failure) => {
                self.db = None;
                *self.shared.trouble.lock() = Some(trouble::of(&failure));
            }
        }
    }
}

/// Writes, and changes nothing.
const PROBE: &str = "UPDATE rialto.meta SET version = version";

/// A connection with all that the writer needs.
pub(super) async fn open(shared: &Shared) -> Result<Conn, Fault> {
    let mut db = shared.target.connect().await?;
    match tokio::time::timeout(shared.options.lease * 2, db.prepare(sql::WRITER)).await {
        Ok(prepared) => prepared?,
        Err(_) => return Err(Fault::Slow),
    }
    Ok(db)
}

fn kind(failure: &Failure) -> Kind {
    match failure {
        Failure::Fault(fault) => trouble::kind(fault),
        Failure::Damaged(_) => Kind::Own,
    }
}

/// Nothing hangs for ever, whatever became of the other end.
async fn in_time<T>(patience: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(patience, work).await.unwrap_or(Err(Failure::Fault(Fault::Slow)))
}
