//! The gateway: A2A over HTTP, with mounts, fronts, credentials, cards and status pages.
//!
//! A request passes `accept` (connection, timeouts), `service` (size, log line, CORS), `mounts` (the meaning of the
//! path), `fronts` (envelope, dialect, caller, call), the engine, and `fronts` again (encoding, framing). The wires are
//! in the crate `dialects`; the effect of a call is in the crate `engine`.
//!
//! A [`GatewayVersion`] is immutable, and a request uses one from its first to its last byte. Other settings make
//! another server, and [`CurrentGateway`] replaces the old one with it.
//!
//! * One owner: at an address that products share, `fronts::jsonrpc::answer` decides once which product or agent a
//!   request is for. A product's front that leaves a method to the generations calls `fronts::jsonrpc::answer_to`,
//!   which decides nothing.
//! * One call: a decoded call becomes an `EffectiveCall` before anything is checked. Only that conversion acts on
//!   `Last-Event-ID`.
//! * One permission: `GatewayVersion::permits` (or `allows`, where a front has checked scopes) is called before a task
//!   is looked up.
//! * Bodies: `intake` reads the rest of a refused request within bounds before the answer; `linger` reads the remaining
//!   bytes after the writing side is closed. A connection that is closed with unread bytes is reset, and a client that
//!   writes its whole request first would lose the answer.
//! * Panics: `service` answers 500 for a request, `web::body` ends a stream, the engine fails a turn; the hook of
//!   [`panics`] logs and counts them. A stack overflow cannot be caught, so recursion depth is bounded wherever it
//!   depends on input.

pub mod accept;
pub mod admin;
pub mod admin_api;
pub mod auth;
pub mod cache;
mod capabilities;
pub mod cards;
mod connections;
mod console;
pub mod crypto;
mod current;
pub mod effective_config;
pub mod fronts;
mod held_writes;
mod history;
pub mod intake;
pub mod limits;
mod linger;
pub mod links;
pub mod metrics;
pub mod mounts;
pub mod panics;
pub mod policy;
pub mod product;
mod receivers;
pub mod scopes;
pub mod service;
pub mod settings;
mod status_pages;
mod tls;
pub mod webhooks;

use std::any::Any;
use std::sync::{Arc, OnceLock};

use engine::Engine;
use model::{Call, Caller, Fault, Kind, MemoryBudget};
use policy::Policy;
use product::ProductService;

pub use current::CurrentGateway;
pub use settings::Settings;
pub use web::request_log as log;

/// The state that requests use, built from one version of the settings.
pub struct GatewayVersion {
    pub engine: Engine,
    pub settings: Settings,
    pub mounts: mounts::MountTable,
    pub callers: auth::Callers,
    /// None where every call is allowed.
    pub(crate) policy: Option<Policy>,
    pub scopes: scopes::Scopes,
    /// None where nothing is limited.
    pub throttle: Option<limits::Throttle>,
    pub(crate) tls: Option<Arc<tls::ReloadingTls>>,
    pub cards: cards::Cards,
    pub cache: Arc<cache::Cache>,
    pub metrics: Arc<metrics::Metrics>,
    /// Numbers of the last hour; every version of the server shares them.
    pub(crate) history: Arc<history::History>,
    pub(crate) log: log::Sink,
    pub(crate) links: links::Links,
    /// The memory for request bodies; requests of every version of the server share it.
    pub(crate) intake: intake::Intake,
    /// The same for large answers that are not sent yet.
    pub answers: Arc<MemoryBudget>,
    /// Worker queues of agents that are no longer served.
    pub(crate) leaving: fronts::worker::RetiredWorkers,
    /// State of the gRPC services for tools; every version of the server shares it.
    pub(crate) tools: Arc<fronts::grpc::ToolServices>,
    /// Set once the admin socket is open; every version of the server shares it.
    admin: Arc<OnceLock<admin::AdminDoor>>,
    /// Sessions of the console; every version of the server shares them.
    pub(crate) sessions: Arc<console::sessions::Sessions>,
    /// The same of sign-ins at a provider.
    pub(crate) sign_ins: Arc<console::sign_ins::SignIns>,
}

impl GatewayVersion {
    pub fn new(engine: Engine, settings: Settings, log: log::Sink) -> Result<Arc<GatewayVersion>, settings::Error> {
        fronts::worker::check(&engine.agents(), &settings)?;
        settings.check_products()?;
        let metrics = metrics::Metrics::new();
        Ok(Arc::new(GatewayVersion {
            mounts: mounts::MountTable::new(&settings)?,
            callers: auth::Callers::new(&settings, None)?,
            policy: policy_of(&settings)?,
            scopes: scopes::Scopes::new(&settings)?,
            tls: settings.tls.as_ref().map(tls::ReloadingTls::load).transpose()?.map(Arc::new),
            cards: cards::Cards::new(&settings),
            cache: Arc::new(cache::Cache::new(
                settings.cache_bytes,
                engine.limits().retention_ms,
                settings.product_slots.clone(),
            )),
            throttle: limits::Throttle::new(&settings.throttle, metrics.rate_limited.clone(), None),
            metrics: Arc::new(metrics),
            history: Arc::default(),
            links: links::Links::new(engine.store().clone(), engine.sealer().cloned()),
            answers: MemoryBudget::new(settings.answers_bytes),
            intake: intake::Intake::new(settings.bodies_bytes, fronts::largest_body(&engine, &settings)),
            engine,
            settings,
            log,
            leaving: fronts::worker::RetiredWorkers::default(),
            tools: Arc::default(),
            admin: Arc::default(),
            sessions: Arc::default(),
            sign_ins: Arc::default(),
        }))
    }

    /// The server with other settings that replaces this one. It keeps the used parts of limits, the keys that
    /// operators made, the keys fetched from issuers, and all counters. Settings that cannot change at run time keep
    /// their values; tasks of removed agents stay readable.
    pub(crate) fn with_settings(&self, settings: Settings) -> Result<GatewayVersion, settings::Error> {
        let settings = settings.replaced_by(&self.settings);
        Ok(GatewayVersion {
            mounts: mounts::MountTable::new(&settings)?,
            callers: auth::Callers::new(&settings, Some(&self.callers))?,
            policy: policy_of(&settings)?,
            scopes: scopes::Scopes::new(&settings)?,
            tls: self.tls.clone(),
            cards: cards::Cards::new(&settings),
            cache: self.cache.clone(),
            throttle: limits::Throttle::new(
                &settings.throttle,
                self.metrics.rate_limited.clone(),
                self.throttle.as_ref(),
            ),
            metrics: self.metrics.clone(),
            history: self.history.clone(),
            engine: self.engine.clone(),
            links: self.links.clone(),
            intake: self.intake.clone(),
            answers: self.answers.clone(),
            settings,
            log: self.log.clone(),
            leaving: self.leaving.clone(),
            tools: self.tools.clone(),
            admin: self.admin.clone(),
            sessions: self.sessions.clone(),
            sign_ins: self.sign_ins.clone(),
        })
    }

    /// The admin API is served from now on, where the settings say so.
    pub(crate) fn open_admin(&self, door: admin::AdminDoor) {
        if self.admin.set(door).is_err() {
            tracing::error!("the admin API is open already; the first door stays");
        }
    }

    /// The token of a link that signs its first user in to the console as an admin; none where there is no console. An
    /// earlier link ends.
    pub fn console_link(&self) -> Result<Option<String>, Fault> {
        if self.settings.console { self.sessions.link().map(Some) } else { Ok(None) }
    }

    pub(crate) fn admin(&self) -> Option<&admin::AdminDoor> {
        self.admin.get()
    }

    /// The products that are served.
    pub fn products(&self) -> &[Arc<dyn ProductService>] {
        &self.settings.products
    }

    /// The product of this type, where it is served.
    pub fn product<T: ProductService>(&self) -> Option<&T> {
        let products = self.settings.products.iter();
        products.map(|product| &**product as &dyn Any).find_map(|product| product.downcast_ref())
    }

    /// The policy in force.
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref()
    }

    /// Whether a caller may make a call at an agent, in a tenant. Checks the scopes of the credential, the policy, the
    /// rules that deny the call at agents that a system works with, and the capability that the call needs. Every front
    /// calls this before it looks up a task.
    pub fn permits(
        &self,
        caller: &Caller,
        tenant: &str,
        agent: &str,
        call: &Call,
        required: bool,
    ) -> Result<(), Fault> {
        self.scopes.check(caller, agent, call)?;
        self.allows(caller, tenant, agent, call, required)
    }

    /// The same checks without the scopes.
    pub fn allows(&self, caller: &Caller, tenant: &str, agent: &str, call: &Call, required: bool) -> Result<(), Fault> {
        self.complies(caller, tenant, agent, call, required)?;
        self.supports(agent, call)
    }

    /// Whether the policy lets a caller make a call.
    fn complies(&self, caller: &Caller, tenant: &str, agent: &str, call: &Call, required: bool) -> Result<(), Fault> {
        let Some(policy) = &self.policy else { return Ok(()) };
        policy.check(caller, tenant, agent, call, required)?;
        if let Call::Send(_) | Call::Stream(_) = call {
            for member in self.engine.members(agent) {
                if policy.denies(caller, tenant, &member, call, required) {
                    let message = format!(
                        "you may not {} at the system {agent}: it works with the agent {member}, which a rule denies you; \
                         ask the operator of this server",
                        call.name()
                    );
                    return Err(Fault::new(Kind::Forbidden, message));
                }
            }
        }
        Ok(())
    }

    pub fn callers(&self) -> &auth::Callers {
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

fn policy_of(settings: &Settings) -> Result<Option<Policy>, settings::Error> {
    settings.policy.as_ref().map(|rules| Policy::new(rules)).transpose()
}
