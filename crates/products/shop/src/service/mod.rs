//! The shop at work: the rules of the crate `shop`, carried out on a store.
//!
//! Every change is one commit: rows with the versions they were read in, stock and money as entries that leave no account
//! below zero, the search index, and the use of an idempotency key. A change that loses a race for a row reads again and
//! tries again; a buyer who comes too late for the last piece is told how many are left.
//!
//! * `catalogue`: sites, products, imports, what is left of everything
//! * `search`: what is found
//! * `carts`, `checkouts`, `orders`: from a wish to a sale
//! * `payments`: who takes the money
//! * `skills`, `agent`: the store agent
//! * `storekeeper`: what a message to it needs, before there is a task
//! * `expiry`: what expires
//! * `verify`: whether stock and money are what the rows say
//! * `records`: the stored records
//!
//! The store agent is an agent, not a product that moves tasks: one message is one turn, and streams, lists, cancel and
//! push are the engine's. A turn that runs again is known by its id, so that no cart or checkout is made twice. A
//! message that answers a question is read together with the earlier messages of its task, by the turn and by the
//! endpoint that checks what the sender may do: an answer never needs less than the request.
//!
//! Shops need an engine, and an engine starts with its agents: between them is a [`ShopHandle`], at which a recovered
//! turn waits until the shops are open. The agent is at every mount; a system cannot have it as a node, because no
//! endpoint would check the sender there.

mod admission;
mod agent;
mod carts;
mod catalogue;
mod checkouts;
mod error;
mod expiry;
mod orders;
mod payments;
mod records;
mod search;
mod secret;
mod skills;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use engine::Engine;
use model::ports::store::Store;
use model::{Fault, Time};
use parking_lot::Mutex;
use shop_rules::{ShopRules, Slug, WorkspaceId};

pub use agent::{NAME as AGENT, ShopHandle, StoreAgent};
pub use carts::{CartChange, OpenCart};
pub use catalogue::{Goods, Imported};
pub use checkouts::OpenCheckout;
pub use error::{Error, ShopEntity};
pub use ledger::Once;
pub use orders::Bought;
pub use payments::{OnPage, Payments};
pub use search::{LOOKED_AT, Search, SearchPage};
pub use verify::{ShopDifference, ShopReport};

/// A handle on the shops; cheap to clone.
#[derive(Clone)]
pub struct Shop {
    shared: Arc<Shared>,
}

/// Nothing of it is for logs.
impl std::fmt::Debug for Shop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shop(..)")
    }
}

struct Shared {
    engine: Engine,
    config: ArcSwap<ShopConfig>,
    payments: Arc<dyn Payments>,
    secret: secret::TokenSecret,
    /// Rung when something expires earlier than was thought.
    alarm: tokio::sync::Notify,
    /// Carts of each site that are open, as they were last counted.
    open: Mutex<HashMap<Slug, (u64, Time)>>,
}

/// How these shops deal.
#[derive(Clone, Debug, Default)]
pub struct ShopConfig {
    pub rules: ShopRules,
    /// The base of this server's addresses, such as `https://shop.example.com`; without it they are paths.
    pub base_url: String,
}

/// A caller with a credential of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceCaller {
    pub workspace: WorkspaceId,
    /// The scopes of the credential; empty means all.
    pub scopes: Arc<[String]>,
}

impl WorkspaceCaller {
    /// To the rest of the server a workspace is a tenant.
    pub fn of(caller: &model::Caller) -> Option<WorkspaceCaller> {
        caller
            .authenticated
            .then(|| WorkspaceCaller { workspace: WorkspaceId(caller.tenant.clone()), scopes: caller.scopes.clone() })
    }

    pub fn may(&self, scope: &str) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|had| had == scope)
    }
}

impl Shop {
    /// Opens the shops on the engine's store. `serves` is false for operators' commands: nothing acts by itself then.
    pub async fn start(engine: Engine, config: ShopConfig, serves: bool) -> Result<Shop, Fault> {
        Shop::start_with(engine, config, serves, Arc::new(OnPage)).await
    }

    /// The same, with money taken in a way of one's own.
    pub async fn start_with(
        engine: Engine,
        config: ShopConfig,
        serves: bool,
        payments: Arc<dyn Payments>,
    ) -> Result<Shop, Fault> {
        let secret = secret::TokenSecret::load(&engine).await?;
        let shared = Shared {
            engine,
            config: ArcSwap::from_pointee(config),
            payments,
            secret,
            alarm: tokio::sync::Notify::new(),
            open: Mutex::default(),
        };
        let shop = Shop { shared: Arc::new(shared) };
        if serves {
            tokio::spawn(expiry::run(shop.clone()));
        }
        Ok(shop)
    }

    pub fn set_config(&self, config: ShopConfig) {
        self.shared.config.store(Arc::new(config));
    }

    pub fn config(&self) -> Arc<ShopConfig> {
        self.shared.config.load_full()
    }

    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.shared.engine.store()
    }

    pub fn now(&self) -> Time {
        self.shared.engine.now()
    }

    /// An address of this server.
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.config().base_url.trim_end_matches('/'))
    }
}
