//! `worker`: agents without an address of their own, which fetch their turns.
//!
//! A running turn waits in the `pool` until a worker leases it; the worker's reports go through the pool into the
//! turn's own `run`, which emits them no faster than the engine takes them. `notices` is the pool as a stream. All
//! state is in memory: after a restart the engine runs its turns again, and they wait here under the same ids. The
//! user page is `docs/agents/worker.md`.

mod notices;
mod options;
mod pool;
mod run;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::agent::{self, Admission, AgentEvent, Profile, Restart, Turn};
use model::ports::worker::{Attendance, LeaseStatus, Leased, ReportError, WorkerNotice, WorkerQueue, WorkerReport};
use model::{Fault, Inbound, Task, TurnId};
use subtle::ConstantTimeEq as _;

use crate::ConfigSecret;
use crate::config::{self, AgentKind};
use crate::emitter::emit;
pub use options::Options;
use pool::WorkerPool;

pub const KIND: AgentKind =
    AgentKind::of::<Options>("worker", "leaves each turn to a worker that fetches it", options::FIELDS);

struct WorkerAgent {
    profile: Profile,
    counter: Arc<Counter>,
    history: bool,
    attempts: u32,
}

impl WorkerAgent {
    fn new(name: &str, options: &Options, attempts: u32) -> WorkerAgent {
        // Leases expire, so every worker must expect a turn that another worker had before.
        let profile = config::profile(name, "Leaves each message to a worker.", Restart::Retry);
        let pool = Mutex::new(Arc::new(WorkerPool::new(options.lease_ms())));
        let counter = Arc::new(Counter { pool, secret: options.secret.clone() });
        WorkerAgent { profile, counter, history: options.history, attempts }
    }
}

impl agent::Agent for WorkerAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (pool, history, attempts) = (self.counter.pool(), self.history, self.attempts);
        emit(move |emitter| run::run(pool, turn, history, attempts, emitter))
    }

    fn desk(&self) -> Option<Arc<dyn WorkerQueue>> {
        Some(self.counter.clone())
    }
}

/// The workers' view of the pool. It outlives an agent that is reconfigured.
struct Counter {
    pool: Mutex<Arc<WorkerPool>>,
    secret: Option<ConfigSecret>,
}

impl Counter {
    fn pool(&self) -> Arc<WorkerPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl WorkerQueue for Counter {
    fn admits(&self, secret: Option<&str>) -> bool {
        match (&self.secret, secret) {
            (None, _) => true,
            (Some(ours), Some(shown)) => ours.reveal().as_bytes().ct_eq(shown.as_bytes()).into(),
            (Some(_), None) => false,
        }
    }

    fn is_open(&self) -> bool {
        self.secret.is_none()
    }

    fn adopt(&self, before: &dyn WorkerQueue) {
        let Some(before) = before.as_any().downcast_ref::<Counter>() else { return };
        let (old, own) = (before.pool(), self.pool());
        old.set_lease_ms(own.lease_ms());
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = old;
    }

    fn attendance(&self) -> Attendance {
        self.pool().attendance()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lease(&self, worker: &str, wait: Duration) -> Future<'static, Option<Leased>> {
        let (pool, worker) = (self.pool(), worker.to_owned());
        async move {
            let _connected = pool.connect(&worker);
            let mut news = pool.news();
            let leased = async {
                loop {
                    news.mark_unchanged();
                    if let Some(leased) = pool.lease(&worker) {
                        return Some(leased);
                    }
                    news.changed().await.ok()?;
                }
            };
            tokio::time::timeout(wait, leased).await.ok().flatten()
        }
        .boxed()
    }

    fn notices(&self, worker: &str, slots: usize) -> BoxStream<'static, WorkerNotice> {
        notices::follow(self.pool(), worker, slots)
    }

    fn take(
        &self,
        turn: TurnId,
        lease: String,
        delivery: Option<String>,
        word: WorkerReport,
    ) -> Future<'static, Result<LeaseStatus, ReportError>> {
        let pool = self.pool();
        async move { pool.take(turn, lease, delivery, word).await }.boxed()
    }
}
