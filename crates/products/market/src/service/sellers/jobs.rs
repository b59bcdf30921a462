//! Jobs for a seller's own program, which fetches them. A job is a purchase that waits for its seller, or that the
//! seller has accepted: the program accepts, delivers or fails it in the seller's name.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ledger::{TransactionId, UserId};
use market_rules::transaction::{Deliverable, Role, Status, TransactionAction};
use market_rules::{Actor, Served, Transaction};
use model::{Json, Time};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::service::records::{self, PurchaseList};
use crate::service::{Error, Market, MarketCaller, MarketEntity, Once, Paging};

/// Heartbeat interval of a stream.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Time between looks at the store for purchases that other processes have frozen.
const LOOK: Duration = Duration::from_secs(2);
const PAGE: u32 = 200;
/// Number of jobs that are read for one seller; beyond that the newest come first.
const MOST: usize = 2_000;
/// Number of pages that are read.
const PAGES: u32 = 20;
/// A resumed stream repeats jobs that were frozen shortly before the last one it has seen: commits may be out of order.
const OVERLAP_MS: i64 = 10_000;
/// Number of remembered jobs to dispatch again.
const AGAIN: usize = 1_024;

/// A purchase that a program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub transaction: Transaction,
    /// It was accepted before, by this program or an earlier one.
    pub accepted: bool,
}

/// An event of a stream of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    Open,
    Dispatch(Box<Job>),
    Heartbeat,
}

/// A program's action on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAct {
    Accept,
    Reject {
        reason: Option<Arc<str>>,
    },
    /// The work continues.
    Heartbeat {
        progress: Option<Json>,
    },
    Deliver {
        result: Option<Json>,
        deliverables: Vec<Deliverable>,
    },
    /// Dispatch the job again.
    Fail {
        error: Option<Arc<str>>,
        retryable: bool,
    },
}

/// Signals new jobs, and lists those to dispatch again.
#[derive(Default)]
pub(super) struct JobSignal {
    count: watch::Sender<u64>,
    again: Mutex<VecDeque<(u64, UserId, TransactionId)>>,
}

impl JobSignal {
    pub(super) fn ring(&self) {
        self.count.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn again(&self, seller: &UserId, id: TransactionId) {
        let mut again = self.again.lock();
        if again.len() >= AGAIN {
            again.pop_front();
        }
        let number = again.back().map_or(0, |(last, ..)| last + 1);
        again.push_back((number, seller.clone(), id));
        drop(again);
        self.ring();
    }

    /// The jobs after a number, and the number to continue from.
    fn since(&self, after: Option<u64>, seller: &UserId) -> (Vec<TransactionId>, Option<u64>) {
        let again = self.again.lock();
        let new = again.iter().filter(|(number, of, _)| Some(*number) > after && of == seller).map(|(.., id)| *id);
        (new.collect(), again.back().map(|(last, ..)| *last).or(after))
    }
}

/// A stream of a seller's jobs.
pub struct Jobs {
    market: Market,
    seller: UserId,
    news: watch::Receiver<u64>,
    /// Jobs that were sent already, or seen before a resume.
    told: HashSet<TransactionId>,
    ready: VecDeque<Job>,
    opened: bool,
    /// A resumed stream has sent the jobs that were frozen before this time.
    since: Option<Time>,
    again: Option<u64>,
    heartbeat: tokio::time::Instant,
}

impl Jobs {
    /// The next event; `None` when the server stops.
    pub async fn next(&mut self) -> Option<Result<JobEvent, Error>> {
        if !self.opened {
            self.opened = true;
            return Some(Ok(JobEvent::Open));
        }
        loop {
            if self.market.engine().is_draining() {
                return None;
            }
            if let Some(job) = self.ready.pop_front() {
                return Some(Ok(JobEvent::Dispatch(Box::new(job))));
            }
            self.news.mark_unchanged();
            match self.find().await {
                Ok(()) if !self.ready.is_empty() => continue,
                Ok(()) => {}
                Err(refused) => return Some(Err(refused)),
            }
            tokio::select! {
                _ = self.news.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = tokio::time::sleep_until(self.heartbeat) => {
                    self.heartbeat = tokio::time::Instant::now() + HEARTBEAT;
                    return Some(Ok(JobEvent::Heartbeat));
                }
            }
        }
    }

    /// Finds jobs that were not sent yet, the oldest first.
    async fn find(&mut self) -> Result<(), Error> {
        let mut found = Vec::new();
        let list = records::purchases(Role::Seller, &self.market.config().tenant, &self.seller, PurchaseList::Job);
        let mut page = 1;
        while found.len() < MOST && page <= PAGES {
            let rows: crate::service::Paged<Transaction> =
                self.market.page(records::TRANSACTIONS, list.clone(), Paging { page, size: PAGE }).await?;
            // A resumed stream has sent the accepted jobs.
            found.extend(rows.items.into_iter().filter(|row| row.status == Status::Frozen || self.since.is_none()));
            if !rows.more {
                break;
            }
            page += 1;
        }
        // Forget jobs that no longer exist.
        let there: HashSet<TransactionId> = found.iter().map(|row| row.id).collect();
        let (again, number) = self.market.shared.at_work.jobs.since(self.again, &self.seller);
        self.again = number;
        for id in &again {
            self.told.remove(id);
            if !there.contains(id)
                && let Ok(row) = self.market.read_transaction(*id).await
                && row.status == Status::Accepted
            {
                found.push(row);
            }
        }
        self.told.retain(|id| there.contains(id));
        found.retain(|row| {
            let known = self.since.is_some_and(|since| row.frozen_at.is_none_or(|at| at < since));
            let wanted = !known || row.status == Status::Accepted || again.contains(&row.id);
            row.served == Served::Worker && !self.told.contains(&row.id) && wanted
        });
        found.sort_by_key(|row| (row.frozen_at, row.id));
        for row in found {
            self.told.insert(row.id);
            self.ready.push_back(Job { accepted: row.status == Status::Accepted, transaction: row });
        }
        Ok(())
    }
}

impl Market {
    /// The stream of jobs of a seller's program: first the waiting ones, then new ones. `last` is the last one that a
    /// resuming program has seen.
    pub async fn jobs(&self, caller: &MarketCaller, last: Option<TransactionId>) -> Result<Jobs, Error> {
        let mut told = HashSet::new();
        let since = match last {
            // A job that does not exist, or is not the caller's, is ignored.
            Some(last) => match self.read_transaction(last).await {
                Ok(row) if row.seller == caller.user => {
                    told.insert(last);
                    row.frozen_at.map(|at| Time(at.0.saturating_sub(OVERLAP_MS)))
                }
                Ok(_) | Err(Error::Unknown(MarketEntity::Transaction)) => None,
                Err(refused) => return Err(refused),
            },
            None => None,
        };
        let news = &self.shared.at_work.jobs;
        Ok(Jobs {
            market: self.clone(),
            seller: caller.user.clone(),
            // Before a resume, a failed job may have been dispatched again without notice.
            again: if since.is_some() { None } else { news.since(None, &caller.user).1 },
            news: news.count.subscribe(),
            told,
            ready: VecDeque::new(),
            opened: false,
            since,
            heartbeat: tokio::time::Instant::now() + HEARTBEAT,
        })
    }

    /// Performs a seller's action on a job.
    pub async fn job_act(
        &self,
        caller: &MarketCaller,
        id: TransactionId,
        act: JobAct,
        once: Option<Once>,
    ) -> Result<Transaction, Error> {
        let once = once.map(|once| (caller, once));
        let actor = caller.actor();
        let row = self.transaction(&actor, id).await?;
        let verb = match &act {
            JobAct::Accept => market_rules::transaction::Verb::Accept,
            JobAct::Reject { .. } => market_rules::transaction::Verb::Reject,
            JobAct::Heartbeat { .. } | JobAct::Deliver { .. } => market_rules::transaction::Verb::Deliver,
            JobAct::Fail { .. } => market_rules::transaction::Verb::Fail,
        };
        if row.seller != caller.user {
            return Err(market_rules::Error::WrongActor { verb, role: Role::Buyer }.into());
        }
        match act {
            // A repeated acceptance means that the first answer was lost.
            JobAct::Accept if row.status == Status::Accepted => Ok(row),
            JobAct::Accept => self.act(&actor, id, TransactionAction::Accept, once).await,
            JobAct::Reject { reason } => self.act(&actor, id, TransactionAction::Reject { reason }, once).await,
            JobAct::Heartbeat { progress: _ } => match row.status {
                Status::Frozen | Status::Accepted => Ok(row),
                status @ (Status::PendingFreeze
                | Status::Delivered
                | Status::Settled
                | Status::CancelledByBuyer
                | Status::RejectedBySeller
                | Status::Failed) => Err(market_rules::Error::WrongState { verb, status }.into()),
            },
            JobAct::Deliver { result, deliverables } => {
                self.act(&actor, id, TransactionAction::Deliver { result, deliverables }, once).await
            }
            JobAct::Fail { error, retryable } => match row.status {
                Status::Frozen | Status::Accepted if retryable => {
                    self.shared.at_work.jobs.again(&caller.user, id);
                    Ok(row)
                }
                Status::Frozen => {
                    let reason = error.map(|words| {
                        words.chars().take(market_rules::transaction::MAX_REASON).collect::<String>().into()
                    });
                    self.act(&actor, id, TransactionAction::Reject { reason }, once).await
                }
                Status::Accepted
                | Status::PendingFreeze
                | Status::Delivered
                | Status::Settled
                | Status::CancelledByBuyer
                | Status::RejectedBySeller
                | Status::Failed => {
                    let reason = error.or_else(|| Some("the seller's program failed".into()));
                    self.act(&Actor::Platform, id, TransactionAction::Fail { reason }, once).await
                }
            },
        }
    }
}
