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
pub mod courier;
pub mod crypto;
pub mod front;
pub mod log;
mod metrics;
mod mount;
mod operations;
pub mod policy;
mod service;
pub mod settings;
mod throttle;
mod tls;

use std::sync::Arc;

use engine::Engine;
use policy::Policy;
use tokio_util::sync::CancellationToken;

pub use settings::Settings;

/// Everything a request may need.
pub struct Server {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) mounts: mount::Mounts,
    pub(crate) callers: callers::Callers,
    pub(crate) policy: policy::InForce,
    /// None where nothing is limited.
    pub(crate) throttle: Option<throttle::Throttle>,
    pub(crate) tls: Option<tls::Tls>,
    pub(crate) cards: cards::Cards,
    pub(crate) cache: cache::Cache,
    pub(crate) metrics: metrics::Metrics,
    pub(crate) log: log::Sink,
}

impl Server {
    pub fn new(engine: Engine, settings: Settings, log: log::Sink) -> Result<Arc<Server>, settings::Error> {
        let mounts = mount::Mounts::new(&settings)?;
        let callers = callers::Callers::new(&settings)?;
        let policy = policy::in_force(settings.policy.as_ref())?;
        let tls = settings.tls.as_ref().map(tls::Tls::load).transpose()?;
        let cards = cards::Cards::new(&settings);
        let cache = cache::Cache::new(settings.cache_bytes, engine.limits().retention_ms);
        let metrics = metrics::Metrics::new();
        let throttle = throttle::Throttle::new(&settings.throttle, metrics.rate_limited.clone());
        Ok(Arc::new(Server { engine, mounts, callers, policy, throttle, tls, cards, cache, metrics, settings, log }))
    }

    /// What has to be done now and then, until `shutdown`: keys of issuers fetched ahead, limits tidied up and the day's
    /// counts written down, a new certificate read, at once when `reload` says so.
    pub async fn keep_house(self: Arc<Self>, shutdown: CancellationToken, reload: Arc<tokio::sync::Notify>) {
        let throttle = async {
            if let Some(throttle) = &self.throttle {
                throttle.keep(shutdown.clone()).await;
            }
        };
        let tls = async {
            if let Some(tls) = &self.tls {
                tls.watch(shutdown.clone(), &reload).await;
            }
        };
        tokio::join!(self.callers.warm_up(), throttle, tls);
    }

    /// Another policy, in force with the next call.
    pub fn set_policy(&self, policy: Option<Policy>) {
        self.policy.store(policy.map(Arc::new));
        // Cards say what is open to everybody.
        self.cards.forget();
    }

    /// The policy in force.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.load_full()
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
