//! Rialto over HTTP: mounts, fronts, callers, cards and operations.
//!
//! A request's way: `accept` (connection, timeouts) → `service` (size, log line, CORS) → `mount` (what the path means) →
//! `front` (envelope, dialect, caller, call) → the engine → `front` again (encode, frame). The wires themselves are in the
//! crate `dialects`; what a call does is in the crate `engine`.

pub mod accept;
pub mod admin;
mod body;
mod cache;
pub mod callers;
mod cards;
mod cors;
pub mod front;
pub mod log;
mod metrics;
mod mount;
mod operations;
mod service;
pub mod settings;

use std::sync::Arc;

use engine::Engine;

pub use settings::Settings;

/// Everything a request may need.
pub struct Server {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) mounts: mount::Mounts,
    pub(crate) callers: callers::Callers,
    pub(crate) cards: cards::Cards,
    pub(crate) cache: cache::Cache,
    pub(crate) metrics: metrics::Metrics,
    pub(crate) log: log::Sink,
}

impl Server {
    pub fn new(engine: Engine, settings: Settings, log: log::Sink) -> Result<Arc<Server>, settings::Error> {
        let mounts = mount::Mounts::new(&settings.agents, &settings.default_agent)?;
        let callers = callers::Callers::new(settings.auth_required, &settings.keys);
        let cards = cards::Cards::new(&settings);
        let cache = cache::Cache::new(settings.cache_bytes, engine.limits().retention_ms);
        let metrics = metrics::Metrics::new();
        Ok(Arc::new(Server { engine, mounts, callers, cards, cache, metrics, settings, log }))
    }

    pub fn callers(&self) -> &callers::Callers {
        &self.callers
    }

    /// The agents served, in order.
    pub fn agents(&self) -> &[Arc<str>] {
        self.mounts.agents()
    }

    pub fn default_agent(&self) -> &Arc<str> {
        self.mounts.default_agent()
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
