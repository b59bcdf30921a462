//! The writer: takes the waiting commits, makes a group of them, and answers each commit after the group's flush. Under load
//! groups are larger and a commit is cheaper.
//!
//! A fault of the connection decides the outcome of a commit. Before COMMIT was sent, nothing has happened, and the
//! group is done again on another connection, for a while. After that the next connection decides it by the `fence`: the
//! group has happened, or it is done again. A commit that cannot be decided within the store's time limit is answered as unknown,
//! and `TaskLog::decided` resolves when a read is conclusive again. An error fails a group, never the writer: `health`
//! reports it, and the next group tries again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::ports::store::{Commit, Conflict, Outcome, StoreError};
use model::{TaskId, Time};
use tokio::join;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Shared;
use super::apply::{self, CommitGroup, Numbers};
use super::connect::{Conn, ConnectError};
use super::fence::{self, Fence, Raised, Verdict};
use super::notify::GroupChanges;
use super::purge::{self, PurgeScope};
use super::queue::{MaintenanceJob, TimedCommit, WriterWork};
use super::trouble::{self, ErrorClass, Failure, Unwritten};
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
/// Large parts may take a while on a slow line.
const WRITE_BYTES_PER_SECOND: u64 = 1 << 20;
/// Between two tries to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Closes the queue however the writer ends, so that no caller waits in vain.
struct DropGuard(Arc<Shared>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// Runs until the queue is closed and empty.
pub(super) async fn run(shared: Arc<Shared>, first: WriterConnection) {
    let _farewell = DropGuard(shared.clone());
    let mut fence = Fence::default();
    fence.take(first.raised);
    let mut writer = Writer {
        shared,
        db: Some(first.db),
        dialing: None,
        fence,
        names: HashMap::new(),
        numbers: Numbers::default(),
        carried: None,
    };
    loop {
        let patience = writer.shared.trouble.lock().is_some().then_some(PROBE_EVERY);
        match writer.shared.queue.take(patience).await {
            WriterWork::Group(group) => writer.group(group).await,
            WriterWork::Maintenance(maintenance) => writer.maintenance(maintenance).await,
            WriterWork::Nothing => writer.probe().await,
            WriterWork::Closed => return,
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    db: Option<Conn>,
    /// The next connection. It is made whether or not a group still waits for it.
    dialing: Option<JoinHandle<Result<WriterConnection, ConnectError>>>,
    fence: Fence,
    names: HashMap<Arc<str>, i32>,
    numbers: Numbers,
    /// When the connection has last carried a group through.
    carried: Option<Instant>,
}

/// The reason a group failed, as far as it is known.
struct Stop {
    failure: Failure,
    /// COMMIT was on its way, and what became of it is not known.
    sent: Option<Sent>,
}

/// The answers and notifications of a group if it happened.
struct Sent {
    conflicts: Vec<Option<Conflict>>,
    group_changes: GroupChanges,
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop { failure: error.into(), sent: None }
    }
}

impl Writer {
    /// Commits a group and answers each of it.
    async fn group(&mut self, group: Vec<TimedCommit>) {
        let outcomes = self.outcomes(&group).await;
        for (waiting, outcome) in group.into_iter().zip(outcomes) {
            if let Outcome::Conflict(Conflict::Seq(task, seq)) = &outcome {
                tracing::trace!(%task, %seq, "a commit came too late");
            }
            // The caller may have gone; the commit happened all the same.
            let _ = waiting.answer.send(outcome);
        }
    }

    async fn outcomes(&mut self, group: &[TimedCommit]) -> Vec<Outcome> {
        let refused = |trouble: StoreError| vec![Outcome::Refused(trouble); group.len()];
        let (now, options) = (Instant::now(), &self.shared.options);
        let known = self.shared.trouble.lock().clone();
        // One group waits for the database to come back. Those after it would wait for nothing.
        let (deadline, again_until) = match &known {
            None => (now + options.bound(), now + options.lease / 2),
            Some(_) => {
                let since = group.iter().map(|waiting| waiting.since).min().unwrap_or(now);
                ((since + options.bound()).min(now + options.short_bound()), now)
            }
        };
        if let Some(trouble) = known.filter(|_| deadline <= now) {
            return refused(trouble);
        }
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        let mut bet = self.carried.is_some_and(|at| at.elapsed() < TRUST) && self.only_opens(group);
        loop {
            let betting = std::mem::take(&mut bet);
            let stop = match self.attempt(group, betting, deadline).await {
                Ok(conflicts) => {
                    self.carried = Some(Instant::now());
                    self.recovered();
                    return answers(conflicts);
                }
                Err(stop) => stop,
            };
            let kind = kind(&stop.failure);
            tracing::debug!(failure = %stop.failure, ?kind, sent = stop.sent.is_some(), "a commit group failed");
            if let Some(sent) = stop.sent {
                self.fence.doubt();
                self.lose();
                match self.decide(deadline).await {
                    Some(Verdict::Happened) => {
                        self.recovered();
                        self.shared.notifier.announce(sent.group_changes);
                        return answers(sent.conflicts);
                    }
                    // A server that has stopped over this group would do so again.
                    Some(Verdict::Failed) if kind == ErrorClass::Lost && Instant::now() < deadline => continue,
                    Some(Verdict::Failed) => return refused(self.note(&stop.failure)),
                    Some(Verdict::Lost) => return vec![Outcome::Unknown(self.note(&stop.failure)); group.len()],
                    None => {
                        self.shared.undecided.send_replace(true);
                        return vec![Outcome::Unknown(self.note(&stop.failure)); group.len()];
                    }
                }
            }
            match kind {
                ErrorClass::Lost => {
                    self.lose();
                    if Instant::now() >= again_until.min(deadline) {
                        return refused(self.note(&stop.failure));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PROBE_EVERY);
                    continue;
                }
                ErrorClass::Again => tries += u32::from(!betting),
                ErrorClass::World => {}
                ErrorClass::Own => tries = TRIES,
            }
            self.roll_back().await;
            if kind == ErrorClass::Again && tries < TRIES && Instant::now() < deadline {
                continue;
            }
            if kind == ErrorClass::Again && Instant::now() >= deadline {
                return refused(self.note(&stop.failure));
            }
            if kind != ErrorClass::World && group.len() > 1 {
                // One commit made the group fail: find out which, and let the others pass.
                let mut outcomes = Vec::with_capacity(group.len());
                for waiting in group {
                    outcomes.extend(Box::pin(self.outcomes(std::slice::from_ref(waiting))).await);
                }
                return outcomes;
            }
            return refused(self.note(&stop.failure));
        }
    }

    /// The end of the group in doubt; `None` if no connection could tell in time.
    async fn decide(&mut self, deadline: Instant) -> Option<Verdict> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect(deadline).await {
                Ok(verdict) => return verdict.or(Some(Verdict::Lost)),
                Err(_) if Instant::now() + pause >= deadline => return None,
                Err(failure) => {
                    tracing::debug!(%failure, "a commit in doubt is not decided yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PROBE_EVERY);
                }
            }
        }
    }

    /// The connection is given up.
    fn lose(&mut self) {
        (self.db, self.carried) = (None, None);
        self.fence.lower();
    }

    /// Whether the group makes nothing but new tasks, as far as one can tell, and there are numbers for them.
    fn only_opens(&self, group: &[TimedCommit]) -> bool {
        let opens = group.iter().map(|waiting| apply::only_opens(&waiting.commit)).sum::<Option<i64>>();
        opens.is_some_and(|opens| opens <= self.numbers.left())
    }

    /// One try: two round trips, or one if it is a bet.
    async fn attempt(
        &mut self,
        group: &[TimedCommit],
        bet: bool,
        deadline: Instant,
    ) -> Result<Vec<Option<Conflict>>, Stop> {
        let commits: Vec<&Commit> = group.iter().map(|waiting| &waiting.commit).collect();
        self.connect(deadline).await?;
        self.intern(&commits, deadline).await?;
        let Some(db) = &self.db else {
            return Err(ConnectError::Slow.into());
        };
        let liveness = self.shared.replica.liveness();
        let mut bet = bet;
        let (mut commit_group, conflicts) = loop {
            let mut commit_group = if bet {
                CommitGroup::blank(liveness.me, &mut self.numbers, &self.names)
            } else {
                by(deadline, Box::pin(CommitGroup::load(db, &liveness, &commits, &mut self.numbers, &self.names)))
                    .await?
            };
            let conflicts = commits.iter().map(|commit| commit_group.commit(commit)).collect::<Result<Vec<_>, _>>()?;
            // One that met another of its group might have met something else before, of which the group knows nothing.
            if bet && conflicts.iter().any(Option::is_some) {
                bet = false;
                continue;
            }
            break (commit_group, conflicts);
        };
        if commit_group.is_blank() {
            if !bet {
                by(deadline, async { Ok(db.run("ROLLBACK").await?) }).await?;
            }
            return Ok(conflicts);
        }
        let bytes: usize = group.iter().map(|waiting| waiting.weight).sum();
        let written_by = deadline + Duration::from_secs(bytes as u64 / WRITE_BYTES_PER_SECOND);
        let pass = self.fence.next()?;
        let writing = Box::pin(commit_group.write(db, self.shared.replica.slot, bet, pass));
        let unwritten = match tokio::time::timeout_at(written_by, writing).await {
            Ok(Ok(peers)) => {
                if peers {
                    self.shared.notifier.announce(commit_group.group_changes);
                }
                return Ok(conflicts);
            }
            Ok(Err(unwritten)) => unwritten,
            Err(_) => Unwritten { fault: ConnectError::Slow, refused: false },
        };
        let sent = (!unwritten.refused)
            .then(|| Sent { conflicts, group_changes: std::mem::take(&mut commit_group.group_changes) });
        Err(Stop { failure: unwritten.fault.into(), sent })
    }

    /// A connection that can be used, as far as one can know. One that is new decides what was in doubt.
    async fn connect(&mut self, deadline: Instant) -> Result<Option<Verdict>, Failure> {
        if self.db.as_ref().is_some_and(|db| !db.is_closed()) {
            return Ok(None);
        }
        self.lose();
        let dialing = self.dialing.get_or_insert_with(|| {
            let (shared, old) = (self.shared.clone(), self.fence.backend());
            tokio::spawn(async move { open(&shared, old).await })
        });
        let Ok(opened) = tokio::time::timeout_at(deadline, dialing).await else {
            return Err(ConnectError::Slow.into());
        };
        self.dialing = None;
        let WriterConnection { db, raised } = opened.unwrap_or(Err(ConnectError::Slow))?;
        let verdict = self.fence.take(raised);
        self.db = Some(db);
        if verdict.is_some() {
            self.shared.undecided.send_replace(false);
        }
        Ok(verdict)
    }

    /// Gives a number to every name that has none. Names are never removed, so that needs no transaction.
    async fn intern(&mut self, commits: &[&Commit], deadline: Instant) -> Result<(), Failure> {
        let Some(db) = &self.db else {
            return Err(ConnectError::Slow.into());
        };
        let unknown: Vec<&[u8]> = apply::names(commits)
            .into_iter()
            .filter(|name| !self.names.contains_key(*name))
            .map(|name| name.as_bytes())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let found = by(deadline, async {
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
            return Box::pin(self.intern(commits, deadline)).await;
        }
        self.names.extend(found);
        Ok(())
    }

    async fn roll_back(&mut self) {
        let Some(db) = &self.db else { return };
        // A transaction that COMMIT has ended is none any more; that is only a warning.
        let soon = Instant::now() + self.shared.options.short_bound();
        let ended = by(soon, async { Ok(db.run("ROLLBACK").await?) }).await;
        if ended.is_err() {
            self.lose();
        }
    }

    async fn maintenance(&mut self, maintenance: MaintenanceJob) {
        match maintenance {
            MaintenanceJob::Purge { before, keys_before, limit, answer } => {
                let _ = answer.send(self.purge(before, keys_before, limit).await);
            }
            MaintenanceJob::Remove { task, answer } => {
                let gone = self.remove(&PurgeScope::One(task)).await;
                let _ = answer.send(gone.map(|gone| !gone.is_empty()));
            }
        }
    }

    async fn purge(&mut self, before: Time, keys_before: Time, limit: usize) -> Result<u64, StoreError> {
        let gone = self.remove(&PurgeScope::Old { before, limit }).await?;
        let mut tries = 0;
        loop {
            let deadline = Instant::now() + self.shared.options.bound();
            let done = match self.connect(deadline).await {
                Ok(_) => match &self.db {
                    Some(db) => by(deadline, purge::forget_keys(db, keys_before, self.shared.replica.slot)).await,
                    None => Err(ConnectError::Slow.into()),
                },
                Err(failure) => Err(failure),
            };
            match done {
                Ok(()) => return Ok(gone.len() as u64),
                Err(failure) => self.again(failure, &mut tries).await?,
            }
        }
    }

    async fn remove(&mut self, which: &PurgeScope) -> Result<Vec<TaskId>, StoreError> {
        let mut tries = 0;
        loop {
            let deadline = Instant::now() + self.shared.options.bound();
            let done = match self.connect(deadline).await {
                Ok(_) => match &self.db {
                    Some(db) => by(deadline, purge::remove(db, which, self.shared.replica.slot)).await,
                    None => Err(ConnectError::Slow.into()),
                },
                Err(failure) => Err(failure),
            };
            match done {
                Ok(gone) => {
                    self.recovered();
                    self.shared.notifier.announce(GroupChanges::removed(gone.iter().copied()));
                    return Ok(gone);
                }
                Err(failure) => self.again(failure, &mut tries).await?,
            }
        }
    }

    /// Readies for another try, or gives up.
    async fn again(&mut self, failure: Failure, tries: &mut u32) -> Result<(), StoreError> {
        *tries += 1;
        match kind(&failure) {
            ErrorClass::Lost => self.lose(),
            ErrorClass::Again | ErrorClass::World | ErrorClass::Own => self.roll_back().await,
        }
        if kind(&failure) == ErrorClass::Again && *tries < TRIES { Ok(()) } else { Err(self.note(&failure)) }
    }

    fn note(&self, failure: &Failure) -> StoreError {
        let named = trouble::of(failure);
        match kind(failure) {
            ErrorClass::Lost | ErrorClass::World => {
                // Said once: while it lasts, every group meets it.
                if self.shared.trouble.lock().replace(named.clone()).is_none() {
                    tracing::error!(%failure, "the store cannot write");
                }
            }
            ErrorClass::Again | ErrorClass::Own => tracing::error!(%failure, "a commit could not be written"),
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
        let deadline = Instant::now() + self.shared.options.bound() / 2;
        let probed = match self.connect(deadline).await {
            Ok(_) => match &self.db {
                Some(db) => by(deadline, async { Ok(db.run(PROBE).await?) }).await,
                None => Err(ConnectError::Slow.into()),
            },
            Err(failure) => Err(failure),
        };
        match probed {
            Ok(()) => self.recovered(),
            Err(failure) => {
                self.lose();
                *self.shared.trouble.lock() = Some(trouble::of(&failure));
            }
        }
    }
}

/// Writes, and changes nothing.
const PROBE: &str = "UPDATE rialto.meta SET version = version";

/// A connection of the writer that has raised the fence.
pub(super) struct WriterConnection {
    db: Conn,
    raised: Raised,
}

/// A connection with all that the writer needs, in place of `old`.
pub(super) async fn open(shared: &Shared, old: Option<fence::BackendId>) -> Result<WriterConnection, ConnectError> {
    let mut db = shared.target.connect().await?;
    let ready = async {
        if !db.is_pooled() {
            // A COMMIT that waits for a synchronous standby is not cut short.
            db.run("SET statement_timeout = 0").await?;
        }
        db.prepare(sql::WRITER).await?;
        let raised = fence::raise(&db, shared.replica.no, old).await?;
        Ok::<_, ConnectError>(raised)
    };
    // Waiting for the last transaction ends after a lease.
    let raised = tokio::time::timeout(shared.options.lease * 2, ready).await.map_err(|_| ConnectError::Slow)??;
    Ok(WriterConnection { db, raised })
}

fn answers(conflicts: Vec<Option<Conflict>>) -> Vec<Outcome> {
    conflicts.into_iter().map(|conflict| conflict.map_or(Outcome::Done, Outcome::Conflict)).collect()
}

fn kind(failure: &Failure) -> ErrorClass {
    match failure {
        Failure::Connect(fault) => trouble::kind(fault),
        Failure::Damaged(_) => ErrorClass::Own,
    }
}

/// Nothing hangs for ever, whatever became of the other end.
async fn by<T>(deadline: Instant, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout_at(deadline, work).await.unwrap_or(Err(Failure::Connect(ConnectError::Slow)))
}
