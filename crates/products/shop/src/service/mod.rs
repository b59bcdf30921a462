//! The service: performs the rules of the crate `shop_rules` on a store.
//!
//! Every change is one commit: rows with the versions they were read in, stock and money as journal entries that leave no
//! account below zero, the search index, and the use of an idempotency key. A change that conflicts on a row reads again and
//! tries again; a buyer who is too late for the last unit gets an error with the number that is left.
//!
//! * `catalogue`: sites, products, imports, available stock
//! * `search`: search of products
//! * `carts`, `checkouts`, `orders`: from a cart to a sale
//! * `books`: lists for operators
//! * `payments`: the port for payments
//! * `skills`, `agent`: the store agent
//! * `admission`: the permissions that a message to the store agent needs, before a task exists
//! * `expiry`: expiry of carts and checkouts
//! * `verify`: the check of stock and money against the rows
//! * `records`: the stored records
//! * `secret`: random bytes, and the secret that tokens are derived from
//!
//! The store agent is an agent like any other: one message is one turn, and streams, lists, cancel and push are the
//! engine's. The id of a turn is its idempotency key, so that a turn that runs again creates no second cart or checkout. A
//! message that answers a question is read together with the earlier messages of its task, both by the turn and by the
//! permission check: an answer never needs less permission than the request.
//!
//! The service needs an engine, and an engine starts with its agents: [`ShopHandle`] is between them, and a recovered turn
//! waits there until the service has started. The agent is served at every mount; a system cannot have it as a node, because
//! no endpoint would check the sender there.

mod admission;
mod agent;
mod books;
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
pub(crate) use books::{ListPlace, OrderFilter, Stock};
pub use carts::{CartChange, OpenCart};
pub use catalogue::{Goods, Imported};
pub use checkouts::OpenCheckout;
pub use error::{Error, ShopEntity};
pub use ledger::Once;
pub use orders::Bought;
pub use payments::{OnPage, Payments};
pub use search::{LOOKED_AT, Search, SearchPage};
pub use verify::{ShopDifference, ShopReport};

/// The shops of all workspaces; cheap to clone.
#[derive(Clone)]
pub struct Shop {
    shared: Arc<Shared>,
}

/// Shows no content.
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
    /// Wakes the expiry task when a cart may expire earlier than the one it waits for.
    alarm: tokio::sync::Notify,
    /// Number of open carts of each site, and the time of the count.
    open: Mutex<HashMap<Slug, (u64, Time)>>,
}

/// Configuration of the shops.
#[derive(Clone, Debug, Default)]
pub struct ShopConfig {
    pub rules: ShopRules,
    /// Base of this server's URLs, such as `https://shop.example.com`; if it is empty, URLs are paths.
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
    /// The caller's tenant is its workspace; `None` for a caller without a credential.
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
    /// Starts the shops on the engine's store. `serves` is false for operators' commands: then no background task runs.
    pub async fn start(engine: Engine, config: ShopConfig, serves: bool) -> Result<Shop, Fault> {
        Shop::start_with(engine, config, serves, Arc::new(OnPage)).await
    }

    /// The same with another implementation of payments.
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

    /// A URL of this server.
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.config().base_url.trim_end_matches('/'))
    }
}
