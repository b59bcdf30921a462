//! The engine executes calls and drives tasks over time.
//!
//! A task's state is its log in the store; every module is either a writer of that log (`batch`, `turn`) or a cursor on
//! it (`subscription`, `reading`). Nothing is visible to a caller before it is committed.
//!
//! * `builder`: the parts that an engine starts with
//! * `open`: a message opens a task or continues one, and a turn begins
//! * `answer`: an operator answers a task that waits, in its owner's name
//! * `import`: a task of elsewhere, stored as a copy
//! * `turn`: one run of an agent, whose output is written to the log
//! * `live`: a task in use in this process: its fold, its newest events, the lock of its one writer
//! * `memory`: the memory of all live tasks
//! * `children`: tasks that a turn opens
//! * `visibility`: visibility of tasks
//! * `product_tasks`: tasks without turns, changed together with their product's records
//! * `billing`: the reservation for a turn with a price, settled exactly once
//! * `push`, `outbox`: webhooks, as cursors on logs; the breakers of all receivers
//! * `retry`: the delays between attempts
//! * `secrets`: the server's own keys, encrypted at rest
//! * `recovery`, `timers`, `replicas`: the effects of a restart, of time, and of other processes
//!
//! The engine knows no wire, no concrete store and no concrete agent.

mod alias;
mod answer;
mod backoff;
mod batch;
mod billing;
mod blobs;
mod builder;
mod cancel;
mod changes;
mod children;
mod clock;
mod committed;
mod conversation;
mod doubt;
mod import;
mod live;
mod memory;
mod modes;
mod open;
mod outbox;
mod pending;
mod pending_children;
mod product_tasks;
mod push;
mod reading;
mod recovery;
mod registry;
mod replicas;
mod retry;
pub mod secrets;
mod setbacks;
mod stranded;
mod subscription;
mod timers;
mod turn;
mod visibility;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::ports::Future;
use model::ports::agent::{Agent, AgentLoad, Profile, RemoteCards};
use model::ports::billing::Settlement;
use model::ports::sealer::Sealer;
use model::ports::store::{Health, Store, StoreError};
use model::ports::webhook::WebhookSender;
use model::ports::worker::WorkerQueue;
use model::{Fault, Kind, Limits, MemoryBudget, TaskId};
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

pub use answer::owners_scope;
pub use builder::EngineBuilder;
pub use changes::{ChangeCursor, ChangeWatcher, ChangedTask, ChangedTasks};
pub use committed::Committed;
pub use conversation::Answers;
pub use import::{Import, ImportedTask};
pub use open::SendAnswer;
pub use outbox::EndpointPermit;
pub use product_tasks::{CommitError, NewTask, SideWrites, TaskChange};
pub use push::{DeliveryStatus, PushAnswer};
pub use reading::TaskListing;
pub use retry::RetrySchedule;
pub use setbacks::{Chore, Setback};
pub use subscription::{LogFollower, States, Subscription, SubscriptionItem};

/// A handle on the engine; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// The agents that accept messages now, by name.
type Agents = HashMap<Arc<str>, Arc<dyn Agent>>;

fn by_name(agents: Vec<Arc<dyn Agent>>) -> Agents {
    agents.into_iter().map(|agent| (agent.profile().name.clone(), agent)).collect()
}

struct Shared {
    store: Arc<dyn Store>,
    agents: ArcSwap<Agents>,
    limits: Limits,
    courier: Option<Arc<dyn WebhookSender>>,
    outbox: outbox::Outbox,
    clock: clock::Clock,
    changes: broadcast::Sender<RemoteChange>,
    feed: changes::ChangeFeed,
    lives: Arc<registry::Registry>,
    /// Limits concurrent reads of long logs for a single answer.
    long_reads: Semaphore,
    /// Memory for the log pages of slow readers.
    readers: Arc<MemoryBudget>,
    running: AtomicUsize,
    /// Notified whenever a turn ends, for draining.
    turn_ended: Notify,
    alarm: timers::Alarm,
    products: product_tasks::Products,
    /// Settles the reservations of turns.
    books: OnceLock<Arc<dyn Settlement>>,
    /// Encrypts the server's own secrets.
    sealer: OnceLock<Arc<dyn Sealer>>,
    orphans: children::OrphanQueue,
    setbacks: setbacks::Setbacks,
    /// The store's count of removed tasks, as far as this process removed them or received hints.
    removed: AtomicU64,
    draining: AtomicBool,
    /// Cancelled when the drain begins, for those who wait for it.
    drain_begun: CancellationToken,
    /// The store may contain aliases.
    aliases: AtomicBool,
    /// No turn ever runs in this process: the data is only read and repaired.
    offline: bool,
    /// Turns of agents that are not served wait for a process that serves them.
    keeps_unserved_turns: bool,
    /// Cancelled when the engine stops: streams end, loops return.
    stopped: CancellationToken,
    stats: Stats,
}

/// Counters since the start, for metrics.
#[derive(Debug, Default)]
struct Stats {
    opened: AtomicU64,
    turns: AtomicU64,
    events: AtomicU64,
    settled: AtomicU64,
    failed: AtomicU64,
    recovered: AtomicU64,
    store_troubles: AtomicU64,
    push_delivered: AtomicU64,
    push_failed: AtomicU64,
    push_dead: AtomicU64,
}

/// A snapshot of the engine's counters and gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub tasks_opened: u64,
    pub turns_started: u64,
    pub events_committed: u64,
    pub tasks_settled: u64,
    /// Those of the settled tasks that failed.
    pub tasks_failed: u64,
    pub turns_recovered: u64,
    pub store_troubles: u64,
    pub turns_running: u64,
    pub tasks_live: u64,
    /// Their memory, in bytes.
    pub live_bytes: u64,
    /// Successful deliveries, failed attempts, and configs given up.
    pub push_delivered: u64,
    pub push_failed: u64,
    pub push_dead: u64,
    /// Active push configs.
    pub push_active: u64,
    /// Active configs with a pending event that is not being delivered: queued, or between attempts.
    pub push_waiting: u64,
    /// Endpoints with an open breaker.
    pub breakers_open: u64,
    /// Tasks whose background work failed and that wait for another attempt.
    pub tasks_set_back: u64,
}

/// A change by other processes of a shared store that listeners outside the engine must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteChange {
    /// The task was removed.
    Removed(TaskId),
    /// Access keys were, or may have been, created or changed.
    Access,
    /// A change may have been missed: every cached value of the store must be read again.
    Missed,
}

/// Changes that wait for a slow listener; beyond it the listener must assume that everything changed.
const CHANGES: usize = 1_024;

/// An agent's public properties.
pub struct AgentProfile(Arc<dyn Agent>);

impl std::ops::Deref for AgentProfile {
    type Target = Profile;
    fn deref(&self) -> &Profile {
        self.0.profile()
    }
}

impl Engine {
    /// Sets the books that settle the reservations of turns; a second call has no effect.
    pub fn set_books(&self, books: Arc<dyn Settlement>) {
        if self.shared.books.set(books).is_err() {
            tracing::error!("billing settlement already registered; ignoring the second");
        }
    }

    /// Sets the sealer for secrets drawn or read from now on; a second call has no effect.
    pub fn set_sealer(&self, sealer: Arc<dyn Sealer>) {
        if self.shared.sealer.set(sealer).is_err() {
            tracing::error!("secrets have a sealer already; the first one stays");
        }
    }

    pub fn sealer(&self) -> Option<&Arc<dyn Sealer>> {
        self.shared.sealer.get()
    }

    /// A product's own secret, drawn by the first process that asks and encrypted at rest.
    pub async fn own_secret(
        &self,
        place: &secrets::SecretPlace,
        draw: impl Fn() -> Result<Vec<u8>, Fault>,
    ) -> Result<bytes::Bytes, Fault> {
        let sealer = self.sealer().map(|sealer| &**sealer);
        secrets::own_secret(&*self.shared.store, sealer, place, draw).await
    }

    /// Replaces the agents that accept messages. A running turn continues with the agent it began with; tasks of a
    /// removed agent can be read and cancelled, but accept no more messages.
    pub fn set_agents(&self, agents: Vec<Arc<dyn Agent>>) {
        self.shared.agents.store(Arc::new(by_name(agents)));
    }

    /// The agents that accept messages now, unordered.
    pub fn agents(&self) -> Vec<Arc<dyn Agent>> {
        self.shared.agents.load().values().cloned().collect()
    }

    pub fn profile(&self, agent: &str) -> Option<AgentProfile> {
        self.shared.agents.load().get(agent).cloned().map(AgentProfile)
    }

    /// The agents that an agent works with, including the members of its members, each once; empty for most agents.
    pub fn members(&self, agent: &str) -> Vec<Arc<str>> {
        let agents = self.shared.agents.load();
        let of = |name: &str| agents.get(name).map(|agent| agent.members()).unwrap_or_default();
        let (mut all, mut next) = (Vec::new(), of(agent));
        while let Some(name) = next.pop() {
            if !all.contains(&name) {
                next.extend(of(&name));
                all.push(name);
            }
        }
        all
    }

    /// The worker queue of that agent.
    pub fn desk(&self, agent: &str) -> Option<Arc<dyn WorkerQueue>> {
        self.shared.agents.load().get(agent).and_then(|agent| agent.desk())
    }

    /// The turns of that agent in this process, where they are counted.
    pub fn load(&self, agent: &str) -> Option<AgentLoad> {
        self.shared.agents.load().get(agent).and_then(|agent| agent.load())
    }

    /// Reads the card of the agent elsewhere that that agent stands for.
    pub fn remote_card(&self, agent: &str) -> Option<model::ports::Future<'static, Result<RemoteCards, Fault>>> {
        self.shared.agents.load().get(agent).and_then(|agent| agent.remote_card())
    }

    /// The memory that live tasks share.
    pub fn live_memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.lives.memory
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The content of a blob, if a task of this tenant refers to it.
    pub async fn stored(&self, tenant: &Arc<str>, hash: [u8; 32]) -> Result<Option<bytes::Bytes>, Fault> {
        self.shared.store.blob(tenant.clone(), hash).await.map_err(troubled)
    }

    /// The content of a blob that a task of this tenant refers to.
    pub async fn blob(&self, tenant: &Arc<str>, hash: [u8; 32]) -> Result<bytes::Bytes, Fault> {
        let found = self.stored(tenant, hash).await?;
        found.ok_or_else(|| Fault::internal("a blob that a log refers to is missing"))
    }

    /// Subscribes to the changes of other processes.
    pub fn changes(&self) -> broadcast::Receiver<RemoteChange> {
        self.shared.changes.subscribe()
    }

    /// Every key that operators made, including expired and revoked keys.
    pub async fn access_keys(&self) -> Result<Vec<model::AccessKey>, Fault> {
        self.shared.store.access_keys().await.map_err(troubled)
    }

    /// The known problem that keeps the store from serving now. Does not query the store, so it returns at once.
    pub fn store_trouble(&self) -> Option<StoreError> {
        self.shared.store.trouble()
    }

    pub async fn health(&self) -> Result<Health, Fault> {
        self.shared.store.health().await.map_err(troubled)
    }

    pub fn figures(&self) -> Figures {
        let stats = &self.shared.stats;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let outbox = self.shared.outbox.gauges();
        Figures {
            tasks_opened: read(&stats.opened),
            turns_started: read(&stats.turns),
            events_committed: read(&stats.events),
            tasks_settled: read(&stats.settled),
            tasks_failed: read(&stats.failed),
            turns_recovered: read(&stats.recovered),
            store_troubles: read(&stats.store_troubles),
            turns_running: self.shared.running.load(Ordering::Relaxed) as u64,
            tasks_live: self.shared.lives.len() as u64,
            live_bytes: self.shared.lives.memory.held() as u64,
            push_delivered: read(&stats.push_delivered),
            push_failed: read(&stats.push_failed),
            push_dead: read(&stats.push_dead),
            push_active: outbox.active,
            push_waiting: outbox.waiting,
            breakers_open: outbox.breakers_open,
            tasks_set_back: self.shared.setbacks.len() as u64,
        }
    }

    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Relaxed)
    }

    /// Refuses new work from now on.
    pub fn begin_drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.drain_begun.cancel();
    }

    /// Cancelled when the drain begins.
    pub fn drain_begun(&self) -> &CancellationToken {
        &self.shared.drain_begun
    }

    /// Waits for running turns, at most `Limits::drain_ms`; then ends every stream and closes the store. Turns that
    /// still run are left to the next start and their agents' restart rules.
    pub fn drain(&self) -> Future<'_, ()> {
        Box::pin(async move {
            self.begin_drain();
            let deadline = tokio::time::Instant::now() + Duration::from_millis(self.shared.limits.drain_ms);
            let idle = async {
                loop {
                    let ended = self.shared.turn_ended.notified();
                    if self.shared.running.load(Ordering::SeqCst) == 0 {
                        break;
                    }
                    ended.await;
                }
            };
            if tokio::time::timeout_at(deadline, idle).await.is_err() {
                tracing::warn!(turns = self.shared.running.load(Ordering::SeqCst), "stopping with turns at work");
            }
            self.shared.stopped.cancel();
            self.shared.outbox.close(&self.shared, deadline).await;
            self.shared.store.close().await;
        })
    }

    /// Removes a task permanently; a running turn is cancelled first. A product's task that has not ended is refused.
    pub fn purge(&self, task: TaskId) -> Future<'_, Result<bool, Fault>> {
        Box::pin(async move {
            if let Some(live) = self.shared.lives.find(task) {
                live.stop_turn();
            }
            self.end_for_removal(task).await?;
            let removed = self.shared.store.remove(task).await.map_err(troubled)?;
            self.shared.removed.fetch_add(u64::from(removed), Ordering::Relaxed);
            self.shared.lives.vanish(task);
            self.shared.feed.note_missed();
            self.shared.outbox.forget_task(task);
            self.shared.setbacks.forget(task);
            Ok(removed)
        })
    }
}

impl Shared {
    fn agent(&self, name: &str) -> Result<Arc<dyn Agent>, Fault> {
        self.agents.load().get(name).cloned().ok_or_else(|| {
            let words = format!("the agent {name:?} is not served here any more; its tasks can only be read");
            Fault::new(Kind::MethodNotFound, words)
        })
    }

    fn refuse_if_draining(&self) -> Result<(), Fault> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(Fault::new(Kind::Unavailable, "the server is shutting down; try again shortly").retry_after(2));
        }
        Ok(())
    }

    /// Counts a turn as running as long as the returned guard lives.
    fn take_turn(self: &Arc<Self>) -> Result<RunningTurn, Fault> {
        self.refuse_if_draining()?;
        let running = RunningTurn { shared: self.clone(), live: None };
        if self.running.fetch_add(1, Ordering::SeqCst) >= self.limits.running_turns {
            return Err(Fault::new(Kind::Unavailable, "too many turns are running; try again shortly").retry_after(1));
        }
        Ok(running)
    }

    /// Like [`Shared::take_turn`], for a child: its parent already counts as running and waits for it, so the limit
    /// does not apply.
    fn take_child_turn(self: &Arc<Self>) -> Result<RunningTurn, Fault> {
        self.refuse_if_draining()?;
        self.running.fetch_add(1, Ordering::SeqCst);
        Ok(RunningTurn { shared: self.clone(), live: None })
    }
}

struct RunningTurn {
    shared: Arc<Shared>,
    /// The turn's task, set before the commit that begins the turn.
    live: Option<Arc<live::Live>>,
}

impl RunningTurn {
    fn begin_at(&mut self, live: &Arc<live::Live>) {
        if self.live.is_none() {
            live.count_work(true);
            self.live = Some(live.clone());
        }
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.count_work(false);
        }
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
        self.shared.turn_ended.notify_waiters();
    }
}

/// A store's trouble as a fault, with a message for the caller and a cause for the log.
fn troubled(trouble: StoreError) -> Fault {
    let fault = match &trouble {
        StoreError::Full => {
            Fault::new(Kind::Unavailable, "the server's disk is full; new work is refused until there is room")
        }
        StoreError::ReadOnly => {
            Fault::new(Kind::Unavailable, "the server's data folder is read-only; new work is refused")
        }
        StoreError::Busy => Fault::new(Kind::Unavailable, "the server has too much work waiting; try again shortly"),
        StoreError::Unreachable(_) => {
            Fault::new(Kind::Unavailable, "the server cannot reach its database; try again shortly")
        }
        StoreError::Closed => Fault::new(Kind::Unavailable, "the server is shutting down; try again shortly"),
        StoreError::Broken(_) => Fault::new(Kind::Internal, "Internal error"),
    };
    match fault.kind {
        Kind::Unavailable => fault.retry_after(1).because(trouble),
        _ => fault.because(trouble),
    }
}
