//! Turns that wait for a worker, and the leases of the others.
//!
//! The number of turns and their time limits are enforced around the agent (`limited`), not here. A lease is a
//! random token: its holder reports for the turn until it is silent for too long. Reports go to the turn's `run`
//! one at a time and are answered once emitted, so that nothing accumulates here; while a report is being processed
//! the lease does not expire.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::TurnId;
use model::ports::worker::{Attendance, LeaseStatus, Leased, ReportError, WorkerPresence, WorkerReport};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

/// Most ended turns to remember, to distinguish late reports from wrong ones.
const REMEMBERED: usize = 1_024;
/// Most workers in an answer to operators.
const MOST_SHOWN: usize = 200;
/// Most deliveries of one turn to remember.
const DELIVERIES: usize = 256;

pub(super) struct WorkerPool {
    table: Mutex<Table>,
    /// Notified when a turn waits, ends, changes its lease or is cancelled: for waiting workers.
    news: watch::Sender<()>,
    lease_ms: AtomicU64,
}

#[derive(Default)]
struct Table {
    waiting: VecDeque<TurnId>,
    jobs: HashMap<TurnId, Job>,
    /// Ended turns, oldest first, and the deliveries that were answered.
    over: VecDeque<(TurnId, Deliveries)>,
    entered: u64,
    /// Requests that wait for a turn, by the worker's name.
    connected: HashMap<String, u32>,
}

/// A running turn.
struct Job {
    /// Identifies the run of the turn, in case a new one starts before the last is gone.
    entry: u64,
    told: String,
    lease: Option<Lease>,
    cancelled: bool,
    deliveries: Deliveries,
    inbox: mpsc::Sender<PendingReport>,
    /// Notified when the lease changes: for the turn's run.
    changed: Arc<Notify>,
}

struct Lease {
    id: String,
    worker: String,
    until: Instant,
    /// Reports on their way to the turn's run.
    speaking: u32,
}

/// A worker's report on its way to the turn's run.
pub(super) struct PendingReport {
    pub(super) lease: String,
    pub(super) delivery: Option<String>,
    pub(super) word: WorkerReport,
    /// Whether this report ended the lease.
    pub(super) answer: oneshot::Sender<Result<bool, ReportError>>,
}

/// Deliveries with an id, and whether they ended the turn or gave it back.
#[derive(Default)]
struct Deliveries(VecDeque<(String, bool)>);

impl Deliveries {
    fn get(&self, id: Option<&str>) -> Option<bool> {
        let id = id?;
        self.0.iter().find(|(known, _)| known == id).map(|(_, over)| *over)
    }
    fn keep(&mut self, id: Option<String>, over: bool) {
        let Some(id) = id else { return };
        if self.0.len() == DELIVERIES {
            self.0.pop_front();
        }
        self.0.push_back((id, over));
    }
}

/// The state of a turn that a stream of notices watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchedState {
    Held,
    Cancelled,
    Gone,
}

impl WorkerPool {
    pub(super) fn new(lease_ms: u64) -> WorkerPool {
        WorkerPool { table: Mutex::default(), news: watch::Sender::new(()), lease_ms: AtomicU64::new(lease_ms) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn poke(&self) {
        self.news.send_replace(());
    }

    pub(super) fn lease_ms(&self) -> u64 {
        self.lease_ms.load(Ordering::Relaxed)
    }

    /// Applies from the next contact on.
    pub(super) fn set_lease_ms(&self, lease_ms: u64) {
        self.lease_ms.store(lease_ms, Ordering::Relaxed);
    }

    fn lasting_until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.lease_ms())
    }

    /// Leases the turn that has waited longest.
    pub(super) fn lease(&self, worker: &str) -> Option<Leased> {
        let mut table = self.table();
        let table = &mut *table;
        loop {
            let turn = table.waiting.pop_front()?;
            let Some(job) = table.jobs.get_mut(&turn) else { continue };
            let id = random();
            let until = self.lasting_until();
            job.lease = Some(Lease { id: id.clone(), worker: worker.to_owned(), until, speaking: 0 });
            job.changed.notify_one();
            return Some(Leased { turn, lease: id, lease_ms: self.lease_ms(), told: job.told.clone() });
        }
    }

    /// Notes that a worker waits for turns, until the answer is dropped.
    pub(super) fn connect(self: &Arc<WorkerPool>, worker: &str) -> Connected {
        *self.table().connected.entry(worker.to_owned()).or_default() += 1;
        Connected { pool: self.clone(), worker: worker.to_owned() }
    }

    pub(super) fn attendance(&self) -> Attendance {
        let table = self.table();
        let mut found: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for (worker, connections) in &table.connected {
            found.entry(worker).or_default().0 = *connections;
        }
        for lease in table.jobs.values().filter_map(|job| job.lease.as_ref()) {
            found.entry(&lease.worker).or_default().1 += 1;
        }
        let worker = |(name, (connections, turns)): (&str, (u32, u32))| WorkerPresence {
            name: name.to_owned(),
            connections,
            turns,
        };
        Attendance {
            waiting: table.waiting.len() as u64,
            workers: found.into_iter().take(MOST_SHOWN).map(worker).collect(),
        }
    }

    pub(super) fn standing(&self, turn: TurnId, lease: &str) -> WatchedState {
        match self.table().jobs.get(&turn) {
            Some(job) if job.holds(lease) => {
                if job.cancelled {
                    WatchedState::Cancelled
                } else {
                    WatchedState::Held
                }
            }
            Some(_) | None => WatchedState::Gone,
        }
    }

    /// Passes a worker's report to its turn.
    pub(super) async fn take(
        self: Arc<WorkerPool>,
        turn: TurnId,
        lease: String,
        delivery: Option<String>,
        word: WorkerReport,
    ) -> Result<LeaseStatus, ReportError> {
        // Two workers may use the same delivery ids.
        let delivery = delivery.map(|id| format!("{lease}\u{1f}{id}"));
        let inbox = {
            let mut table = self.table();
            let Some(job) = table.jobs.get_mut(&turn) else {
                let over = table.over.iter().rev().find(|(id, _)| *id == turn).ok_or(ReportError::Unknown)?;
                let repeated = over.1.get(delivery.as_deref()).ok_or(ReportError::Over)?;
                return Ok(LeaseStatus { cancelled: false, over: repeated, lease_ms: self.lease_ms() });
            };
            if let Some(over) = job.deliveries.get(delivery.as_deref()) {
                return Ok(LeaseStatus { cancelled: job.cancelled, over, lease_ms: self.lease_ms() });
            }
            let now = Instant::now();
            let held = job.lease.as_mut().filter(|held| held.id == lease && held.lasts(now));
            let held = held.ok_or(ReportError::NotYours)?;
            held.until = self.lasting_until();
            job.changed.notify_one();
            if word == WorkerReport::Alive {
                return Ok(LeaseStatus { cancelled: job.cancelled, over: false, lease_ms: self.lease_ms() });
            }
            held.speaking += 1;
            job.inbox.clone()
        };
        let _speaking = Speaking { pool: self.clone(), turn, lease: lease.clone() };
        let (answer, answered) = oneshot::channel();
        let said = PendingReport { lease, delivery, word, answer };
        // The run ended another way: cancelled, out of time, or over its output limit.
        inbox.send(said).await.map_err(|_| ReportError::Over)?;
        let over = answered.await.map_err(|_| ReportError::Over)??;
        let cancelled = self.table().jobs.get(&turn).is_some_and(|job| job.cancelled);
        Ok(LeaseStatus { cancelled, over, lease_ms: self.lease_ms() })
    }

    /// Adds a turn to the end of the queue.
    pub(super) fn enter(
        self: &Arc<WorkerPool>,
        turn: TurnId,
        told: String,
    ) -> (PoolEntry, mpsc::Receiver<PendingReport>) {
        let (inbox, heard) = mpsc::channel(1);
        let changed = Arc::new(Notify::new());
        let mut table = self.table();
        table.entered += 1;
        let entry = table.entered;
        let deliveries = Deliveries::default();
        let job = Job { entry, told, lease: None, cancelled: false, deliveries, inbox, changed: changed.clone() };
        table.over.retain(|(id, _)| *id != turn);
        if table.jobs.insert(turn, job).is_some() {
            table.waiting.retain(|id| *id != turn);
        }
        table.waiting.push_back(turn);
        drop(table);
        self.poke();
        (PoolEntry { pool: self.clone(), turn, entry, changed }, heard)
    }
}

impl Job {
    fn holds(&self, lease: &str) -> bool {
        self.lease.as_ref().is_some_and(|held| held.id == lease)
    }
}

impl Lease {
    fn lasts(&self, now: Instant) -> bool {
        now < self.until || self.speaking > 0
    }
}

/// A worker that waits for turns.
pub(super) struct Connected {
    pool: Arc<WorkerPool>,
    worker: String,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut table = self.pool.table();
        if let Some(number) = table.connected.get_mut(&self.worker) {
            *number -= 1;
            if *number == 0 {
                table.connected.remove(&self.worker);
            }
        }
    }
}

/// A worker that reports is alive; its lease time restarts when the report is done.
struct Speaking {
    pool: Arc<WorkerPool>,
    turn: TurnId,
    lease: String,
}

impl Drop for Speaking {
    fn drop(&mut self) {
        let mut table = self.pool.table();
        let Some(job) = table.jobs.get_mut(&self.turn) else { return };
        if let Some(held) = job.lease.as_mut().filter(|held| held.id == self.lease) {
            held.speaking = held.speaking.saturating_sub(1);
            held.until = self.pool.lasting_until();
            job.changed.notify_one();
        }
    }
}

/// A turn's entry in the pool, removed with its run.
pub(super) struct PoolEntry {
    pool: Arc<WorkerPool>,
    turn: TurnId,
    entry: u64,
    changed: Arc<Notify>,
}

impl PoolEntry {
    fn with<T>(&self, job: impl FnOnce(&mut Table, TurnId) -> T) -> Option<T> {
        let mut table = self.pool.table();
        let ours = table.jobs.get(&self.turn).is_some_and(|job| job.entry == self.entry);
        ours.then(|| job(&mut table, self.turn))
    }

    fn job<T>(&self, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        self.with(|table, turn| table.jobs.get_mut(&turn).map(change)).flatten()
    }

    /// Resolves when the lease may have changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The worker that holds the lease.
    pub(super) fn worker(&self) -> Option<String> {
        self.job(|job| job.lease.as_ref().map(|lease| lease.worker.clone())).flatten()
    }

    /// When the lease expires if the worker stays silent.
    pub(super) fn until(&self) -> Option<Instant> {
        self.job(|job| job.lease.as_ref().filter(|lease| lease.speaking == 0).map(|lease| lease.until)).flatten()
    }

    pub(super) fn is_held_by(&self, lease: &str) -> bool {
        self.job(|job| job.holds(lease)).unwrap_or(false)
    }

    pub(super) fn repeated(&self, delivery: Option<&str>) -> Option<bool> {
        self.job(|job| job.deliveries.get(delivery)).flatten()
    }

    pub(super) fn keep(&self, delivery: Option<String>, over: bool) {
        self.job(|job| job.deliveries.keep(delivery, over));
    }

    /// Ends an expired lease. Returns whether there was one.
    pub(super) fn expire(&self) -> bool {
        let now = Instant::now();
        self.job(|job| job.lease.take_if(|lease| !lease.lasts(now)).is_some()).unwrap_or(false)
    }

    /// The worker gives the turn back.
    pub(super) fn release(&self) {
        self.job(|job| job.lease = None);
        self.pool.poke();
    }

    /// Puts the turn back, first in the queue.
    pub(super) fn offer_again(&self, told: String) {
        self.with(|table, turn| {
            if let Some(job) = table.jobs.get_mut(&turn) {
                job.told = told;
            }
            table.waiting.push_front(turn);
        });
        self.pool.poke();
    }

    /// Tells the worker at its next contact. Returns whether there is a worker.
    pub(super) fn cancel(&self) -> bool {
        let held = self.job(|job| {
            job.cancelled = true;
            job.lease.is_some()
        });
        self.pool.poke();
        held.unwrap_or(false)
    }

    /// Removes the turn before its last emission.
    pub(super) fn leave(&self) {
        self.with(|table, turn| {
            table.waiting.retain(|id| *id != turn);
            let Some(job) = table.jobs.remove(&turn) else { return };
            if table.over.len() == REMEMBERED {
                table.over.pop_front();
            }
            table.over.push_back((turn, job.deliveries));
        });
        self.pool.poke();
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A random token.
fn random() -> String {
    use std::fmt::Write as _;
    let mut bytes = [0; 16];
    // Without randomness no lease can be given out; the system provides it from its start on.
    #[allow(clippy::expect_used)]
    getrandom::fill(&mut bytes).expect("the system's randomness");
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
