//! Starts an engine: its store, its agents, and the parts that it may have.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use model::ports::Future;
use model::ports::agent::Agent;
use model::ports::billing::Settlement;
use model::ports::store::Store;
use model::ports::webhook::WebhookSender;
use model::{Fault, Limits, MemoryBudget};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::{
    CHANGES, Engine, Shared, Stats, by_name, changes, children, clock, outbox, product_tasks, reading, recovery,
    registry, replicas, setbacks, timers,
};

/// An engine that has not started.
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    agents: Vec<Arc<dyn Agent>>,
    limits: Limits,
    webhook_sender: Option<Arc<dyn WebhookSender>>,
    webhook_runtime: Option<Handle>,
    settlement: Option<Arc<dyn Settlement>>,
    keeps_unserved_turns: bool,
}

impl Engine {
    /// An engine on this store, without agents, webhooks and settlement, and with the default limits.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder {
            store,
            agents: Vec::new(),
            limits: Limits::default(),
            webhook_sender: None,
            webhook_runtime: None,
            settlement: None,
            keeps_unserved_turns: false,
        }
    }

    /// Opens the data without serving it: no agents, no recovery, no timers. For operators while no server runs.
    pub fn offline(store: Arc<dyn Store>, limits: Limits) -> Engine {
        Engine::builder(store).limits(limits).build(true)
    }
}

impl EngineBuilder {
    /// The agents that accept messages.
    pub fn agents(self, agents: Vec<Arc<dyn Agent>>) -> EngineBuilder {
        EngineBuilder { agents, ..self }
    }

    pub fn limits(self, limits: Limits) -> EngineBuilder {
        EngineBuilder { limits, ..self }
    }

    /// Sends push notifications; without a sender there are none.
    pub fn webhook_sender(self, webhook_sender: Option<Arc<dyn WebhookSender>>) -> EngineBuilder {
        EngineBuilder { webhook_sender, ..self }
    }

    /// Delivers webhooks on another runtime than the one that starts the engine, so that they do not delay callers.
    pub fn webhook_runtime(self, runtime: Handle) -> EngineBuilder {
        EngineBuilder { webhook_runtime: Some(runtime), ..self }
    }

    /// Settles the reservations of turns. Set before the start, because a recovered turn may have a reservation.
    pub fn settlement(self, settlement: Option<Arc<dyn Settlement>>) -> EngineBuilder {
        EngineBuilder { settlement, ..self }
    }

    /// Leaves turns of agents that are not served as they are, for a later process that serves them. Without this they
    /// fail at the start, except in a shared store.
    pub fn keeps_unserved_turns(self, keeps: bool) -> EngineBuilder {
        EngineBuilder { keeps_unserved_turns: keeps, ..self }
    }

    /// Recovers interrupted turns, then serves timers and retention.
    pub fn start(mut self) -> Future<'static, Result<Engine, Fault>> {
        Box::pin(async move {
            let webhook_runtime = self.webhook_runtime.take().unwrap_or_else(Handle::current);
            let engine = self.build(false);
            let aliases = engine.health().await?.aliases > 0;
            engine.shared.aliases.fetch_or(aliases, Ordering::Relaxed);
            outbox::start(&engine.shared, &webhook_runtime).await?;
            recovery::recover(&engine.shared).await?;
            tokio::spawn(children::stop_orphans(engine.shared.clone()));
            tokio::spawn(timers::run(engine.shared.clone()));
            tokio::spawn(timers::sweep(engine.shared.clone()));
            if engine.shared.store.is_shared() {
                tokio::spawn(replicas::run(engine.shared.clone()));
            }
            Ok(engine)
        })
    }

    fn build(self, offline: bool) -> Engine {
        let EngineBuilder {
            store,
            agents,
            limits,
            webhook_sender,
            webhook_runtime: _,
            settlement,
            keeps_unserved_turns,
        } = self;
        let clock = clock::Clock::new(store.clone());
        // In a shared store another process may write the first alias at any time.
        let aliases = AtomicBool::new(store.is_shared());
        let lives = Arc::new(registry::Registry::new(limits.live_bytes));
        let readers = MemoryBudget::new(limits.live_bytes / 2);
        let shared = Shared {
            store,
            agents: ArcSwap::from_pointee(by_name(agents)),
            limits,
            courier: webhook_sender,
            outbox: outbox::Outbox::default(),
            clock,
            changes: broadcast::Sender::new(CHANGES),
            feed: changes::ChangeFeed::default(),
            lives,
            long_reads: Semaphore::new(reading::LONG_READS),
            readers,
            running: AtomicUsize::new(0),
            turn_ended: Notify::new(),
            alarm: timers::Alarm::default(),
            products: product_tasks::Products::default(),
            books: settlement.map_or_else(OnceLock::new, OnceLock::from),
            sealer: OnceLock::new(),
            orphans: children::OrphanQueue::default(),
            setbacks: setbacks::Setbacks::default(),
            removed: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            drain_begun: CancellationToken::new(),
            aliases,
            offline,
            keeps_unserved_turns,
            stopped: CancellationToken::new(),
            stats: Stats::default(),
        };
        Engine { shared: Arc::new(shared) }
    }
}
