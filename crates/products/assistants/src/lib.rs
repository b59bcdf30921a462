//! Assistants: agents at the endpoint of an assistant server.

mod endpoint;
pub mod langgraph;
mod routes;

pub use routes::AssistantsService;

use dialects::JsonWire;
use gateway::product::ProductKind;

static WIRES: [&dyn JsonWire; 2] = [&langgraph::DOCUMENTED, &langgraph::CURRENT];

pub struct AssistantsProduct;

impl ProductKind for AssistantsProduct {
    fn name(&self) -> &'static str {
        "assistants"
    }

    fn wires(&self) -> &'static [&'static dyn JsonWire] {
        &WIRES
    }
}
