//! The product `assistants`: agents at the A2A endpoint of LangSmith deployments.
//!
//! Each agent with an assistant id is called at `/langgraph/a2a/{id}` and at `/a2a/{id}`, as strictly as LangSmith does it.
//! The product serves other agents' tasks in another wire form; it has no agents and no records of its own.
//!
//! | module | content |
//! |---|---|
//! | [`langgraph`] | the wire form: envelope, decoding, errors, cards, and two profiles of the product |
//! | `endpoint` | answers requests: finds the assistant, relates a message to its task, performs the call |
//! | `routes` | the product's addresses, and its implementation of the gateway's product port |
//!
//! # The path of a request
//!
//! 1. The gateway asks `routes` for the endpoint of a path. At `/a2a/{id}`, which the versions of A2A share, the product
//!    claims a request by its body (`endpoint::is_owner`).
//! 2. [`langgraph::envelope`] reads the JSON-RPC envelope, or refuses it with the product's status.
//! 3. `endpoint` finds the agent by the id, identifies the caller, and lets [`langgraph::decode`] make a call of the params.
//! 4. A message that names a task answers the task's question, or begins the next run on the same thread.
//! 5. The gateway performs the call; the wire of the profile writes the answer or the stream.

mod endpoint;
pub mod langgraph;
mod prepare;
mod routes;

pub use prepare::{Langgraph, LanggraphProfile};
pub use routes::AssistantsService;

use dialects::JsonWire;
use gateway::product::{Prepared, ProductKind, Setup};

static WIRES: [&dyn JsonWire; 2] = [&langgraph::DOCUMENTED, &langgraph::CURRENT];

pub struct AssistantsProduct;

impl ProductKind for AssistantsProduct {
    fn name(&self) -> &'static str {
        "assistants"
    }

    fn prepare(&self, setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
        Ok(prepare::prepare(setup))
    }

    fn wires(&self) -> &'static [&'static dyn JsonWire] {
        &WIRES
    }
}
