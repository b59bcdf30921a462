//! Assistants: agents at the endpoint of an assistant server.

mod routes;

pub use routes::AssistantsService;

use crate::product::ProductKind;

pub struct AssistantsProduct;

impl ProductKind for AssistantsProduct {
    fn name(&self) -> &'static str {
        "assistants"
    }
}
