//! A product on its way from the config to its service.
//!
//! 1. [`ProductKind::prepare`](super::ProductKind::prepare) reads the sections of the config and checks them. It opens
//!    nothing, so that `config check` can call it.
//! 2. A [`Prepared`] product names the agents that it adds to the roster, and wraps agents. The engine starts with them.
//! 3. [`Prepared::open`] makes the service from the running engine: at the start, and again at each reload, where the
//!    service hands its state over by [`Setup::running`].
//!
//! A product whose agents change while the server runs has [`RosterChanges`]. The binary makes one change at a time:
//! draft, roster, build, check, store, put in force.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use engine::Engine;
use futures_util::future::BoxFuture;
use model::Fault;
use model::ports::agent::Agent;
use model::ports::store::Store;
use serde_json::{Map, Value};

use web::outbound::HttpPost;

use super::ProductService;
use crate::{GatewayVersion, Settings, settings};

/// The config as products read it.
pub struct Setup<'a> {
    /// The demo: no config file, for this machine only.
    pub is_demo: bool,
    pub data: &'a Path,
    pub sections: &'a dyn Sections,
    /// The agents of the config and of flags, in order.
    pub agents: &'a [AgentFacts<'a>],
    pub keys: &'a [KeyFacts<'a>],
    /// The services in force, at a reload; none at the start.
    pub running: Option<&'a [Arc<dyn ProductService>]>,
}

/// The sections of a config, by their keys.
pub trait Sections {
    fn section(&self, key: &str) -> Option<&dyn Any>;
}

/// An agent of the config.
pub struct AgentFacts<'a> {
    pub name: &'a str,
    /// Its config; none for an agent of a flag, and for those of the demo.
    pub written: Option<&'a Value>,
}

/// A key of the config.
pub struct KeyFacts<'a> {
    pub name: &'a str,
    /// The budget section of the key, where it has one.
    pub budget: Option<&'a dyn Any>,
}

impl<'a> Setup<'a> {
    /// The section with this key, if the config has it.
    pub fn section<T: Any>(&self, key: &str) -> Option<&'a T> {
        self.sections.section(key)?.downcast_ref()
    }

    /// The product's service that is in force, at a reload.
    pub fn running<T: ProductService>(&self) -> Option<Arc<T>> {
        let mut services =
            self.running.into_iter().flatten().map(|service| service.clone() as Arc<dyn Any + Send + Sync>);
        services.find_map(|service| service.downcast().ok())
    }
}

/// Builds an agent.
pub type BuildAgent = Arc<dyn Fn() -> BoxFuture<'static, anyhow::Result<Arc<dyn Agent>>> + Send + Sync>;

/// An agent to serve.
#[derive(Clone)]
pub struct RosterEntry {
    pub name: Arc<str>,
    /// An agent is kept as long as this stays the same.
    pub fingerprint: String,
    /// Whether a product may use the agent as a part of one of its own.
    pub can_be_node: bool,
    /// The public part of its config: kind, title, description.
    pub spec: Value,
    pub build: BuildAgent,
}

/// A product whose config is read and checked.
pub trait Prepared: Any + Send + Sync {
    /// The settings whose change needs a restart. The service in force keeps the old ones.
    fn needs_restart(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads stored data that the roster depends on.
    fn load<'a>(&'a mut self, _store: &'a Arc<dyn Store>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The agents that the product adds to those before it.
    fn roster(&mut self, _before: &[RosterEntry]) -> anyhow::Result<Vec<RosterEntry>> {
        Ok(Vec::new())
    }

    /// The agents that were made while a server ran. `configured` is the whole roster of the config.
    fn stored_roster(&mut self, _configured: &[RosterEntry]) -> Vec<RosterEntry> {
        Vec::new()
    }

    /// An agent of the stored roster could not be built. True if the product goes on without it.
    fn build_failed(&mut self, _name: &str, _error: &str) -> bool {
        false
    }

    /// The agent as it is served.
    fn wrap(&self, agent: Arc<dyn Agent>) -> Arc<dyn Agent> {
        agent
    }

    /// The first obstacle to a server with these settings.
    fn check(&self, _settings: &Settings) -> Result<(), settings::Error> {
        Ok(())
    }

    /// Makes the service, if the product has endpoints. Its effects begin with [`ProductService::in_force`].
    fn open<'a>(&'a self, host: ProductHost<'a>) -> BoxFuture<'a, anyhow::Result<Option<Arc<dyn ProductService>>>>;
}

/// The parts that a service is made of.
#[derive(Clone, Copy)]
pub struct ProductHost<'a> {
    pub engine: &'a Engine,
    /// The server's address for its callers.
    pub base_url: &'a str,
    pub data: &'a Path,
    /// Makes the attempts of the product's webhooks, under the operator's policy.
    pub post: &'a Arc<HttpPost>,
}

/// A product's part of the demo: ids and credentials in a file of the data folder.
pub trait Demo: Send + Sync {
    /// The name of the section.
    fn name(&self) -> &'static str;

    /// The members of a new section.
    fn section<'a>(&'a self, server: &'a GatewayVersion) -> BoxFuture<'a, anyhow::Result<Map<String, Value>>>;

    /// Makes what the file promises; `all` is the whole file.
    fn open<'a>(&'a self, all: &'a Map<String, Value>) -> BoxFuture<'a, anyhow::Result<()>>;
}

/// The changes of a product's roster while the server runs.
pub trait RosterChanges: Send + Sync {
    /// Waits for the next wish of a caller.
    fn next(&self) -> BoxFuture<'_, Box<dyn RosterChange>>;

    /// Whether another process changed the stored roster.
    fn changed_elsewhere<'a>(&'a self, store: &'a Arc<dyn Store>) -> BoxFuture<'a, Result<bool, Fault>>;
}

/// One change. A method that answers the caller returns [`Progress::Answered`], and the change ends there.
pub trait RosterChange: Send {
    /// Decides the change against the roster in force, and gives the prepared product the roster that it leads to.
    fn draft(&mut self, engine: &Engine, prepared: &mut [Box<dyn Prepared>]) -> Progress;

    /// Checks the roster that was built with the change.
    fn check<'a>(&'a mut self, engine: &'a Engine, prepared: &'a [Box<dyn Prepared>]) -> BoxFuture<'a, Progress>;

    /// Stores the change.
    fn store<'a>(&'a mut self, engine: &'a Engine) -> BoxFuture<'a, Progress>;

    /// The change is in force.
    fn done(self: Box<Self>, data: &Path);

    /// The change is wrong.
    fn refuse(self: Box<Self>, message: String);

    /// The change failed.
    fn fail(self: Box<Self>, fault: Fault);
}

/// How a change goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    GoesOn,
    Answered,
    /// Another process changed the roster meanwhile: the change begins anew.
    Conflict,
}
