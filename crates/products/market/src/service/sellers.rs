//! Work without a person: agents of this server, callbacks, workers, parties that act alone, and deadlines.
//!
//! All state is in the store. After every step of a purchase, [`Market::drive`] performs the next automatic step, if
//! there is one. The step has set the task's timer to the time by which that must have happened; [`Clockwork`] then
//! looks at the purchase again, in any process. The rules refuse a repeated action.
//!
//! * `agent`: a purchase runs a turn of an agent of this server
//! * `callback`: calls of a seller's endpoint
//! * `jobs`: work for a seller's program
//! * `auto_sellers`: parties that act alone, for demos

mod agent;
mod auto_sellers;
mod callback;
mod jobs;

use std::collections::HashMap;
use std::sync::Arc;

use ledger::TransactionId;
use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Actor, Served, Transaction};
use model::ports::Future;
use model::ports::task_driver::TaskDriver;
use model::{Expect, TaskId, Time};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::service::records;
use crate::service::{Error, Market, MarketConfig, User};

pub(crate) use callback::Calls;
pub use jobs::{Job, JobAct, JobEvent, Jobs};

/// Concurrent and waiting purchases in this process. Others are taken up when their timer fires.
const AT_ONCE: usize = 256;
const WAITING: usize = 4_096;
/// Shortest and longest time until running work is checked again; it grows with the duration of the work.
const BACKUP_MS: u64 = 10_000;
const BACKUP_MOST_MS: u64 = 60_000;
/// Time until a purchase of a tenant that is not served is checked again.
const ELSEWHERE_MS: u64 = 3_600_000;
/// Time until a failed automatic step is tried again.
const LATER_MS: u64 = 60_000;

/// Purchases whose work goes on in this process.
pub(crate) struct RunningSales {
    /// Whether each has changed since its worker last read it.
    busy: Mutex<HashMap<TaskId, bool>>,
    room: Arc<Semaphore>,
    jobs: jobs::JobSignal,
}

impl Default for RunningSales {
    fn default() -> RunningSales {
        RunningSales {
            busy: Mutex::default(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            jobs: jobs::JobSignal::default(),
        }
    }
}

impl RunningSales {
    /// Claims a purchase; if it is claimed already, marks it as changed for its worker.
    fn take(&self, task: TaskId) -> bool {
        let mut busy = self.busy.lock();
        if let Some(news) = busy.get_mut(&task) {
            *news = true;
            return false;
        }
        if busy.len() >= AT_ONCE + WAITING {
            return false;
        }
        busy.insert(task, false);
        true
    }

    /// Releases the claim, unless the purchase has changed.
    fn let_go(&self, task: TaskId) -> bool {
        let mut busy = self.busy.lock();
        match busy.get_mut(&task) {
            Some(news) if *news => {
                *news = false;
                false
            }
            Some(_) | None => {
                busy.remove(&task);
                true
            }
        }
    }
}

/// Frees the claim when the work ends, in any way.
struct Taken<'a>(&'a RunningSales, TaskId);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().remove(&self.1);
    }
}

/// The result of work on a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkResult {
    /// The purchase has changed; another step may follow.
    On,
    /// Nothing to do until the timer fires or a party acts.
    Rests,
    /// Retry at this time.
    Again(Time),
}

/// Receives the deadlines of purchases from the engine.
pub(crate) struct Clockwork(pub(crate) Market);

impl TaskDriver for Clockwork {
    fn due(&self, task: TaskId) -> Future<'_, ()> {
        Box::pin(async move {
            // The engine reports the deadline again later, here or in another process.
            if self.0.engine().is_draining() {
                return;
            }
            if let Err(refused) = self.0.look(task.into()).await {
                tracing::warn!(%task, "a purchase is looked at again later: {refused}");
            }
        })
    }
}

/// Whether a machine acts next: the platform accepts, or the work is done.
fn by_machine(row: &Transaction) -> bool {
    match (row.status, &row.served) {
        (Status::Frozen, Served::Agent(_) | Served::Callback { .. } | Served::Person) => row.auto_accept,
        (Status::Accepted, Served::Agent(_) | Served::Callback { .. }) => true,
        // A worker accepts when it fetches the job.
        (Status::Frozen | Status::Accepted, Served::Worker) | (Status::Accepted, Served::Person) => false,
        (
            Status::PendingFreeze
            | Status::Delivered
            | Status::Settled
            | Status::CancelledByBuyer
            | Status::RejectedBySeller
            | Status::Failed,
            _,
        ) => false,
    }
}

/// The time of the next check of a purchase: its deadline, or earlier where a party acts automatically; `None` if
/// never. The step's commit sets the timer to it.
pub(crate) fn look_at(
    transaction: &Transaction,
    buyer: Option<&User>,
    seller: Option<&User>,
    config: &MarketConfig,
    now: Time,
) -> Option<Time> {
    if transaction.status.is_terminal() {
        return None;
    }
    let due = transaction.due.map(|due| due.at);
    let alone = auto_sellers::acts_at(transaction, buyer, seller, config);
    // Covers a crash between the commit and the automatic step.
    let machine = by_machine(transaction).then(|| {
        let age = u64::try_from(now.0.saturating_sub(transaction.updated_at.0)).unwrap_or_default();
        now.plus_ms((age / 2).clamp(BACKUP_MS, BACKUP_MOST_MS))
    });
    [due, alone, machine].into_iter().flatten().min()
}

impl Market {
    /// Performs automatic steps of this purchase in the background. Called after each step.
    pub(crate) fn drive(&self, transaction: &Transaction) {
        if transaction.served == Served::Worker && transaction.status == Status::Frozen {
            self.shared.at_work.jobs.ring();
        }
        if by_machine(transaction) && self.serves() {
            self.work(transaction.id, false);
        }
    }

    /// Performs automatic steps until there is nothing to do. `again` if work may have begun before.
    fn work(&self, id: TransactionId, again: bool) {
        if self.engine().is_draining() || !self.shared.at_work.take(id.0) {
            return;
        }
        let market = self.clone();
        tokio::spawn(async move {
            let at_work = &market.shared.at_work;
            let taken = Taken(at_work, id.0);
            let Ok(_room) = at_work.room.clone().acquire_owned().await else { return };
            let mut again = again;
            loop {
                match market.work_once(id, again).await {
                    Ok(WorkResult::On) => {
                        again = false;
                        continue;
                    }
                    Ok(WorkResult::Rests) => {}
                    Ok(WorkResult::Again(at)) => {
                        if let Err(refused) = market.look_again(id, at).await {
                            tracing::warn!(task = %id.0, "a purchase is looked at again later: {refused}");
                        }
                    }
                    Err(refused) => tracing::warn!(task = %id.0, "a purchase is worked on again later: {refused}"),
                }
                if at_work.let_go(id.0) {
                    break;
                }
            }
            // The claim is released already, and another worker may hold it.
            std::mem::forget(taken);
        });
    }

    /// Performs the next automatic step.
    async fn work_once(&self, id: TransactionId, again: bool) -> Result<WorkResult, Error> {
        if self.engine().is_draining() {
            return Ok(WorkResult::Rests);
        }
        let row = self.read_transaction(id).await?;
        if !by_machine(&row) {
            return Ok(WorkResult::Rests);
        }
        match (row.status, &row.served) {
            (Status::Frozen, Served::Callback { .. }) if self.is_async(&row).await? => self.tell_of_it(&row).await,
            (Status::Frozen, _) => self.on_behalf(&row, TransactionAction::Accept).await,
            (_, Served::Agent(agent)) => self.serve_by_agent(&row, agent, again).await,
            (_, Served::Callback { .. }) if self.is_async(&row).await? => Ok(WorkResult::Rests),
            (_, Served::Callback { url, timeout_s }) => self.serve_by_callback(&row, url, *timeout_s).await,
            (_, Served::Worker | Served::Person) => Ok(WorkResult::Rests),
        }
    }

    /// An action of the platform. A refusal means that a concurrent step was first.
    async fn on_behalf(&self, row: &Transaction, action: TransactionAction) -> Result<WorkResult, Error> {
        match self.act(&Actor::Platform, row.id, action, None).await {
            Ok(_) => Ok(WorkResult::On),
            Err(Error::Rule(refusal)) => {
                tracing::debug!(task = %row.id.0, "not done for a purchase: {refusal}");
                Ok(WorkResult::Rests)
            }
            Err(refused) => Err(refused),
        }
    }

    async fn fail(&self, row: &Transaction, words: impl Into<Arc<str>>) -> Result<WorkResult, Error> {
        self.on_behalf(row, TransactionAction::Fail { reason: Some(words.into()) }).await
    }

    /// Sets the timer of a purchase that is under way to this time, but not past its deadline.
    async fn look_again(&self, id: TransactionId, at: Time) -> Result<(), Error> {
        let row = self.read_transaction(id).await?;
        if !row.status.is_terminal() {
            let at = row.due.map_or(at, |due| due.at.min(at));
            self.set_timer(&row, Some(at)).await?;
        }
        Ok(())
    }

    /// Sets the timer of a purchase that has not moved since this row was read. If it has moved, that step has set the
    /// timer.
    pub(crate) async fn set_timer(&self, row: &Transaction, at: Option<Time>) -> Result<bool, Error> {
        let key = records::transaction_key(row.id);
        let rests_on = vec![records::TRANSACTIONS.leave(key, Expect::Version(row.version))];
        Ok(self.engine().set_deadline_while(row.id.0, at, rests_on).await?)
    }

    /// Handles a timer: performs what is due and sets the timer to the next check.
    async fn look(&self, id: TransactionId) -> Result<(), Error> {
        let found = self.read(records::TRANSACTIONS, records::transaction_key(id)).await?;
        let row = match found {
            Some((row, _)) if row.tenant == self.config().tenant => row,
            // The market serves another tenant at present; keep the timer.
            Some((row, _)) => return self.set_timer(&row, Some(self.now().plus_ms(ELSEWHERE_MS))).await.map(drop),
            // No purchase has this id.
            None => return Ok(self.engine().set_deadline(id.0, None).await?),
        };
        let now = self.now();
        if let Some(due) = row.due.filter(|due| due.at <= now && !row.status.is_terminal()) {
            return match self.act(&Actor::Platform, id, TransactionAction::Due(due.deadline), None).await {
                Ok(over) => self.tidy(&over).await,
                // A concurrent step was first and has set the timer.
                Err(Error::Rule(_)) => Ok(()),
                Err(refused) => Err(refused),
            };
        }
        let mut next = self.look_at(&row).await?;
        if row.status.is_terminal() {
            self.tidy(&row).await?;
        } else if let Some((actor, action)) = self.alone(&row, now).await? {
            match self.act(&actor, id, action, None).await {
                Ok(_) => return Ok(()),
                Err(Error::Rule(refusal)) => {
                    tracing::debug!(task = %id.0, "a party cannot act alone: {refusal}");
                    let later = now.plus_ms(LATER_MS);
                    next = Some(row.due.map_or(later, |due| due.at.min(later)));
                }
                Err(refused) => return Err(refused),
            }
        } else if by_machine(&row) {
            if let Some(at) = self.rests_until(&row).await?.filter(|at| *at > now) {
                next = Some(row.due.map_or(at, |due| due.at.min(at)));
            } else {
                self.work(id, true);
            }
        }
        self.set_timer(&row, next).await.map(drop)
    }

    /// Removes the remains of a purchase that is no longer worked on.
    async fn tidy(&self, row: &Transaction) -> Result<(), Error> {
        match &row.served {
            Served::Agent(agent) => self.stop_agent(row, agent).await,
            Served::Callback { .. } => self.forget_calls(row.id).await,
            Served::Worker | Served::Person => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "sellers/tests.rs"]
mod tests;
