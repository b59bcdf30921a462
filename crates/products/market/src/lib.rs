//! The marketplace.

pub mod admin;
mod rest;
mod routes;
pub mod service;
mod settings;
pub mod uumit;

pub use routes::{MarketAddress, MarketService};
pub use settings::MarketSettings;

use std::sync::Arc;

use market_rules::TransactionId;
use model::TaskId;
use model::ports::billing::Settlement;

use gateway::admin::AdminCommand;
use gateway::product::ProductKind;
use http::HeaderName;

/// The user that a key of the market acts for.
pub(crate) static PLATFORM_USER: HeaderName = HeaderName::from_static("x-platform-user-id");

pub struct MarketProduct;

impl ProductKind for MarketProduct {
    fn name(&self) -> &'static str {
        "market"
    }

    fn task_id(&self, shown: &str) -> Option<TaskId> {
        shown.parse::<TransactionId>().ok().map(TaskId::from)
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn settlement(&self) -> Option<Arc<dyn Settlement>> {
        Some(Arc::new(crate::service::MarketSettlement))
    }
}
