//! The market: users offer capabilities for sale, buy them and are paid, over REST and over UUMit's dialect of A2A. The
//! same ledger bills the turns of agents that have a price.
//!
//! Modules:
//!
//! * [`service`]: the market on a store: users, capabilities, purchases, demands, wallets, billing. Everything else in this
//!   crate calls it.
//! * [`uumit`]: the JSON-RPC dialect, in which a purchase is a task; its codec, cards, errors and endpoint
//! * `rest`: the REST API below `/api/v1`, its route table and its OpenAPI document
//! * `routes`: the addresses of the product, and the requests that it owns at addresses shared with agents
//! * `settings`: settings of the endpoints
//! * [`admin`]: operators' commands (`rialto market`)
//! * `api`: operations of the admin API
//!
//! The rules are a crate of their own, [`market_rules`], which is pure: it computes what a step changes. Amounts, entries
//! and holds are those of the crate [`ledger`].
//!
//! # The path of a purchase
//!
//! 1. A request arrives at `rest` (`POST /api/v1/transactions`) or at [`uumit`] (`tasks/send`). The endpoint authenticates
//!    the caller with [`service::Market::who`] and reads the idempotency key.
//! 2. [`service::Market::order`] reads the capability, the buyer's balance and its spending limits, and asks
//!    [`market_rules::Transaction::create`] for the step. An agent above its limits needs a person's confirmation first.
//! 3. The step becomes one commit of the store: the transaction's row, ledger entries, the status of the task, and the
//!    timer of the next deadline. On a conflict the rows are read again and the step is computed again.
//! 4. The seller accepts and delivers: a person through REST, or a machine (an agent of this server, a callback, or the
//!    seller's own program), which `service::sellers` drives after each step and again when the timer fires.
//! 5. The buyer confirms, or the deadline does. The purchase is settled. Every step is a [`market_rules::TransactionStep`],
//!    committed in the same way by [`service::Market::act`].
//!
//! # Where money moves
//!
//! Only in commits, as ledger entries whose lines add up to zero:
//!
//! * `service::wallet`: credit from outside, by an operator's command
//! * `service::commit`: the entries of a purchase: the freeze moves the price from `available` to `frozen` of the buyer; the
//!   settlement moves it to the seller and the platform's commission; a refund moves it back
//! * `service::billing`: the hold for an agent's turn, and its settlement when the turn ends
//!
//! `rialto market verify` recomputes every balance and hold from the journal (`service::wallet::verify`).

pub mod admin;
mod api;
pub mod config;
pub mod demo;
mod prepare;
pub mod pricing;
mod rest;
mod routes;
pub mod service;
mod settings;
pub mod uumit;

pub use routes::{MarketAddress, MarketService};
pub use settings::MarketSettings;

use std::sync::Arc;

use market_rules::TransactionId;
use model::ports::billing::Settlement;
use model::{Fault, Task, TaskId};

use futures_util::future::BoxFuture;
use gateway::GatewayVersion;
use gateway::admin::AdminCommand;
use gateway::admin_api::ApiRoute;
use gateway::product::{MoneyOfTask, Prepared, ProductKind, Setup};
use http::HeaderName;

/// The header that names the user a key acts for.
pub(crate) static PLATFORM_USER: HeaderName = HeaderName::from_static("x-platform-user-id");

/// The market as a product of the gateway.
pub struct MarketProduct;

impl ProductKind for MarketProduct {
    fn name(&self) -> &'static str {
        "market"
    }

    fn prepare(&self, setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
        prepare::prepare(setup)
    }

    fn task_id(&self, shown: &str) -> Option<TaskId> {
        shown.parse::<TransactionId>().ok().map(TaskId::from)
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn api(&self) -> &'static [ApiRoute] {
        &api::ROUTES
    }

    fn pages(&self, server: &GatewayVersion) -> &'static [&'static str] {
        if MarketService::settings(server).is_some() { &api::PAGES } else { &[] }
    }

    fn money<'a>(
        &'a self,
        server: &'a GatewayVersion,
        task: &'a Task,
    ) -> BoxFuture<'a, Result<Vec<MoneyOfTask>, Fault>> {
        Box::pin(api::money(server, task))
    }

    fn settlement(&self) -> Option<Arc<dyn Settlement>> {
        Some(Arc::new(crate::service::MarketSettlement))
    }
}
