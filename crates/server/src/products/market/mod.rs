//! The marketplace.

pub mod admin;
mod routes;
mod settings;

#[cfg(test)]
pub(crate) use routes::MarketAddress;
pub use routes::MarketService;
pub use settings::Uumit;

use std::sync::Arc;

use model::ports::billing::Settlement;

use crate::admin::AdminCommand;
use crate::product::ProductKind;

pub struct MarketProduct;

impl ProductKind for MarketProduct {
    fn name(&self) -> &'static str {
        "market"
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn settlement(&self) -> Option<Arc<dyn Settlement>> {
        Some(Arc::new(trade::MarketSettlement))
    }
}
