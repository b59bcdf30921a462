//! Systems of agents, and the resources that describe them.
//!
//! To the engine a system is an agent. The endpoint finds the system that a request means, checks who may call it, and
//! lets `crate::orloj` read and write. An id there belongs to the system, not to the caller: all callers of a system
//! find a task by it, and a send that reuses it restarts, is refused, or answers the task's question. Streams show the
//! whole task at every change of its status; steps may be left out, the last one never. A system with `auth: bearer` is
//! closed at every address.
//!
//! Resources (`crate::resources`) are documents of the config and documents made at runtime, which are records. The
//! binary makes a change: read and check it like the config, build agents, store it in one commit, swap, show. One
//! record counts all changes; its number is the `resourceVersion`, each change is conditional on it, and one small read
//! a second tells other processes. A resource that cannot be served is left out with its reason; it stops neither a
//! start nor a reload. Runs and approvals are read from tasks and their logs; an approval is decided under an
//! idempotency key of its own.

pub mod admin;
pub mod agent;
pub mod orloj;
pub mod resources;
mod routes;
mod settings;

pub use routes::{SystemsAddress, SystemsService};
pub use settings::{ExposedSystem, SystemsSettings};

use gateway::admin::AdminCommand;
use gateway::product::ProductKind;

pub struct SystemsProduct;

impl ProductKind for SystemsProduct {
    fn name(&self) -> &'static str {
        "systems"
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }
}
