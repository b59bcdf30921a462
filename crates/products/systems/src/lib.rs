//! The product `systems`: graphs of agents that are called as one agent, and Orloj's API for them.
//!
//! A *system* is a graph whose nodes are agents. To the engine it is an ordinary agent: its task walks the graph and opens
//! one child task for each visit of a node. Orloj's endpoints serve the systems at `/orloj`, at some addresses of the root,
//! and at `/a2a`, which they share with the default agent.
//!
//! | module | content |
//! |---|---|
//! | [`agent`] | a system as an agent: one turn of a run, its journal, its diagram |
//! | [`orloj`] | Orloj's wire form (`decode`, `encode`, `errors`, `card`) and its JSON-RPC endpoint |
//! | [`resources`] | systems and agents as documents that callers read, watch and change over REST |
//! | [`admin`] | the admin commands `graph` and `apply` |
//! | `api` | operations of the admin API |
//! | `routes` | the product's addresses, and its implementation of the gateway's product port |
//! | `settings` | the settings of the endpoints |
//!
//! The rules of a graph (its spec, validation and state machine) are the pure crate `systems_graph`.
//!
//! # The path of a request
//!
//! 1. The gateway asks `routes` for the endpoint of a path, reads the body, and calls the endpoint.
//! 2. JSON-RPC goes to `orloj::endpoint`: it applies the rate limit, decodes the call, identifies the caller, finds the
//!    system by path, `metadata` or namespace, checks access, and hands the call to the engine as a call to the system's
//!    agent. Methods of A2A 1.0 at the same addresses go on to the gateway's own JSON-RPC front.
//! 3. REST goes to `resources::rest`. A change waits in the queue of the [`resources::ResourceRegistry`]. The reloader of
//!    the binary takes it from there: it checks the change like the config, builds the agents, stores the change in one
//!    commit, swaps the agents in, and publishes the new state.
//! 4. The engine runs the system's turn in `agent::driver`.
//!
//! # Rules
//!
//! * An id that a caller chooses belongs to the system and not to the caller: every caller of the system finds the task by
//!   it. A send that reuses an id restarts the task, is refused, or answers the task's question.
//! * A stream shows the whole task at each change of its status. Intermediate states may be left out, the last one never.
//! * A system with `auth: bearer` requires a credential at every address.
//! * One record counts all changes of resources. Its number is the `resourceVersion`, every change is conditional on it,
//!   and other processes read it once a second. A resource that cannot be served is left out with its reason; it stops
//!   neither a start nor a reload.
//! * Runs and approvals are views of tasks and their logs. An approval is decided under an idempotency key of its own.

pub mod admin;
pub mod agent;
mod api;
mod changes;
pub mod config;
pub mod demo;
pub mod orloj;
mod prepare;
pub mod resources;
mod routes;
mod settings;

pub use prepare::agents_of;
pub use routes::{SystemsAddress, SystemsService};
pub use settings::{ExposedSystem, SystemsSettings};
pub use systems_graph::{System, Systems};

use gateway::GatewayVersion;
use gateway::admin::AdminCommand;
use gateway::admin_api::ApiRoute;
use gateway::product::{Prepared, ProductKind, Setup};

pub struct SystemsProduct;

impl ProductKind for SystemsProduct {
    fn name(&self) -> &'static str {
        "systems"
    }

    fn prepare(&self, setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
        prepare::prepare(setup)
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn api(&self) -> &'static [ApiRoute] {
        &api::ROUTES
    }

    fn pages(&self, server: &GatewayVersion) -> &'static [&'static str] {
        if api::has_systems(server) { &api::PAGES } else { &[] }
    }
}
