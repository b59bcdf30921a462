//! The market's service: performs the rules of the crate `market_rules` on a store.
//!
//! A purchase is a task that no turn drives. Each step of it is one commit: the transaction's row, the hold, the
//! journal's entries, the task's status and the timer of its next deadline. A step that loses a race reads again and
//! tries again, or fails with the new status.
//!
//! * `orders`, `sales`: orders, every step of a purchase, and sales that count against limits
//! * `bounded`: lists with a maximum length
//! * `offers`: capabilities for sale
//! * `quote`: the price of a purchase, and a person's confirmation in advance
//! * `demands`: demands of buyers, and matching
//! * `externals`, `notices`: agents that run elsewhere, and their webhooks
//! * `files`: delivered files, and tokens to download them
//! * `figures`: statistics of the market, and earnings of sellers
//! * `wallet`: balances, statements, credit, and the check of the ledger
//! * `accounts`: users, keys, logins and devices: authentication
//! * `webhooks`: one attempt to an address that a user chose
//! * `sellers`: work by machines (agents, callbacks, workers), and deadlines
//! * `strays`: recovery of purchases without a timer
//! * `billing`: agents with a price, and budgets
//! * `books`: pages of the journal, of accounts and of purchases, for operators
//! * `commit`, `records`: a step as a commit, and the stored records
//! * `idempotency`, `expiry`: repeated requests, and the removal of expired records
//!
//! A count that a limit is checked against is part of the commit. Sales of a capability with limits are one row with
//! the counts of its day and minute (`market_rules::quota`), replaced by every order against its version. For lists
//! with a bound (`bounded`: open demands, waiting devices) every addition raises the version of one record, which is
//! read before the list is counted. Bounds that only protect the store (notices that wait for a webhook) are counted
//! without that and can be passed by concurrent commits.
//!
//! A task that no turn has driven belongs to its product: the engine neither cancels nor removes it before the product
//! has ended it. The code that fires a timer replaces the timer it has read, and a step sets a timer only while the
//! record it depends on is unchanged. `strays` finds purchases without a timer.
//!
//! Values that follow from others are not stored: a balance is the sum of its lines, the hold and the entries of a
//! purchase follow from its row, the id of an entry from its name, so that the store refuses a second one. `verify`
//! recomputes all of it from the journal and the rows.
//!
//! Rows are records in lists. A user's purchases under way are in one list whatever their status, so that a step moves
//! nothing there; ended purchases are in a list per outcome. A change of a row touches only the lists it enters or
//! leaves.
//!
//! After each step `sellers` looks for the next step that needs no person (an agent's turn, a callback, an automatic
//! party of the demo). The timer of the step repeats that look, in any process. A repeated action is refused by the
//! rules.
//!
//! Receivers of a notice are read before the step and written with it, one record for each webhook and event. A process
//! takes a notice by postponing its next attempt against its version, so that one process delivers it.

mod accounts;
mod billing;
mod books;
mod bounded;
mod commit;
mod demands;
mod error;
mod expiry;
mod externals;
mod figures;
mod files;
mod idempotency;
mod notices;
mod offers;
mod orders;
mod quote;
mod records;
mod sales;
mod sellers;
mod strays;
mod wallet;
mod webhooks;

use std::sync::Arc;

use arc_swap::ArcSwap;
use engine::Engine;
use ledger::UserId;
use market_rules::{Actor, Via, autonomy, capability, transaction};
use model::ports::store::Store;
use model::{Fault, Time};
use web::outbound::{HttpPost, Post};

pub use accounts::{
    Credentials, Device, DeviceApproval, DeviceState, Issued, LoginTokens, NewApiKey, NewUser, Secrets, User,
};
pub use billing::{BilledAgent, BillingTerms, Budgets, EXTENSION as PRICE_EXTENSION, MarketSettlement};
pub(crate) use books::BalancedEntry;
pub use demands::{Matched, Nearest};
pub use error::{Error, MarketEntity, NotKnown};
pub use externals::{External, NewExternal, Webhook, WebhookEdit};
pub use figures::{Anomaly, Community, Income, PriceRange};
pub use files::{
    ANY_MEDIA, Allowed, DOWNLOADS, DeliverableLimits, EXPIRES_S, File, Granted, NamedFile, NotGiven, USUAL_DOWNLOADS,
    USUAL_EXPIRES_S, Upload,
};
pub use ledger::Once;
pub use notices::{Deliveries, Event, LostNotice};
pub use offers::{Edit, Filter, Invoked, Without};
pub use orders::{OrderRequest, PurchaseFeed};
pub use quote::{Quote, Token};
pub use sellers::{Job, JobAct, JobEvent, Jobs};
pub use wallet::{JournalEntry, MarketReport, Mismatch, StatementLine, Stats, Wallet};

/// The agent name of purchases. No agent of a config can have it. Stored.
pub const AGENT: &str = "uumit.market";
/// The dialect of purchases. Stored.
pub const DIALECT: &str = "uumit";

/// A handle on the market; cheap to clone.
#[derive(Clone)]
pub struct Market {
    shared: Arc<Shared>,
}

/// Logs show no fields.
impl std::fmt::Debug for Market {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Market(..)")
    }
}

struct Shared {
    engine: Engine,
    config: ArcSwap<MarketConfig>,
    secrets: Secrets,
    at_work: sellers::RunningSales,
    post: Arc<dyn Post>,
    /// Whether this process performs automatic steps.
    serves: bool,
    queues: orders::Queues,
    recent: orders::RecentOrders,
    grounds: orders::OrderInputs,
    notices: notices::NoticeQueue,
    quiet: externals::UsersWithoutAgents,
    /// Queues of uploads by seller and of downloads by token.
    files: orders::Queues,
    door: accounts::LoginThrottle,
    seen: accounts::KeyCache,
}

/// The configuration of a market.
#[derive(Clone, Debug)]
pub struct MarketConfig {
    pub tenant: Arc<str>,
    pub purchases: transaction::TransactionRules,
    pub capabilities: capability::CapabilityRules,
    /// Spending limits of users without their own.
    pub limits: autonomy::SpendingLimits,
    /// Lifetimes of access and refresh tokens.
    pub access_s: u64,
    pub refresh_s: u64,
    /// Delay of automatic steps of parties that act alone (see [`User::acts_alone`]). `None`: no party acts alone.
    pub acts_after_ms: Option<u64>,
    /// The secret that signs callbacks to sellers.
    pub callback_secret: Option<Arc<str>>,
    /// Agents of this server that sellers may use.
    pub agents: Vec<Arc<str>>,
    pub files: DeliverableLimits,
}

impl Default for MarketConfig {
    fn default() -> MarketConfig {
        MarketConfig {
            tenant: "default".into(),
            purchases: transaction::TransactionRules::default(),
            capabilities: capability::CapabilityRules::default(),
            limits: autonomy::SpendingLimits::default(),
            access_s: 3_600,
            refresh_s: 30 * 86_400,
            acts_after_ms: None,
            callback_secret: None,
            agents: Vec::new(),
            files: DeliverableLimits::default(),
        }
    }
}

/// An authenticated caller of the market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketCaller {
    pub tenant: Arc<str>,
    pub user: UserId,
    pub via: Via,
    /// The caller's spending limits.
    pub limits: autonomy::SpendingLimits,
}

impl MarketCaller {
    pub fn actor(&self) -> Actor {
        Actor::User { tenant: self.tenant.clone(), id: self.user.clone(), via: self.via }
    }
}

/// Selects a page of a list; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    pub page: u32,
    pub size: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged<T> {
    pub items: Vec<T>,
    pub total: u64,
    pub page: u32,
    pub size: u32,
    pub more: bool,
}

impl Market {
    /// Opens the market on the engine's store. `serves` is false for operators' commands: no automatic steps are taken
    /// then.
    pub async fn start(engine: Engine, config: MarketConfig, serves: bool) -> Result<Market, Fault> {
        Market::start_with(engine, config, serves, Arc::new(HttpPost::default())).await
    }

    /// As [`Market::start`], with the server's own attempts at webhooks.
    pub async fn start_with(
        engine: Engine,
        config: MarketConfig,
        serves: bool,
        post: Arc<dyn Post>,
    ) -> Result<Market, Fault> {
        let secrets = accounts::secrets(&engine).await?;
        let shared = Shared {
            engine,
            config: ArcSwap::from_pointee(config),
            secrets,
            at_work: sellers::RunningSales::default(),
            post,
            serves,
            queues: orders::Queues::default(),
            recent: orders::RecentOrders::default(),
            grounds: orders::OrderInputs::default(),
            notices: notices::NoticeQueue::default(),
            quiet: externals::UsersWithoutAgents::default(),
            files: orders::Queues::default(),
            door: accounts::LoginThrottle::default(),
            seen: accounts::KeyCache::default(),
        };
        let market = Market { shared: Arc::new(shared) };
        if serves {
            market.shared.engine.set_product(Arc::new(sellers::Clockwork(market.clone())));
            tokio::spawn(expiry::run(market.clone()));
            tokio::spawn(accounts::sweep(market.clone()));
            tokio::spawn(demands::sweep(market.clone()));
            tokio::spawn(notices::deliver(market.clone()));
            tokio::spawn(files::sweep(market.clone()));
            tokio::spawn(strays::walk(market.clone()));
        }
        Ok(market)
    }

    pub fn set_config(&self, config: MarketConfig) {
        self.shared.config.store(Arc::new(config));
    }

    pub fn config(&self) -> Arc<MarketConfig> {
        self.shared.config.load_full()
    }

    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.shared.engine.store()
    }

    pub(crate) fn serves(&self) -> bool {
        self.shared.serves
    }

    pub fn now(&self) -> Time {
        self.shared.engine.now()
    }
}
