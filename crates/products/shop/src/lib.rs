//! The product `shop`: shops whose customers are agents and people.
//!
//! A workspace has sites; a site has a catalogue, carts, checkouts and orders. Agents buy through a store agent in Aly's
//! dialect of A2A 1.0, programs through a REST API, and people complete a checkout on an HTML page. A workspace is a tenant of
//! the gateway. The rules are pure and in the crate `shop_rules`; this crate performs them on a store and serves them.
//!
//! * [`routes`](ShopService): the paths of the product, and the endpoint that answers each
//! * [`aly`]: the store agent's wire and endpoint, `/api/a2a`
//! * `api`: operations of the admin API
//! * [`oauth`]: API keys and access tokens of workspaces, `/oauth`
//! * `storefront`: the REST API, `/api/storefront/v1`, `/api/ucp/v1` and `/api/x402`, and the checkout page, `/checkout`
//! * [`admission`]: the port that determines the permissions a message to the store agent needs
//! * [`service`]: catalogue, search, carts, checkouts, orders, skills, expiry, and the check of stock and money
//! * [`admin`]: the operator's command `shop`
//! * [`settings`](StoreAgentSettings): the settings of the endpoints
//!
//! # The path of a request
//!
//! 1. [`ShopService`] finds the endpoint of the path, below `/aly` or at the root.
//! 2. The endpoint identifies the caller: [`oauth`] reads API keys and access tokens, the gateway its own keys.
//! 3. A message to the store agent is decoded by [`aly`]. [`admission`] determines its scope and workspace, and the endpoint
//!    rejects it before a task exists. At the agent's other mounts a send guard does the same.
//! 4. The engine opens the task and runs [`service::StoreAgent`], which plans one skill and performs it on
//!    [`service::Shop`]. A REST request calls the same methods without a task.
//! 5. `Shop` reads rows, applies the rules, and commits the result once: rows, stock, money, search index, and the use of
//!    the idempotency key. A conflict on a row starts this step again.
//!
//! # Where stock and money move
//!
//! Both move only in journal entries of such a commit. Each place of a unit (`available`, `reserved`, `sold`) is an account
//! that cannot fall below zero:
//!
//! * `Shop::import` and `Shop::put_coupon` set the available number.
//! * `Shop::checkout` moves units from available to reserved; a cancelled or expired checkout moves them back.
//! * `Shop::complete` takes the payment ([`service::Payments`]), moves units to sold, and posts the total to the account of
//!   the workspace, in a book of the order's currency.
//! * `Shop::act_on_order` cancels, refunds or returns: it posts the total back, and restocks where goods come back.
//!
//! `Shop::verify` computes both from checkouts and orders and compares them with the accounts.
//!
//! # Secrets
//!
//! The token of a cart, checkout or order is its holder's only credential. It is part of paths, so the request log gets the
//! path without it. The store has only hashes of tokens, keys and client secrets. A grant is one record with all its tokens:
//! a lookup is one read, and its end is one commit. Clients, codes and grants name the key they were created with, so that
//! the revocation of a key is one write. The checkout page and OAuth's pages allow one style sheet by its hash and no script.

pub mod admin;
pub mod admission;
pub mod aly;
mod api;
pub mod config;
pub mod demo;
pub mod oauth;
mod prepare;
mod routes;
pub mod service;
mod settings;
mod storefront;

pub use oauth::OauthRules;
pub(crate) use routes::ShopEndpoint;
pub use routes::ShopService;
pub use settings::StoreAgentSettings;

pub use crate::aly::endpoint::check;

use engine::Engine;
use futures_util::future::BoxFuture;
use model::{AccessKey, Fault, TaskId};

use crate::oauth::{KeyKind, Oauth, RevokedKey};
use dialects::JsonWire;
use gateway::GatewayVersion;
use gateway::admin::AdminCommand;
use gateway::admin_api::ApiRoute;
use gateway::product::{Prepared, ProductKind, Setup};

static WIRES: [&dyn JsonWire; 1] = [&aly::WIRE];

/// The product's entry for the gateway.
pub struct ShopProduct;

impl ProductKind for ShopProduct {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn wires(&self) -> &'static [&'static dyn JsonWire] {
        &WIRES
    }

    fn prepare(&self, setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
        prepare::prepare(setup)
    }

    fn task_id(&self, shown: &str) -> Option<TaskId> {
        aly::own_id(shown).parse().ok()
    }

    fn scopes(&self) -> Vec<&'static str> {
        crate::aly::SCOPES.iter().map(|(name, _)| *name).collect()
    }

    fn admin(&self) -> &'static [AdminCommand] {
        &admin::COMMANDS
    }

    fn api(&self) -> &'static [ApiRoute] {
        &api::ROUTES
    }

    fn pages(&self, server: &GatewayVersion) -> &'static [&'static str] {
        if api::has_shops(server) { &api::PAGES } else { &[] }
    }

    fn key_revoked<'a>(&self, engine: &'a Engine, key: &'a AccessKey) -> BoxFuture<'a, Result<(), Fault>> {
        // Clients and grants created with the key end with it.
        let revoked = RevokedKey { kind: KeyKind::Operator, workspace: &key.tenant, id: &key.id };
        Box::pin(async move {
            Oauth::new(engine.clone(), OauthRules::default()).end_made_with(revoked).await?;
            Ok(())
        })
    }
}
