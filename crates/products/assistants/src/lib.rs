//! Assistants: agents at the endpoint of an assistant server.

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
