//! Systems of agents, and the resources that describe them.

pub mod admin;
mod routes;

pub(crate) use routes::SystemsService;

use crate::admin::AdminCommand;
use crate::product::ProductKind;

pub struct SystemsProduct;

impl ProductKind for SystemsProduct {
    fn name(&self) -> &'static str {
        "systems"
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }
}
