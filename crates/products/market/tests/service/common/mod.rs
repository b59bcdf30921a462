//! The kit of the tests: a market on a store, with users, money and capabilities.

mod books;
mod seal;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Engine, SideWrites};
use ledger::{AccountId, Row, TransactionId, UserId, Ut};
use market::service::{Error, Market, MarketCaller, MarketConfig, NewUser, OrderRequest};
use market_rules::capability::{CapabilityDraft, CapabilityRules, DeliveryMode, Served, Status as Offered};
use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Actor, Capability, CapabilityId, Transaction, Via, autonomy};
use model::ports::agent::Agent;
use model::{Entry, Expect, Json, Limits, Listed, Posting, RecordChange, Time};
use stores::sqlite::{Options, SqliteDurability};
use stores::{memory, postgres, sqlite};
use tempfile::TempDir;
use web::outbound::Post;

pub(crate) use books::{adds_up, balance, frozen, purchases};
pub(crate) use stores::crashable::CrashableStore;
pub(crate) use workers::{Letter, Phone, SellerSocket, acting, done, echo};

pub(crate) const TENANT: &str = "default";
/// However slow the machine, a case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The setting of a test: data that outlasts the process, and the process that has it open.
pub(crate) struct House {
    data: Data,
    crashable: Option<Arc<CrashableStore>>,
}

enum Data {
    Memory(Arc<memory::MemoryStore>),
    Sqlite(TempDir),
}

/// Runs a case on each store.
pub(crate) async fn on_both_stores(case: impl AsyncFn(House)) {
    for (name, house) in [("memory", House::memory as fn() -> House), ("sqlite", House::sqlite)] {
        eprintln!("on the {name} store:");
        let done = tokio::time::timeout(PATIENCE, case(house())).await;
        assert!(done.is_ok(), "the case hangs on the {name} store");
    }
}

/// Markets of several processes on one PostgreSQL. The database is dropped with the value.
pub(crate) async fn replicas<const N: usize>(config: &MarketConfig) -> (cluster::Database, [Fair; N]) {
    let database = cluster::Cluster::shared().database();
    let mut fairs = Vec::with_capacity(N);
    for _ in 0..N {
        let store = Arc::new(postgres::PostgresStore::open(postgres::Options::new(database.url())).await.unwrap());
        let settlement = Arc::new(market::service::MarketSettlement);
        let engine = Engine::builder(store).limits(quick()).settlement(Some(settlement)).start().await.unwrap();
        fairs.push(Fair { market: Market::start(engine, config.clone(), true).await.unwrap() });
    }
    (database, fairs.try_into().unwrap_or_else(|_| unreachable!("as many as were asked for")))
}

pub(crate) fn quick() -> Limits {
    Limits { cancel_grace_ms: 50, drain_ms: 200, ..Limits::default() }
}

impl House {
    pub(crate) fn memory() -> House {
        House { data: Data::Memory(Arc::new(memory::MemoryStore::new())), crashable: None }
    }

    pub(crate) fn sqlite() -> House {
        House { data: Data::Sqlite(tempfile::tempdir().unwrap()), crashable: None }
    }

    fn open(&mut self) -> Arc<CrashableStore> {
        assert!(self.crashable.is_none(), "one process at a time");
        let crashable = match &self.data {
            Data::Memory(store) => CrashableStore::new(store.clone(), false),
            Data::Sqlite(folder) => {
                let options = Options { durability: SqliteDurability::Relaxed, ..Options::new(folder.path()) };
                CrashableStore::new(Arc::new(sqlite::SqliteStore::open(options).unwrap()), true)
            }
        };
        self.crashable = Some(crashable.clone());
        crashable
    }

    /// A market on the data, with these agents.
    pub(crate) async fn fair(&mut self, agents: Vec<Arc<dyn Agent>>, config: MarketConfig) -> Fair {
        let settlement = Arc::new(market::service::MarketSettlement);
        let started =
            Engine::builder(self.open()).agents(agents).limits(quick()).settlement(Some(settlement)).start().await;
        let engine = started.unwrap();
        let market = Market::start(engine, config, true).await.unwrap();
        Fair { market }
    }

    /// The same, with the test's own callbacks.
    pub(crate) async fn fair_with(
        &mut self,
        agents: Vec<Arc<dyn Agent>>,
        config: MarketConfig,
        post: Arc<dyn Post>,
    ) -> Fair {
        let engine = Engine::builder(self.open()).agents(agents).limits(quick()).start().await.unwrap();
        let market = Market::start_with(engine, config, true, post).await.unwrap();
        Fair { market }
    }

    /// The same, with a seal for the secrets of webhooks.
    pub(crate) async fn fair_told(&mut self, config: MarketConfig, post: Arc<dyn Post>) -> Fair {
        let engine = Engine::builder(self.open())
            .limits(quick())
            .webhook_sender(Some(Arc::new(seal::Seal)))
            .start()
            .await
            .unwrap();
        Fair { market: Market::start_with(engine, config, true, post).await.unwrap() }
    }

    /// Another process on the same data, which nothing ends.
    pub(crate) async fn another(&self, config: MarketConfig, post: Arc<dyn Post>) -> Fair {
        let Data::Memory(store) = &self.data else { panic!("one process at a time has that open") };
        let crashable = CrashableStore::new(store.clone(), false);
        let engine = Engine::builder(crashable)
            .limits(quick())
            .webhook_sender(Some(Arc::new(seal::Seal)))
            .start()
            .await
            .unwrap();
        Fair { market: Market::start_with(engine, config, true, post).await.unwrap() }
    }

    /// A market of an operator's command, without automatic steps.
    pub(crate) async fn fair_offline(&mut self, agents: Vec<Arc<dyn Agent>>) -> Fair {
        let engine = Engine::builder(self.open()).agents(agents).limits(quick()).start().await.unwrap();
        let market = Market::start(engine, MarketConfig::default(), false).await.unwrap();
        Fair { market }
    }

    /// The same in memory, with paused time that advances when all tasks sleep.
    pub(crate) async fn paused(config: MarketConfig, post: Option<Arc<dyn Post>>) -> Fair {
        House::paused_with(config, post, None).await
    }

    /// The same, with a seal for the secrets of webhooks.
    pub(crate) async fn paused_told(config: MarketConfig, post: Arc<dyn Post>) -> Fair {
        House::paused_with(config, Some(post), Some(Arc::new(seal::Seal))).await
    }

    async fn paused_with(
        config: MarketConfig,
        post: Option<Arc<dyn Post>>,
        courier: Option<Arc<dyn model::ports::webhook::WebhookSender>>,
    ) -> Fair {
        let mut house = House::memory();
        let crashable = house.open();
        crashable.go_by_sleepers();
        let engine = Engine::builder(crashable)
            .agents(vec![echo()])
            .limits(quick())
            .webhook_sender(courier)
            .start()
            .await
            .unwrap();
        let market = match post {
            Some(post) => Market::start_with(engine, config, true, post).await.unwrap(),
            None => Market::start(engine, config, true).await.unwrap(),
        };
        Fair { market }
    }

    /// `kill -9`: ends the process at once.
    pub(crate) async fn kill(&mut self) {
        let crashable = self.crashable.take().unwrap();
        crashable.die();
        if matches!(self.data, Data::Sqlite(_)) {
            crashable.close_inner().await;
        }
    }
}

/// A market with users.
#[derive(Clone)]
pub(crate) struct Fair {
    pub(crate) market: Market,
}

pub(crate) fn ut(whole: i64) -> Ut {
    Ut::from_hundredths(whole * 100)
}

pub(crate) fn json(value: &serde_json::Value) -> Json {
    Json::from_value(value)
}

/// A caller without spending limits.
pub(crate) fn caller(user: &str, via: Via) -> MarketCaller {
    let limits = autonomy::SpendingLimits {
        per_call: ut(1_000_000),
        daily: ut(100_000_000),
        ..autonomy::SpendingLimits::default()
    };
    MarketCaller { tenant: TENANT.into(), user: UserId::from(user), via, limits }
}

pub(crate) fn agent_of(user: &str) -> MarketCaller {
    caller(user, Via::Agent)
}

pub(crate) fn person(user: &str) -> Actor {
    Actor::person(TENANT, &UserId::from(user))
}

/// The draft of a capability with this kind of seller and a price of 120.
pub(crate) fn offer(served: Served) -> CapabilityDraft {
    CapabilityDraft {
        title: Some("OCR of invoices".into()),
        description: Some("Reads an invoice".into()),
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        price_ut: Json::parse("120"),
        served: Some(served),
        ..CapabilityDraft::default()
    }
}

impl Fair {
    pub(crate) fn engine(&self) -> &Engine {
        self.market.engine()
    }

    pub(crate) async fn user(&self, id: &str, acts_alone: bool) {
        let new = NewUser { id: Some(UserId::from(id)), acts_alone, ..NewUser::default() };
        self.market.open_user(new).await.unwrap();
    }

    /// Puts a capability of the seller's on the market.
    pub(crate) async fn sells(&self, seller: &str, id: &str, draft: CapabilityDraft) -> CapabilityId {
        let terms = draft.check(&CapabilityRules { private_callbacks: true, review: false }).unwrap();
        let (tenant, now): (Arc<str>, Time) = (TENANT.into(), self.market.now());
        let mut capability = Capability::new(&tenant, CapabilityId::from(id), UserId::from(seller), terms, now);
        capability.status = Offered::Active;
        let put = RecordChange::Put {
            kind: "market/capability".into(),
            key: format!("{TENANT}\u{1f}{id}").into(),
            expect: Expect::Absent,
            body: capability.to_row().into(),
            lists: vec![Listed { list: "all".into(), rank: now.0 }],
        };
        self.engine().keep(SideWrites { records: vec![put], ..SideWrites::default() }).await.unwrap();
        capability.id
    }

    pub(crate) async fn sells_async(&self, seller: &str, id: &str, draft: CapabilityDraft) -> CapabilityId {
        self.sells(seller, id, CapabilityDraft { delivery_mode: Some(DeliveryMode::Async.name().into()), ..draft })
            .await
    }

    /// Money from outside.
    pub(crate) async fn has(&self, user: &str, amount: i64) {
        let (tenant, user): (Arc<str>, UserId) = (TENANT.into(), UserId::from(user));
        let postings = vec![
            Posting {
                account: AccountId::available(&tenant, &user).key().into(),
                amount: amount * 100,
                floor: Some(0),
            },
            Posting { account: AccountId::outside(&tenant).key().into(), amount: -amount * 100, floor: None },
        ];
        let entry = Entry { id: uuid::Uuid::now_v7(), at: Time(1), body: Bytes::from_static(b"\x01{}"), postings };
        self.engine().keep(SideWrites { entries: vec![entry], ..SideWrites::default() }).await.unwrap();
    }

    pub(crate) async fn order(&self, buyer: &str, capability: &CapabilityId) -> Result<Transaction, Error> {
        self.market.order(&agent_of(buyer), OrderRequest::of(capability.clone()), None).await
    }

    pub(crate) async fn order_with(
        &self,
        buyer: &str,
        capability: &CapabilityId,
        input: &serde_json::Value,
    ) -> Transaction {
        let wish = OrderRequest { input: Some(json(input)), ..OrderRequest::of(capability.clone()) };
        self.market.order(&agent_of(buyer), wish, None).await.unwrap()
    }

    pub(crate) async fn act(
        &self,
        user: &str,
        id: TransactionId,
        action: TransactionAction,
    ) -> Result<Transaction, Error> {
        self.market.act(&person(user), id, action, None).await
    }

    pub(crate) async fn row(&self, id: TransactionId) -> Transaction {
        self.market.transaction(&Actor::Platform, id).await.unwrap()
    }

    /// Follows the purchase until it has this status; fails if it ends otherwise.
    pub(crate) async fn comes_to(&self, id: TransactionId, status: Status) -> Transaction {
        let mut follow = self.market.follow(&Actor::Platform, id).await.unwrap();
        let mut last = None;
        while let Some(row) = follow.next().await {
            let row = row.unwrap();
            if row.status == status {
                return row;
            }
            last = Some(row);
        }
        panic!("it never was {status:?}; in the end it is {last:?}")
    }
}

pub(crate) fn deliver(result: &serde_json::Value) -> TransactionAction {
    TransactionAction::Deliver { result: Some(json(result)), deliverables: Vec::new() }
}

/// Polls until the condition holds.
pub(crate) async fn until(holds: impl AsyncFnMut() -> bool) {
    until_by(Duration::from_millis(1), holds).await;
}

/// The same, with another interval.
pub(crate) async fn until_by(step: Duration, mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(step).await;
    }
}
